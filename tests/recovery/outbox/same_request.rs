//! A call is the same request however it was enqueued: the same name, fingerprint, wire key and bytes.

use std::time::Duration;

use http::Method;
use serde_json::json;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::{Memory, Store};
use steadfast::vendor::{KeyPlace, Keyed, KeyedConfig, Stripe};
use steadfast::{Call, Client, ClientBuilder, OnUnknown, Vendors};

use super::bench::Shop;

/// Every part that a request can have.
fn calls(client: &Client) -> Vec<Call> {
    let post = |path: &str| client.post(path).key(path.replace(|letter: char| !letter.is_ascii(), "-"));
    let mut calls = vec![
        post("/plain"),
        post("/json").json(&json!({"b": 1.5, "a": ["é", null]})),
        post("/form").form(&[("metadata[order]", "42 ä"), ("amount", "1")]),
        post("/bytes").bytes(&b"\x00\xff"[..]),
        post("/typed").bytes(&b"<a/>"[..]).header("Content-Type", "text/xml"),
        post("/headers")
            .header("X-A", "1")
            .header("X-B", "2")
            .header("X-A", "3")
            .header("X-U", "é".as_bytes()),
        post("/query?a=1&b=%20").query(&[("c", "ü &"), ("c", "2")]),
        post("/empty-query?"),
        post("/odd//path/%2Fx y/ü;=,"),
        client.put("/put").key("put").json(&json!({"price": 1})),
        client.request(Method::DELETE, "/delete").key("delete"),
        post("/redacted").redact(["Email", "card"]).retention(40 * DAY).json(&json!({})),
        post("/in/sequence").sequence("customer-7"),
    ];
    // A choice is one, also where it is the default, and a call that makes none has its route's.
    for path in ["/parks", "/resends", "/says-nothing"] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let call = |choice: &str| {
                client.request(method.clone(), path).key(format!("{method} {choice}")).json(&json!({}))
            };
            calls.push(call("none"));
            for choice in [OnUnknown::ByMethod, OnUnknown::Park, OnUnknown::Resend] {
                calls.push(call(&format!("{choice:?}")).on_unknown(choice));
            }
        }
    }
    calls
}

/// A vendor with routes that choose.
fn of_file(base: &str) -> ClientBuilder {
    let text = format!(
        "[vendors.file]\nadapter = 'keyed'\nbase_url = '{base}'\nkey = {{ header = 'Idempotency-Key' }}\n\
         routes.'/parks'.on_unknown = 'park'\nroutes.'/resends'.on_unknown = 'resend'\n"
    );
    Vendors::parse(&text, "vendors.toml").expect("a file").builder("file").expect("a vendor")
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn records(store: &dyn Store) -> Vec<Record> {
    let rows = store.list(&Filter::default(), None, 1_000).await.expect("a store").rows;
    let mut records = Vec::new();
    for row in rows {
        let mut record = store.get(&row.id).await.expect("a store").expect("it is there");
        // The stores number fences for themselves, and the two were not asked at the same moment.
        (record.fence, record.first_fence) = (1, 1);
        (record.claimed_at, record.updated_at) = (Timestamp::default(), Timestamp::default());
        assert!(matches!(record.state, State::Scheduled { .. }), "{:?}", record.state);
        record.state = State::Scheduled { at: Timestamp::default() };
        records.push(record);
    }
    records.sort_by(|one, other| one.id.cmp(&other.id));
    records
}

#[tokio::test]
async fn what_the_outbox_records_is_what_enqueue_records() {
    let shop = Shop::open();
    for base in ["https://v.test", "https://v.test/stores/abc", "https://v.test/stores/abc/"] {
        let keyed = |name: &str| {
            let mut config = KeyedConfig::new(name, base);
            config.key = Some(KeyPlace::Header("Idempotency-Key".to_owned()));
            config
        };
        for name in ["header", "stripe", "file"] {
            let memory = std::sync::Arc::new(Memory::new());
            let store = std::sync::Arc::clone(&shop.store);
            let build = |store: std::sync::Arc<dyn Store>| {
                let builder = match name {
                    "stripe" => {
                        Client::builder(Stripe::new("sk_test_1").base_url(base).api_version("2026-01-01"))
                    }
                    "file" => of_file(base),
                    _ => Client::builder(Keyed::new(keyed(name), "secret")),
                };
                let namespace = base.replace('/', "-");
                builder.store(store).clock(shop.clock.clone()).namespace(namespace).build().expect("a client")
            };
            let (plain, boxed) = (build(memory.clone()), build(store));
            for call in calls(&plain) {
                call.enqueue().await.expect("it is recorded");
            }
            for call in calls(&boxed) {
                call.blocking_enqueue_in(&shop.connection()).expect("it is written");
            }
            boxed.engage_kill_switch();
            boxed.recover(1).await.expect("a store");
            let namespace = format!("{}/{name}/", base.replace('/', "-"));
            let of_this = |record: &Record| record.id.scope.as_str().starts_with(&namespace);
            let admitted: Vec<Record> = records(&*shop.store).await.into_iter().filter(of_this).collect();
            assert_eq!(shop.rejected().await, []);
            let expected = records(&*memory).await;
            assert_eq!(admitted.len(), calls(&plain).len());
            for (one, other) in admitted.iter().zip(&expected) {
                assert_eq!(one, other, "{}", one.id);
                assert_eq!(one.request.headers, other.request.headers);
                assert_eq!(one.request.body, other.request.body);
            }
        }
    }
}
