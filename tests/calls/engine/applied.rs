//! An effect that is known to have been applied is said.

use steadfast::operation::record::{Filter, State};
use steadfast::testkit::ScriptedTransport;
use steadfast::{Effect, Error};

use support::acme::Acme;
use support::rig::{Rig, plain};

/// Finding E2.
#[tokio::test]
async fn a_success_on_record_took_effect_and_so_did_its_attempt() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.charge().send().await.expect("a reply");
    let filter = Filter { effect: Some(Effect::Applied), ..Filter::default() };
    let page = rig.store.list(&filter, None, 10).await.expect("a store");
    let [summary] = &page.rows[..] else { panic!("one: {page:?}") };
    assert_eq!(summary.effect, Effect::Applied);
    let record = rig.store.get(&summary.id).await.expect("a store").expect("a record");
    assert!(matches!(record.state, State::Succeeded { .. }));
    assert_eq!(record.effect, Effect::Applied);
    let reports = rig.store.evidence(&summary.id).await.expect("a store");
    assert_eq!((reports[0].verdict.as_str(), reports[0].effect), ("done", Effect::Applied));
}

/// Finding E2.
#[tokio::test]
async fn a_reply_that_cannot_be_read_is_of_a_call_that_took_effect() {
    let said = |error: &Error| (error.effect(), error.is_unreadable_reply());
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let reply = rig.charge().send().await.expect("a reply");
    assert_eq!(said(&reply.json::<u64>().expect_err("no JSON")), (Effect::Applied, true));

    // Cut at the limit: at once, and from the record.
    let mut small = plain();
    small.reply_bytes_max = 10;
    let long = ScriptedTransport::new().json(200, serde_json::json!({"id": "ch_1234567890"}));
    let rig = Rig::with(Acme::new(), long, small);
    for _ in 0..2 {
        assert_eq!(said(&rig.charge().send().await.expect_err("cut")), (Effect::Applied, true));
    }
    assert_eq!(rig.network.requests().len(), 1);
}
