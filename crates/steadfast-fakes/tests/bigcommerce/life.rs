//! The life of orders, carts and stock at the BigCommerce fake: money, quantities and statuses add up, and webhooks
//! tell of it at once, late, twice and out of order.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::BigCommerceFake;
use steadfast_testkit::TestClock;

use crate::asks::{ask, body_of, made, paid};
use support::answers::{self, order_webhooks, shows};
use support::receiver::{Receiver, Webhook};

/// An order of three mugs at 10, and one cup at 5.
fn order() -> Value {
    json!({
        "billing_address": { "zip": "12345" }, "shipping_addresses": [{ "street_1": "Elm Street" }],
        "products": [
            { "name": "Mug", "quantity": 3, "price_inc_tax": 10, "price_ex_tax": 8 },
            { "name": "Cup", "quantity": 1, "price_inc_tax": 5, "price_ex_tax": 4 },
        ],
    })
}

fn of<'a>(order: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    names.iter().map(|name| &order[*name]).collect()
}

#[tokio::test]
async fn an_order_adds_up_to_its_products() {
    let fake = BigCommerceFake::builder().product(9).start().await;
    let order = made(&fake, "/v2/orders", &order()).await;
    let names =
        ["total_inc_tax", "total_ex_tax", "total_tax", "items_total", "shipping_address_count", "status"];
    let sums = json!(["35.0000", "28.0000", "7.0000", 4, 1, "Pending"]);
    assert_eq!(json!(of(&order, &names)), sums);
    let products = body_of(&fake, &format!("/v2/orders/{}/products", order["id"])).await;
    shows(&products[0], &json!({ "total_inc_tax": "30.0000", "price_tax": "2.0000" }));
    let address = body_of(&fake, &format!("/v2/orders/{}/shipping_addresses", order["id"])).await[0].clone();
    assert_eq!((&address["id"], &address["items_total"]), (&products[1]["order_address_id"], &json!(4)));

    // The price and the name of a product of the catalog are there.
    let sent = json!({ "billing_address": { "zip": "1" }, "products": [{ "product_id": 9, "quantity": 2 }] });
    let order = made(&fake, "/v2/orders", &sent).await;
    let product = body_of(&fake, &format!("/v2/orders/{}/products", order["id"])).await[0].clone();
    assert_eq!((&order["total_inc_tax"], &product["name"]), (&json!("20.0000"), &json!("Product 9")));
    assert_eq!(product["sku"], "SKU-9");
}

#[tokio::test]
async fn an_orders_post_answers_201_or_as_the_specification_has_it_200() {
    for (builder, status) in
        [(BigCommerceFake::builder(), 201), (BigCommerceFake::builder().orders_answer_ok(), 200)]
    {
        let fake = builder.start().await;
        let (answered, made) = ask(&fake, Method::POST, "/v2/orders", &order()).await;
        assert_eq!((answered, &made["items_total"], fake.ledger().count()), (status, &json!(4), 1));
        let refused = ask(&fake, Method::POST, "/v2/orders", &json!({})).await;
        assert_eq!(refused.0, 400);
    }
}

#[tokio::test]
async fn a_refund_changes_the_status_the_amount_and_the_products_of_its_order() {
    let names = ["status_id", "status", "payment_status", "refunded_amount"];
    for stays in [false, true] {
        let builder = BigCommerceFake::builder();
        let fake = if stays { builder.refunded_amount_stays_zero() } else { builder }.start().await;
        let id = made(&fake, "/v2/orders", &order()).await["id"].clone();
        let (order, products) = (format!("/v2/orders/{id}"), format!("/v2/orders/{id}/products"));
        let mug = body_of(&fake, &products).await[0]["id"].clone();
        let refunds = format!("/v3/orders/{id}/payment_actions/refunds");
        for (item, given, status, amount) in [
            (json!({ "item_type": "PRODUCT", "item_id": mug, "quantity": 1 }), 10.0, 14, "10.0000"),
            (json!({ "item_type": "ORDER", "item_id": id, "amount": 5 }), 5.0, 14, "15.0000"),
            (json!({ "item_type": "PRODUCT", "item_id": mug, "quantity": 2 }), 20.0, 4, "35.0000"),
        ] {
            let sent = json!({ "items": [item], "payments": paid(given) });
            let refund = made(&fake, &refunds, &sent).await;
            assert_eq!(refund["order_id"], id);
            let payment = if status == 4 { "refunded" } else { "partially refunded" };
            let name = if status == 4 { "Refunded" } else { "Partially Refunded" };
            let shown = if stays { "0.0000" } else { amount };
            let held = body_of(&fake, &order).await;
            assert_eq!(json!(of(&held, &names)), json!([status, name, payment, shown]), "{item}");
        }
        let mug = body_of(&fake, &products).await[0].clone();
        let refunded = json!(of(&mug, &["quantity_refunded", "is_refunded", "refund_amount"]));
        assert_eq!(refunded, json!([3, true, "30.0000"]));
        let over = json!({ "item_type": "ORDER", "item_id": id, "amount": 0.01 });
        let over = json!({ "items": [over], "payments": paid(0.01) });
        assert_eq!(ask(&fake, Method::POST, &refunds, &over).await.0, 422);
    }
}

#[tokio::test]
async fn a_shipment_counts_what_is_shipped_and_ships_no_more_than_was_ordered() {
    let fake = BigCommerceFake::start().await;
    let id = made(&fake, "/v2/orders", &order()).await["id"].clone();
    let path = |part: &str| format!("/v2/orders/{id}{part}");
    let products = body_of(&fake, &path("/products")).await;
    let address = &products[0]["order_address_id"];
    let of_mug = |quantity: u64| json!({ "order_product_id": products[0]["id"], "quantity": quantity });
    let of_cup = json!({ "order_product_id": products[1]["id"], "quantity": 1 });
    let shipment = |items: Value| json!({ "order_address_id": address, "items": items });
    let counts = async || {
        let (order, products) = (body_of(&fake, &path("")).await, body_of(&fake, &path("/products")).await);
        let address = body_of(&fake, &path("/shipping_addresses")).await[0].clone();
        json!([
            order["items_shipped"],
            order["status"],
            products[0]["quantity_shipped"],
            address["items_shipped"]
        ])
    };
    let first = made(&fake, &path("/shipments"), &shipment(json!([of_mug(2)]))).await;
    assert_eq!(counts().await, json!([2, "Partially Shipped", 2, 2]));
    assert_eq!(
        (&first["items"][0]["quantity"], &first["shipping_address"]["street_1"]),
        (&json!(2), &json!("Elm Street"))
    );
    for wrong in [
        shipment(json!([of_mug(2)])),
        shipment(json!([of_mug(1), of_mug(1)])),
        shipment(json!([of_mug(0)])),
        shipment(json!([{ "order_product_id": 7, "quantity": 1 }])),
        json!({ "order_address_id": 7, "items": [of_cup] }),
    ] {
        assert_eq!(ask(&fake, Method::POST, &path("/shipments"), &wrong).await.0, 400, "{wrong}");
    }
    assert_eq!(counts().await, json!([2, "Partially Shipped", 2, 2]));
    made(&fake, &path("/shipments"), &shipment(json!([of_mug(1), of_cup]))).await;
    assert_eq!(counts().await, json!([4, "Shipped", 3, 4]));
    assert!(body_of(&fake, &path("")).await["date_shipped"].as_str().unwrap().ends_with("+0000"));

    // "Deleting a shipment does not move the order out of shipped status."
    let first = path(&format!("/shipments/{}", first["id"]));
    assert_eq!(ask(&fake, Method::DELETE, &first, &Value::Null).await.0, 204);
    assert_eq!(counts().await, json!([2, "Shipped", 1, 2]));
}

#[tokio::test]
async fn a_change_of_stock_is_of_what_the_store_holds_and_of_all_items_or_none() {
    let fake = BigCommerceFake::builder().product(9).product(10).start().await;
    let level = async |id: u32| {
        body_of(&fake, &format!("/v3/catalog/products/{id}")).await["data"]["inventory_level"].clone()
    };
    let item =
        |name: &str, id: Value, quantity: i64| json!({ "location_id": 1, name: id, "quantity": quantity });
    let relative = "/v3/inventory/adjustments/relative";
    for (items, status, levels) in [
        (json!([item("sku", json!("SKU-9"), -3), item("product_id", json!(10), 5)]), 200, [997, 1005]),
        (json!([item("product_id", json!(9), 1), item("product_id", json!(9), 1)]), 200, [999, 1005]),
        (json!([item("product_id", json!(9), 1), item("sku", json!("none"), 1)]), 422, [999, 1005]),
        (json!([item("product_id", json!(9), 1), item("variant_id", json!(9), 1)]), 422, [999, 1005]),
        (json!([item("product_id", json!(9), -1000)]), 422, [999, 1005]),
        (json!([{ "location_id": 2, "product_id": 9, "quantity": 1 }]), 422, [999, 1005]),
        (json!([{ "location_id": 1, "product_id": 9, "sku": "SKU-9", "quantity": 1 }]), 422, [999, 1005]),
    ] {
        let (answered, answer) = ask(&fake, Method::POST, relative, &json!({ "items": items })).await;
        assert_eq!((answered, answer["transaction_id"].is_string()), (status, status == 200), "{items}");
        assert_eq!([level(9).await, level(10).await], levels.map(Value::from), "{items}");
    }
    let absolute = json!({ "items": [item("sku", json!("SKU-9"), 7)] });
    assert_eq!(ask(&fake, Method::PUT, "/v3/inventory/adjustments/absolute", &absolute).await.0, 200);
    assert_eq!((level(9).await, fake.ledger().count()), (json!(7), 3));

    // A variant has its own stock where the product is tracked by variants, and none else.
    let variant = json!({ "sku": "v", "option_values": [{ "id": 1, "option_id": 1 }], "inventory_level": 1 });
    let variant = made(&fake, "/v3/catalog/products/9/variants", &variant).await;
    let adjust = json!({ "items": [item("variant_id", variant["id"].clone(), 2)] });
    for (tracking, status, level) in [("product", 422, 1), ("variant", 200, 3)] {
        let change = json!({ "inventory_tracking": tracking });
        ask(&fake, Method::PUT, "/v3/catalog/products/9", &change).await;
        assert_eq!(ask(&fake, Method::POST, relative, &adjust).await.0, status, "{tracking}");
        let held = body_of(&fake, &format!("/v3/catalog/products/9/variants/{}", variant["id"])).await;
        assert_eq!(held["data"]["inventory_level"], level, "{tracking}");
    }
}

#[tokio::test]
async fn a_cart_has_a_uuid_a_list_for_each_kind_of_line_and_a_version_that_a_change_may_name() {
    let fake = BigCommerceFake::start().await;
    let mug = |quantity: u64| json!({ "product_id": 1, "quantity": quantity, "list_price": 10 });
    let cart = made(&fake, "/v3/carts", &json!({ "line_items": [mug(2)] })).await;
    let id = cart["id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    assert_eq!(json!(of(&cart, &["cart_amount", "version"])), json!([20.0, 1]));
    let path = |part: &str| format!("/v3/carts/{id}{part}");

    let more = json!({ "custom_items": [{ "name": "Cup", "quantity": 1, "list_price": 5 }], "version": 1 });
    let cart = made(&fake, &path("/items"), &more).await;
    assert_eq!(json!(of(&cart, &["cart_amount", "version"])), json!([25.0, 2]));
    for (method, part, body) in
        [(Method::POST, "/items", more.clone()), (Method::PUT, "", json!({ "customer_id": 7, "version": 1 }))]
    {
        let (status, refused) = ask(&fake, method, &path(part), &body).await;
        assert_eq!((status, &refused["status"]), (409, &json!(409)), "another came between");
    }
    let line = |list: &str| path(&format!("/items/{}", cart["line_items"][list][0]["id"].as_str().unwrap()));
    let (physical, custom) = (line("physical_items"), line("custom_items"));
    let (status, changed) = ask(&fake, Method::PUT, &physical, &json!({ "line_item": mug(3) })).await;
    assert_eq!((status, &changed["data"]["cart_amount"]), (200, &json!(35.0)));
    assert_eq!(ask(&fake, Method::PUT, &custom, &json!({ "line_item": mug(3) })).await.0, 422);
    let (status, changed) = ask(&fake, Method::DELETE, &physical, &Value::Null).await;
    assert_eq!((status, &changed["data"]["cart_amount"]), (200, &json!(5.0)));
    assert_eq!(ask(&fake, Method::DELETE, &custom, &Value::Null).await.0, 204);
    assert_eq!(ask(&fake, Method::GET, &path(""), &Value::Null).await.0, 404, "the last line is gone");
}

#[tokio::test]
async fn a_paid_order_ends_the_cart_that_it_came_from() {
    let fake = BigCommerceFake::builder().cart("c").start().await;
    let order = made(&fake, "/v3/checkouts/c/orders", &Value::Null).await["id"].clone();
    let held = body_of(&fake, &format!("/v2/orders/{order}")).await;
    assert_eq!(json!(of(&held, &["cart_id", "status"])), json!(["c", "Incomplete"]));
    let token = made(&fake, "/v3/payments/access_tokens", &json!({ "order": { "id": order } })).await;
    let card = json!({ "payment_method_id": "a", "instrument": { "type": "stored_card", "token": "t" } });
    let pay = answers::client()
        .post(format!("{}/stores/hash/payments", fake.url()))
        .header("Authorization", format!("PAT {}", token["id"].as_str().unwrap()))
        .body(json!({ "payment": card }).to_string());
    assert_eq!(pay.send().await.unwrap().status(), 201);
    assert_eq!(ask(&fake, Method::GET, "/v3/carts/c", &Value::Null).await.0, 404);
    assert_eq!(body_of(&fake, &format!("/v2/orders/{order}")).await["status"], "Awaiting Fulfillment");
}

fn scopes_of(sent: &[Webhook]) -> Vec<&str> {
    sent.iter().map(|webhook| webhook.body["scope"].as_str().unwrap()).collect()
}

fn field<'a>(webhook: &'a Webhook, name: &str) -> &'a str {
    webhook.headers[name].to_str().unwrap()
}

/// A fake that tells a receiver of these scopes, when it is ordered to.
async fn told(clock: &TestClock, scopes: &[&str]) -> (BigCommerceFake, Receiver) {
    let builder = BigCommerceFake::builder().test_clock(clock).order(700).product(9).cart("c");
    let (fake, (receiver, url)) = (builder.start().await, Receiver::listen().await);
    for scope in scopes {
        let hook = made(&fake, "/v3/hooks", &json!({ "scope": scope, "destination": url })).await;
        shows(&hook, &json!({ "is_active": true, "store_hash": "hash" }));
    }
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    (fake, receiver)
}

#[tokio::test]
async fn a_webhook_comes_late_twice_and_out_of_order_when_it_is_ordered_and_is_signed_when_it_is_sent() {
    let clock = TestClock::new();
    let (fake, receiver) = told(&clock, &["store/order/created", "store/order/statusUpdated"]).await;
    let id = made(&fake, "/v2/orders", &order()).await["id"].clone();
    let change = json!({ "status_id": 11 });
    assert_eq!(ask(&fake, Method::PUT, &format!("/v2/orders/{id}"), &change).await.0, 200);
    assert_eq!(receiver.taken().len(), 0, "they wait");

    clock.advance(Duration::from_secs(3600));
    let told = order_webhooks(fake.url(), &json!({ "newest_first": true, "times": 2 })).await;
    let sent = receiver.taken();
    let expected = [
        "store/order/statusUpdated",
        "store/order/statusUpdated",
        "store/order/created",
        "store/order/created",
    ];
    assert_eq!(scopes_of(&sent), expected);
    assert_eq!((&sent[0], &sent[2]), (&sent[1], &sent[3]), "the same bytes under the same signature");
    let status = json!({ "previous_status_id": 1, "new_status_id": 11 });
    assert_eq!(sent[0].body["data"], json!({ "type": "order", "id": id, "status": status }));
    assert_eq!(sent[2].body["data"], json!({ "type": "order", "id": id }));
    for webhook in &sent {
        let body = &webhook.body;
        assert_eq!(field(webhook, "webhook-id"), body["hash"].as_str().unwrap());
        // It was signed an hour after the order was made.
        let late = field(webhook, "webhook-timestamp").parse::<u64>().unwrap()
            - body["created_at"].as_u64().unwrap();
        assert_eq!(late, 3600);
    }
    // That the signature is right is for another's code to say, in `tests/sdk`. Here: the event and the time count.
    let signature = |at: usize| field(&sent[at], "webhook-signature");
    assert!(signature(0).starts_with("v1,") && signature(0).len() == 3 + 44, "32 bytes in base64");
    assert_ne!(signature(0), signature(2));
    order_webhooks(fake.url(), &json!({ "send": [told["deliveries"][0]["id"]], "signed_ago_s": 600 })).await;
    let again = receiver.taken();
    assert_eq!((again.len(), &again[0].body), (1, &sent[2].body), "on demand, again");
    assert_ne!(field(&again[0], "webhook-signature"), signature(2));
}

#[tokio::test]
async fn each_change_is_told_in_the_scopes_that_document_it() {
    let clock = TestClock::new();
    let all = [
        "store/cart/*",
        "store/category/*",
        "store/customer/*",
        "store/order/*",
        "store/product/*",
        "store/shipment/*",
        "store/sku/*",
        "store/priceList/created",
    ];
    let (fake, receiver) = told(&clock, &all).await;
    let customer = json!([{ "email": "a@x.com", "first_name": "a", "last_name": "b" }]);
    let shipment = json!({ "order_address_id": 1, "items": [{ "order_product_id": 1, "quantity": 1 }] });
    let refund = json!({ "item_type": "ORDER", "item_id": 700, "amount": 1 });
    let refund = json!({ "items": [refund], "payments": paid(1.0) });
    let variant = json!({ "sku": "v", "option_values": [{ "id": 1, "option_id": 1 }] });
    let stock = json!({ "items": [{ "location_id": 1, "product_id": 9, "quantity": 1 }] });
    let selected = json!([{ "option_id": 1, "option_value": 1 }]);
    let line = json!({ "line_items": [{ "product_id": 9, "quantity": 1, "option_selections": selected }] });
    for (method, path, body, scopes) in [
        (Method::POST, "/v2/orders", order(), vec!["order/created"]),
        (Method::PUT, "/v2/orders/700", json!({ "staff_notes": "a" }), vec!["order/updated"]),
        (
            Method::POST,
            "/v2/orders/700/shipments",
            shipment,
            vec!["shipment/created", "order/updated", "order/statusUpdated"],
        ),
        (
            Method::POST,
            "/v3/orders/700/payment_actions/refunds",
            refund,
            vec!["order/refund/created", "order/updated", "order/statusUpdated"],
        ),
        (Method::POST, "/v3/catalog/products/9/variants", variant, vec!["sku/created"]),
        (Method::POST, "/v3/inventory/adjustments/relative", stock, vec!["product/inventory/updated"]),
        (Method::PUT, "/v3/catalog/products/9", json!({ "price": 3 }), vec!["product/updated"]),
        (Method::POST, "/v3/carts/c/items", line, vec!["cart/updated", "cart/lineItem/created"]),
        (Method::DELETE, "/v3/carts/c", Value::Null, vec!["cart/deleted"]),
        (Method::POST, "/v3/customers", customer, vec!["customer/created"]),
        (
            Method::POST,
            "/v3/catalog/categories",
            json!({ "name": "a", "parent_id": 0 }),
            vec!["category/created"],
        ),
        (Method::POST, "/v3/catalog/brands", json!({ "name": "a" }), vec![]),
        (Method::POST, "/v3/pricelists", json!({ "name": "a" }), vec!["priceList/created"]),
        (Method::DELETE, "/v2/orders/700", Value::Null, vec!["order/archived"]),
    ] {
        let (status, answer) = ask(&fake, method.clone(), path, &body).await;
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
        order_webhooks(fake.url(), &json!({})).await;
        let scopes: Vec<String> = scopes.iter().map(|scope| format!("store/{scope}")).collect();
        assert_eq!(scopes_of(&receiver.taken()), scopes, "{method} {path}");
    }
    let hashes = order_webhooks(fake.url(), &json!({ "hold": true })).await["deliveries"].clone();
    let mut hashes: Vec<String> =
        hashes.as_array().unwrap().iter().map(|one| one["id"].to_string()).collect();
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "each event has a hash of its own");
}

#[tokio::test]
async fn a_scope_that_is_never_fired_cannot_be_registered() {
    let fake = BigCommerceFake::start().await;
    for (scope, destination, status) in [
        ("store/order/*", "https://shop.example.com/hook", 200),
        ("store/order/updated", "https://shop.example.com/hook", 200),
        ("store/order/deleted", "https://shop.example.com/hook", 422),
        ("store/order/message/created", "https://shop.example.com/hook", 422),
        ("store/cart/abandoned", "https://shop.example.com/hook", 422),
        ("store/*", "https://shop.example.com/hook", 422),
        ("orders", "https://shop.example.com/hook", 422),
        ("store/order/*", "nowhere", 422),
    ] {
        let hook = json!({ "scope": scope, "destination": destination });
        let (answered, answer) = ask(&fake, Method::POST, "/v3/hooks", &hook).await;
        assert_eq!(answered, status, "{scope}: {answer}");
    }
    let hooks = body_of(&fake, "/v3/hooks").await["data"].clone();
    let hook = format!("/v3/hooks/{}", hooks[0]["id"]);
    assert_eq!(ask(&fake, Method::PUT, &hook, &json!({ "scope": "store/cart/abandoned" })).await.0, 422);
    // "When a webhook is deleted, it is returned in the response as a 200 OK."
    let (status, gone) = ask(&fake, Method::DELETE, &hook, &Value::Null).await;
    assert_eq!((status, &gone["data"], hooks.as_array().unwrap().len()), (200, &hooks[0], 2));
}
