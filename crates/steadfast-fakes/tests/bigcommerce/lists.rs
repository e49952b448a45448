//! Which parameters the lists of the BigCommerce fake take, and what is said to those that they do not.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steadfast_fakes::BigCommerceFake;
use steadfast_testkit::TestClock;

use crate::asks::{ask, get, made};

/// The names, or the e-mail addresses, or the codes of what a list shows.
async fn names(fake: &BigCommerceFake, path: &str) -> String {
    let (status, body) = get(fake, path).await;
    assert!(matches!(status, 200 | 204), "{path}: {body}");
    let rows = body.as_array().or_else(|| body["data"].as_array()).cloned().unwrap_or_default();
    let name = |row: &Value| {
        let of = |field: &str| row[field].as_str().map(str::to_owned);
        of("external_order_id").or_else(|| of("name")).or_else(|| of("email")).or_else(|| of("code"))
    };
    rows.iter().filter_map(name).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_parameter_that_is_not_the_lists_is_refused_in_the_vendors_form() {
    let fake = BigCommerceFake::builder().order(700).cart("c").start().await;
    for (path, all) in [
        ("/v3/catalog/products?skus=a", "skus"),
        ("/v3/customers?email=a@x.com&page=1&colour=red", "email, colour"),
        ("/v3/pricelists?id=7", "id"),
        ("/v3/catalog/brands/7?name=a", "name"),
        ("/v3/carts/c?limit=1", "limit"),
        ("/v3/orders/700/payment_actions/refunds?page=2", "page"),
        ("/v3/hooks?sort=id", "sort"),
    ] {
        let (status, refused) = get(&fake, path).await;
        let title = format!("The filter(s): {all} are not valid filter parameter(s).");
        assert_eq!(
            (status, &refused["status"], &refused["title"]),
            (422, &json!(422), &json!(title)),
            "{path}"
        );
        assert!(refused["type"].is_string(), "{path}");
    }
    for (path, first) in [
        ("/v2/orders?external_order=a&b=c", "external_order"),
        ("/v2/orders/count?limit=1", "limit"),
        ("/v2/orders/700?customer_id=1", "customer_id"),
        ("/v2/coupons?code:in=a", "code:in"),
        ("/v2/store?a=1", "a"),
    ] {
        let message = format!("The field '{first}' is not supported by this resource.");
        assert_eq!(get(&fake, path).await, (400, json!([{ "status": 400, "message": message }])), "{path}");
    }
    let known = "The fake does not implement the parameter 'keyword' of BigCommerce.";
    let (status, refused) = get(&fake, "/v3/catalog/products?keyword=mug").await;
    assert_eq!((status, refused["title"].as_str()), (422, Some(known)));
    let (status, refused) = get(&fake, "/v2/orders?include=fees").await;
    assert_eq!(
        (status, refused[0]["message"].as_str()),
        (400, Some(known.replace("keyword", "include").as_str()))
    );
    assert_eq!(get(&fake, "/v3/catalog/brands?name=a&name=b").await.0, 422, "twice");
}

#[tokio::test]
async fn a_value_that_is_not_of_the_parameters_kind_is_refused() {
    let fake = BigCommerceFake::start().await;
    for (path, name, value) in [
        ("/v3/catalog/products", "limit", "a"),
        ("/v3/catalog/products", "page", "0"),
        ("/v3/catalog/products", "id:in", "1,x"),
        ("/v3/catalog/products", "id:min", "1.5"),
        ("/v3/catalog/products", "price", "cheap"),
        ("/v3/catalog/products", "is_visible", "yes"),
        ("/v3/catalog/products", "is_featured", "true"),
        ("/v3/catalog/products", "sort", "colour"),
        ("/v3/customers", "date_created:min", "yesterday"),
        ("/v3/customers", "sort", "last_name"),
        ("/v3/customers", "sort", "last_name:up"),
    ] {
        let (status, refused) = get(&fake, &format!("{path}?{name}={value}")).await;
        let title = refused["title"].as_str().unwrap_or_default();
        assert_eq!(status, 422, "{name}={value}");
        assert!(title.contains(&format!("\"{name}\"")) && title.contains(&format!("\"{value}\"")), "{title}");
    }
    let (status, refused) = get(&fake, "/v2/orders?min_date_created=2020-13-01").await;
    assert_eq!((status, &refused[0]["message"]), (400, &json!("The field 'min_date_created' is invalid.")));
}

#[tokio::test]
async fn products_pass_by_the_filters_of_their_list() {
    let fake = BigCommerceFake::start().await;
    for (name, sku, price, stock, shown) in
        [("Mug", "m-1", 10, 0, true), ("Cup", "c-1", 5, 7, false), ("Red mug", "m-2", 12, 3, true)]
    {
        let product = json!({
            "name": name, "sku": sku, "price": price, "type": "physical", "weight": 1, "inventory_level": stock,
            "is_visible": shown,
        });
        made(&fake, "/v3/catalog/products", &product).await;
    }
    for (query, expected) in [
        ("", "Mug Cup Red mug"),
        ("?id=101", "Cup"),
        ("?id:in=100,%20102,7", "Mug Red mug"),
        ("?id:not_in=100,102", "Cup"),
        ("?id:min=101", "Cup Red mug"),
        ("?id:greater=101", "Red mug"),
        ("?id:max=101&id:min=101", "Cup"),
        ("?id:less=101", "Mug"),
        ("?name=mug", "Mug"),
        ("?sku=C-1", "Cup"),
        ("?sku:in=m-2,c-1", "Cup Red mug"),
        ("?price=10.00", "Mug"),
        ("?inventory_level:greater=3", "Cup"),
        ("?inventory_level:less=7&inventory_level:min=1", "Red mug"),
        ("?inventory_level:not_in=0,7", "Red mug"),
        ("?is_visible=true&type=physical", "Mug Red mug"),
        ("?is_featured=1", ""),
        ("?is_featured=0&availability=available", "Mug Cup Red mug"),
        ("?sort=price", "Cup Mug Red mug"),
        ("?sort=name&direction=desc", "Red mug Mug Cup"),
        ("?sort=price&direction=desc&limit=1&page=2", "Mug"),
    ] {
        assert_eq!(names(&fake, &format!("/v3/catalog/products{query}")).await, expected, "{query}");
    }
}

#[tokio::test]
async fn orders_customers_and_the_rest_pass_by_the_filters_of_theirs() {
    let fake = BigCommerceFake::builder().customer(7).customer(8).start().await;
    for (name, customer, price) in [("a", 7, 10), ("b", 8, 20), ("c", 7, 30)] {
        let products =
            json!([{ "name": "Mug", "quantity": 1, "price_inc_tax": price, "price_ex_tax": price }]);
        let mut order = json!({ "external_order_id": name, "customer_id": customer, "products": products });
        order["billing_address"] = json!({ "zip": "12345" });
        made(&fake, "/v2/orders", &order).await;
    }
    let people = json!([
        { "email": "z@x.com", "first_name": "James", "last_name": "Moriarty", "company": "A" },
        { "email": "y@x.com", "first_name": "Ada", "last_name": "Byron", "customer_group_id": 3 },
    ]);
    made(&fake, "/v3/customers", &people).await;
    let mut parent = json!(0);
    for name in ["Stickers", "Lipstick colors", "Cups"] {
        let category = json!({ "name": name, "parent_id": parent });
        parent = made(&fake, "/v3/catalog/categories", &category).await["id"].clone();
    }
    for (code, kind) in [("x", "free_shipping"), ("y", "per_total_discount")] {
        let coupon =
            json!({ "name": code, "code": code, "type": kind, "amount": 5, "applies_to": { "ids": [0] } });
        made(&fake, "/v2/coupons", &coupon).await;
    }
    for (path, expected) in [
        ("/v2/orders?min_total=15", "b c"),
        ("/v2/orders?max_total=20&customer_id=7", "a"),
        ("/v2/orders?sort=customer_id:desc", "b a c"),
        ("/v2/orders?sort=id:desc&limit=2", "c b"),
        ("/v2/orders?cart_id=none", ""),
        ("/v3/customers?email:in=Y@x.com,none", "y@x.com"),
        ("/v3/customers?name:in=james%20moriarty", "z@x.com"),
        ("/v3/customers?company:in=a,b", "z@x.com"),
        ("/v3/customers?customer_group_id:in=3", "y@x.com"),
        ("/v3/customers?sort=last_name:asc", "customer-7@example.com customer-8@example.com y@x.com z@x.com"),
        ("/v3/catalog/categories?name:like=STICK", "Stickers Lipstick colors"),
        ("/v3/catalog/categories?parent_id:min=1", "Lipstick colors Cups"),
        ("/v2/coupons?exclude_type=per_total_discount", "x"),
        ("/v2/coupons?code=Y", "y"),
        // A field that a category has not equals nothing.
        ("/v3/catalog/brands?page_title=a", ""),
    ] {
        assert_eq!(names(&fake, path).await, expected, "{path}");
    }
    assert_eq!(get(&fake, "/v2/orders/count?customer_id=7").await.1["count"], 2);
}

#[tokio::test]
async fn dates_are_read_with_their_zone_and_a_change_is_a_later_one() {
    let clock = TestClock::new();
    let fake = BigCommerceFake::builder().clock(Arc::new(clock.clone())).start().await;
    let product = |name: &str| json!({ "name": name, "price": 1, "type": "physical", "weight": 1 });
    for name in ["a", "b"] {
        made(&fake, "/v3/catalog/products", &product(name)).await;
    }
    let order = json!({
        "external_order_id": "o", "billing_address": { "zip": "1" }, "products": [{ "product_id": 1, "quantity": 1 }],
    });
    let created = made(&fake, "/v2/orders", &order).await["date_created"].as_str().unwrap().to_owned();
    let created = created.replace('+', "%2B");
    assert_eq!(names(&fake, &format!("/v2/orders?max_date_created={created}")).await, "o");
    let west = created.replace("%2B0000", "-0100");
    assert_eq!(names(&fake, &format!("/v2/orders?min_date_created={west}")).await, "", "an hour later");

    clock.advance(Duration::from_hours(49));
    let (_, changed) = ask(&fake, Method::PUT, "/v3/catalog/products/101", &json!({ "price": 2 })).await;
    let day = &changed["data"]["date_modified"].as_str().unwrap()[..10];
    assert_ne!(changed["data"]["date_modified"], changed["data"]["date_created"]);
    // A day without a time is that day at the time of the request.
    assert_eq!(names(&fake, &format!("/v3/catalog/products?date_modified:min={day}")).await, "b");
    assert_eq!(names(&fake, &format!("/v3/catalog/products?date_modified:max={day}")).await, "a b");
    assert_eq!(names(&fake, &format!("/v3/catalog/products?date_modified:max={day}T00:00:00")).await, "a");
}

#[tokio::test]
async fn a_removal_takes_the_filters_of_removals_and_removes_nothing_else() {
    let fake = BigCommerceFake::start().await;
    made(&fake, "/v3/catalog/brands", &json!({ "name": "a" })).await;
    made(&fake, "/v3/catalog/brands", &json!({ "name": "b" })).await;
    for query in ["", "?id:in=100", "?names=a"] {
        let (status, refused) =
            ask(&fake, Method::DELETE, &format!("/v3/catalog/brands{query}"), &Value::Null).await;
        assert_eq!((status, &refused["status"]), (422, &json!(422)), "{query}");
    }
    assert_eq!(ask(&fake, Method::DELETE, "/v3/catalog/brands?name=a", &Value::Null).await.0, 204);
    assert_eq!(names(&fake, "/v3/catalog/brands").await, "b");
}

#[tokio::test]
async fn a_method_a_parameter_or_a_body_that_a_write_does_not_have_is_refused() {
    let fake = BigCommerceFake::builder().order(700).cart("c").start().await;
    let brand = made(&fake, "/v3/catalog/brands", &json!({ "name": "a" })).await["id"].clone();
    let count = fake.ledger().count();
    for (method, path, body, status) in [
        (Method::POST, "/v3/orders/700/transactions", json!({}), 405),
        (Method::POST, "/v2/orders/700/products", json!({}), 405),
        (Method::PUT, "/v2/orders", json!([]), 405),
        (Method::POST, "/v2/orders/700", json!({}), 405),
        (Method::DELETE, "/v3/carts", Value::Null, 405),
        (Method::GET, "/v3/carts", Value::Null, 405),
        (Method::POST, "/v3/catalog/brands?name=b", json!({ "name": "b" }), 422),
        (Method::POST, "/v2/coupons?a=b", json!({}), 400),
        (Method::POST, "/v3/catalog/brands", json!([{ "name": "b" }]), 422),
        (Method::POST, "/v2/coupons", json!(["b"]), 400),
        (Method::PUT, &format!("/v3/catalog/brands/{brand}"), json!(7), 422),
        (Method::PUT, &format!("/v3/catalog/brands/{brand}?x=1"), json!({}), 422),
        (Method::POST, "/v3/customers", json!(["b"]), 422),
        (Method::POST, "/v3/customers/addresses", json!([{ "customer_id": 7 }]), 422),
        (Method::POST, "/v3/spaceships", json!({}), 404),
    ] {
        let (answered, refused) = ask(&fake, method.clone(), path, &body).await;
        assert_eq!(answered, status, "{method} {path} {body}");
        let stated = refused.get(0).unwrap_or(&refused)["status"].clone();
        assert_eq!(stated, status, "{method} {path}: {refused}");
    }
    assert_eq!(fake.ledger().count(), count);
}

#[tokio::test]
async fn a_change_cannot_make_a_second_of_a_unique_field() {
    let fake = BigCommerceFake::start().await;
    for name in ["a", "b"] {
        made(&fake, "/v3/catalog/brands", &json!({ "name": name })).await;
    }
    for (name, status) in [("A", 409), ("B", 200)] {
        let change = json!({ "name": name });
        assert_eq!(ask(&fake, Method::PUT, "/v3/catalog/brands/101", &change).await.0, status, "{name}");
    }
}

#[tokio::test]
async fn a_batch_is_applied_whole_or_not_at_all_unless_the_switch_says_otherwise() {
    let customer = |email: &str| json!({ "email": email, "first_name": "Jo", "last_name": "Doe" });
    let batch = json!([customer("a@x.com"), customer("taken@x.com"), customer("A@x.com")]);
    for (builder, status, made_of) in [
        (BigCommerceFake::builder(), 422, 0),
        (BigCommerceFake::builder().partial_batches(), 207, 1),
        (BigCommerceFake::builder().partial_batches_unsaid(), 422, 1),
    ] {
        let fake = builder.start().await;
        made(&fake, "/v3/customers", &json!([customer("taken@x.com")])).await;
        let (answered, answer) = ask(&fake, Method::POST, "/v3/customers", &batch).await;
        assert_eq!((answered, fake.ledger().effects_for("a@x.com").len()), (status, made_of));
        assert_eq!(fake.ledger().count(), 1 + made_of);
        if answered == 207 {
            assert_eq!(answer["meta"], json!({ "total": 3, "success": 1, "failed": 2 }));
            assert_eq!(answer["data"][0]["email"], "a@x.com");
        }
    }
}

#[tokio::test]
async fn a_product_is_saved_without_its_stock_or_its_url_if_those_cannot_be() {
    let fake = BigCommerceFake::start().await;
    let product = |name: &str, url: &str| json!({ "name": name, "price": 1, "type": "physical", "weight": 1, "custom_url": { "url": url } });
    made(&fake, "/v3/catalog/products", &product("a", "/mug/")).await;
    for (name, url) in [("b", "/MUG/"), ("c", "/m\u{fc}ck/"), ("d", &"x".repeat(256))] {
        let (status, saved) = ask(&fake, Method::POST, "/v3/catalog/products", &product(name, url)).await;
        assert_eq!((status, &saved["data"]["name"]), (207, &json!(name)));
        assert!(saved["data"]["custom_url"].is_null() && saved["errors"]["errors"]["custom_url"].is_string());
    }
    let own = ask(&fake, Method::PUT, "/v3/catalog/products/100", &product("a", "/mug/")).await;
    assert_eq!((own.0, &own.1["data"]["custom_url"]["url"]), (200, &json!("/mug/")));
    assert_eq!(fake.ledger().count(), 5);
}

#[tokio::test]
async fn a_page_of_v3_tells_how_the_pages_beside_it_are_asked_for() {
    let store = BigCommerceFake::builder().customer(7).customer(8).customer(9).start().await;
    let rows = "email:in=customer-7@example.com,customer-8@example.com,customer-9@example.com";
    let (mut asked, mut found) = (format!("?{rows}&limit=1"), Vec::new());
    for page in 1..=3 {
        let (status, told) = get(&store, &format!("/v3/customers{asked}")).await;
        assert_eq!(status, 200, "{asked}: {told}");
        found.push(told["data"][0]["id"].clone());
        let links = &told["meta"]["pagination"]["links"];
        assert_eq!((links["previous"].is_null(), links["next"].is_null()), (page == 1, page == 3), "{told}");
        let current = links["current"].as_str().unwrap();
        assert!(current.ends_with(&format!("page={page}&limit=1")), "{current}");
        asked = links["next"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(json!(found), json!([7, 8, 9]));
}
