//! BigCommerce's resources, row by row: where each is found again after a lost answer, and which cannot be.

use http::Method;
use serde_json::{Value, json};
use steadfast::testkit::Fault;
use steadfast::{Call, Client};

use super::vendors::{FRESH, NOBODY_KNOWS, RECONCILED, bigcommerce, ending};

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

fn create(client: &Client, path: &str, body: &Value) -> Call {
    client.post(path).key("the-key").json(body)
}

#[tokio::test]
async fn every_resource_with_a_lookup_is_found_after_a_lost_answer() {
    for (path, body, lookup, filter) in searchable() {
        let (rig, fake) = bigcommerce().await;
        fake.plan().next(Fault::DropAfterApply);
        let outcome = create(&rig.client, path, &body).send().await;
        assert_eq!((ending(&outcome), rig.posts(), fake.ledger().count()), (RECONCILED, 1, 1), "{path}");
        let asked = &rig.sent(&Method::GET)[0].url;
        assert_eq!(asked.path(), format!("/stores/abc123{lookup}"));
        let filters: Vec<String> = asked.query_pairs().map(|(name, _)| name.into_owned()).collect();
        assert_eq!(filters.join(","), filter, "{path}");
        let id = &outcome.expect("found").json::<Value>().expect("json");
        let found = [&id["data"]["id"], &id["data"][0]["id"], &id["id"]].into_iter().find(|id| !id.is_null());
        assert_eq!(found.map(ToString::to_string), Some(fake.ledger().effects()[0].id.clone()), "{path}");
    }
}

#[tokio::test]
async fn every_resource_with_a_lookup_is_sent_again_after_a_proven_absence() {
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
