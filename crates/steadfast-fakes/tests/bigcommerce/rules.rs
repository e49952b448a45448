//! Each rule at the head of `crates/steadfast-fakes/fixtures/bigcommerce.json`, proven over a real socket.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::Response;
use serde_json::{Value, json};
use steadfast_fakes::{BigCommerceAnswer, BigCommerceFake};
use steadfast_testkit::{Fault, TestClock, WaitForm};

use crate::asks::{call, paid};
use support::answers::{self, header, json_of, shows};

/// A fixture of what is sure of BigCommerce.
fn fixture(name: &str) -> Value {
    answers::fixture(include_str!("../../fixtures/bigcommerce.json"), name)
}

const KEY: &str = "0190a5b2-7c3e-8def-8123-456789abcdef";

async fn post(fake: &BigCommerceFake, path: &str, body: &Value) -> Response {
    call(fake, Method::POST, path)
        .header("Idempotency-Key", "same")
        .body(body.to_string())
        .send()
        .await
        .unwrap()
}

async fn get(fake: &BigCommerceFake, path: &str) -> Response {
    call(fake, Method::GET, path).send().await.unwrap()
}

fn product(name: &str, sku: &str) -> Value {
    json!({ "name": name, "sku": sku, "price": 1, "type": "physical", "weight": 1 })
}

/// With the fields that an order of BigCommerce's cannot be without.
fn order(fields: &Value) -> Value {
    let mut order =
        json!({ "products": [{ "name": "Mug", "quantity": 2, "price_inc_tax": 10, "price_ex_tax": 8 }] });
    order["billing_address"] = json!({ "zip": "12345" });
    for (name, value) in fields.as_object().unwrap() {
        order[name] = value.clone();
    }
    order
}

fn coupon(code: &str) -> Value {
    json!({ "name": code, "code": code, "type": "per_total_discount", "amount": 5, "applies_to": { "ids": [0] } })
}

fn customer(email: &str) -> Value {
    json!({ "email": email, "first_name": "Jo", "last_name": "Doe" })
}

/// Three of the first product of an order.
fn refund(reason: &str) -> Value {
    let item = json!({ "item_type": "PRODUCT", "item_id": 1, "quantity": 3, "reason": reason });
    json!({ "items": [item], "payments": paid(30.0) })
}

fn is_bare(answer: &Response) -> bool {
    let names = ["x-rate-limit-time-reset-ms", "x-retry-after", "retry-after", "x-request-id"];
    names.iter().all(|name| header(answer, name).is_none())
}

#[tokio::test]
async fn every_answer_carries_the_rate_headers_and_a_request_id() {
    let fake = BigCommerceFake::start().await;
    fake.plan().when("/stores/hash/v3", Method::POST, Fault::Error500Before);
    let order = order(&json!({ "external_order_id": "k" }));
    let mut ids = Vec::new();
    for answer in [
        post(&fake, "/v2/orders", &order).await,
        get(&fake, "/v2/orders?external_order_id=none").await,
        get(&fake, "/v2/orders?custom_status=1").await,
        post(&fake, "/v3/carts", &json!({})).await,
    ] {
        for (name, value) in fixture("rate_headers")["headers"].as_object().unwrap() {
            assert_eq!(header(&answer, name), value.as_str(), "{name}");
        }
        assert_eq!(header(&answer, "retry-after"), None);
        ids.push(header(&answer, "x-request-id").unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_429_says_when_in_milliseconds_and_seconds_or_nothing_at_all() {
    let fake = BigCommerceFake::start().await;
    fake.answer_next(BigCommerceAnswer::RateLimited);
    let limited = post(&fake, "/v2/orders", &json!({})).await;
    assert_eq!(
        (header(&limited, "x-rate-limit-time-reset-ms"), header(&limited, "x-retry-after")),
        (Some("15000"), Some("15"))
    );
    assert_eq!(header(&limited, "x-rate-limit-requests-left"), Some("0"));
    assert_eq!(json_of(limited).await, fixture("rate_limited")["body"]);

    for (wait, milliseconds, seconds) in [(2_000, "2000", Some("2")), (400, "400", None)] {
        fake.plan().next(Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(wait))));
        let limited = post(&fake, "/v2/orders", &json!({})).await;
        assert_eq!(header(&limited, "x-rate-limit-time-reset-ms"), Some(milliseconds));
        assert_eq!((header(&limited, "x-retry-after"), header(&limited, "retry-after")), (seconds, None));
    }

    fake.plan().next(Fault::TooManyRequests(WaitForm::None));
    fake.answer_next(BigCommerceAnswer::RateLimitedPlatform).answer_next(BigCommerceAnswer::RateLimitedAs500);
    for status in [429, 429, 500] {
        let shed = post(&fake, "/v2/orders", &json!({})).await;
        assert_eq!(shed.status(), status);
        assert!(is_bare(&shed));
        assert_eq!(shed.text().await.unwrap(), "");
    }
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn a_quota_is_counted_per_window_of_30_seconds() {
    let clock = TestClock::new();
    let fake = BigCommerceFake::builder().clock(Arc::new(clock.clone())).quota(2).start().await;
    assert_eq!(header(&get(&fake, "/v2/orders").await, "x-rate-limit-requests-left"), Some("1"));
    clock.advance(Duration::from_secs(10));
    assert_eq!(header(&get(&fake, "/v2/orders").await, "x-rate-limit-time-reset-ms"), Some("20000"));
    let limited = post(&fake, "/v2/orders", &order(&json!({}))).await;
    assert_eq!(header(&limited, "x-rate-limit-requests-quota"), Some("2"));
    assert_eq!((limited.status().as_u16(), header(&limited, "x-retry-after")), (429, Some("20")));
    assert_eq!(fake.ledger().count(), 0);
    clock.advance(Duration::from_secs(20));
    assert_eq!(post(&fake, "/v2/orders", &order(&json!({}))).await.status(), 201);
}

#[tokio::test]
async fn two_orders_with_one_external_order_id_are_two_orders() {
    let fake = BigCommerceFake::start().await;
    for _ in 0..2 {
        let order = order(&json!({ "external_order_id": KEY, "external_id": "read-only" }));
        let made = json_of(post(&fake, "/v2/orders", &order).await).await;
        shows(&made, &json!({ "external_order_id": KEY, "external_id": null }));
    }
    assert_eq!((fake.ledger().effects_for(KEY).len(), fake.ledger().duplicates()), (2, vec![KEY.to_owned()]));
    let found = json_of(get(&fake, &format!("/v2/orders?external_order_id={KEY}")).await).await;
    assert_eq!((found[0]["id"].as_u64(), found[1]["id"].as_u64()), (Some(100), Some(102)));
    assert_eq!(json_of(get(&fake, "/v2/orders/102").await).await["external_order_id"], KEY);
}

#[tokio::test]
async fn an_empty_v2_list_is_204_without_a_body_and_an_unknown_filter_400() {
    let fake = BigCommerceFake::start().await;
    post(&fake, "/v2/orders", &order(&json!({ "external_order_id": "other" }))).await;
    for query in ["external_order_id=none", "cart_id=none"] {
        let empty = get(&fake, &format!("/v2/orders?{query}")).await;
        assert_eq!(empty.status(), 204);
        assert_eq!(empty.bytes().await.unwrap().len(), 0);
    }
    let unknown = get(&fake, "/v2/orders?custom_status=1").await;
    assert_eq!(unknown.status(), 400);
    assert_eq!(json_of(unknown).await, fixture("v2_error")["body"]);
}

#[tokio::test]
async fn a_checkout_makes_another_order_each_time() {
    let fake = BigCommerceFake::builder().cart("cart-1").start().await;
    let first =
        json_of(post(&fake, "/v3/checkouts/cart-1/orders", &json!({})).await).await["data"]["id"].clone();
    let second = call(&fake, Method::POST, "/v3/checkouts/cart-1/orders").send().await.unwrap();
    assert_ne!(json_of(second).await["data"]["id"], first);
    assert_eq!(fake.ledger().duplicates(), ["cart-1"]);
    let found = json_of(get(&fake, "/v2/orders?cart_id=cart-1").await).await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["id"]), (2, &first));
    assert_eq!(found[0]["total_inc_tax"], "10.0000");
    assert_eq!(json_of(get(&fake, "/v3/carts/cart-1").await).await["data"]["id"], "cart-1");

    let cart = json!({ "line_items": [{ "product_id": 1, "quantity": 3, "list_price": 5 }] });
    let cart =
        json_of(post(&fake, "/v3/carts", &cart).await).await["data"]["id"].as_str().unwrap().to_owned();
    post(&fake, &format!("/v3/checkouts/{cart}/orders"), &json!({})).await;
    let found = json_of(get(&fake, &format!("/v2/orders?cart_id={cart}")).await).await;
    assert_eq!(found[0]["total_inc_tax"], "15.0000");
}

#[tokio::test]
async fn a_second_of_a_unique_name_sku_or_code_is_409() {
    let fake = BigCommerceFake::start().await;
    for (path, first, second, key, query) in [
        ("/v3/catalog/products", product("a", "s1"), product("a", "s2"), "s1", "sku=s1"),
        ("/v3/catalog/products", product("b", "s3"), product("c", "s3"), "s3", "name=b"),
        ("/v3/catalog/brands", json!({ "name": "n" }), json!({ "name": "N" }), "n", "name=n"),
        (
            "/v3/catalog/categories",
            json!({ "name": "cat", "parent_id": 0 }),
            json!({ "name": "cat", "parent_id": 0 }),
            "cat",
            "name=cat",
        ),
        ("/v3/pricelists", json!({ "name": "p" }), json!({ "name": "p" }), "p", "name=p"),
    ] {
        let made = post(&fake, path, &first).await;
        assert_eq!(made.status(), 200);
        let made = json_of(made).await["data"].clone();
        assert_eq!(post(&fake, path, &second).await.status(), 409);
        assert_eq!(fake.ledger().effects_for(key).len(), 1);
        let found = json_of(get(&fake, &format!("{path}?{query}")).await).await;
        assert_eq!((&found["data"], &found["meta"]["pagination"]["total"]), (&json!([made]), &json!(1)));
        assert_eq!(json_of(get(&fake, &format!("{path}?name=none")).await).await["data"], json!([]));
    }
    let duplicate = post(&fake, "/v3/catalog/products", &product("a", "s9")).await;
    assert_eq!(json_of(duplicate).await, fixture("product_duplicate")["body"]);

    assert_eq!(post(&fake, "/v2/coupons", &coupon("c")).await.status(), 201);
    let duplicate = post(&fake, "/v2/coupons", &coupon("c")).await;
    assert_eq!((duplicate.status().as_u16(), &json_of(duplicate).await[0]["status"]), (409, &json!(409)));
    assert_eq!(json_of(get(&fake, "/v2/coupons?code=c").await).await[0]["code"], "c");
    assert_eq!(get(&fake, "/v2/coupons?code=none").await.status(), 204);
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (6, vec![]));
}

#[tokio::test]
async fn a_sku_is_unique_among_products_and_variants() {
    let fake = BigCommerceFake::builder().product(1).product(2).start().await;
    let variants = |id: u32| format!("/v3/catalog/products/{id}/variants");
    let variant = |sku: &str| json!({ "sku": sku, "option_values": [{ "id": 1, "option_id": 1 }] });
    let made = json_of(post(&fake, &variants(1), &variant("A")).await).await["data"]["id"].clone();
    json_of(post(&fake, &variants(1), &variant("B")).await).await;
    for (path, body) in [
        (variants(1), variant("a")),
        (variants(2), variant("A")),
        (variants(2), variant("SKU-1")),
        ("/v3/catalog/products".to_owned(), product("p", "A")),
    ] {
        assert_eq!(post(&fake, &path, &body).await.status(), 409, "{path} {body}");
    }
    let put = async |path: String, sku: &str| {
        let body = json!({ "sku": sku }).to_string();
        call(&fake, Method::PUT, &path).body(body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(put(format!("{}/{made}", variants(1)), "B").await, 409);
    assert_eq!(put("/v3/catalog/products/2".to_owned(), "B").await, 409);
    assert_eq!(put(format!("{}/{made}", variants(1)), "A").await, 200, "its own");
}

#[tokio::test]
async fn a_category_has_its_name_to_itself_below_its_parent_alone() {
    let fake = BigCommerceFake::start().await;
    let path = "/v3/catalog/categories";
    let category = |name: &str, parent: &Value| json!({ "name": name, "parent_id": parent });
    let mut parents = Vec::new();
    for name in ["Men", "Women"] {
        parents
            .push(json_of(post(&fake, path, &category(name, &json!(0))).await).await["data"]["id"].clone());
    }
    let first = json_of(post(&fake, path, &category("Shoes", &parents[0])).await).await["data"].clone();
    assert_eq!(post(&fake, path, &category("Shoes", &parents[1])).await.status(), 200);
    assert_eq!(post(&fake, path, &category("shoes", &parents[0])).await.status(), 409);
    let moved = category("Shoes", &parents[1]).to_string();
    let moved = call(&fake, Method::PUT, &format!("{path}/{}", first["id"])).body(moved).send().await;
    assert_eq!(moved.unwrap().status(), 409, "there is one of its name");
}

#[tokio::test]
async fn missing_fields_are_422_in_the_v3_shape() {
    let fake = BigCommerceFake::start().await;
    let refused = post(&fake, "/v3/catalog/products", &json!({})).await;
    assert_eq!(refused.status(), 422);
    assert_eq!(json_of(refused).await, fixture("v3_validation")["body"]);
    let broken = call(&fake, Method::POST, "/v3/catalog/brands").body("{").send().await.unwrap();
    assert_eq!(broken.status(), 422);
    assert_eq!(json_of(broken).await["title"], fixture("v3_json_invalid")["body"]["title"]);
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn customers_are_made_up_to_ten_at_once_all_or_none() {
    let fake = BigCommerceFake::start().await;
    let made = post(&fake, "/v3/customers", &json!([customer("a@x.com"), customer("b@x.com")])).await;
    assert_eq!((made.status().as_u16(), json_of(made).await["data"].as_array().unwrap().len()), (200, 2));
    let duplicate = post(&fake, "/v3/customers", &json!([customer("c@x.com"), customer("A@x.com")])).await;
    assert_eq!(duplicate.status(), 422);
    assert_eq!(json_of(duplicate).await, fixture("customer_duplicate")["body"]);
    let eleven: Vec<Value> = (0..11).map(|n| customer(&format!("{n}@x.com"))).collect();
    let too_many = post(&fake, "/v3/customers", &json!(eleven)).await;
    assert_eq!(too_many.status(), 413);
    assert_eq!(json_of(too_many).await, fixture("payload_too_large")["body"]);
    let found = json_of(get(&fake, "/v3/customers?email:in=b@x.com,c@x.com").await).await;
    assert_eq!((found["data"].as_array().unwrap().len(), &found["data"][0]["email"]), (1, &json!("b@x.com")));
    assert_eq!((fake.ledger().count(), fake.ledger().effects_for("b@x.com").len()), (2, 1));
}

#[tokio::test]
async fn a_refunds_reasons_are_those_of_its_items_and_may_be_dropped() {
    let path = "/v3/orders/700/payment_actions/refunds";
    let refund = refund(KEY);
    let mut of_2021 = refund.clone();
    of_2021["reason"] = json!("of 2021");
    for (drops, shown) in [(false, json!(KEY)), (true, json!(""))] {
        let builder = BigCommerceFake::builder().order(700);
        let builder = if drops { builder.drops_refund_reasons() } else { builder };
        let fake = builder.start().await;
        assert_eq!(post(&fake, path, &of_2021).await.status(), 422);
        assert_eq!(post(&fake, path, &refund).await.status(), 201);
        let held = json_of(get(&fake, path).await).await["data"][0].clone();
        assert_eq!((&held["reason"], &held["items"][0]["reason"]), (&json!(""), &shown));
        assert_eq!(held["items"][0]["item_id"], 1);
        assert_eq!(fake.ledger().effects_for(KEY).len(), 1);
    }
}

#[tokio::test]
async fn a_refund_repeats_unless_one_is_pending() {
    let path = "/v3/orders/700/payment_actions/refunds";
    let clock = TestClock::new();
    let fake = BigCommerceFake::builder()
        .clock(Arc::new(clock.clone()))
        .refund_pending(Duration::from_secs(5))
        .order(700)
        .order(800)
        .start()
        .await;
    let other_refund = refund("x");
    let refund = refund(&format!("damaged [steadfast:{KEY}]"));
    assert_eq!(post(&fake, path, &refund).await.status(), 201);
    clock.advance(Duration::from_millis(4_999));
    let pending = post(&fake, path, &refund).await;
    assert_eq!((pending.status().as_u16(), &json_of(pending).await["data"][0]["status"]), (422, &json!(422)));
    let other = "/v3/orders/800/payment_actions/refunds";
    assert_eq!(post(&fake, other, &other_refund).await.status(), 201);
    assert_eq!(fake.ledger().effects_for(KEY).len(), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(post(&fake, path, &refund).await.status(), 201);
    assert_eq!(fake.ledger().duplicates(), [KEY]);
    let held = json_of(get(&fake, path).await).await;
    let shown = &held["data"][0]["items"][0];
    for name in ["item_type", "item_id", "quantity", "reason"] {
        assert_eq!(shown[name], refund["items"][0][name], "{name}");
    }
    assert_eq!((held["data"].as_array().unwrap().len(), &shown["requested_amount"]), (2, &json!(30.0)));
}

#[tokio::test]
async fn a_504_executes_the_write_first() {
    let fake = BigCommerceFake::start().await;
    fake.answer_next(BigCommerceAnswer::GatewayTimeout).answer_next(BigCommerceAnswer::GatewayTimeoutHtml);
    let timeout = post(&fake, "/v2/orders", &order(&json!({ "external_order_id": "json" }))).await;
    assert_eq!(timeout.status(), 504);
    assert_eq!(json_of(timeout).await, fixture("gateway_timeout")["body"]);
    let html = post(&fake, "/v2/orders", &order(&json!({ "external_order_id": "html" }))).await;
    assert_eq!((html.status().as_u16(), header(&html, "content-type")), (504, Some("text/html")));
    for key in ["json", "html"] {
        assert_eq!(fake.ledger().effects_for(key).len(), 1);
        assert_eq!(get(&fake, &format!("/v2/orders?external_order_id={key}")).await.status(), 200);
    }
}

#[tokio::test]
async fn faults_before_apply_nothing_and_faults_after_leave_their_effect() {
    let fake = BigCommerceFake::start().await;
    for (fault, status, effects) in [
        (Fault::Error500Before, Some(500), 0),
        (Fault::Stored500, Some(500), 0),
        (Fault::Html, Some(502), 0),
        (Fault::DropBeforeRead, None, 0),
        (Fault::KeyInUse, Some(201), 1),
        (Fault::Error500After, Some(500), 1),
        (Fault::DropAfterApply, None, 1),
    ] {
        let key = fault.name();
        fake.plan().next(fault);
        let order = order(&json!({ "external_order_id": key })).to_string();
        let answer = call(&fake, Method::POST, "/v2/orders").body(order).send().await;
        assert_eq!(answer.ok().map(|answer| answer.status().as_u16()), status, "{key}");
        assert_eq!(fake.ledger().effects_for(key).len(), effects, "{key}");
    }
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (3, vec![]));
}

#[tokio::test]
async fn a_write_still_under_way_does_not_show_yet() {
    let clock = TestClock::new();
    let fake = BigCommerceFake::builder()
        .clock(Arc::new(clock.clone()))
        .apply_after(Duration::from_secs(30))
        .start()
        .await;
    fake.plan().next(Fault::DropAfterApply);
    let order = order(&json!({ "external_order_id": KEY })).to_string();
    assert!(call(&fake, Method::POST, "/v2/orders").body(order).send().await.is_err());
    clock.advance(Duration::from_millis(29_999));
    assert_eq!(get(&fake, &format!("/v2/orders?external_order_id={KEY}")).await.status(), 204);
    assert_eq!(fake.ledger().effects_for(KEY).len(), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(get(&fake, &format!("/v2/orders?external_order_id={KEY}")).await.status(), 200);
}

/// The access token of an order that is set to Incomplete.
async fn payment_token(fake: &BigCommerceFake, order: u32) -> String {
    let open = call(fake, Method::PUT, &format!("/v2/orders/{order}")).body("{\"status_id\":0}").send();
    assert_eq!(open.await.unwrap().status(), 200);
    let token = post(fake, "/v3/payments/access_tokens", &json!({ "order": { "id": order } })).await;
    json_of(token).await["data"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_payment_is_of_an_incomplete_order_and_shows_in_its_transactions() {
    let fake = BigCommerceFake::builder().order(700).start().await;
    let pay = |token: String| {
        let card = json!({ "payment_method_id": "fake.card", "instrument": { "type": "stored_card", "token": "t" } });
        call(&fake, Method::POST, "/payments")
            .header("Authorization", format!("PAT {token}"))
            .body(json!({ "payment": card }).to_string())
            .send()
    };
    let token = payment_token(&fake, 700).await;
    fake.answer_next(BigCommerceAnswer::PaymentDuplicate);
    let duplicate = pay(token.clone()).await.unwrap();
    assert_eq!(json_of(duplicate).await, fixture("payment_duplicate")["body"]);
    for (applied, effects) in [(false, 0), (true, 1)] {
        fake.answer_next(BigCommerceAnswer::PaymentUnavailable { applied });
        let unavailable = pay(token.clone()).await.unwrap();
        assert_eq!(unavailable.status(), 500);
        assert_eq!(json_of(unavailable).await, fixture("payment_unavailable")["body"]);
        assert_eq!(fake.ledger().effects_for(&token).len(), effects);
    }
    let order = json_of(get(&fake, "/v2/orders/700").await).await;
    shows(&order, &json!({ "status_id": 11, "status": "Awaiting Fulfillment" }));
    let repeated = pay(token.clone()).await.unwrap();
    assert_eq!(json_of(repeated).await, fixture("payment_order_invalid")["body"]);

    let token = payment_token(&fake, 700).await;
    let paid = pay(token.clone()).await.unwrap();
    assert_eq!(paid.status(), 201);
    assert_eq!(json_of(paid).await["data"]["status"], fixture("payment_ok")["body"]["data"]["status"]);
    let transactions = json_of(get(&fake, "/v3/orders/700/transactions").await).await;
    assert_eq!(transactions["data"].as_array().unwrap().len(), 2);
    assert_eq!(transactions["data"][0]["amount"], 500_000.0);
    assert_eq!(post(&fake, "/payments", &json!({})).await.status(), 401);
    assert_eq!(pay("700.1".to_owned()).await.unwrap().status(), 401, "a token that was not given");
}

#[tokio::test]
async fn answers_that_no_state_leads_to_are_the_fixtures() {
    let fake = BigCommerceFake::start().await;
    for (answer, name) in [
        (BigCommerceAnswer::Unavailable, "unavailable"),
        (BigCommerceAnswer::MultiStatus, "multi_status"),
        (BigCommerceAnswer::RefundRefused, "refund_422"),
        (BigCommerceAnswer::RefundUnavailable, "refund_503"),
    ] {
        fake.answer_next(answer);
        let answer = post(&fake, "/v2/orders", &json!({})).await;
        let expected = fixture(name);
        assert_eq!(u64::from(answer.status().as_u16()), expected["status"]);
        assert_eq!(json_of(answer).await, expected["body"]);
    }
    assert_eq!(fake.ledger().count(), 0);
}

type Unkeyed = (&'static str, fn() -> Value);

/// The collections that have no key, and the least that an object of them is made of.
const UNKEYED: [Unkeyed; 3] = [
    ("/v3/carts", || json!({ "line_items": [{ "product_id": 1, "quantity": 1 }] })),
    (
        "/v2/orders/100/shipments",
        || json!({ "order_address_id": 1, "items": [{ "order_product_id": 1, "quantity": 1 }] }),
    ),
    (
        "/v3/inventory/adjustments/relative",
        || json!({ "items": [{ "sku": "SKU-1", "location_id": 1, "quantity": 2 }] }),
    ),
];

#[tokio::test]
async fn a_resource_without_rules_executes_each_time_without_a_key() {
    let fake = BigCommerceFake::builder().order(100).product(1).start().await;
    for (path, body) in UNKEYED.iter().map(|(path, body)| (*path, body())) {
        // A change of stock answers 200, by the specification.
        let status = if path.contains("/inventory/") { 200 } else { 201 };
        assert_eq!(post(&fake, path, &body).await.status(), status, "{path}");
        post(&fake, path, &body).await;
    }
    assert!(fake.ledger().effects().iter().all(|effect| effect.wire_key.is_none()));
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (6, vec![]));
    let id = fake.ledger().effects()[0].id.clone();
    let change =
        |method, body: &'static str| call(&fake, method, &format!("/v3/carts/{id}")).body(body).send();
    assert_eq!(change(Method::PUT, "{\"a\":2}").await.unwrap().status(), 422);
    let changed = json_of(change(Method::PUT, "{\"customer_id\":2}").await.unwrap()).await;
    shows(&changed["data"], &json!({ "customer_id": 2, "a": null }));
    assert_eq!(change(Method::DELETE, "").await.unwrap().status(), 204);
    assert_eq!(change(Method::DELETE, "").await.unwrap().status(), 404);
    let bare = answers::client().get(format!("{}/stores/hash/v2/orders", fake.url())).send().await.unwrap();
    assert_eq!(bare.status(), 401);
}

#[tokio::test]
async fn a_refund_is_of_an_order_that_the_store_holds_and_of_what_it_is_of() {
    let fake = BigCommerceFake::builder().order(700).start().await;
    let path = |order: &str| format!("/v3/orders/{order}/payment_actions/refunds");
    for order in ["7", "701", "x"] {
        let refused = post(&fake, &path(order), &refund("x")).await;
        assert_eq!(
            (refused.status().as_u16(), &json_of(refused).await["status"]),
            (404, &json!(404)),
            "{order}"
        );
    }
    let item = |kind: &str, field: &str, value: Value| json!({ "items": [{ "item_type": kind, "item_id": 1, field: value }] });
    let adjusted =
        json!([{ "item_type": "PRODUCT", "item_id": 1, "quantity": 1, "adjustments": [{ "amount": -10 }] }]);
    let twice = json!({ "item_type": "PRODUCT", "item_id": 1, "quantity": 501 });
    for mut refund in [
        json!({}),
        json!({ "items": [] }),
        json!({ "items": {}, "payments": [] }),
        json!({ "tax_adjustment_amount": 1 }),
        json!({ "items": [{ "item_id": 1, "amount": 1 }] }),
        item("MUG", "amount", json!(1)),
        item("ORDER", "amount", json!(0)),
        item("ORDER", "amount", json!(-1)),
        item("ORDER", "amount", json!("NaN")),
        item("ORDER", "quantity", json!(1)),
        item("ORDER", "amount", json!(500_000.01)),
        item("PRODUCT", "amount", json!(1)),
        item("PRODUCT", "quantity", json!(0)),
        item("PRODUCT", "quantity", json!(-1)),
        item("PRODUCT", "quantity", json!(1001)),
        json!({ "items": [{ "item_type": "PRODUCT", "item_id": 51, "quantity": 1 }] }),
        json!({ "items": adjusted }),
        json!({ "items": [twice, twice] }),
        json!({ "items": [{ "item_type": "ORDER", "amount": 5 }, { "item_type": "ORDER", "amount": -1 }] }),
    ] {
        // Else it would be refused for that.
        if refund["payments"].is_null() {
            refund["payments"] = paid(1.0);
        }
        let refused = post(&fake, &path("700"), &refund).await;
        assert_eq!(refused.status(), 422, "{refund}");
        assert_eq!(json_of(refused).await["data"][0]["status"], 422, "{refund}");
    }
    assert_eq!((fake.ledger().count(), get(&fake, &path("700")).await.status().as_u16()), (0, 200));
}

#[tokio::test]
async fn refunds_add_up_to_the_order_at_most() {
    let fake = BigCommerceFake::start().await;
    let made = json_of(post(&fake, "/v2/orders", &order(&json!({}))).await).await;
    let products = json_of(get(&fake, &format!("/v2/orders/{}/products", made["id"])).await).await;
    let path = format!("/v3/orders/{}/payment_actions/refunds", made["id"]);
    let one = json!({ "item_type": "PRODUCT", "item_id": products[0]["id"], "quantity": 1 });
    let one = json!({ "items": [one], "payments": paid(10.0) });
    let amount = |amount: f64| {
        let item = json!({ "item_type": "ORDER", "item_id": 1, "amount": amount });
        json!({ "items": [item], "payments": paid(amount) })
    };
    for (refund, total, status) in [
        (&one, 10.0, 201),
        (&amount(10.01), 0.0, 422),
        (&amount(0.5), 0.5, 201),
        (&one, 0.0, 422),
        (&amount(9.5), 9.5, 201),
        (&amount(0.01), 0.0, 422),
    ] {
        let answer = post(&fake, &path, refund).await;
        assert_eq!(answer.status(), status, "{refund}");
        if status == 201 {
            assert_eq!(json_of(answer).await["data"]["total_amount"], total, "{refund}");
        }
    }
    assert_eq!(fake.ledger().count(), 4);
}

#[tokio::test]
async fn an_order_or_a_cart_held_from_the_beginning_is_no_effect_and_shows_at_once() {
    let builder = BigCommerceFake::builder().test_clock(&TestClock::new());
    let fake = builder.apply_after(Duration::from_secs(30)).order(100).order(7).cart("c").start().await;
    assert_eq!(json_of(get(&fake, "/v2/orders/100").await).await["total_inc_tax"], "500000.0000");
    assert_eq!(json_of(get(&fake, "/v2/orders/7").await).await["id"], 7);
    assert_eq!(get(&fake, "/v2/orders/8").await.status(), 404);
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!(json_of(post(&fake, "/v2/orders", &order(&json!({}))).await).await["id"], 101);
}

#[tokio::test]
async fn what_a_write_cannot_be_without_is_asked_for_in_the_vendors_form() {
    let fake = BigCommerceFake::builder().order(100).start().await;
    let unaddressed = json!({ "items": [{ "order_product_id": 1, "quantity": 1 }] });
    for (path, body, field) in [
        ("/v2/orders", json!({}), "products"),
        (
            "/v2/orders",
            json!({ "customer_id": 7, "products": [], "consignments": { "pickups": [] } }),
            "products",
        ),
        ("/v2/orders", json!({ "products": [{ "product_id": 1, "quantity": 1 }] }), "billing_address"),
        ("/v2/orders/100/shipments", unaddressed, "order_address_id"),
        ("/v2/orders/100/shipments", json!({ "order_address_id": 1 }), "items"),
    ] {
        let refused = post(&fake, path, &body).await;
        assert_eq!(refused.status(), 400, "{body}");
        let message = format!("The required field '{field}' was not supplied.");
        assert_eq!(json_of(refused).await, json!([{ "status": 400, "message": message }]));
    }
    for (path, body, field) in [
        ("/v3/carts", json!({}), "line_items"),
        ("/v3/carts", json!({ "customer_id": 7, "line_items": [] }), "line_items"),
        ("/v3/inventory/adjustments/relative", json!({ "reason": "count" }), "items"),
        ("/v3/inventory/adjustments/absolute", json!({ "items": [] }), "items"),
    ] {
        let method = if path.ends_with("absolute") { Method::PUT } else { Method::POST };
        let refused = call(&fake, method, path).body(body.to_string()).send().await.unwrap();
        assert_eq!(refused.status(), 422, "{body}");
        let refused = json_of(refused).await;
        assert_eq!(refused["title"], fixture("v3_validation")["body"]["title"]);
        assert_eq!(refused["errors"].as_object().unwrap().keys().collect::<Vec<_>>(), [field]);
    }
    assert_eq!(fake.ledger().count(), 0);
    let pickup = json!({ "pickup_method_id": 1, "line_items": [{ "product_id": 1, "quantity": 1 }] });
    let picked_up = json!({ "billing_address": { "zip": "1" }, "consignments": { "pickups": [pickup] } });
    let mug = json!({ "name": "Mug", "quantity": 1, "list_price": 5 });
    let jo = json!({ "name": "Jo", "email": "jo@x.com" });
    let gift =
        json!({ "name": "Gift", "theme": "Boy", "amount": 5, "quantity": 1, "sender": jo, "recipient": jo });
    for (path, body) in [
        ("/v2/orders", picked_up),
        ("/v3/carts", json!({ "line_items": [], "custom_items": [mug] })),
        ("/v3/carts", json!({ "gift_certificates": [gift] })),
    ] {
        assert_eq!(post(&fake, path, &body).await.status(), 201, "{body}");
    }
}

#[tokio::test]
async fn what_is_of_an_unknown_order_or_checkout_is_not_found() {
    let fake = BigCommerceFake::start().await;
    for (path, body) in [
        ("/v3/checkouts/cart-1/orders", json!({})),
        ("/v3/payments/access_tokens", json!({ "order": { "id": 7 } })),
    ] {
        let refused = post(&fake, path, &body).await;
        assert_eq!(
            (refused.status().as_u16(), &json_of(refused).await["status"]),
            (404, &json!(404)),
            "{body}"
        );
    }
    assert_eq!(fake.ledger().count(), 0);
}
