//! Postmark's documented behaviour, fact by fact, kept by engine and adapter together.

use http::Method;
use serde_json::{Value, json};
use steadfast::testkit::fakes::PostmarkFake;
use steadfast::testkit::{Fault, TestClock};
use steadfast::vendor::Postmark;
use steadfast::{Call, Client, Effect, Obtained, OnUnknown};

use super::vendors::{FRESH, NOBODY_KNOWS, ending, message, postmark, postmark_lagging, receipt, secs};

fn template(to: &str) -> Value {
    json!({"From": "shop@example.com", "To": to, "TemplateId": 1, "TemplateModel": {}})
}

fn batch(client: &Client, key: &str, recipients: &[&str]) -> Call {
    let messages: Vec<Value> = recipients.iter().map(|to| message(to)).collect();
    client.post("/email/batch").key(key).json(&messages)
}

/// Fact 1: all four ways to send are stamped, found again after a lost answer, and never sent twice.
#[tokio::test]
async fn fact_1_every_way_to_send_is_found_again_after_a_lost_answer() {
    for (path, body, messages) in [
        ("/email", message("a@example.com"), 1),
        ("/email/withTemplate", template("a@example.com"), 1),
        ("/email/batch", json!([message("a@example.com"), message("b@example.com")]), 2),
        (
            "/email/batchWithTemplates",
            json!({"Messages": [template("a@example.com"), template("b@example.com")]}),
            2,
        ),
    ] {
        let (rig, fake) = postmark().await;
        fake.plan().next(Fault::DropAfterApply);
        let reply = rig.client.post(path).key("k").json(&body).send().await.expect(path);
        assert_eq!((reply.obtained(), rig.posts(), rig.gets()), (Obtained::Reconciled, 1, 1), "{path}");
        assert_eq!((fake.ledger().count(), fake.ledger().duplicates().len()), (messages, 0), "{path}");
        let results = match reply.json::<Value>().expect("json") {
            Value::Array(results) => results,
            one => vec![one],
        };
        let ids: Vec<_> = results.iter().map(|result| result["MessageID"].as_str()).collect();
        let effects = fake.ledger().effects();
        let happened: Vec<_> = effects.iter().map(|effect| Some(effect.id.as_str())).collect();
        assert_eq!(ids, happened, "{path}: in the order in which they were sent");
    }
}

/// Fact 2: there is no key at Postmark: none is sent, and after a lost answer nothing is sent again.
#[tokio::test]
async fn fact_2_no_key_is_sent_and_a_lost_message_is_not_sent_again() {
    let (rig, fake) = postmark_lagging(secs(86_400)).await;
    fake.plan().next(Fault::DropAfterApply);
    let outcome = receipt(&rig.client, "order-42").send().await;
    assert_eq!(ending(&outcome), NOBODY_KNOWS);
    assert!(!rig.sent(&Method::POST)[0].headers.contains_key("idempotency-key"));
    for _ in 0..3 {
        rig.clock.advance(secs(3600));
        assert_eq!(ending(&receipt(&rig.client, "order-42").send().await), NOBODY_KNOWS);
    }
    assert_eq!((rig.posts(), fake.ledger().count()), (1, 1));
}

/// Fact 2: only the caller can say that twice is better than never; then a second message may go out.
#[tokio::test]
async fn fact_2_a_second_message_goes_out_only_if_the_caller_says_so() {
    let (rig, fake) = postmark_lagging(secs(86_400)).await;
    fake.plan().next(Fault::DropAfterApply);
    let outcome = receipt(&rig.client, "order-42").on_unknown(OnUnknown::Resend).send().await;
    assert_eq!((ending(&outcome), rig.posts(), fake.ledger().count()), (FRESH, 2, 2));
}

/// Fact 6: of a mixed batch only what failed may be sent again, under a key of its own.
#[tokio::test]
async fn fact_6_of_a_mixed_batch_only_the_failed_are_sent_again() {
    let (rig, fake) = postmark().await;
    fake.deactivate("gone@example.com");
    let recipients = ["a@example.com", "gone@example.com", "c@example.com"];
    let reply = batch(&rig.client, "batch", &recipients).send().await.expect("done, in part");
    assert_eq!(Postmark::failed_items(reply.answer()), [1]);
    assert_eq!(fake.ledger().count(), 2);
    // The same key again is the same batch: nothing is sent.
    batch(&rig.client, "batch", &recipients).send().await.expect("from the record");
    assert_eq!(rig.posts(), 1);
    batch(&rig.client, "batch/again", &["b@example.com"]).send().await.expect("the one that failed");
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates().len()), (3, 0));
}

#[tokio::test]
async fn the_adapter_for_the_account_makes_a_server_and_knows_a_refusal() {
    let clock = TestClock::auto();
    let fake = PostmarkFake::builder().test_clock(&clock).in_process();
    let vendor = Postmark::account_api("account").base_url(fake.url());
    let client = Client::builder(vendor).transport(fake.transport()).clock(clock).build().unwrap();
    let make = |key: &str| client.post("/servers").key(key).json(&json!({ "Name": "Shop" }));
    let made: Value = make("shop").send().await.unwrap().json().unwrap();
    assert_eq!((&made["Name"], fake.ledger().count()), (&json!("Shop"), 1));
    // The record answers, and nobody is asked.
    make("shop").send().await.unwrap();
    assert_eq!(fake.ledger().count(), 1);
    let refused = make("shop-again").send().await.unwrap_err();
    assert_eq!((refused.effect(), fake.ledger().count()), (Effect::None, 1), "{refused}");
}
