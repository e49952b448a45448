use bytes::Bytes;
use serde_json::json;

use steadfast_core::Effect;
use steadfast_core::clock::Timestamp;
use steadfast_core::transport::{SendError, SendErrorKind};

use super::*;
use crate::vendor::rig::{self, answer, wire_key};

fn store() -> BigCommerce {
    BigCommerce::new("abc123", "token-secret")
}

const ROOT: &str = "https://api.bigcommerce.com/stores/abc123";

fn request(path: &str, body: &str) -> Request {
    let mut request = Request::new(Method::POST, Url::parse(&format!("{ROOT}{path}")).expect("a url"));
    request.body = Bytes::from(body.to_owned());
    request
}

fn stamped(path: &str, body: &Value) -> (Request, String) {
    let mut request = request(path, &body.to_string());
    let key = store().stamp(wire_key(), &mut request).expect("stamped");
    (request, key)
}

fn json_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).expect("json")
}

fn judge(path: &str, answer: &Answer, before: Effect) -> Verdict {
    let request = request(path, "{}");
    store().classify(&Attempt::new(&request, true, Ok(answer), Timestamp::default()).after(before))
}

const PRODUCTS: &str = "/v3/catalog/products";

const fn retry(effect: Effect) -> Verdict {
    Verdict::Retry { effect, not_before: None }
}

/// BigCommerce never replays: a refusal speaks for the attempt that it answers.
const fn no(refusal: Refusal) -> Verdict {
    Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt }
}

#[test]
fn every_fixture_gets_its_verdict() {
    let done = Verdict::Done { replayed: false };
    let rejected = no(Refusal::Rejected);
    let duplicate = no(Refusal::Duplicate);
    let wait = Verdict::Retry { effect: Effect::None, not_before: Some(Duration::from_secs(15)) };
    for (path, name, expected) in [
        (PRODUCTS, "rate_limited", wait),
        (PRODUCTS, "rate_limited_platform", retry(Effect::None)),
        (PRODUCTS, "rate_limited_as_500", retry(Effect::Unknown)),
        (PRODUCTS, "v3_validation", rejected),
        ("/v3/customers", "v3_validation", rejected),
        (PRODUCTS, "v3_json_invalid", rejected),
        (PRODUCTS, "product_duplicate", duplicate),
        ("/v3/catalog/brands", "product_duplicate", duplicate),
        ("/v3/orders/1/payment_actions/refunds", "product_duplicate", rejected),
        ("/v3/customers", "customer_duplicate", duplicate),
        ("/v3/customers", "payload_too_large", rejected),
        (PRODUCTS, "unavailable", retry(Effect::Unknown)),
        (PRODUCTS, "gateway_timeout", retry(Effect::Unknown)),
        ("/v2/orders", "v2_error", rejected),
        ("/v2/orders", "v2_error_details", rejected),
        ("/v3/orders/1/payment_actions/refunds", "refund_422", rejected),
        ("/v3/orders/1/payment_actions/refunds", "refund_503", retry(Effect::Unknown)),
        ("/payments", "payment_ok", done),
        ("/payments", "payment_duplicate", Verdict::Unknown),
        ("/payments", "payment_unavailable", Verdict::Unknown),
        (PRODUCTS, "multi_status", done),
    ] {
        assert_eq!(judge(path, &rig::fixture("bigcommerce", name), Effect::None), expected, "{path} {name}");
    }
}

#[test]
fn a_duplicate_among_many_customers_has_no_bearing_on_the_others() {
    let answer = rig::fixture("bigcommerce", "customer_duplicate");
    for (emails, expected) in
        [(&["a@x.y"][..], no(Refusal::Duplicate)), (&["a@x.y", "b@x.y"], Verdict::Unknown)]
    {
        let sent: Vec<Value> = emails.iter().map(|email| json!({ "email": email })).collect();
        let (request, _) = stamped("/v3/customers", &json!(sent));
        let attempt = Attempt::new(&request, true, Ok(&answer), Timestamp::default());
        assert_eq!(store().classify(&attempt), expected, "{emails:?}");
    }
}

#[test]
fn a_408_or_504_is_not_retried_blindly_whatever_its_body() {
    for body in ["<html>", "", "{}"] {
        for status in [408, 504] {
            let judged = judge("/v2/orders", &answer(status, &[], body), Effect::None);
            assert_eq!(judged, retry(Effect::Unknown), "{status} {body}");
        }
    }
    let (request, _) = stamped("/v2/orders", &json!({}));
    assert_eq!(store().replay_window(&request), None, "no resend without a lookup");
}

#[test]
fn a_500_that_stands_in_for_a_429_waits_and_stays_unknown() {
    let spent = [("x-rate-limit-requests-left", "0"), ("x-rate-limit-time-reset-ms", "2500")];
    let expected = Verdict::Retry { effect: Effect::Unknown, not_before: Some(Duration::from_millis(2500)) };
    assert_eq!(judge(PRODUCTS, &answer(500, &spent, ""), Effect::None), expected);
}

#[test]
fn a_500_with_quota_left_does_not_hold_back_all_calls_until_the_window_ends() {
    let left = [("x-rate-limit-requests-left", "35"), ("x-rate-limit-time-reset-ms", "15000")];
    assert_eq!(judge(PRODUCTS, &answer(500, &left, ""), Effect::None), retry(Effect::Unknown));
    let asked = [("x-rate-limit-requests-left", "35"), ("x-retry-after", "3")];
    let expected = Verdict::Retry { effect: Effect::Unknown, not_before: Some(Duration::from_secs(3)) };
    assert_eq!(judge(PRODUCTS, &answer(500, &asked, ""), Effect::None), expected);
}

#[test]
fn a_4xx_that_is_not_bigcommerces_own_leaves_the_effect_unknown() {
    for status in [400, 401, 403, 404, 405, 409, 413, 421, 422, 431] {
        for body in ["<html></html>", "", "{}", "[]", r#"{"message":"no route"}"#, r#"{"title":"Oops"}"#] {
            let foreign = answer(status, &[("x-request-id", "1")], body);
            assert_eq!(judge(PRODUCTS, &foreign, Effect::None), retry(Effect::Unknown), "{status} {body}");
        }
        let quota = [("x-rate-limit-time-window-ms", "30000")];
        let own = judge("/v2/orders", &answer(status, &quota, ""), Effect::None);
        assert!(matches!(own, Verdict::Refused { .. }), "{status}: nobody else has a quota to tell of");
        let page = answer(status, &quota, "<html></html>");
        assert_eq!(judge(PRODUCTS, &page, Effect::None), retry(Effect::Unknown), "{status}");
    }
}

#[test]
fn a_text_with_status_200_is_no_success_and_nothing_is_one_where_nothing_is_made() {
    let quota = [("x-rate-limit-time-window-ms", "30000")];
    let done = Verdict::Done { replayed: false };
    for (path, body, with_quota) in [
        ("/v2/orders", "", retry(Effect::Unknown)),
        ("/v2/orders", "OK", retry(Effect::Unknown)),
        ("/v2/orders", r#"{"status":"ok"}"#, retry(Effect::Unknown)),
        ("/v2/orders", "[]", retry(Effect::Unknown)),
        ("/v2/orders", r#"{"id":7}"#, done),
        ("/v3/orders/7/payment_actions/capture", "", done),
        ("/v3/orders/7/payment_actions/capture", "OK", retry(Effect::Unknown)),
        ("/v3/inventory/adjustments/relative", r#"{"transaction_id":"x"}"#, done),
    ] {
        assert_eq!(judge(path, &answer(200, &quota, body), Effect::None), with_quota, "{path} {body}");
        if !body.contains("id\":7") {
            assert_eq!(
                judge(path, &answer(200, &[], body), Effect::None),
                retry(Effect::Unknown),
                "{path} {body}"
            );
        }
    }
}

#[test]
fn a_batch_is_answered_item_by_item() {
    let sent = json!([
        {"id": 1, "notes": "a"},
        {"id": 2, "notes": "b"},
        {"email": "ann@x.test", "first_name": "Ann"},
        {"email": "bob@x.test", "first_name": "Bob"},
        {"email": "bob@x.test", "first_name": "Bob"},
    ]);
    let of = |status: u16, body: Value| {
        BigCommerce::unconfirmed_items(&sent, &answer(status, &[], &body.to_string()))
    };
    let ann = json!({"id": 9, "email": "ann@x.test", "first_name": "Ann"});
    let bob = json!({"id": 8, "email": "bob@x.test", "first_name": "Bob"});
    let other_ann = json!({"id": 9, "email": "ann@x.test", "first_name": "Anna"});
    let errors = json!([{"status": 422, "title": "no"}]);
    let two = json!([{"id": 2}, ann]);
    assert_eq!(of(207, json!({"data": two, "errors": errors})), [0, 3, 4]);
    assert_eq!(of(207, json!({"data": [other_ann, bob], "errors": errors})), [0, 1, 2, 4]);
    // One row is of one item, and one that shows nothing of an item is of none.
    assert_eq!(of(207, json!({"data": [bob, {"id": 77}]})), [0, 1, 2, 4]);
    assert_eq!(of(200, json!({"data": [ann, bob, bob, {"id": 1}, {"id": 3}]})), [1usize; 1]);
    assert_eq!(of(207, json!({"errors": errors})), [0, 1, 2, 3, 4]);
    assert_eq!(of(422, json!({"status": 422})), [0usize; 0]);
    assert_eq!(BigCommerce::unconfirmed_items(&json!({}), &answer(207, &[], "{}")), [0usize; 0]);
}

#[test]
fn a_batch_that_changes_or_removes_is_sent_again_and_one_that_creates_is_found_whole_or_not_at_all() {
    let bodies = json!([{"email": "ann@x.test"}, {"email": "bob@x.test"}]).to_string();
    for (method, route) in [
        (Method::PUT, "/v3/customers"),
        (Method::PUT, "/v3/catalog/products"),
        (Method::DELETE, "/v3/customers?id:in=1,2"),
        (Method::DELETE, "/v2/coupons?id=1"),
    ] {
        let mut request = request(route, &bodies);
        request.method = method.clone();
        let before = request.clone();
        let key = store().stamp(wire_key(), &mut request).expect(route);
        assert_eq!(request, before, "{method} {route}: nothing is stamped");
        let subject = Subject::new(&request, &key, Timestamp::from_millis(0));
        assert_eq!(store().lookup(&subject), None, "{method} {route}");
        let lost = SendError::new(SendErrorKind::Reset);
        let attempt = Attempt::new(&request, false, Err(&lost), Timestamp::from_millis(0));
        assert!(matches!(store().classify(&attempt), Verdict::Retry { .. }), "{method} {route}");
        let gone = answer(404, &[], r#"{"status":404,"title":"not found"}"#);
        let attempt =
            Attempt::new(&request, false, Ok(&gone), Timestamp::from_millis(0)).after(Effect::Unknown);
        let is_done = matches!(store().classify(&attempt), Verdict::Done { .. });
        assert_eq!(is_done, method == Method::DELETE, "{method} {route}");
        let first = Attempt::new(&request, false, Ok(&gone), Timestamp::from_millis(0));
        let is_done = matches!(store().classify(&first), Verdict::Done { .. });
        assert!(!is_done, "{method} {route}: no earlier attempt may have removed it");
        // A proxy without a route says 404 too.
        let page = answer(404, &[], "<html>no route</html>");
        let attempt =
            Attempt::new(&request, false, Ok(&page), Timestamp::from_millis(0)).after(Effect::Unknown);
        assert!(!matches!(store().classify(&attempt), Verdict::Done { .. }), "{method} {route}");
        // Partly done is done: what succeeded must not be sent again.
        let part = answer(207, &[], r#"{"data":[{"id":1}],"errors":[{"status":422}]}"#);
        let attempt = Attempt::new(&request, false, Ok(&part), Timestamp::from_millis(0));
        assert!(matches!(store().classify(&attempt), Verdict::Done { .. }), "{method} {route}");
    }
    // An array where one product is expected has no field to be found by.
    let mut products = request("/v3/catalog/products", &bodies);
    let key = store().stamp(wire_key(), &mut products).expect("nothing to stamp");
    let subject = Subject::new(&products, &key, Timestamp::from_millis(0));
    assert_eq!(store().lookup(&subject), None);
}

#[test]
fn a_partial_success_is_done_and_names_its_failed_items() {
    let errors = BigCommerce::partial_errors(&rig::fixture("bigcommerce", "multi_status"));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["status"], 422);
    assert_eq!(BigCommerce::partial_errors(&rig::fixture("bigcommerce", "payment_ok")), Vec::<Value>::new());
    assert_eq!(BigCommerce::partial_errors(&answer(207, &[], "<html>")), Vec::<Value>::new());
    assert_eq!(
        BigCommerce::partial_errors(&answer(207, &[], r#"{"errors":{"a":"b"}}"#)),
        [json!({ "a": "b" })]
    );
}

#[test]
fn no_idempotency_key_is_sent_because_it_would_do_nothing() {
    for path in ["/v2/orders", PRODUCTS, "/v3/carts"] {
        let (mut request, _) = stamped(path, &json!({}));
        store().authorize(&mut request);
        assert!(!request.headers.contains_key("idempotency-key"));
        assert_eq!(request.headers["x-auth-token"], "token-secret");
        assert_eq!(request.headers["accept"], "application/json");
    }
}

#[test]
fn an_order_is_stamped_unless_the_caller_chose_its_id() {
    let key = wire_key().to_string();
    for body in [json!({ "a": 1 }), json!({ "external_order_id": null }), json!({ "external_order_id": "" })]
    {
        let (request, stamped) = stamped("/v2/orders", &body);
        assert_eq!((json_of(&request)["external_order_id"].as_str(), &stamped), (Some(key.as_str()), &key));
    }
    let (request, theirs) = stamped("/v2/orders", &json!({ "external_order_id": "order-7" }));
    assert_eq!((json_of(&request), theirs.as_str()), (json!({ "external_order_id": "order-7" }), "order-7"));
    let mut number = request.clone();
    number.body = r#"{"external_order_id":7}"#.into();
    assert_eq!(store().stamp(wire_key(), &mut number).expect_err("a number").code(), "VALIDATION.body");
    let mut broken = request;
    broken.body = "<order/>".into();
    assert_eq!(store().stamp(wire_key(), &mut broken).expect_err("not json").code(), "VALIDATION.body");
}

const REFUNDS: &str = "/v3/orders/7/payment_actions/refunds";

fn refund_of(reasons: &[&str]) -> Value {
    let items: Vec<Value> = reasons.iter().map(|reason| json!({ "item_id": 1, "reason": reason })).collect();
    json!({ "items": items })
}

#[test]
fn the_reason_of_each_item_of_a_refund_carries_the_key_within_its_thousand_characters() {
    let key = wire_key().to_string();
    assert_eq!(
        json_of(&stamped(REFUNDS, &json!({ "items": [{ "item_id": 1 }] })).0)["items"][0]["reason"],
        key
    );
    let two = json_of(&stamped(REFUNDS, &refund_of(&["torn", ""])).0);
    assert_eq!(two["items"], refund_of(&[&format!("torn [{key}]"), &key])["items"]);
    assert_eq!(two.get("reason"), None);
    let longest = 1000 - key.len() - 3;
    let (fits, _) = stamped(REFUNDS, &refund_of(&[&"é".repeat(longest)]));
    assert_eq!(json_of(&fits)["items"][0]["reason"].as_str().expect("text").chars().count(), 1000);
    let mut over = request(REFUNDS, &refund_of(&[&"é".repeat(longest + 1)]).to_string());
    assert_eq!(store().stamp(wire_key(), &mut over).expect_err("no room").code(), "VALIDATION.body");
    let mut broken = request(REFUNDS, r#"{"items":{}}"#);
    assert_eq!(store().stamp(wire_key(), &mut broken).expect_err("no list").code(), "VALIDATION.body");
    for without in [json!({}), json!({ "items": [] }), json!({ "items": null, "reason": "torn" })] {
        let (request, key) = stamped(REFUNDS, &without);
        assert_eq!(json_of(&request), without, "no place for the key");
        assert!(store().lookup(&Subject::new(&request, &key, Timestamp::default())).is_none());
    }
}

#[test]
fn every_row_of_the_table_looks_where_it_says() {
    let key = wire_key().to_string();
    let order = "/v3/orders/7/payment_actions/refunds";
    for (path, body, expected) in [
        ("/v2/orders", json!({}), Some(format!("/v2/orders?external_order_id={key}"))),
        (
            "/v2/orders",
            json!({ "external_order_id": "a b" }),
            Some("/v2/orders?external_order_id=a+b".into()),
        ),
        ("/v3/checkouts/c-1/orders", json!({}), Some("/v2/orders?cart_id=c-1".into())),
        (PRODUCTS, json!({ "sku": "S1", "name": "Mug" }), Some("/v3/catalog/products?sku=S1".into())),
        (PRODUCTS, json!({ "sku": "", "name": "Mug" }), Some("/v3/catalog/products?name=Mug".into())),
        (PRODUCTS, json!({}), None),
        ("/v3/catalog/brands", json!({ "name": "B" }), Some("/v3/catalog/brands?name=B".into())),
        ("/v3/catalog/categories", json!({ "name": "C" }), Some("/v3/catalog/categories?name=C".into())),
        (
            "/v3/customers",
            json!([{ "email": "a@x.y" }, { "email": "b@x.y" }]),
            Some("/v3/customers?email%3Ain=a%40x.y%2Cb%40x.y".into()),
        ),
        ("/v3/customers", json!([]), None),
        ("/v3/pricelists", json!({ "name": "P" }), Some("/v3/pricelists?name=P".into())),
        ("/v2/coupons", json!({ "name": "x", "code": "SAVE" }), Some("/v2/coupons?code=SAVE".into())),
        (order, json!({ "items": [{ "item_id": 1 }] }), Some(order.into())),
        ("/payments", json!({}), None),
        ("/v3/orders/7/payment_actions/capture", json!({}), None),
        ("/v3/carts", json!({}), None),
        ("/v2/orders/7/shipments", json!({}), None),
        ("/v3/inventory/adjustments/relative", json!({}), None),
    ] {
        let (request, key) = stamped(path, &body);
        let asked = store().lookup(&Subject::new(&request, &key, Timestamp::default()));
        assert_eq!(
            asked.map(|asked| asked.url.to_string()),
            expected.map(|rest| format!("{ROOT}{rest}")),
            "{path}"
        );
    }
}

#[test]
fn only_a_post_is_stamped_or_looked_up() {
    for method in [Method::PUT, Method::DELETE, Method::GET] {
        let mut request = request("/v2/orders", "{}");
        request.method = method;
        let key = store().stamp(wire_key(), &mut request).expect("stamped");
        assert_eq!(request.body, "{}");
        assert!(store().lookup(&Subject::new(&request, &key, Timestamp::default())).is_none());
    }
}

fn read(path: &str, sent: &Value, answer: &Answer) -> Finding {
    let (request, key) = stamped(path, sent);
    let subject = Subject::new(&request, &key, Timestamp::default());
    let asked = store().lookup(&subject).expect("a lookup");
    store().read_lookup(&subject, &asked, answer)
}

/// Runs a whole lookup, with an answer for each URL that it asks.
fn lookup(path: &str, sent: &Value, answers: &[(&str, Value)]) -> Finding {
    let (request, key) = stamped(path, sent);
    let subject = Subject::new(&request, &key, Timestamp::default());
    let mut asked = store().lookup(&subject).expect("a lookup");
    for (url, body) in answers {
        assert_eq!(asked.url.as_str(), format!("{ROOT}{url}"));
        match store().read_lookup(&subject, &asked, &list(body)) {
            Finding::Next(next) => asked = next,
            found => return found,
        }
    }
    panic!("it asks on: {}", asked.url)
}

#[test]
fn an_order_is_absent_once_the_archive_lacks_it_too() {
    let list = format!("/v2/orders?external_order_id={}", wire_key());
    let archive = format!("{list}&is_deleted=true");
    let sent = json!({ "customer_id": 5 });
    assert_eq!(lookup("/v2/orders", &sent, &[(&list, json!([])), (&archive, json!([]))]), Finding::Absent);
    let archived = json!([{ "id": 1, "external_order_id": wire_key().to_string(), "customer_id": 5 }]);
    let found_there = lookup("/v2/orders", &sent, &[(&list, json!([])), (&archive, archived)]);
    assert_eq!(found(found_there).0, 201, "staff archived it, and it was made");
}

#[test]
fn two_parcels_of_one_order_differ_in_the_objects_behind_their_links() {
    let sent = |quantity: u64| {
        json!({
            "external_order_id": "order-7", "customer_id": 5, "status_id": 1, "staff_notes": "call first",
            "products": [{ "product_id": 1, "quantity": quantity, "price_inc_tax": "10.00",
                "product_options": [{ "id": 7, "value": "41" }] }],
            "shipping_addresses": [{ "street_1": " Main 1", "country_iso2": "it", "email": "Ann@x.y" }],
        })
    };
    let link = json!({ "url": "x", "resource": "/orders/9/products" });
    let order = json!({ "id": 9, "external_order_id": "order-7", "customer_id": 5, "status_id": 11,
        "products": link, "shipping_addresses": link, "staff_notes": "called" });
    let line = json!({ "id": 3, "product_id": 1, "quantity": 2, "price_inc_tax": "10.0000",
        "product_options": [{ "id": 88, "product_option_id": 7, "value": "41" }] });
    let address = json!({ "id": 4, "street_1": "Main 1", "country_iso2": "IT", "email": "ann@x.y" });
    let rows = |line: &Value, address: &Value| {
        [
            ("/v2/orders?external_order_id=order-7", json!([order])),
            ("/v2/orders/9/products", json!([line])),
            ("/v2/orders/9/shipping_addresses", json!([address])),
            ("/v2/orders/9", order.clone()),
        ]
    };
    let look = |quantity: u64, line: &Value, address: &Value| {
        lookup("/v2/orders", &sent(quantity), &rows(line, address))
    };
    assert_eq!(found(look(2, &line, &address)), (201, order.clone()));
    assert_eq!(look(1, &line, &address), Finding::CannotTell, "the other parcel's");
    let (mut blue, mut moved) = (line.clone(), address.clone());
    blue["product_options"][0]["value"] = "42".into();
    moved["street_1"] = "Main 2".into();
    assert_eq!(look(2, &blue, &address), Finding::CannotTell);
    assert_eq!(look(2, &line, &moved), Finding::CannotTell);
    let mut other = rows(&line, &address);
    other[3].1["id"] = 8.into();
    assert_eq!(lookup("/v2/orders", &sent(2), &other), Finding::Unanswered, "another order's");
}

/// V2 shows fifty rows, and not whether there are more.
#[test]
fn a_full_page_of_products_may_be_a_part_of_them() {
    let order = json!({ "id": 9, "external_order_id": "order-7" });
    for (count, is_whole) in [(49, true), (50, false)] {
        let lines = vec![json!({ "product_id": 1, "quantity": 1 }); count];
        let sent = json!({ "external_order_id": "order-7", "products": lines });
        let rows = [
            ("/v2/orders?external_order_id=order-7", json!([order])),
            ("/v2/orders/9/products", json!(lines)),
            ("/v2/orders/9", order.clone()),
        ];
        let found = lookup("/v2/orders", &sent, &rows);
        assert_eq!(matches!(found, Finding::Found(_)), is_whole, "{count}: {found:?}");
    }
}

#[test]
fn an_order_of_the_same_content_that_was_there_before_is_a_twin() {
    let sent = json!({ "external_order_id": "order-7", "customer_id": 5 });
    let (request, key) = stamped("/v2/orders", &sent);
    let claimed = Timestamp::from_millis(1_392_639_901_000);
    let subject = Subject::new(&request, &key, claimed).with_vendor_clock(Some(0));
    let asked = store().lookup(&subject).expect("a lookup");
    let read = |at: Timestamp| {
        let row =
            json!({ "id": 1, "external_order_id": key, "customer_id": 5, "date_created": at.to_string() });
        store().read_lookup(&subject, &asked, &list(&json!([row])))
    };
    assert_eq!(read(claimed.minus(Duration::from_secs(60))), Finding::CannotTell);
    assert_eq!(found(read(claimed)).0, 201);
}

#[test]
fn a_date_that_the_caller_chose_is_no_time_of_creation() {
    let date = "Thu, 01 Jan 2009 00:00:00 +0000";
    for sent in [
        json!({ "customer_id": 5, "date_created": date }),
        json!({ "customer_id": 5, "date_created": date, "external_order_id": "order-7" }),
    ] {
        let (request, key) = stamped("/v2/orders", &sent);
        let subject = Subject::new(&request, &key, Timestamp::from_millis(1_392_639_901_000));
        let subject = subject.with_vendor_clock(Some(0));
        let asked = store().lookup(&subject).expect("a lookup");
        let row = json!([{ "id": 1, "external_order_id": key, "customer_id": 5, "date_created": date }]);
        let looked = store().read_lookup(&subject, &asked, &list(&row));
        assert_eq!(found(looked).0, 201, "an order of old, brought over: {sent}");
    }
}

#[test]
fn last_months_order_of_a_subscription_is_not_this_months() {
    let november = "Mon, 02 Nov 2026 09:00:00 +0000";
    let read = |written: &str| {
        let sent = json!({ "external_order_id": "sub-77", "customer_id": 5, "date_created": written });
        let row =
            json!({ "id": 1, "external_order_id": "sub-77", "customer_id": 5, "date_created": november });
        read("/v2/orders", &sent, &list(&json!([row])))
    };
    for written in [november, "2026-11-02T09:00:00+00:00", "2026-11-02T10:00:00+01:00"] {
        assert_eq!(found(read(written)).0, 201, "{written}");
    }
    for written in ["Wed, 02 Dec 2026 09:00:00 +0000", "2026-11-02", "yesterday"] {
        assert_eq!(read(written), Finding::CannotTell, "{written}");
    }
}

#[test]
fn a_change_of_an_order_that_adds_a_product_is_not_repeated() {
    let put = |path: &str, body: &Value| {
        let mut request = request(path, &body.to_string());
        request.method = Method::PUT;
        store().is_idempotent(&request)
    };
    for (path, body, expected) in [
        ("/v2/orders/7", json!({ "products": [{ "product_id": 2, "quantity": 1 }] }), false),
        ("/v2/orders/7/", json!({ "products": [{ "id": 3, "quantity": 1 }, { "id": null }] }), false),
        ("/v2/orders/7", json!({ "products": [{ "id": 0, "product_id": 2 }] }), false),
        ("/v2/orders/7", json!({ "products": [{ "id": 3, "quantity": 1 }] }), true),
        ("/v2/orders/7", json!({ "status_id": 2 }), true),
        ("/v2/orders/7/shipments/1", json!({ "products": [{}] }), true),
        ("/v2/orders/7", json!({ "products": null }), true),
        ("/v2/orders/7", json!({ "products": { "0": { "id": 3 } } }), false),
        ("/v2/orders/7", json!("<order><products><product/></products></order>"), false),
        ("/v2/orders/7", json!([{ "status_id": 2 }]), false),
        ("/v3/catalog/products/7", json!({ "name": "Mug" }), true),
    ] {
        assert_eq!(put(path, &body), expected, "{path} {body}");
    }
}

fn list(rows: &Value) -> Answer {
    answer(200, &[], &rows.to_string())
}

fn data(rows: &Value) -> Answer {
    list(&json!({ "data": rows, "meta": { "pagination": { "total_pages": 1 } } }))
}

fn found(finding: Finding) -> (u16, Value) {
    match finding {
        Finding::Found(answer) => (answer.status.as_u16(), answer.json().expect("json")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_v2_list_is_a_204_without_a_body_and_proves_absence() {
    let empty = rig::fixture("bigcommerce", "v2_empty_list");
    assert_eq!(empty.status, 204);
    let coupon = json!({ "code": "SAVE" });
    for (path, sent) in
        [("/v2/orders", json!({})), ("/v3/checkouts/c/orders", json!({})), ("/v2/coupons", coupon)]
    {
        for empty in [&empty, &list(&json!([]))] {
            match read(path, &sent, empty) {
                Finding::Next(archive) if path != "/v2/coupons" => {
                    assert!(archive.url.as_str().ends_with("&is_deleted=true"), "{path}");
                }
                found => assert_eq!((path, found), ("/v2/coupons", Finding::Absent)),
            }
        }
    }
    assert_eq!(
        read(PRODUCTS, &json!({ "name": "Mug" }), &empty),
        Finding::Unanswered,
        "V3 says so with a body"
    );
    assert_eq!(read(PRODUCTS, &json!({ "name": "Mug" }), &data(&json!([]))), Finding::Absent);
}

#[test]
fn a_failed_lookup_is_not_taken_for_absence() {
    let mut cut = list(&json!([]));
    cut.cut = true;
    for bad in [
        rig::fixture("bigcommerce", "v2_error"),
        rig::fixture("bigcommerce", "unavailable"),
        answer(200, &[], "<html>"),
        answer(200, &[], ""),
        answer(200, &[], "[1]"),
        answer(204, &[], "x"),
        answer(404, &[], "[]"),
        answer(207, &[], "[]"),
        data(&json!([])),
        cut,
    ] {
        assert_eq!(read("/v2/orders", &json!({}), &bad), Finding::Unanswered, "{bad:?}");
    }
    for bad in
        [list(&json!([])), list(&json!({})), list(&json!({ "data": {} })), answer(401, &[], r#"{"data":[]}"#)]
    {
        assert_eq!(read(PRODUCTS, &json!({ "name": "Mug" }), &bad), Finding::Unanswered, "{bad:?}");
    }
    let paged = list(&json!({ "data": [], "meta": { "pagination": { "total_pages": 2 } } }));
    assert_eq!(read(PRODUCTS, &json!({ "name": "Mug" }), &paged), Finding::CannotTell);
}

#[test]
fn an_order_is_found_by_our_key_and_an_ignored_filter_finds_nothing() {
    let key = wire_key().to_string();
    let row = json!({ "id": 100, "external_order_id": key, "status_id": 0, "total_inc_tax": "225.0000" });
    assert_eq!(
        found(read("/v2/orders", &json!({ "status_id": 0 }), &list(&json!([row])))),
        (201, row.clone())
    );
    let other = json!({ "id": 99, "external_order_id": "" });
    for rows in [json!([other]), json!([row, other]), json!([row, row])] {
        assert_eq!(read("/v2/orders", &json!({}), &list(&rows)), Finding::CannotTell, "{rows}");
    }
}

#[test]
fn an_order_id_of_the_callers_own_counts_only_with_the_callers_own_fields() {
    let sent = json!({ "external_order_id": "order-7", "customer_id": 5 });
    let row = |customer: u64| json!([{ "id": 1, "external_order_id": "order-7", "customer_id": customer }]);
    assert_eq!(found(read("/v2/orders", &sent, &list(&row(5)))).0, 201);
    assert_eq!(read("/v2/orders", &sent, &list(&row(6))), Finding::CannotTell);
}

#[test]
fn a_checkout_is_converted_once_or_a_person_looks() {
    let path = "/v3/checkouts/c/orders";
    let one = list(&json!([{ "id": 100, "cart_id": "c" }]));
    assert_eq!(found(read(path, &json!({}), &one)), (200, json!({ "data": { "id": 100 }, "meta": {} })));
    let other = json!({ "id": 1, "cart_id": "d" });
    for rows in [
        json!([{ "id": 1, "cart_id": "c" }, { "id": 2, "cart_id": "c" }]),
        json!([other]),
        json!([{ "id": 1 }]),
        json!([{ "id": 2, "cart_id": "c" }, other]),
    ] {
        assert_eq!(read(path, &json!({}), &list(&rows)), Finding::CannotTell, "an ignored filter: {rows}");
    }
}

#[test]
fn a_natural_key_is_ours_only_if_every_field_that_we_set_agrees() {
    let row = |price: &str| json!({ "id": 7, "sku": "S1", "name": "Mug", "price": price });
    let sent = json!({ "sku": "S1", "name": "Mug", "price": 10 });
    let (status, body) = found(read(PRODUCTS, &sent, &data(&json!([row("10.00")]))));
    assert_eq!((status, &body["data"]["id"]), (200, &json!(7)));
    assert_eq!(
        read(PRODUCTS, &sent, &data(&json!([row("12.00")]))),
        Finding::CannotTell,
        "somebody else's mug"
    );
    assert_eq!(read(PRODUCTS, &sent, &data(&json!([row("10"), row("10")]))), Finding::CannotTell);
    let held = json!({ "id": 3, "code": "SAVE", "amount": "5.0000" });
    for amount in [json!("5.00"), json!("5"), json!(5)] {
        let coupon = json!({ "code": "SAVE", "amount": amount });
        assert_eq!(found(read("/v2/coupons", &coupon, &list(&json!([held])))), (200, held.clone()));
    }
}

#[test]
fn customers_are_found_all_or_not_at_all() {
    let sent = json!([{ "email": "A@x.y", "first_name": "Ann" }, { "email": "b@x.y" }]);
    let (ann, bob) =
        (json!({ "id": 1, "email": "a@x.y", "first_name": "Ann" }), json!({ "id": 2, "email": "b@x.y" }));
    let (status, body) = found(read("/v3/customers", &sent, &data(&json!([bob, ann]))));
    assert_eq!((status, body["data"].clone()), (200, json!([ann, bob])));
    assert_eq!(read("/v3/customers", &sent, &data(&json!([]))), Finding::Absent);
    let other = json!({ "id": 1, "email": "a@x.y", "first_name": "Zoe" });
    for rows in [json!([ann]), json!([other, bob]), json!([ann, bob, bob])] {
        assert_eq!(read("/v3/customers", &sent, &data(&rows)), Finding::CannotTell, "{rows}");
    }
    let twice = json!([sent[0], sent[0]]);
    for rows in [json!([ann]), json!([ann, ann])] {
        assert_eq!(read("/v3/customers", &twice, &data(&rows)), Finding::CannotTell, "which is which");
    }
}

#[test]
fn a_refund_is_found_among_others_by_the_key_in_the_reason_of_an_item() {
    let read = |rows: &Value| read(REFUNDS, &refund_of(&["torn"]), &data(rows));
    let row = |id: u64, reason: &str| json!({ "id": id, "items": [{ "item_id": 1 }, { "reason": reason }] });
    let (ours, other) = (row(2, &format!("torn [{}]", wire_key())), row(1, "torn"));
    assert_eq!(found(read(&json!([other, ours]))).1["data"]["id"], 2);
    assert_eq!(read(&json!([ours, ours])), Finding::CannotTell);
    let mut of_more = ours;
    of_more["items"][1]["item_id"] = 2.into();
    assert_eq!(read(&json!([of_more])), Finding::CannotTell, "of another item too");
    assert_eq!(read(&json!([other])), Finding::Absent, "the store keeps reasons, and none is ours");
    assert_eq!(read(&json!([])), Finding::Absent, "nothing was refunded");
    for silent in [row(1, ""), json!({ "id": 1, "reason": "torn" }), json!({ "id": 1, "items": [] })] {
        assert_eq!(read(&json!([silent])), Finding::CannotTell, "it may be ours: {silent}");
    }
}

#[test]
fn an_order_that_is_older_than_the_claim_is_of_the_keys_previous_life() {
    let (request, key) = stamped("/v2/orders", &json!({}));
    let created = Timestamp::from_millis(1_392_639_901_000);
    let read = |claimed: Timestamp, clock: Option<i64>, written: &str| {
        let subject = Subject::new(&request, &key, claimed).with_vendor_clock(clock);
        let asked = store().lookup(&subject).expect("a lookup");
        let row = json!({ "id": 1, "external_order_id": key, "date_created": written });
        store().read_lookup(&subject, &asked, &list(&json!([row])))
    };
    let written = "Mon, 17 Feb 2014 12:25:01 +0000";
    let (allowed, more) = (Duration::from_secs(300), Duration::from_secs(301));
    assert_eq!(found(read(created.plus(allowed), None, written)).0, 201);
    assert_eq!(read(created.plus(more), None, written), Finding::CannotTell, "or our clock was ahead");
    assert_eq!(read(created.plus(more), Some(0), written), Finding::CannotTell, "time alone excludes it");
    assert_eq!(read(created.plus(more), Some(0), "2014-02-17T12:25:01Z"), Finding::CannotTell);
    assert_eq!(found(read(created.plus(more), Some(-60_000), written)).0, 201, "it was");
    assert_eq!(read(created, None, "soon"), Finding::CannotTell);
}

#[test]
fn the_store_is_shown_and_the_id_of_a_cart_is_not() {
    let store = BigCommerce::new("k8yfjd03xq", "token");
    for shown in ["k8yfjd03xq", "v3", "checkouts", "1042"] {
        assert!(store.may_show(shown), "{shown}");
    }
    for hidden in
        ["b20deef40f9699e48671bbc3fef6ca44dc80e3c7", "bc218c65-7a32-4ab7-8082-68730c074d02", "k8yfjd03xr"]
    {
        assert!(!store.may_show(hidden), "{hidden}");
    }
}

#[test]
fn the_token_and_the_store_are_checked_and_the_token_is_never_shown() {
    store().check().expect("a good adapter");
    assert_eq!(Vendor::base_url(&store()).as_str(), ROOT);
    assert_eq!(
        store().base_url("http://127.0.0.1:1/").base.url().as_str(),
        "http://127.0.0.1:1/stores/abc123"
    );
    assert_eq!(BigCommerce::new("", "t").check().expect_err("hash").code(), "VALIDATION.base_url");
    assert_eq!(BigCommerce::new("a/b", "t").check().expect_err("hash").code(), "VALIDATION.base_url");
    assert_eq!(BigCommerce::new("a", "").check().expect_err("token").code(), "VALIDATION.secret");
    let (mut request, _) = stamped("/v2/orders", &json!({}));
    store().authorize(&mut request);
    assert!(!format!("{:?} {:?}", store(), request.headers).contains("token-secret"));
}
