//! Calls that are recorded now and sent by a dispatcher.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::json;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::dead_letter::DeadLetterError;
use steadfast::dispatcher::PERIOD;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::{Client, Disposition, Effect, Enqueued, Obtained, Reason};

use super::vendor::Acme;
use super::{Bench, ms, plain, secs};

fn bench(transport: ScriptedTransport) -> Bench {
    Bench::new(Acme::new(), transport)
}

fn ok() -> ScriptedTransport {
    ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), Vec::new()))
}

async fn enqueued(bench: &Bench) -> Enqueued {
    bench.charge().enqueue().await.expect("it is recorded")
}

#[tokio::test]
async fn it_is_recorded_now_and_sent_once_by_recovery() {
    let bench = bench(ScriptedTransport::new().status(200));
    let charge = enqueued(&bench).await;
    assert!(charge.is_new());
    assert_eq!((bench.charges_sent(), charge.id().key.as_str()), (0, "order-42/charge"));
    let early = charge.wait(secs(0)).await.expect_err("nobody has sent it");
    assert_eq!((early.code(), early.effect()), ("CONFLICT.idempotency.in_progress", Effect::None));
    assert_eq!(early.disposition(), Disposition::Continues { at: early.retry_at().map(Timestamp::from) });
    let recovered = bench.client.recover(8).await.expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded), (1, 1));
    let reply = charge.wait(secs(0)).await.expect("it is done");
    assert_eq!((reply.status().as_u16(), reply.key()), (200, Some("order-42/charge")));
    assert_eq!((reply.wire_key(), bench.charges_sent()), (Some(charge.wire_key()), 1));
}

#[tokio::test]
async fn a_dispatcher_of_the_process_begins_at_once() {
    let bench = bench(ok());
    let _dispatcher = bench.client.keep_recovering(PERIOD);
    bench.clock.latency(ms(10)).await;
    for key in ["one", "two"] {
        let began = bench.clock.now();
        let charge = bench.client.post("/charges").key(key).enqueue().await.expect("it is recorded");
        charge.wait(secs(60)).await.expect("it is done");
        let took = bench.clock.now().since(began);
        assert!(took < PERIOD / 10, "{key}, {took:?}: it does not wait for the next look");
    }
}

#[tokio::test]
async fn what_is_for_later_is_not_sent_before() {
    for by_time in [false, true] {
        let bench = bench(ScriptedTransport::new().status(200));
        let at = bench.clock.wall().plus(secs(3_600));
        let call = if by_time { bench.charge().at(at) } else { bench.charge().after(secs(3_600)) };
        let charge = call.enqueue().await.expect("it is recorded");
        bench.clock.advance(secs(3_600) - ms(1));
        assert_eq!(bench.client.recover(8).await.expect("a store").taken, 0);
        assert_eq!(charge.wait(secs(0)).await.expect_err("not yet").retry_at(), Some(at.into()));
        bench.clock.advance(ms(1));
        assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1);
    }
}

/// A time that has passed is now.
#[tokio::test]
async fn what_was_for_earlier_is_sent_now() {
    let bench = bench(ScriptedTransport::new().status(200));
    let past = bench.clock.wall().minus(secs(86_400));
    bench.charge().at(past).enqueue().await.expect("it is recorded");
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn the_vendors_window_begins_with_the_first_send() {
    let transport = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
    let bench = Bench::new(Acme::replaying(secs(60)), transport);
    let charge = bench.charge().after(secs(48 * 3_600)).enqueue().await.expect("it is recorded");
    bench.clock.advance(secs(48 * 3_600));
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1);
    charge.wait(secs(0)).await.expect("the second send is answered by the vendor's record");
    assert_eq!(bench.charges_sent(), 2);
}

#[tokio::test]
async fn the_same_key_is_the_same_operation() {
    let bench = bench(ScriptedTransport::new().status(201));
    let first = enqueued(&bench).await;
    let again = bench.charge().after(secs(60)).enqueue().await.expect("it is there");
    assert!(!again.is_new() && again.id() == first.id());
    let other = bench.client.post("/charges").key("order-42/charge").json(&json!({"amount": 1}));
    let error = other.enqueue().await.expect_err("another request");
    assert!(error.is_key_reused(), "{error}");
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1, "it is due as it first was");
    let late = bench.charge().enqueue().await.expect("it is there");
    assert!(!late.is_new());
    assert_eq!(late.wait(secs(0)).await.expect("it is done").status().as_u16(), 201);
    assert_eq!(bench.charges_sent(), 1);
}

#[tokio::test]
async fn what_has_ended_badly_is_told_at_once() {
    let lost = bench(ScriptedTransport::new().fail(SendErrorKind::Reset));
    lost.charge().send().await.expect_err("nobody can tell");
    let error = lost.charge().enqueue().await.expect_err("it is a dead letter");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));

    let refused = bench(ScriptedTransport::new().status(402));
    refused.charge().send().await.expect_err("it is refused");
    assert!(refused.charge().enqueue().await.expect_err("it was refused").is_refused());
}

/// Refused credentials leave the key free. Once they are mended, it is sent.
#[tokio::test]
async fn what_the_credentials_stopped_is_recorded_anew() {
    let bench = bench(ScriptedTransport::new().status(401).status(200));
    bench.charge().send().await.expect_err("the secret is wrong");
    assert!(enqueued(&bench).await.is_new());
    assert_eq!(bench.charges_sent(), 1, "nothing is sent yet");
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1);
}

#[tokio::test]
async fn a_send_of_the_same_key_takes_it_over_once_it_is_due() {
    let bench = bench(ScriptedTransport::new().status(200));
    bench.charge().after(secs(60)).enqueue().await.expect("it is recorded");
    let early = bench.charge().send().await.expect_err("it is for later");
    assert!(early.is_in_progress() && early.effect() == Effect::None, "{early}");
    bench.clock.advance(secs(60));
    let reply = bench.charge().send().await.expect("it is sent now");
    assert_eq!((reply.obtained(), bench.charges_sent()), (Obtained::Fresh, 1));
    assert_eq!(bench.client.recover(8).await.expect("a store").taken, 0);
}

#[tokio::test]
async fn an_operation_that_somebody_holds_is_left_to_them() {
    let clock = TestClock::new();
    let (transport, store) = (ScriptedTransport::new().hang(), Arc::default());
    let client = Bench::client(Acme::new(), &transport, plain(), FixedRandom::at(0.5), &clock, &store);
    let bench = Bench { client, transport, clock, store };
    let charge = bench.charge();
    let sending = tokio::spawn(async move { charge.send().await });
    while bench.charges_sent() == 0 {
        tokio::task::yield_now().await;
    }
    let held = enqueued(&bench).await;
    assert!(!held.is_new());
    let refused = held.cancel("too late").await.expect_err("it is under way");
    assert!(matches!(refused, DeadLetterError::Refused { .. }), "{refused}");
    sending.abort();
}

#[tokio::test]
async fn what_is_cancelled_is_never_sent() {
    let bench = bench(ok());
    let charge = enqueued(&bench).await;
    charge.cancel("paid by hand").await.expect("nobody holds it");
    assert_eq!(bench.client.recover(8).await.expect("a store").taken, 0);
    let error = charge.wait(secs(60)).await.expect_err("it was cancelled");
    assert_eq!((error.effect(), error.disposition()), (Effect::None, Disposition::Ended));
    assert_eq!(bench.charges_sent(), 0);
    let record = bench.store.get(charge.id()).await.expect("a store").expect("it is kept");
    let said = record.resolved.expect("a word");
    assert_eq!((said.by.as_str(), said.why.as_str()), (Enqueued::CANCELLED_BY, "paid by hand"));
}

/// A reminder that was cancelled, and is wanted after all.
#[tokio::test]
async fn what_was_cancelled_before_its_first_send_can_be_started_over() {
    let bench = bench(ok());
    enqueued(&bench).await.cancel("not yet").await.expect("nobody holds it");
    let again = || bench.client.post("/charges").key("order-42/charge-2").supersedes("order-42/charge");
    again().enqueue().await.expect("it had no effect");
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 1);
    let third = bench.client.post("/charges").key("order-42/charge-3").supersedes("order-42/charge");
    let error = third.send().await.expect_err("another took its place");
    assert!(error.is_predecessor_in_the_way() && error.effect() == Effect::Unknown, "{error}");
    assert_eq!(bench.charges_sent(), 1);
}

#[tokio::test]
async fn what_another_process_delivers_is_seen_within_a_second() {
    let bench = bench(ScriptedTransport::new());
    let other = bench.another_process(Acme::new(), ScriptedTransport::new().status(200));
    let charge = enqueued(&bench).await;
    let delivered_at = Arc::new(parking_lot::Mutex::new(None));
    let (clock, at, client) = (bench.clock.clone(), delivered_at.clone(), other.client.clone());
    let delivery = async move {
        clock.latency(secs(30)).await;
        client.recover(8).await.expect("a store");
        *at.lock() = Some(clock.now());
    };
    let (reply, ()) = tokio::join!(charge.wait(secs(60)), delivery);
    assert_eq!(reply.expect("it is done").status().as_u16(), 200);
    let delivered_at = delivered_at.lock().expect("it was delivered");
    assert!(bench.clock.now().since(delivered_at) <= secs(1));
}

#[tokio::test]
async fn a_call_with_a_time_is_for_enqueue_alone() {
    let bench = bench(ScriptedTransport::new());
    for call in [bench.charge().after(secs(1)), bench.charge().at(bench.clock.wall())] {
        let error = call.send().await.expect_err("a mistake");
        assert_eq!((error.code(), error.effect()), ("VALIDATION.input", Effect::None));
    }
    assert_eq!(bench.transport.requests().len(), 0);
}

#[tokio::test]
async fn mistakes_are_told_and_nothing_is_recorded() {
    let bench = bench(ScriptedTransport::new());
    let call = bench.charge().header("Authorization", "Bearer x");
    assert_eq!(call.enqueue().await.expect_err("a secret").code(), "VALIDATION.header");
    assert_eq!(bench.store.len(), 0);
}

#[tokio::test]
async fn a_call_without_a_key_is_given_one() {
    let bench = bench(ok());
    for call in [bench.client.post("/charges"), bench.client.get("/charges")] {
        let enqueued = call.enqueue().await.expect("it is recorded");
        assert!(enqueued.id().key.as_str().starts_with("generated/"), "{enqueued:?}");
    }
    assert_eq!(bench.client.recover(8).await.expect("a store").succeeded, 2);
}

/// It survives the process that accepted it.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn what_was_accepted_is_delivered_by_the_next_process() {
    use steadfast::store::Sqlite;

    let file = tempfile::tempdir().expect("a directory");
    let path = file.path().join("calls.db");
    let clock = TestClock::auto();
    let client = |transport: ScriptedTransport| -> Client {
        Client::builder(Acme::new())
            .policy(plain())
            .transport(transport)
            .clock(clock.clone())
            .store(Sqlite::open(&path).expect("opens"))
            .build()
            .expect("a client")
    };
    let first = client(ScriptedTransport::new());
    first.post("/charges").key("order-42").enqueue().await.expect("it is recorded");
    drop(first);
    let transport = ScriptedTransport::new().status(200);
    let second = client(transport.clone());
    assert_eq!(second.recover(8).await.expect("a store").succeeded, 1);
    assert_eq!(transport.requests().len(), 1);
}

/// What a store remembers is bounded by what has ended: what is accepted is never given up for room.
#[tokio::test]
async fn a_full_memory_store_refuses_and_says_that_nothing_is_on_record() {
    let store = Arc::new(Memory::with_capacity(1));
    let transport = ScriptedTransport::new();
    let clock = TestClock::auto();
    let client = Client::builder(Acme::new())
        .policy(plain())
        .transport(transport)
        .clock(clock)
        .store(Arc::clone(&store))
        .build()
        .expect("a client");
    client.post("/charges").key("one").enqueue().await.expect("it is recorded");
    let error = client.post("/charges").key("two").enqueue().await.expect_err("no room");
    assert!(error.is_store() && error.effect() == Effect::None, "{error}");
}
