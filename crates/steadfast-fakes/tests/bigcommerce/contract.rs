//! The refusals of the BigCommerce fake, and the members that its answers have: those of
//! `crates/steadfast-fakes/fixtures/bigcommerce_contract.json`, no fewer and no more.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::BigCommerceFake;

use crate::asks::{ask, body_of, paid};
use support::answers::{self, shows};

async fn fake() -> BigCommerceFake {
    BigCommerceFake::builder().order(700).product(9).cart("c").start().await
}

/// Whether a refusal has the form of V2, of V3 or of the refunds of V3.
fn is_in_the_vendors_form(path: &str, status: u16, body: &Value) -> bool {
    let (error, text) = match path {
        path if path.starts_with("/v2/") => (&body[0], "message"),
        path if path.contains("/refunds") && status != 404 => (&body["data"][0], "title"),
        _ => (body, "title"),
    };
    error["status"] == status && error[text].is_string()
}

fn order(rows: &Value) -> Value {
    json!({ "billing_address": { "zip": "12345" }, "products": rows })
}

fn customer() -> Value {
    json!({ "email": "jo@x.com", "first_name": "Jo", "last_name": "Doe" })
}

fn coupon() -> Value {
    json!({ "name": "Spring", "code": "S", "type": "per_total_discount", "amount": "5", "applies_to": { "ids": [0] } })
}

fn without(mut body: Value, member: &str) -> Value {
    body.as_object_mut().unwrap().remove(member);
    body
}

fn with(mut body: Value, member: &str, value: Value) -> Value {
    body[member] = value;
    body
}

type Refused = (Method, &'static str, Value, u16);

/// Bodies without what they must have, of unknown members, of another kind, read-only, or not implemented.
fn refused_bodies() -> Vec<Refused> {
    let product = || json!({ "name": "Mug", "type": "physical", "weight": 1, "price": 10 });
    let page = "/v2/pages";
    vec![
        (Method::POST, "/v3/customers", json!([{}]), 422),
        (Method::POST, "/v3/customers", json!([without(customer(), "last_name")]), 422),
        (Method::POST, "/v3/customers", json!([with(customer(), "colour", json!("red"))]), 422),
        (Method::POST, "/v3/customers", json!([with(customer(), "id", json!(7))]), 422),
        (Method::POST, "/v3/customers", json!([customer(), {}]), 422),
        (Method::PUT, "/v3/customers", json!([{ "company": "A" }]), 422),
        (Method::POST, "/v2/coupons", json!({}), 400),
        (Method::POST, "/v2/coupons", with(coupon(), "type", json!("half_price")), 400),
        (Method::POST, "/v2/coupons", with(coupon(), "amount", json!("five")), 400),
        (Method::POST, "/v2/products", json!({}), 400),
        (Method::POST, "/v2/brands", json!({ "name": "a", "id": 7 }), 400),
        (Method::POST, "/v2/categories", json!({ "page_title": "a" }), 400),
        (Method::POST, "/v2/customers", without(customer(), "email"), 400),
        (Method::POST, "/v2/customer_groups", json!({ "is_default": true }), 400),
        (Method::POST, "/v2/gift_certificates", json!({ "amount": 5 }), 400),
        (Method::POST, page, json!({ "name": "a", "type": "page" }), 400),
        (Method::POST, "/v2/redirects", json!({ "path": "/a" }), 400),
        (Method::POST, "/v3/hooks", json!({}), 422),
        (Method::POST, "/v3/hooks", json!({ "scope": "store/order/created" }), 422),
        (Method::POST, "/v3/channels", json!({ "name": "a" }), 422),
        (Method::POST, "/v3/pricelists", json!({ "name": 7 }), 422),
        (Method::POST, "/v3/catalog/brands", json!({ "name": "a", "colour": "red" }), 422),
        (Method::POST, "/v3/catalog/categories", json!({ "name": "a" }), 422),
        (Method::POST, "/v3/catalog/categories", json!({ "name": "a", "parent_id": 7 }), 422),
        (Method::POST, "/v3/catalog/products", with(product(), "price", json!("10")), 422),
        (Method::POST, "/v3/catalog/products", with(product(), "brand_id", json!(7)), 409),
        (Method::POST, "/v3/catalog/products", with(product(), "categories", json!([7])), 409),
        (Method::POST, "/v3/catalog/products", with(product(), "variants", json!([])), 422),
        // Members that would be taken without a trace.
        (Method::POST, "/v3/catalog/products", with(product(), "brand_name", json!("Acme")), 422),
        (Method::PUT, "/v3/catalog/products/9", json!({ "brand_name": "Acme" }), 422),
        (Method::POST, "/v2/customers", with(customer(), "_authentication", json!({})), 400),
        (Method::POST, "/v3/catalog/products/9/variants", json!({ "sku": "a" }), 422),
        (Method::POST, "/v3/catalog/products/9/images", json!({}), 422),
        (Method::POST, "/v3/catalog/products/9/custom-fields", json!({ "name": "a" }), 422),
        (Method::PUT, "/v3/catalog/products/9", json!({ "colour": "red" }), 422),
        (Method::PUT, "/v3/catalog/products", json!([{ "price": 1 }]), 422),
    ]
}

/// The same of orders and carts, and of what is below them.
fn refused_bodies_of_orders() -> Vec<Refused> {
    let line = || json!({ "product_id": 9, "quantity": 1 });
    let custom = || json!({ "name": "Mug", "quantity": 1, "price_inc_tax": 10, "price_ex_tax": 8 });
    let refunds = "/v3/orders/700/payment_actions/refunds";
    let refund = || json!({ "item_type": "ORDER", "item_id": 700, "amount": 1 });
    let of = |item: Value| json!({ "items": [item], "payments": paid(1.0) });
    let jo = json!({ "name": "Jo", "email": "jo@x.com" });
    let gift =
        json!({ "name": "Gift", "theme": "Boy", "amount": 5, "quantity": 2, "sender": jo, "recipient": jo });
    vec![
        (Method::POST, "/v2/orders", order(&json!([{}])), 400),
        (Method::POST, "/v2/orders", order(&json!([{ "product_id": 9 }])), 400),
        (Method::POST, "/v2/orders", order(&json!([{ "product_id": 9, "quantity": 0 }])), 400),
        (Method::POST, "/v2/orders", order(&json!([{ "quantity": 1 }])), 400),
        (Method::POST, "/v2/orders", order(&json!([without(custom(), "price_ex_tax")])), 400),
        (Method::POST, "/v2/orders", order(&json!([with(line(), "colour", json!("red"))])), 400),
        (Method::POST, "/v2/orders", with(order(&json!([line()])), "status_id", json!(15)), 400),
        (Method::POST, "/v2/orders", with(order(&json!([line()])), "total", json!(5)), 400),
        (Method::POST, "/v2/orders", without(order(&json!([line()])), "billing_address"), 400),
        (Method::PUT, "/v2/orders/700", json!({ "status": "Shipped" }), 400),
        (Method::PUT, "/v2/orders/700", json!({ "products": [] }), 400),
        (Method::POST, "/v2/orders/700/shipments", json!({ "order_address_id": 1, "items": [{}] }), 400),
        (Method::POST, "/v3/carts", json!({}), 422),
        (Method::POST, "/v3/carts", json!({ "line_items": [{ "product_id": 9 }] }), 422),
        (Method::POST, "/v3/carts", json!({ "line_items": [{ "product_id": 9, "quantity": 0 }] }), 422),
        (Method::POST, "/v3/carts", json!({ "line_items": line() }), 422),
        (Method::POST, "/v3/carts/c/items", json!({ "line_items": [] }), 422),
        (Method::PUT, "/v3/carts/c", json!({ "a": 2 }), 422),
        (Method::POST, "/v3/carts", json!({ "gift_certificates": [gift] }), 422),
        (Method::POST, refunds, json!({}), 422),
        (Method::POST, refunds, json!({ "items": [refund()] }), 422),
        (Method::POST, refunds, json!({ "items": [refund()], "payments": [] }), 422),
        (Method::POST, refunds, of(without(refund(), "item_id")), 422),
        (Method::POST, refunds, of(with(refund(), "amount", json!("1"))), 422),
        (Method::POST, refunds, with(of(refund()), "reason", json!("of 2021")), 422),
        (
            Method::POST,
            refunds,
            json!({ "items": [refund()], "payments": [{ "provider_id": "a", "amount": 2 }] }),
            422,
        ),
        (Method::POST, "/v3/inventory/adjustments/relative", json!({ "items": [{ "sku": "SKU-9" }] }), 422),
        (Method::POST, "/v3/payments/access_tokens", json!({}), 422),
    ]
}

/// Paths below what is not there, and methods that a path does not have.
fn refused_paths() -> Vec<Refused> {
    let line = || json!({ "line_items": [{ "product_id": 9, "quantity": 1 }] });
    let variant = || json!({ "sku": "a", "option_values": [{ "id": 1, "option_id": 1 }] });
    let shipment = || json!({ "order_address_id": 1, "items": [{ "order_product_id": 1, "quantity": 1 }] });
    let refund = || json!({ "items": [{ "item_type": "ORDER", "item_id": 7, "amount": 1 }] });
    let mut refused = vec![
        (Method::POST, "/v3/carts/nope/items", line(), 404),
        (Method::POST, "/v3/checkouts/nope/orders", json!({}), 404),
        (Method::POST, "/v3/catalog/products/8/variants", variant(), 404),
        (Method::POST, "/v3/catalog/products/8/custom-fields", json!({ "name": "a", "value": "b" }), 404),
        (Method::POST, "/v2/orders/7/shipments", shipment(), 404),
        (Method::POST, "/v2/customers/7/addresses", json!({}), 404),
        (Method::POST, "/v3/orders/7/payment_actions/refunds", refund(), 404),
        (
            Method::PUT,
            "/v3/carts/c/items/nope",
            json!({ "line_item": { "product_id": 1, "quantity": 1 } }),
            404,
        ),
        (Method::PUT, "/v2/orders/700/products/1", json!({ "quantity": 1 }), 405),
        (Method::DELETE, "/v2/orders/700/products/1", Value::Null, 405),
        (Method::DELETE, "/v3/channels/1", Value::Null, 405),
        (Method::DELETE, "/v3/carts/c/items/nope", Value::Null, 404),
        (Method::DELETE, "/v2/orders/7/shipments", Value::Null, 404),
    ];
    for path in [
        "/v3/orders/7/payment_actions/refunds",
        "/v3/orders/7/transactions",
        "/v3/orders/700/transactions/1",
        "/v3/catalog/products/8/variants",
        "/v3/catalog/products/8/images",
        "/v2/orders/7/products",
        "/v2/orders/7/shipments",
        "/v2/orders/7/shipments/count",
        "/v2/customers/7/addresses",
        "/v3/carts/nope",
    ] {
        refused.push((Method::GET, path, Value::Null, 404));
    }
    refused
}

#[tokio::test]
async fn what_is_refused_is_refused_in_the_vendors_form_and_has_no_effect() {
    let fake = fake().await;
    let before = [body_of(&fake, "/v2/orders/700").await, body_of(&fake, "/v3/carts/c").await];
    let all = [refused_bodies(), refused_bodies_of_orders(), refused_paths()].concat();
    for (method, path, body, status) in all {
        let (answered, refused) = ask(&fake, method.clone(), path, &body).await;
        assert_eq!(answered, status, "{method} {path} {body}: {refused}");
        assert!(is_in_the_vendors_form(path, status, &refused), "{method} {path} {body}: {refused}");
    }
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!([body_of(&fake, "/v2/orders/700").await, body_of(&fake, "/v3/carts/c").await], before);
}

#[tokio::test]
async fn a_read_only_member_is_left_out_where_no_refusal_is_documented() {
    let fake = fake().await;
    let made = with(order(&json!([{ "product_id": 9, "quantity": 1 }])), "external_id", json!("mine"));
    assert_eq!(ask(&fake, Method::POST, "/v2/orders", &made).await.1["external_id"], Value::Null);
    let change = json!({ "id": 8, "calculated_price": 1, "price": 12 });
    let changed = ask(&fake, Method::PUT, "/v3/catalog/products/9", &change).await.1["data"].clone();
    shows(&changed, &json!({ "id": 9, "calculated_price": 12 }));
}

type Made = (&'static str, &'static str, fn() -> Value);

/// One of each resource: its name in the contract, where it is made, and the least that it is made of.
const MADE: [Made; 21] = [
    ("v2/orders", "/v2/orders", || order(&json!([{ "product_id": 9, "quantity": 1 }]))),
    (
        "v2/orders/{}/shipments",
        "/v2/orders/700/shipments",
        || json!({ "order_address_id": "1", "items": [{ "order_product_id": 1, "quantity": 1 }] }),
    ),
    ("v2/coupons", "/v2/coupons", coupon),
    (
        "v2/gift_certificates",
        "/v2/gift_certificates",
        || json!({ "to_name": "a", "to_email": "a@x.com", "from_name": "b", "from_email": "b@x.com", "amount": 5 }),
    ),
    ("v2/customers", "/v2/customers", || with(customer(), "email", json!("v2@x.com"))),
    ("v2/customers/{}/addresses", "/v2/customers/V2/addresses", || {
        json!({
            "first_name": "a", "last_name": "b", "street_1": "c", "city": "d", "state": "e", "zip": "f", "country": "g",
            "phone": "1",
        })
    }),
    ("v2/customer_groups", "/v2/customer_groups", || json!({ "name": "a" })),
    ("v2/pages", "/v2/pages", || json!({ "name": "a", "body": "b", "type": "page" })),
    ("v2/redirects", "/v2/redirects", || json!({ "path": "/a", "forward": { "type": "manual" } })),
    ("v2/products", "/v2/products", || {
        json!({
            "name": "a", "price": "1", "categories": [1], "type": "physical", "availability": "available", "weight": 1,
        })
    }),
    ("v2/brands", "/v2/brands", || json!({ "name": "a" })),
    ("v2/categories", "/v2/categories", || json!({ "name": "a" })),
    ("v2/hooks", "/v2/hooks", || json!({ "scope": "store/cart/*", "destination": "http://127.0.0.1:9/" })),
    (
        "v3/catalog/products",
        "/v3/catalog/products",
        || json!({ "name": "a", "type": "physical", "weight": 1, "price": 10 }),
    ),
    (
        "v3/catalog/products/{}/variants",
        "/v3/catalog/products/9/variants",
        || json!({ "sku": "v", "option_values": [{ "id": 1, "option_id": 1 }] }),
    ),
    (
        "v3/catalog/products/{}/images",
        "/v3/catalog/products/9/images",
        || json!({ "image_url": "http://x.com/a.png" }),
    ),
    (
        "v3/catalog/products/{}/custom-fields",
        "/v3/catalog/products/9/custom-fields",
        || json!({ "name": "a", "value": "b" }),
    ),
    ("v3/catalog/brands", "/v3/catalog/brands", || json!({ "name": "a" })),
    ("v3/catalog/categories", "/v3/catalog/categories", || json!({ "name": "a", "parent_id": 0 })),
    ("v3/pricelists", "/v3/pricelists", || json!({ "name": "a" })),
    ("v3/hooks", "/v3/hooks", || json!({ "scope": "store/order/*", "destination": "http://127.0.0.1:9/" })),
];

/// More of them: several at once, those that only a payment makes, and those without a list.
const MORE: [Made; 5] = [
    ("v3/customers", "/v3/customers", || json!([customer()])),
    ("v3/customers/addresses", "/v3/customers/addresses", || {
        json!([{
            "customer_id": 0, "first_name": "a", "last_name": "b", "address1": "c", "city": "d", "country_code": "US",
            "state_or_province": "e", "postal_code": "f",
        }])
    }),
    ("v3/channels", "/v3/channels", || json!({ "name": "a", "type": "pos", "platform": "square" })),
    ("v3/carts", "/v3/carts", || {
        // Its product has a variant by now.
        let selected = json!([{ "option_id": 1, "option_value": 1 }]);
        json!({ "line_items": [{ "product_id": 9, "quantity": 1, "option_selections": selected }] })
    }),
    (
        "v3/orders/{}/payment_actions/refunds",
        "/v3/orders/700/payment_actions/refunds",
        || json!({ "items": [{ "item_type": "ORDER", "item_id": 700, "amount": 1 }], "payments": paid(1.0) }),
    ),
];

/// The objects of an answer.
fn objects(answer: &Value) -> Vec<Value> {
    match answer.get("data").unwrap_or(answer) {
        Value::Array(rows) => rows.clone(),
        object => vec![object.clone()],
    }
}

fn members(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().cloned().collect()
}

#[tokio::test]
async fn every_answer_has_the_members_of_the_contract_and_no_others() {
    let file: Value = serde_json::from_str(include_str!("../../fixtures/bigcommerce_contract.json")).unwrap();
    let expected = |name: &str| members(&file[name]["answer"]);
    let fake = fake().await;
    let mut seen: BTreeSet<String> = ["v2/time", "v2/store"].map(str::to_owned).into();
    let (mut v2, mut v3) = (Value::Null, Value::Null);
    for (name, path, body) in MADE.into_iter().chain(MORE) {
        let path = path.replace("V2", &v2.to_string());
        let body = body().to_string().replace("\"customer_id\":0", &format!("\"customer_id\":{v3}"));
        let (status, made) = ask(&fake, Method::POST, &path, &serde_json::from_str(&body).unwrap()).await;
        let documented = &file[name]["create"]["status"];
        assert_eq!(*documented, status, "{path}: {made}");
        let made = objects(&made);
        match name {
            "v2/customers" => v2 = made[0]["id"].clone(),
            "v3/customers" => v3 = made[0]["id"].clone(),
            _ => {}
        }
        let id = made[0]["id"].as_str().map_or_else(|| made[0]["id"].to_string(), str::to_owned);
        let one = body_of(&fake, &format!("{path}/{id}")).await;
        let listed = body_of(&fake, &path).await;
        // An object that has no path of its own is in the list, and the other way round.
        let shown =
            [one, listed].iter().flat_map(objects).filter(|one| one.get("id").is_some()).collect::<Vec<_>>();
        assert!(!shown.is_empty(), "{path} shows nothing");
        for object in made.iter().chain(&shown) {
            assert_eq!(members(object), expected(name), "{path}");
        }
        seen.insert(name.to_owned());
    }
    for (name, path) in [
        ("v2/orders/{}/products", "/v2/orders/700/products"),
        ("v2/orders/{}/shipping_addresses", "/v2/orders/700/shipping_addresses"),
        ("v2/orders", "/v2/orders/700"),
        ("v3/catalog/products", "/v3/catalog/products/9"),
        ("v3/carts", "/v3/carts/c"),
        ("v2/store", "/v2/store"),
        ("v2/time", "/v2/time"),
        ("v3/orders/{}/transactions", "/v3/orders/700/transactions"),
    ] {
        if name == "v3/orders/{}/transactions" {
            pay(&fake).await;
        }
        for object in objects(&body_of(&fake, path).await) {
            assert_eq!(members(&object), expected(name), "{path}");
        }
        seen.insert(name.to_owned());
    }
    let all = file.as_object().unwrap().iter().filter(|(_, resource)| resource.get("answer").is_some());
    assert_eq!(seen, all.map(|(name, _)| name.clone()).collect(), "each resource of the contract");
}

/// Pays for the order 700.
async fn pay(fake: &BigCommerceFake) {
    assert_eq!(ask(fake, Method::PUT, "/v2/orders/700", &json!({ "status_id": 0 })).await.0, 200);
    let token = json!({ "order": { "id": 700 } });
    let token = ask(fake, Method::POST, "/v3/payments/access_tokens", &token).await.1["data"]["id"].clone();
    let card = json!({ "payment_method_id": "a", "instrument": { "type": "stored_card", "token": "t" } });
    let paid = answers::client()
        .post(format!("{}/stores/hash/payments", fake.url()))
        .header("Authorization", format!("PAT {}", token.as_str().unwrap()))
        .body(json!({ "payment": card }).to_string());
    assert_eq!(paid.send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn a_line_of_a_cart_has_the_members_of_its_kind() {
    let file: Value = serde_json::from_str(include_str!("../../fixtures/bigcommerce_contract.json")).unwrap();
    let fake = fake().await;
    let digital = json!({ "name": "Song", "type": "digital", "weight": 0, "price": 2 });
    let digital = ask(&fake, Method::POST, "/v3/catalog/products", &digital).await.1["data"]["id"].clone();
    let jo = json!({ "name": "Jo", "email": "jo@x.com" });
    let cart = json!({
        "line_items": [{ "product_id": 9, "quantity": 2 }, { "product_id": digital, "quantity": 1 }],
        "custom_items": [{ "name": "Mug", "quantity": 3, "list_price": 4 }],
        "gift_certificates": [
            { "name": "Gift", "theme": "Boy", "amount": 5, "quantity": 1, "sender": jo, "recipient": jo },
        ],
    });
    let cart = ask(&fake, Method::POST, "/v3/carts", &cart).await.1["data"].clone();
    for (list, line) in cart["line_items"].as_object().unwrap() {
        assert_eq!(line.as_array().unwrap().len(), 1, "{list}");
        assert_eq!(members(&line[0]), members(&file["v3/carts"]["line_answers"][list]), "{list}");
        assert!(uuid::Uuid::parse_str(line[0]["id"].as_str().unwrap()).is_ok(), "{list}");
    }
    assert_eq!(cart["cart_amount"], 2.0 * 10.0 + 2.0 + 3.0 * 4.0 + 5.0);
}
