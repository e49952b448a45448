//! Stripe's documented behaviour, fact by fact, kept by engine and adapter together.

use http::Method;
use serde_json::json;
use steadfast::testkit::fakes::{ConflictType, RateLimitReason, StripeAnswer, StripeFake};
use steadfast::testkit::{Fault, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Obtained};

use super::vendors::{
    FRESH, RECONCILED, REPLAYED, Rig, Tap, charge, ending, ms, plain, promise_holds, secs, stripe, stripe_at,
    wire_key,
};

/// Fact 1: the first outcome is stored and replayed; a replay names the request it repeats.
#[tokio::test]
async fn fact_1_a_replay_carries_the_first_answer_and_names_its_request() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::DropAfterApply);
    let reply = charge(&rig.client, "order-42").send().await.expect("the replay");
    let headers = reply.headers();
    assert_eq!(headers["idempotent-replayed"], "true");
    assert_ne!(headers["original-request"], headers["request-id"]);
    let id = reply.json::<serde_json::Value>().expect("json")["id"].clone();
    assert_eq!(id.as_str(), Some(&*fake.ledger().effects()[0].id));
}

/// Fact 3: a key belongs to the account, not to the endpoint, so the wire key differs per endpoint.
#[tokio::test]
async fn fact_3_one_callers_key_on_two_endpoints_is_two_wire_keys() {
    let (rig, fake) = stripe().await;
    let form = [("amount", "1000"), ("currency", "usd")];
    let mut keys = Vec::new();
    for path in ["/v1/payment_intents", "/v1/charges", "/v1/payouts"] {
        let reply = rig.client.post(path).key("order-42").form(&form).send().await.expect(path);
        keys.push(reply.wire_key().expect("a key").to_owned());
    }
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), fake.ledger().count()), (3, 3));
}

/// Fact 4: other parameters under the same key end the operation; seen by a process without the record.
#[tokio::test]
async fn fact_4_other_parameters_under_the_same_key_are_terminal() {
    let (rig, fake) = stripe().await;
    charge(&rig.client, "order-42").send().await.expect("the charge");
    let other = |client: &Client| {
        client.post("/v1/payment_intents").key("order-42").form(&[("amount", "9"), ("currency", "usd")])
    };
    let here = other(&rig.client).send().await.expect_err("our own record knows");
    assert!(here.is_key_reused());
    assert_eq!(rig.posts(), 1);

    let amnesiac = Rig::over_sockets(stripe_at(&fake), &rig.clock);
    let there = other(&amnesiac.client).send().await.expect_err("Stripe knows");
    assert!(there.is_key_reused());
    assert_eq!(there.code(), "CONFLICT.idempotency.payload_mismatch");
    assert_eq!((amnesiac.posts(), fake.ledger().count()), (1, 1));
}

/// Fact 5: a 409 for a key in use is judged by status and code, never by the type on which sources disagree.
#[tokio::test]
async fn fact_5_a_key_in_use_is_retried_with_the_same_key_whatever_its_type() {
    for conflict_type in [ConflictType::InvalidRequest, ConflictType::Idempotency] {
        let clock = TestClock::auto();
        let fake =
            StripeFake::builder().test_clock(&clock).conflict_type(conflict_type).busy_for(secs(2)).start();
        let fake = fake.await;
        let rig = Rig::over_sockets(stripe_at(&fake), &clock);
        // Applied and lost; for two seconds the key is in use, then the answer is replayed.
        fake.plan().next(Fault::DropAfterApply);
        let outcome = charge(&rig.client, "order-42").send().await;
        let statuses = rig.clock.slept();
        assert_eq!((ending(&outcome), statuses), (REPLAYED, vec![ms(500), secs(2)]), "{conflict_type:?}");
        assert_eq!(fake.ledger().requests_for(&wire_key(&outcome)), 3);
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "in use"), 1);
    }
}

/// Fact 5: a key that never comes free again is looked up in the end, not called refused.
#[tokio::test]
async fn fact_5_a_key_in_use_for_ever_is_looked_up() {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).busy_for(secs(7200)).start().await;
    let rig = Rig::over_sockets(stripe_at(&fake), &clock);
    fake.plan().next(Fault::DropAfterApply);
    let outcome = rig.at_rest(|| charge(&rig.client, "order-42")).await;
    assert_eq!(ending(&outcome), RECONCILED);
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "in use for ever"), 1);
}

/// Fact 7: every kind of 429 is retried without effect, and none of them counts as a failure of Stripe.
#[tokio::test]
async fn fact_7_every_429_is_retried_and_none_opens_the_circuit() {
    use RateLimitReason::{
        EndpointConcurrency, EndpointRate, GlobalConcurrency, GlobalRate, ResourceSpecific,
    };
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).start().await;
    let breaker = steadfast::policy::BreakerConfig::default().consecutive_failures(1);
    let rig = Rig::over_sockets_with(stripe_at(&fake), &clock, plain().breaker(breaker));
    for reason in [GlobalRate, EndpointRate, GlobalConcurrency, EndpointConcurrency, ResourceSpecific] {
        fake.answer_next(StripeAnswer::RateLimited(reason)).answer_next(StripeAnswer::LockTimeout);
        let outcome = charge(&rig.client, &format!("{reason:?}")).send().await;
        assert_eq!(ending(&outcome), FRESH, "{reason:?}");
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "429"), 1);
    }
    assert_eq!(rig.posts(), 15);
}

/// Fact 8: a declined card is stored. The same key repeats it, here and at Stripe; a new key is a new attempt.
#[tokio::test]
async fn fact_8_a_declined_card_stays_declined_under_its_key() {
    let (rig, fake) = stripe().await;
    let declined = |client: &Client, key: &str| -> Call {
        client.post("/v1/charges").key(key).form(&[
            ("amount", "1000"),
            ("currency", "usd"),
            ("source", "tok_chargeDeclined"),
        ])
    };
    // The first answer is lost: the replay of the decline speaks for it.
    fake.plan().next(Fault::DropAfterApply);
    let outcome = declined(&rig.client, "order-42/1").send().await;
    let error = outcome.as_ref().expect_err("declined");
    assert_eq!((error.status().map(|status| status.as_u16()), error.is_refused()), (Some(402), true));
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "declined"), 0);
    assert_eq!(rig.posts(), 2);
    declined(&rig.client, "order-42/1").send().await.expect_err("from the record");
    assert_eq!(rig.posts(), 2);
    let amnesiac = Rig::over_sockets(stripe_at(&fake), &rig.clock);
    declined(&amnesiac.client, "order-42/1").send().await.expect_err("from Stripe's record");
    declined(&rig.client, "order-42/2").send().await.expect_err("a new operation");
    assert_eq!((rig.posts(), amnesiac.posts(), fake.ledger().count()), (3, 1, 0));
}

fn destination(client: &Client, key: &str, name: &str) -> Call {
    let body = json!({
        "name": name, "type": "webhook_endpoint", "event_payload": "thin", "enabled_events": ["v1.charge.succeeded"],
        "webhook_endpoint": { "url": "https://shop.test/hook" },
    });
    client.post("/v2/core/event_destinations").key(key).json(&body)
}

async fn stripe_v2() -> (Rig, StripeFake) {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).start().await;
    (Rig::over_sockets(stripe_at(&fake).api_version("2026-07-29.dahlia"), &clock), fake)
}

/// Fact 9: in v2 a POST and a DELETE whose answers are lost are sent again under their keys, and take effect once.
#[tokio::test]
async fn fact_9_a_lost_answer_of_v2_is_one_effect() {
    for fault in [Fault::DropAfterApply, Fault::Error500After, Fault::TruncatedBody] {
        let (rig, fake) = stripe_v2().await;
        fake.plan().next(fault);
        let made = destination(&rig.client, "shop-1", "a").send().await;
        assert_eq!((ending(&made), rig.posts()), (FRESH, 2), "{fault:?}");
        assert_eq!(promise_holds(&made, &fake.ledger(), "a create"), 1, "{fault:?}");

        let id = fake.ledger().effects()[0].id.clone();
        fake.plan().next(fault);
        let call = rig.client.delete("/v2/core/event_destinations/{id}").path("id", &id).key("shop-1/gone");
        let gone = call.send().await;
        assert_eq!(ending(&gone), FRESH, "{fault:?}");
        assert_eq!(promise_holds(&gone, &fake.ledger(), "a removal"), 1, "{fault:?}");
        let gone = gone.expect("gone");
        assert_eq!(gone.json::<serde_json::Value>().expect("JSON")["id"], *id);
        assert_eq!(fake.ledger().requests_for(gone.wire_key().expect("a key")), 2, "{fault:?}");
        assert_eq!(fake.plan().pending(), 0);
    }
}

/// Fact 9: a call of v2's that failed is executed again under its key, where v1 repeats the failure.
#[tokio::test]
async fn fact_9_a_failed_call_of_v2_is_executed_again() {
    for answer in [StripeAnswer::Stored500, StripeAnswer::LockTimeout] {
        let (rig, fake) = stripe_v2().await;
        fake.answer_next(answer);
        let made = destination(&rig.client, "shop-1", "a").send().await;
        assert_eq!((ending(&made), rig.posts()), (FRESH, 2), "{answer:?}");
        assert_eq!(promise_holds(&made, &fake.ledger(), "executed again"), 1);
    }
}

/// Fact 9: v2 answers 409 to other parameters under a key. That is the end, also for a process without the record.
#[tokio::test]
async fn fact_9_other_parameters_under_a_key_of_v2_are_terminal() {
    let (rig, fake) = stripe_v2().await;
    destination(&rig.client, "shop-1", "a").send().await.expect("made");
    let other = Rig::over_sockets(stripe_at(&fake).api_version("2026-07-29.dahlia"), &rig.clock);
    let outcome = destination(&other.client, "shop-1", "b").send().await;
    let error = outcome.expect_err("the key is another's");
    assert_eq!(error.code(), "CONFLICT.idempotency.payload_mismatch");
    assert_eq!((other.posts(), fake.ledger().count()), (1, 1));
}

/// Fact 10: keys belong to account and mode: the same caller's key in each is an operation of its own.
#[tokio::test]
async fn fact_10_account_and_mode_are_part_of_the_operation() {
    let (rig, fake) = stripe().await;
    let live = rig.another_process(Stripe::new("sk_live_1").base_url(fake.url()), Tap::new());
    let named = rig.another_process(stripe_at(&fake).account("acct_9"), Tap::new());
    for client in [&rig.client, &live.client, &named.client] {
        let reply = charge(client, "order-42").send().await.expect("a charge");
        assert_eq!(reply.obtained(), Obtained::Fresh);
    }
    let connected = charge(&rig.client, "order-42").header("Stripe-Account", "acct_1");
    assert_eq!(connected.send().await.expect("a charge").obtained(), Obtained::Fresh);
    let same = charge(&rig.client, "order-42").header("Stripe-Context", "acct_1");
    assert_eq!(same.send().await.expect("the same account's").obtained(), Obtained::Replayed);
    assert_eq!((fake.ledger().count(), fake.ledger().requests().len()), (4, 4));
}

/// The replacement of Search, which is not read-after-write: the list endpoint, page by page.
#[tokio::test]
async fn a_lookup_reads_the_list_to_its_end() {
    let (rig, fake) = stripe().await;
    fake.plan().next(Fault::DropAfterApply);
    let error = charge(&rig.client, "order-42").deadline(ms(100)).send().await.expect_err("lost");
    assert!(error.is_deadline());
    // A hundred and fifty others since: the one in question is on the second page.
    for other in 0..150 {
        charge(&rig.client, &format!("other-{other}")).send().await.expect("another charge");
    }
    rig.clock.advance(secs(25 * 3600));
    let heir = rig.another_process(stripe_at(&fake), Tap::new());
    let outcome = charge(&heir.client, "order-42").send().await;
    assert_eq!((ending(&outcome), heir.posts(), heir.gets()), (RECONCILED, 0, 2));
    for asked in heir.sent(&Method::GET) {
        assert_eq!(asked.url.path(), "/v1/payment_intents");
        assert!(asked.url.query().is_some_and(|query| query.contains("created")));
    }
    assert_eq!(promise_holds(&outcome, &fake.ledger(), "second page"), 1);
}
