//! The refusals of the fake of Adyen, its lists, and what Adyen's test names ask for.

use serde_json::{Value, json};
use steadfast_fakes::AdyenFake;
use steadfast_testkit::TestClock;

use crate::asks::{ask, ok};
use support::answers::{self, shows, with};
use support::receiver::Receiver;

fn payment() -> Value {
    json!({
        "merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
        "amount": { "value": 1000, "currency": "EUR" },
        "paymentMethod": {
            "type": "scheme", "encryptedCardNumber": "test_4111111111111111", "encryptedExpiryMonth": "test_03",
            "encryptedExpiryYear": "test_2030", "encryptedSecurityCode": "test_737", "holderName": "Ann",
        },
    })
}

/// The members that a payment must not have: where, the value, the status and the code.
fn bad_payments() -> Vec<(&'static str, Value, u16, &'static str)> {
    let long = "x".repeat(81);
    let pairs: Value =
        (0..21).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    vec![
        // Unknown members, at each depth; a test that misspells one must see it.
        ("/amount/cents", json!(1), 400, "702"),
        ("/paymentMethod/cardNumber", json!("4111111111111111"), 400, "702"),
        ("/billingAddress", json!({ "zip": "1" }), 400, "702"),
        ("/lineItems", json!([{ "sku": "1" }, { "price": 1 }]), 400, "702"),
        ("/threeDS2RequestData", json!({ "homePhone": { "number": "1" } }), 400, "702"),
        // Members of another kind.
        ("/reference", json!(5), 400, "702"),
        ("/merchantAccount", json!(["ShopECOM"]), 400, "702"),
        ("/captureDelayHours", json!("x"), 400, "702"),
        ("/captureDelayHours", json!(1.5), 400, "702"),
        ("/channel", json!("Fax"), 400, "702"),
        ("/amount", json!(1000), 400, "702"),
        ("/amount/value", json!("1000"), 422, "137"),
        ("/amount/currency", json!(978), 400, "702"),
        ("/paymentMethod/holderName", json!(1), 400, "702"),
        ("/lineItems", json!({ "sku": "1" }), 400, "702"),
        ("/lineItems", json!([{ "quantity": "2" }]), 400, "702"),
        ("/storePaymentMethod", json!("true"), 400, "702"),
        ("/metadata", json!({ "order": 42 }), 400, "702"),
        ("/additionalData", json!({ "allow3DS2": true }), 400, "702"),
        ("/browserInfo", json!({ "colorDepth": 4_294_967_296_u64 }), 422, "702"),
        // Incomplete within, too long, or too large.
        ("/amount", json!({ "currency": "EUR" }), 422, "137"),
        ("/amount", json!({ "value": 1000 }), 422, "138"),
        ("/shopperName", json!({ "firstName": "Ann" }), 422, "702"),
        ("/billingAddress", json!({ "city": "Paris", "country": "FR", "street": "Rue" }), 422, "702"),
        ("/reference", json!(long), 422, "702"),
        ("/shopperReference", json!("ab"), 422, "702"),
        ("/captureDelayHours", json!(673), 422, "702"),
        ("/captureDelayHours", json!(-1), 422, "702"),
        ("/metadata", json!({ "order": long }), 422, "177"),
        ("/metadata", pairs, 422, "177"),
        // Money that there is not.
        ("/amount/currency", json!("ZZZ"), 422, "138"),
        ("/amount/currency", json!("eur"), 422, "138"),
        ("/additionalAmount", json!({ "value": 1, "currency": "QQQ" }), 422, "138"),
        // Cards that the fake cannot know.
        ("/paymentMethod/encryptedCardNumber", json!("hello"), 422, "174"),
        ("/paymentMethod/encryptedCardNumber", json!("adyenjs_0_1_25$abc"), 422, "174"),
        ("/paymentMethod/encryptedCardNumber", json!("test_4111111111111112"), 422, "101"),
        ("/paymentMethod/encryptedCardNumber", json!("test_hello"), 422, "101"),
        ("/paymentMethod/encryptedCardNumber", json!("test_6011601160116611"), 422, "905"),
        ("/paymentMethod/encryptedSecurityCode", json!("737"), 422, "174"),
        ("/paymentMethod/encryptedCard", json!("a.b.c.d.e"), 422, "174"),
        ("/paymentMethod/storedPaymentMethodId", json!("8415"), 422, "800"),
        ("/paymentMethod/recurringDetailReference", json!("8415"), 422, "800"),
        ("/paymentMethod", json!({ "type": "ideal", "storedPaymentMethodId": "8415" }), 422, "800"),
        ("/paymentMethod/type", json!("giftcard"), 422, "905"),
        ("/storePaymentMethod", json!(true), 422, "905"),
        // The fake has no orders, so that no payment is a part of one.
        ("/order", order(), 422, "905"),
        // Splits that do not come to the amount.
        ("/splits", splits(&[300, 600], "EUR"), 422, "702"),
        ("/splits", splits(&[300, 800], "EUR"), 422, "702"),
        ("/splits", splits(&[1000], "USD"), 422, "702"),
        // Adyen's specification has "true".
        ("/additionalData", json!({ "manualCapture": "yes" }), 422, "905"),
        ("/additionalData", json!({ "manualCapture": true }), 400, "702"),
        // Results that Adyen's list has and the fake does not, or that are misspelt.
        ("/paymentMethod/holderName", json!("PARTIALLY_APPROVED"), 422, "905"),
        ("/paymentMethod/holderName", json!("NOT_ENOUGH_MONEY : 51"), 422, "905"),
    ]
}

fn order() -> Value {
    json!({ "orderData": "x", "pspReference": "y" })
}

/// These, and a fee of which Adyen knows the amount.
fn splits(amounts: &[i64], currency: &str) -> Value {
    let split =
        |value: &i64| json!({ "type": "Default", "amount": { "value": value, "currency": currency } });
    let fee = json!({ "type": "PaymentFee", "account": "BA1" });
    amounts.iter().map(split).chain([fee]).collect()
}

#[tokio::test]
async fn a_request_is_refused_for_what_is_wrong_at_any_depth() {
    let fake = AdyenFake::start().await;
    let psp =
        ok(&fake, "POST", "/v71/payments", &payment()).await["pspReference"].as_str().unwrap().to_owned();
    let mut cases: Vec<(String, Value, u16, &str)> = Vec::new();
    for (pointer, value, status, code) in bad_payments() {
        cases.push(("/v71/payments".to_owned(), with(payment(), pointer, value), status, code));
    }
    let change = json!({ "merchantAccount": "ShopECOM", "amount": { "value": 1, "currency": "EUR" } });
    for what in ["captures", "refunds", "amountUpdates"] {
        for (pointer, value, status, code) in [
            ("/amount/note", json!("x"), 400, "702"),
            ("/amount/currency", json!("ZZZ"), 422, "138"),
            ("/reference", json!(5), 400, "702"),
            ("/reference", json!("x".repeat(81)), 422, "702"),
            ("/splits", json!([{ "type": "Everything" }]), 400, "702"),
            ("/splits", splits(&[2], "EUR"), 422, "702"),
            ("/splits", json!([{ "amount": { "value": 1 } }]), 422, "702"),
        ] {
            let path = format!("/v71/payments/{psp}/{what}");
            cases.push((path, with(change.clone(), pointer, value), status, code));
        }
    }
    let cancel = json!({ "merchantAccount": "ShopECOM", "paymentReference": 42 });
    cases.push(("/v71/cancels".to_owned(), cancel, 400, "702"));
    for details in [json!("x"), json!({ "redirectResult": 1 }), json!({ "redirect": "x" })] {
        cases.push(("/v71/payments/details".to_owned(), json!({ "details": details }), 400, "702"));
    }
    for (path, body, status, code) in cases {
        let (told_status, told) = ask(&fake, "POST", &path, &body).await;
        assert_eq!((told_status, told["errorCode"].as_str()), (status, Some(code)), "{path} {body}: {told}");
        assert_eq!(told["status"], status, "its form is Adyen's");
        assert!(told["errorType"].is_string() && told["message"].is_string());
        assert!(!told.to_string().contains('<'), "{told}");
    }
    let (_, told) = ask(&fake, "POST", "/v71/payments", &with(payment(), "/order", order())).await;
    assert_eq!(told["message"], "This fake does not implement: order");
    let (_, told) =
        ask(&fake, "POST", "/v71/payments", &with(payment(), "/paymentMethod/cardNumber", json!("4"))).await;
    // As published in the issues of Adyen's own libraries.
    assert_eq!(
        told["message"],
        "Structure of CardDetails contains the following unknown fields: [cardNumber]"
    );
    assert_eq!(fake.ledger().count(), 1, "a refusal is no effect");
}

#[tokio::test]
async fn what_adyens_specification_has_is_taken() {
    let fake = AdyenFake::start().await;
    let whole = json!({
        "channel": "Web", "captureDelayHours": 672, "countryCode": "NL", "storePaymentMethod": false, "store": null,
        "metadata": { "order": "42" }, "additionalData": { "allow3DS2": "true" },
        "billingAddress": {
            "city": "Paris", "country": "FR", "houseNumberOrName": "1", "postalCode": "75001", "street": "Rue",
        },
        "lineItems": [{ "quantity": 1, "amountIncludingTax": 1000, "description": "Mug" }],
        "splits": [{ "type": "BalanceAccount", "amount": { "value": 1000 }, "account": "BA1" }],
        "threeDS2RequestData": { "homePhone": { "cc": "31", "subscriber": "1" } },
    });
    let mut body = payment();
    body.as_object_mut().unwrap().extend(whole.as_object().unwrap().clone());
    assert_eq!(ok(&fake, "POST", "/v71/payments", &body).await["resultCode"], "Authorised");
    for number in ["5555555555554444", "2222400070000005", "4111111111111111"] {
        let card = json!({ "type": "scheme", "number": number, "cvc": "737" });
        let paid = with(payment(), "/paymentMethod", card);
        assert_eq!(ok(&fake, "POST", "/v71/payments", &paid).await["resultCode"], "Authorised", "{number}");
    }
    let amex = json!({ "type": "scheme", "number": "370000000000002", "cvc": "7373", "expiryMonth": "03" });
    let paid = with(payment(), "/paymentMethod", amex);
    assert_eq!(ok(&fake, "POST", "/v71/payments", &paid).await["resultCode"], "Authorised");
    // "If you specify an incorrect CVC or an invalid expiry date, the payment fails", as declined.
    for (name, value) in [("encryptedSecurityCode", "test_7373"), ("encryptedExpiryYear", "test_2020")] {
        let paid = with(payment(), &format!("/paymentMethod/{name}"), json!(value));
        let paid = ok(&fake, "POST", "/v71/payments", &paid).await;
        shows(&paid, &json!({ "resultCode": "Refused", "refusalReasonCode": "2" }));
    }
}

/// It is not documented whether Adyen keeps what fails validation under its key.
#[tokio::test]
async fn a_request_that_fails_validation_leaves_its_key_free_only_where_the_fake_is_told_so() {
    for forgets in [false, true] {
        let builder = AdyenFake::builder();
        let fake = if forgets { builder.forget_invalid_requests() } else { builder }.start().await;
        let send = async |body: &Value| {
            let call = answers::client().post(format!("{}/v71/payments", fake.url()));
            let call = call.header("X-API-Key", "AQE").header("idempotency-key", "k").body(body.to_string());
            call.send().await.unwrap().status().as_u16()
        };
        assert_eq!(send(&with(payment(), "/amount/currency", json!("ZZZ"))).await, 422);
        assert_eq!(send(&payment()).await, if forgets { 200 } else { 422 });
        assert_eq!(fake.ledger().count(), usize::from(forgets));
        // The answer of a payment is kept in either case, and so is that of what was processed before.
        if forgets {
            assert_eq!(send(&with(payment(), "/amount/currency", json!("ZZZ"))).await, 200);
        }
    }
}

/// A webhook of the Management API, of a merchant account.
fn hook(name: &str, value: Value) -> Value {
    let mut hook = json!({
        "type": "standard", "url": "http://127.0.0.1:1/", "active": true, "communicationFormat": "json",
    });
    hook[name] = value;
    hook
}

#[tokio::test]
async fn the_management_api_refuses_what_its_specification_does_not_have() {
    let fake = AdyenFake::start().await;
    let merchant = "/v3/merchants/ShopECOM/webhooks".to_owned();
    let company = "/v3/companies/Shop/webhooks".to_owned();
    let made = ok(&fake, "POST", &merchant, &hook("username", json!("me"))).await;
    let own = format!("{merchant}/{}", made["id"].as_str().unwrap());
    let mut cases: Vec<(&str, String, String, u16)> = Vec::new();
    for (name, value) in [
        ("type", Value::Null),
        ("type", json!("report-notification")),
        ("url", json!("no url")),
        ("url", json!(7)),
        ("active", json!("true")),
        ("active", Value::Null),
        ("communicationFormat", json!("soap")),
        ("communicationFormat", json!("xml")),
        ("username", json!("x".repeat(256))),
        ("additionalSettings", json!({ "includeEventCodes": ["CAPTURE"] })),
        ("networkType", json!("public")),
        ("secret", json!("s")),
        ("filterMerchantAccountType", json!("allAccounts")),
    ] {
        cases.push(("POST", merchant.clone(), hook(name, value).to_string(), 422));
    }
    // Which merchant accounts a company's webhook is for is required.
    for (kind, accounts) in [
        (Value::Null, Value::Null),
        (json!("someAccounts"), Value::Null),
        (json!("includeAccounts"), Value::Null),
        (json!("excludeAccounts"), json!([])),
        (json!("includeAccounts"), json!("ShopECOM")),
    ] {
        let hook = with(hook("filterMerchantAccountType", kind), "/filterMerchantAccounts", accounts);
        cases.push(("POST", company.clone(), hook.to_string(), 422));
    }
    for body in
        [json!({ "id": "S2-1" }), json!({ "type": "standard" }), json!({ "active": 1 }), json!({ "url": "" })]
    {
        cases.push(("PATCH", own.clone(), body.to_string(), 422));
    }
    for body in ["", "{", "[]", "active=false"] {
        cases.push(("PATCH", own.clone(), body.to_owned(), 400));
        cases.push(("POST", merchant.clone(), body.to_owned(), 400));
    }
    for query in ["pageNumber=0", "pageNumber=2", "pageNumber=x", "pageSize=0", "pageSize=101", "page=1"] {
        cases.push(("GET", format!("{merchant}?{query}"), String::new(), 422));
    }
    cases.push(("GET", format!("{own}?expand=true"), String::new(), 422));
    for path in
        ["/v3/merchants/ShopECOM", "/v3/merchants/Other/webhooks/S2-000000000001", "/v1/companies/Shop/users"]
    {
        cases.push(("GET", path.to_owned(), String::new(), 404));
    }
    for (method, path, body, status) in cases {
        let (told_status, told) = ask(&fake, method, &path, &body).await;
        assert_eq!(told_status, status, "{method} {path} {body}: {told}");
        // `RestServiceError` of the specification, with what that requires.
        assert_eq!(told["status"], status);
        assert!(["type", "errorCode", "title", "detail"].iter().all(|name| told[name].is_string()), "{told}");
        for field in told["invalidFields"].as_array().unwrap() {
            assert!(["name", "value", "message"].iter().all(|name| field[name].is_string()), "{told}");
        }
    }
    assert_eq!(ok(&fake, "GET", &own, "").await, made, "a change that is refused changes nothing");
    let anonymous = reqwest::get(format!("{}{merchant}", fake.url())).await.unwrap();
    assert_eq!(anonymous.status(), 401);
    let changed =
        ok(&fake, "PATCH", &own, &json!({ "description": "d", "password": "p", "username": "you" })).await;
    let told = ["description", "hasPassword", "username"].map(|name| changed[name].clone());
    assert_eq!(told, [json!("d"), json!(true), json!("you")]);
}

#[tokio::test]
async fn its_list_is_given_page_by_page_with_the_links_of_the_specification() {
    let fake = AdyenFake::start().await;
    let list = "/v3/merchants/ShopECOM/webhooks";
    let empty = ok(&fake, "GET", list, "").await;
    shows(&empty, &json!({ "itemsTotal": 0, "data": [] }));
    for number in 0..12 {
        ok(&fake, "POST", list, &hook("description", json!(number.to_string()))).await;
        // Another account's are not in it.
        ok(&fake, "POST", "/v3/merchants/Other/webhooks", &hook("description", json!("other"))).await;
    }
    let at = |page: usize, size: usize| json!({ "href": format!("{}{list}?pageNumber={page}&pageSize={size}", fake.url()) });
    for (query, size, page, pages, shown) in [
        ("", 10, 1, 2, 0..10),
        ("?pageNumber=2", 10, 2, 2, 10..12),
        ("?pageSize=5", 5, 1, 3, 0..5),
        ("?pageNumber=2&pageSize=5", 5, 2, 3, 5..10),
        ("?pageNumber=3&pageSize=5", 5, 3, 3, 10..12),
        ("?pageSize=100", 100, 1, 1, 0..12),
    ] {
        let told = ok(&fake, "GET", &format!("{list}{query}"), "").await;
        let seen: Vec<&str> =
            told["data"].as_array().unwrap().iter().map(|one| one["description"].as_str().unwrap()).collect();
        assert_eq!(seen, shown.map(|number: usize| number.to_string()).collect::<Vec<_>>(), "{query}");
        assert_eq!((&told["itemsTotal"], &told["pagesTotal"]), (&json!(12), &json!(pages)), "{query}");
        let mut links = json!({ "self": at(page, size), "first": at(1, size), "last": at(pages, size) });
        if page < pages {
            links["next"] = at(page + 1, size);
        }
        if page > 1 {
            links["prev"] = at(page - 1, size);
        }
        assert_eq!(told["_links"], links, "{query}");
    }
}

/// The events that the fake tells, by the merchant account of each of its receivers: event, amount and success, oldest
/// first.
async fn told(fake: &AdyenFake) -> Vec<String> {
    let page = ok(fake, "GET", "/_fake/webhooks", "").await;
    let line = |one: &Value| {
        let url = one["url"].as_str().unwrap();
        format!("{} {}", url.rsplit('/').next().unwrap(), one["type"].as_str().unwrap())
    };
    page["deliveries"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_companys_webhook_is_for_the_merchant_accounts_of_its_filter() {
    let fake = AdyenFake::start().await;
    ok(&fake, "POST", "/_fake/webhooks", &json!({ "hold": true })).await;
    let company = "/v3/companies/Shop/webhooks";
    for (name, kind, accounts) in [
        ("all", "allAccounts", json!([])),
        ("in", "includeAccounts", json!(["ShopECOM", "Third"])),
        ("out", "excludeAccounts", json!(["ShopECOM"])),
    ] {
        let hook = with(
            hook("url", json!(format!("http://127.0.0.1:1/{name}"))),
            "/filterMerchantAccountType",
            json!(kind),
        );
        ok(&fake, "POST", company, &with(hook, "/filterMerchantAccounts", accounts)).await;
    }
    ok(&fake, "POST", "/v71/payments", &payment()).await;
    ok(&fake, "POST", "/v71/payments", &with(payment(), "/merchantAccount", json!("Other"))).await;
    let expected = ["all AUTHORISATION", "in AUTHORISATION", "all AUTHORISATION", "out AUTHORISATION"];
    assert_eq!(told(&fake).await, expected);
}

#[tokio::test]
async fn two_webhooks_at_one_url_are_told_of_an_event_once_each() {
    let fake = AdyenFake::start().await;
    let (receiver, url) = Receiver::listen().await;
    let own = hook("url", json!(url));
    ok(&fake, "POST", "/v3/merchants/ShopECOM/webhooks", &own).await;
    let all = with(own, "/filterMerchantAccountType", json!("allAccounts"));
    ok(&fake, "POST", "/v3/companies/Shop/webhooks", &all).await;
    ok(&fake, "POST", "/_fake/webhooks", &json!({ "hold": true })).await;
    let paid = ok(&fake, "POST", "/v71/payments", &payment()).await;
    let id = json!(format!("{}-AUTHORISATION", paid["pspReference"].as_str().unwrap()));
    let once = json!([200]);
    for sent in [2, 0] {
        let page = ok(&fake, "POST", "/_fake/webhooks", &json!({})).await;
        let deliveries = page["deliveries"].as_array().unwrap();
        let answered: Vec<(&Value, &Value)> =
            deliveries.iter().map(|one| (&one["id"], &one["answers"])).collect();
        assert_eq!((answered, receiver.bodies().len()), (vec![(&id, &once); 2], sent));
    }
}

#[tokio::test]
async fn a_change_that_the_card_scheme_does_not_carry_out_is_taken_and_told_of_twice() {
    let clock = TestClock::new();
    for (holder, events) in [
        ("Ann", &["CAPTURE true", "CAPTURE false", "REFUND true", "REFUND false"][..]),
        (
            "capture failed",
            &[
                "CAPTURE true",
                "CAPTURE_FAILED true Capture Failed",
                "CAPTURE true",
                "CAPTURE_FAILED true Capture Failed",
                "REFUND false",
                "REFUND false",
            ],
        ),
        (
            "refund failed",
            &[
                "CAPTURE true",
                "CAPTURE false",
                "REFUND true",
                "REFUND_FAILED true Refund Failed",
                "REFUND true",
                "REFUND_FAILED true Refund Failed",
            ],
        ),
    ] {
        let fake = AdyenFake::builder().test_clock(&clock).manual_capture().start().await;
        let (receiver, url) = Receiver::listen().await;
        ok(&fake, "POST", "/v3/merchants/ShopECOM/webhooks", &hook("url", json!(url))).await;
        ok(&fake, "POST", "/_fake/webhooks", &json!({ "hold": true })).await;
        let paid =
            ok(&fake, "POST", "/v71/payments", &with(payment(), "/paymentMethod/holderName", json!(holder)))
                .await;
        assert_eq!(paid["resultCode"], "Authorised");
        let psp = paid["pspReference"].as_str().unwrap();
        let change = json!({ "merchantAccount": "ShopECOM", "amount": { "value": 1000, "currency": "EUR" } });
        for what in ["captures", "captures", "refunds", "refunds"] {
            let taken = ok(&fake, "POST", &format!("/v71/payments/{psp}/{what}"), &change).await;
            assert_eq!(taken["status"], "received");
        }
        ok(&fake, "POST", "/_fake/webhooks", &json!({})).await;
        let item = |body: &Value| body["notificationItems"][0]["NotificationRequestItem"].clone();
        let items: Vec<Value> = receiver.bodies().iter().skip(1).map(item).collect();
        let line = |item: &Value| {
            let [event, success, reason] =
                ["eventCode", "success", "reason"].map(|name| item[name].as_str().unwrap());
            let reason = if event.ends_with("_FAILED") { reason } else { "" };
            format!("{event} {success} {reason}").trim_end().to_owned()
        };
        assert_eq!(items.iter().map(line).collect::<Vec<_>>(), events, "{holder}");
        for pair in
            items.windows(2).filter(|pair| pair[1]["eventCode"].as_str().unwrap().ends_with("_FAILED"))
        {
            assert_eq!(pair[0]["pspReference"], pair[1]["pspReference"], "of the change that failed");
            assert_eq!(pair[1]["originalReference"], psp);
        }
    }
}

#[tokio::test]
async fn an_automatic_capture_that_the_card_scheme_does_not_carry_out_is_told_of() {
    for (holder, events) in [
        ("Ann", &["AUTHORISATION true", "REFUND true"][..]),
        (
            "capture failed",
            &[
                "AUTHORISATION true",
                "CAPTURE_FAILED true",
                "REFUND false",
                "CAPTURE true",
                "CAPTURE_FAILED true",
            ],
        ),
        ("refund failed", &["AUTHORISATION true", "REFUND true", "REFUND_FAILED true"]),
    ] {
        let fake = AdyenFake::builder().test_clock(&TestClock::new()).start().await;
        let (receiver, url) = Receiver::listen().await;
        ok(&fake, "POST", "/v3/merchants/ShopECOM/webhooks", &hook("url", json!(url))).await;
        ok(&fake, "POST", "/_fake/webhooks", &json!({ "hold": true })).await;
        let paid = with(payment(), "/paymentMethod/holderName", json!(holder));
        let paid = ok(&fake, "POST", "/v71/payments", &paid).await;
        let psp = paid["pspReference"].as_str().unwrap();
        let change = json!({ "merchantAccount": "ShopECOM", "amount": { "value": 1000, "currency": "EUR" } });
        let then: &[&str] = if holder == "capture failed" { &["refunds", "captures"] } else { &["refunds"] };
        for what in then {
            ok(&fake, "POST", &format!("/v71/payments/{psp}/{what}"), &change).await;
        }
        ok(&fake, "POST", "/_fake/webhooks", &json!({})).await;
        let item = |body: &Value| body["notificationItems"][0]["NotificationRequestItem"].clone();
        let items: Vec<Value> = receiver.bodies().iter().map(item).collect();
        let line = |item: &Value| {
            let [event, success] = ["eventCode", "success"].map(|name| item[name].as_str().unwrap());
            format!("{event} {success}")
        };
        assert_eq!(items.iter().map(line).collect::<Vec<_>>(), events, "{holder}");
        for failed in items.iter().filter(|item| item["eventCode"] == "CAPTURE_FAILED") {
            shows(failed, &json!({ "originalReference": psp, "reason": "Capture Failed" }));
            assert_ne!(failed["pspReference"], psp);
        }
    }
}
