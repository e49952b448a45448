//! The message streams of the Postmark fake: an address that one of them does not send to takes mail of another.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_fakes::PostmarkFake;
use steadfast_testkit::TestClock;
use support::answers::asked;

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Shop {
    fake: PostmarkFake,
    clock: TestClock,
}

impl Shop {
    fn open() -> Shop {
        let clock = TestClock::new();
        Shop { fake: PostmarkFake::builder().test_clock(&clock).in_process(), clock }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let token = [("x-postmark-server-token", "token")];
        asked(&self.fake.transport(), method.parse().unwrap(), path, &token, body).await
    }

    async fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, told) = self.ask(method, path, body).await;
        assert_eq!(status, 200, "{method} {path} {body}: {told}");
        told
    }

    /// Postmark's code for a mail to this address by this stream: 0 if it is accepted.
    async fn send(&self, stream: Option<&str>, to: &str) -> u64 {
        let mail = json!({ "From": "shop@example.com", "To": to, "TextBody": "t", "MessageStream": stream });
        self.ask("POST", "/email", &mail).await.1["ErrorCode"].as_u64().unwrap()
    }

    /// The words on each address: the address, its status, and why it failed.
    async fn change(&self, path: &str, addresses: &[&str]) -> Vec<(String, String, Option<String>)> {
        let listed: Vec<Value> = addresses.iter().map(|one| json!({ "EmailAddress": one })).collect();
        let body = json!({ "Suppressions": listed });
        let told = self.ok("POST", &format!("/message-streams/{path}"), &body).await;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let line = |one: &Value| {
            let [address, status] = ["EmailAddress", "Status"].map(|name| text(&one[name]).unwrap());
            (address, status, text(&one["Message"]))
        };
        told["Suppressions"].as_array().unwrap().iter().map(line).collect()
    }

    /// The addresses of a stream's list, and why each is in it.
    async fn listed(&self, stream: &str, query: &str) -> Vec<[String; 3]> {
        let path = format!("/message-streams/{stream}/suppressions/dump{query}");
        let told = self.ok("GET", &path, &Value::Null).await;
        let names = ["EmailAddress", "SuppressionReason", "Origin"];
        let line = |one: &Value| names.map(|name| one[name].as_str().unwrap().to_owned());
        told["Suppressions"].as_array().unwrap().iter().map(line).collect()
    }
}

fn manual(address: &str) -> [String; 3] {
    [address, "ManualSuppression", "Customer"].map(str::to_owned)
}

fn bounced(address: &str) -> [String; 3] {
    [address, "HardBounce", "Recipient"].map(str::to_owned)
}

#[tokio::test]
async fn a_bounce_of_one_stream_leaves_the_address_active_in_the_other() {
    for (stream, other) in [("broadcast", "outbound"), ("outbound", "broadcast")] {
        let shop = Shop::open();
        assert_eq!(shop.send(Some(stream), "ann@example.com").await, 0);
        shop.fake.deactivate("Ann@example.com");
        assert_eq!(shop.send(Some(stream), "ann@example.com").await, 406);
        assert_eq!(shop.send(Some(other), "ann@example.com").await, 0);
        assert_eq!(shop.send(None, "ann@example.com").await, if stream == "outbound" { 406 } else { 0 });
        assert_eq!(shop.listed(stream, "").await, [bounced("Ann@example.com")]);
        assert_eq!(shop.listed(other, "").await, Vec::<[String; 3]>::new());

        // The newest message is of the other stream now: that bounces too, by itself.
        assert_eq!(shop.send(Some(other), "ann@example.com").await, 0);
        shop.fake.deactivate("ann@example.com");
        assert_eq!(shop.send(Some(other), "ann@example.com").await, 406);
        let list = format!("/bounces?count=9&offset=0&messagestream={other}");
        let bounce = shop.ok("GET", &list, &Value::Null).await["Bounces"][0]["ID"].clone();
        let activate = format!("/bounces/{bounce}/activate");
        shop.ok("PUT", &activate, &Value::Null).await;
        let (status, told) = shop.ask("PUT", &activate, &Value::Null).await;
        assert_eq!((status, &told["ErrorCode"]), (422, &json!(1003)), "it is active");
        assert_eq!(shop.send(Some(other), "ann@example.com").await, 0);
        assert_eq!(shop.send(Some(stream), "ann@example.com").await, 406, "that bounce stays");
    }
}

#[tokio::test]
async fn an_address_is_suppressed_by_hand_in_one_stream_and_let_go_again() {
    let shop = Shop::open();
    let done = |address: &str, status: &str| (address.to_owned(), status.to_owned(), None);
    let told =
        shop.change("broadcast/suppressions", &["Ann@example.com", "none", "Bob <bob@example.com>"]).await;
    let invalid = || Some("An invalid email address was provided.".to_owned());
    let failed = |address: &str| (address.to_owned(), "Failed".to_owned(), invalid());
    let expected = [done("Ann@example.com", "Suppressed"), failed("none"), failed("Bob <bob@example.com>")];
    assert_eq!(told, expected);
    assert_eq!(shop.send(Some("broadcast"), "ann@example.com").await, 406);
    assert_eq!(shop.send(Some("outbound"), "ann@example.com").await, 0);
    assert_eq!(shop.listed("broadcast", "").await, [manual("Ann@example.com")]);

    // Of the other stream's list, and of an address that is in none: there is nothing to delete.
    let gone = [done("ann@example.com", "Deleted"), done("bob@example.com", "Deleted")];
    let both = ["ann@example.com", "bob@example.com"];
    assert_eq!(shop.change("outbound/suppressions/delete", &both).await, gone);
    assert_eq!(shop.send(Some("broadcast"), "ann@example.com").await, 406);
    assert_eq!(shop.change("broadcast/suppressions/delete", &both).await, gone);
    assert_eq!(shop.send(Some("broadcast"), "ann@example.com").await, 0);
}

#[tokio::test]
async fn more_than_50_addresses_are_refused_and_none_of_them_is_changed() {
    let shop = Shop::open();
    let addresses: Vec<String> = (0..51).map(|n| format!("{n}@example.com")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let all: Vec<Value> = addresses.iter().map(|one| json!({ "EmailAddress": one })).collect();
    let all = json!({ "Suppressions": all });
    let path = "/message-streams/outbound/suppressions";
    let (status, told) = shop.ask("POST", path, &all).await;
    assert_eq!((status, &told["ErrorCode"]), (422, &json!(1410)));
    assert_eq!(shop.listed("outbound", "").await.len(), 0);
    assert_eq!(shop.change("outbound/suppressions", &addresses[..50]).await.len(), 50);
    let (status, told) = shop.ask("POST", &format!("{path}/delete"), &all).await;
    assert_eq!((status, &told["ErrorCode"]), (422, &json!(1410)));
    assert_eq!(shop.listed("outbound", "").await.len(), 50);
}

#[tokio::test]
async fn who_deletes_a_bounces_suppression_activates_the_bounce() {
    let shop = Shop::open();
    shop.fake.deactivate("ann@example.com");
    let inactive = async || shop.ok("GET", "/deliverystats", &Value::Null).await["InactiveMails"].clone();
    assert_eq!(inactive().await, 1);
    shop.change("broadcast/suppressions/delete", &["ann@example.com"]).await;
    assert_eq!((inactive().await, shop.send(None, "ann@example.com").await), (json!(1), 406));
    shop.change("outbound/suppressions/delete", &["ANN@example.com"]).await;
    assert_eq!((inactive().await, shop.send(None, "ann@example.com").await), (json!(0), 0));
    // An address that is suppressed by hand does not bounce.
    shop.change("outbound/suppressions", &["ann@example.com"]).await;
    shop.fake.deactivate("ann@example.com");
    assert_eq!(inactive().await, 0);
    assert_eq!(shop.listed("outbound", "").await, [manual("ann@example.com")]);
}

#[tokio::test]
async fn a_list_is_filtered() {
    let shop = Shop::open();
    shop.fake.deactivate("a@example.com");
    shop.clock.advance(DAY);
    shop.change("outbound/suppressions", &["b@example.com", "a@example.com"]).await;
    let both = [bounced("a@example.com"), manual("b@example.com")];
    // The clock starts at midnight UTC of 1 January, which is 31 December in New York.
    for (query, shown) in [
        ("", &both[..]),
        ("?count=100&offset=0", &both),
        ("?suppressionReason=hardbounce", &both[..1]),
        ("?SuppressionReason=SpamComplaint", &[]),
        ("?origin=Customer", &both[1..]),
        ("?origin=Admin", &[]),
        ("?emailAddress=B@example.com", &both[1..]),
        ("?fromdate=2026-01-01", &both[1..]),
        ("?todate=2025-12-31", &both[..1]),
    ] {
        assert_eq!(shop.listed("outbound", query).await, shown, "{query}");
    }
    let path = "/message-streams/outbound/suppressions/dump";
    let told = shop.ok("GET", path, &Value::Null).await;
    assert_eq!(told["Suppressions"][0]["CreatedAt"], "2025-12-31T19:00:00-05:00");
    for (query, code) in [("count=1", 1400), ("offset=1", 1402)] {
        let (status, told) = shop.ask("GET", &format!("{path}?{query}"), &Value::Null).await;
        assert_eq!((status, &told["ErrorCode"]), (422, &json!(code)), "a page of it is not documented");
        assert!(
            told["Message"].as_str().unwrap().ends_with("the fake gives no page of this list."),
            "{told}"
        );
    }
    assert_eq!(shop.ask("GET", "/message-streams/outbound/suppressions", &Value::Null).await.0, 404);
    assert_eq!(shop.fake.ledger().count(), 0);
}
