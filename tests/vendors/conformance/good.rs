//! The adapters that pass.

use std::cell::Cell;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use steadfast::clock::Timestamp;
use steadfast::testkit::conformance::{self, Breach, Conformance, rfc3339};
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{
    Adyen, Attempt, BigCommerce, Keyed, KeyedConfig, Postmark, SpeaksFor, Stripe, Vendor, Verdict,
};
use steadfast::{Effect, Refusal};

use crate::conformance::custom_vendor::{Parcels, listed};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &Value) -> Answer {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect::<HeaderMap>();
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_string())
}

#[track_caller]
fn passes(breaches: &[Breach]) {
    let told: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// It passes, and has a lookup.
#[track_caller]
fn passes_and_is_found(run: Conformance<'_>, found: impl Fn(&str, Timestamp) -> Answer) {
    let has_lookup = Cell::new(false);
    let found = |key: &str, at: Timestamp| {
        has_lookup.set(true);
        found(key, at)
    };
    passes(&run.found(found).breaches());
    assert!(has_lookup.get(), "it has no lookup");
}

#[test]
fn the_example_passes() {
    let parcels = Parcels::new("main-warehouse", "not-a-real-token");
    let refused = answer(400, &[], &json!({"code": "no_address"}));
    passes(&conformance::vendor(&parcels).failure(refused).found(listed).breaches());
}

/// When it was created, in seconds.
fn seconds(at: Timestamp) -> u64 {
    at.as_millis() / 1000
}

#[test]
fn stripe_passes() {
    let stripe = Stripe::new("sk_test_51Nf0bW2eZvKYlo2CkQzXwVb").api_version("2025-08-27.basil");
    let own = [("request-id", "req_1")];
    let declined = answer(402, &own, &json!({"error": {"type": "card_error", "code": "card_declined"}}));
    let created = answer(200, &own, &json!({"object": "charge", "id": "ch_1"}));
    let listed = |key: &str, at: Timestamp| {
        let charge = json!({"id": "ch_1", "created": seconds(at), "metadata": {"steadfast_key": key}});
        answer(200, &[], &json!({"object": "list", "data": [charge], "has_more": false}))
    };
    let replayed = [("request-id", "req_2"), ("idempotent-replayed", "true")];
    let replayed = answer(200, &replayed, &json!({"object": "charge", "id": "ch_1"}));
    for route in STRIPE_LOOKED_UP {
        let run = conformance::vendor(&stripe).call(route, FORM, "amount=1000&currency=usd");
        let run = run.success(created.clone()).failure(declined.clone()).replayed(replayed.clone());
        passes_and_is_found(run, listed);
    }
    // Routes without a lookup.
    for (route, body) in [("/v1/charges/ch_1/capture", "amount=1000"), ("/v1/quotes", "")] {
        let run = conformance::vendor(&stripe).call(route, FORM, body);
        let run = run.success(created.clone()).failure(declined.clone()).replayed(replayed.clone());
        passes(&run.breaches());
    }
    // The second version of the API: it keeps no failure.
    let run = conformance::vendor(&stripe).call("/v2/core/events", JSON, r#"{"amount":10.00}"#);
    passes(&run.success(created).failure(declined).breaches());
}

/// Those that `Stripe::lookup_by_metadata` names as its default.
const STRIPE_LOOKED_UP: [&str; 20] = [
    "/v1/payment_intents",
    "/v1/charges",
    "/v1/refunds",
    "/v1/customers",
    "/v1/invoices",
    "/v1/subscriptions",
    "/v1/products",
    "/v1/prices",
    "/v1/payouts",
    "/v1/transfers",
    "/v1/topups",
    "/v1/setup_intents",
    "/v1/coupons",
    "/v1/promotion_codes",
    "/v1/invoiceitems",
    "/v1/plans",
    "/v1/tax_rates",
    "/v1/shipping_rates",
    "/v1/subscription_schedules",
    "/v1/accounts",
];

#[test]
fn postmark_passes() {
    let postmark = Postmark::new("a-server-token");
    let sent = answer(200, &[], &json!({"MessageID": "1", "ErrorCode": 0, "Message": "OK"}));
    let refused = answer(422, &[], &json!({"ErrorCode": 300, "Message": "Invalid 'From'"}));
    let listed = |key: &str, at: Timestamp| {
        let message = json!({
            "MessageID": "1", "Metadata": {"steadfast_key": key}, "ReceivedAt": rfc3339(at),
            "To": [{"Email": "b@x.test", "Name": null}],
        });
        answer(200, &[], &json!({"TotalCount": 1, "Messages": [message]}))
    };
    let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid.", "TrackOpens": true});
    for route in ["/email", "/email/", "/email/withTemplate"] {
        let run = conformance::vendor(&postmark).call(route, JSON, mail.to_string());
        passes_and_is_found(run.success(sent.clone()).failure(refused.clone()), listed);
    }
    let of_batch = |key: &str, at: Timestamp| listed(&format!("{key}-0"), at);
    let done = answer(200, &[], &json!([{"MessageID": "1", "ErrorCode": 0, "Message": "OK"}]));
    let template =
        json!({"From": "a@shop.test", "To": "b@x.test", "TemplateId": 1, "TemplateModel": {"total": 10}});
    for (route, mails) in [
        ("/email/batch", json!([mail])),
        ("/email/batchWithTemplates", json!({"Messages": [template]})),
        ("/email/batchWithTemplates/", json!({"Messages": [template]})),
    ] {
        let run = conformance::vendor(&postmark).call(route, JSON, mails.to_string());
        passes_and_is_found(run.success(done.clone()).failure(refused.clone()), of_batch);
    }
    // A route that sends no mail.
    let run = conformance::vendor(&postmark).call("/templates", JSON, r#"{"Name":"Receipt"}"#);
    passes(&run.failure(refused).breaches());
}

/// A list of `row` in the shape of the API's third version, or of its second.
fn rows(is_v2: bool, row: &Value) -> Answer {
    let body =
        if is_v2 { json!([row]) } else { json!({"data": [row], "meta": {"pagination": {"total_pages": 1}}}) };
    answer(200, &[], &body)
}

#[test]
fn bigcommerce_passes() {
    let store = BigCommerce::new("abc123", "an-access-token");
    let refused = answer(422, &[], &json!({"status": 422, "title": "no"}));
    let own_v2 = answer(400, &[], &json!([{"status": 400, "message": "The field 'x' is invalid."}]));
    let created = answer(200, &[], &json!({"data": {"id": 7}, "meta": {}}));

    let run = conformance::vendor(&store).call("/v2/orders", JSON, r#"{"customer_id":7,"total":10.00}"#);
    let order = |key: &str, at: Timestamp| {
        let row = json!({"id": 1, "customer_id": 7, "total": "10.0000", "external_order_id": key,
            "date_created": at.to_string()});
        rows(true, &row)
    };
    passes_and_is_found(run.success(created.clone()).failure(own_v2.clone()), order);

    let cart = "0f2c7a1e-7e0c-4c53-9d0e-3a6b1f6e2d11";
    let route = format!("/v3/checkouts/{cart}/orders");
    let run = conformance::vendor(&store).call(&route, JSON, "");
    let order_of_cart = |_: &str, at: Timestamp| {
        rows(true, &json!({"id": 1, "cart_id": cart, "date_created": at.to_string()}))
    };
    passes_and_is_found(run.success(created.clone()).failure(refused.clone()), order_of_cart);

    let coupon = json!({"name": "Ten off", "code": "TEN-OFF", "type": "per_total_discount", "amount": "10"});
    let run = conformance::vendor(&store).call("/v2/coupons", JSON, coupon.to_string());
    let mut made = coupon;
    made["id"] = 7.into();
    let coupons = |_: &str, at: Timestamp| {
        let mut row = made.clone();
        row["date_created"] = at.to_string().into();
        rows(true, &row)
    };
    passes_and_is_found(run.success(answer(201, &[], &made)).failure(own_v2), coupons);

    let refund = json!({"items": [{"item_type": "PRODUCT", "item_id": 1, "quantity": 1}]});
    let route = "/v3/orders/100/payment_actions/refunds";
    let run = conformance::vendor(&store).call(route, JSON, refund.to_string());
    let refunded = |key: &str, at: Timestamp| {
        rows(false, &json!({"id": 1, "items": [{"reason": key}], "created": rfc3339(at)}))
    };
    passes_and_is_found(run.success(created.clone()).failure(refused.clone()), refunded);

    for (route, body) in [
        ("/v3/catalog/products", json!({"name": "Mug", "sku": "MUG-1", "price": 10})),
        ("/v3/catalog/brands", json!({"name": "Mug"})),
        ("/v3/catalog/categories", json!({"name": "Mug"})),
        ("/v3/pricelists", json!({"name": "Mug"})),
    ] {
        let listed = |_: &str, at: Timestamp| {
            let mut row = body.clone();
            row["date_created"] = rfc3339(at).into();
            rows(false, &row)
        };
        let run = conformance::vendor(&store).call(route, JSON, body.to_string());
        passes_and_is_found(run.success(created.clone()).failure(refused.clone()), listed);
    }
    let people = json!([{"email": "ann@x.test", "first_name": "Ann"}]);
    let listed = |_: &str, at: Timestamp| {
        rows(
            false,
            &json!({"id": 1, "email": "Ann@x.test", "first_name": "Ann", "date_created": rfc3339(at)}),
        )
    };
    let run = conformance::vendor(&store).call("/v3/customers", JSON, people.to_string());
    passes_and_is_found(run.success(created.clone()).failure(refused.clone()), listed);
    // Routes whose objects cannot be found again.
    for route in ["/v3/carts", "/v2/orders/100/shipments"] {
        let run = conformance::vendor(&store).call(route, JSON, r#"{"quantity":1}"#);
        passes(&run.success(created.clone()).failure(refused.clone()).breaches());
    }
}

#[test]
fn adyen_passes() {
    let adyen = Adyen::new("AQEkQzXwVbTmRpLsNdFgHjK8f2c");
    let problem = json!({"status": 422, "errorCode": "100", "message": "", "errorType": "validation"});
    let refused = answer(422, &[], &problem);
    let paid = answer(200, &[], &json!({"pspReference": "993617894903480A", "resultCode": "Authorised"}));
    let received = answer(201, &[], &json!({"pspReference": "993617894903480A", "status": "received"}));
    let body = r#"{"reference":"order-42","amount":{"value":10.00,"currency":"EUR"}}"#;
    for (route, success) in [
        ("/v71/payments", &paid),
        ("/v71/payments/details", &paid),
        ("/v71/payments/993617894903480A/captures", &received),
        ("/v71/payments/993617894903480A/refunds", &received),
        ("/v71/cancels", &received),
        // Others that take a key, and one that is not known to.
        ("/v71/sessions", &received),
        ("/v71/forward", &received),
    ] {
        let run = conformance::vendor(&adyen).call(route, JSON, body);
        passes(&run.success(success.clone()).failure(refused.clone()).breaches());
    }
}

/// A preset, at an address of the test's.
fn preset(name: &str) -> Keyed {
    let mut config = KeyedConfig::preset(name).expect(name);
    config.base_url = "https://vendor.test/v1".to_owned();
    config.headers.entry("PLAID-CLIENT-ID".to_owned()).and_modify(|id| *id = "an-account".to_owned());
    Keyed::new(config, "kQzXwVbTmRpLsNdFgHjK8f2c")
}

/// How Increase, and others with the same header, answer a repeat.
fn replayed() -> Answer {
    answer(200, &[("idempotent-replayed", "true")], &json!({"id": "transfer_1"}))
}

#[test]
fn the_known_keyed_vendors_pass() {
    let refused = || answer(422, &[("content-type", JSON)], &json!({"message": "no such currency"}));
    for name in ["checkout", "gocardless", "increase", "paypal", "plaid", "resend", "square"] {
        let adapter = preset(name);
        assert_eq!(conformance::vendor(&adapter).failure(refused()).breaches(), [], "{name}");
        // Of a route a verdict asks whether it takes the key and nothing else: one that does, and one beside it. The rest
        // are known by their window.
        for (nth, route) in adapter.config().keyed_routes.iter().flatten().enumerate() {
            let (method, path) = route.split_once(' ').expect("a method and a path");
            let path = path.replace("{id}", "42");
            for (path, window) in [(path.clone(), adapter.config().window), (format!("{path}/beside"), None)]
            {
                if nth == 0 {
                    let run = conformance::vendor(&adapter).call(&path, JSON, r#"{"amount":10.00}"#);
                    assert_eq!(run.failure(refused()).breaches(), [], "{name} {path}");
                }
                let url = format!("https://vendor.test/v1{path}").parse().expect("a URL");
                let mut call = Request::new(method.parse().expect("a method"), url);
                call.body = r#"{"amount":10.00}"#.into();
                call.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(JSON));
                let key = "1d0c8a57-42be-8c33-b6a4-7e915f20d3c8".parse().expect("a UUID");
                adapter.stamp(key, &mut call).expect("it takes a key");
                assert_eq!(adapter.replay_window(&call), window, "{name} {route}: {path}");
            }
        }
    }
    let increase = preset("increase");
    passes(&conformance::vendor(&increase).failure(refused()).replayed(replayed()).breaches());
    let resend = preset("resend");
    let reused = answer(409, &[], &json!({"name": "invalid_idempotent_request", "statusCode": 409}));
    passes(&conformance::vendor(&resend).failure(reused).breaches());
}

/// Failures in the form of each preset's own markers. Those that are final are no success, and those that are not leave
/// the effect open.
#[test]
fn each_marker_of_a_known_keyed_vendor_has_its_verdict() {
    let reused = Verdict::Refused { refusal: Refusal::KeyReused, speaks_for: SpeaksFor::ThisAttempt };
    let again = Verdict::Retry { effect: Effect::Unknown, not_before: None };
    for (name, status, body, verdict) in [
        ("paypal", 422, json!({"details": [{"issue": "DUPLICATE_REQUEST_ID"}]}), Verdict::Unknown),
        ("square", 400, json!({"errors": [{"code": "IDEMPOTENCY_KEY_REUSED"}]}), reused),
        ("resend", 409, json!({"name": "invalid_idempotent_request"}), reused),
        ("resend", 409, json!({"name": "concurrent_idempotent_requests"}), again),
        (
            "gocardless",
            409,
            json!({"error": {"errors": [{"reason": "idempotent_creation_conflict"}]}}),
            Verdict::Unknown,
        ),
        ("increase", 409, json!({"status": 409, "resource_id": "transfer_1"}), Verdict::Unknown),
    ] {
        let adapter = preset(name);
        let failure = answer(status, &[], &body);
        let request = Request::new(Method::POST, adapter.base_url().clone());
        for before in [Effect::None, Effect::Unknown] {
            let attempt = Attempt::new(&request, true, Ok(&failure), Timestamp::from_millis(0)).after(before);
            assert_eq!(adapter.classify(&attempt), verdict, "{name} {body}");
        }
        // Another conflict does not say so.
        let other = answer(409, &[], &json!({"resource_id": null, "reason": "other"}));
        let attempt = Attempt::new(&request, true, Ok(&other), Timestamp::from_millis(0));
        let refused = Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::ThisAttempt };
        assert_eq!(adapter.classify(&attempt), refused, "{name}");
    }
}

#[test]
fn keyed_vendors_with_marks_of_their_own_pass() {
    // With a mark for what is the vendor's own, and the key in quotes.
    let head =
        "name = 'x'\nbase_url = 'https://vendor.test'\nkey = { header = 'Idempotency-Key' }\nwindow = '1h'\n";
    let keyed =
        |rest: &str| Keyed::new(toml::from_str(&format!("{head}{rest}")).expect("a configuration"), "");
    let adapter = keyed("key_form = 'quoted'\nown = { header = 'X-Request-Id' }");
    let refused = answer(422, &[("x-request-id", "1")], &json!({"message": "no"}));
    passes(&conformance::vendor(&adapter).failure(refused.clone()).breaches());

    // With a mark of a replay in a header, where failures are kept and where that is not known.
    for rest in ["", "stores_failures = true\n", "own = { header = 'X-Request-Id' }\n"] {
        let mark = "replay = { header = { name = 'Idempotent-Replayed', value = 'true' } }";
        let adapter = keyed(&format!("{rest}{mark}"));
        let run = conformance::vendor(&adapter).failure(refused.clone());
        passes(&run.replayed(replayed()).breaches());
    }
    // With one in the body.
    let adapter = keyed("replay = { json = { pointer = '/replayed', value = 'true' } }");
    let done = answer(200, &[], &json!({"id": 1, "replayed": true}));
    let no = answer(422, &[], &json!({"message": "no", "replayed": true}));
    let run = conformance::vendor(&adapter).failure(refused);
    passes(&run.replayed(done).replayed(no).breaches());
}

#[test]
fn lists_pass() {
    let linked = |link: &'static str| answer(200, &[("link", link)], &json!([{"id": 1}]));
    let keyed = Keyed::new(KeyedConfig::new("acme", "https://api.acme.test/v1"), "");
    let run = conformance::vendor(&keyed);
    passes(
        &run.list("/items?limit=1", linked("<?page=2>; rel=next"), linked("<?page=1>; rel=first")).breaches(),
    );

    let stripe = Stripe::new("sk_test_1");
    let v1 =
        |more: bool| answer(200, &[], &json!({"object": "list", "data": [{"id": "ch_1"}], "has_more": more}));
    let v2 = |next: Value| answer(200, &[], &json!({"data": [{"id": "evt_1"}], "next_page_url": next}));
    for (path, more, last) in [
        ("/v1/charges?limit=1", v1(true), v1(false)),
        ("/v1/charges?ending_before=ch_0", v1(true), v1(false)),
        ("/v2/core/events?limit=1", v2(json!("/v2/core/events?page=2")), v2(Value::Null)),
    ] {
        passes(&conformance::vendor(&stripe).found(|_, _| v1(false)).list(path, more, last).breaches());
    }

    let adyen = Adyen::new("AQE-key").base_url("https://management-test.adyen.com/v3");
    let linked = |links: Value| {
        answer(
            200,
            &[],
            &json!({"_links": links, "itemsTotal": 3, "pagesTotal": 2, "data": [{"id": "S2-1"}]}),
        )
    };
    let href =
        |page: u64| json!({"href": format!("https://management-test.adyen.com/v3/stores?pageNumber={page}")});
    let (first, last) =
        (json!({"self": href(1), "next": href(2)}), json!({"self": href(2), "prev": href(1)}));
    passes(&conformance::vendor(&adyen).list("/stores?pageNumber=1", linked(first), linked(last)).breaches());

    let postmark = Postmark::new("a-server-token");
    let shown =
        |total: u64| answer(200, &[], &json!({"TotalCount": total, "Messages": [{"MessageID": "1"}]}));
    let run = conformance::vendor(&postmark);
    passes(&run.list("/messages/outbound?count=1&offset=2", shown(4), shown(3)).breaches());

    let bigcommerce = BigCommerce::new("abc123", "a-token");
    let v3 = |meta: Value| answer(200, &[], &json!({"data": [{"id": 1}], "meta": meta}));
    let page = |page: u64| v3(json!({"pagination": {"current_page": page, "total_pages": 3}}));
    let cursor = |links: Value| v3(json!({"cursor_pagination": {"links": links}}));
    let next = json!({"next": "?after=x&limit=1"});
    for (path, more, last) in [
        ("/v3/catalog/products?limit=1&page=2", page(2), page(3)),
        ("/v3/catalog/products?limit=1", cursor(next), cursor(json!({}))),
        ("/v2/orders?limit=1", answer(200, &[], &json!([{"id": 1}])), answer(200, &[], &json!([]))),
    ] {
        passes(&conformance::vendor(&bigcommerce).list(path, more, last).breaches());
    }
}
