//! Lookups and last words under trouble: each is a seed of the world that broke a promise, as the smallest case of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::clock::Clock as _;
use steadfast::operation::record::{Declined, Filter, Phase, Record, State, Transition};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{BigCommerce, Postmark, Vendor};
use steadfast::{Disposition, Effect, Obtained};

use support::acme::Acme;
use support::commands;
use support::rig::{Rig, secs};
use support::trouble::{Trouble, Troubled};

const HOUR: Duration = Duration::from_secs(3600);

async fn phase(store: &dyn Store) -> Phase {
    let page = store.list(&Filter::default(), None, 2).await.expect("works");
    assert_eq!(page.rows.len(), 1);
    page.rows[0].phase
}

/// A5: Seeds 10 and 5100: three 304s from a proxy, or three pages with status 200, were three answers that could not tell,
/// and the operation was a dead letter within two minutes.
#[tokio::test]
async fn what_a_proxy_says_to_a_lookup_is_no_answer() {
    let page = |status: u16, body: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("text/html"));
        Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_owned())
    };
    for answer in [
        page(304, ""),
        page(200, "<html>welcome</html>"),
        page(200, "{\"message\":\"welcome\"}"),
        page(200, "[1]"),
    ] {
        let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."});
        is_asked_again(Postmark::new("token"), "/email", &mail, &answer).await;
        let order = json!({"products": [{"product_id": 1, "quantity": 1}]});
        is_asked_again(BigCommerce::new("abc123", "token"), "/v2/orders", &order, &answer).await;
        let brand = json!({"name": "Mug"});
        is_asked_again(BigCommerce::new("abc123", "token"), "/v3/catalog/brands", &brand, &answer).await;
    }
}

async fn is_asked_again(vendor: impl Vendor, path: &str, body: &Value, answer: &Answer) {
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).always(answer.clone());
    let Rig { client, store, .. } = Rig::new(vendor, network);
    let told = client.post(path).key("k").json(body).send().await.expect_err("nobody knows yet");
    assert!(!told.is_dead_letter(), "{path}, {answer:?}: {told}");
    assert!(matches!(told.disposition(), Disposition::Continues { at: Some(_) }), "{told}");
    assert_eq!((told.effect(), phase(&*store).await), (Effect::Unknown, Phase::Scheduled));
}

/// D11: Seed 3175: a file was locked for 23 s. The lease lasted for 35, and the answer was dropped after 20.
#[tokio::test]
async fn an_answer_is_written_down_until_the_lease_is_over() {
    // Doubled from 50 ms to 2 s, the 30th try is 51 s after the first; the lease lasts for 60 s.
    let trouble = [Trouble::Fail; 30];
    for deadline in [secs(10), secs(120)] {
        let store = Arc::new(Troubled::default());
        let transport = ScriptedTransport::new().status(200);
        let rig = Rig::of(Acme::new()).network(transport).store(Arc::clone(&store)).build();
        store.transitions(trouble);
        let told = rig.charge().deadline(deadline).send().await;
        match told {
            Ok(reply) => assert_eq!((reply.status().as_u16(), deadline), (200, secs(120))),
            Err(error) => {
                assert_eq!((error.is_store(), error.effect()), (true, Effect::Applied), "{error}");
                assert_eq!(deadline, secs(10), "{error}");
                rig.clock.latency(secs(49)).await;
            }
        }
        let again = rig.charge().send().await.expect("on record");
        assert_eq!((again.obtained(), rig.network.requests().len()), (Obtained::Replayed, 1));
    }
}

/// A store whose caller stands still for a while behind the write that lets go of an operation.
#[derive(Debug)]
struct Late {
    store: Memory,
    clock: TestClock,
    stands_still: Duration,
    /// Whether somebody else takes the operation meanwhile.
    is_taken: bool,
}

impl Late {
    async fn pass(&self) {
        self.clock.advance(self.stands_still);
        if self.is_taken {
            let take = commands::takeover(Phase::Scheduled, self.clock.wall());
            assert_eq!(self.store.take(take).await.expect("works").len(), 1);
        }
    }
}

/// D7: Seed 14600: a host stood still for 18 s behind the write that let go of an order. Another host had delivered it by
/// then, and its caller was told that it had no effect.
#[tokio::test]
async fn none_is_not_said_of_what_somebody_else_may_have_sent_since() {
    for (stands_still, is_taken, effect) in [
        (secs(40), true, Effect::Unknown),
        (secs(40), false, Effect::None),
        (Duration::ZERO, false, Effect::None),
    ] {
        let clock = TestClock::auto();
        let network = ScriptedTransport::new().status(429).header("retry-after", "28");
        let setup = Rig::of(Acme::new()).network(network).clock(&clock);
        let client = setup.store(Late { store: Memory::new(), clock, stands_still, is_taken }).client();
        let call = client.post("/charges").key("k").json(&json!({"amount": 4711}));
        let told = call.deadline(secs(10)).send().await.expect_err("out of time");
        assert!(told.is_deadline(), "{told}");
        assert!(matches!(told.disposition(), Disposition::Continues { at: Some(_) }), "{told}");
        assert_eq!(told.effect(), effect, "{stands_still:?}: {told}");
    }
}

/// A5: Seeds 1457 and 3367: a clock that was set a day ahead ended in one minute the day in which lookups are repeated.
#[tokio::test]
async fn lookups_are_not_given_up_because_a_clock_is_a_day_ahead() {
    let rig = Rig::new(Acme::searchable(), ScriptedTransport::new().fail(SendErrorKind::Reset));
    rig.answers(|network| (0..4_000).fold(network, |network, _| network.status(503)));
    rig.charge().send().await.expect_err("the vendor is away");
    for by in [25 * HOUR, 50 * HOUR] {
        rig.clock.jump_wall(by);
        rig.client.recover(1).await.expect("works");
        assert_eq!(phase(&*rig.store).await, Phase::Scheduled, "{by:?} ahead");
    }
    // A day without an answer is told to a person all the same.
    let mut hours = 0;
    while phase(&*rig.store).await == Phase::Scheduled {
        rig.clock.latency(HOUR / 4).await;
        rig.client.recover(1).await.expect("works");
        hours += 1;
    }
    assert_eq!(phase(&*rig.store).await, Phase::Dead);
    assert!((22 * 4..26 * 4).contains(&hours), "{hours} quarters of an hour");
}

/// A5: Seed 9673: the same where it is set between two lookups.
#[tokio::test]
async fn lookups_are_not_given_up_because_a_clock_is_set_between_two() {
    let clock = TestClock::auto();
    let (ahead, sent) = (clock.clone(), AtomicUsize::new(0));
    let network = ScriptedTransport::new().always_with(move |_| match sent.fetch_add(1, Ordering::Relaxed) {
        0 => Err(SendErrorKind::Reset),
        nth => {
            ahead.jump_wall(if nth == 1 { 25 * HOUR } else { Duration::ZERO });
            Ok(Answer::new(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), Vec::new()))
        }
    });
    let Rig { client, store, .. } = Rig::of(Acme::searchable()).network(network).clock(&clock).build();
    let call = client.post("/charges").key("k").json(&json!({}));
    call.deadline(secs(1)).send().await.expect_err("no time for the lookup");
    clock.latency(secs(10)).await;
    for _ in 0..3 {
        client.recover(1).await.expect("works");
        assert_eq!(phase(&*store).await, Phase::Scheduled);
        clock.latency(2 * HOUR).await;
    }
}

/// A5: Time without a process is no time of lookups that failed: a service stood still for two days, and the vendor is away
/// when it is back.
#[tokio::test]
async fn lookups_begin_after_two_days_without_a_process() {
    let rig = Rig::new(Acme::searchable(), ScriptedTransport::new().fail(SendErrorKind::Reset));
    rig.answers(|network| (0..20).fold(network, |network, _| network.status(503)));
    let told = rig.charge().deadline(secs(1)).send().await.expect_err("no time for the lookup");
    assert_eq!(told.effect(), Effect::Unknown);
    rig.clock.latency(48 * HOUR).await;
    rig.client.recover(1).await.expect("works");
    assert_eq!(phase(&*rig.store).await, Phase::Scheduled);
}

/// D5: Seed 6226: a clock was set 12 minutes ahead, and the store believed it because another was hours ahead. By that clock
/// the settle time of another host's send was over at once, the lookup did not show the order yet, and it was sent
/// again.
#[tokio::test]
async fn a_host_whose_clock_was_set_ahead_waits_out_the_settle_time_by_its_own_measure() {
    let (exchange, settle) = (secs(30), secs(7));
    for set_ahead in [Duration::ZERO, secs(12 * 60)] {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let client = |network: ScriptedTransport, clock: &TestClock| {
            Rig::of(Acme::searchable()).network(network).clock(clock).store(Arc::clone(&store)).client()
        };
        let (theirs, ours) = (TestClock::auto(), TestClock::auto());
        let asked_at = Arc::new(Mutex::new(Vec::new()));
        let (asked, clock) = (Arc::clone(&asked_at), ours.clone());
        let taker = client(
            ScriptedTransport::new().always_with(move |_| {
                asked.lock().push(clock.now());
                Ok(Answer::new(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), Vec::new()))
            }),
            &ours,
        );
        let sender = client(ScriptedTransport::new().fail(SendErrorKind::Reset), &theirs);
        let call = sender.post("/charges").key("k").json(&json!({}));
        call.deadline(secs(1)).send().await.expect_err("no time for the lookup");
        // It is due by both clocks.
        ours.latency(secs(10)).await;
        ours.jump_wall(set_ahead);
        // Commands from our clock, and from one that is hours ahead.
        for now in [ours.wall(), ours.wall().plus(13 * HOUR)] {
            store.purge(now, 1).await.expect("works");
        }
        let began = ours.now();
        while asked_at.lock().is_empty() {
            taker.recover(1).await.expect("works");
            ours.latency(secs(1)).await;
            assert!(ours.now().since(began) < HOUR, "it never asks");
        }
        let waited = asked_at.lock()[0].since(began);
        assert!(
            (exchange + settle..exchange + settle + secs(5)).contains(&waited),
            "{set_ahead:?}: {waited:?}"
        );
    }
}

#[async_trait]
impl Wrapper for Late {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let is_let_go = matches!(transition.to, State::Scheduled { .. });
        let moved = self.store.transition(held, transition).await;
        if is_let_go {
            self.pass().await;
        }
        moved
    }
}
