//! Findings about policies and waits.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use steadfast::clock::Clock as _;
use steadfast::inbound::Inbound;
use steadfast::policy::{Backoff, BreakerConfig, BreakerState, Jitter, Policy};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Postmark, Stripe, Vendor};
use steadfast::{Call, CallPolicy, Client};

/// A client on a scripted network and a clock of its own.
struct Bench {
    client: Client,
    network: ScriptedTransport,
    clock: TestClock,
}

impl Bench {
    fn new(vendor: impl Vendor, policy: Policy) -> Bench {
        Bench::at(vendor, policy, FixedRandom::at(0.0))
    }

    fn at(vendor: impl Vendor, policy: Policy, random: FixedRandom) -> Bench {
        let (network, clock) = (ScriptedTransport::new(), TestClock::auto());
        let client = Client::builder(vendor)
            .policy(policy)
            .transport(network.clone())
            .clock(clock.clone())
            .random(random)
            .build()
            .expect("a client");
        Bench { client, network, clock }
    }

    /// The next answers, in their order.
    fn answers(&self, script: impl FnOnce(ScriptedTransport) -> ScriptedTransport) {
        drop(script(self.network.clone()));
    }

    fn get(&self) -> Call {
        self.client.get("/messages")
    }

    fn charge(&self, key: &str) -> Call {
        self.client.post("/v1/charges").key(key).form(&[("amount", "1000")])
    }

    fn circuit(&self) -> BreakerState {
        self.client.gates().breaker().expect("the policy has one").state(self.clock.now())
    }
}

/// The ladder without jitter, and room for every retry.
fn plain() -> Policy {
    let policy = Policy::background();
    let ladder = policy.backoff.clone().jitter(Jitter::None);
    policy.backoff(ladder).without_budget()
}

fn once() -> CallPolicy {
    CallPolicy::background().backoff(Backoff::none())
}

fn postmark() -> Postmark {
    Postmark::new("token")
}

/// A Stripe whose stuck operations are not looked up, so that every request is a send.
fn stripe() -> Stripe {
    Stripe::new("sk_test_1").look_up_by_metadata(Vec::<String>::new())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a2_a_callers_short_deadline_is_no_failure_of_the_vendor() {
    let bench = Bench::new(postmark(), plain());
    for _ in 0..50 {
        bench.answers(|network| network.status(200).after(ms(40), &bench.clock));
        let error = bench.get().policy(once()).deadline(ms(5)).send().await.expect_err("5 ms is too short");
        assert!(error.is_timeout(), "{error}");
    }
    assert_eq!(bench.circuit(), BreakerState::Closed);
    bench.answers(|network| network.status(200).after(ms(40), &bench.clock));
    bench.get().send().await.expect("the vendor is well");
}

#[tokio::test]
async fn a2_a_stranger_cannot_close_a_vendor_to_everybody() {
    let bench = Bench::new(postmark(), plain());
    for _ in 0..5 {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-timeout", "0.005".parse().expect("a value"));
        let inbound = Inbound::from_headers_on(&headers, Arc::new(bench.clock.clone()));
        bench.answers(|network| network.status(200).after(ms(40), &bench.clock));
        bench.get().policy(once()).inbound(&inbound).send().await.expect_err("5 ms is too short");
    }
    assert_eq!(bench.circuit(), BreakerState::Closed);
}

#[tokio::test]
async fn a2_a_request_that_was_never_built_is_no_failure_of_the_vendor() {
    let bench = Bench::new(postmark(), plain());
    for _ in 0..50 {
        bench.answers(|network| network.fail(SendErrorKind::Request));
        bench.get().send().await.expect_err("it cannot be built");
    }
    assert_eq!(bench.circuit(), BreakerState::Closed);
}

#[tokio::test]
async fn a2_a_vendor_that_hangs_through_the_attempts_own_time_has_failed() {
    // The attempt's time is the whole call's, and a keyed call's claim comes out of it.
    let whole = {
        let mut policy = once();
        policy.timeout.total = policy.timeout.attempt;
        policy
    };
    let bench = Bench::new(stripe(), plain());
    for n in 0..5 {
        assert_eq!(bench.circuit(), BreakerState::Closed, "{n} calls have failed");
        bench.answers(|network| network.status(200).after(secs(600), &bench.clock));
        bench.charge(&format!("order-{n}")).policy(whole.clone()).send().await.expect_err("it hangs");
    }
    assert_ne!(bench.circuit(), BreakerState::Closed);
}

#[tokio::test]
async fn a2_a_look_up_cut_short_by_its_caller_is_no_failure_of_the_vendor() {
    // One failure is one too many; the send's own happens while nothing is counted.
    let policy = plain().breaker(BreakerConfig::default().consecutive_failures(1));
    let bench = Bench::new(postmark(), policy);
    bench.client.gates().breaker().expect("one").set_mode(steadfast::policy::Mode::ForcedClosed);
    bench.answers(|network| network.fail(SendErrorKind::Reset));
    let mail = || {
        let body = serde_json::json!({ "From": "a@x.test", "To": "b@x.test", "TextBody": "hello" });
        bench.client.post("/email").key("day-7").json(&body)
    };
    // The look-up is due 10 s after the send, and gets 5 ms of its caller's time; it needs 40.
    bench.answers(|network| network.status(200).after(ms(40), &bench.clock));
    let first = mail().deadline(secs(1)).send().await.expect_err("the look-up is due later");
    assert!(first.retry_at().is_some(), "{first}");
    bench.client.gates().breaker().expect("one").set_mode(steadfast::policy::Mode::Normal);
    bench.clock.advance(secs(10));
    mail().deadline(secs(10) + ms(5)).send().await.expect_err("the look-up is cut short");
    assert_eq!(bench.network.requests().len(), 2);
    assert_eq!(bench.circuit(), BreakerState::Closed);
}

#[tokio::test]
async fn e8_one_poison_request_does_not_open_the_circuit_of_an_idle_client() {
    let bench = Bench::new(stripe(), plain());
    bench.answers(|network| (0..5).fold(network, |network, _| network.status(500)));
    let error = bench.charge("poison").send().await.expect_err("it fails whoever sends it");
    assert_eq!((error.attempts().len(), bench.network.requests().len()), (5, 5));
    assert_eq!(bench.circuit(), BreakerState::Closed);
    // Nor does it from call to call, as recovery would send it.
    let other = Bench::new(stripe(), plain());
    for _ in 0..30 {
        other.answers(|network| network.status(500));
        let error = other.charge("poison").deadline(ms(100)).send().await.expect_err("no time for a retry");
        if error.is_dead_letter() {
            break;
        }
        other.clock.advance(secs(60));
    }
    assert_eq!(other.network.requests().len(), 5, "a call each, and then the ladder is spent");
    assert_eq!(other.circuit(), BreakerState::Closed);
}

#[tokio::test]
async fn e8_five_different_calls_still_do() {
    for keyed in [true, false] {
        let bench = Bench::new(stripe(), plain());
        for n in 0..5 {
            assert_eq!(bench.circuit(), BreakerState::Closed, "{n} calls have failed");
            bench.answers(|network| network.status(500));
            let key = format!("order-{n}");
            let call = if keyed { bench.charge(&key) } else { bench.get() };
            call.policy(once()).send().await.expect_err("the vendor is down");
        }
        assert_ne!(bench.circuit(), BreakerState::Closed);
    }
}
