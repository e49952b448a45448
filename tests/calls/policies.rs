//! Circuits, `Retry-After` and what opens or delays nothing.

use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::policy::{Backoff, BreakerConfig, BreakerState, Jitter};
use steadfast::testkit::{FixedRandom, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Postmark, Stripe, Vendor};
use steadfast::{Call, Gate, Policy};

use support::rig::{self, Rig, ms, secs};

trait Messages {
    fn get(&self) -> Call;
    fn circuit(&self) -> BreakerState;
}

impl Messages for Rig {
    fn get(&self) -> Call {
        self.client.get("/messages")
    }

    fn circuit(&self) -> BreakerState {
        self.client.breaker_state().expect("the policy has one")
    }
}

/// A network that each test scripts, and chance that adds nothing to a wait.
fn of(vendor: impl Vendor, policy: Policy) -> Rig {
    Rig::of(vendor).policy(policy).random(FixedRandom::at(0.0)).build()
}

/// With a circuit, whose state these tests look at.
fn plain() -> Policy {
    rig::plain().breaker(Policy::background().breaker.expect("the preset has one"))
}

fn postmark() -> Postmark {
    Postmark::new("token")
}

/// A Stripe whose stuck operations are not looked up, so that every request is a send.
fn stripe() -> Stripe {
    Stripe::new("sk_test_1").lookup_by_metadata(Vec::<String>::new())
}

fn charge(rig: &Rig, key: &str) -> Call {
    rig.client.post("/v1/charges").key(key).form(&[("amount", "1000")])
}

/// Finding A2.
#[tokio::test]
async fn a_callers_short_deadline_is_no_failure_of_the_vendor() {
    let rig = of(postmark(), plain());
    for _ in 0..50 {
        rig.answers(|network| network.status(200).after(ms(40), &rig.clock));
        let error =
            rig.get().backoff(Backoff::none()).deadline(ms(5)).send().await.expect_err("5 ms is too short");
        assert!(error.is_timeout(), "{error}");
    }
    assert_eq!(rig.circuit(), BreakerState::Closed);
    rig.answers(|network| network.status(200).after(ms(40), &rig.clock));
    rig.get().send().await.expect("the vendor is well");
}

/// Finding A2.
#[tokio::test]
async fn a_request_that_was_never_built_is_no_failure_of_the_vendor() {
    let rig = of(postmark(), plain());
    for _ in 0..50 {
        rig.answers(|network| network.fail(SendErrorKind::Request));
        rig.get().send().await.expect_err("it cannot be built");
    }
    assert_eq!(rig.circuit(), BreakerState::Closed);
}

/// Finding A2.
#[tokio::test]
async fn a_lookup_cut_short_by_its_caller_is_no_failure_of_the_vendor() {
    // One failure is one too many; the send's own happens while nothing is counted.
    let policy = plain().breaker(BreakerConfig::default().consecutive_failures(1));
    let rig = of(postmark(), policy);
    rig.client.set_breaker_mode(steadfast::policy::Mode::ForcedClosed);
    rig.answers(|network| network.fail(SendErrorKind::Reset));
    let mail = || {
        let body = serde_json::json!({ "From": "a@x.test", "To": "b@x.test", "TextBody": "hello" });
        rig.client.post("/email").key("day-7").json(&body)
    };
    // The lookup is due 10 s after the send, and gets 5 ms of its caller's time; it needs 40.
    let nothing = serde_json::json!({ "TotalCount": 0, "Messages": [] });
    rig.answers(|network| network.json(200, nothing).after(ms(40), &rig.clock));
    let first = mail().deadline(secs(1)).send().await.expect_err("the lookup is due later");
    assert!(first.retry_at().is_some(), "{first}");
    rig.client.set_breaker_mode(steadfast::policy::Mode::Normal);
    rig.clock.advance(secs(10));
    mail().deadline(secs(10) + ms(5)).send().await.expect_err("the lookup is cut short");
    assert_eq!(rig.network.requests().len(), 2);
    assert_eq!(rig.circuit(), BreakerState::Closed);
}

/// Finding E8.
#[tokio::test]
async fn one_poison_request_does_not_open_the_circuit_of_an_idle_client() {
    let rig = of(stripe(), plain());
    rig.answers(|network| (0..5).fold(network, |network, _| network.status(500)));
    let error = charge(&rig, "poison").send().await.expect_err("it fails whoever sends it");
    assert_eq!((error.attempts().len(), rig.network.requests().len()), (5, 5));
    assert_eq!(rig.circuit(), BreakerState::Closed);
    // Nor does it from call to call, as recovery would send it.
    let other = of(stripe(), plain());
    for _ in 0..30 {
        other.answers(|network| network.status(500));
        let error = charge(&other, "poison").deadline(ms(100)).send().await.expect_err("no time for a retry");
        if error.is_dead_letter() {
            break;
        }
        other.clock.advance(secs(60));
    }
    assert_eq!(other.network.requests().len(), 5, "a call each, and then the ladder is spent");
    assert_eq!(other.circuit(), BreakerState::Closed);
}

/// Finding E8.
#[tokio::test]
async fn five_different_calls_still_do() {
    for keyed in [true, false] {
        let rig = of(stripe(), plain());
        for n in 0..5 {
            assert_eq!(rig.circuit(), BreakerState::Closed, "{n} calls have failed");
            rig.answers(|network| network.status(500));
            let key = format!("order-{n}");
            let call = if keyed { charge(&rig, &key) } else { rig.get() };
            call.backoff(Backoff::none()).send().await.expect_err("the vendor is down");
        }
        assert_ne!(rig.circuit(), BreakerState::Closed);
    }
}

/// Finding A8.
#[tokio::test]
async fn a_refusal_that_carries_it_holds_others_back() {
    for status in [403, 404, 413] {
        let rig = of(postmark(), plain());
        rig.answers(|network| network.status(status).header("retry-after", "7").status(200));
        assert!(rig.get().send().await.expect_err("a no").is_refused());
        assert_eq!(rig.get().send().await.expect_err("held back").gate(), Some(Gate::Pause));
        rig.clock.advance(secs(7));
        rig.get().send().await.expect("the pause is over");
    }
}

/// Finding A8.
#[tokio::test]
async fn a_redirect_or_a_success_that_carries_it_holds_nobody_back() {
    for status in [202, 307] {
        let rig = of(postmark(), plain());
        rig.answers(|network| network.status(status).header("retry-after", "7").status(200));
        let _ = rig.get().send().await;
        assert_eq!(rig.client.pause_left(), None, "{status}");
    }
}

/// Finding A8.
#[tokio::test]
async fn beside_stripes_do_not_retry_it_holds_others_back() {
    for status in [429, 500] {
        let rig = of(stripe(), plain());
        rig.answers(|network| {
            let network = network.status(status).header("stripe-should-retry", "false");
            network.header("retry-after", "60").status(200)
        });
        charge(&rig, "order-42").send().await.expect_err("told not to");
        assert_eq!(rig.network.requests().len(), 1);
        assert_eq!(rig.get().send().await.expect_err("held back").gate(), Some(Gate::Pause), "{status}");
        rig.clock.advance(secs(60));
        rig.get().send().await.expect("the pause is over");
    }
}

/// Finding A8.
#[tokio::test]
async fn callers_come_back_spread_over_a_tenth_of_the_wait() {
    for (told, spread) in [(60u64, secs(6)), (1_200, secs(30)), (0, ms(50))] {
        let mut policy = plain().backoff(Backoff::ladder([ms(1)]).jitter(Jitter::None));
        policy.timeout.total = secs(3_600);
        for (unit, share) in [(0.0, 0), (0.25, 1), (0.5, 2), (0.75, 3)] {
            let rig = Rig::of(postmark()).policy(policy.clone()).random(FixedRandom::at(unit)).build();
            let value = told.to_string();
            rig.answers(|network| network.status(429).header("retry-after", &value).status(200));
            rig.get().send().await.expect("the retry");
            let least = if told == 0 { ms(1) } else { secs(told) };
            let slept: Duration = rig.clock.slept().iter().sum();
            assert_eq!(slept, (secs(told) + spread * share / 4).max(least), "{told} at {unit}");
        }
    }
}

/// Finding A8.
#[tokio::test]
async fn who_is_held_at_the_gate_comes_back_spread_too() {
    let rig = Rig::of(postmark()).policy(plain().admission_wait(secs(100))).build();
    rig.answers(|network| network.status(503).header("retry-after", "60").status(200));
    rig.get().backoff(Backoff::none()).send().await.expect_err("a minute");
    rig.get().send().await.expect("after the pause");
    assert_eq!(rig.clock.slept(), [secs(63)], "half of a tenth behind its end");
}

/// Finding A8.
#[tokio::test]
async fn a_lookup_that_is_told_more_than_the_cap_waits_for_all_of_it() {
    let mut policy = plain();
    policy.pause_max = secs(20);
    let rig = of(postmark(), policy);
    rig.answers(|network| network.fail(SendErrorKind::Reset).status(503).header("retry-after", "60"));
    let body = serde_json::json!({ "From": "a@x.test", "To": "b@x.test", "TextBody": "hello" });
    let error = rig.client.post("/email").key("day-7").json(&body).send().await.expect_err("scheduled");
    assert_eq!(Timestamp::from(error.retry_at().expect("a time")), TestClock::START.plus(secs(70)));
    assert_eq!(rig.network.requests().len(), 2);
}
