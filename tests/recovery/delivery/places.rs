//! No operation waits for another's settle time, backoff or slow answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::BoxFuture;
use steadfast::clock::{Clock as _, Instant};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Phase;
use steadfast::policy::{Backoff, Jitter, RecoveryConfig};
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendError, SendErrorKind};
use steadfast::{Client, Policy};

use super::shop::{Vendor, delivered, phases};
use super::time::{Watched, on_virtual_time};
use support::acme::Acme;
use support::rig::{Rig, secs};

/// When what was scheduled for in 5 s goes out, while another operation waits for a settle time of 30 s.
async fn beside_a_settle_time(
    clock: TestClock,
    store: Arc<dyn Store>,
    recover: impl AsyncFnOnce(&Client),
) -> Duration {
    let acme = || {
        let mut acme = Acme::searchable();
        acme.settle = secs(30);
        acme
    };
    let client = |transport: &ScriptedTransport| {
        let setup = Rig::of(acme()).policy(Policy::background().without_breaker());
        setup.network(transport.clone()).clock(&clock).store(Arc::clone(&store)).client()
    };
    // One is lost at once and left, the other is scheduled for in five seconds.
    let lost = client(&ScriptedTransport::new().fail(SendErrorKind::Reset));
    let told = lost.post("/lost").key("lost").deadline(secs(1)).send().await;
    assert!(told.is_err_and(|error| error.retry_at().is_some()));
    let asked = ScriptedTransport::new().status(429).header("retry-after", "5");
    let told = client(&asked).post("/due").key("due").deadline(secs(1)).send().await;
    assert!(told.is_err_and(|error| error.retry_at().is_some()));
    clock.latency(secs(0)).await;

    let healthy = ScriptedTransport::new().always_with(|request| {
        let body = if request.url.path() == "/search" { "[]" } else { "{}" };
        Ok(Answer::new(http::StatusCode::OK, http::HeaderMap::new(), body))
    });
    let began = clock.now();
    let heir = client(&healthy);
    recover(&heir).await;
    while !healthy.requests().iter().any(|request| request.url.path() == "/due") {
        assert!(clock.now().since(began) < secs(120), "never");
        clock.latency(secs(1) / 10).await;
    }
    clock.now().since(began)
}

fn memory(at_work: Arc<AtomicUsize>) -> Arc<dyn Store> {
    Arc::new(Watched::new(Memory::new(), at_work))
}

/// Finding D10.
#[test]
fn what_is_due_goes_out_on_time_beside_a_settle_time() {
    let late = on_virtual_time(|clock, at_work| async move {
        let mut dispatcher = None;
        beside_a_settle_time(clock, memory(at_work), async |client| {
            dispatcher = Some(client.keep_recovering(PERIOD));
        })
        .await
    });
    assert!(late <= secs(7), "{late:?} for what was due in 5 s");
}

/// Finding D10.
#[test]
fn a_lookup_that_was_postponed_is_not_another_send() {
    on_virtual_time(|clock, at_work| async move {
        let mut acme = Acme::replaying(secs(86_400));
        (acme.lookup, acme.settle) = (true, secs(30));
        let transport = ScriptedTransport::new().always_with(|request| match request.url.path() {
            "/search" => {
                let found = r#"[{"id": 1}]"#;
                Ok(Answer::new(http::StatusCode::OK, http::HeaderMap::new(), found))
            }
            _ => Err(SendErrorKind::Reset),
        });
        let policy = Policy::background().backoff(Backoff::ladder([secs(1)]).jitter(Jitter::None));
        let setup = Rig::of(acme).policy(policy.without_breaker()).network(transport.clone());
        let client = setup.clock(&clock).store(memory(at_work)).client();
        let told = client.post("/x").key("k").deadline(Duration::from_millis(1)).send().await;
        assert!(told.is_err());
        clock.latency(secs(1)).await;
        // The ladder's last attempt, whose lookup is for later.
        assert_eq!(client.recover(1).await.expect("a store").postponed, 1);
        clock.latency(secs(30)).await;
        assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
        let sent = transport.requests().iter().filter(|request| request.url.path() == "/x").count();
        assert_eq!(sent, 2);
    });
}

/// Finding D10.
#[test]
fn one_that_hangs_keeps_nobody_waiting() {
    on_virtual_time(|clock, at_work| async move {
        let store = memory(at_work);
        let vendor = Vendor::new(&clock);
        vendor.crash(&store, 51).await;
        let hanging = AtomicUsize::new(0);
        let transport = {
            let vendor = vendor.clone();
            HangsOnce { vendor, hanging: Arc::new(hanging) }
        };
        let stripe = steadfast::vendor::Stripe::new("sk_test_123");
        let setup = Rig::of(stripe).policy(Policy::background()).network(transport);
        let client = setup.clock(&clock).store(Arc::clone(&store)).client();
        let dispatcher = client.keep_recovering(PERIOD);
        // Fifty of them while the first hangs in its attempt of 30 s.
        let took = delivered(&vendor, &store, 50, secs(20)).await;
        assert!(took < secs(10), "{took:?}");
        // A request that is under way has a second, and is cut off.
        let began = clock.now();
        assert_eq!(dispatcher.stop(secs(1)).await, 1);
        assert_eq!(clock.now().since(began), secs(1));
        assert_eq!(phases(&store).await[&Phase::InProgress], 1, "for its lease to run out");
    });
}

#[test]
fn a_dispatcher_that_is_stopped_takes_nothing_and_finishes_what_it_has() {
    on_virtual_time(|clock, at_work| async move {
        let store = memory(at_work);
        let mut vendor = Vendor::new(&clock);
        vendor.crash(&store, 40).await;
        vendor.latency = secs(10);
        let client =
            vendor.client(&store, Policy::background().recovery(RecoveryConfig::default().at_once(8)));
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(2)).await;
        assert_eq!(vendor.with(|seen| seen.requests), 8, "as many as there are places");
        assert_eq!(dispatcher.stop(secs(30)).await, 0);
        assert_eq!(phases(&store).await[&Phase::Succeeded], 8);
        clock.latency(secs(60)).await;
        assert_eq!(vendor.with(|seen| seen.requests), 8, "and no more after it");
    });
}

#[test]
fn a_long_backoff_is_left_to_the_schedule_and_a_short_one_is_not() {
    for (step, postponed) in [(4, 0), (20, 1)] {
        on_virtual_time(|clock, at_work| async move {
            let store = memory(at_work);
            let ladder = Backoff::ladder([secs(step), secs(step)]).jitter(Jitter::None);
            let transport = ScriptedTransport::new()
                .fail(SendErrorKind::Connect)
                .fail(SendErrorKind::Connect)
                .status(200);
            let policy = Policy::background().backoff(ladder).without_breaker();
            let setup = Rig::of(Acme::new()).policy(policy).network(transport);
            let client = setup.clock(&clock).store(store).client();
            let told = client.post("/x").key("k").deadline(Duration::from_millis(1)).send().await;
            assert!(told.is_err());
            clock.latency(secs(step)).await;
            let recovered = client.recover(10).await.expect("a store");
            assert_eq!((recovered.taken, recovered.postponed), (1, postponed), "{step} s");
        });
    }
}

#[test]
fn while_a_gate_is_closed_nothing_is_taken_and_written_down_again() {
    on_virtual_time(|clock, at_work| async move {
        let watched = Arc::new(Watched::new(Memory::new(), at_work));
        let store: Arc<dyn Store> = watched.clone();
        let vendor = Vendor::new(&clock);
        vendor.crash(&store, 20).await;
        let client = vendor.client(&store, Policy::background());
        client.pause_for(secs(60));
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(59)).await;
        assert_eq!(watched.takes.load(Ordering::Relaxed), 0);
        client.engage_kill_switch();
        clock.latency(secs(60)).await;
        assert_eq!(watched.takes.load(Ordering::Relaxed), 0);
        client.release_kill_switch();
        delivered(&vendor, &store, 20, secs(10)).await;
        assert!(clock.now() > Instant::ORIGIN);
    });
}

/// How often a dispatcher with 64 places takes, and how long it needs for so many calls, of which each is answered so late.
fn takes_for(calls: usize, after: fn(usize) -> Duration) -> (usize, Duration) {
    on_virtual_time(|clock, at_work| async move {
        let store = Arc::new(Watched::new(Memory::new(), at_work));
        let requests = Arc::new(AtomicUsize::new(0));
        let policy = Policy::background().recovery(RecoveryConfig::new(10_000, 10_000).at_once(64));
        let network = Answers { clock: clock.clone(), after, requests: Arc::clone(&requests) };
        let setup = Rig::of(Acme::new()).policy(policy).network(network);
        let client = setup.clock(&clock).store(Arc::clone(&store)).client();
        for number in 0..calls {
            client.post("/x").key(format!("call-{number}")).enqueue().await.expect("it is on record");
        }
        let began = clock.now();
        let dispatcher = client.keep_recovering(PERIOD);
        while requests.load(Ordering::Relaxed) < calls {
            assert!(clock.now().since(began) < secs(60), "never");
            clock.latency(Duration::from_millis(1)).await;
        }
        let took = clock.now().since(began);
        assert_eq!(dispatcher.stop(secs(30)).await, 0);
        (store.takes.load(Ordering::Relaxed), took)
    })
}

#[test]
fn for_what_ends_together_the_next_is_taken_together_and_at_once() {
    let (takes, took) = takes_for(640, |_| Duration::from_millis(10));
    assert!(takes <= 20, "{takes} takes for ten times 64");
    assert!(took < Duration::from_millis(180), "{took:?} for ten times 10 ms");
}

#[test]
fn what_ends_one_by_one_is_not_a_take_each() {
    let (takes, _) = takes_for(640, |nth| Duration::from_millis(200 + 3 * (nth as u64 % 64)));
    assert!(takes <= 250, "{takes} takes for 640 calls");
}

/// A vendor that answers each request in its own time.
#[derive(Clone, Debug)]
struct Answers {
    clock: TestClock,
    after: fn(usize) -> Duration,
    requests: Arc<AtomicUsize>,
}

impl steadfast::transport::Transport for Answers {
    fn send(
        &self,
        _: steadfast::transport::Request,
        _: steadfast::transport::Limits,
    ) -> BoxFuture<'_, Result<Answer, SendError>> {
        let nth = self.requests.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.clock.latency((self.after)(nth)).await;
            Ok(Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{}"))
        })
    }
}

/// A vendor that never answers its first request.
#[derive(Clone, Debug)]
struct HangsOnce {
    vendor: Vendor,
    hanging: Arc<AtomicUsize>,
}

impl steadfast::transport::Transport for HangsOnce {
    fn send(
        &self,
        request: steadfast::transport::Request,
        limits: steadfast::transport::Limits,
    ) -> BoxFuture<'_, Result<Answer, SendError>> {
        if self.hanging.fetch_add(1, Ordering::Relaxed) == 0 {
            return Box::pin(std::future::pending());
        }
        self.vendor.send(request, limits)
    }
}
