//! A call that waits for the outcome of another.

use steadfast::clock::Clock as _;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Effect, InFlight, Obtained, Reason, Refusal};

use super::{Trouble, after, held, no_ladder, replaying, rig, troubled, waiting};
use support::rig::{Rig, ms, plain, secs, until};

/// No call of this client waits, and none has left anything behind.
fn is_forgotten(rig: &Rig) -> bool {
    format!("{:?}", rig.client).contains("Waiters { calls: 0, operations: 0, .. }")
}

/// Finding A23.
#[tokio::test]
async fn a_call_is_woken_at_once_by_a_holder_of_its_own_client() {
    let rig = rig(ScriptedTransport::new(), plain());
    rig.answers(|network| network.status(200).after(ms(200), &rig.clock));
    let (held, told) = tokio::join!(rig.charge().send(), waiting(&rig).send());
    let (held, told) = (held.expect("sent"), told.expect("the holder's reply"));
    // By the record alone it would have been seen at 375 ms: after 25, 50, 100 and 200.
    assert_eq!(rig.clock.now(), after(ms(200)));
    assert_eq!((told.obtained(), told.waited()), (Obtained::Replayed, ms(200)));
    assert_eq!(held.obtained(), Obtained::Fresh);
    assert_eq!((held.bytes(), rig.network.requests().len()), (told.bytes(), 1));
    assert!(is_forgotten(&rig));
}

/// Finding A23.
#[tokio::test]
async fn a_holder_elsewhere_is_seen_by_the_record_at_growing_intervals() {
    let rig = rig(ScriptedTransport::new(), plain());
    let network = ScriptedTransport::new().status(200).after(secs(8), &rig.clock);
    let holder = rig.another_process(replaying(), network);
    let (sent, told) = tokio::join!(holder.charge().send(), waiting(&rig).send());
    let told = told.expect("the holder's reply");
    assert!(sent.is_ok());
    assert_eq!((told.obtained(), rig.network.requests().len()), (Obtained::Replayed, 0));
    // Beside its looks it sleeps until its time ends, or the holder's lease.
    let looks: Vec<_> = rig.clock.slept().into_iter().filter(|pause| *pause < secs(8)).collect();
    assert_eq!(looks[..6], [25, 50, 100, 200, 400, 500].map(ms));
    assert!(looks[6..].iter().all(|pause| *pause == ms(500)), "{looks:?}");
    assert!(told.waited() < secs(8) + ms(500), "{:?}", told.waited());
}

/// Finding A23.
#[tokio::test]
async fn the_call_is_told_the_recorded_refusal_or_dead_letter_and_sends_nothing() {
    for (network, policy, refusal, reason) in [
        (ScriptedTransport::new().status(402), plain(), Some(Refusal::Rejected), None),
        (ScriptedTransport::new().status(401), plain(), Some(Refusal::Unauthorized), None),
        (ScriptedTransport::new().fail(SendErrorKind::Reset), no_ladder(), None, Some(Reason::Exhausted)),
    ] {
        let rig = rig(network.clone(), policy);
        rig.answers(|network| network.after(ms(200), &rig.clock));
        let (own, told) = tokio::join!(rig.charge().send(), waiting(&rig).send());
        let (own, told) = (own.expect_err("as the vendor said"), told.expect_err("as on record"));
        assert_eq!((told.is_refused(), told.reason()), (refusal.is_some(), reason), "{told}");
        assert_eq!((told.code(), told.effect()), (own.code(), own.effect()), "{told}");
        assert_eq!((rig.clock.now(), rig.network.requests().len()), (after(ms(200)), 1), "{told}");
        assert!(told.key().is_some() && is_forgotten(&rig));
    }
}

/// Finding A23.
#[tokio::test]
async fn what_is_postponed_and_due_in_time_is_carried_on_with_by_one_of_those_who_wait() {
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
    let rig = rig(network, plain());
    // The ladder's first step is 500 ms.
    let holder = tokio::spawn(rig.charge().deadline(ms(300)).send());
    until(|| !rig.network.requests().is_empty()).await;
    let (first, second) = tokio::join!(waiting(&rig).send(), waiting(&rig).send());
    assert!(holder.await.expect("no panic").expect_err("no time").is_deadline());
    let (first, second) = (first.expect("sent or told"), second.expect("sent or told"));
    let obtained = [first.obtained(), second.obtained()];
    assert!(obtained.contains(&Obtained::Fresh) && obtained.contains(&Obtained::Replayed), "{obtained:?}");
    assert_eq!((rig.clock.now(), rig.network.requests().len()), (after(ms(500)), 2));
    assert_eq!((first.waited(), second.waited()), (ms(500), ms(500)));
    assert!(is_forgotten(&rig));
}

/// Finding A23.
#[tokio::test]
async fn what_is_postponed_beyond_the_deadline_is_not_waited_for() {
    let rig = rig(ScriptedTransport::new().fail(SendErrorKind::Connect), plain());
    let holder = held(&rig, rig.charge().deadline(ms(300))).await;
    let told = waiting(&rig).deadline(ms(400)).send().await.expect_err("due at 500 ms");
    assert!(told.is_in_progress(), "{told}");
    assert!(holder.await.expect("no panic").is_err());
    assert_eq!((rig.clock.now(), told.effect()), (after(ms(0)), Effect::None), "{told}");
    let due = rig.clock.wall().plus(ms(500));
    assert_eq!(told.retry_at(), Some(due.into()));
}

/// Finding A23.
#[tokio::test]
async fn a_dropped_holder_wakes_nobody_and_its_lapsed_lease_is_taken_over() {
    let rig = rig(ScriptedTransport::new().hang().status(200), plain());
    let holder = held(&rig, rig.charge()).await;
    let waiter = tokio::spawn(waiting(&rig).send());
    rig.clock.until_sleeping(1).await;
    holder.abort();
    let reply = waiter.await.expect("no panic").expect("the vendor replays");
    // The lease: an attempt of 30 s and the margin of as long.
    assert!((secs(60)..secs(61)).contains(&reply.waited()), "{:?}", reply.waited());
    assert_eq!((reply.obtained(), rig.network.requests().len()), (Obtained::Fresh, 2));
}

/// Finding A23.
#[tokio::test]
async fn when_its_time_ends_it_is_told_what_is_on_record() {
    let rig = rig(ScriptedTransport::new().hang(), plain());
    let holder = held(&rig, rig.charge()).await;
    let told = waiting(&rig).deadline(secs(2)).send().await.expect_err("it hangs");
    assert!(told.is_in_progress(), "{told}");
    assert_eq!((rig.clock.now(), told.waited()), (after(secs(2)), secs(2)));
    assert_eq!((told.effect(), rig.network.requests().len()), (Effect::Unknown, 1));
    holder.abort();
}

/// Finding A23.
#[tokio::test]
async fn a_dropped_waiter_leaves_nothing_behind() {
    let rig = rig(ScriptedTransport::new().hang(), plain());
    let holder = held(&rig, rig.charge()).await;
    let waiter = tokio::spawn(waiting(&rig).send());
    rig.clock.until_sleeping(1).await;
    assert!(!is_forgotten(&rig));
    waiter.abort();
    assert!(waiter.await.is_err());
    assert!(is_forgotten(&rig));
    holder.abort();
}

/// Finding A23.
#[tokio::test]
async fn a_gate_that_is_full_because_of_the_holder_does_not_end_the_wait() {
    let one_at_a_time = plain().concurrency(1).in_flight(InFlight::Wait);
    let rig = rig(ScriptedTransport::new(), one_at_a_time);
    rig.answers(|network| network.status(200).after(ms(200), &rig.clock));
    let (sent, told) = tokio::join!(rig.charge().send(), rig.charge().send());
    let told = told.expect("the policy waits");
    assert_eq!((told.obtained(), rig.clock.now()), (Obtained::Replayed, after(ms(200))));
    assert!(sent.is_ok());
    let refused = rig.charge().in_flight(InFlight::Refuse).deadline(secs(0)).send().await;
    assert!(refused.is_ok(), "what has ended is replayed");
}

/// Finding A23.
#[tokio::test]
async fn a_look_that_fails_or_hangs_is_no_answer() {
    for trouble in [Trouble::Fail, Trouble::Hang] {
        let (store, rig) = troubled(ScriptedTransport::new(), plain());
        rig.answers(|network| network.status(200).after(ms(200), &rig.clock));
        store.gets([Trouble::None, trouble]);
        let waiter = waiting(&rig).deadline(secs(1));
        // A store that hangs moves no clock.
        let moved = rig.clock.latency(secs(2));
        let (sent, told, ()) = tokio::join!(rig.charge().send(), waiter.send(), moved);
        assert!(sent.is_ok());
        if trouble == Trouble::Fail {
            assert_eq!(told.expect("at the next look").obtained(), Obtained::Replayed);
        } else {
            // A look that is never answered takes all the time that there is.
            let told = told.expect_err("no look");
            assert!(told.is_in_progress() && told.key().is_some(), "{told}");
            assert_eq!((told.effect(), told.waited()), (Effect::Unknown, secs(1)));
        }
    }
}
