//! Calls that are recorded now and sent by a dispatcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, StatusCode};
use serde_json::json;
use support::acme::Acme;
use support::rig::{Rig, ms, secs, until};
use tokio::task::JoinSet;

use steadfast::clock::{Clock as _, Timestamp};
use steadfast::dead_letter::DeadLetterError;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::OperationId;
use steadfast::operation::record::{Phase, Record};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::{Disposition, Effect, Enqueued, Obtained, Reason};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

fn ok() -> ScriptedTransport {
    ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), Vec::new()))
}

async fn enqueued(rig: &Rig) -> Enqueued {
    rig.charge().enqueue().await.expect("it is recorded")
}

#[tokio::test]
async fn it_is_recorded_now_and_sent_once_by_recovery() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let charge = enqueued(&rig).await;
    assert!(charge.is_new());
    assert_eq!((rig.charges_sent(), charge.id().key.as_str()), (0, "order-42/charge"));
    let early = charge.wait(secs(0)).await.expect_err("nobody has sent it");
    assert_eq!((early.code(), early.effect()), ("CONFLICT.idempotency.in_progress", Effect::None));
    assert_eq!(early.disposition(), Disposition::Continues { at: early.retry_at().map(Timestamp::from) });
    let recovered = rig.client.recover(8).await.expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded), (1, 1));
    let reply = charge.wait(secs(0)).await.expect("it is done");
    assert_eq!((reply.status().as_u16(), reply.key()), (200, Some("order-42/charge")));
    assert_eq!((reply.wire_key(), rig.charges_sent()), (Some(charge.wire_key()), 1));
}

#[tokio::test]
async fn a_dispatcher_of_the_process_begins_at_once() {
    let rig = Rig::new(Acme::new(), ok());
    let _dispatcher = rig.client.keep_recovering(PERIOD);
    rig.clock.latency(ms(10)).await;
    for key in ["one", "two"] {
        let began = rig.clock.now();
        let charge = rig.client.post("/charges").key(key).enqueue().await.expect("it is recorded");
        charge.wait(secs(60)).await.expect("it is done");
        let took = rig.clock.now().since(began);
        assert!(took < PERIOD / 10, "{key}, {took:?}: it does not wait for the next look");
    }
}

#[tokio::test]
async fn what_is_for_later_is_not_sent_before() {
    for by_time in [false, true] {
        let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
        let at = rig.clock.wall().plus(secs(3_600));
        let call = if by_time { rig.charge().at(at) } else { rig.charge().after(secs(3_600)) };
        let charge = call.enqueue().await.expect("it is recorded");
        rig.clock.advance(secs(3_600) - ms(1));
        assert_eq!(rig.client.recover(8).await.expect("a store").taken, 0);
        assert_eq!(charge.wait(secs(0)).await.expect_err("not yet").retry_at(), Some(at.into()));
        rig.clock.advance(ms(1));
        assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
    }
}

/// A time that has passed is now.
#[tokio::test]
async fn what_was_for_earlier_is_sent_now() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    let past = rig.clock.wall().minus(secs(86_400));
    rig.charge().at(past).enqueue().await.expect("it is recorded");
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn the_vendors_window_begins_with_the_first_send() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
    let rig = Rig::new(Acme::replaying(secs(60)), transport);
    let charge = rig.charge().after(secs(48 * 3_600)).enqueue().await.expect("it is recorded");
    rig.clock.advance(secs(48 * 3_600));
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
    charge.wait(secs(0)).await.expect("the second send is answered by the vendor's record");
    assert_eq!(rig.charges_sent(), 2);
}

#[tokio::test]
async fn the_same_key_is_the_same_operation() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(201));
    let first = enqueued(&rig).await;
    let again = rig.charge().after(secs(60)).enqueue().await.expect("it is there");
    assert!(!again.is_new() && again.id() == first.id());
    let other = rig.client.post("/charges").key("order-42/charge").json(&json!({"amount": 1}));
    let error = other.enqueue().await.expect_err("another request");
    assert!(error.is_key_reused(), "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert!(matches!(error.disposition(), Disposition::Continues { at: Some(_) }), "it is sent: {error}");
    assert!(error.to_string().contains("that operation goes on without you"), "{error}");
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1, "it is due as it first was");
    let late = rig.charge().enqueue().await.expect("it is there");
    assert!(!late.is_new());
    assert_eq!(late.wait(secs(0)).await.expect("it is done").status().as_u16(), 201);
    assert_eq!(rig.charges_sent(), 1);
}

/// In a rolling deploy the next version words the call otherwise.
#[tokio::test]
async fn a_handle_by_key_alone_waits_for_whatever_body_is_on_record() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(201));
    let other = || rig.client.post("/charges").key("order-42/charge").json(&json!({"amount": 1}));
    assert!(other().handle().await.expect("a store").is_none());
    let (first, mut ends) = (enqueued(&rig).await, rig.client.ends());
    assert!(other().enqueue().await.expect_err("another request").is_key_reused());
    let handle = other().handle().await.expect("a store").expect("it is on record");
    assert_eq!((handle.id(), handle.wire_key(), handle.is_new()), (first.id(), first.wire_key(), false));
    assert!(handle.wait(secs(0)).await.expect_err("nobody has sent it").is_in_progress());
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
    assert_eq!(handle.wait(secs(0)).await.expect("it is done").status().as_u16(), 201);

    let later = rig.client.post("/charges").key("later").after(secs(60)).enqueue().await.expect("recorded");
    let handle =
        rig.client.post("/charges").key("later").handle().await.expect("a store").expect("it is there");
    handle.cancel("not wanted").await.expect("it waits");
    let mut told = Vec::new();
    for _ in 0..2 {
        let end = ends.next().await.expect("none was missed");
        told.push((end.id, end.phase, end.effect));
    }
    let expected = [
        (first.id().clone(), Phase::Succeeded, Effect::Applied),
        (later.id().clone(), Phase::Resolved, Effect::None),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_ends_of_another_account_are_not_among_a_clients() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(201));
    let network = ScriptedTransport::new().status(201);
    let other = rig.another_process(Acme::new().account("other"), network);
    let mut ends = rig.client.ends();
    other.charge().send().await.expect("it is made");
    rig.charge().send().await.expect("it is made");
    assert_eq!(ends.next().await.expect("none was missed").id, super::id());
}

/// A store that counts what is asked of it, and wakes nobody of another process.
#[derive(Debug)]
struct Counted {
    store: Arc<Memory>,
    reads: AtomicUsize,
    looks: AtomicUsize,
    wakes: Wakes,
}

#[async_trait::async_trait]
impl Wrapper for Counted {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.get(id).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait::async_trait]
impl Delivery for Counted {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.store.look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.store.heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.store.versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

#[tokio::test]
async fn of_many_that_wait_one_looks_for_all() {
    const CALLS: usize = 50;
    let store = Arc::new(Memory::new());
    let counted =
        Arc::new(Counted { store: store.clone(), reads: 0.into(), looks: 0.into(), wakes: Wakes::new() });
    let rig = Rig::of(Acme::new()).network(ok()).store(Arc::clone(&counted)).build();
    let mut waiting = JoinSet::new();
    for nth in 0..CALLS {
        let call = rig.client.post("/charges").key(nth.to_string()).after(secs(150));
        let call = call.enqueue().await.expect("it is recorded");
        waiting.spawn(async move { call.wait(secs(1_000)).await });
    }
    rig.clock.latency(secs(100)).await;
    let asked = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let (reads, looks) = (asked(&counted.reads), asked(&counted.looks));
    assert!(reads <= CALLS * 10 && looks <= 210, "{reads} reads and {looks} looks");
    rig.clock.latency(secs(51)).await;
    // Another process delivers them.
    let other = Counted { store, reads: 0.into(), looks: 0.into(), wakes: Wakes::new() };
    let other = rig.beside(Acme::new()).network(ok()).store(Arc::new(other)).build();
    assert_eq!(other.client.recover(CALLS).await.expect("a store").succeeded, CALLS);
    let began = rig.clock.now();
    while let Some(ended) = waiting.join_next().await {
        ended.expect("no panic").expect("it is done");
    }
    assert!(rig.clock.now().since(began) <= secs(2), "each is woken");
}

#[tokio::test]
async fn what_has_ended_badly_is_told_at_once() {
    let lost = Rig::new(Acme::new(), ScriptedTransport::new().fail(SendErrorKind::Reset));
    lost.charge().send().await.expect_err("nobody can tell");
    let error = lost.charge().enqueue().await.expect_err("it is a dead letter");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));

    let refused = Rig::new(Acme::new(), ScriptedTransport::new().status(402));
    refused.charge().send().await.expect_err("it is refused");
    assert!(refused.charge().enqueue().await.expect_err("it was refused").is_refused());
}

/// Refused credentials leave the key free. Once they are mended, it is sent.
#[tokio::test]
async fn what_the_credentials_stopped_is_recorded_anew() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(401).status(200));
    rig.charge().send().await.expect_err("the secret is wrong");
    assert!(enqueued(&rig).await.is_new());
    assert_eq!(rig.charges_sent(), 1, "nothing is sent yet");
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn a_send_of_the_same_key_takes_it_over_once_it_is_due() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new().status(200));
    rig.charge().after(secs(60)).enqueue().await.expect("it is recorded");
    let early = rig.charge().send().await.expect_err("it is for later");
    assert!(early.is_in_progress() && early.effect() == Effect::None, "{early}");
    rig.clock.advance(secs(60));
    let reply = rig.charge().send().await.expect("it is sent now");
    assert_eq!((reply.obtained(), rig.charges_sent()), (Obtained::Fresh, 1));
    assert_eq!(rig.client.recover(8).await.expect("a store").taken, 0);
}

#[tokio::test]
async fn an_operation_that_somebody_holds_is_left_to_them() {
    let rig = Rig::of(Acme::new()).network(ScriptedTransport::new().hang()).clock(&TestClock::new()).build();
    let charge = rig.charge();
    let sending = tokio::spawn(async move { charge.send().await });
    until(|| rig.charges_sent() > 0).await;
    let held = enqueued(&rig).await;
    assert!(!held.is_new());
    let refused = held.cancel("too late").await.expect_err("it is under way");
    assert!(matches!(refused, DeadLetterError::Refused { .. }), "{refused}");
    sending.abort();
}

#[tokio::test]
async fn what_is_cancelled_is_never_sent() {
    let rig = Rig::new(Acme::new(), ok());
    let charge = enqueued(&rig).await;
    charge.cancel("paid by hand").await.expect("nobody holds it");
    assert_eq!(rig.client.recover(8).await.expect("a store").taken, 0);
    let error = charge.wait(secs(60)).await.expect_err("it was cancelled");
    assert_eq!((error.effect(), error.disposition()), (Effect::None, Disposition::Ended));
    assert_eq!(rig.charges_sent(), 0);
    let record = rig.store.get(charge.id()).await.expect("a store").expect("it is kept");
    let said = record.resolved.expect("a word");
    assert_eq!((said.by.as_str(), said.why.as_str()), (Enqueued::CANCELLED_BY, "paid by hand"));
}

/// A reminder that was cancelled, and is wanted after all.
#[tokio::test]
async fn what_was_cancelled_before_its_first_send_can_be_started_over() {
    let rig = Rig::new(Acme::new(), ok());
    enqueued(&rig).await.cancel("not yet").await.expect("nobody holds it");
    let again = || rig.client.post("/charges").key("order-42/charge-2").supersedes("order-42/charge");
    again().enqueue().await.expect("it had no effect");
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 1);
    let third = rig.client.post("/charges").key("order-42/charge-3").supersedes("order-42/charge");
    let error = third.send().await.expect_err("another took its place");
    assert!(error.is_predecessor_in_the_way() && error.effect() == Effect::Unknown, "{error}");
    assert_eq!(rig.charges_sent(), 1);
}

#[tokio::test]
async fn what_another_process_delivers_is_seen_within_a_second() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new());
    let other = rig.another_process(Acme::new(), ScriptedTransport::new().status(200));
    let charge = enqueued(&rig).await;
    let delivered_at = Arc::new(parking_lot::Mutex::new(None));
    let (clock, at, client) = (rig.clock.clone(), delivered_at.clone(), other.client.clone());
    let delivery = async move {
        clock.latency(secs(30)).await;
        client.recover(8).await.expect("a store");
        *at.lock() = Some(clock.now());
    };
    let (reply, ()) = tokio::join!(charge.wait(secs(60)), delivery);
    assert_eq!(reply.expect("it is done").status().as_u16(), 200);
    let delivered_at = delivered_at.lock().expect("it was delivered");
    assert!(rig.clock.now().since(delivered_at) <= secs(1));
}

#[tokio::test]
async fn a_call_with_a_time_is_for_enqueue_alone() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new());
    for call in [rig.charge().after(secs(1)), rig.charge().at(rig.clock.wall())] {
        let error = call.send().await.expect_err("a mistake");
        assert_eq!((error.code(), error.effect()), ("VALIDATION.input", Effect::None));
    }
    assert_eq!(rig.network.requests().len(), 0);
}

#[tokio::test]
async fn mistakes_are_told_and_nothing_is_recorded() {
    let rig = Rig::new(Acme::new(), ScriptedTransport::new());
    let call = rig.charge().header("Authorization", "Bearer x");
    assert_eq!(call.enqueue().await.expect_err("a secret").code(), "VALIDATION.header");
    assert_eq!(rig.records().await, 0);
}

#[tokio::test]
async fn a_call_without_a_key_is_given_one() {
    let rig = Rig::new(Acme::new(), ok());
    for call in [rig.client.post("/charges"), rig.client.get("/charges")] {
        let enqueued = call.enqueue().await.expect("it is recorded");
        assert!(enqueued.id().key.as_str().starts_with("generated/"), "{enqueued:?}");
    }
    assert_eq!(rig.client.recover(8).await.expect("a store").succeeded, 2);
}
