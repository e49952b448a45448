//! The things that Drop-in and Pay by Link begin with at the fake of Adyen: payment methods, sessions, payment links,
//! and the shopper who pays them.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_fakes::{AdyenAnswer, AdyenFake};
use steadfast_testkit::{Fault, TestClock};

use crate::asks::{ask, ok};
use support::answers::{self, order_webhooks, shows, with};
use support::receiver::Receiver;

const HOUR: Duration = Duration::from_secs(3600);

async fn keyed(fake: &AdyenFake, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let call = answers::client().post(format!("{}{path}", fake.url()));
    let call = call.header("X-API-Key", "AQE").header("idempotency-key", key);
    answers::told(call.body(body.to_string())).await
}

fn session() -> Value {
    json!({
        "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
        "amount": { "value": 1000, "currency": "EUR" }, "countryCode": "NL",
    })
}

fn link() -> Value {
    json!({
        "merchantAccount": "ShopECOM", "reference": "order-42", "amount": { "value": 1000, "currency": "EUR" },
    })
}

fn card(holder: &str) -> Value {
    json!({ "type": "scheme", "encryptedCardNumber": "test_4111111111111111", "holderName": holder })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The id of a new one.
async fn made(fake: &AdyenFake, path: &str, body: &Value) -> String {
    let (status, told) = ask(fake, "POST", path, body).await;
    assert_eq!(status, 201, "{path} {body}: {told}");
    text(&told["id"]).to_owned()
}

async fn result(fake: &AdyenFake, id: &str, session_result: &Value) -> Value {
    ok(fake, "GET", &format!("/v71/sessions/{id}?sessionResult={}", text(session_result)), "").await
}

/// Registers a receiver, which is told when it is ordered.
async fn told_to(fake: &AdyenFake) -> Receiver {
    let (receiver, url) = Receiver::listen().await;
    let hook = json!({ "type": "standard", "url": url, "active": true, "communicationFormat": "json" });
    ok(fake, "POST", "/v3/merchants/ShopECOM/webhooks", &hook).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    receiver
}

/// The notices that were told since this was last asked: event, success, reference and additional data.
async fn notices(fake: &AdyenFake, receiver: &Receiver) -> Vec<(String, bool, String, Value)> {
    order_webhooks(fake.url(), &json!({})).await;
    let bodies = receiver.bodies();
    let items = bodies.iter().map(|body| &body["notificationItems"][0]["NotificationRequestItem"]);
    items
        .map(|item| {
            let [event, reference] =
                ["eventCode", "merchantReference"].map(|name| text(&item[name]).to_owned());
            (event, item["success"] == "true", reference, item["additionalData"].clone())
        })
        .collect()
}

fn told(event: &str, success: bool, reference: &str, data: Value) -> (String, bool, String, Value) {
    (event.to_owned(), success, reference.to_owned(), data)
}

#[tokio::test]
async fn payment_methods_are_those_that_the_fake_can_pay_with() {
    let fake = AdyenFake::start().await;
    let ideal = json!({ "name": "iDEAL", "type": "ideal" });
    let cards = json!({ "brands": ["visa", "mc", "amex"], "name": "Cards", "type": "scheme" });
    let euros = |value: i64| json!({ "value": value, "currency": "EUR" });
    for (asked, expected) in [
        (json!({}), json!([ideal, cards])),
        (json!({ "countryCode": "NL", "amount": euros(1000), "channel": "Web" }), json!([ideal, cards])),
        (json!({ "countryCode": "NL", "amount": { "value": 1000, "currency": "USD" } }), json!([cards])),
        (json!({ "countryCode": "DE", "amount": euros(1000) }), json!([cards])),
        (json!({ "allowedPaymentMethods": ["ideal", "klarna"] }), json!([ideal])),
        (json!({ "allowedPaymentMethods": ["ideal"], "countryCode": "DE" }), json!([])),
        (json!({ "blockedPaymentMethods": ["ideal"] }), json!([cards])),
        (json!({ "allowedPaymentMethods": ["scheme"], "blockedPaymentMethods": ["scheme"] }), json!([])),
        // No card is stored.
        (json!({ "shopperReference": "ann", "order": null }), json!([ideal, cards])),
    ] {
        let mut body = json!({ "merchantAccount": "ShopECOM" });
        body.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        let (status, told) = ask(&fake, "POST", "/v71/paymentMethods", &body).await;
        assert_eq!((status, told), (200, json!({ "paymentMethods": expected })), "{asked}");
    }
    // It takes a key, and makes nothing.
    let cards_only = json!({ "merchantAccount": "ShopECOM", "countryCode": "DE" });
    let first = keyed(&fake, "/v72/paymentMethods", "k", &cards_only).await;
    assert_eq!(first, (200, json!({ "paymentMethods": [cards] })));
    let all = json!({ "merchantAccount": "ShopECOM" });
    assert_eq!(keyed(&fake, "/v72/paymentMethods", "k", &all).await, first);
    assert_eq!((fake.ledger().count(), fake.ledger().requests_for("k")), (0, 2));
}

#[tokio::test]
async fn a_session_repeats_its_request_and_says_until_when_it_can_be_paid() {
    let fake = AdyenFake::builder().test_clock(&TestClock::new()).start().await;
    let more = json!({
        "channel": "Web", "metadata": { "order": "42" }, "dateOfBirth": "1966-09-04", "store": null,
        "installmentOptions": { "card": { "values": [2, 3], "plans": ["regular"] } },
        "threeDS2RequestData": { "homePhone": { "cc": "31", "subscriber": "1" } },
        "storePaymentMethodMode": "disabled", "storePaymentMethod": false,
    });
    let mut asked = session();
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (status, told) = ask(&fake, "POST", "/v71/sessions", &asked).await;
    assert_eq!(status, 201, "{told}");
    let id = text(&told["id"]).to_owned();
    assert!(id.len() == 18 && id.starts_with("CS") && !text(&told["sessionData"]).is_empty(), "{told}");
    let mut expected = with(asked.clone(), "/dateOfBirth", json!("1966-09-04T00:00:00Z"));
    expected.as_object_mut().unwrap().remove("store");
    for (name, value) in [
        ("id", json!(id)),
        ("expiresAt", json!("2026-01-01T01:00:00Z")),
        ("mode", json!("embedded")),
        ("sessionData", told["sessionData"].clone()),
    ] {
        expected[name] = value;
    }
    assert_eq!(told, expected);
    let hosted =
        ok(&fake, "POST", "/checkout/v70/sessions", &with(session(), "/mode", json!("hosted"))).await;
    assert_eq!(hosted["mode"], "hosted");
    assert_eq!(hosted["url"], format!("https://test.adyen.link/{}", text(&hosted["id"])));
}

#[tokio::test]
async fn a_session_expires_within_a_day_and_a_link_within_seventy() {
    let fake = AdyenFake::builder().test_clock(&TestClock::new()).start().await;
    for (path, body, default, cases) in [
        (
            "/v71/sessions",
            session(),
            "2026-01-01T01:00:00Z",
            [
                ("2026-01-01T00:00:01Z", Some("2026-01-01T00:00:01Z")),
                ("2026-01-01T02:00:00.500+01:00", Some("2026-01-01T01:00:00Z")),
                ("2026-01-02T00:00:00Z", Some("2026-01-02T00:00:00Z")),
                ("2026-01-02T00:00:01Z", None),
                ("2026-01-01T00:00:00Z", None),
                ("2026-01-01T00:30:00", None),
                ("soon", None),
            ],
        ),
        (
            "/v71/paymentLinks",
            link(),
            "2026-01-02T00:00:00Z",
            [
                ("2026-01-01T00:00:01Z", Some("2026-01-01T00:00:01Z")),
                ("2026-03-11T19:00:00-05:00", Some("2026-03-12T00:00:00Z")),
                ("2026-03-12T00:00:00Z", Some("2026-03-12T00:00:00Z")),
                ("2026-03-12T00:00:01Z", None),
                ("2025-12-31T23:59:59Z", None),
                ("2026-01-05", None),
                ("", None),
            ],
        ),
    ] {
        assert_eq!(ok(&fake, "POST", path, &body).await["expiresAt"], default, "{path}");
        for (asked, expected) in cases {
            let (status, told) =
                ask(&fake, "POST", path, &with(body.clone(), "/expiresAt", json!(asked))).await;
            match expected {
                Some(expected) => assert_eq!((status, text(&told["expiresAt"])), (201, expected), "{asked}"),
                None => {
                    assert_eq!(
                        (status, text(&told["message"])),
                        (422, "Field 'expiresAt' is not valid."),
                        "{asked}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_repeat_under_its_key_is_the_same_session_or_link() {
    let fake = AdyenFake::start().await;
    for (path, body) in [("/v71/sessions", session()), ("/v71/paymentLinks", link())] {
        let first = keyed(&fake, path, path, &body).await;
        assert_eq!(first.0, 201);
        assert_eq!(keyed(&fake, path, path, &body).await, first);
        let other = keyed(&fake, path, &format!("{path} again"), &body).await;
        assert_ne!(other.1["id"], first.1["id"]);
        let effects = fake.ledger().effects_for(path);
        assert_eq!((effects.len(), effects[0].id.as_str()), (1, text(&first.1["id"])));
        assert_eq!((effects[0].path.as_str(), fake.ledger().requests_for(path)), (path, 2));
    }
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (4, Vec::new()));
}

/// The members that must not be in a session: where, the value, the status and the code.
fn bad_sessions() -> Vec<(&'static str, Value, u16, &'static str)> {
    let long = |length: usize| "x".repeat(length);
    let key = long(21);
    vec![
        ("/merchantAccount", json!(""), 403, "901"),
        ("/amount", Value::Null, 422, "100"),
        ("/reference", Value::Null, 422, "130"),
        ("/amount/value", json!(-1), 422, "137"),
        ("/amount/currency", json!("ZZZ"), 422, "138"),
        ("/cart", json!(1), 400, "702"),
        ("/lineItems", json!([{ "price": 1 }]), 400, "702"),
        ("/installmentOptions", json!({ "card": { "plan": "regular" } }), 400, "702"),
        ("/installmentOptions", json!({ "card": { "values": ["2"] } }), 400, "702"),
        ("/installmentOptions", json!({ "card": { "values": [4_294_967_296_u64] } }), 422, "702"),
        ("/installmentOptions", json!({ "card": 3 }), 400, "702"),
        ("/installmentOptions", json!([]), 400, "702"),
        ("/allowedPaymentMethods", json!("ideal"), 400, "702"),
        ("/threeDS2RequestData", json!({ "threeDSRequestorChallengeInd": "07" }), 400, "702"),
        ("/reference", json!(long(81)), 422, "702"),
        ("/captureDelayHours", json!(673), 422, "702"),
        ("/metadata", json!({ key: "v" }), 422, "178"),
        ("/metadata", json!({ "order": long(81) }), 422, "177"),
        // The fake stores no cards, has no stores, and does not know these lists.
        ("/storePaymentMethodMode", json!("askForConsent"), 422, "905"),
        ("/allowedPaymentMethods", json!([]), 422, "905"),
        ("/blockedPaymentMethods", json!(["visa"]), 422, "905"),
    ]
}

#[tokio::test]
async fn a_request_is_refused_for_what_is_wrong_at_any_depth() {
    let fake = AdyenFake::start().await;
    let mut cases: Vec<(&str, Value, u16, &str)> = Vec::new();
    for (path, body) in [("/v71/sessions", session()), ("/v71/paymentLinks", link())] {
        for (pointer, value, status, code) in bad_sessions() {
            cases.push((path, with(body.clone(), pointer, value), status, code));
        }
    }
    for (pointer, value, status, code) in [
        ("/returnUrl", Value::Null, 422, "14_030"),
        ("/mode", json!("popup"), 400, "702"),
        ("/reusable", json!(true), 400, "702"),
        ("/dateOfBirth", json!("4 May"), 422, "702"),
        ("/storePaymentMethod", json!(true), 422, "905"),
        ("/enablePayOut", json!(true), 422, "905"),
        ("/storeFiltrationMode", json!("exclusive"), 422, "905"),
        ("/additionalData", json!({ "manualCapture": "yes" }), 422, "905"),
    ] {
        cases.push(("/v71/sessions", with(session(), pointer, value), status, code));
    }
    for (pointer, value, status, code) in [
        ("/reusable", json!("yes"), 400, "702"),
        ("/status", json!("active"), 400, "702"),
        ("/requiredShopperFields", json!(["age"]), 400, "702"),
        ("/description", json!("x".repeat(281)), 422, "702"),
        ("/billingAddress", json!({ "city": "Paris" }), 422, "702"),
    ] {
        cases.push(("/v71/paymentLinks", with(link(), pointer, value), status, code));
    }
    let both = with(with(link(), "/manualCapture", json!(true)), "/captureDelayHours", json!(2));
    cases.push(("/v71/paymentLinks", both, 422, "905"));
    let methods = json!({ "merchantAccount": "ShopECOM" });
    for (pointer, value, status, code) in [
        ("/merchantAccount", Value::Null, 403, "901"),
        ("/paymentMethod", json!({ "type": "ideal" }), 400, "702"),
        ("/allowedPaymentMethods", json!([1]), 400, "702"),
        ("/amount", json!({ "value": -1, "currency": "EUR" }), 422, "137"),
        ("/amount", json!({ "value": 1, "currency": "ZZZ" }), 422, "138"),
        ("/store", json!("x".repeat(17)), 422, "702"),
        ("/order", json!({ "orderData": "x", "pspReference": "y" }), 422, "905"),
        ("/storeFiltrationMode", json!("inclusive"), 422, "905"),
        ("/splitCardFundingSources", json!(true), 422, "905"),
        ("/allowedPaymentMethods", json!(["mc"]), 422, "905"),
        ("/blockedPaymentMethods", json!([]), 422, "905"),
    ] {
        cases.push(("/v71/paymentMethods", with(methods.clone(), pointer, value), status, code));
    }
    for (path, body, status, code) in cases {
        let (told_status, told) = ask(&fake, "POST", path, &body).await;
        assert_eq!((told_status, told["errorCode"].as_str()), (status, Some(code)), "{path} {body}: {told}");
        assert_eq!(told["status"], status, "its form is Adyen's");
        assert!(told["errorType"].is_string() && !told.to_string().contains('<'), "{told}");
    }
    let (_, told) = ask(&fake, "POST", "/v71/paymentLinks", &with(link(), "/cart", json!(1))).await;
    let words = "Structure of PaymentLinkRequest contains the following unknown fields: [cart]";
    assert_eq!((&told["message"], fake.ledger().count()), (&json!(words), 0), "a refusal is no effect");
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_adyen_does() {
    let fake = AdyenFake::start().await;
    let session = made(&fake, "/v71/sessions", &session()).await;
    let link = made(&fake, "/v71/paymentLinks", &link()).await;
    let no_result = "Required query parameter 'sessionResult' is not provided.";
    let (no_session, no_link) = ("Field 'sessionId' is not valid.", "Field 'linkId' is not valid.");
    let expired = r#"{"status":"expired"}"#;
    for (method, path, body, status, message) in [
        ("GET", format!("/v71/sessions/{session}"), "", 422, Some(no_result)),
        ("GET", format!("/v71/sessions/{session}?sessionResult="), "", 422, Some(no_result)),
        ("GET", format!("/v71/sessions/{session}?sessionResult=x"), "", 422, Some(no_session)),
        ("GET", "/v71/sessions/CS0?sessionResult=x".to_owned(), "", 422, Some(no_session)),
        ("GET", format!("/v71/sessions/{link}?sessionResult=x"), "", 422, Some(no_session)),
        ("GET", "/v71/paymentLinks/PL0".to_owned(), "", 422, Some(no_link)),
        ("GET", format!("/v71/paymentLinks/{session}"), "", 422, Some(no_link)),
        ("PATCH", "/v71/paymentLinks/PL0".to_owned(), expired, 422, Some(no_link)),
        ("PATCH", format!("/v71/paymentLinks/{link}"), "", 400, None),
        ("PATCH", format!("/v71/paymentLinks/{link}"), "{}", 422, None),
        ("PATCH", format!("/v71/paymentLinks/{link}"), r#"{"status":"active"}"#, 400, None),
        ("PATCH", format!("/v71/paymentLinks/{link}"), r#"{"status":"expired","id":"x"}"#, 400, None),
        ("PATCH", format!("/v71/sessions/{session}"), "{}", 404, None),
        ("DELETE", format!("/v71/paymentLinks/{link}"), "", 404, None),
        ("GET", "/v71/paymentLinks".to_owned(), "", 404, None),
        ("GET", "/v71/paymentMethods".to_owned(), "", 404, None),
        ("GET", format!("/v52/paymentLinks/{link}"), "", 404, None),
    ] {
        let (told_status, told) = ask(&fake, method, &path, body).await;
        assert_eq!(told_status, status, "{method} {path} {body}: {told}");
        assert!(message.is_none_or(|message| told["message"] == message), "{method} {path}: {told}");
    }
    let anonymous = answers::client().get(format!("{}/v71/paymentLinks/{link}", fake.url()));
    assert_eq!(answers::told(anonymous).await.0, 401);
    assert_eq!(ok(&fake, "GET", &format!("/v71/paymentLinks/{link}"), "").await["status"], "active");
    assert_eq!(fake.ledger().count(), 2);
}

#[tokio::test]
async fn a_session_is_paid_once_and_its_payment_is_one_as_any_other() {
    let fake = AdyenFake::builder().test_clock(&TestClock::new()).start().await;
    let receiver = told_to(&fake).await;
    let id = made(&fake, "/v71/sessions", &session()).await;
    let paid = fake.pay(&id, &card("Ann")).unwrap();
    assert_eq!((text(&paid["resultCode"]), text(&paid["merchantReference"])), ("Authorised", "order-42"));
    let psp = text(&paid["pspReference"]);
    let payment = json!({
        "amount": { "value": 1000, "currency": "EUR" }, "pspReference": psp, "resultCode": "Authorised",
        "paymentMethod": { "type": "scheme", "brand": "visa" },
    });
    let expected = json!({ "id": id, "reference": "order-42", "status": "completed", "payments": [payment] });
    assert_eq!(result(&fake, &id, &paid["sessionResult"]).await, expected);

    let again = fake.pay(&id, &card("Ann")).unwrap_err();
    shows(&again, &json!({ "status": 422, "errorCode": "702" }));
    assert_eq!(again["message"], "The session or the payment link is completed.");
    assert_eq!(again.get("sessionResult"), None);
    // The session, and the shopper's payment.
    let effects = fake.ledger().effects();
    let shown: Vec<_> =
        effects.iter().map(|one| (one.path.as_str(), one.id.as_str(), &one.wire_key)).collect();
    assert_eq!(shown, [("/v71/sessions", id.as_str(), &None), ("/_fake/pay", psp, &None)]);

    // It was captured at once.
    let refund = json!({ "merchantAccount": "ShopECOM", "reference": "r", "amount": { "value": 400, "currency": "EUR" } });
    ok(&fake, "POST", &format!("/v71/payments/{psp}/refunds"), &refund).await;
    let cancel = json!({ "merchantAccount": "ShopECOM", "paymentReference": "order-42" });
    ok(&fake, "POST", "/v71/cancels", &cancel).await;
    let expected = [
        told("AUTHORISATION", true, "order-42", json!({ "checkoutSessionId": id })),
        told("REFUND", true, "r", json!({})),
        told("TECHNICAL_CANCEL", false, "order-42", json!({})),
    ];
    assert_eq!(notices(&fake, &receiver).await, expected);
}

#[tokio::test]
async fn who_captures_the_payment_of_a_session_or_a_link_is_up_to_its_request_and_the_account() {
    let by_request = json!({ "manualCapture": "true" });
    for (is_manual, path, body, captured) in [
        (false, "/v71/sessions", session(), true),
        (true, "/v71/sessions", session(), false),
        (false, "/v71/sessions", with(session(), "/additionalData", by_request), false),
        (true, "/v71/sessions", with(session(), "/captureDelayHours", json!(0)), true),
        (false, "/v71/sessions", with(session(), "/captureDelayHours", json!(2)), false),
        (false, "/v71/paymentLinks", link(), true),
        (false, "/v71/paymentLinks", with(link(), "/manualCapture", json!(true)), false),
        (true, "/v71/paymentLinks", with(link(), "/captureDelayHours", json!(0)), true),
    ] {
        let builder = AdyenFake::builder().test_clock(&TestClock::new());
        let fake = if is_manual { builder.manual_capture() } else { builder }.start().await;
        let receiver = told_to(&fake).await;
        let id = made(&fake, path, &body).await;
        fake.pay(&id, &card("Ann")).unwrap();
        let cancel = json!({ "merchantAccount": "ShopECOM", "paymentReference": "order-42" });
        ok(&fake, "POST", "/v71/cancels", &cancel).await;
        let name = if path == "/v71/sessions" { "checkoutSessionId" } else { "paymentLinkId" };
        let expected = [
            told("AUTHORISATION", true, "order-42", json!({ name: id })),
            // A payment that is captured can no longer be cancelled.
            told("TECHNICAL_CANCEL", !captured, "order-42", json!({})),
        ];
        assert_eq!(notices(&fake, &receiver).await, expected, "{is_manual} {body}");
    }
}

#[tokio::test]
async fn a_payment_that_is_refused_leaves_a_session_open() {
    let fake = AdyenFake::builder().test_clock(&TestClock::new()).start().await;
    for (holder, code, status) in [
        ("DECLINED", "Refused", "active"),
        ("ERROR", "Error", "active"),
        ("FRAUD_CANCELLED", "Cancelled", "active"),
        ("PENDING", "Received", "paymentPending"),
        ("Ann", "Authorised", "completed"),
    ] {
        let id = made(&fake, "/v71/sessions", &session()).await;
        let first = fake.pay(&id, &card(holder)).unwrap();
        assert_eq!(first["resultCode"], code, "{holder}");
        let told = result(&fake, &id, &first["sessionResult"]).await;
        assert_eq!(told["status"], status, "{holder}");
        match status {
            "active" => assert_eq!(told.get("payments"), None, "{holder}"),
            "paymentPending" => {
                let payment = json!({
                    "amount": { "value": 1000, "currency": "EUR" }, "pspReference": first["pspReference"],
                    "resultCode": "Received",
                });
                assert_eq!(told["payments"], json!([payment]));
            }
            _ => assert_eq!(told["payments"][0]["pspReference"], first["pspReference"]),
        }
        let second = fake.pay(&id, &card("Ann"));
        if status == "active" {
            let second = second.unwrap();
            assert_eq!(result(&fake, &id, &second["sessionResult"]).await["status"], "completed", "{holder}");
            // "The status included in the response doesn't get updated."
            assert_eq!(result(&fake, &id, &first["sessionResult"]).await["status"], "active", "{holder}");
        } else {
            let words = format!("The session or the payment link is {status}.");
            assert_eq!(second.unwrap_err()["message"], words, "{holder}");
        }
    }
}

#[tokio::test]
async fn a_redirect_ends_with_its_details_and_so_does_the_session() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).start().await;
    let ideal = json!({ "type": "ideal" });
    for (word, code, status) in [
        ("", "Authorised", "completed"),
        ("!Refused", "Refused", "active"),
        ("!Cancelled", "Cancelled", "canceled"),
        ("!Pending", "Pending", "paymentPending"),
    ] {
        let id = made(&fake, "/v71/sessions", &session()).await;
        let redirect = fake.pay(&id, &ideal).unwrap();
        assert_eq!(redirect["resultCode"], "RedirectShopper");
        let url = text(&redirect["action"]["url"]);
        let redirect_result = url.split("redirectData=").nth(1).unwrap();
        // Not before the shopper is back, and never with the result of the redirect.
        for given in [text(&redirect["sessionResult"]), redirect_result] {
            let path = format!("/v71/sessions/{id}?sessionResult={given}");
            let (status, told) = ask(&fake, "GET", &path, "").await;
            assert_eq!((status, text(&told["message"])), (422, "Field 'sessionId' is not valid."), "{given}");
        }
        let details = json!({ "details": { "redirectResult": format!("{redirect_result}{word}") } });
        assert_eq!(ok(&fake, "POST", "/v71/payments/details", &details).await["resultCode"], code);
        let told = result(&fake, &id, &redirect["sessionResult"]).await;
        assert_eq!(told["status"], status, "{word}");
        if status == "completed" {
            assert_eq!(told["payments"][0]["paymentMethod"], ideal);
        }
        let is_open = matches!(status, "active" | "canceled");
        assert_eq!(fake.pay(&id, &card("Ann")).is_ok(), is_open, "{word}");
    }
    // Of two redirects the second to come back is too late, and so is each after the session has expired.
    let details = async |redirect: &Value| {
        let result = text(&redirect["action"]["url"]).split("redirectData=").nth(1).unwrap();
        let (status, told) =
            ask(&fake, "POST", "/v71/payments/details", &json!({ "details": { "redirectResult": result } }))
                .await;
        (status, told["message"].as_str().unwrap_or_default().to_owned())
    };
    let id = made(&fake, "/v71/sessions", &session()).await;
    let [one, two] = [fake.pay(&id, &ideal).unwrap(), fake.pay(&id, &ideal).unwrap()];
    assert_eq!(details(&two).await, (200, String::new()));
    assert_eq!(details(&one).await, (422, "The session or the payment link is completed.".to_owned()));
    let id = made(&fake, "/v71/sessions", &session()).await;
    let late = fake.pay(&id, &ideal).unwrap();
    clock.advance(HOUR);
    assert_eq!(details(&late).await, (422, "The session or the payment link is expired.".to_owned()));
}

#[tokio::test]
async fn a_session_that_has_expired_cannot_be_paid() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).start().await;
    let id = made(&fake, "/v71/sessions", &session()).await;
    let declined = fake.pay(&id, &card("DECLINED")).unwrap();
    clock.advance(HOUR - Duration::from_secs(1));
    fake.pay(&id, &card("DECLINED")).unwrap();
    let before = fake.ledger().count();
    clock.advance(Duration::from_secs(1));
    let late = fake.pay(&id, &card("Ann")).unwrap_err();
    assert_eq!(late["message"], "The session or the payment link is expired.");
    let expected = json!({ "id": id, "reference": "order-42", "status": "expired" });
    assert_eq!(result(&fake, &id, &late["sessionResult"]).await, expected);
    assert_eq!(result(&fake, &id, &declined["sessionResult"]).await["status"], "active");
    assert_eq!(fake.ledger().count(), before);
}

#[tokio::test]
async fn a_page_takes_the_methods_that_it_offers() {
    let fake = AdyenFake::start().await;
    let ideal = json!({ "type": "ideal" });
    let in_dollars = with(session(), "/amount/currency", json!("USD"));
    let unsupported = "This fake does not implement: paymentMethod";
    let unknown = "Structure of CardDetails contains the following unknown fields: [cardNumber]";
    for (body, method, status, message) in [
        (in_dollars, ideal.clone(), 422, unsupported),
        (with(session(), "/countryCode", json!("DE")), ideal.clone(), 422, unsupported),
        (with(session(), "/blockedPaymentMethods", json!(["ideal"])), ideal.clone(), 422, unsupported),
        (with(session(), "/allowedPaymentMethods", json!(["ideal"])), card("Ann"), 422, unsupported),
        (session(), json!({ "type": "klarna" }), 422, unsupported),
        (session(), card("NOT_A_NAME"), 422, "This fake does not implement: the result that is asked for"),
        (session(), with(card("Ann"), "/cardNumber", json!("4")), 400, unknown),
        (session(), with(card("Ann"), "/encryptedCardNumber", json!("test_1")), 422, "Invalid card number"),
        (session(), json!({}), 422, "Required field 'paymentMethod.type' is not provided."),
        (session(), json!("ideal"), 422, "Required field 'paymentMethod.type' is not provided."),
        (session(), Value::Null, 422, "Required field 'paymentMethod' is not provided."),
    ] {
        let id = made(&fake, "/v71/sessions", &body).await;
        let before = fake.ledger().count();
        let refused = fake.pay(&id, &method).unwrap_err();
        assert_eq!((&refused["status"], text(&refused["message"])), (&json!(status), message), "{method}");
        assert!(!refused.to_string().contains('<'), "{refused}");
        assert_eq!(fake.ledger().count(), before);
        // The session is as before.
        let other = if body.get("allowedPaymentMethods").is_some() { ideal.clone() } else { card("Ann") };
        assert!(fake.pay(&id, &other).is_ok(), "{method}");
    }
    assert_eq!(fake.pay("CS0", &ideal).unwrap_err()["message"], "Field 'id' is not valid.");
}

#[tokio::test]
async fn a_link_is_paid_once_or_as_often_as_it_is_reusable() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).start().await;
    for reusable in [false, true] {
        let asked = json!({
            "reusable": reusable, "description": "A mug", "metadata": { "order": "42", "checkout.linkId": "mine" },
        });
        let mut body = link();
        body.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        let (status, told) = ask(&fake, "POST", "/v71/paymentLinks", &body).await;
        assert_eq!(status, 201, "{told}");
        let id = text(&told["id"]).to_owned();
        assert!(id.len() == 18 && id.starts_with("PL"), "{id}");
        let mut expected = with(body, "/metadata/checkout.linkId", json!(id));
        let begun = fake.ledger().effects().last().unwrap().at;
        for (name, value) in [
            ("id", json!(id)),
            ("status", json!("active")),
            ("url", json!(format!("https://test.adyen.link/{id}"))),
            ("expiresAt", told["expiresAt"].clone()),
        ] {
            expected[name] = value;
        }
        assert_eq!(told, expected);
        let own = format!("/v71/paymentLinks/{id}");
        assert_eq!(ok(&fake, "GET", &own, "").await, expected);

        let declined = fake.pay(&id, &card("DECLINED")).unwrap();
        assert_eq!(declined.get("sessionResult"), None);
        assert_eq!(ok(&fake, "GET", &own, "").await, expected, "a refused payment leaves it");
        clock.advance(Duration::from_secs(60));
        assert_eq!(fake.pay(&id, &card("Ann")).unwrap()["resultCode"], "Authorised");
        let paid = ok(&fake, "GET", &own, "").await;
        if reusable {
            assert_eq!(paid, expected);
            assert_eq!(fake.pay(&id, &card("PENDING")).unwrap()["resultCode"], "Received");
            assert_eq!(fake.pay(&id, &card("Bob")).unwrap()["resultCode"], "Authorised");
            assert_eq!(ok(&fake, "GET", &own, "").await, expected);
        } else {
            assert_eq!(begun, TestClock::START);
            expected["status"] = json!("completed");
            expected["updatedAt"] = json!("2026-01-01T00:01:00Z");
            assert_eq!(paid, expected);
            let again = fake.pay(&id, &card("Ann")).unwrap_err();
            assert_eq!(again["message"], "The session or the payment link is completed.");
            let (status, told) = ask(&fake, "PATCH", &own, r#"{"status":"expired"}"#).await;
            assert_eq!((status, &told["message"]), (422, &again["message"]));
        }
    }
    let pending = made(&fake, "/v71/paymentLinks", &link()).await;
    fake.pay(&pending, &card("PENDING")).unwrap();
    let told = ok(&fake, "GET", &format!("/v71/paymentLinks/{pending}"), "").await;
    assert_eq!(told["status"], "paymentPending");
    assert!(fake.pay(&pending, &card("Ann")).is_err());
}

#[tokio::test]
async fn a_link_ends_in_time_or_by_request() {
    let clock = TestClock::new();
    let fake = AdyenFake::builder().test_clock(&clock).start().await;
    let first = made(&fake, "/v71/paymentLinks", &link()).await;
    let second = made(&fake, "/v71/paymentLinks", &link()).await;
    let [own, other] = [&first, &second].map(|id| format!("/v71/paymentLinks/{id}"));
    let expire = r#"{"status":"expired"}"#;
    let before = ok(&fake, "GET", &own, "").await;
    let call = answers::client().patch(format!("{}{own}", fake.url())).header("X-API-Key", "AQE");
    let (status, told) = answers::told(call.header("idempotency-key", "k").body(expire)).await;
    let expected =
        with(with(before, "/status", json!("expired")), "/updatedAt", json!("2026-01-01T00:00:00Z"));
    assert_eq!((status, &told), (200, &expected));
    assert_eq!(ok(&fake, "GET", &own, "").await, expected);
    let closed = "The session or the payment link is expired.";
    assert_eq!(fake.pay(&first, &card("Ann")).unwrap_err()["message"], closed);
    // The route takes no key: the same again is another request.
    let (status, told) = ask(&fake, "PATCH", &own, expire).await;
    assert_eq!((status, text(&told["message"])), (422, closed));
    let ended = fake.ledger().effects().pop().unwrap();
    assert_eq!((ended.method.as_str(), ended.id.as_str(), ended.wire_key), ("PATCH", first.as_str(), None));
    assert_eq!((fake.ledger().count(), fake.ledger().requests_for("k")), (3, 0));

    // Requests that are lost on the way, and requests that are not carried out.
    fake.answer_next(AdyenAnswer::Configuration500);
    assert_eq!(ask(&fake, "PATCH", &other, expire).await.0, 500);
    fake.plan().next(Fault::Stored500);
    assert_eq!(ask(&fake, "PATCH", &other, expire).await.0, 500);
    assert_eq!(ok(&fake, "GET", &other, "").await["status"], "active");
    fake.plan().next(Fault::Error500After);
    assert_eq!(ask(&fake, "PATCH", &other, expire).await.0, 500);
    assert_eq!(ok(&fake, "GET", &other, "").await["status"], "expired");
    assert_eq!((fake.ledger().count(), fake.plan().pending()), (4, 0));

    let third = made(&fake, "/v71/paymentLinks", &link()).await;
    let own = format!("/v71/paymentLinks/{third}");
    clock.advance(24 * HOUR - Duration::from_secs(1));
    assert_eq!(ok(&fake, "GET", &own, "").await["status"], "active");
    clock.advance(Duration::from_secs(1));
    let told = ok(&fake, "GET", &own, "").await;
    assert_eq!((&told["status"], told.get("updatedAt")), (&json!("expired"), None));
    assert_eq!(fake.pay(&third, &card("Ann")).unwrap_err()["message"], closed);
    assert_eq!(ask(&fake, "PATCH", &own, expire).await.0, 422);
}

#[tokio::test]
async fn a_test_in_another_language_pays_at_the_page() {
    let fake = AdyenFake::start().await;
    let id = made(&fake, "/v71/sessions", &session()).await;
    let pay = json!({ "id": id, "paymentMethod": card("Ann") });
    let paid = ok(&fake, "POST", "/_fake/pay", &pay).await;
    assert_eq!(paid["resultCode"], "Authorised");
    assert_eq!(result(&fake, &id, &paid["sessionResult"]).await["status"], "completed");
    let (status, told) = ask(&fake, "POST", "/_fake/pay", &pay).await;
    assert_eq!((status, text(&told["message"])), (422, "The session or the payment link is completed."));
    for body in [json!({ "id": id }), json!({ "id": id, "paymentMethod": {}, "amount": 1 }), json!([])] {
        let (status, told) = ask(&fake, "POST", "/_fake/pay", &body).await;
        assert_eq!((status, told["problem"].is_string()), (400, true), "{body}: {told}");
    }
    assert_eq!(ask(&fake, "GET", "/_fake/pay", "").await.0, 405);
    assert_eq!(fake.ledger().count(), 2);
}
