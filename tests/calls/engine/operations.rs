//! One key, one effect.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use steadfast::operation::record::State;
use steadfast::store::Store;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Effect, Obtained};

use super::id;
use support::acme::Acme;
use support::rig::{Rig, secs, until};
use support::watched::Watched;

#[tokio::test]
async fn a_settled_operation_is_replayed_as_first_received_and_not_sent() {
    let transport =
        ScriptedTransport::new().json(200, serde_json::json!({"id": "ch_1"})).header("x-request-id", "r1");
    let rig = Rig::new(Acme::new(), transport);
    let first = rig.charge().send().await.expect("a reply");
    let second = rig.charge().send().await.expect("the same reply");
    assert_eq!((first.obtained(), second.obtained()), (Obtained::Fresh, Obtained::Replayed));
    assert_eq!(first.answer(), second.answer());
    assert_eq!(first.wire_key(), second.wire_key());
    assert_eq!(rig.charges_sent(), 1);
}

#[tokio::test]
async fn the_same_key_with_another_body_is_refused_and_nothing_is_sent() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.charge().send().await.expect("a reply");
    let other = rig.client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 9}));
    let error = other.send().await.expect_err("another request");
    assert!(error.is_key_reused());
    assert_eq!((error.code(), error.effect()), ("CONFLICT.idempotency.payload_mismatch", Effect::Applied));
    assert_eq!(rig.charges_sent(), 1);
}

#[tokio::test]
async fn every_attempt_carries_the_same_wire_key_and_the_same_bytes() {
    let transport = ScriptedTransport::new().status(503).fail(SendErrorKind::Reset).status(500).status(200);
    let rig = Rig::new(Acme::replaying(secs(86_400)), transport);
    let reply = rig.charge().send().await.expect("the fourth attempt succeeds");
    assert_eq!(reply.attempts(), 4);
    let sent = rig.network.requests();
    assert_eq!(sent.len(), 4);
    for request in &sent {
        assert_eq!(request.headers.get("acme-key"), sent[0].headers.get("acme-key"));
        assert_eq!(request.body, sent[0].body);
        assert_eq!(request.url, sent[0].url);
    }
    assert_eq!(sent[0].headers["acme-key"].to_str().ok(), reply.wire_key());
}

#[tokio::test]
async fn two_processes_that_share_an_account_derive_the_same_wire_key() {
    let first = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let second = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let (a, b) = (first.charge().send().await.expect("ok"), second.charge().send().await.expect("ok"));
    assert_eq!(a.wire_key(), b.wire_key(), "a lost record still yields the same wire key");
}

#[tokio::test]
async fn a_refusal_is_final_and_repeats_itself() {
    let transport = ScriptedTransport::new().json(402, serde_json::json!({"error": "declined"}));
    let rig = Rig::new(Acme::new(), transport);
    for _ in 0..2 {
        let error = rig.charge().send().await.expect_err("declined");
        assert!(error.is_refused());
        assert_eq!(error.effect(), Effect::None);
        assert_eq!(error.answer().map(|answer| answer.body.clone()), Some(r#"{"error":"declined"}"#.into()));
    }
    assert_eq!(rig.charges_sent(), 1);
}

#[tokio::test]
async fn refused_credentials_leave_the_key_usable() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(401).status(200));
    let error = rig.charge().send().await.expect_err("a bad secret");
    assert_eq!(error.code(), "AUTH.unauthorized");
    rig.charge().send().await.expect("the secret was mended");
    assert_eq!(rig.charges_sent(), 2);
}

#[tokio::test]
async fn a_post_without_a_key_gets_one_that_can_be_read() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200).status(402));
    let reply = rig.client.post("/charges").send().await.expect("a reply");
    assert!(reply.key().is_some_and(|key| key.starts_with("generated/")));
    assert!(reply.wire_key().is_some());
    let error = rig.client.post("/charges").send().await.expect_err("declined");
    assert!(error.key().is_some_and(|key| key.starts_with("generated/")));
    assert_eq!(rig.charges_sent(), 2, "two calls without a key are two operations");
}

#[tokio::test]
async fn a_get_is_no_operation() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(500).status(200));
    let reply = rig.client.get("/balance").send().await.expect("a GET is retried freely");
    assert_eq!((reply.key(), reply.wire_key(), reply.attempts()), (None, None, 2));
}

#[tokio::test]
async fn a_replay_by_the_vendor_is_no_second_event() {
    let transport =
        ScriptedTransport::new().fail(SendErrorKind::Reset).status(200).header("acme-replayed", "true");
    let rig = Rig::new(Acme::replaying(secs(60)), transport);
    assert_eq!(rig.charge().send().await.expect("a reply").obtained(), Obtained::Replayed);
}

#[tokio::test]
async fn of_two_concurrent_calls_with_one_key_one_sends() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().hang().status(200));
    let first = rig.charge();
    let held = tokio::spawn(async move { first.send().await });
    until(|| rig.charges_sent() > 0).await;
    let error = rig.charge().send().await.expect_err("the other call holds it");
    assert!(error.is_in_progress());
    assert!(error.retry_at().is_some());
    assert_eq!(rig.charges_sent(), 1);
    held.abort();
}

/// Claims, transitions and reads of one call.
async fn cost(vendor: Acme, transport: ScriptedTransport) -> [usize; 3] {
    let store = Arc::new(Watched::default());
    let client = Rig::of(vendor).network(transport).store(Arc::clone(&store)).client();
    client.post("/charges").key("order-42/charge").send().await.expect("a reply");
    [&store.claims, &store.transitions, &store.reads].map(|count| count.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_clean_call_costs_two_durable_writes_and_no_read() {
    assert_eq!(cost(Acme::new(), ScriptedTransport::new().status(200)).await, [1, 1, 0]);
}

#[tokio::test]
async fn a_retry_costs_a_renewal() {
    let transport = || ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    assert_eq!(cost(Acme::new(), transport()).await, [1, 2, 0]);
    let replaying = Acme::replaying(std::time::Duration::from_secs(86_400));
    assert_eq!(cost(replaying, transport()).await, [1, 2, 0]);
}

/// Claims and transitions of a call that is enqueued and delivered, where the answer to the take comes so late.
async fn cost_of_delivery(late_ms: u64, is_set_back: bool) -> [usize; 2] {
    let clock = steadfast::testkit::TestClock::auto();
    let take_takes = Some((clock.clone(), std::time::Duration::from_millis(late_ms)));
    let store = Arc::new(Watched { take_takes, is_set_back, ..Watched::default() });
    let client = Rig::of(Acme::new()).network(ScriptedTransport::new().status(200));
    let client = client.clock(&clock).store(Arc::clone(&store)).client();
    client.post("/charges").key("order-42/charge").enqueue().await.expect("it is on record");
    assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
    [&store.claims, &store.transitions].map(|count| count.load(Ordering::Relaxed))
}

/// The take gave it a lease. Where anything came between, that may be over for everybody else.
#[tokio::test]
async fn a_delivery_costs_a_renewal_only_where_its_take_is_not_a_moment_ago() {
    for (late_ms, transitions) in [(0, 1), (900, 1), (1_100, 2)] {
        for is_set_back in [false, true] {
            let cost = cost_of_delivery(late_ms, is_set_back).await;
            assert_eq!(cost, [1, transitions], "{late_ms} ms, {is_set_back}");
        }
    }
}

#[tokio::test]
async fn an_arc_dyn_store_is_a_store() {
    let store: Arc<dyn Store> = Arc::new(steadfast::store::Memory::new());
    let client =
        Rig::of(Acme::new()).network(ScriptedTransport::new().status(200)).store(Arc::clone(&store)).client();
    client.post("/charges").key("order-42/charge").send().await.expect("a reply");
    let record = store.get(&id()).await.expect("a store").expect("a record");
    assert!(matches!(record.state, State::Succeeded { reconciled: false, .. }));
}
