//! Stock and ids at the BigCommerce fake: what an order takes and gives back, what it must name, and who is told.

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::{BigCommerceFake, FakeBuilder};

use crate::asks::paid;
use crate::store::Store;
use support::answers::shows;

/// A store that holds the product 1, the customer 7 and a cart of one of that product.
fn open(settings: impl FnOnce(FakeBuilder<BigCommerceFake>) -> FakeBuilder<BigCommerceFake>) -> Store {
    Store::of(settings(BigCommerceFake::builder().product(1).customer(7).cart("cart-1")))
}

impl Store {
    async fn put(&self, path: &str, body: Value) -> u16 {
        self.ask(Method::PUT, path, body).await.0
    }

    async fn level(&self, path: &str) -> Value {
        self.ask(Method::GET, path, Value::Null).await.1["data"]["inventory_level"].clone()
    }
}

fn order(quantity: u64, more: &Value) -> Value {
    let mut order = json!({
        "billing_address": { "zip": "12345" }, "shipping_addresses": [{ "street_1": "Elm Street" }],
        "products": [{ "product_id": 1, "quantity": quantity }],
    });
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

const SHORT: &str =
    "Quantities of one or more products are out of stock or did not meet quantity requirements.";

#[tokio::test]
async fn an_order_takes_its_stock_and_is_refused_where_there_is_too_little() {
    let store = open(|builder| builder);
    store.made("/v2/orders", order(400, &json!({}))).await;
    assert_eq!(store.stock(1).await, 600);
    let refused = store.ask(Method::POST, "/v2/orders", order(601, &json!({}))).await;
    assert_eq!(refused, (400, json!([{ "status": 400, "message": SHORT }])));
    // Two lines of one product count together.
    let two = json!([{ "product_id": 1, "quantity": 300 }, { "product_id": 1, "quantity": 301 }]);
    assert_eq!(store.ask(Method::POST, "/v2/orders", order(0, &json!({ "products": two }))).await.0, 400);
    assert_eq!((store.stock(1).await, store.fake.ledger().count()), (json!(600), 1));
    store.made("/v2/orders", order(600, &json!({}))).await;
    assert_eq!(store.stock(1).await, 0);
    // A product that is not tracked has no stock to be taken.
    assert_eq!(store.put("/v3/catalog/products/1", json!({ "inventory_tracking": "none" })).await, 200);
    store.made("/v2/orders", order(5, &json!({}))).await;
    assert_eq!(store.stock(1).await, 0);
}

#[tokio::test]
async fn a_product_has_a_least_and_a_most_that_is_ordered_at_once() {
    let store = open(|builder| builder);
    let bounds = json!({ "order_quantity_minimum": 2, "order_quantity_maximum": 5 });
    assert_eq!(store.put("/v3/catalog/products/1", bounds).await, 200);
    for (quantity, status) in [(1, 400), (2, 201), (5, 201), (6, 400)] {
        let answered = store.ask(Method::POST, "/v2/orders", order(quantity, &json!({}))).await;
        assert_eq!(answered.0, status, "{quantity}");
    }
}

#[tokio::test]
async fn an_order_of_a_variant_takes_the_stock_of_that_variant() {
    let store = open(|builder| builder);
    assert_eq!(store.put("/v3/catalog/products/1", json!({ "inventory_tracking": "variant" })).await, 200);
    let variants = "/v3/catalog/products/1/variants";
    let values = json!([{ "id": 9, "option_id": 3, "label": "Red", "option_display_name": "Color" }]);
    let red = json!({ "sku": "RED", "inventory_level": 10, "option_values": values });
    let red = store.made(variants, red).await["id"].clone();
    let blue = json!({ "sku": "BLUE", "inventory_level": 10, "option_values": [{ "id": 10, "option_id": 3, "label": "Blue" }] });
    let blue = store.made(variants, blue).await["id"].clone();
    let one = |names: Value| {
        let mut line = json!({ "product_id": 1, "quantity": 2 });
        line.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        order(0, &json!({ "products": [line] }))
    };
    for names in [
        json!({ "variant_id": red }),
        json!({ "product_options": [{ "id": 3, "value": "9" }] }),
        json!({ "sku": "RED" }),
    ] {
        store.made("/v2/orders", one(names)).await;
    }
    let levels = [
        store.level(&format!("{variants}/{red}")).await,
        store.level(&format!("{variants}/{blue}")).await,
        store.stock(1).await,
    ];
    assert_eq!(levels, [json!(4), json!(10), json!(1000)]);
    for (names, said) in [
        (json!({}), "The options of one or more products are invalid."),
        (json!({ "variant_id": 999 }), "The options of one or more products are invalid."),
        (json!({ "variant_id": red, "quantity": 5 }), SHORT),
    ] {
        let refused = store.ask(Method::POST, "/v2/orders", one(names)).await;
        assert_eq!(refused, (400, json!([{ "status": 400, "message": said }])));
    }
}

#[tokio::test]
async fn an_order_that_is_not_paid_takes_its_stock_with_its_payment() {
    let store = open(|builder| builder);
    let id = store.made("/v3/checkouts/cart-1/orders", json!({})).await["id"].clone();
    assert_eq!(store.stock(1).await, 1000);
    let token =
        store.made("/v3/payments/access_tokens", json!({ "order": { "id": id } })).await["id"].clone();
    let token = format!("PAT {}", token.as_str().unwrap());
    let payment = json!({ "payment": {
        "instrument": { "type": "stored_card", "token": "t" }, "payment_method_id": "fake.card" } });
    let pay = async || {
        store.ask_as("authorization", &token, Method::POST, "/stores/s/payments", payment.clone()).await
    };
    // Somebody else was faster.
    store.made("/v2/orders", order(1000, &json!({}))).await;
    assert_eq!(
        pay().await,
        (
            422,
            json!({ "status": 422, "title": SHORT,
        "type": "https://developer.bigcommerce.com/api-docs/getting-started/api-status-codes" })
        )
    );
    let more = json!({ "items": [{ "location_id": 1, "product_id": 1, "quantity": 5 }] });
    assert_eq!(store.put("/v3/inventory/adjustments/absolute", more).await, 200);
    let paid = pay().await;
    assert_eq!((paid.0, store.stock(1).await), (201, json!(4)), "{}", paid.1);
    // By its status, too.
    let made = store.made("/v2/orders", order(3, &json!({ "status_id": 0 }))).await;
    assert_eq!(store.stock(1).await, 4);
    let path = format!("/v2/orders/{}", made["id"]);
    for _ in 0..2 {
        assert_eq!(store.put(&path, json!({ "status_id": 11 })).await, 200);
        assert_eq!(store.stock(1).await, 1, "once");
    }
}

#[tokio::test]
async fn an_order_gives_its_stock_back_where_the_store_is_set_to_that() {
    for gives_back in [false, true] {
        let store = open(|builder| if gives_back { builder.returned_orders_restock() } else { builder });
        let after = |quantity: i64| if gives_back { json!(1000) } else { json!(1000 - quantity) };
        let made = store.made("/v2/orders", order(3, &json!({}))).await;
        let path = format!("/v2/orders/{}", made["id"]);
        assert_eq!(store.put(&path, json!({ "status_id": 5 })).await, 200);
        assert_eq!(store.stock(1).await, after(3), "cancelled");
        // It takes it again, and no more than once.
        assert_eq!(store.put(&path, json!({ "status_id": 1 })).await, 200);
        assert_eq!(store.stock(1).await, 997);
        let product =
            store.ask(Method::GET, &format!("{path}/products"), Value::Null).await.1[0]["id"].clone();
        let refunds = format!("/v3/orders/{}/payment_actions/refunds", made["id"]);
        for (quantity, level) in [(1, json!(997)), (2, after(3))] {
            let item = json!({ "item_type": "PRODUCT", "item_id": product, "quantity": quantity });
            let payments = paid(10.0 * f64::from(quantity));
            store.made(&refunds, json!({ "items": [item], "payments": payments })).await;
            assert_eq!(store.stock(1).await, level, "{quantity} refunded");
        }
    }
}

#[tokio::test]
async fn an_order_of_a_product_that_is_no_more_goes_on_and_takes_nothing() {
    let store = open(|builder| builder.returned_orders_restock());
    let made = store.made("/v2/orders", order(3, &json!({ "status_id": 0 }))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    assert_eq!(store.ask(Method::DELETE, "/v3/catalog/products/1", Value::Null).await.0, 204);
    for (status, name) in [(11, "Awaiting Fulfillment"), (5, "Cancelled")] {
        assert_eq!(store.set(&path, json!({ "status_id": status })).await["status"], name);
    }
    assert_eq!(store.ask(Method::GET, "/v3/catalog/products/1", Value::Null).await.0, 404);
}

#[tokio::test]
async fn an_order_takes_its_stock_when_it_is_shipped_where_the_store_is_set_to_that() {
    let store = open(FakeBuilder::<BigCommerceFake>::stock_at_shipment);
    let made = store.made("/v2/orders", order(3, &json!({}))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    let product = store.ask(Method::GET, &format!("{path}/products"), Value::Null).await.1[0].clone();
    let ship = |quantity: u64| {
        let item = json!({ "order_product_id": product["id"], "quantity": quantity });
        json!({ "order_address_id": product["order_address_id"], "items": [item] })
    };
    store.made(&format!("{path}/shipments"), ship(1)).await;
    assert_eq!(store.stock(1).await, 1000, "shipped in part");
    let none = json!({ "items": [{ "location_id": 1, "product_id": 1, "quantity": 0 }] });
    assert_eq!(store.put("/v3/inventory/adjustments/absolute", none).await, 200);
    let refused = store.ask(Method::POST, &format!("{path}/shipments"), ship(2)).await;
    assert_eq!(refused, (400, json!([{ "status": 400, "message": SHORT }])));
    let some = json!({ "items": [{ "location_id": 1, "product_id": 1, "quantity": 4 }] });
    assert_eq!(store.put("/v3/inventory/adjustments/absolute", some).await, 200);
    store.made(&format!("{path}/shipments"), ship(2)).await;
    assert_eq!(store.stock(1).await, 1);
}

#[tokio::test]
async fn an_order_is_of_a_customer_of_the_store_or_of_a_guest() {
    let store = open(|builder| builder);
    let second = json!({ "first_name": "A", "last_name": "B", "email": "a@example.com" });
    let second = store.made("/v2/customers", second).await["id"].clone();
    for (customer, status) in [(json!(7), 201), (second, 201), (json!(0), 201), (json!(8), 400)] {
        let sent = order(1, &json!({ "customer_id": customer }));
        let (answered, told) = store.ask(Method::POST, "/v2/orders", sent).await;
        assert_eq!(answered, status, "{customer}: {told}");
        if status == 400 {
            assert_eq!(told[0]["message"], "The field 'customer_id' is invalid.");
        }
    }
    let made = store.made("/v2/orders", order(1, &json!({}))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    assert_eq!(store.put(&path, json!({ "customer_id": 8 })).await, 400);
    assert_eq!(store.put(&path, json!({ "customer_id": 7 })).await, 200);
}

#[tokio::test]
async fn products_and_carts_are_held_to_the_stores_ids_where_that_is_asked_for() {
    for refuses in [false, true] {
        let store = open(|builder| if refuses { builder.refuse_unknown_ids() } else { builder });
        let line = |product: u64| json!([{ "product_id": product, "quantity": 1 }]);
        for (path, body, is_known) in [
            ("/v2/orders", order(0, &json!({ "products": line(2) })), false),
            ("/v2/orders", order(0, &json!({ "products": line(1) })), true),
            ("/v3/carts", json!({ "line_items": line(2) }), false),
            ("/v3/carts", json!({ "line_items": line(1), "customer_id": 8 }), false),
            ("/v3/carts", json!({ "line_items": line(1), "customer_id": 7 }), true),
            ("/v3/carts", json!({ "line_items": line(1) }), true),
        ] {
            let status = match (refuses && !is_known, path) {
                (true, "/v2/orders") => 400,
                (true, _) => 422,
                (false, _) => 201,
            };
            let answered = store.ask(Method::POST, path, body.clone()).await;
            assert_eq!(answered.0, status, "{path} {body}: {}", answered.1);
        }
        assert_eq!(store.stock(1).await, 999, "carts take nothing");
    }
}

#[tokio::test]
async fn customers_are_removed_by_a_filter_alone() {
    let store = open(|builder| builder);
    let listed = async || {
        store.ask(Method::GET, "/v3/customers", Value::Null).await.1["data"].as_array().unwrap().len()
    };
    // "If not provided, a 204 is returned, with no changes to the data."
    assert_eq!(store.ask(Method::DELETE, "/v3/customers", Value::Null).await.0, 204);
    assert_eq!((listed().await, store.fake.ledger().count()), (1, 0));
    assert_eq!(store.ask(Method::DELETE, "/v3/customers?id:in=7", Value::Null).await.0, 204);
    assert_eq!((listed().await, store.fake.ledger().count()), (0, 1));
}

#[tokio::test]
async fn webhooks_tell_what_an_order_took_and_gave_back() {
    let fake = BigCommerceFake::builder().product(1).returned_orders_restock().start().await;
    let client = reqwest::Client::new();
    let ask = async |method: Method, path: &str, body: Value| -> Value {
        let request = client.request(method, format!("{}{path}", fake.url())).header("X-Auth-Token", "t");
        let answer = request.body(body.to_string()).send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default()
    };
    for scope in ["store/product/inventory/order/updated", "store/product/inventory/updated"] {
        let hook = json!({ "scope": scope, "destination": "https://shop.example/hook" });
        ask(Method::POST, "/stores/s/v3/hooks", hook).await;
    }
    let made = ask(Method::POST, "/stores/s/v2/orders", order(3, &json!({}))).await;
    let path = format!("/stores/s/v2/orders/{}", made["id"]);
    ask(Method::PUT, &path, json!({ "status_id": 5 })).await;
    let told = ask(Method::GET, "/_fake/webhooks", Value::Null).await.to_string();
    let count = |what: &str| told.matches(what).count();
    assert_eq!(
        (count("store/product/inventory/order/updated"), count("store/product/inventory/updated")),
        (2, 0),
        "{told}"
    );
}

/// "In the case where a product is simple, the product is its own variant - called a base variant" (BigCommerce, "Catalog").
#[tokio::test]
async fn a_product_without_options_has_a_base_variant_with_its_sku_and_stock() {
    let store = open(|builder| builder);
    let (one, variants) = ("/v3/catalog/products/1", "/v3/catalog/products/1/variants");
    let read = async |path: &str| store.ask(Method::GET, path, Value::Null).await.1["data"].clone();
    let base = read(one).await["base_variant_id"].clone();
    let names =
        ["sku", "price", "calculated_price", "inventory_level", "sku_id", "option_values", "product_id"];
    let shown = |variant: &Value| names.iter().map(|name| variant[*name].clone()).collect::<Value>();
    let expected = json!(["SKU-1", null, 10, 1000, null, [], 1]);
    let listed = read(variants).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &base));
    assert_eq!(shown(&listed[0]), expected);
    assert_eq!(shown(&read(&format!("{variants}/{base}")).await), expected);
    for path in [format!("{one}?include=variants"), "/v3/catalog/products?include=variants,images".to_owned()]
    {
        let found = read(&path).await;
        let found = if found.is_array() { &found[0] } else { &found };
        assert_eq!(shown(&found["variants"][0]), expected, "{path}");
    }
    assert_eq!(store.ask(Method::GET, &format!("{one}?include=videos"), Value::Null).await.0, 422);

    // By its variant the product is ordered, and its stock changed, whatever it is tracked by.
    let by_variant = json!({ "products": [{ "product_id": 1, "variant_id": base, "quantity": 2 }] });
    let adjust = json!({ "items": [{ "location_id": 1, "variant_id": base, "quantity": -3 }] });
    for (tracking, level) in [("product", 995), ("variant", 990)] {
        assert_eq!(store.put(one, json!({ "inventory_tracking": tracking })).await, 200);
        store.made("/v2/orders", order(0, &by_variant)).await;
        let adjusted = store.ask(Method::POST, "/v3/inventory/adjustments/relative", adjust.clone()).await;
        assert_eq!(adjusted.0, 200, "{tracking}: {}", adjusted.1);
        assert_eq!(
            (store.stock(1).await, &read(variants).await[0]["inventory_level"]),
            (json!(level), &json!(level))
        );
    }
    let made = store.made("/v2/orders", order(1, &json!({}))).await;
    let path = format!("/v2/orders/{}/products", made["id"]);
    assert_eq!(store.ask(Method::GET, &path, Value::Null).await.1[0]["variant_id"], base);

    // Each follows the other.
    assert_eq!(store.put(one, json!({ "price": 12, "sku": "NEW" })).await, 200);
    assert_eq!(store.put(&format!("{variants}/{base}"), json!({ "inventory_level": 7 })).await, 200);
    let variant = read(variants).await[0].clone();
    shows(&variant, &json!({ "sku": "NEW", "calculated_price": 12 }));
    assert_eq!((store.stock(1).await, &variant["inventory_level"]), (json!(7), &json!(7)));
    assert_eq!(store.ask(Method::DELETE, &format!("{variants}/{base}"), Value::Null).await.0, 422);

    // A variant with options takes its place, until it is gone.
    let red = json!({ "sku": "RED", "price": 15, "option_values": [{ "id": 9, "option_id": 3 }] });
    let red = store.made(variants, red).await["id"].clone();
    let listed = read(variants).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &red));
    assert_eq!(
        (&read(one).await["base_variant_id"], &listed[0]["calculated_price"]),
        (&Value::Null, &json!(15))
    );
    let by_red = json!({ "products": [{ "product_id": 1, "variant_id": red, "quantity": 1 }] });
    assert_eq!(store.put(one, json!({ "inventory_tracking": "none" })).await, 200);
    let made = store.made("/v2/orders", order(0, &by_red)).await;
    assert_eq!(made["total_inc_tax"], "15.0000", "the variant has a price of its own");
    assert_eq!(store.ask(Method::DELETE, &format!("{variants}/{red}"), Value::Null).await.0, 204);
    assert_eq!((&read(one).await["base_variant_id"], &read(variants).await[0]["id"]), (&base, &base));
}
