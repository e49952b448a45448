//! Forms with files: the same bytes each time.

use std::sync::Arc;

use serde_json::json;
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Multipart, Obtained};

use super::client;

fn upload(client: &Client, content: &'static str) -> Call {
    let form = Multipart::new().text("purpose", "dispute_evidence");
    let form = form.file("file", "receipt.txt", "text/plain", content);
    client.post("/v1/files").key("dispute-7/receipt").multipart(&form)
}

#[tokio::test]
async fn a_retry_and_another_process_send_the_same_bytes() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).json(200, json!({"id": "file_1"}));
    let network = network.json(200, json!({"id": "file_1"}));
    let stripe = client(&network, &clock);
    assert_eq!(upload(&stripe, "one").send().await.expect("a reply").attempts(), 2);
    // It knows nothing of the first one's record.
    let other = client(&network, &clock);
    assert_eq!(upload(&other, "one").send().await.expect("a reply").attempts(), 1);

    let sent = network.requests();
    assert_eq!(sent.len(), 3);
    let kind = |nth: usize| sent[nth].headers["content-type"].to_str().expect("text").to_owned();
    for nth in 1..3 {
        assert_eq!((kind(nth), &sent[nth].body), (kind(0), &sent[0].body));
    }
    let boundary = kind(0).strip_prefix("multipart/form-data; boundary=").expect("a boundary").to_owned();
    let body = String::from_utf8(sent[0].body.to_vec()).expect("text");
    assert_eq!(body.matches(&format!("--{boundary}")).count(), 3, "two parts and the end: {body}");
}

#[tokio::test]
async fn the_same_parts_are_the_same_request_and_others_are_not() {
    let network = ScriptedTransport::new().json(200, json!({"id": "file_1"}));
    let store = Arc::new(Memory::new());
    let service = || {
        let vendor = Client::builder(Stripe::new("sk_test_123")).store(store.clone());
        vendor.transport(network.clone()).clock(TestClock::auto()).build().expect("a client")
    };
    upload(&service(), "one").send().await.expect("a reply");
    let again = upload(&service(), "one").send().await.expect("a replay");
    assert_eq!(again.obtained(), Obtained::Replayed);
    assert!(upload(&service(), "two").send().await.expect_err("another file").is_key_reused());
    assert_eq!(network.requests().len(), 1);
}
