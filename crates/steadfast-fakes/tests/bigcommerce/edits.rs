//! The effect of a change on an order and its stock at the BigCommerce fake, and the variant that orders and carts are
//! of.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::{BigCommerceFake, FakeBuilder};
use steadfast_testkit::TestClock;

use crate::asks::paid;
use crate::store::Store;
use support::answers::shows;

/// A store that holds the products 1 and 2.
fn open(settings: impl FnOnce(FakeBuilder<BigCommerceFake>) -> FakeBuilder<BigCommerceFake>) -> Store {
    Store::of(settings(BigCommerceFake::builder().product(1).product(2)))
}

impl Store {
    /// An order of these products, and the ids of its lines.
    async fn ordered(&self, products: Value, more: Value) -> (String, Vec<Value>) {
        let made = self.made("/v2/orders", order(&products, &more)).await;
        let path = format!("/v2/orders/{}", made["id"]);
        let lines = self.read(&format!("{path}/products")).await;
        (path, lines.as_array().unwrap().iter().map(|line| line["id"].clone()).collect())
    }

    /// A variant of the product 1 with options.
    async fn red(&self) -> Value {
        let red = json!({ "sku": "RED", "price": 15, "option_values": [{ "id": 9, "option_id": 3 }] });
        self.made(VARIANTS, red).await["id"].clone()
    }
}

fn order(products: &Value, more: &Value) -> Value {
    let mut order = json!({
        "billing_address": { "zip": "12345" }, "shipping_addresses": [{ "street_1": "Elm Street" }],
        "products": products,
    });
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

/// So many at this price, with tax and without.
fn line(name: &str, quantity: u64, inc: f64, ex: f64) -> Value {
    json!({ "name": name, "quantity": quantity, "price_inc_tax": inc, "price_ex_tax": ex })
}

const VARIANTS: &str = "/v3/catalog/products/1/variants";
const OPTIONS: &str = "The options of one or more products are invalid.";

#[tokio::test]
async fn an_edit_that_is_sent_again_changes_no_discount() {
    let store = open(|builder| builder);
    let lines = json!([line("Mug", 3, 10.0, 8.0), line("Cup", 1, 5.0, 4.0)]);
    let (path, ids) = store.ordered(lines, json!({ "discount_amount": 7 })).await;
    for _ in 0..3 {
        let cup = json!({ "products": [{ "id": ids[1], "quantity": 2 }] });
        assert_eq!(store.set(&path, cup).await["total_inc_tax"], "34.0000");
        let lines = store.read(&format!("{path}/products")).await;
        assert_eq!(lines[0]["applied_discounts"][0]["amount"], "6.0000");
        assert_eq!(lines[1]["applied_discounts"], json!([]));
    }
    // Nor does a line that is added take a part of it.
    let added = json!({ "products": [line("Pot", 1, 24.0, 24.0)] });
    assert_eq!(store.set(&path, added).await["total_inc_tax"], "58.0000");
    let lines = store.read(&format!("{path}/products")).await;
    let paid: Vec<&Value> =
        lines.as_array().unwrap().iter().map(|line| &line["discounted_total_inc_tax"]).collect();
    assert_eq!(json!(paid), json!(["24.0000", "10.0000", "24.0000"]));
}

#[tokio::test]
async fn an_edit_moves_the_stock_of_the_lines_that_it_touches_alone() {
    let both = || json!([{ "product_id": 1, "quantity": 10 }, { "product_id": 2, "quantity": 1 }]);
    let product = "/v3/catalog/products/1";
    for (before, after, level) in [
        (json!({ "weight": 1 }), json!({ "inventory_tracking": "none" }), 990),
        (
            json!({ "inventory_tracking": "none" }),
            json!({ "inventory_tracking": "product", "inventory_level": 5 }),
            5,
        ),
        (json!({ "weight": 1 }), json!({ "order_quantity_minimum": 20 }), 990),
    ] {
        let store = open(FakeBuilder::<BigCommerceFake>::edited_orders_restock);
        store.set(product, before).await;
        let (path, ids) = store.ordered(both(), json!({})).await;
        store.set(product, after.clone()).await;
        store.set(&path, json!({ "products": [{ "id": ids[1], "quantity": 3 }] })).await;
        assert_eq!((store.stock(1).await, store.stock(2).await), (json!(level), json!(997)), "{after}");
    }
    // Stock that was not taken is not given back.
    let store = open(FakeBuilder::<BigCommerceFake>::edited_orders_restock);
    store.set(product, json!({ "inventory_tracking": "none" })).await;
    let (path, ids) = store.ordered(both(), json!({})).await;
    store.set(product, json!({ "inventory_tracking": "product" })).await;
    store.set(&path, json!({ "products": [{ "id": ids[0], "quantity": 4 }] })).await;
    assert_eq!(store.stock(1).await, 1000);
    // A base variant that is no more is none of another line's edit.
    let store = open(FakeBuilder::<BigCommerceFake>::edited_orders_restock);
    store.set(product, json!({ "inventory_tracking": "variant" })).await;
    let (path, ids) = store.ordered(both(), json!({})).await;
    store.red().await;
    store.set(&path, json!({ "products": [{ "id": ids[1], "quantity": 2 }] })).await;
    assert_eq!(store.stock(2).await, 998);
}

#[tokio::test]
async fn an_edit_moves_no_stock_that_is_taken_unless_the_store_is_set_to_that() {
    for adjusts in [false, true] {
        let store = open(|builder| {
            let builder = builder.returned_orders_restock();
            if adjusts { builder.edited_orders_restock() } else { builder }
        });
        let (path, ids) = store.ordered(json!([{ "product_id": 1, "quantity": 10 }]), json!({})).await;
        for (quantity, level) in [(4, 996), (30, 970)] {
            store.set(&path, json!({ "products": [{ "id": ids[0], "quantity": quantity }] })).await;
            assert_eq!(store.stock(1).await, if adjusts { level } else { 990 }, "{quantity}");
        }
        // Stock that was taken is given back, and no more.
        store.set(&path, json!({ "status_id": 5 })).await;
        assert_eq!(store.stock(1).await, 1000);
    }
    // Stock that is not taken yet is taken as the order is by then.
    let store = open(|builder| builder);
    let unpaid = json!({ "status_id": 0 });
    let (path, ids) = store.ordered(json!([{ "product_id": 1, "quantity": 10 }]), unpaid).await;
    store.set(&path, json!({ "products": [{ "id": ids[0], "quantity": 4 }] })).await;
    assert_eq!(store.stock(1).await, 1000);
    store.set(&path, json!({ "status_id": 11 })).await;
    assert_eq!(store.stock(1).await, 996);
}

#[tokio::test]
async fn what_was_shipped_or_refunded_stays_of_its_product_and_shows_whether_all_of_it_is_refunded() {
    let store = open(|builder| builder);
    let both = json!([{ "product_id": 1, "quantity": 3 }, { "product_id": 2, "quantity": 3 }]);
    let (path, ids) = store.ordered(both, json!({})).await;
    let address = store.read(&format!("{path}/products")).await[0]["order_address_id"].clone();
    let shipped = json!([{ "order_product_id": ids[0], "quantity": 1 }]);
    let shipment = json!({ "order_address_id": address, "items": shipped });
    store.made(&format!("{path}/shipments"), shipment).await;
    let refunded = json!([{ "item_type": "PRODUCT", "item_id": ids[1], "quantity": 2 }]);
    let refund = json!({ "items": refunded, "payments": paid(20.0) });
    store.made(&format!("{}/payment_actions/refunds", path.replace("v2", "v3")), refund).await;
    for (line, other) in [(&ids[0], 2), (&ids[1], 1)] {
        let change = json!({ "products": [{ "id": line, "product_id": other, "quantity": 3 }] });
        let said = store.refused(Method::PUT, &path, change).await;
        assert_eq!(said, "The field 'products.0.product_id' is invalid.");
    }
    let stock = json!([store.stock(1).await, store.stock(2).await]);
    assert_eq!(stock, json!([997, 997]));
    for (quantity, is_refunded) in [(2, true), (3, false)] {
        store.set(&path, json!({ "products": [{ "id": ids[1], "quantity": quantity }] })).await;
        let line = store.read(&format!("{path}/products")).await[1].clone();
        assert_eq!(json!([line["quantity_refunded"], line["is_refunded"]]), json!([2, is_refunded]));
    }
}

#[tokio::test]
async fn no_price_of_a_line_is_less_with_tax_than_without_it() {
    let store = open(|builder| builder);
    let (path, ids) = store.ordered(json!([line("Mug", 1, 10.0, 8.0)]), json!({})).await;
    for (name, amount, field) in [
        ("price_inc_tax", 7, "price_inc_tax"),
        ("price_ex_tax", 11, "price_inc_tax"),
        ("wrapping_cost_ex_tax", 1, "wrapping_cost_inc_tax"),
    ] {
        let change = json!({ "products": [{ "id": ids[0], name: amount }] });
        let said = store.refused(Method::PUT, &path, change).await;
        assert_eq!(said, format!("The field 'products.0.{field}' is invalid."));
    }
    let less = order(&json!([line("Mug", 1, 8.0, 10.0)]), &json!({}));
    let said = store.refused(Method::POST, "/v2/orders", less).await;
    assert_eq!(said, "The field 'products.0.price_inc_tax' is invalid.");
    // "The fields that you omit will not be changed."
    let changed = store.set(&path, json!({ "products": [{ "id": ids[0], "price_inc_tax": 12 }] })).await;
    assert_eq!(json!([changed["total_ex_tax"], changed["total_tax"]]), json!(["8.0000", "4.0000"]));
}

#[tokio::test]
async fn an_edit_keeps_the_wrapping_of_the_order_and_wants_the_costs_of_more() {
    let store = open(|builder| builder);
    let wrapped = json!({ "wrapping_cost_ex_tax": 5, "wrapping_cost_inc_tax": 5 });
    let (path, ids) = store.ordered(json!([line("Mug", 1, 10.0, 10.0)]), wrapped).await;
    let two = store.set(&path, json!({ "products": [{ "id": ids[0], "quantity": 2 }] })).await;
    shows(&two, &json!({ "total_inc_tax": "25.0000", "wrapping_cost_inc_tax": "5.0000" }));
    let mut wrapping = json!({ "products": [{ "id": ids[0], "wrapping_id": 5 }] });
    let said = "The required field 'products.0.wrapping_cost_ex_tax' was not supplied.";
    assert_eq!(store.refused(Method::PUT, &path, wrapping.clone()).await, said);
    wrapping["products"][0]["wrapping_cost_ex_tax"] = json!(2);
    wrapping["products"][0]["wrapping_cost_inc_tax"] = json!(3);
    assert_eq!(store.set(&path, wrapping).await["total_inc_tax"], "28.0000");
    let bare = json!({ "products": [{ "id": ids[0], "wrapping_id": 0 }] });
    assert_eq!(store.set(&path, bare).await["total_inc_tax"], "25.0000");
}

#[tokio::test]
async fn an_edit_to_less_than_was_refunded_is_refused_and_changes_nothing() {
    let store = open(|builder| builder.refunded_amount_stays_zero());
    let (path, ids) = store.ordered(json!([line("Mug", 5, 7.0, 7.0)]), json!({})).await;
    let item = json!({ "item_type": "ORDER", "item_id": 1, "amount": 30 });
    let refund = json!({ "items": [item], "payments": paid(30.0) });
    let refunds = format!("{}/payment_actions/refunds", path.replace("v2", "v3"));
    store.made(&refunds, refund).await;
    let said = "The fake does not implement a total below what was refunded.";
    for change in [
        json!({ "discount_amount": 20 }),
        json!({ "products": [{ "id": ids[0], "quantity": 4 }] }),
        json!({ "total_ex_tax": 29, "total_inc_tax": 29 }),
    ] {
        assert_eq!(store.refused(Method::PUT, &path, change).await, said);
        let held = store.read(&path).await;
        shows(&held, &json!({ "total_inc_tax": "35.0000", "items_total": 5 }));
        assert_eq!(store.read(&format!("{path}/products")).await[0]["quantity"], 5);
    }
    store.set(&path, json!({ "discount_amount": 5 })).await;
}

#[tokio::test]
async fn more_than_can_be_counted_is_refused() {
    let store = open(|builder| builder);
    let many = json!([line("Mug", u64::MAX, 1.0, 1.0), line("Cup", u64::MAX, 1.0, 1.0)]);
    let said = store.refused(Method::POST, "/v2/orders", order(&many, &json!({}))).await;
    assert_eq!(said, "The field 'products.0.quantity' is invalid.");
    let dear = json!([line("Mug", 100, 1e308, 1e308)]);
    let said = store.refused(Method::POST, "/v2/orders", order(&dear, &json!({}))).await;
    assert_eq!(said, "The field 'products.0.price_inc_tax' is invalid.");
    let discount = order(&json!([line("Mug", 1, 1.0, 1.0)]), &json!({ "discount_amount": 1e13 }));
    let said = store.refused(Method::POST, "/v2/orders", discount).await;
    assert_eq!(said, "The field 'discount_amount' is invalid.");
    for row in [
        json!({ "product_id": 1, "quantity": 2_147_483_648_u64 }),
        json!({ "product_id": 1, "quantity": 100, "list_price": 1e308 }),
    ] {
        store.refused(Method::POST, "/v3/carts", json!({ "line_items": [row] })).await;
    }
}

#[tokio::test]
async fn an_order_of_a_product_with_variants_names_one_of_them_however_stock_is_tracked() {
    for tracking in ["none", "product", "variant"] {
        let store = open(|builder| builder);
        let (path, ids) = store.ordered(json!([{ "product_id": 1, "quantity": 2 }]), json!({})).await;
        store.set("/v3/catalog/products/1", json!({ "inventory_tracking": tracking })).await;
        let red = store.red().await;
        for row in [
            json!({ "product_id": 1, "quantity": 1 }),
            json!({ "product_id": 1, "quantity": 1, "variant_id": 999 }),
        ] {
            let made = order(&json!([row]), &json!({}));
            assert_eq!(store.refused(Method::POST, "/v2/orders", made).await, OPTIONS, "{tracking}");
            let added = json!({ "products": [row] });
            assert_eq!(store.refused(Method::PUT, &path, added).await, OPTIONS, "{tracking}");
        }
        let other = json!({ "products": [{ "id": ids[0], "variant_id": 999 }] });
        assert_eq!(store.refused(Method::PUT, &path, other).await, OPTIONS, "{tracking}");
        let level = json!({ "inventory_level": 5 });
        store.set(&format!("{VARIANTS}/{red}"), level).await;
        store.ordered(json!([{ "product_id": 1, "quantity": 1, "variant_id": red }]), json!({})).await;
    }
}

#[tokio::test]
async fn a_cart_has_the_price_and_the_sku_of_the_variant_that_it_is_of() {
    let store = open(|builder| builder);
    let red = store.red().await;
    let row = json!({ "product_id": 1, "quantity": 2, "variant_id": red });
    let cart = store.made("/v3/carts", json!({ "line_items": [row] })).await;
    let line = &cart["line_items"]["physical_items"][0];
    assert_eq!(json!([cart["cart_amount"], line["original_price"]]), json!([30.0, 15.0]));
    assert_eq!(json!([line["sku"], line["variant_id"]]), json!(["RED", red]));
    let other = json!({ "line_items": [{ "product_id": 1, "quantity": 2, "variant_id": 999 }] });
    let said = store.refused(Method::POST, "/v3/carts", other).await;
    assert_eq!(said, "The field 'variant_id' is invalid.");
}

#[tokio::test]
async fn a_cart_is_of_the_variant_that_its_option_selections_are_of_and_can_be_ordered() {
    let store = open(|builder| builder);
    let red = store.red().await;
    let cart = |option: u64, value: &Value| {
        // The second is of a modifier.
        let selections = json!([
            { "option_id": option, "option_value": value }, { "option_id": 77, "option_value": "For Jo" },
        ]);
        json!({ "line_items": [{ "product_id": 1, "quantity": 2, "option_selections": selections }] })
    };
    for value in [json!(9), json!("9")] {
        let cart = store.made("/v3/carts", cart(3, &value)).await;
        assert_eq!(cart["line_items"]["physical_items"][0]["variant_id"], red);
        let orders = format!("/v3/checkouts/{}/orders", cart["id"].as_str().unwrap());
        let placed = store.made(&orders, json!({})).await;
        let placed = store.read(&format!("/v2/orders/{}", placed["id"])).await;
        assert_eq!(placed["total_inc_tax"], "30.0000");
    }
    for refused in [cart(3, &json!(10)), cart(4, &json!(9))] {
        assert_eq!(store.refused(Method::POST, "/v3/carts", refused).await, OPTIONS);
    }
    // A product without options may have modifiers, too.
    let mut simple = cart(3, &json!(9));
    simple["line_items"][0]["product_id"] = json!(2);
    let cart = store.made("/v3/carts", simple).await;
    assert_eq!(cart["line_items"]["physical_items"][0]["sku"], "SKU-2");
}

#[tokio::test]
async fn a_base_variant_has_the_rules_of_its_product() {
    let store = open(|builder| builder);
    let base = store.read("/v3/catalog/products/1").await["base_variant_id"].clone();
    let path = format!("{VARIANTS}/{base}");
    for (change, refused) in [
        (json!({ "sku": "SKU-2" }), 409),
        (json!({ "inventory_level": -5 }), 422),
        (json!({ "upc": null }), 422),
        (json!({ "sku": "SKU-1", "inventory_level": 5, "price": null }), 200),
    ] {
        let answered = store.ask(Method::PUT, &path, change.clone()).await;
        assert_eq!(answered.0, refused, "{change}: {}", answered.1);
    }
    assert_eq!(store.stock(1).await, 5);
}

#[tokio::test]
async fn an_included_part_shows_no_sooner_than_by_itself() {
    let clock = TestClock::new();
    let store = open(|builder| builder.test_clock(&clock).apply_after(Duration::from_secs(30)));
    let image = json!({ "image_url": "http://x.com/a.png" });
    store.made("/v3/catalog/products/1/images", image).await;
    for shown in [0, 1] {
        let one = store.read("/v3/catalog/products/1?include=images").await;
        let all = store.read("/v3/catalog/products?include=images").await;
        for images in [&one["images"], &all[0]["images"]] {
            assert_eq!(images.as_array().unwrap().len(), shown);
        }
        clock.advance(Duration::from_secs(30));
    }
}
