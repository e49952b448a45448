//! The cost of the adapters' lookups to a fake, counted in things that it looks at: as much with few others as with
//! many.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use steadfast_testkit::TestClock;
use support::answers::asked;

use super::{AdyenFake, BigCommerceFake, InProcess, PostmarkFake, StripeFake};

const FEW: usize = 20;
const MANY: usize = 1_000;

/// Sends a request, JSON but where the path is Stripe's, and gives the answer's body.
async fn ask(fake: &InProcess, method: Method, path: &str, body: String) -> Value {
    let form = path.starts_with("/v1/");
    let headers = [
        ("authorization", if path == "/payments" { "PAT token" } else { "Bearer sk_test_1" }),
        ("x-auth-token", "token"),
        ("x-api-key", "key"),
        ("x-postmark-server-token", "token"),
        ("content-type", if form { "application/x-www-form-urlencoded" } else { "application/json" }),
    ];
    let (status, answer) = asked(fake, method, path, &headers, body).await;
    assert!((200..300).contains(&status), "{path}: {status} {answer}");
    answer
}

async fn get(fake: &InProcess, path: &str) -> Value {
    ask(fake, Method::GET, path, String::new()).await
}

#[tokio::test]
async fn a_lookup_at_stripe_looks_at_what_was_made_in_its_time() {
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let clock = TestClock::new();
        let stripe = StripeFake::builder().test_clock(&clock).in_process();
        let transport = stripe.transport();
        let charge =
            || ask(&transport, Method::POST, "/v1/payment_intents", "amount=100&currency=usd".into());
        for _ in 0..others {
            charge().await;
        }
        clock.advance(Duration::from_secs(600));
        let since = TestClock::START.as_millis() / 1000 + 600;
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(charge().await["id"].as_str().unwrap().to_owned());
        }
        stripe.take_shown();
        let list = format!("/v1/payment_intents?created[gte]={since}");
        let mut cost = Vec::new();
        for (path, rows) in [
            (format!("{list}&limit=100"), 5),
            // A page, and one more to know that there are more.
            (format!("{list}&limit=2"), 2),
            (format!("{list}&limit=2&starting_after={}", ids[3]), 2),
        ] {
            assert_eq!(get(&transport, &path).await["data"].as_array().unwrap().len(), rows, "{path}");
            cost.push(stripe.take_shown());
        }
        get(&transport, &format!("/v1/payment_intents/{}", ids[0])).await;
        charge().await;
        cost.push(stripe.take_shown());
        costs.push(cost);
    }
    // The first object that is too old ends the list; a page's start, and the predecessors of an object and of its
    // event are looked at.
    assert_eq!(costs, [[6, 3, 4, 3], [6, 3, 4, 3]]);
}

#[tokio::test]
async fn a_transfer_at_stripe_looks_at_those_of_its_charge() {
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let stripe = StripeFake::builder().test_clock(&TestClock::new()).in_process();
        let transport = stripe.transport();
        let post = |path: &'static str, form: &str| ask(&transport, Method::POST, path, form.to_owned());
        let id = |made: Value| made["id"].as_str().unwrap().to_owned();
        let destination = id(post("/v1/accounts", "type=express").await);
        let charge = id(post("/v1/charges", "amount=100&currency=usd").await);
        let transfer = format!("amount=1&currency=usd&destination={destination}");
        for _ in 0..others {
            post("/v1/transfers", &transfer).await;
        }
        let of_charge = format!("{transfer}&source_transaction={charge}");
        for _ in 0..2 {
            post("/v1/transfers", &of_charge).await;
        }
        stripe.take_shown();
        post("/v1/transfers", &of_charge).await;
        costs.push(stripe.take_shown());
    }
    // The account, the charge twice, and its two transfers. The rest are the predecessors of what is made: the transfer,
    // its line of the balance, and its event.
    assert_eq!(costs, [8, 8]);
}

#[tokio::test]
async fn a_search_at_postmark_looks_at_the_messages_with_that_metadata() {
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let clock = TestClock::new();
        let postmark = PostmarkFake::builder().test_clock(&clock).in_process();
        let transport = postmark.transport();
        for message in 0..others {
            let batch = if message < 3 { "batch" } else { "other" };
            let message = json!({
                "From": "a@example.com", "To": "b@example.com", "Subject": "s", "TextBody": "t",
                "Metadata": { "steadfast_key": message.to_string(), "steadfast_batch": batch },
            });
            ask(&transport, Method::POST, "/email", message.to_string()).await;
        }
        assert_eq!(postmark.take_shown(), 0, "a message is sent without a look at others");
        let mut cost = Vec::new();
        for (filter, hits) in
            [("steadfast_key=7", 1), ("steadfast_key=none", 0), ("steadfast_batch=batch", 3)]
        {
            let path = format!("/messages/outbound?count=500&offset=0&metadata_{filter}");
            assert_eq!(get(&transport, &path).await["TotalCount"], hits, "{filter}");
            cost.push(postmark.take_shown());
        }
        costs.push(cost);
    }
    assert_eq!(costs, [[1, 0, 3], [1, 0, 3]]);
}

/// The path of each collection, the field that tells one object from another, and its lookup.
const COLLECTIONS: [(&str, &str, &str); 7] = [
    ("/v2/orders", "external_order_id", "/v2/orders?external_order_id=k7"),
    ("/v3/checkouts/k7/orders", "cart_id", "/v2/orders?cart_id=K7"),
    ("/v3/catalog/products", "sku", "/v3/catalog/products?sku=K7"),
    ("/v3/catalog/brands", "name", "/v3/catalog/brands?name=k7"),
    ("/v3/customers", "email", "/v3/customers?email:in=k7,k8"),
    ("/v2/coupons", "code", "/v2/coupons?code=k7"),
    ("/v3/orders/7/payment_actions/refunds", "reason", "/v3/orders/7/payment_actions/refunds"),
];

/// The body of an object that is made with this field.
fn body_of(field: &str, value: &str) -> Value {
    let mug = json!({ "name": "Mug", "quantity": 1, "price_inc_tax": 10, "price_ex_tax": 10 });
    let mut body = match field {
        "external_order_id" => json!({ "billing_address": { "zip": "1" }, "products": [mug] }),
        "sku" => json!({ "name": value, "price": 1, "type": "physical", "weight": 1 }),
        "email" => json!({ "first_name": "Jo", "last_name": "Doe" }),
        "code" => {
            json!({ "name": value, "type": "per_total_discount", "amount": 5, "applies_to": { "ids": [0] } })
        }
        "reason" => {
            let item = json!({ "item_type": "ORDER", "item_id": 1, "amount": 1, "reason": value });
            let payment = json!({ "provider_id": "custom", "amount": 1, "offline": true });
            return json!({ "items": [item], "payments": [payment] });
        }
        "cart_id" => return json!({}),
        _ => json!({}),
    };
    body[field] = Value::from(value);
    if field == "email" { json!([body]) } else { body }
}

/// The path with the order's own id.
fn of_order(path: &str, id: &Value) -> String {
    path.replace("/7/", &format!("/{id}/"))
}

#[tokio::test]
async fn a_lookup_at_bigcommerce_looks_at_the_items_with_that_field() {
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let builder = BigCommerceFake::builder().test_clock(&TestClock::new());
        let store = (0..others).fold(builder, |builder, item| builder.cart(format!("k{item}"))).in_process();
        let transport = store.transport();
        let (mut cost, mut orders) = (Vec::new(), Vec::new());
        for (path, field, lookup) in COLLECTIONS {
            for item in 0..others {
                // Each order's refunds are a collection of their own.
                let path = orders.get(item).map_or_else(|| path.to_owned(), |id| of_order(path, id));
                let path = path.replace("/k7/", &format!("/k{item}/"));
                let body = body_of(field, &format!("k{item}"));
                let made = ask(&transport, Method::POST, &format!("/stores/s{path}"), body.to_string()).await;
                orders.extend((field == "external_order_id").then(|| made["id"].clone()));
            }
            // A refund looks at its order and at what that is of, and changes the order. A checkout looks at its cart.
            let written = store.take_shown() / others as u64;
            let lookup = of_order(lookup, &orders[7]);
            let found = get(&transport, &format!("/stores/s{lookup}")).await;
            let rows = found.as_array().or_else(|| found["data"].as_array()).unwrap();
            assert!(
                rows.iter().any(|row| row[field] == "k7" || row["items"][0][field] == "k7"),
                "{lookup}: {found}"
            );
            cost.push((written, rows.len(), store.take_shown()));
        }
        // A page of V2 says nothing of the rest.
        store.take_shown();
        let page = get(&transport, "/stores/s/v2/orders?limit=2&page=3&min_id=1").await;
        cost.push((0, page.as_array().unwrap().len(), store.take_shown()));
        let page = get(&transport, "/stores/s/v2/orders?limit=9&min_id=110&max_id=112").await;
        cost.push((0, page.as_array().unwrap().len(), store.take_shown()));
        let order = get(&transport, "/stores/s/v2/orders/100").await;
        assert_eq!(order["id"], 100);
        ask(&transport, Method::PUT, "/stores/s/v2/orders/100", json!({ "status_id": 1 }).to_string()).await;
        ask(&transport, Method::DELETE, "/stores/s/v2/orders/100", String::new()).await;
        cost.push((0, 1, store.take_shown()));
        costs.push(cost);
    }
    let one = |rows, looked_at| (0, rows, looked_at);
    let all = [
        one(1, 1),
        (2, 1, 1),
        one(1, 1),
        one(1, 1),
        one(2, 2),
        one(1, 1),
        (5, 1, 2),
        one(2, 6),
        one(2, 2),
        // A read, a change that looks at what the order has too, and a removal that looks whether it is there.
        one(1, 8),
    ];
    assert_eq!(costs, [all, all]);
}

#[tokio::test]
async fn a_change_at_adyen_looks_at_the_payment_that_it_is_of() {
    let payment = |reference: usize| {
        json!({
            "merchantAccount": "Shop", "reference": reference.to_string(), "returnUrl": "https://shop.example/",
            "amount": { "value": 10, "currency": "EUR" },
            "paymentMethod": { "type": "scheme", "encryptedCardNumber": "test_4111111111111111" },
        })
        .to_string()
    };
    let amount = json!({ "value": 10, "currency": "EUR" });
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let clock = TestClock::new();
        let adyen = AdyenFake::builder().test_clock(&clock).in_process();
        let transport = adyen.transport();
        let mut paid = Value::Null;
        for reference in 0..others {
            paid = ask(&transport, Method::POST, "/v71/payments", payment(reference)).await;
        }
        adyen.take_shown();
        let path = format!("/v71/payments/{}/captures", paid["pspReference"].as_str().unwrap());
        let capture = json!({ "merchantAccount": "Shop", "amount": amount }).to_string();
        ask(&transport, Method::POST, &path, capture).await;
        let mut cost = vec![adyen.take_shown()];
        let cancel = json!({ "merchantAccount": "Shop", "paymentReference": "3" }).to_string();
        ask(&transport, Method::POST, "/v71/cancels", cancel).await;
        cost.push(adyen.take_shown());
        costs.push(cost);
    }
    assert_eq!(costs, [[1, 1], [1, 1]]);
}

#[tokio::test]
async fn a_payment_at_adyen_looks_at_the_session_or_the_link_that_it_is_of() {
    let card = json!({ "type": "scheme", "encryptedCardNumber": "test_4111111111111111" });
    let mut costs = Vec::new();
    for others in [FEW, MANY] {
        let adyen = AdyenFake::builder().test_clock(&TestClock::new()).in_process();
        let transport = adyen.transport();
        let mut ids = Vec::new();
        for reference in 0..others {
            let page = json!({
                "merchantAccount": "Shop", "reference": reference.to_string(), "returnUrl": "https://shop.example/",
                "amount": { "value": 10, "currency": "EUR" },
            })
            .to_string();
            for path in ["/v71/sessions", "/v71/paymentLinks"] {
                let made = ask(&transport, Method::POST, path, page.clone()).await;
                ids.push(made["id"].as_str().unwrap().to_owned());
            }
        }
        let mut cost = vec![adyen.take_shown_checkouts()];
        let paid = adyen.pay(&ids[6], &card).unwrap();
        cost.push(adyen.take_shown_checkouts());
        let result = paid["sessionResult"].as_str().unwrap();
        get(&transport, &format!("/v71/sessions/{}?sessionResult={result}", ids[6])).await;
        cost.push(adyen.take_shown_checkouts());
        let link = format!("/v71/paymentLinks/{}", ids[7]);
        get(&transport, &link).await;
        ask(&transport, Method::PATCH, &link, json!({ "status": "expired" }).to_string()).await;
        cost.push(adyen.take_shown_checkouts());
        costs.push(cost);
    }
    // Before the payment and after it; then once for each request.
    assert_eq!(costs, [[0, 2, 1, 2], [0, 2, 1, 2]]);
}
