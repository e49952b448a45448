//! Starting over what the vendor refused.

use steadfast::operation::record::{Act, Action, Forbidden, Phase, Resolution};
use steadfast::operation::{OperationId, Scope};
use steadfast::store::Store;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Call, Disposition, Effect, Obtained};
use tempfile::TempDir;

use support::acme::Acme;
use support::rig::{Rig, ms, until};
use support::stores::stores;

fn each(network: impl Fn() -> ScriptedTransport) -> [(Rig, TempDir); 2] {
    stores().map(|(store, place)| (Rig::of(Acme::new()).network(network()).store(store).build(), place))
}

fn pay(rig: &Rig, key: &str) -> Call {
    rig.client.post("/charges").key(key).json(&serde_json::json!({"amount": 4711}))
}

/// A card was declined, and two callers start the payment over under keys of their own. Both were sent.
#[tokio::test]
async fn of_two_that_start_a_refused_operation_over_one_is_sent() {
    for (rig, _place) in each(|| ScriptedTransport::new().status(402).status(200)) {
        assert!(pay(&rig, "order-42").send().await.expect_err("declined").is_refused());
        pay(&rig, "order-42/a").supersedes("order-42").send().await.expect("paid");
        let second = pay(&rig, "order-42/b").supersedes("order-42").send().await.expect_err("in the way");
        assert!(second.is_predecessor_in_the_way(), "{second}");
        // The other key's payment may have been made.
        assert_eq!(
            (second.effect(), second.disposition()),
            (Effect::Unknown, Disposition::Ended),
            "{second}"
        );
        assert_eq!(rig.network.requests().len(), 2, "one payment was sent after the refusal");
        // The call that started it over is the same operation, however often it is sent.
        let again = pay(&rig, "order-42/a").supersedes("order-42").send().await.expect("on record");
        assert_eq!(again.obtained(), Obtained::Replayed);
        // The vendor's word on the first is still told.
        let refused = pay(&rig, "order-42").send().await.expect_err("declined");
        assert!(refused.is_refused() && refused.effect() == Effect::None, "{refused}");
        let old = rig.record("order-42").await;
        let said = old.resolved.clone().expect("closed").resolution;
        assert_eq!(
            (old.phase(), said.to_string()),
            (Phase::Refused, "started over as key order-42/a".into())
        );
        let audit = rig.store.audit(Some(&old.id), None, 10).await.expect("a store").rows;
        assert_eq!(audit.len(), 1);
        assert_eq!((audit[0].before, audit[0].after), (Phase::Refused, Phase::Refused));
    }
}

#[tokio::test]
async fn a_refused_operation_that_was_started_over_is_sent_by_nobody() {
    for (rig, _place) in each(|| ScriptedTransport::new().status(402).status(200)) {
        assert!(pay(&rig, "order-42").send().await.expect_err("declined").is_refused());
        pay(&rig, "order-42/a").supersedes("order-42").send().await.expect("paid");
        let old = rig.record("order-42").await;
        for (action, why_not) in [
            (Action::Redrive { forced: true }, Forbidden::NotDead),
            (Action::Reopen, Forbidden::Resolved),
            (Action::Resolve(Resolution::NotApplied), Forbidden::NotDead),
        ] {
            let now = old.updated_at;
            let (by, why) = ("ada".to_owned(), "ticket 7".to_owned());
            let act = Act { action: action.clone(), by, why, now, fence: None };
            assert_eq!(rig.store.act(&old.id, act).await.expect("a store"), Err(why_not), "{action}");
        }
        assert_eq!(rig.client.recover(10).await.expect("a store").taken, 0);
        assert_eq!(rig.network.requests().len(), 2);
    }
}

/// Each try is started over by the next: the chain has one open end.
#[tokio::test]
async fn a_chain_of_refusals_is_started_over_at_its_end() {
    let network = || ScriptedTransport::new().status(402).status(402).status(200);
    for (rig, _place) in each(network) {
        pay(&rig, "order-42").send().await.expect_err("declined");
        pay(&rig, "order-42/a").supersedes("order-42").send().await.expect_err("declined");
        let from_the_start = pay(&rig, "order-42/b").supersedes("order-42").send().await;
        assert!(from_the_start.expect_err("in the way").is_predecessor_in_the_way());
        pay(&rig, "order-42/b").supersedes("order-42/a").send().await.expect("paid");
        assert_eq!(rig.network.requests().len(), 3);
    }
}

/// It is settled under both names, and started over under neither a second time.
#[tokio::test]
async fn an_adoption_takes_along_that_a_refused_operation_was_started_over() {
    for (rig, _place) in each(|| ScriptedTransport::new().status(402).status(200)) {
        pay(&rig, "order-42").send().await.expect_err("declined");
        pay(&rig, "order-42/a").supersedes("order-42").send().await.expect("paid");
        let old = rig.record("order-42").await;
        let to = Scope::from_stored("new/acme/main/POST /charges");
        let act = Act {
            action: Action::Adopt { to: to.clone() },
            by: "ada".to_owned(),
            why: "renamed".to_owned(),
            now: old.updated_at,
            fence: None,
        };
        rig.store.act(&old.id, act).await.expect("a store").expect("allowed");
        let moved = OperationId::new(to, old.id.key.clone());
        let moved = rig.store.get(&moved).await.expect("a store").expect("adopted");
        assert_eq!(moved.resolved, old.resolved);
    }
}

/// Whatever is in the way is said in a word of its own, and nothing is sent.
#[tokio::test]
async fn what_cannot_be_started_over_is_refused_with_a_word() {
    let network = || ScriptedTransport::new().status(200).fail(SendErrorKind::Connect).status(401).hang();
    for (rig, _place) in each(network) {
        pay(&rig, "done").send().await.expect("paid");
        pay(&rig, "waits").deadline(ms(300)).send().await.expect_err("postponed");
        pay(&rig, "freed").send().await.expect_err("refused");
        let held = tokio::spawn(pay(&rig, "held").send());
        until(|| rig.network.requests().len() >= 4).await;
        for (old, word, effect) in [
            ("gone", "it is not on record", Effect::None),
            ("done", "it took effect", Effect::Applied),
            ("waits", "it has not ended", Effect::None),
            ("freed", "send that key itself", Effect::None),
            ("held", "it has not ended", Effect::Unknown),
        ] {
            let told = pay(&rig, "new").supersedes(old).send().await.expect_err("in the way");
            assert!(told.is_predecessor_in_the_way() && told.to_string().contains(word), "{old}: {told}");
            assert_eq!(told.effect(), effect, "{old}: {told}");
        }
        held.abort();
        assert_eq!(rig.network.requests().len(), 4);
    }
}
