//! When the next attempt is made.

use steadfast::Effect;
use steadfast::clock::Clock as _;
use steadfast::policy::BreakerConfig;
use steadfast::testkit::{FixedRandom, ScriptedTransport};
use steadfast::transport::SendErrorKind;

use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs};

#[tokio::test]
async fn the_ladder_is_500ms_2s_5s_30s_and_then_a_dead_letter() {
    let rig =
        Rig::new(Acme::replaying(secs(86_400)), ScriptedTransport::new().always_fail(SendErrorKind::Connect));
    let error = rig.charge().send().await.expect_err("nothing ever connects");
    assert_eq!(rig.clock.slept(), [ms(500), secs(2), secs(5), secs(30)]);
    assert!(error.is_dead_letter());
    assert_eq!((error.effect(), error.attempts().len(), rig.charges_sent()), (Effect::None, 5, 5));
    assert_eq!(error.code(), "DEPENDENCY.unavailable");
    let waits: Vec<_> = error.attempts().iter().map(|attempt| attempt.wait).collect();
    assert_eq!(waits, [Some(ms(500)), Some(secs(2)), Some(secs(5)), Some(secs(30)), None]);
}

#[tokio::test]
async fn a_retry_after_is_a_floor_with_positive_jitter_only() {
    for (random, least) in [(FixedRandom::at(0.0), true), (FixedRandom::just_under_one(), false)] {
        let transport = ScriptedTransport::new().status(429).header("retry-after", "7").status(200);
        let rig = Rig::of(Acme::new()).network(transport).random(random).build();
        rig.charge().send().await.expect("the second attempt succeeds");
        let slept = rig.clock.slept()[0];
        assert_eq!(slept == secs(7), least, "{slept:?}");
        assert!(slept >= secs(7) && slept < secs(8), "never early, and not much later: {slept:?}");
    }
}

#[tokio::test]
async fn a_retry_after_shorter_than_the_rung_does_not_shorten_it() {
    let transport = ScriptedTransport::new().status(429).header("retry-after", "0").status(200);
    let rig = Rig::new(Acme::new(), transport);
    rig.charge().send().await.expect("the second attempt succeeds");
    assert_eq!(rig.clock.slept(), [ms(500)]);
}

#[tokio::test]
async fn a_retry_after_of_one_call_holds_back_all_calls_to_that_vendor() {
    let transport = ScriptedTransport::new().status(429).header("retry-after", "60").status(200).status(200);
    let rig = Rig::new(Acme::new(), transport);
    let first = rig.charge().deadline(secs(1)).send().await.expect_err("a minute is too long for one second");
    assert!(first.is_deadline());
    let second = rig.client.get("/balance").send().await.expect_err("the vendor asked for a pause");
    assert!(second.is_rate_limited());
    assert_eq!(second.gate().map(steadfast::Gate::name), Some("pause"));
    assert_eq!(second.effect(), Effect::None);
    rig.clock.advance(secs(61));
    rig.client.get("/balance").send().await.expect("the pause is over");
}

#[tokio::test]
async fn a_retry_after_over_the_cap_is_scheduled_and_holds_back_others_for_the_cap() {
    let transport = ScriptedTransport::new().status(429).header("retry-after", "60").status(200).status(200);
    let mut policy = plain();
    policy.pause_max = secs(20);
    let rig = Rig::of(Acme::new()).network(transport).policy(policy).random(FixedRandom::at(0.0)).build();
    let error = rig.charge().send().await.expect_err("a minute is over the cap, though there is time");
    let at: std::time::SystemTime = error.retry_at().expect("a time");
    let now: std::time::SystemTime = rig.clock.wall().into();
    assert_eq!(at.duration_since(now).expect("later"), secs(60));
    assert!(error.is_rate_limited());
    assert_eq!(rig.clock.slept(), []);
    rig.clock.advance(ms(19_999));
    assert!(rig.client.get("/x").send().await.expect_err("the pause").is_rate_limited());
    rig.clock.advance(ms(1));
    rig.client.get("/x").send().await.expect("the pause is over");
    rig.clock.advance(ms(39_999));
    assert!(rig.charge().send().await.expect_err("not due yet").is_in_progress());
    rig.clock.advance(ms(1));
    assert_eq!(rig.charge().send().await.expect("due").attempts(), 2);
}

/// All that the pause holds back for is the cap, so that the operation's own time on record has to say it.
#[tokio::test]
async fn a_wait_over_the_cap_is_kept_beside_refused_credentials() {
    let transport = ScriptedTransport::new().status(401).header("retry-after", "60").status(200);
    let mut policy = plain();
    policy.pause_max = secs(20);
    let rig = Rig::of(Acme::new()).network(transport).policy(policy).random(FixedRandom::at(0.0)).build();
    rig.charge().enqueue().await.expect("it is recorded");
    let recover = async || rig.client.recover(8).await.expect("a store");
    assert_eq!(recover().await.postponed, 1);
    rig.clock.advance(ms(59_999));
    assert_eq!(recover().await.taken, 0, "the account may be probed, and the vendor asked for more");
    rig.clock.advance(ms(1));
    assert_eq!(recover().await.succeeded, 1);
}

/// A no that does not speak for an earlier send is repeated under a key that is replayed: when the vendor asks for it.
#[tokio::test]
async fn a_wait_over_the_cap_is_kept_beside_a_refusal_that_leaves_an_earlier_send_open() {
    let transport = ScriptedTransport::new()
        .fail(SendErrorKind::Reset)
        .status(401)
        .header("retry-after", "60")
        .status(200);
    let mut policy = plain();
    policy.pause_max = secs(20);
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::of(vendor).network(transport).policy(policy).random(FixedRandom::at(0.0)).build();
    let error = rig.charge().send().await.expect_err("a minute is over the cap");
    let at: std::time::SystemTime = error.retry_at().expect("a time");
    let now: std::time::SystemTime = rig.clock.wall().into();
    assert_eq!((at.duration_since(now).expect("later"), error.effect()), (secs(60), Effect::Unknown));
    rig.clock.advance(secs(60));
    assert_eq!(rig.charge().send().await.expect("due").attempts(), 3);
}

#[tokio::test]
async fn a_wait_longer_than_what_is_left_is_scheduled_and_names_the_time() {
    let transport = ScriptedTransport::new().status(429).header("retry-after", "3600").status(200);
    let rig = Rig::of(Acme::new()).network(transport).random(FixedRandom::at(0.0)).build();
    let error = rig.charge().send().await.expect_err("an hour is beyond the total timeout");
    assert!(error.is_deadline());
    assert_eq!(rig.clock.slept(), []);
    assert!(error.retry_at().is_some());
    let again = rig.charge().send().await.expect_err("it is not due yet");
    assert!(again.is_in_progress() || again.is_rate_limited(), "{again}");
    rig.clock.advance(secs(3_601));
    let reply = rig.charge().send().await.expect("due now");
    assert_eq!((reply.attempts(), rig.charges_sent()), (2, 2));
}

#[tokio::test]
async fn a_spent_budget_postpones_the_retry_instead_of_sending_it() {
    let policy = plain().budget(steadfast::Policy::background().budget.map_or_else(
        || panic!("the preset has a budget"),
        |mut budget| {
            budget.burst = 1;
            budget.refill_per_second = 0.0;
            budget
        },
    ));
    let transport = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let rig = Rig::with(Acme::new(), transport, policy);
    let error = rig.charge().send().await.expect_err("one retry is all there is");
    assert_eq!(error.gate().map(steadfast::Gate::name), Some("budget"));
    assert_eq!(rig.charges_sent(), 2);
    assert!(!error.is_dead_letter(), "it can still be delivered: {error}");
    // Half of the last step, 30 s, with the randomness at ½: not the 2 s of the rung that it was refused at.
    let at = error.retry_at().expect("a time");
    let now: std::time::SystemTime = rig.clock.wall().into();
    assert_eq!(at.duration_since(now).expect("later"), secs(15));
}

#[tokio::test]
async fn what_is_answered_from_the_record_earns_no_retry() {
    let mut budget = steadfast::Policy::background().budget.expect("the preset has a budget");
    (budget.ratio, budget.burst, budget.refill_per_second) = (0.1, 0, 0.0);
    let transport = ScriptedTransport::new().status(200).fail(SendErrorKind::Connect).status(200);
    let rig = Rig::with(Acme::new(), transport, plain().budget(budget));
    // One call that is sent, twenty that are not.
    for _ in 0..=20 {
        rig.charge().send().await.expect("done");
    }
    let error = rig.client.get("/x").send().await.expect_err("two calls do not pay for a retry");
    assert_eq!(error.gate().map(steadfast::Gate::name), Some("budget"));
}

/// Alone in an outage it is sent again and again; each process would begin with the short steps.
#[tokio::test]
async fn what_is_spared_its_ladder_goes_on_at_the_last_step_in_the_next_process() {
    let vendor = Acme::replaying(secs(86_400));
    let down = || ScriptedTransport::new().always_fail(SendErrorKind::Reset);
    let policy = || plain().breaker(BreakerConfig::default());
    let rig = Rig::with(vendor.clone(), down(), policy());
    rig.charge().enqueue().await.expect("recorded");
    rig.client.recover(1).await.expect("a store");
    assert_eq!(rig.charges_sent(), 4, "it has slept for 500 ms, 2 s and 5 s");
    for _ in 0..3 {
        rig.clock.advance(secs(31));
        let heir = rig.beside(vendor.clone()).network(down()).policy(policy()).build();
        heir.client.recover(1).await.expect("a store");
        assert_eq!(heir.charges_sent(), 1);
    }
}
