//! A store that the service seals.

use std::sync::Arc;

use serde_json::json;
use steadfast::Client;
use steadfast::policy::{Backoff, Policy};
use steadfast::store::{SealKeys, Sqlite};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;

use super::Place;

/// A place with one dead letter, `order-1`, sealed with the key of this byte.
async fn sealed(byte: u8) -> Place {
    let place = Place::fresh();
    let store = Sqlite::builder(place.path("calls.db")).seal(SealKeys::new([byte; 32])).open();
    let store = Arc::new(store.expect("opens"));
    let client = Client::builder(Stripe::new("sk_test_secret"))
        .policy(Policy::background().backoff(Backoff::none()).without_breaker().without_budget())
        .store(Arc::clone(&store))
        .clock(TestClock::auto())
        .transport(ScriptedTransport::new().fail(SendErrorKind::Connect))
        .build()
        .expect("a client");
    let form = [("amount", "1000"), ("receipt_email", "ada@example.test"), ("card[number]", "4242")];
    let call = client.post("/v1/payouts").key("order-1").redact(["receipt_email", "CARD"]).form(&form);
    assert!(call.send().await.expect_err("never sent").is_dead_letter());
    drop(client);
    // All of it is in the file from here on.
    Arc::into_inner(store).expect("no client is left").close().await;
    place
}

fn hex(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

#[tokio::test]
async fn a_sealed_store_is_read_with_the_services_keys() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(format!("{}, {}", hex(2), hex(1)));
    let shown = place.json(0, &["dead-letters", "show", "order-1", "--bodies", "--why", "ticket 7"]);
    assert_eq!(
        shown["request"]["body"],
        json!({"text": "amount=1000&receipt_email=%5Bredacted%5D&card%5Bnumber%5D=%5Bredacted%5D"}),
        "and what the call redacted stays redacted"
    );
    assert_eq!(place.json(0, &["stats"])["totals"]["dead"], 1);
}

#[tokio::test]
async fn what_a_call_redacts_is_redacted_in_every_command() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(hex(1));
    for command in [
        &["show", "order-1"][..],
        &["show", "order-1", "--json"],
        &["dead-letters", "show", "order-1"],
        &["dead-letters", "show", "order-1", "--json"],
        &["dead-letters", "export"],
    ] {
        let text = place.run(&[command, &["--bodies", "--why", "ticket 7"]].concat()).ended(0);
        assert!(text.contains("amount=1000"), "{text}");
        assert!(!text.contains("example.test") && !text.contains("4242"), "{text}");
    }
}

#[tokio::test]
async fn a_sealed_store_without_its_key_is_refused_with_three_and_says_which() {
    let mut place = sealed(1).await;
    let before = std::fs::read(place.path("calls.db")).expect("reads");
    let id = SealKeys::new([1; 32]).current();
    let problem = format!(
        "the store does not open: the file is sealed: 1 of its operations need the key {id}, which was not given; \
         give the service's keys in STEADFAST_SEAL_KEYS"
    );
    for keys in [None, Some(hex(2))] {
        place.seal_keys = keys;
        let said = place.run(&["stats"]);
        assert_eq!((said.code, said.err), (3, format!("steadfast: {problem}\n")));
        let error = place.json_error(3, &["dead-letters", "redrive", "order-1"]);
        assert_eq!(error, json!({"code": "store", "problem": problem}));
    }
    assert!(std::fs::read(place.path("calls.db")).expect("reads") == before, "untouched");
}

#[tokio::test]
async fn keys_that_make_no_sense_are_refused_with_two_and_not_repeated() {
    let mut place = sealed(1).await;
    for (keys, problem) in [
        (String::new(), "key 1: it is empty"),
        (format!("{},hunter2", hex(1)), "key 2: it is neither base64 nor hex"),
        (hex(1)[..60].to_owned(), "key 1: 45 bytes; a key is exactly 32 bytes"),
    ] {
        place.seal_keys = Some(keys);
        let said = place.run(&["stats"]);
        assert_eq!((said.code, said.err), (2, format!("steadfast: STEADFAST_SEAL_KEYS: {problem}\n")));
        assert_eq!(place.json_error(2, &["stats"])["code"], "usage");
    }
}

#[tokio::test]
async fn the_vendors_file_names_the_keys_of_the_store_that_it_names() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(hex(2));
    let text = "store = 'sqlite:calls.db'\nseal_keys_env = 'SHOP_KEYS'\n[vendors.stripe]\nsecret_env = 'S'\n";
    std::fs::write(place.path("named.toml"), text).expect("writes");
    let show = ["--vendors", "named.toml", "show", "order-1"];
    let right = hex(1);
    assert!(place.run_as(&[("SHOP_KEYS", &right)], &show).ended(0).contains("order-1"));
    let unset = place.run_as(&[], &show);
    assert_eq!(unset.code, 2, "{}", unset.err);
    assert!(
        unset.err.contains("`seal_keys_env`: the environment variable SHOP_KEYS is not set"),
        "{}",
        unset.err
    );
    let wrong = place.run_as(&[("SHOP_KEYS", &hex(2))], &show);
    assert_eq!(wrong.code, 3, "{}", wrong.err);
    assert!(wrong.err.contains("the file is sealed"), "{}", wrong.err);
}
