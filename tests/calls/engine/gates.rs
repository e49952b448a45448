//! Our own refusals.

use std::sync::Arc;

use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs, until};
use support::watched::Watched;

use steadfast::clock::{Clock as _, Instant};
use steadfast::policy::{Backoff, BreakerConfig, BreakerState, Mode, RateConfig};
use steadfast::store::Store as _;
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Effect, Gate, Obtained, Policy};
use steadfast_core::internal::policy::{Breaker, Outcome};

use super::one_retry;

#[tokio::test]
async fn a_refusal_before_the_first_attempt_writes_nothing() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.client.engage_kill_switch();
    let error = rig.charge().send().await.expect_err("switched off");
    assert_eq!((error.gate(), error.effect()), (Some(Gate::KillSwitch), Effect::None));
    assert_eq!(rig.charges_sent(), 0);
    rig.client.release_kill_switch();
    let reply = rig.charge().send().await.expect("the key was never claimed");
    assert_eq!((reply.obtained(), reply.attempts()), (Obtained::Fresh, 1));
}

#[tokio::test]
async fn a_settled_operation_is_replayed_while_the_vendor_is_switched_off() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.charge().send().await.expect("a reply");
    rig.client.engage_kill_switch();
    assert_eq!(rig.charge().send().await.expect("from the record").obtained(), Obtained::Replayed);
}

/// The record is there until a purge comes by. Its time is over, by the store's word: its outcome is not this call's, which
/// nobody has sent.
#[tokio::test]
async fn what_an_earlier_life_came_to_is_not_told_while_the_vendor_is_switched_off() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.charge().send().await.expect("a reply");
    rig.client.engage_kill_switch();
    rig.clock.advance(secs(8 * 24 * 3600));
    let replay = rig.charge().send().await.expect("the store doubts that a week has passed at once");
    assert_eq!(replay.obtained(), Obtained::Replayed);
    for _ in 0..2 {
        rig.store.purge(rig.clock.wall(), 0).await.expect("the store works");
        rig.clock.advance(secs(3600));
    }
    let error = rig.charge().send().await.expect_err("switched off");
    assert_eq!((error.gate(), error.effect()), (Some(Gate::KillSwitch), Effect::Unknown));
}

#[tokio::test]
async fn an_open_circuit_refuses_with_the_time_to_come_back() {
    let policy = plain().breaker(Policy::background().breaker.expect("the preset has one"));
    let transport = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let rig = Rig::with(Acme::new(), transport, policy);
    for _ in 0..5 {
        let sent = rig.client.get("/x").backoff(Backoff::none()).send().await;
        assert!(!sent.expect_err("nothing connects").is_circuit_open());
    }
    let error = rig.client.get("/x").backoff(Backoff::none()).send().await.expect_err("five in a row");
    assert!(error.is_circuit_open());
    assert!(error.retry_at().is_some());
    assert_eq!(rig.network.requests().len(), 5);
}

/// A test's clock begins long before now, and an operator does not have it.
#[tokio::test]
async fn an_operator_reads_how_much_is_left_by_the_clients_clock() {
    let policy = plain().breaker(BreakerConfig::default().consecutive_failures(1));
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let rig = Rig::of(Acme::new()).policy(policy).network(transport).clock(&TestClock::new()).build();
    assert_eq!((rig.client.pause_left(), rig.client.breaker_state()), (None, Some(BreakerState::Closed)));
    rig.clock.advance(secs(1_000));
    rig.client.pause_for(secs(90));
    rig.clock.advance(secs(30));
    assert_eq!(rig.client.pause_left(), Some(secs(60)));
    rig.client.pause_for(secs(59));
    assert_eq!(rig.client.pause_left(), Some(secs(60)), "it is never shortened");
    rig.client.pause_for(secs(24 * 3600));
    assert_eq!(rig.client.pause_left(), Some(secs(3600)), "no longer than the policy allows");
    rig.client.end_pause();
    assert_eq!(rig.client.pause_left(), None);

    rig.client.get("/x").backoff(Backoff::none()).send().await.expect_err("it opens the circuit");
    let Some(BreakerState::Open { left }) = rig.client.breaker_state() else { panic!("it is open") };
    assert!(left > ms(100) && left <= secs(1), "{left:?}");
    rig.clock.advance(ms(100));
    assert_eq!(rig.client.breaker_state(), Some(BreakerState::Open { left: left - ms(100) }));
    rig.clock.advance(left - ms(100));
    assert_eq!(rig.client.breaker_state(), Some(BreakerState::HalfOpen));
}

#[tokio::test]
async fn the_clones_of_a_client_share_what_an_operator_switches() {
    let rig = Rig::with(Acme::new(), ScriptedTransport::new(), plain().breaker(BreakerConfig::default()));
    let clone = rig.client.clone();
    rig.client.engage_kill_switch();
    rig.client.set_breaker_mode(Mode::ForcedClosed);
    rig.client.pause_for(secs(90));
    assert!(clone.kill_switch_is_engaged());
    assert_eq!((clone.breaker_mode(), clone.pause_left()), (Some(Mode::ForcedClosed), Some(secs(90))));
    clone.release_kill_switch();
    clone.end_pause();
    assert!(!rig.client.kill_switch_is_engaged());
    assert_eq!(rig.client.pause_left(), None);
}

/// The policy gives an attempt all of the call's time, of which the claim takes a part.
#[tokio::test]
async fn a_vendor_that_hangs_has_failed_also_where_the_claim_took_of_its_time() {
    for (deadline, has_failed) in [(secs(30), true), (secs(29), false)] {
        let mut policy = plain().breaker(BreakerConfig::default().consecutive_failures(1));
        policy.timeout.total = policy.timeout.attempt;
        let clock = TestClock::auto();
        let slow = Watched { claim_takes: Some((clock.clone(), secs(5))), ..Watched::default() };
        let network = ScriptedTransport::new().status(200).after(secs(600), &clock);
        let rig = Rig::of(Acme::new()).policy(policy).network(network).clock(&clock).store(slow).build();
        let error = rig.client.post("/charges").key("order-42").deadline(deadline).send().await;
        assert!(error.expect_err("no answer").is_timeout());
        assert_eq!((clock.now().since(Instant::ORIGIN), rig.network.requests().len()), (deadline, 1));
        let circuit = rig.client.breaker_state().expect("one");
        assert_eq!(circuit != BreakerState::Closed, has_failed, "{deadline:?}");
    }
}

#[tokio::test]
async fn an_open_circuit_in_the_middle_of_a_call_is_waited_for() {
    let mut breaker = Policy::background().breaker.expect("the preset has one");
    breaker.consecutive_failures = Some(1);
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let rig = Rig::with(Acme::new(), transport, one_retry().breaker(breaker));
    let reply = rig.charge().send().await.expect("the probe succeeds");
    assert_eq!(reply.attempts(), 2, "waiting for the circuit costs no rung");
}

#[tokio::test]
async fn too_many_calls_at_once_are_refused_and_a_finished_one_makes_room() {
    let policy = plain().concurrency(1);
    let rig = Rig::with(Acme::new(), ScriptedTransport::new().hang().status(200), policy);
    let client = rig.client.clone();
    let first = tokio::spawn(async move { client.get("/slow").send().await });
    until(|| !rig.network.requests().is_empty()).await;
    let error = rig.client.get("/x").send().await.expect_err("one at a time");
    assert_eq!(error.gate(), Some(Gate::Concurrency));
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    rig.client.get("/x").send().await.expect("there is room again");
}

#[tokio::test]
async fn with_an_admission_wait_the_rate_limit_delays_instead_of_refusing() {
    let policy = plain().rate(RateConfig::new(1, secs(1))).admission_wait(secs(5));
    let rig = Rig::with(Acme::new(), ScriptedTransport::new().status(200).status(200), policy);
    rig.client.get("/x").send().await.expect("the first");
    rig.client.get("/x").send().await.expect("the second, a second later");
    assert_eq!(rig.clock.slept().len(), 1);
    let refused = Rig::with(
        Acme::new(),
        ScriptedTransport::new().status(200).status(200),
        plain().rate(RateConfig::new(1, secs(1))),
    );
    refused.client.get("/x").send().await.expect("the first");
    let error = refused.client.get("/x").send().await.expect_err("at once is too soon");
    assert!(error.is_rate_limited());
}

#[tokio::test]
async fn with_an_admission_wait_a_full_concurrency_limit_is_waited_for() {
    let policy = plain().concurrency(1).admission_wait(secs(60));
    let rig = Rig::with(Acme::new(), ScriptedTransport::new(), policy);
    rig.answers(|network| network.status(200).after(secs(2), &rig.clock).status(200));
    let (first, second) = (rig.client.get("/slow").send(), rig.client.get("/x").send());
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.expect("the slow one").waited(), secs(0));
    let waited = second.expect("after the slow one").waited();
    assert!(waited >= secs(2) && waited < ms(2_100), "{waited:?}");
}

#[tokio::test]
async fn nothing_waits_for_an_operator() {
    let policy = plain().admission_wait(secs(60));
    let rig = Rig::with(Acme::new(), ScriptedTransport::new().status(200), policy);
    rig.client.engage_kill_switch();
    let error = rig.charge().send().await.expect_err("switched off");
    assert_eq!((error.gate(), rig.clock.slept().len()), (Some(Gate::KillSwitch), 0));
}

/// Opens for a second, and closes after one probe.
fn breaker(config: BreakerConfig) -> Breaker {
    Breaker::new(config.open(secs(1), secs(1)).probes(1), Arc::new(FixedRandom::at(0.5)))
}

fn meets(breaker: &Breaker, outcome: Outcome, took: std::time::Duration, second: u64) {
    let now = Instant::ORIGIN.plus(secs(second));
    breaker.admit(now).expect("it is not open").settle(outcome, took, now);
}

fn is_closed(breaker: &Breaker, second: u64) -> bool {
    breaker.state(Instant::ORIGIN.plus(secs(second))) == BreakerState::Closed
}

#[test]
fn a_slow_success_ends_a_row_of_failures() {
    let by_row = BreakerConfig::default().consecutive_failures(3).failure_rate(None);
    let breaker = breaker(by_row.slow_call(secs(10), 1.0));
    for (outcome, took) in [
        (Outcome::Failure, ms(1)),
        (Outcome::Failure, ms(1)),
        (Outcome::Success, secs(3_600)),
        (Outcome::Failure, ms(1)),
    ] {
        meets(&breaker, outcome, took, 0);
    }
    assert!(is_closed(&breaker, 0));
}

/// An operation that an operator holds back is left where it is, due and in nobody's hands.
#[tokio::test]
async fn a_circuit_that_is_forced_open_has_nothing_taken() {
    let policy = plain().breaker(BreakerConfig::default());
    let rig = Rig::with(Acme::new(), ScriptedTransport::new().status(200), policy);
    rig.charge().enqueue().await.expect("it is recorded");
    rig.client.set_breaker_mode(Mode::ForcedOpen);
    assert_eq!(rig.client.recover(1).await.expect("a store").taken, 0);
    rig.client.set_breaker_mode(Mode::Normal);
    assert_eq!(rig.client.recover(1).await.expect("a store").succeeded, 1);
}
