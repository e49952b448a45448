//! A store in trouble makes no word about an operation better than it is.

use std::sync::Arc;

use steadfast::clock::{Clock, Timestamp};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Disposition, Effect, Error, Reply};

use support::acme::Acme;
use support::rig::{Rig, secs};
use support::trouble::{Trouble, Troubled};

/// Sends a charge whose time runs out if the store never answers.
async fn charged(rig: &Rig) -> Result<Reply, Error> {
    let told = tokio::spawn(rig.charge().deadline(secs(10)).send());
    while !told.is_finished() {
        tokio::task::yield_now().await;
        if rig.network.requests().is_empty() {
            rig.clock.advance(secs(1));
        }
    }
    told.await.expect("no panic")
}

fn troubled(transport: ScriptedTransport) -> (Arc<Troubled>, Rig) {
    let store = Arc::new(Troubled::default());
    let rig = Rig::of(Acme::replaying(secs(86_400))).network(transport).store(store.clone()).build();
    (store, rig)
}

/// Finding D7.
#[tokio::test]
async fn a_claim_that_failed_or_took_too_long_may_be_on_file() {
    for trouble in [Trouble::Fail, Trouble::FailAfter, Trouble::Stop, Trouble::Hang, Trouble::HangAfter] {
        let (store, rig) = troubled(ScriptedTransport::new().status(200));
        store.claims([trouble]);
        let error = charged(&rig).await.expect_err("no claim");
        assert!(error.is_store(), "{trouble:?}: {error}");
        let at = error.retry_at().map(Timestamp::from);
        assert!(at.is_some_and(|at| at > rig.clock.wall()), "{trouble:?}: {at:?}");
        let word = (error.effect(), error.disposition());
        assert_eq!(word, (Effect::Unknown, Disposition::Continues { at }), "{trouble:?}");
        assert_eq!(rig.network.requests().len(), 0, "{trouble:?}: nothing is sent without a claim");
        // At the time that was named, the key is free or has been carried out.
        rig.clock.advance(secs(120));
        rig.charge().send().await.expect("the same key again");
        assert_eq!(rig.network.requests().len(), 1, "{trouble:?}");
    }
}

/// Finding D7.
#[tokio::test]
async fn a_claim_that_is_provably_not_on_file_is_as_on_record() {
    let (store, rig) = troubled(ScriptedTransport::new().status(200));
    store.claims([Trouble::Full]);
    let error = charged(&rig).await.expect_err("no room");
    assert_eq!((error.effect(), error.disposition()), (Effect::None, Disposition::Ended), "{error}");
    // Nor can the record be read.
    store.claims([Trouble::Full]);
    store.gets([Trouble::Fail]);
    let error = charged(&rig).await.expect_err("no room");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");

    // An earlier call may have taken effect.
    let (store, rig) = troubled(ScriptedTransport::new().fail(SendErrorKind::Reset));
    let short = rig.charge().deadline(std::time::Duration::from_millis(300));
    assert_eq!(short.send().await.expect_err("lost").effect(), Effect::Unknown);
    store.claims([Trouble::Full]);
    let error = rig.charge().send().await.expect_err("no room");
    assert!(error.is_store(), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(matches!(error.disposition(), Disposition::Continues { at: Some(_) }));
}

/// An operation that the store may have goes on, whatever the call that cannot read it is: a send, a look, or a wait.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_to_go_on() {
    let (store, rig) = troubled(ScriptedTransport::new().status(200));
    let charge = rig.charge().enqueue().await.expect("it is recorded");
    store.gets([Trouble::Fail]);
    let waited = charge.wait(secs(0)).await.expect_err("it cannot be read");
    store.gets([Trouble::Fail]);
    let looked = rig.charge().recorded().await.expect_err("it cannot be read");
    store.gets([Trouble::Fail]);
    store.claims([Trouble::Full]);
    let sent = rig.charge().send().await.expect_err("it cannot be read");
    for told in [waited, looked, sent] {
        let word = (told.is_store(), told.effect(), told.disposition());
        assert_eq!(word, (true, Effect::Unknown, Disposition::Continues { at: None }), "{told}");
        assert!(told.to_string().contains("it may go on without you"), "{told}");
    }
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1, "and so it did");
}

/// An operation that was on record and is there no more does not.
#[tokio::test]
async fn a_record_that_is_gone_is_told_to_have_ended() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let charge = rig.charge().enqueue().await.expect("it is recorded");
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
    rig.clock.advance(secs(30 * 86_400));
    rig.store.purge(rig.clock.wall(), 8).await.expect("a store");
    rig.clock.advance(secs(2 * 3_600));
    rig.store.purge(rig.clock.wall(), 8).await.expect("a store");
    assert!(rig.store.get(charge.id()).await.expect("a store").is_none(), "it is purged");
    let gone = charge.wait(secs(0)).await.expect_err("its time is over");
    assert_eq!((gone.effect(), gone.disposition()), (Effect::Unknown, Disposition::Ended), "{gone}");
}

/// Finding D11.
#[tokio::test]
async fn a_success_that_could_not_be_written_down_is_written_again_while_the_hold_lasts() {
    for trouble in [Trouble::Fail, Trouble::FailAfter] {
        let (store, rig) = troubled(ScriptedTransport::new().status(200));
        store.transitions([trouble; 3]);
        rig.charge().send().await.expect("written at last");
        assert_eq!(rig.charge().send().await.expect("on record").status(), 200);
        assert_eq!(rig.network.requests().len(), 1, "{trouble:?}");
    }
}

/// Finding D11.
#[tokio::test]
async fn a_success_that_is_never_written_down_is_told_as_one_and_not_sent_again() {
    let (store, rig) = troubled(ScriptedTransport::new().status(200));
    store.transitions([Trouble::Fail; 1_000]);
    let error = rig.charge().send().await.expect_err("no record");
    assert_eq!((error.is_store(), error.effect(), rig.network.requests().len()), (true, Effect::Applied, 1));
    assert_eq!(error.answer().map(|answer| answer.status.as_u16()), Some(200));
    assert!(matches!(error.disposition(), Disposition::Continues { at: Some(_) }), "{error:?}");
}

/// Finding D11.
#[tokio::test]
async fn no_write_outlives_the_calls_time() {
    let (store, rig) = troubled(ScriptedTransport::new().status(200));
    store.transitions([Trouble::Hang]);
    let begun = rig.clock.now();
    let told = tokio::spawn(rig.charge().deadline(secs(1)).send());
    while !told.is_finished() {
        tokio::task::yield_now().await;
        if !rig.network.requests().is_empty() {
            rig.clock.advance(std::time::Duration::from_millis(10));
        }
    }
    let error = told.await.expect("no panic").expect_err("no record");
    assert_eq!((error.is_store(), error.effect()), (true, Effect::Applied));
    assert!(rig.clock.now().since(begun) < secs(2), "{:?}", rig.clock.now());
}
