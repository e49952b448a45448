//! Each rule at the head of `crates/steadfast-fakes/fixtures/adyen.json`, proven over a real socket.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use steadfast_fakes::{AdyenAnswer, AdyenFake};
use steadfast_testkit::{Fault, TestClock, WaitForm};

use support::answers::{self, json_of, order_webhooks, shows, with};
use support::receiver::Receiver;

const HOUR: Duration = Duration::from_secs(3600);

async fn post(fake: &AdyenFake, path: &str, key: &str, body: &Value) -> Response {
    let mut call = answers::client().post(format!("{}{path}", fake.url())).header("X-API-Key", "AQE");
    if !key.is_empty() {
        call = call.header("idempotency-key", key);
    }
    call.body(body.to_string()).send().await.unwrap()
}

/// Status and body.
async fn told(fake: &AdyenFake, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let answer = post(fake, path, key, body).await;
    let status = answer.status().as_u16();
    (status, json_of(answer).await)
}

async fn ok(fake: &AdyenFake, path: &str, body: &Value) -> Value {
    let (status, body) = told(fake, path, "", body).await;
    assert!(matches!(status, 200 | 201), "{path}: {status} {body}");
    body
}

fn payment(value: i64) -> Value {
    json!({
        "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
        "amount": { "value": value, "currency": "EUR" },
        "paymentMethod": {
            "type": "scheme", "number": "4111111111111111", "expiryMonth": "03", "expiryYear": "2030",
            "holderName": "John Smith", "cvc": "737",
        },
    })
}

fn change(value: i64) -> Value {
    json!({ "merchantAccount": "ShopECOM", "amount": { "value": value, "currency": "EUR" }, "reference": "part" })
}

const WHOLE: &str = r#"{"merchantAccount":"ShopECOM"}"#;

fn whole() -> Value {
    serde_json::from_str(WHOLE).unwrap()
}

/// The events that were sent since this was last asked: event, success, reason and amount of each.
fn events(receiver: &Receiver) -> Vec<(String, bool, String, i64)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    sent_items(receiver)
        .iter()
        .map(|item| {
            let success = text(&item["success"]) == "true";
            (
                text(&item["eventCode"]),
                success,
                text(&item["reason"]),
                item["amount"]["value"].as_i64().unwrap(),
            )
        })
        .collect()
}

fn sent_items(receiver: &Receiver) -> Vec<Value> {
    receiver
        .bodies()
        .iter()
        .map(|body| body["notificationItems"][0]["NotificationRequestItem"].clone())
        .collect()
}

/// A fake that tells a receiver, when it is ordered to; and its HMAC key.
async fn told_to(fake: &AdyenFake) -> (Receiver, String) {
    let (receiver, url) = Receiver::listen().await;
    let hook = json!({ "type": "standard", "url": url, "active": true, "communicationFormat": "json" });
    let made = ok(fake, "/v3/merchants/ShopECOM/webhooks", &hook).await;
    let id = made["id"].as_str().unwrap();
    let key = ok(fake, &format!("/v3/merchants/ShopECOM/webhooks/{id}/generateHmac"), &json!({})).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    (receiver, key["hmacKey"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_repeat_is_answered_byte_for_byte_and_takes_effect_once() {
    let fake = AdyenFake::start().await;
    let first = post(&fake, "/v71/payments", "k", &payment(1000)).await;
    assert_eq!((first.status().as_u16(), &first.headers()["idempotency-key"]), (200, &"k".parse().unwrap()));
    let first = first.bytes().await.unwrap();
    let again = post(&fake, "/v71/payments", "k", &payment(1000)).await;
    assert_eq!(again.headers()["idempotency-key"], "k");
    assert_eq!(again.bytes().await.unwrap(), first);
    assert_eq!((fake.ledger().count(), fake.ledger().requests_for("k")), (1, 2));

    // The reference is none of a kind: under another key, and without one, it is another payment.
    let (_, second) = told(&fake, "/v71/payments", "k2", &payment(1000)).await;
    let (_, third) = told(&fake, "/checkout/v70/payments", "", &payment(1000)).await;
    assert_eq!(
        (&second["merchantReference"], &third["merchantReference"]),
        (&json!("order-42"), &json!("order-42"))
    );
    assert_ne!(second["pspReference"], third["pspReference"]);
    assert_eq!(fake.ledger().count(), 3);
    assert_eq!(fake.ledger().duplicates(), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_is_kept_for_seven_days_and_is_the_companys() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).start().await;
    let (_, first) = told(&fake, "/v71/payments", "k", &payment(1000)).await;
    clock.advance(7 * 24 * HOUR - Duration::from_secs(1));
    assert_eq!(told(&fake, "/v71/payments", "k", &payment(1000)).await.1, first);
    // Of another route, another merchant account and another amount it is still the key of the first.
    let psp = first["pspReference"].as_str().unwrap();
    assert_eq!(told(&fake, &format!("/v71/payments/{psp}/captures"), "k", &change(1)).await.1, first);
    let other = with(payment(1), "/merchantAccount", json!("Other"));
    assert_eq!(told(&fake, "/v71/payments", "k", &other).await.1, first);
    clock.advance(Duration::from_secs(1));
    assert_ne!(told(&fake, "/v71/payments", "k", &payment(1000)).await.1, first);
    assert_eq!(fake.ledger().duplicates(), ["k"], "what a resend after the window comes to");

    let strict = AdyenFake::builder().refuse_reused_keys().start().await;
    told(&strict, "/v71/payments", "k", &payment(1000)).await;
    let (status, refused) = told(&strict, "/v71/payments", "k", &payment(999)).await;
    assert_eq!((status, &refused["errorCode"]), (422, &json!("704")));
    assert_eq!(strict.ledger().count(), 1);
}

#[tokio::test]
async fn a_key_in_use_is_a_transient_704() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).busy_for(Duration::from_secs(2)).start().await;
    let (_, first) = told(&fake, "/v71/payments", "k", &payment(1000)).await;
    let busy = post(&fake, "/v71/payments", "k", &payment(1000)).await;
    assert_eq!((busy.status().as_u16(), &busy.headers()["transient-error"]), (422, &"true".parse().unwrap()));
    let busy: Value = serde_json::from_slice(&busy.bytes().await.unwrap()).unwrap();
    assert_eq!(busy["message"], "request already processed or in progress");
    clock.advance(Duration::from_secs(2));
    assert_eq!(told(&fake, "/v71/payments", "k", &payment(1000)).await.1, first);
    fake.plan().next(Fault::KeyInUse);
    assert_eq!(told(&fake, "/v71/payments", "k3", &payment(1000)).await.1["errorCode"], "704");
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn what_is_transient_leaves_the_key_free_and_any_other_failure_is_kept() {
    let fake = AdyenFake::start().await;
    for (asked, stays) in [("NO_CONNECTION_AVAILABLE", false), ("IOEXCEPTION_RECEIVED", true)] {
        let failing = with(payment(1), "/additionalData", json!({ "RequestedTestErrorResponseCode": asked }));
        let failed = post(&fake, "/v71/payments", asked, &failing).await;
        assert_eq!(
            (failed.status().as_u16(), failed.headers().contains_key("transient-error")),
            (500, !stays)
        );
        let (status, _) = told(&fake, "/v71/payments", asked, &payment(1)).await;
        assert_eq!(status, if stays { 500 } else { 200 }, "{asked}");
    }
    for (answer, status, code, stays) in [
        (AdyenAnswer::InProgress, 422, "704", false),
        (AdyenAnswer::InProgress409, 409, "704", false),
        (AdyenAnswer::AlreadyProcessed, 422, "704", true),
        (AdyenAnswer::StoreUnavailable, 503, "703", false),
        (AdyenAnswer::StoredError, 500, "905", true),
        (AdyenAnswer::Configuration500, 500, "905", true),
        (AdyenAnswer::RateLimited, 429, "000", false),
    ] {
        fake.answer_next(answer);
        let key = format!("{answer:?}");
        let (told_status, body) = told(&fake, "/v71/payments", &key, &payment(1)).await;
        assert_eq!((told_status, body["errorCode"].as_str()), (status, Some(code)), "{key}");
        let (again, _) = told(&fake, "/v71/payments", &key, &payment(1)).await;
        assert_eq!(again, if stays { status } else { 200 }, "{key}");
    }
    fake.answer_next(AdyenAnswer::GatewayHtml);
    let page = post(&fake, "/v71/payments", "page", &payment(1)).await;
    assert_eq!((page.status().as_u16(), page.headers().contains_key("idempotency-key")), (502, false));
    fake.plan().next(Fault::TooManyRequests(WaitForm::Seconds(3)));
    let limited = post(&fake, "/v71/payments", "limited", &payment(1)).await;
    assert_eq!((limited.status().as_u16(), &limited.headers()["retry-after"]), (429, &"3".parse().unwrap()));
    for (fault, code, effects) in
        [(Fault::Error500Before, "703", 0), (Fault::Stored500, "905", 0), (Fault::Error500After, "905", 1)]
    {
        fake.plan().next(fault);
        assert_eq!(told(&fake, "/v71/payments", fault.name(), &payment(1)).await.1["errorCode"], code);
        assert_eq!(fake.ledger().effects_for(fault.name()).len(), effects, "{fault:?}");
    }
}

#[tokio::test]
async fn what_it_does_not_know_it_refuses_as_adyen_does() {
    let fake = AdyenFake::start().await;
    let psp = ok(&fake, "/v71/payments", &payment(1)).await["pspReference"].as_str().unwrap().to_owned();
    let captures = format!("/v71/payments/{psp}/captures");
    let pay = |pointer: &str, value: Value| ("/v71/payments".to_owned(), with(payment(1000), pointer, value));
    let cases = [
        (pay("/merchantAccount", json!("")), 403, "901"),
        (pay("/amount", Value::Null), 422, "100"),
        (pay("/amount/value", json!("10")), 422, "137"),
        (pay("/amount/value", json!(-1)), 422, "137"),
        (pay("/amount/currency", json!("euro")), 422, "138"),
        (pay("/reference", Value::Null), 422, "130"),
        (pay("/returnUrl", Value::Null), 422, "14_030"),
        (pay("/paymentMethod", Value::Null), 422, "702"),
        (pay("/paymentMethod/number", json!("4111111111111112")), 422, "101"),
        (pay("/paymentMethod/number", Value::Null), 422, "702"),
        (pay("/paymentMethod/type", json!("carrier-pigeon")), 422, "905"),
        (pay("/additionalData", json!({ "RequestedTestAcquirerResponseCode": 99 })), 422, "905"),
        (pay("/additionalData", json!({ "RequestedTestErrorResponseCode": "RAIN" })), 422, "905"),
        (pay("/idempotencyKey", json!("k")), 400, "702"),
        ((captures.clone(), with(change(1), "/merchantAccount", json!("Other"))), 422, "167"),
        ((captures.clone(), with(change(1), "/amount/currency", json!("USD"))), 422, "138"),
        ((captures, whole()), 422, "100"),
        (("/v71/payments/FK00000000000000/refunds".to_owned(), change(1)), 422, "167"),
        (("/v71/cancels".to_owned(), whole()), 422, "702"),
        (("/v71/payments/details".to_owned(), json!({ "details": { "redirectResult": "x" } })), 422, "702"),
        (("/v71/orders".to_owned(), json!({})), 404, "000"),
        (("/v52/payments".to_owned(), payment(1)), 404, "000"),
        (("/v710/payments".to_owned(), payment(1)), 404, "000"),
        (("/payments".to_owned(), payment(1)), 404, "000"),
    ];
    for ((path, body), status, code) in cases {
        let (told_status, refused) = told(&fake, &path, "", &body).await;
        assert_eq!(
            (told_status, refused["errorCode"].as_str()),
            (status, Some(code)),
            "{path} {body}: {refused}"
        );
        assert_eq!(refused["status"], status, "its form is Adyen's");
        assert!(refused["errorType"].is_string() && refused["message"].is_string());
        assert!(!refused.to_string().contains('<'), "{refused}");
    }
    let long = "k".repeat(65);
    assert_eq!(told(&fake, "/v71/payments", &long, &payment(1)).await.0, 400);
    let anonymous = answers::client().post(format!("{}/v71/payments", fake.url())).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
    let broken = answers::client().post(format!("{}/v71/payments", fake.url()));
    let broken = broken.header("X-API-Key", "AQE").body("{").send().await.unwrap();
    assert_eq!(broken.status(), 400);
    assert_eq!(fake.ledger().count(), 1, "a refusal is no effect");
}

#[tokio::test]
async fn a_test_payment_asks_for_its_result() {
    let fake = AdyenFake::start().await;
    for (holder, result, reason, number) in [
        ("John Smith", "Authorised", None, None),
        ("APPROVED", "Authorised", None, None),
        ("DECLINED", "Refused", Some("Refused"), Some("2")),
        ("DECLINED : 06 : ERROR", "Refused", Some("Refused"), Some("2")),
        ("NOT_ENOUGH_BALANCE", "Refused", Some("Not enough balance"), Some("12")),
        ("ERROR", "Error", Some("Acquirer Error"), Some("4")),
        ("FRAUD_CANCELLED", "Cancelled", Some("FRAUD-CANCELLED"), Some("22")),
        ("AVS_DECLINED", "Refused", Some("AVS Declined"), Some("32")),
        ("PENDING", "Received", None, None),
    ] {
        let paid =
            ok(&fake, "/v71/payments", &with(payment(1), "/paymentMethod/holderName", json!(holder))).await;
        let told =
            [&paid["resultCode"], &paid["refusalReason"], &paid["refusalReasonCode"]].map(Value::as_str);
        assert_eq!(told, [Some(result), reason, number], "{holder}");
    }
    let asked = with(payment(1), "/additionalData", json!({ "RequestedTestAcquirerResponseCode": "6" }));
    assert_eq!(ok(&fake, "/v71/payments", &asked).await["refusalReason"], "Expired Card");
}

#[tokio::test]
async fn money_adds_up_and_is_told_by_webhook() {
    let clock = TestClock::new();
    let builder = AdyenFake::builder().test_clock(&clock).manual_capture();
    let fake = builder.multiple_partial_captures().start().await;
    let (receiver, _) = told_to(&fake).await;
    let paid = ok(&fake, "/v71/payments", &payment(1000)).await;
    let psp = paid["pspReference"].as_str().unwrap().to_owned();
    let at = |what: &str| format!("/v71/payments/{psp}/{what}");
    for (what, body) in [
        ("refunds", change(1)),
        ("amountUpdates", change(1200)),
        ("captures", change(1201)),
        ("captures", change(700)),
        ("captures", change(501)),
        ("captures", change(500)),
        ("amountUpdates", change(1300)),
        ("cancels", whole()),
        ("refunds", change(1201)),
        ("refunds", change(1199)),
        ("refunds", change(2)),
        ("reversals", whole()),
        ("refunds", change(1)),
    ] {
        let taken = ok(&fake, &at(what), &body).await;
        shows(&taken, &json!({ "status": "received", "paymentPspReference": psp }));
    }
    order_webhooks(fake.url(), &json!({})).await;
    let (no, late) =
        ("Insufficient balance on payment", "Transaction hasn't been captured, refund not possible");
    let told = |event: &str, why: &str, value: i64| (event.to_owned(), why.is_empty(), why.to_owned(), value);
    let expected = [
        told("AUTHORISATION", "", 1000),
        told("REFUND", late, 1),
        told("AUTHORISATION_ADJUSTMENT", "", 1200),
        told("CAPTURE", no, 1201),
        told("CAPTURE", "", 700),
        told("CAPTURE", no, 501),
        told("CAPTURE", "", 500),
        told("AUTHORISATION_ADJUSTMENT", no, 1300),
        told("CANCELLATION", no, 1200),
        told("REFUND", no, 1201),
        told("REFUND", "", 1199),
        told("REFUND", no, 2),
        told("CANCEL_OR_REFUND", no, 1200),
        told("REFUND", "", 1),
    ];
    assert_eq!(events(&receiver), expected);
}

#[tokio::test]
async fn a_payment_is_cancelled_reversed_or_captured_by_itself() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).manual_capture().start().await;
    let (receiver, _) = told_to(&fake).await;
    let pay = async |body: Value| {
        ok(&fake, "/v71/payments", &body).await["pspReference"].as_str().unwrap().to_owned()
    };
    let [cancelled, reversed, part, by_itself] = [
        pay(payment(10)).await,
        pay(payment(20)).await,
        pay(payment(30)).await,
        pay(with(payment(40), "/captureDelayHours", json!(2))).await,
    ];
    for (psp, what, body) in [
        (&cancelled, "cancels", whole()),
        (&cancelled, "captures", change(10)),
        (&reversed, "reversals", whole()),
        (&part, "captures", change(5)),
        (&part, "captures", change(5)),
        (&part, "reversals", whole()),
        (&by_itself, "refunds", change(40)),
    ] {
        ok(&fake, &format!("/v71/payments/{psp}/{what}"), &body).await;
    }
    clock.advance(2 * HOUR);
    ok(&fake, &format!("/v71/payments/{by_itself}/captures"), &change(40)).await;
    ok(&fake, &format!("/v71/payments/{by_itself}/refunds"), &change(40)).await;
    // By the reference: the newest payment, which is captured. And one that there is not.
    for reference in ["order-42", "order-43"] {
        let body = json!({ "merchantAccount": "ShopECOM", "paymentReference": reference });
        assert_eq!(ok(&fake, "/v71/cancels", &body).await["status"], "received");
    }
    order_webhooks(fake.url(), &json!({})).await;
    let told: Vec<(String, bool)> = events(&receiver)
        .into_iter()
        .filter(|(event, ..)| event != "AUTHORISATION")
        .map(|(e, ok, ..)| (e, ok))
        .collect();
    let expected = [
        ("CANCELLATION", true),
        ("CAPTURE", false),
        ("CANCEL_OR_REFUND", true),
        ("CAPTURE", true),
        ("CAPTURE", false),
        ("CANCEL_OR_REFUND", true),
        ("REFUND", false),
        ("CAPTURE", false),
        ("REFUND", true),
        ("TECHNICAL_CANCEL", false),
    ];
    assert_eq!(told, expected.map(|(event, ok)| (event.to_owned(), ok)));
}

#[tokio::test]
async fn a_reversal_returns_what_was_captured_and_refuses_a_payment_that_is_captured_in_parts() {
    let no = "Insufficient balance on payment";
    let told = |event: &str, why: &str, value: i64| (event.to_owned(), why.is_empty(), why.to_owned(), value);
    let (capture, reversal) = ("CAPTURE", "CANCEL_OR_REFUND");
    for (in_parts, changes, expected) in [
        (
            false,
            &[("captures", 400), ("reversals", 0), ("captures", 600), ("reversals", 0), ("refunds", 1)][..],
            vec![
                told(capture, "", 400),
                told(reversal, "", 400),
                told(capture, no, 600),
                told(reversal, no, 400),
                told("REFUND", no, 1),
            ],
        ),
        (
            true,
            &[
                ("captures", 300),
                ("captures", 400),
                ("reversals", 0),
                ("captures", 300),
                ("reversals", 0),
                ("captures", 1),
            ],
            vec![
                told(capture, "", 300),
                told(capture, "", 400),
                told(reversal, no, 700),
                told(capture, "", 300),
                told(reversal, "", 1000),
                told(capture, no, 1),
            ],
        ),
    ] {
        let builder = AdyenFake::builder().manual_capture();
        let builder = if in_parts { builder.multiple_partial_captures() } else { builder };
        let fake = builder.start().await;
        let (receiver, _) = told_to(&fake).await;
        let paid = ok(&fake, "/v71/payments", &payment(1000)).await;
        let psp = paid["pspReference"].as_str().unwrap();
        for (what, value) in changes {
            let body = if *what == "reversals" { whole() } else { change(*value) };
            ok(&fake, &format!("/v71/payments/{psp}/{what}"), &body).await;
        }
        order_webhooks(fake.url(), &json!({})).await;
        assert_eq!(events(&receiver)[1..], expected, "{in_parts}");
    }
}

#[tokio::test]
async fn a_payment_is_captured_at_once_and_no_webhook_tells_of_that() {
    let fake = AdyenFake::start().await;
    let (receiver, _) = told_to(&fake).await;
    let paid = ok(&fake, "/v71/payments", &payment(1000)).await;
    let psp = paid["pspReference"].as_str().unwrap().to_owned();
    for (what, body) in [
        ("captures", change(1000)),
        ("captures", change(1)),
        ("cancels", whole()),
        ("amountUpdates", change(1200)),
        ("refunds", change(400)),
        ("refunds", change(601)),
        ("refunds", change(600)),
        ("refunds", change(1)),
    ] {
        let taken = ok(&fake, &format!("/v71/payments/{psp}/{what}"), &body).await;
        assert_eq!(taken["status"], "received", "{what}");
    }
    order_webhooks(fake.url(), &json!({})).await;
    let no = "Insufficient balance on payment";
    let told = |event: &str, why: &str, value: i64| (event.to_owned(), why.is_empty(), why.to_owned(), value);
    let expected = [
        told("AUTHORISATION", "", 1000),
        told("CAPTURE", no, 1000),
        told("CAPTURE", no, 1),
        told("CANCELLATION", no, 1000),
        told("AUTHORISATION_ADJUSTMENT", no, 1200),
        told("REFUND", "", 400),
        told("REFUND", no, 601),
        told("REFUND", "", 600),
        told("REFUND", no, 1),
    ];
    assert_eq!(events(&receiver), expected);
}

#[tokio::test]
async fn who_captures_a_payment_is_up_to_its_method_its_request_and_the_account() {
    let by_request = json!({ "manualCapture": "true" });
    let asked = with(payment(10), "/additionalData", by_request.clone());
    let delayed = with(payment(10), "/captureDelayHours", json!(2));
    let ideal = with(payment(10), "/paymentMethod", json!({ "type": "ideal" }));
    let ideal = with(ideal, "/additionalData", by_request);
    for (is_manual, body, captured) in [
        (false, payment(10), true),
        (true, payment(10), false),
        (false, asked, false),
        (false, delayed.clone(), false),
        (true, delayed, false),
        (false, ideal.clone(), true),
        (true, ideal, true),
    ] {
        let builder = AdyenFake::builder().test_clock(&TestClock::new());
        let fake = if is_manual { builder.manual_capture() } else { builder }.start().await;
        let (receiver, _) = told_to(&fake).await;
        let paid = ok(&fake, "/v71/payments", &body).await;
        let mut psp = paid["pspReference"].as_str().unwrap_or_default().to_owned();
        if let Some(url) = paid["action"]["url"].as_str() {
            url.split("redirectData=").nth(1).unwrap().clone_into(&mut psp);
            let details = json!({ "details": { "redirectResult": psp } });
            assert_eq!(ok(&fake, "/v71/payments/details", &details).await["resultCode"], "Authorised");
        }
        ok(&fake, &format!("/v71/payments/{psp}/reversals"), &whole()).await;
        order_webhooks(fake.url(), &json!({})).await;
        let items = sent_items(&receiver);
        let told: Vec<&str> = items.iter().map(|item| item["eventCode"].as_str().unwrap()).collect();
        assert_eq!(told, ["AUTHORISATION", "CANCEL_OR_REFUND"], "{is_manual} {body}");
        let action = if captured { "refund" } else { "cancel" };
        assert_eq!(items[1]["additionalData"]["modification.action"], action, "{is_manual} {body}");
        assert_eq!(items[1]["success"], "true", "{is_manual} {body}");
        let operations = if items[0]["paymentMethod"] == "ideal" {
            json!(["REFUND"])
        } else {
            json!(["CANCEL", "CAPTURE", "REFUND"])
        };
        assert_eq!(items[0]["operations"], operations);
    }
}

#[tokio::test]
async fn a_redirect_is_completed_once_by_what_the_shopper_did() {
    let fake = AdyenFake::start().await;
    let ideal = with(payment(10), "/paymentMethod", json!({ "type": "ideal" }));
    for (word, result) in
        [("", "Authorised"), ("!Refused", "Refused"), ("!Cancelled", "Cancelled"), ("!Pending", "Pending")]
    {
        let redirect = ok(&fake, "/v71/payments", &ideal).await;
        assert_eq!(redirect["resultCode"], "RedirectShopper");
        let url = redirect["action"]["url"].as_str().unwrap();
        let token = url.split("redirectData=").nth(1).unwrap();
        let body = json!({ "details": { "redirectResult": format!("{token}{word}") } });
        let done = ok(&fake, "/v71/payments/details", &body).await;
        shows(&done, &json!({ "resultCode": result, "pspReference": token }));
        let again = post(&fake, "/v71/payments/details", "", &body).await;
        assert_eq!((again.status().as_u16(), again.headers().contains_key("transient-error")), (422, false));
    }
    assert_eq!(fake.ledger().count(), 8);
}

#[tokio::test]
async fn a_notification_is_signed_in_its_body_and_comes_when_it_is_ordered() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).manual_capture().start().await;
    let (receiver, key) = told_to(&fake).await;
    assert_eq!((key.len(), key.to_uppercase() == key), (64, true), "a hexadecimal key, as Adyen's own");
    let psp = ok(&fake, "/v71/payments", &payment(1000)).await["pspReference"].as_str().unwrap().to_owned();
    ok(&fake, &format!("/v71/payments/{psp}/captures"), &change(1000)).await;
    let told = order_webhooks(fake.url(), &json!({ "newest_first": true, "times": 2 })).await;
    let items = sent_items(&receiver);
    let events: Vec<&str> = items.iter().map(|item| item["eventCode"].as_str().unwrap()).collect();
    assert_eq!(events, ["CAPTURE", "CAPTURE", "AUTHORISATION", "AUTHORISATION"]);
    assert_eq!((&items[0], &items[2]), (&items[1], &items[3]), "the same bytes");
    let capture = &items[0];
    shows(capture, &json!({ "originalReference": psp, "merchantReference": "part" }));
    let id = told["deliveries"][0]["id"].as_str().unwrap();
    order_webhooks(fake.url(), &json!({ "send": [id] })).await;
    assert_eq!(sent_items(&receiver).len(), 1, "on demand, again");
    // The code that signs and the code that verifies are of different authors in `tests/sdk`. Here: the key and the
    // fields count.
    let signature = |item: &Value| item["additionalData"]["hmacSignature"].as_str().unwrap().to_owned();
    assert_ne!(signature(&items[0]), signature(&items[2]));
    assert_eq!(signature(&items[0]).len(), 44, "32 bytes in base64");

    // The company's receiver is told of each merchant account, a removed and an inactive one of none.
    let (all, url) = Receiver::listen().await;
    let hook = json!({
        "type": "standard", "url": url, "active": true, "communicationFormat": "json",
        "filterMerchantAccountType": "allAccounts",
    });
    let made = ok(&fake, "/v3/companies/Shop/webhooks", &hook).await;
    let place = format!("{}/v3/companies/Shop/webhooks/{}", fake.url(), made["id"].as_str().unwrap());
    ok(&fake, "/v71/payments", &with(payment(1), "/merchantAccount", json!("Other"))).await;
    order_webhooks(fake.url(), &json!({})).await;
    assert_eq!((sent_items(&all).len(), sent_items(&receiver).len()), (1, 0));
    let client = answers::client();
    let off =
        client.patch(&place).header("X-API-Key", "AQE").body(r#"{"active":false}"#).send().await.unwrap();
    assert_eq!(off.status(), 200);
    ok(&fake, "/v71/payments", &payment(1)).await;
    order_webhooks(fake.url(), &json!({})).await;
    assert_eq!((sent_items(&all).len(), sent_items(&receiver).len()), (0, 1));
    assert_eq!(client.delete(&place).header("X-API-Key", "AQE").send().await.unwrap().status(), 204);
    assert_eq!(client.get(&place).header("X-API-Key", "AQE").send().await.unwrap().status(), 404);
}
