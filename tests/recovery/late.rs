//! A call that waits for an outcome, and an outcome that comes late.

use std::time::Duration;

use std::sync::Arc;
use steadfast::clock::{Clock as _, Instant};
use steadfast::dispatcher::Dispatcher;
use steadfast::policy::Timeouts;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Call, Client, Disposition, Effect, Error, InFlight, Obtained, Policy, Reply};

use crate::delivery::time::on_virtual_time;
use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs, until};
use support::trouble::{Trouble, Troubled};

/// Attempts that are shorter than the ladder's first step: the call is waiting when it is overtaken.
fn policy() -> Policy {
    plain().timeout(Timeouts::new(ms(100), ms(100), secs(120)))
}

fn client(clock: &TestClock, store: &Arc<dyn Store>, network: &ScriptedTransport, policy: Policy) -> Client {
    let setup = Rig::of(Acme::replaying(secs(24 * 3_600))).policy(policy).network(network.clone());
    setup.random(FixedRandom::at(0.0)).clock(clock).store(Arc::clone(store)).client()
}

fn charge(client: &Client) -> Call {
    client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 4711}))
}

/// The answer to a call that another process overtakes while it waits for its first retry, and its time. The clock of
/// this one was set, so that the other takes the lease for over. `others` is what the other meets.
fn overtaken(
    in_flight: InFlight,
    deadline: Duration,
    others: impl FnOnce(&TestClock) -> ScriptedTransport,
) -> (Result<Reply, Error>, Instant) {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
        let first = client(&clock, &store, &network, policy());
        let told = tokio::spawn(charge(&first).in_flight(in_flight).deadline(deadline).send());
        until(|| clock.sleeping() > 0).await;
        clock.jump_wall(secs(3_600));
        let patient = policy().timeout(Timeouts::new(secs(5), secs(30), secs(120)));
        let other = client(&clock, &store, &others(&clock), patient);
        let recovery = tokio::spawn(async move { other.recover(1).await });
        let told = told.await.expect("no panic");
        let at = clock.now();
        assert_eq!(network.requests().len(), 1, "it is the other's to send");
        recovery.abort();
        (told, at)
    })
}

fn after(time: Duration) -> Instant {
    Instant::ORIGIN.plus(time)
}

/// The outcome, or what the call would have been told without waiting.
#[test]
fn a_call_that_is_overtaken_waits_for_the_new_holders_outcome() {
    let succeeds = |clock: &TestClock| ScriptedTransport::new().status(200).after(secs(5), clock);
    let (refused, at) = overtaken(InFlight::Refuse, secs(60), succeeds);
    let refused = refused.expect_err("it is another's");
    assert_eq!((refused.code(), at), ("TRANSIENT.fenced", after(ms(500))), "{refused}");
    let (told, at) = overtaken(InFlight::Wait, secs(60), succeeds);
    let told = told.expect("the other's success");
    assert_eq!(told.obtained(), Obtained::Replayed);
    // The other process is seen by the record alone, at intervals of up to half a second here.
    assert!((after(secs(5))..=after(ms(5_500))).contains(&at), "{at:?}");
    assert_eq!(Instant::ORIGIN.plus(told.waited()), at, "all of it was waited");
}

#[test]
fn an_overtaken_call_waits_no_longer_than_its_deadline_and_is_told_as_if_it_had_not() {
    let hangs = |_: &TestClock| ScriptedTransport::new().hang();
    let (refused, _) = overtaken(InFlight::Refuse, secs(3), hangs);
    let (told, at) = overtaken(InFlight::Wait, secs(3), hangs);
    let (refused, told) = (refused.expect_err("another's"), told.expect_err("another's"));
    assert_eq!(at, after(secs(3)));
    let words = |error: &Error| (error.code(), error.effect(), error.attempts().len(), error.disposition());
    assert_eq!(words(&told), words(&refused), "{told}");
    assert!(matches!(told.disposition(), Disposition::Continues { .. }), "{told}");
    assert_eq!(told.waited(), secs(3));
}

/// The other's record need not know of the send of this call: only a success is proof.
#[test]
fn an_overtaken_call_is_not_told_that_nothing_happened() {
    let refuses = |clock: &TestClock| ScriptedTransport::new().status(422).after(secs(5), clock);
    let (told, at) = overtaken(InFlight::Wait, secs(60), refuses);
    let told = told.expect_err("another's");
    assert_eq!((told.code(), told.effect()), ("TRANSIENT.fenced", Effect::Unknown), "{told}");
    assert_eq!(told.disposition(), Disposition::Ended, "the other has ended it");
    assert!((after(secs(5))..=after(ms(5_500))).contains(&at), "{at:?}");
}

#[test]
fn an_overtaken_call_does_not_wait_for_what_is_postponed_beyond_its_deadline() {
    let postpones = |clock: &TestClock| {
        ScriptedTransport::new().status(429).header("retry-after", "3600").after(secs(2), clock)
    };
    let (told, at) = overtaken(InFlight::Wait, secs(60), postpones);
    let told = told.expect_err("another's");
    assert_eq!(told.code(), "TRANSIENT.fenced", "{told}");
    assert!(matches!(told.disposition(), Disposition::Continues { at: Some(_) }), "{told}");
    assert!((after(secs(2))..=after(ms(2_500))).contains(&at), "{at:?}");
}

/// Nobody else would, in a service without recovery.
#[test]
fn an_overtaken_call_carries_on_with_what_the_new_holder_lets_go_of_in_time() {
    let lets_go = |clock: &TestClock| {
        ScriptedTransport::new().status(429).header("retry-after", "10").after(secs(2), clock)
    };
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
        let first = client(&clock, &store, &network, policy());
        let told = tokio::spawn(charge(&first).in_flight(InFlight::Wait).deadline(secs(60)).send());
        until(|| clock.sleeping() > 0).await;
        clock.jump_wall(secs(3_600));
        let other = client(
            &clock,
            &store,
            &lets_go(&clock),
            policy().timeout(Timeouts::new(secs(5), secs(30), secs(120))),
        );
        assert_eq!(other.recover(1).await.expect("a store").postponed, 1);
        let told = told.await.expect("no panic").expect("sent by this call");
        assert_eq!((told.obtained(), network.requests().len()), (Obtained::Fresh, 2));
        assert!((after(secs(12))..after(secs(13))).contains(&clock.now()), "{:?}", clock.now());
    });
}

/// An outcome that is written after its call has ended wakes those who wait for it in the same process, as any other.
#[test]
fn a_late_write_wakes_who_waits() {
    on_virtual_time(|clock, _| async move {
        let troubled = Arc::new(Troubled::default());
        let store: Arc<dyn Store> = troubled.clone();
        let network = ScriptedTransport::new().status(200);
        let client = client(&clock, &store, &network, plain());
        // Tried at 0, 50, 150, 350 and 750 ms by the call, at 800, 900, 1,100 and 1,500 ms without it.
        troubled.transitions([Trouble::Fail; 8]);
        let holder = tokio::spawn(charge(&client).deadline(secs(1)).send());
        until(|| !network.requests().is_empty()).await;
        let told = charge(&client).in_flight(InFlight::Wait).deadline(secs(30)).send().await;
        // By the record alone it would have been seen at 1,775 ms.
        assert_eq!(clock.now(), after(ms(1_500)));
        assert_eq!(told.expect("the holder's reply").obtained(), Obtained::Replayed);
        let held = holder.await.expect("no panic").expect_err("no record in time");
        assert!(held.is_store(), "{held}");
        assert_eq!(network.requests().len(), 1);
    });
}

/// Its write was taken for lost, and was there.
#[test]
fn a_late_write_that_was_done_before_wakes_too() {
    on_virtual_time(|clock, _| async move {
        let troubled = Arc::new(Troubled::default());
        let store: Arc<dyn Store> = troubled.clone();
        let network = ScriptedTransport::new().status(200);
        let client = client(&clock, &store, &network, plain());
        // Written at 1,100 ms, and said to have failed.
        troubled.transitions([Trouble::Fail; 7].into_iter().chain([Trouble::FailAfter]));
        let holder = tokio::spawn(charge(&client).deadline(secs(1)).send());
        until(|| !network.requests().is_empty()).await;
        // The waiter cannot read the record at 1,275 ms.
        let waiter = tokio::spawn(charge(&client).in_flight(InFlight::Wait).deadline(secs(30)).send());
        clock.latency(ms(1_200)).await;
        troubled.gets([Trouble::Fail]);
        let told = waiter.await.expect("no panic").expect("the holder's reply");
        assert_eq!((clock.now(), told.obtained()), (after(ms(1_500)), Obtained::Replayed));
        assert!(holder.await.expect("no panic").is_err());
    });
}

/// Nor does the next one of its sequence wait for its dispatcher's next look.
#[test]
fn a_late_write_wakes_the_next_of_its_sequence() {
    on_virtual_time(|clock, _| async move {
        let troubled = Arc::new(Troubled::default());
        let store: Arc<dyn Store> = troubled.clone();
        let network = ScriptedTransport::new().status(200).status(200);
        let client =
            client(&clock, &store, &network, plain().timeout(Timeouts::new(ms(500), ms(500), secs(2))));
        let enqueue = async |key: &str| {
            let call = client.post("/charges").key(key).sequence("customer-7");
            call.enqueue().await.expect("it is recorded")
        };
        let (_, next) = (enqueue("a").await, enqueue("b").await);
        // Tried at 0, 50, 150, 350, 750 and 1,550 ms by the run, at 1,600, 1,700 and 1,900 ms without it.
        troubled.transitions([Trouble::Fail; 8]);
        let _dispatcher = Dispatcher::over([&client]).period(secs(600)).start();
        next.wait(secs(60)).await.expect("it is sent");
        assert!((after(ms(1_900))..after(secs(2))).contains(&clock.now()), "{:?}", clock.now());
        assert_eq!(network.requests().len(), 2);
    });
}
