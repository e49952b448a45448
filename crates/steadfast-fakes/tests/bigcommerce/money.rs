//! The total of an order at the BigCommerce fake, what a change makes of it, and what a refund gives back of it.

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::{BigCommerceFake, FakeBuilder};

use crate::asks::paid;
use crate::store::Store;

fn open(settings: impl FnOnce(FakeBuilder<BigCommerceFake>) -> FakeBuilder<BigCommerceFake>) -> Store {
    Store::of(settings(BigCommerceFake::builder()))
}

/// An order of three mugs at 10 with tax and 8 without, and one cup at 5 and 4.
fn order(more: &Value) -> Value {
    let mut order = json!({
        "billing_address": { "zip": "12345" }, "shipping_addresses": [{ "street_1": "Elm Street" }],
        "products": [
            { "name": "Mug", "quantity": 3, "price_inc_tax": 10, "price_ex_tax": 8 },
            { "name": "Cup", "quantity": 1, "price_inc_tax": 5, "price_ex_tax": 4 },
        ],
    });
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    order
}

fn of(object: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| object[*name].clone()).collect()
}

const TOTALS: [&str; 3] = ["total_ex_tax", "total_inc_tax", "total_tax"];
const SUBTOTALS: [&str; 3] = ["subtotal_ex_tax", "subtotal_inc_tax", "subtotal_tax"];

#[tokio::test]
async fn an_order_comes_to_its_products_and_costs_less_its_discount() {
    let store = open(|builder| builder);
    for (more, totals) in [
        (json!({}), ["28.0000", "35.0000", "7.0000"]),
        (
            json!({ "shipping_cost_ex_tax": 10, "shipping_cost_inc_tax": "11.5" }),
            ["38.0000", "46.5000", "8.5000"],
        ),
        (json!({ "base_shipping_cost": 10 }), ["38.0000", "45.0000", "7.0000"]),
        (json!({ "handling_cost_ex_tax": 2, "handling_cost_inc_tax": 3 }), ["30.0000", "38.0000", "8.0000"]),
        (json!({ "wrapping_cost_inc_tax": 1 }), ["29.0000", "36.0000", "7.0000"]),
        // 7 of 35 are a fifth of the products, and of their tax.
        (json!({ "discount_amount": 7 }), ["22.4000", "28.0000", "5.6000"]),
        (json!({ "discount_amount": 100 }), ["0.0000", "0.0000", "0.0000"]),
        (json!({ "total_ex_tax": 50, "total_inc_tax": 60 }), ["50.0000", "60.0000", "10.0000"]),
        (json!({ "subtotal_ex_tax": 50, "subtotal_inc_tax": 60 }), ["28.0000", "35.0000", "7.0000"]),
    ] {
        let made = store.made("/v2/orders", order(&more)).await;
        assert_eq!(of(&made, &TOTALS), json!(totals), "{more}");
        let subtotals = match (more["subtotal_ex_tax"].is_null(), more["discount_amount"].as_u64()) {
            (false, _) => ["50.0000", "60.0000", "10.0000"],
            (true, Some(7)) => ["28.0000", "35.0000", "5.6000"],
            (true, Some(_)) => ["28.0000", "35.0000", "0.0000"],
            (true, None) => ["28.0000", "35.0000", "7.0000"],
        };
        assert_eq!(of(&made, &SUBTOTALS), json!(subtotals), "{more}");
    }
    let shipped = order(&json!({ "shipping_cost_ex_tax": 10, "shipping_cost_inc_tax": 11 }));
    let shipped = store.made("/v2/orders", shipped).await;
    let cost = of(&shipped, &["base_shipping_cost", "shipping_cost_tax"]);
    assert_eq!(cost, json!(["10.0000", "1.0000"]));
}

/// The order 218 of BigCommerce's specification, but that its coupon is a discount: coupons cannot be written.
#[tokio::test]
async fn the_amounts_of_a_published_order_are_computed() {
    let store = open(|builder| builder);
    let products =
        json!([{ "name": "Towel", "quantity": 1, "price_ex_tax": 62.6793, "price_inc_tax": 67.84 }]);
    let made = order(&json!({
        "products": products, "shipping_cost_ex_tax": 11.09, "shipping_cost_inc_tax": 12, "discount_amount": 10,
    }));
    let made = store.made("/v2/orders", made).await;
    assert_eq!(of(&made, &SUBTOTALS), json!(["62.6793", "67.8400", "4.4000"]));
    assert_eq!(of(&made, &TOTALS), json!(["64.5300", "69.8400", "5.3100"]));
}

#[tokio::test]
async fn an_amount_below_zero_or_without_the_one_that_belongs_to_it_is_refused() {
    let store = open(|builder| builder.order(700));
    for (more, said) in [
        (json!({ "discount_amount": -1 }), "The field 'discount_amount' is invalid."),
        (json!({ "base_handling_cost": -1 }), "The field 'base_handling_cost' is invalid."),
        (json!({ "total_inc_tax": 5 }), "The required field 'total_ex_tax' was not supplied."),
        (json!({ "subtotal_ex_tax": 5 }), "The required field 'subtotal_inc_tax' was not supplied."),
        (
            json!({ "shipping_cost_ex_tax": 5 }),
            "The required field 'shipping_cost_inc_tax' was not supplied.",
        ),
        (json!({ "total_ex_tax": 6, "total_inc_tax": 5 }), "The field 'total_inc_tax' is invalid."),
        (
            json!({ "handling_cost_ex_tax": 2, "handling_cost_inc_tax": 1 }),
            "The field 'handling_cost_inc_tax' is invalid.",
        ),
        (
            json!({ "base_wrapping_cost": 2, "wrapping_cost_inc_tax": 1 }),
            "The field 'wrapping_cost_inc_tax' is invalid.",
        ),
    ] {
        assert_eq!(store.refused(Method::POST, "/v2/orders", order(&more)).await, said);
        assert_eq!(store.refused(Method::PUT, "/v2/orders/700", more).await, said);
    }
    assert_eq!(store.fake.ledger().count(), 0);
}

#[tokio::test]
async fn wrapping_of_a_product_is_a_cost_of_its_order_and_is_refunded_by_itself() {
    let store = open(|builder| builder);
    let mut products = order(&json!({}))["products"].clone();
    products[0]["wrapping_id"] = json!(1);
    let bare = order(&json!({ "products": products }));
    let said = "The required field 'products.0.wrapping_cost_ex_tax' was not supplied.";
    assert_eq!(store.refused(Method::POST, "/v2/orders", bare).await, said);
    products[0]["wrapping_cost_ex_tax"] = json!(6);
    products[0]["wrapping_cost_inc_tax"] = json!(9);
    let made = store.made("/v2/orders", order(&json!({ "products": products }))).await;
    assert_eq!(of(&made, &TOTALS), json!(["34.0000", "44.0000", "10.0000"]));
    assert_eq!(made["wrapping_cost_inc_tax"], "9.0000");
    let mug = store.read(&format!("/v2/orders/{}/products", made["id"])).await[0]["id"].clone();
    let wrapping = json!({ "item_type": "GIFT_WRAPPING", "item_id": mug, "quantity": 2 });
    let refund = json!({ "items": [wrapping], "payments": paid(6.0) });
    let refund = store.made(&format!("/v3/orders/{}/payment_actions/refunds", made["id"]), refund).await;
    assert_eq!(of(&refund, &["total_amount", "total_tax"]), json!([6.0, 2.0]));
}

#[tokio::test]
async fn a_discount_is_shared_by_price_and_is_cleared_where_a_product_changes() {
    let store = open(|builder| builder);
    let made = store.made("/v2/orders", order(&json!({ "discount_amount": 7 }))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    let products = store.read(&format!("{path}/products")).await;
    let shares: Vec<&Value> =
        products.as_array().unwrap().iter().map(|one| &one["applied_discounts"][0]["amount"]).collect();
    assert_eq!(json!(shares), json!(["6.0000", "1.0000"]), "of 24 and 4");
    assert_eq!(products[0]["discounted_total_inc_tax"], "24.0000");
    // "The PUT request clears all discounts and promotions applied to the changed order line items."
    let cup = json!({ "products": [{ "id": products[1]["id"], "quantity": 2 }] });
    let changed = store.set(&path, cup).await;
    assert_eq!(changed["discount_amount"], "6.0000");
    assert_eq!(of(&changed, &["subtotal_inc_tax", "total_inc_tax"]), json!(["40.0000", "34.0000"]));
}

#[tokio::test]
async fn a_put_of_costs_computes_the_order_anew_and_one_of_notes_does_not() {
    let store = open(|builder| builder);
    let made = store.made("/v2/orders", order(&json!({ "total_ex_tax": 50, "total_inc_tax": 60 }))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    for (change, totals) in [
        (json!({ "staff_notes": "a", "status_id": 11 }), ["50.0000", "60.0000", "10.0000"]),
        (json!({ "subtotal_ex_tax": 1, "subtotal_inc_tax": 1 }), ["50.0000", "60.0000", "10.0000"]),
        (json!({ "shipping_cost_ex_tax": 4, "shipping_cost_inc_tax": 5 }), ["32.0000", "40.0000", "8.0000"]),
        (json!({ "handling_cost_ex_tax": 1 }), ["33.0000", "41.0000", "8.0000"]),
        (json!({ "discount_amount": 7 }), ["27.4000", "34.0000", "6.6000"]),
        (json!({ "total_ex_tax": 20, "total_inc_tax": 20 }), ["20.0000", "20.0000", "0.0000"]),
        (json!({ "discount_amount": 0, "items_total": 99 }), ["33.0000", "41.0000", "8.0000"]),
    ] {
        let changed = store.set(&path, change.clone()).await;
        assert_eq!((of(&changed, &TOTALS), &changed["items_total"]), (json!(totals), &json!(4)), "{change}");
    }
}

#[tokio::test]
async fn a_put_of_products_adds_changes_and_removes_them() {
    let store = open(|builder| builder.product(1));
    let made = store.made("/v2/orders", order(&json!({}))).await;
    let path = format!("/v2/orders/{}", made["id"]);
    let products = store.read(&format!("{path}/products")).await;
    let [mug, cup] = [0, 1].map(|at: usize| products[at]["id"].clone());
    for (change, total, items) in [
        (json!({ "id": mug, "quantity": 2 }), "25.0000", 3),
        (json!({ "id": mug, "price_inc_tax": 12, "price_ex_tax": 10 }), "29.0000", 3),
        (json!({ "name": "Pot", "quantity": 1, "price_inc_tax": 6, "price_ex_tax": 6 }), "35.0000", 4),
        (json!({ "product_id": 1, "quantity": 2 }), "55.0000", 6),
        (json!({ "id": cup, "quantity": 0 }), "50.0000", 5),
    ] {
        let changed = store.set(&path, json!({ "products": [change] })).await;
        assert_eq!(of(&changed, &["total_inc_tax", "items_total"]), json!([total, items]), "{change}");
    }
    let products = store.read(&format!("{path}/products")).await;
    let names: Value = products.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, json!(["Mug", "Pot", "Product 1"]));
    assert_eq!(of(&products[0], &["id", "order_id"]), json!([mug, made["id"]]));
    let address = store.read(&format!("{path}/shipping_addresses")).await[0].clone();
    assert_eq!((&address["items_total"], &products[2]["order_address_id"]), (&json!(5), &address["id"]));
    for (change, said) in [
        (json!([]), "The field 'products' is invalid."),
        (json!([{ "id": cup, "quantity": 1 }]), "The field 'products.0.id' is invalid."),
        (json!([{ "product_id": 1 }]), "The required field 'products.0.quantity' was not supplied."),
        (json!([{ "id": mug, "price_ex_tax": -1 }]), "The field 'products.0.price_ex_tax' is invalid."),
    ] {
        assert_eq!(store.refused(Method::PUT, &path, json!({ "products": change })).await, said);
    }
}

#[tokio::test]
async fn an_edited_order_takes_the_stock_that_it_takes_more_and_gives_the_rest_back() {
    let store = open(|builder| builder.product(1).edited_orders_restock());
    let stock = async || store.read("/v3/catalog/products/1").await["inventory_level"].clone();
    let made = order(&json!({ "products": [{ "product_id": 1, "quantity": 10 }] }));
    let made = store.made("/v2/orders", made).await;
    let path = format!("/v2/orders/{}", made["id"]);
    let line = store.read(&format!("{path}/products")).await[0]["id"].clone();
    for (quantity, level) in [(4, 996), (1000, 0), (1, 999)] {
        store.set(&path, json!({ "products": [{ "id": line, "quantity": quantity }] })).await;
        assert_eq!(stock().await, level);
    }
    let too_many = json!({ "products": [{ "id": line, "quantity": 1001 }] });
    let said = store.refused(Method::PUT, &path, too_many).await;
    assert!(said.starts_with("Quantities of one or more products are out of stock"), "{said}");
    assert_eq!(stock().await, 999);
}

/// As in BigCommerce's guide "Order Refunds": a product at 10.00, tax of 0.83, and shipping of 10.00.
#[tokio::test]
async fn a_refund_is_quoted_and_gives_the_tax_back() {
    let store = open(|builder| builder.customer(7));
    let products = json!([{ "name": "Mug", "quantity": 1, "price_ex_tax": 10, "price_inc_tax": 10.83 }]);
    let made = order(&json!({
        "customer_id": 7, "products": products, "shipping_cost_ex_tax": 10, "shipping_cost_inc_tax": 10,
    }));
    let made = store.made("/v2/orders", made).await;
    let line = store.read(&format!("/v2/orders/{}/products", made["id"])).await[0].clone();
    let items = json!([
        { "item_type": "PRODUCT", "item_id": line["id"], "quantity": 1 },
        { "item_type": "SHIPPING", "item_id": line["order_address_id"], "amount": 10 },
    ]);
    let path = |what: &str| format!("/v3/orders/{}/payment_actions/{what}", made["id"]);
    let before = store.fake.ledger().count();
    let quote = store.made(&path("refund_quotes"), json!({ "items": items })).await;
    let names = [
        "order_id",
        "total_refund_amount",
        "total_refund_tax_amount",
        "rounding",
        "adjustment",
        "is_tax_included",
        "order_level_refund_amount",
    ];
    assert_eq!(of(&quote, &names), json!([made["id"], 20.83, 0.83, 0.0, 0.0, false, 0.0]));
    let providers: Value = quote["refund_methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|method| of(&method[0], &["provider_id", "amount", "offline"]))
        .collect();
    assert_eq!(providers, json!([["storecredit", 20.83, false], ["custom", 20.83, true]]));
    assert_eq!(store.fake.ledger().count(), before, "a quote changes nothing");
    assert_eq!(store.read(&format!("/v2/orders/{}", made["id"])).await["status_id"], 1);

    let method = &quote["refund_methods"][0][0];
    let payments = json!([{ "provider_id": method["provider_id"], "amount": method["amount"] }]);
    let refund = json!({ "items": items, "payments": payments });
    let refund = store.made(&path("refunds"), refund).await;
    assert_eq!(of(&refund, &["total_amount", "total_tax"]), json!([20.83, 0.83]));
    let requested: Value =
        refund["items"].as_array().unwrap().iter().map(|item| item["requested_amount"].clone()).collect();
    assert_eq!(requested, json!([10.0, 10.0]));
    assert_eq!(store.read(&format!("/v2/orders/{}", made["id"])).await["status"], "Refunded");
    let said = "The refund amount is greater than the remaining order balance.";
    let mut one = json!({ "items": [{ "item_type": "ORDER", "item_id": made["id"], "amount": 1 }] });
    assert_eq!(store.refused(Method::POST, &path("refund_quotes"), one.clone()).await, said);
    one["payments"] = paid(1.0);
    assert_eq!(store.refused(Method::POST, &path("refunds"), one).await, said);
}

#[tokio::test]
async fn a_discounted_product_is_refunded_at_what_was_paid_and_its_parts_add_up() {
    let store = open(|builder| builder);
    let products = json!([{ "name": "Mug", "quantity": 3, "price_ex_tax": 3, "price_inc_tax": 4 }]);
    let made = store.made("/v2/orders", order(&json!({ "products": products, "discount_amount": 2 }))).await;
    assert_eq!(of(&made, &TOTALS), json!(["7.5000", "10.0000", "2.5000"]));
    let line = store.read(&format!("/v2/orders/{}/products", made["id"])).await[0]["id"].clone();
    let path = format!("/v3/orders/{}/payment_actions/refunds", made["id"]);
    let one = json!({ "item_type": "PRODUCT", "item_id": line, "quantity": 1 });
    for [total, tax] in [[3.33, 0.83], [3.34, 0.84], [3.33, 0.83]] {
        let refund = store.made(&path, json!({ "items": [one], "payments": paid(total) })).await;
        assert_eq!(of(&refund, &["total_amount", "total_tax"]), json!([total, tax]));
    }
    let order = store.read(&format!("/v2/orders/{}", made["id"])).await;
    assert_eq!(of(&order, &["status", "refunded_amount"]), json!(["Refunded", "10.0000"]));
}

#[tokio::test]
async fn a_quote_is_of_no_more_than_is_left_and_a_refund_of_more_is_refused() {
    let store = open(|builder| builder);
    // The total is less than the products.
    let made = store.made("/v2/orders", order(&json!({ "total_ex_tax": 20, "total_inc_tax": 20 }))).await;
    let line = store.read(&format!("/v2/orders/{}/products", made["id"])).await[0].clone();
    let path = |what: &str| format!("/v3/orders/{}/payment_actions/{what}", made["id"]);
    let items = json!([{ "item_type": "PRODUCT", "item_id": line["id"], "quantity": 3 }]);
    let quote = store.made(&path("refund_quotes"), json!({ "items": items })).await;
    assert_eq!(of(&quote, &["total_refund_amount", "adjustment"]), json!([20.0, -10.0]));
    for (more, said) in [
        (json!({}), "The required field 'payments' was not supplied."),
        (json!({ "payments": [] }), "The required field 'payments' was not supplied."),
        (json!({ "payments": paid(19.0) }), "The refund amount is greater than the remaining order balance."),
        (
            json!({ "payments": [{ "provider_id": "custom", "amount": 30 }] }),
            "The refund amount is greater than the remaining order balance.",
        ),
        (
            json!({ "payments": [{ "provider_id": "storecredit", "amount": 20 }] }),
            "Unable to provide store credit for a guest customer.",
        ),
        (
            json!({
                "payments": paid(21.0), "merchant_calculated_override": { "total_amount": 21, "total_tax": 0 },
            }),
            "The refund amount is greater than the remaining order balance.",
        ),
        (
            json!({ "payments": paid(5.0), "merchant_calculated_override": { "total_amount": 5, "total_tax": 6 } }),
            "The tax of an override is not from zero to its amount.",
        ),
        (
            json!({ "payments": paid(5.0), "merchant_calculated_override": { "total_amount": 5, "total_tax": -1 } }),
            "The tax of an override is not from zero to its amount.",
        ),
    ] {
        let mut refund = json!({ "items": items });
        refund.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(store.refused(Method::POST, &path("refunds"), refund).await, said, "{more}");
    }
    let shipping = json!({ "item_type": "SHIPPING", "item_id": line["order_address_id"], "amount": 1 });
    let shipping = json!({ "items": [shipping] });
    store.refused(Method::POST, &path("refund_quotes"), shipping).await;
    let merchants = json!({
        "items": items, "merchant_calculated_override": { "total_amount": 5, "total_tax": 1 },
        "payments": [{ "provider_id": "custom", "amount": 5, "offline": true }],
    });
    let refund = store.made(&path("refunds"), merchants).await;
    let names = ["total_amount", "total_tax", "uses_merchant_override_values"];
    assert_eq!(of(&refund, &names), json!([5.0, 1.0, true]));
    assert_eq!(store.read(&format!("/v2/orders/{}", made["id"])).await["refunded_amount"], "5.0000");
}

impl Store {
    /// An order of these products, its path below `/v3`, and its lines.
    async fn refundable(&self, products: &Value, more: &Value) -> (String, Value) {
        let mut all = json!({ "products": products });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.made("/v2/orders", order(&all)).await;
        let lines = self.read(&format!("/v2/orders/{}/products", made["id"])).await;
        (format!("/v3/orders/{}/payment_actions/refunds", made["id"]), lines)
    }
}

fn line(quantity: u64, ex: f64, inc: f64) -> Value {
    json!({ "name": "Mug", "quantity": quantity, "price_ex_tax": ex, "price_inc_tax": inc })
}

/// Of one item that comes to so much.
fn refund(item: &Value, amount: f64) -> Value {
    json!({ "items": [item], "payments": paid(amount) })
}

fn of_product(line: &Value, quantity: u64) -> Value {
    json!({ "item_type": "PRODUCT", "item_id": line["id"], "quantity": quantity })
}

const LEFT: &str = "The refund amount is greater than the remaining order balance.";
const DECIMALS: &str = "An amount has two decimals at most.";

#[tokio::test]
async fn a_refund_of_nothing_or_of_parts_of_a_cent_is_refused() {
    let store = open(|builder| builder);
    let (path, lines) = store.refundable(&json!([line(2, 10.0, 12.0)]), &json!({})).await;
    let of_order = |amount: f64| json!({ "item_type": "ORDER", "item_id": 1, "amount": amount });
    let mut adjusted = of_product(&lines[0], 1);
    adjusted["adjustments"] = json!([{ "amount": -0.001 }]);
    for item in [of_order(0.004), of_order(1.004), adjusted] {
        assert_eq!(store.refused(Method::POST, &path, refund(&item, 1.0)).await, DECIMALS, "{item}");
    }
    for [total, tax] in [[5.001, 0.0], [5.0, 0.001]] {
        let mut merchants = refund(&of_order(5.0), total);
        merchants["merchant_calculated_override"] = json!({ "total_amount": total, "total_tax": tax });
        assert_eq!(store.refused(Method::POST, &path, merchants).await, DECIMALS);
    }
    store.made(&path, refund(&of_product(&lines[0], 2), 24.0)).await;
    let nothing = refund(&of_order(1.0), 0.0);
    assert_eq!(store.refused(Method::POST, &path, nothing).await, LEFT);
}

#[tokio::test]
async fn tax_is_given_back_once() {
    let store = open(|builder| builder);
    let shipped = json!({ "shipping_cost_ex_tax": 10, "shipping_cost_inc_tax": 10 });
    let (path, lines) = store.refundable(&json!([line(1, 10.0, 12.0)]), &shipped).await;
    let product = of_product(&lines[0], 1);
    let tax = json!({ "item_type": "TAX", "item_id": 1, "amount": 2 });
    let both = json!({ "items": [product, tax], "payments": paid(14.0) });
    assert_eq!(store.refused(Method::POST, &path, both).await, LEFT, "in one refund");
    let made = store.made(&path, refund(&product, 12.0)).await;
    assert_eq!(of(&made, &["total_amount", "total_tax"]), json!([12.0, 2.0]));
    assert_eq!(store.refused(Method::POST, &path, refund(&tax, 2.0)).await, LEFT);
}

/// "When using the override, BC internal tax based refund calculation is skipped and therefore order/taxes records are not
/// updated." Its amount is "non-negative".
#[tokio::test]
async fn the_tax_of_a_merchants_own_calculation_is_none_of_the_orders() {
    let store = open(|builder| builder);
    let (path, lines) = store.refundable(&json!([line(3, 10.0, 12.0)]), &json!({})).await;
    let product = of_product(&lines[0], 1);
    for [total, tax] in [[0.0, 0.0], [12.0, 6.0]] {
        let mut merchants = refund(&product, total);
        merchants["merchant_calculated_override"] = json!({ "total_amount": total, "total_tax": tax });
        let made = store.made(&path, merchants).await;
        assert_eq!(of(&made, &["total_amount", "total_tax"]), json!([total, tax]));
    }
    let made = store.made(&path, refund(&product, 12.0)).await;
    assert_eq!(of(&made, &["total_amount", "total_tax"]), json!([12.0, 2.0]));
}

#[tokio::test]
async fn the_parts_of_a_refund_add_up() {
    let store = open(|builder| builder);
    let shipped = json!({ "shipping_cost_ex_tax": 5, "shipping_cost_inc_tax": 5.5 });
    let (path, lines) = store.refundable(&json!([line(1, 10.0, 10.0)]), &shipped).await;
    // They come to 5.50.
    for (amount, total) in [(1.67, 1.84), (1.67, 1.83), (1.66, 1.83)] {
        let part =
            json!({ "item_type": "SHIPPING", "item_id": lines[0]["order_address_id"], "amount": amount });
        assert_eq!(store.made(&path, refund(&part, total)).await["total_amount"], total);
    }
    // Three lines with a discount that they do not share evenly.
    let three = json!([line(1, 5.0, 5.0), line(1, 5.0, 5.0), line(1, 5.0, 5.0)]);
    let (path, lines) = store.refundable(&three, &json!({ "discount_amount": 5 })).await;
    let items: Vec<Value> = lines.as_array().unwrap().iter().map(|line| of_product(line, 1)).collect();
    let whole = json!({ "items": items, "payments": paid(10.0) });
    assert_eq!(store.made(&path, whole).await["total_amount"], 10.0);
    // The tax of a discounted order is that of its lines.
    let two = json!([line(1, 10.0, 12.0), line(1, 10.0, 10.0)]);
    let (path, lines) = store.refundable(&two, &json!({ "discount_amount": 10 })).await;
    let order = store.read(&format!("/v2/orders/{}", lines[0]["order_id"])).await;
    assert_eq!(of(&order, &TOTALS), json!(["10.8333", "12.0000", "1.1667"]));
    let items: Vec<Value> = lines.as_array().unwrap().iter().map(|line| of_product(line, 1)).collect();
    let made = store.made(&path, json!({ "items": items, "payments": paid(12.0) })).await;
    assert_eq!(of(&made, &["total_amount", "total_tax"]), json!([12.0, 1.17]));
}

#[tokio::test]
async fn a_line_shows_what_was_refunded_of_it() {
    let store = open(|builder| builder);
    let (path, lines) = store.refundable(&json!([line(3, 10.0, 10.0)]), &json!({})).await;
    let mut merchants = refund(&of_product(&lines[0], 3), 5.0);
    merchants["merchant_calculated_override"] = json!({ "total_amount": 5, "total_tax": 0 });
    store.made(&path, merchants).await;
    let lines = store.read(&format!("/v2/orders/{}/products", lines[0]["order_id"])).await;
    assert_eq!(lines[0]["refund_amount"], "5.0000");
}

#[tokio::test]
async fn adjustments_are_of_products_and_no_amount_is_below_zero() {
    let store = open(|builder| builder);
    let shipped = json!({ "shipping_cost_ex_tax": 5, "shipping_cost_inc_tax": 5 });
    let (path, lines) = store.refundable(&json!([line(1, 10.0, 12.0)]), &shipped).await;
    let adjustments = |by: i64| json!([{ "amount": by }]);
    let address = &lines[0]["order_address_id"];
    let shipping = json!({
        "item_type": "SHIPPING", "item_id": address, "amount": 5, "adjustments": adjustments(-1),
    });
    let said = store.refused(Method::POST, &path, refund(&shipping, 4.0)).await;
    assert_eq!(said, "Adjustments are of products alone.");
    let mut product = of_product(&lines[0], 1);
    product["adjustments"] = adjustments(-11);
    assert_eq!(store.refused(Method::POST, &path, refund(&product, 1.0)).await, LEFT);
    let mut by_two = refund(&of_product(&lines[0], 1), 12.0);
    by_two["payments"] = json!([
        { "provider_id": "custom", "amount": 13 }, { "provider_id": "custom", "amount": -1 },
    ]);
    let said = store.refused(Method::POST, &path, by_two).await;
    assert_eq!(said, "The amount of a payment must not be negative.");
    // A payment comes before its refund.
    let (path, lines) = store.refundable(&json!([line(1, 10.0, 12.0)]), &json!({ "status_id": 0 })).await;
    let said = store.refused(Method::POST, &path, refund(&of_product(&lines[0], 1), 12.0)).await;
    assert_eq!(said, "The order is incomplete.");
}
