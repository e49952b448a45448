//! Enqueued calls of one sequence, by whole clients: order, who waits for whom, and what callers are told meanwhile.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use steadfast::clock::Clock as _;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::{Action, Filter, Phase, Resolution};
use steadfast::operation::{Key, OperationId};
use steadfast::testkit::TestClock;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Disposition, Effect, Enqueued, InFlight, Inbound, Sequence};

use crate::second_effects::Bench;

impl Bench {
    fn sequenced(&self, clock: &TestClock) -> Client {
        self.in_namespace("prod", Stripe::new("sk_test_1"), Bench::policy(), clock)
    }

    /// The keys in the order in which their requests went out.
    fn order(&self) -> Vec<String> {
        let path = |request: &steadfast::transport::Request| request.url.path().replace("/v1/customers/", "");
        self.network.requests().iter().map(path).collect()
    }

    async fn phase(&self, id: &OperationId) -> Phase {
        self.store.get(id).await.expect("works").expect("on record").phase()
    }
}

fn call(client: &Client, key: &str) -> Call {
    client.post(&format!("/v1/customers/{key}")).key(key)
}

async fn enqueue(client: &Client, key: &str, sequence: impl Into<Sequence>) -> Enqueued {
    call(client, key).sequence(sequence).enqueue().await.expect("it is recorded")
}

#[tokio::test]
async fn one_round_delivers_a_sequence_in_order() {
    for bench in Bench::each() {
        let client = bench.sequenced(&TestClock::auto());
        let _ = (0..4).fold(bench.network.clone(), |network, _| network.status(200));
        for key in ["c", "a", "b", "d"] {
            enqueue(&client, key, "customer-7").await;
        }
        assert_eq!(client.recover(3).await.expect("a store").succeeded, 3, "no more than it was asked for");
        assert_eq!(client.recover(3).await.expect("a store").succeeded, 1);
        assert_eq!(bench.order(), ["c", "a", "b", "d"]);
    }
}

/// The end of one, by a delivery or by a cancellation, wakes the dispatcher of the process: nobody waits for a period.
#[tokio::test]
async fn the_next_begins_as_soon_as_the_one_before_it_has_ended() {
    // In a file, virtual time would pass while the thread that writes it works.
    for bench in Bench::each().into_iter().take(1) {
        let clock = TestClock::auto();
        let client = bench.sequenced(&clock);
        let _ = (0..9).fold(bench.network.clone(), |network, _| network.status(200));
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(Duration::from_millis(10)).await;
        let mut last = None;
        for key in ["a", "b", "c", "d", "e", "f"] {
            last = Some(enqueue(&client, key, "customer-7").await);
        }
        let began = clock.now();
        last.expect("some").wait(Duration::from_secs(60)).await.expect("it is done");
        let took = clock.now().since(began);
        assert!(took < PERIOD / 2, "six in a row within {took:?}");
        assert_eq!(bench.order(), ["a", "b", "c", "d", "e", "f"]);

        let later = call(&client, "g").sequence("customer-7").after(Duration::from_secs(3_600));
        let later = later.enqueue().await.expect("it is recorded");
        let behind = enqueue(&client, "h", "customer-7").await;
        let waits = behind.wait(Duration::from_secs(5)).await.expect_err("g holds it");
        assert_eq!(waits.disposition(), Disposition::Continues { at: waits.retry_at().map(Into::into) });
        let began = clock.now();
        later.cancel("not wanted").await.expect("nobody holds it");
        behind.wait(Duration::from_secs(60)).await.expect("it is done");
        assert!(clock.now().since(began) < PERIOD / 2);
    }
}

#[tokio::test]
async fn a_retry_holds_the_next_and_a_refusal_does_not() {
    for bench in Bench::each() {
        let clock = TestClock::auto();
        let client = bench.sequenced(&clock);
        let declined = serde_json::json!({"error": {"type": "card_error", "message": "declined"}});
        let slow_down = bench.network.clone().status(429).header("retry-after", "3600");
        let _ = slow_down.json(402, declined).header("request-id", "req_1").status(200);
        for key in ["a", "b"] {
            enqueue(&client, key, "customer-7").await;
        }
        assert_eq!(client.recover(8).await.expect("a store").postponed, 1);
        for _ in 0..3 {
            assert_eq!(client.recover(8).await.expect("a store").taken, 0, "it waits for the vendor's hour");
        }
        clock.advance(Duration::from_secs(7_200));
        let recovered = client.recover(8).await.expect("a store");
        assert_eq!((recovered.refused, recovered.succeeded), (1, 1));
        assert_eq!(bench.order(), ["a", "a", "b"]);
    }
}

#[tokio::test]
async fn a_send_of_one_that_waits_does_not_jump_the_queue() {
    for bench in Bench::each() {
        let clock = TestClock::auto();
        let client = bench.sequenced(&clock);
        let _ = bench.network.clone().fail(SendErrorKind::Connect).fail(SendErrorKind::Connect);
        let _ = bench.network.clone().fail(SendErrorKind::Connect).status(200).status(201);
        let first = enqueue(&client, "a", "customer-7").await;
        enqueue(&client, "b", "customer-7").await;
        let told = call(&client, "b").send().await.expect_err("it waits");
        assert!(told.is_in_progress() && told.effect() == Effect::None, "{told}");
        assert!(told.retry_at().is_some_and(|at| at > clock.wall().into()), "{told}");
        assert_eq!(bench.order(), [""; 0]);

        assert_eq!(client.recover(8).await.expect("a store").dead, 1);
        let held = call(&client, "b").in_flight(InFlight::Wait).deadline(Duration::from_secs(3));
        let told = held.send().await.expect_err("a dead letter holds it");
        assert!(told.is_in_progress() && told.effect() == Effect::None, "{told}");
        assert_eq!(told.disposition(), Disposition::Continues { at: None }, "nobody knows when");
        bench.act(first.id(), Action::Redrive { forced: false }, clock.wall()).await.expect("due");
        assert_eq!(client.recover(1).await.expect("a store").succeeded, 1);
        let reply = call(&client, "b").send().await.expect("its turn has come");
        assert_eq!(reply.status(), 201);
        assert_eq!(bench.order(), ["a", "a", "a", "a", "b"]);
    }
}

#[tokio::test]
async fn a_dead_letter_holds_its_sequence_or_is_skipped() {
    for (skips, order) in [(false, "a a a"), (true, "a a a b")] {
        for bench in Bench::each() {
            let clock = TestClock::auto();
            let client = bench.sequenced(&clock);
            let _ = (0..3).fold(bench.network.clone(), |network, _| network.fail(SendErrorKind::Connect));
            let _ = bench.network.clone().status(200).status(200);
            let sequence = Sequence::new("customer-7");
            let sequence = if skips { sequence.skip_dead_letters() } else { sequence };
            let letter = enqueue(&client, "a", sequence.clone()).await;
            let next = enqueue(&client, "b", sequence).await;
            client.recover(8).await.expect("a store");
            clock.advance(Duration::from_secs(3_600));
            client.recover(8).await.expect("a store");
            assert_eq!(bench.order().join(" "), order);
            assert_eq!(bench.phase(letter.id()).await, Phase::Dead);
            let letters = DeadLetters::new(bench.store.clone());
            let held = letters.stats().await.expect("a store").held;
            assert_eq!(held.len(), usize::from(!skips));
            bench
                .act(letter.id(), Action::Resolve(Resolution::NotApplied), clock.wall())
                .await
                .expect("a word");
            client.recover(8).await.expect("a store");
            assert_eq!(bench.phase(next.id()).await, Phase::Succeeded);
        }
    }
}

/// The call that an operator sends in place of a dead letter goes where that stood.
#[tokio::test]
async fn an_edited_letter_keeps_its_place() {
    for bench in Bench::each() {
        let clock = TestClock::auto();
        let client = bench.sequenced(&clock);
        let _ = (0..3).fold(bench.network.clone(), |network, _| network.fail(SendErrorKind::Connect));
        let letter = enqueue(&client, "a", "customer-7").await;
        enqueue(&client, "b", "customer-7").await;
        client.recover(8).await.expect("a store");
        let _ = bench.network.clone().status(200).status(200);
        let letters = DeadLetters::new(bench.store.clone()).with_client(&client).with_clock(clock.clone());
        let key = Key::new("a-2").expect("a key");
        let how = Change::by("ada").because("the amount");
        letters.edit(letter.id(), key, "amount=2", &how).await.expect("it had no effect");
        assert_eq!(client.recover(8).await.expect("a store").succeeded, 2);
        let bodies: Vec<_> = bench.network.requests().iter().map(|request| request.body.clone()).collect();
        assert_eq!(bodies[3..], [&b"amount=2"[..], b""]);
    }
}

#[tokio::test]
async fn what_no_record_would_keep_is_a_mistake() {
    for bench in Bench::each() {
        let client = bench.sequenced(&TestClock::auto());
        let mut headers = HeaderMap::new();
        headers.insert("x-do-not-retry", HeaderValue::from_static("true"));
        let inbound = Inbound::from_headers(&headers);
        for (call, code) in [
            (call(&client, "a").backoff(steadfast::policy::Backoff::none()), "VALIDATION.policy"),
            (call(&client, "a").inbound(&inbound), "VALIDATION.inbound"),
            (call(&client, "a").sequence(""), "VALIDATION.sequence"),
            (call(&client, "a").sequence("größe"), "VALIDATION.sequence"),
            (call(&client, "a").sequence("s".repeat(256)), "VALIDATION.sequence"),
        ] {
            let mistake = call.enqueue().await.expect_err("a mistake");
            assert_eq!((mistake.code(), mistake.effect()), (code, Effect::None));
        }
        let sent = call(&client, "a").sequence("customer-7").send().await.expect_err("a mistake");
        assert_eq!((sent.code(), sent.effect()), ("VALIDATION.sequence", Effect::None));
        let page = bench.store.list(&Filter::default(), None, 1).await.expect("works");
        assert_eq!((page.rows.len(), bench.order().len()), (0, 0));
        call(&client, "a").sequence("s".repeat(255)).enqueue().await.expect("it is recorded");
        let timed = Inbound::from_headers(&HeaderMap::new());
        call(&client, "b").inbound(&timed).enqueue().await.expect("it is recorded");
    }
}
