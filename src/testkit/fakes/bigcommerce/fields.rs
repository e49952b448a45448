//! What a new resource is made of, before a request sets anything.

use serde_json::{Map, Value, json};

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
