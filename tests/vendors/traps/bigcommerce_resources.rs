//! BigCommerce's resources, row by row: where each is found again after a lost answer, and which cannot be.

use http::Method;
use serde_json::{Value, json};
use steadfast::testkit::Fault;
use steadfast::{Call, Client};

use super::vendors::{
    FRESH, NOBODY_KNOWS, RECONCILED, bigcommerce, bigcommerce_lagging, ending, order, promise_holds,
};

const REFUNDS: &str = "/v3/orders/100/payment_actions/refunds";

/// Each resource with a lookup: its path, a body, and the lookup's path and filter.
fn searchable() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let product = json!({"name": "Mug", "sku": "MUG-1", "type": "physical", "weight": 1, "price": 10});
    let unnumbered = json!({"name": "Cup", "type": "physical", "weight": 1, "price": 10});
    let customer = json!([{"email": "jo@example.com", "first_name": "Jo", "last_name": "Doe"}]);
    let coupon = json!({"name": "Ten off", "code": "TEN", "type": "per_item_discount", "amount": 10, "applies_to": {"entity": "categories", "ids": [0]}});
    let items = json!([{"item_type": "PRODUCT", "item_id": 1, "quantity": 1, "reason": "damaged"}]);
    let refund =
        json!({"items": items, "payments": [{"provider_id": "custom", "amount": 10, "offline": true}]});
    vec![
        ("/v2/orders", order_of(7), "/v2/orders", "external_order_id"),
        ("/v3/checkouts/cart-1/orders", json!({}), "/v2/orders", "cart_id"),
        ("/v3/catalog/products", product, "/v3/catalog/products", "sku"),
        ("/v3/catalog/products", unnumbered, "/v3/catalog/products", "name"),
        ("/v3/catalog/brands", json!({"name": "Acme"}), "/v3/catalog/brands", "name"),
        ("/v3/catalog/categories", json!({"name": "Cups", "parent_id": 0}), "/v3/catalog/categories", "name"),
        ("/v3/customers", customer, "/v3/customers", "email:in"),
        ("/v3/pricelists", json!({"name": "VIP"}), "/v3/pricelists", "name"),
        ("/v2/coupons", coupon, "/v2/coupons", "code"),
        (REFUNDS, refund, REFUNDS, ""),
    ]
}

fn order_of(customer: u64) -> Value {
    json!({"customer_id": customer, "billing_address": {"zip": "12345"}, "products": [{"product_id": 1, "quantity": 1}]})
}

fn with_id(mut order: Value) -> Value {
    order["external_order_id"] = json!("shop-42");
    order
}

fn create(client: &Client, path: &str, body: &Value) -> Call {
    client.post(path).key("the-key").json(body)
}

#[tokio::test]
async fn every_resource_with_a_look_up_is_found_after_a_lost_answer() {
    for (path, body, look_up, filter) in searchable() {
        let (rig, fake) = bigcommerce().await;
        fake.plan().next(Fault::DropAfterApply);
        let outcome = create(&rig.client, path, &body).send().await;
        assert_eq!((ending(&outcome), rig.posts(), fake.ledger().count()), (RECONCILED, 1, 1), "{path}");
        let asked = &rig.sent(&Method::GET)[0].url;
        assert_eq!(asked.path(), format!("/stores/abc123{look_up}"));
        let filters: Vec<String> = asked.query_pairs().map(|(name, _)| name.into_owned()).collect();
        assert_eq!(filters.join(","), filter, "{path}");
        let id = &outcome.expect("found").json::<Value>().expect("json");
        let found = [&id["data"]["id"], &id["data"][0]["id"], &id["id"]].into_iter().find(|id| !id.is_null());
        assert_eq!(found.map(ToString::to_string), Some(fake.ledger().effects()[0].id.clone()), "{path}");
    }
}

#[tokio::test]
async fn every_resource_with_a_look_up_is_sent_again_after_a_proven_absence() {
    for (path, body, _, _) in searchable() {
        let (rig, fake) = bigcommerce().await;
        fake.plan().next(Fault::Error500Before);
        let outcome = create(&rig.client, path, &body).send().await;
        assert_eq!((ending(&outcome), rig.posts(), fake.ledger().count()), (FRESH, 2, 1), "{path}");
        let sent = rig.sent(&Method::POST);
        assert_eq!(sent[0].body, sent[1].body, "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_parked_and_never_sent_again() {
    let cart = json!({"line_items": [{"product_id": 1, "quantity": 1}]});
    let shipment = json!({"order_address_id": 1, "items": [{"order_product_id": 1, "quantity": 1}]});
    let adjustment = json!({"items": [{"location_id": 1, "sku": "SKU-7", "quantity": 1}]});
    for (path, body, applied) in [
        ("/v3/carts", &cart, true),
        ("/v3/carts", &cart, false),
        ("/v2/orders/100/shipments", &shipment, true),
        ("/v3/inventory/adjustments/relative", &adjustment, true),
        ("/v3/inventory/adjustments/relative", &adjustment, false),
    ] {
        let (rig, fake) = bigcommerce().await;
        fake.plan().next(if applied { Fault::Error500After } else { Fault::Error500Before });
        for _ in 0..2 {
            let outcome = create(&rig.client, path, body).send().await;
            assert_eq!(ending(&outcome), NOBODY_KNOWS, "{path}");
        }
        assert_eq!((rig.posts(), rig.gets()), (1, 0), "{path}");
        assert_eq!(fake.ledger().count(), usize::from(applied), "{path}");
    }
}

/// A caller's own `external_order_id` is kept, and is what the order is found by.
#[tokio::test]
async fn an_external_order_id_of_the_callers_own_is_kept_and_looked_up() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::DropAfterApply);
    let body = with_id(order_of(7));
    let outcome = create(&rig.client, "/v2/orders", &body).send().await;
    assert_eq!(ending(&outcome), RECONCILED);
    assert_eq!(rig.sent(&Method::GET)[0].url.query(), Some("external_order_id=shop-42"));
    assert_eq!(fake.ledger().effects_for("shop-42").len(), 1);
}

/// Another's order under the caller's own id is not taken for ours.
#[tokio::test]
async fn an_order_with_our_id_but_other_fields_is_for_a_person() {
    let (rig, fake) = bigcommerce().await;
    let theirs = with_id(order_of(8));
    rig.client.post("/v2/orders").key("theirs").json(&theirs).send().await.expect("their order");
    fake.plan().next(Fault::Error500Before);
    let ours = with_id(order_of(7));
    let outcome = create(&rig.client, "/v2/orders", &ours).send().await;
    assert_eq!((ending(&outcome), rig.posts(), fake.ledger().count()), (NOBODY_KNOWS, 2, 1));
}

/// A refund is found by the key in its reason, whatever else was refunded on the order.
#[tokio::test]
async fn a_refund_is_told_from_others_of_the_order_by_its_reason() {
    let (rig, fake) = bigcommerce().await;
    let items = json!([{"item_type": "PRODUCT", "item_id": 1, "quantity": 1, "reason": "damaged"}]);
    let body =
        json!({"items": items, "payments": [{"provider_id": "custom", "amount": 10, "offline": true}]});
    rig.client.post(REFUNDS).key("first").json(&body).send().await.expect("the first refund");
    fake.plan().next(Fault::DropAfterApply);
    let outcome = rig.client.post(REFUNDS).key("second").json(&body).send().await;
    assert_eq!((ending(&outcome), promise_holds(&outcome, &fake.ledger(), "refund")), (RECONCILED, 1));
    let reason = outcome.expect("found").json::<Value>().expect("json")["data"]["items"][0]["reason"].clone();
    assert!(reason.as_str().is_some_and(|text| text.starts_with("damaged [")), "{reason}");
    assert_eq!((rig.posts(), fake.ledger().count()), (2, 2));
}

/// What a settle time that is too short costs where nothing refuses a second: this is why it is waited out,
/// and why the figure must outlast the store's lag.
#[tokio::test]
async fn a_lag_longer_than_the_settle_time_is_what_the_figure_must_cover() {
    let (rig, fake) = bigcommerce_lagging(std::time::Duration::from_secs(45)).await;
    fake.plan().next(Fault::DropAfterApply);
    let reply = order(&rig.client, "order-42").send().await.expect("believed absent, and sent again");
    assert_eq!(fake.ledger().effects_for(reply.wire_key().expect("a key")).len(), 2);
}
