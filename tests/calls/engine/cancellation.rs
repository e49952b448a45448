//! A dropped future wedges nothing and loses nothing.

use steadfast::operation::record::State;
use steadfast::store::Store;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Obtained, Policy};

use support::acme::Acme;
use support::rig::{Rig, plain, secs, until};

pub async fn drop_in_flight(rig: &Rig) {
    let charge = rig.charge();
    let task = tokio::spawn(async move { charge.send().await });
    let before = rig.charges_sent();
    until(|| rig.charges_sent() > before).await;
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
}

#[tokio::test]
async fn a_keyed_call_dropped_in_flight_leaves_a_record_in_progress() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    let record = rig.store.get(&super::id()).await.expect("a store").expect("a record");
    assert!(matches!(record.state, State::InProgress { .. }));
    let error = rig.charge().send().await.expect_err("its lease has not run out");
    assert!(error.is_in_progress());
}

#[tokio::test]
async fn an_expired_lease_inside_the_replay_window_is_resent_under_the_same_key() {
    let vendor = Acme::replaying(secs(86_400));
    let rig = Rig::new(vendor.clone(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    rig.clock.advance(secs(3_600));
    let heir = rig.another_process(vendor, ScriptedTransport::new().status(200));
    heir.charge().send().await.expect("the vendor replays or does it now");
    let (first, second) = (&rig.network.requests()[0], &heir.network.requests()[0]);
    assert_eq!(first.headers["acme-key"], second.headers["acme-key"]);
    assert_eq!(first.body, second.body);
}

#[tokio::test]
async fn an_expired_lease_with_a_lookup_is_looked_up_before_anything_is_sent() {
    let rig = Rig::new(Acme::searchable(), ScriptedTransport::new().hang());
    drop_in_flight(&rig).await;
    rig.clock.advance(secs(3_600));
    let transport = ScriptedTransport::new().json(200, serde_json::json!([{"id": "ch_1"}]));
    let heir = rig.another_process(Acme::searchable(), transport);
    assert_eq!(heir.charge().send().await.expect("found").obtained(), Obtained::Reconciled);
    assert_eq!(heir.charges_sent(), 0);
}

#[tokio::test]
async fn a_dropped_call_gives_back_every_permit() {
    let mut breaker = Policy::background().breaker.expect("the preset has one");
    breaker.consecutive_failures = Some(1);
    breaker.probes = 1;
    let policy = plain().breaker(breaker).concurrency(1);
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).hang().status(200);
    let rig = Rig::with(Acme::new(), transport, policy);
    let once = steadfast::policy::Backoff::none();
    rig.client.get("/x").backoff(once).send().await.expect_err("trips the breaker");
    rig.clock.advance(secs(2));
    drop_in_flight(&rig).await;
    rig.client.get("/x").send().await.expect("the probe's place and the permit are free again");
}
