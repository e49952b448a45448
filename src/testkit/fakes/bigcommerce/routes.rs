//! Which resources a store has, and what a new one is made of. What is not here is a 404: nothing is made up.

use serde_json::{Map, Value, json};

/// Whether a store has a collection of this name; `{}` is any id.
pub(super) fn is_collection(route: &[&str]) -> bool {
    COLLECTIONS.iter().any(|known| {
        let parts: Vec<&str> = known.split('/').collect();
        parts.len() == route.len()
            && parts.iter().zip(route).all(|(known, part)| known == part || *known == "{}")
    })
}

/// Whether it is one of a collection.
pub(super) fn is_item(route: &[&str]) -> bool {
    // Customers of V3 are read, changed and removed through the collection alone.
    route.split_last().is_some_and(|(id, parent)| {
        parent != ["v3", "customers"] && !id.is_empty() && *id != "count" && is_collection(parent)
    })
}

/// What is there before a request sets anything, as far as the reference says that it is always there.
pub(super) fn fields_of(collection: &str, now: &str) -> Map<String, Value> {
    let fields = match collection {
        "v2/orders" => json!({
            "base_shipping_cost": "0.0000", "billing_address": {}, "cart_id": null, "channel_id": 1, "currency_code": "USD",
            "currency_id": 1, "customer_id": 0, "customer_message": "", "date_modified": now, "date_shipped": "",
            "default_currency_code": "USD", "discount_amount": "0.0000", "email": null, "external_id": null,
            "external_order_id": null, "external_source": null, "ip_address": "", "is_deleted": false, "items_shipped": 0,
            "items_total": 0, "order_source": "external", "payment_method": "Manual", "payment_status": "",
            "refunded_amount": "0.0000", "staff_notes": "", "status": "Pending", "status_id": 1, "subtotal_ex_tax": "0.0000",
            "subtotal_inc_tax": "0.0000", "total_ex_tax": "0.0000", "total_inc_tax": "0.0000", "total_tax": "0.0000",
        }),
        "v2/coupons" => json!({
            "amount": "0.0000", "applies_to": {}, "date_created": now, "enabled": true, "expires": "", "max_uses": 0,
            "max_uses_per_customer": 0, "min_purchase": "0.0000", "num_uses": 0, "restricted_to": {}, "shipping_methods": null,
            "type": "per_item_discount",
        }),
        "v2/products" => json!({
            "availability": "available", "date_created": now, "description": "", "inventory_level": 0, "is_visible": false,
            "price": "0.0000", "sku": "", "type": "physical", "weight": "0.0000",
        }),
        "v2/customers" => json!({
            "company": "", "customer_group_id": 0, "date_created": now, "date_modified": now, "first_name": "",
            "last_name": "", "notes": "", "phone": "", "store_credit": "0.0000",
        }),
        "v3/catalog/products" => json!({
            "availability": "available", "base_variant_id": null, "brand_id": 0, "calculated_price": 0, "categories": [],
            "cost_price": 0, "date_created": now, "date_modified": now, "description": "", "inventory_level": 0,
            "inventory_tracking": "none", "is_featured": false, "is_visible": false, "retail_price": 0, "sale_price": 0,
            "sku": "", "sort_order": 0, "total_sold": 0, "view_count": 0,
        }),
        "v3/catalog/brands" => json!({
            "custom_url": null, "image_url": "", "meta_description": "", "meta_keywords": [], "page_title": "",
            "search_keywords": "",
        }),
        "v3/catalog/categories" => json!({
            "description": "", "image_url": "", "is_visible": true, "meta_description": "", "meta_keywords": [],
            "page_title": "", "parent_id": 0, "sort_order": 0, "views": 0,
        }),
        "v3/customers" => json!({
            "company": "", "customer_group_id": 0, "date_created": now, "date_modified": now, "first_name": "",
            "last_name": "", "notes": "", "phone": "", "registration_ip_address": "", "tax_exempt_category": "",
        }),
        "v3/pricelists" => json!({ "active": true, "date_created": now, "date_modified": now }),
        "v2/hooks" | "v3/hooks" => {
            json!({ "client_id": "fake", "headers": {}, "is_active": true, "created_at": 0, "updated_at": 0 })
        }
        _ => json!({}),
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// The filters of a V2 list: it refuses others (the fixture `v2_error`), while V3 ignores them.
pub(super) fn filters_of(collection: &str) -> &'static [&'static str] {
    match collection {
        "v2/orders" => &[
            "min_id",
            "max_id",
            "min_total",
            "max_total",
            "customer_id",
            "email",
            "status_id",
            "cart_id",
            "payment_method",
            "min_date_created",
            "max_date_created",
            "min_date_modified",
            "max_date_modified",
            "channel_id",
            "external_order_id",
            "is_deleted",
        ],
        "v2/coupons" => &["id", "code", "name", "type", "min_id", "max_id", "exclude_type"],
        "v2/products" => &["min_id", "max_id", "name", "sku", "is_visible", "min_price", "max_price"],
        "v2/customers" => {
            &["min_id", "max_id", "email", "first_name", "last_name", "company", "phone", "customer_group_id"]
        }
        "v2/hooks" => &["is_active", "scope", "destination"],
        _ => &[],
    }
}

const COLLECTIONS: [&str; 35] = [
    "v2/orders",
    "v2/orders/{}/products",
    "v2/orders/{}/shipments",
    "v2/orders/{}/shipping_addresses",
    "v2/orders/{}/coupons",
    "v2/orders/{}/messages",
    "v2/coupons",
    "v2/products",
    "v2/customers",
    "v2/customers/{}/addresses",
    "v2/customer_groups",
    "v2/brands",
    "v2/categories",
    "v2/gift_certificates",
    "v2/hooks",
    "v2/pages",
    "v2/redirects",
    "v3/catalog/products",
    "v3/catalog/products/{}/variants",
    "v3/catalog/products/{}/images",
    "v3/catalog/products/{}/custom-fields",
    "v3/catalog/brands",
    "v3/catalog/categories",
    "v3/customers",
    "v3/customers/addresses",
    "v3/pricelists",
    "v3/carts",
    "v3/carts/{}/items",
    "v3/checkouts/{}/orders",
    "v3/hooks",
    "v3/channels",
    "v3/orders/{}/payment_actions/refunds",
    "v3/orders/{}/transactions",
    "v3/inventory/adjustments/relative",
    "v3/inventory/adjustments/absolute",
];
