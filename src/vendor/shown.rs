//! Paths and names of operations, as they are shown for the adapters here.

use http::Method;
use url::Url;

use steadfast_core::internal::vendor::{ShownOperation, ShownPath};
use steadfast_core::operation::{Key, OperationId, Scope};

use crate::vendor::{BigCommerce, Stripe, Vendor};

const TOKEN: &str = "550e8400-e29b-41d4-a716-446655440000";

fn path(vendor: &dyn Vendor, url: &str) -> String {
    ShownPath::of(vendor, &Url::parse(url).expect(url)).to_string()
}

#[test]
fn a_path_is_shown_below_the_base_and_without_query_and_tokens() {
    let stripe = Stripe::new("sk_test_1").base_url("https://v.test/bot123:AAF0hunter2x/");
    let long = "/segment".repeat(100);
    for (url, shown) in [
        ("https://v.test/bot123:AAF0hunter2x/v1/charges?token=hunter2", "/v1/charges".to_owned()),
        ("https://v.test/bot123:AAF0hunter2x", String::new()),
        // Of an earlier base, which may have held a token too.
        ("https://v.test/elsewhere/x", "[redacted]".to_owned()),
        ("https://v.test/bot123:AAF0hunter2x9/v1/charges", "[redacted]".to_owned()),
        (&format!("https://v.test/bot123:AAF0hunter2x/a/{TOKEN}/b/"), "/a/[redacted]/b/".to_owned()),
        (&format!("https://v.test/bot123:AAF0hunter2x{long}"), format!("{}/…", "/segment".repeat(24))),
    ] {
        assert_eq!(path(&stripe, url), shown, "{url}");
    }
}

#[test]
fn an_operation_is_shown_but_for_base_and_tokens() {
    let store = BigCommerce::new("abc123def4", "token");
    let scope = |route: &str| Scope::new("prod", "bigcommerce", "abc123def4", &Method::POST, route);
    let shown = |route: &str| {
        let id = OperationId::new(scope(route), Key::new("order-42").expect("a key"));
        ShownOperation { vendor: &store, id: &id }.to_string()
    };
    let start = "prod/bigcommerce/abc123def4/POST";
    assert_eq!(shown("/stores/abc123def4/v2/orders"), format!("{start} /v2/orders key order-42"));
    assert_eq!(
        shown(&format!("/stores/abc123def4/v3/checkouts/{TOKEN}/orders")),
        format!("{start} /v3/checkouts/[redacted]/orders key order-42")
    );
    assert_eq!(shown("/stores/another/v2/orders"), format!("{start} [redacted] key order-42"));
    let odd = OperationId::new(Scope::from_stored("odd"), Key::new("k").expect("a key"));
    assert_eq!(ShownOperation { vendor: &store, id: &odd }.to_string(), "odd key k");
}

#[test]
fn the_base_of_an_operation_may_hold_a_token_and_is_not_shown() {
    let stripe = Stripe::new("sk_test_1").base_url("https://v.test/hunter/two/");
    for (route, shown) in [("/hunter/two/v1/charges", "/v1/charges"), ("/hunter/three/x", "[redacted]")] {
        let scope = Scope::new("prod", "stripe", "test", &Method::POST, route);
        let id = OperationId::new(scope, Key::new("k").expect("a key"));
        let said = ShownOperation { vendor: &stripe, id: &id }.to_string();
        assert_eq!(said, format!("prod/stripe/test/POST {shown} key k"));
    }
}
