use std::collections::BTreeSet;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use tokio::sync::watch;

use steadfast_core::Policy;
use steadfast_core::clock::Clock as _;
use steadfast_core::internal::policy::Outcome;
use steadfast_core::operation::record::Filter;
use steadfast_core::policy::{Backoff, Jitter};
use steadfast_core::transport::Answer;

use super::super::member::{Has, Next};
use super::super::places::Places;
use super::*;
use crate::client::Client;
use crate::engine::Shutdown;
use crate::testkit::{ScriptedTransport, TestClock};
use crate::vendor::Stripe;

/// A member of sixteen places, what it has under way, and which it has taken so far.
struct Bench {
    clock: TestClock,
    member: Member,
    under_way: UnderWay,
    seen: BTreeSet<String>,
}

impl Bench {
    /// The vendor gives these statuses, and then the last one for ever.
    fn of(statuses: &[u16]) -> Bench {
        let clock = TestClock::new();
        clock.advance(MINUTE);
        let answer = |status| Answer::new(StatusCode::from_u16(status).unwrap(), HeaderMap::new(), "{}");
        let network =
            statuses.iter().fold(ScriptedTransport::new(), |network, status| network.status(*status));
        let network = network.always(answer(*statuses.last().unwrap()));
        let client = Client::builder(Stripe::new("sk_test_123")).transport(network).clock(clock.clone());
        let client = client
            .policy(Policy::background().backoff(Backoff::ladder([MINUTE]).jitter(Jitter::Equal)))
            .build()
            .unwrap();
        let (_stop, stopped) = watch::channel(false);
        Bench {
            clock,
            member: Member::new(&client, Places::new(16, &Arc::default())),
            under_way: UnderWay::new(["stripe".to_owned()].into_iter(), Shutdown::when(stopped)),
            seen: BTreeSet::new(),
        }
    }

    /// So many, each due a moment after the one before: `c1`, `c2` …
    async fn enqueue(&self, resource: &str, numbers: std::ops::RangeInclusive<usize>) {
        for number in numbers {
            let key = format!("{}{number}", &resource[..1]);
            let call = self.member.client.post(&format!("/v1/{resource}")).key(key).form(&[("amount", "1")]);
            call.enqueue().await.unwrap();
            self.clock.advance(Duration::from_millis(1));
        }
    }

    /// The keys of what it takes, sorted. None of it is sent yet.
    async fn take(&mut self, limit: usize) -> String {
        self.member.has = Has { due: true, lapsed: false };
        let taken = self.member.take(limit, &mut self.under_way, 0).await.unwrap();
        let filter = Filter { phases: vec![Phase::InProgress], ..Filter::default() };
        let rows = self.member.client.engine.store.list(&filter, None, 100).await.unwrap().rows;
        let keys = rows.iter().map(|row| row.id.key.as_str().to_owned());
        let new: Vec<_> = keys.filter(|key| self.seen.insert(key.clone())).collect();
        assert_eq!(new.len(), taken);
        new.join(" ")
    }

    /// Sends what was taken, and waits for longer than what failed does.
    async fn send(&mut self) {
        while !self.under_way.is_empty() {
            tokio::select! {
                biased;
                () = self.under_way.some_end() => {}
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_millis(100)),
            }
        }
        self.seen.clear();
        self.clock.advance(2 * MINUTE);
    }

    fn meets(&self, route: &str, outcomes: &[Outcome]) {
        let (gates, now) = (&self.member.client.engine.gates, self.clock.now());
        for (call, outcome) in (0..).zip(outcomes) {
            gates.admit_to(Some(route), now).unwrap().settle_to(route, Some(call), *outcome, now);
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Neither do probes keep a single start from what is well, nor that them from a start, nor one end the other.
#[tokio::test]
async fn probes_have_half_of_the_starts_and_are_of_both_ends() {
    let mut bench = Bench::of(&[200]);
    bench.meets("POST /v1/charges", &[Outcome::Success]);
    bench.meets("POST /v1/refunds", &[Outcome::Failure; 5]);
    bench.enqueue("refunds", 1..=9).await;
    bench.enqueue("charges", 1..=9).await;
    bench.clock.advance(MINUTE);
    for (limit, taken) in
        [(1, "r9"), (1, "c1"), (1, "r1"), (1, "c2"), (4, "r2 r8 c3 c4"), (8, "r3 r4 r7 c5 c6 c7 c8 c9")]
    {
        assert_eq!(bench.take(limit).await, taken);
    }
    assert_eq!(bench.member.again_in(), Some(PROBE_GAP), "then the next probes go");
}

/// Where some fail, one in eight is one that a process held before, also of single ones, and what there is none of is
/// no place lost.
#[tokio::test]
async fn what_failed_before_has_a_part_beside_what_did_not() {
    let mut bench = Bench::of(&[503, 503, 200]);
    bench.enqueue("charges", 1..=2).await;
    assert_eq!(bench.take(2).await, "c1 c2");
    bench.send().await;
    bench.enqueue("refunds", 1..=9).await;
    bench.member.takes = 6;
    for (limit, taken) in [(1, "r"), (1, "c"), (8, "crrrrrrr")] {
        let keys = bench.take(limit).await;
        assert_eq!(keys.chars().filter(|letter| letter.is_alphabetic()).collect::<String>(), taken);
    }
    bench.member.takes = 7;
    assert_eq!(bench.take(1).await, "r9", "it is the others' turn, and there are none");
}

/// They need not wait for the circuit: the vendor may be well but for what fails.
#[tokio::test]
async fn while_the_circuit_is_open_one_of_a_route_that_has_not_failed_is_taken_each_two_seconds() {
    let mut bench = Bench::of(&[200]);
    bench.enqueue("refunds", 1..=9).await;
    bench.enqueue("charges", 1..=9).await;
    for (round, failures) in [5, 1, 1, 1, 1].into_iter().enumerate() {
        bench.meets("POST /v1/refunds", &vec![Outcome::Failure; failures]);
        assert_eq!(bench.member.room(0), Ok(1));
        assert_eq!(bench.take(1).await, format!("c{}", round + 1));
        let next = bench.member.room(0);
        let until = bench.clock.now().plus(Duration::from_secs(2));
        assert!(matches!(next, Err(Next::At(at)) if at == until || (round < 2 && at < until)), "{next:?}");
        bench.clock.advance(MINUTE);
    }
    let places = bench.member.places.hold(16);
    assert_eq!((bench.member.room(0), places.len()), (Err(Next::Place), 11));
}

/// One at a time, and of the routes in turn: the other's may be accepted again.
#[tokio::test]
async fn a_held_account_is_probed_by_one_of_a_route_that_was_not_refused() {
    let mut bench = Bench::of(&[401]);
    bench.enqueue("charges", 1..=1).await;
    bench.enqueue("refunds", 1..=1).await;
    assert_eq!(bench.take(8).await, "c1 r1");
    bench.send().await;
    bench.enqueue("charges", 2..=3).await;
    bench.enqueue("refunds", 2..=2).await;
    bench.enqueue("charges", 4..=5).await;
    for taken in ["c5", "r2"] {
        assert_eq!(bench.take(8).await, taken);
        bench.send().await;
    }
}
