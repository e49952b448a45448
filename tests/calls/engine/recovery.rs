//! Operations that nobody holds any more.

use std::collections::HashSet;

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use steadfast::clock::Clock;
use steadfast::operation::record::{Act, Action, State};
use steadfast::policy::RecoveryConfig;
use steadfast::store::Store;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::{Effect, OnUnknown};

use super::cancellation::drop_in_flight;
use super::id;
use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs, until};

async fn state(rig: &Rig) -> State {
    rig.store.get(&id()).await.expect("a store").expect("a record").state
}

#[tokio::test]
async fn what_a_dead_process_left_is_resent_inside_the_window_without_a_caller() {
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    let heir = rig.another_process(vendor, ScriptedTransport::new().status(200));
    assert_eq!(heir.client.recover(10).await.expect("a store").taken, 0, "its lease has not run out");
    rig.clock.advance(secs(3_600));
    let recovered = heir.client.recover(10).await.expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded), (1, 1));
    assert_eq!(rig.network.requests()[0].headers["acme-key"], heir.network.requests()[0].headers["acme-key"]);
    assert!(matches!(state(&heir).await, State::Succeeded { reconciled: false, .. }));
}

#[tokio::test]
async fn what_a_dead_process_left_is_parked_where_nobody_can_tell() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    rig.clock.advance(secs(3_600));
    let heir = rig.another_process(Acme::new(), ScriptedTransport::new().status(200));
    let recovered = heir.client.recover(10).await.expect("a store");
    assert_eq!((recovered.taken, recovered.dead, heir.charges_sent()), (1, 1, 0));
    let record = heir.store.get(&id()).await.expect("a store").expect("a record");
    assert_eq!(record.effect, Effect::Unknown);
}

#[tokio::test]
async fn what_the_caller_chose_for_an_unknown_outcome_outlives_the_caller() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().hang());
    let charge = rig.charge().on_unknown(OnUnknown::Resend);
    let task = tokio::spawn(async move { charge.send().await });
    until(|| rig.charges_sent() > 0).await;
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    rig.clock.advance(secs(3_600));
    let heir = rig.another_process(Acme::new(), ScriptedTransport::new().status(200));
    assert_eq!(heir.client.recover(10).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn what_was_scheduled_is_delivered_when_it_is_due() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let rig = Rig::new(Acme::new(), transport);
    rig.charge().deadline(ms(100)).send().await.expect_err("no time for a retry");
    assert_eq!(rig.client.recover(10).await.expect("a store").taken, 0, "not due yet");
    rig.clock.advance(secs(1));
    assert_eq!(rig.client.recover(10).await.expect("a store").succeeded, 1);
    assert_eq!(rig.charge().send().await.expect("from the record").attempts(), 2);
    assert_eq!(rig.charges_sent(), 2);
}

/// Also where there is one place: neither waits until there is none left of the other.
#[tokio::test]
async fn what_a_dead_process_left_and_what_is_due_take_turns() {
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang().hang());
    for left in ["/left/1", "/left/2"] {
        let call = rig.client.post(left).key(left);
        let task = tokio::spawn(async move { call.send().await });
        until(|| rig.network.requests().iter().any(|request| request.url.path() == left)).await;
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
    for due in ["/due/1", "/due/2", "/due/3"] {
        rig.client.post(due).key(due).enqueue().await.expect("recorded");
    }
    rig.clock.advance(secs(3_600));
    let one_place = plain().recovery(RecoveryConfig::new(100, 100).at_once(1));
    let network = (0..5).fold(ScriptedTransport::new(), |network, _| network.status(200));
    let heir = rig.beside(vendor).network(network).policy(one_place).build();
    assert_eq!(heir.client.recover(5).await.expect("a store").succeeded, 5);
    let sent: Vec<_> = heir.network.requests().iter().map(|sent| sent.url.path().to_owned()).collect();
    assert_eq!(sent, ["/left/1", "/due/1", "/left/2", "/due/2", "/due/3"]);
}

/// There is only one of the two kinds: a round takes as many of it as it may of both.
#[tokio::test]
async fn a_round_takes_what_it_may_of_whichever_kind() {
    for are_left in [true, false] {
        let vendor = Acme::replaying(secs(86_400));
        let rig =
            Rig::new(vendor.clone(), (0..6).fold(ScriptedTransport::new(), |network, _| network.hang()));
        for nth in 0..6 {
            let call = rig.client.post("/charges").key(format!("order-{nth}"));
            if !are_left {
                call.enqueue().await.expect("recorded");
                continue;
            }
            let task = tokio::spawn(async move { call.send().await });
            until(|| rig.charges_sent() > nth).await;
            task.abort();
            assert!(task.await.is_err_and(|error| error.is_cancelled()));
        }
        rig.clock.advance(secs(3_600));
        let network = (0..6).fold(ScriptedTransport::new(), |network, _| network.status(200));
        let heir = rig.another_process(vendor, network);
        assert_eq!(heir.client.recover(6).await.expect("a store").succeeded, 6, "{are_left}");
    }
}

#[tokio::test]
async fn of_two_recoverers_one_sends() {
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    rig.clock.advance(secs(3_600));
    let first = rig.another_process(vendor.clone(), ScriptedTransport::new().status(200));
    let second = rig.another_process(vendor, ScriptedTransport::new().status(200));
    let (a, b) = tokio::join!(first.client.recover(10), second.client.recover(10));
    assert_eq!(a.expect("a store").taken + b.expect("a store").taken, 1);
    assert_eq!(first.charges_sent() + second.charges_sent(), 1);
}

#[tokio::test]
async fn the_settle_time_counts_from_the_takeover_and_not_from_the_call_that_waited_for_it() {
    let mut vendor = Acme::searchable();
    vendor.settle = secs(10);
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    // The call comes while the lease still runs, and waits for a gate until it has run out.
    rig.clock.advance(rig.client.policy().timeout.attempt);
    let policy = plain().admission_wait(secs(60));
    let found = ScriptedTransport::new().json(200, serde_json::json!([]));
    let heir = rig.beside(vendor).network(found.status(200)).policy(policy).build();
    heir.client.pause_for(secs(40));
    let before = rig.clock.now();
    heir.charge().send().await.expect("absent, and sent");
    assert_eq!((heir.lookups_sent(), heir.charges_sent()), (1, 1));
    let waited = rig.clock.now().since(before);
    assert!(waited >= secs(50), "40 s for the gate and 10 s from the takeover on, not {waited:?}");
}

#[tokio::test]
async fn another_accounts_operation_is_not_sent_with_our_secret() {
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    rig.clock.advance(secs(3_600));
    let stranger = rig.another_process(vendor.clone().account("other"), ScriptedTransport::new().status(200));
    stranger.client.recover(10).await.expect("a store");
    assert_eq!(stranger.charges_sent(), 0);
    let heir = rig.another_process(vendor, ScriptedTransport::new().status(200));
    assert_eq!(heir.client.recover(10).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn the_log_says_what_each_attempt_met() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(429).status(200);
    let rig = Rig::new(Acme::new(), transport);
    rig.charge().send().await.expect("the third attempt");
    let log = rig.store.evidence(&id()).await.expect("a store");
    let met: Vec<_> = log
        .iter()
        .map(|report| (report.number, report.status, report.verdict.as_str(), report.wait))
        .collect();
    assert_eq!(
        met,
        [
            (1, None, "retry", Some(ms(500))),
            (2, Some(429), "retry", Some(secs(2))),
            (3, Some(200), "done", None)
        ]
    );
}

#[tokio::test]
async fn a_lease_is_renewed_while_a_call_waits() {
    // The wait of 90 s outlasts the lease of an attempt and its margin.
    let transport = ScriptedTransport::new().status(429).header("retry-after", "90").status(200);
    let rig = Rig::new(Acme::new(), transport);
    let charge = rig.charge();
    let other = rig.another_process(Acme::new(), ScriptedTransport::new().status(200));
    let mut waiting = tokio::spawn(async move { charge.send().await });
    let mut taken = 0;
    while !waiting.is_finished() {
        taken += other.client.recover(10).await.expect("a store").taken;
        tokio::task::yield_now().await;
    }
    assert_eq!((&mut waiting).await.expect("no panic").expect("the second attempt").attempts(), 2);
    assert_eq!(taken, 0, "nobody may take what is still held");
}

async fn redrive(rig: &Rig) {
    let redrive = Act {
        action: Action::Redrive { forced: false },
        by: "ann".to_owned(),
        why: String::new(),
        now: rig.clock.wall(),
        fence: None,
    };
    rig.store.act(&id(), redrive).await.expect("a store").expect("it is a dead letter");
}

#[tokio::test]
async fn a_redriven_dead_letter_has_a_ladder_of_its_own() {
    let transport = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let rig = Rig::new(Acme::new(), transport);
    assert!(rig.charge().send().await.expect_err("nothing connects").is_dead_letter());
    redrive(&rig).await;
    let heir = rig.another_process(
        Acme::new(),
        ScriptedTransport::new().fail(SendErrorKind::Connect).fail(SendErrorKind::Connect).status(200),
    );
    assert_eq!(heir.client.recover(10).await.expect("a store").succeeded, 1);
    assert_eq!(heir.charges_sent(), 3);
}

/// By itself it is sent no more, as no repeat changes such an answer. A person says that it is to be sent all the same.
#[tokio::test]
async fn what_is_redriven_after_an_answer_that_says_nothing_is_sent_again() {
    let mut vendor = Acme::replaying(secs(86_400));
    vendor.lookup = true;
    let cannot_tell = Answer::new(StatusCode::OK, HeaderMap::new(), "{}");
    let network = ScriptedTransport::new().status(500).header("acme-replayed", "true").always(cannot_tell);
    let rig = Rig::new(vendor.clone(), network);
    assert!(rig.charge().send().await.expect_err("nobody can tell").is_dead_letter());
    assert_eq!(rig.charges_sent(), 1);
    redrive(&rig).await;
    let heir = rig.another_process(vendor, ScriptedTransport::new().status(200));
    assert_eq!(heir.client.recover(10).await.expect("a store").succeeded, 1);
    assert_eq!((heir.charges_sent(), heir.lookups_sent()), (1, 0));
}

#[tokio::test]
async fn the_dispatcher_delivers_what_is_due_and_removes_what_has_expired() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let rig = Rig::new(Acme::new(), transport);
    rig.charge().deadline(ms(100)).send().await.expect_err("no time for a retry");
    let dispatcher = rig.client.keep_recovering(secs(3_600));
    let mut delivered = false;
    for _ in 0..100_000 {
        tokio::task::yield_now().await;
        match rig.store.get(&id()).await.expect("a store").map(|record| record.state) {
            Some(State::Succeeded { .. }) => delivered = true,
            Some(_) => {}
            None => break,
        }
    }
    assert!(delivered, "within the first hours");
    assert_eq!(rig.store.get(&id()).await.expect("a store"), None, "7 days after it was settled");
    drop(dispatcher);
}

/// The retry budget of live calls does not pay for them.
#[tokio::test]
async fn the_repeats_of_what_is_recovered_are_within_its_rate() {
    let sent = Mutex::new(HashSet::new());
    // Each is answered well when it comes again.
    let network = ScriptedTransport::new().always_with(move |request| {
        let is_first = sent.lock().insert(request.url.path().to_owned());
        let status = if is_first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        Ok(Answer::new(status, HeaderMap::new(), "{}"))
    });
    let policy = plain().recovery(RecoveryConfig::new(10, 10));
    let rig = Rig::with(Acme::replaying(secs(86_400)), network, policy);
    for nth in 0..100 {
        rig.client.post(&format!("/charges/{nth}")).key(nth.to_string()).enqueue().await.expect("recorded");
    }
    let began = rig.clock.now();
    assert_eq!(rig.client.recover(100).await.expect("a store").succeeded, 100);
    assert_eq!(rig.network.requests().len(), 200);
    let took = rig.clock.now().since(began);
    assert!(took > secs(18), "ten at once, and ten a second: {took:?}");
}
