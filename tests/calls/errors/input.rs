//! Mistakes of whoever writes the call, builds the client or writes the vendors file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use steadfast::policy::{Backoff, BreakerConfig, RateConfig, Timeouts};
use steadfast::transport::Http;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe, Vendor};
use steadfast::{Call, Client, ClientBuilder, Multipart, Policy, Vendors};

use super::{Said, charge, network, stripe};

pub async fn of_calls(said: &mut Said) {
    let unnameable = BTreeMap::from([((1, 2), "x")]);
    let client = stripe(network());
    let mut mistakes: Vec<(&str, Call)> = vec![
        ("an empty key", client.post("/v1/charges").key("")),
        ("a key that is too long", client.post("/v1/charges").key("k".repeat(256))),
        ("a key that is not ASCII", client.post("/v1/charges").key("bestellung-ü")),
        ("a path without its slash", client.post("v1/charges")),
        ("a whole URL for a path", client.get("https://api.stripe.com/v1/charges")),
        ("a path that climbs", client.get("/v1/charges/../refunds")),
        ("a path with a fragment", client.get("/v1/charges?limit=1#first")),
        ("a header's name with a space", charge(&client).header("x note", "a")),
        ("a header's value with a line break", charge(&client).header("x-note", "a\nb")),
        ("a header that carries a secret", charge(&client).header("Authorization", "Bearer a")),
        ("a retention that is too short", charge(&client).key("k").retention(Duration::from_secs(3600))),
        ("a form without names", charge(&client).form(&[1000, 42])),
        ("a parameter without a value", client.get("/v1/charges/{charge}")),
        ("a parameter that the path does not have", client.get("/v1/charges/{charge}").path("id", "ch_1")),
        ("an empty id", client.get("/v1/charges/{charge}").path("charge", "")),
        ("an id that climbs", client.get("/v1/charges/{charge}").path("charge", "../refunds")),
        ("an id with a line break", client.get("/v1/charges/{charge}").path("charge", "ch_1\n")),
        ("a query that is no pairs", client.get("/v1/charges").query(&"limit")),
        ("a query that would lose its filter", client.delete("/v1/charges").query(&json!({"ids": []}))),
        ("a header that makes it another method", charge(&client).header("X-HTTP-Method-Override", "DELETE")),
        ("JSON with a key that is no text", charge(&client).json(&unnameable)),
        ("a body over the limit", charge(&client).bytes(vec![b'a'; 2 * 1024 * 1024])),
        ("a redacted field without a name", charge(&client).redact([""])),
        ("the vendor's own header for the key", charge(&client).header("Idempotency-Key", "k")),
        ("a v2 path without a version", client.post("/v2/core/events").key("k").json(&json!({}))),
        ("redirects of a call with an effect", charge(&client).redirects(3)),
        (
            "a file's media type with a line break",
            charge(&client).multipart(&Multipart::new().file("file", "receipt", "image/png\n", "")),
        ),
        ("a ladder that goes down", charge(&client).backoff(falling())),
    ];
    let postmark = super::client(Postmark::new("token"), network());
    let shop = super::client(BigCommerce::new("k8yfjd03xq", "token"), network());
    mistakes.extend([
        ("an e-mail that is no JSON", postmark.post("/email").key("k").bytes("To: ada")),
        ("a batch without messages", postmark.post("/email/batchWithTemplates").key("k").json(&json!({}))),
        (
            "an order's field of another type",
            shop.post("/v2/orders").key("k").json(&json!({"external_order_id": 7})),
        ),
    ]);
    let elsewhere = http::Request::get("https://api.stripe.example/v1/charges").body("");
    mistakes.push(("a URI of another host", client.http(elsewhere.expect("a request"))));
    mistakes.push(("a sequence of a call that is sent", charge(&client).sequence("customer-7")));
    for (happened, call) in mistakes {
        said.refused(happened, call.send().await);
    }
    said.refused("a look at the record without a key", client.post("/v1/charges").recorded().await);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-do-not-retry", http::HeaderValue::from_static("true"));
    let inbound = steadfast::Inbound::from_headers(&headers);
    for (happened, call) in [
        ("a policy of an enqueued call's own", charge(&client).backoff(Backoff::none())),
        ("an enqueued call that is not to be retried", charge(&client).inbound(&inbound)),
        ("a sequence without a name", charge(&client).sequence("")),
        ("a sequence's name that is not ASCII", charge(&client).sequence("größe")),
    ] {
        said.refused(happened, call.enqueue().await);
    }
}

fn falling() -> Backoff {
    Backoff::ladder([Duration::from_secs(2), Duration::from_secs(1)])
}

pub fn of_clients(said: &mut Said) {
    let built = |vendor: ClientBuilder| vendor.transport(network()).build();
    let at = |url: &str| Client::builder(Stripe::new("sk_test_123").base_url(url));
    said.refused("an empty secret", built(Client::builder(Postmark::new(""))));
    said.refused("a secret with a line break", built(Client::builder(Stripe::new("sk_test_123\n"))));
    said.refused("a base URL without https", built(at("http://stripe.internal")));
    said.refused("a base URL with credentials", built(at("https://user:pass@api.stripe.com")));
    said.refused("a base URL with a query", built(at("https://api.stripe.com/?key=1")));
    said.refused("a base URL without its scheme", built(at("api.stripe.com")));
    said.refused("a base URL of another kind", built(at("ftp://api.stripe.com")));
    said.refused("a store hash that is a path", built(Client::builder(BigCommerce::new("a/b", "token"))));
    said.refused(
        "a client's redacted field without a name",
        built(Client::builder(stripe_rules()).redact([""])),
    );
    said.refused(
        "a route's retention that is too short",
        built(Client::builder(stripe_rules()).retention("/v1/charges", Duration::from_secs(3600))),
    );
    said.refused(
        "a route without its slash",
        built(Client::builder(stripe_rules()).retention("charges", Duration::from_secs(30 * 86_400))),
    );
    said.refused(
        "a secret header's name with a space",
        built(Client::builder(stripe_rules()).secret_headers(["x note"])),
    );

    let mut signed = KeyedConfig::new("acme", "https://api.acme.test");
    signed.headers.insert("X-Signature".to_owned(), "s3cr3t".to_owned());
    said.refused(
        "a secret header that the adapter would have recorded",
        built(Client::builder(Keyed::new(signed, "")).secret_headers(["x-signature"])),
    );

    let mut window = KeyedConfig::new("acme", "https://api.acme.test");
    window.window = Some(Duration::from_secs(60));
    said.refused("a window and no key", built(Client::builder(Keyed::new(window, ""))));
    let mut short = KeyedConfig::new("acme", "https://api.acme.test");
    short.key_len_max = 8;
    said.refused("keys that are too short", built(Client::builder(Keyed::new(short, ""))));
    let nameless = Keyed::new(KeyedConfig::new("", "https://api.acme.test"), "");
    said.refused("a vendor without a name", built(Client::builder(nameless)));

    said.refused("no time to connect", Http::new(Duration::ZERO));
}

fn stripe_rules() -> impl Vendor {
    Stripe::new("sk_test_123")
}

pub fn of_policies(said: &mut Said) {
    let plain = Policy::background;
    let short = Duration::from_secs(1);
    for (happened, policy) in [
        (
            "an attempt longer than the call",
            plain().timeout(Timeouts::new(short, Duration::from_secs(30), Duration::from_secs(10))),
        ),
        ("a window shorter than an attempt", plain().breaker(BreakerConfig::default().window(short))),
        ("a ladder that goes down", plain().backoff(falling())),
        ("a rate of nothing", plain().rate(RateConfig::new(0, short))),
    ] {
        let built = Client::builder(stripe_rules()).policy(policy).transport(network()).build();
        said.refused(happened, built);
    }
}

pub fn of_vendors_files(said: &mut Said) {
    const STRIPE: &str = "[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY\"\n";
    for (happened, text) in [
        ("a file that is no TOML", "[vendors.stripe"),
        ("a misspelt key", "[vendors.stripe]\nsecret_evn = \"STRIPE_SECRET_KEY\"\n"),
        ("a secret in the file", "[vendors.stripe]\nsecret = \"sk_live_1\"\n"),
        ("a duration without a unit", &format!("{STRIPE}policy.timeout.attempt = 5\n")),
        ("a policy that contradicts itself", &format!("{STRIPE}policy.timeout.total = \"10s\"\n")),
    ] {
        said.refused(happened, Vendors::parse(text, "vendors.toml"));
    }
    let vendors = |secret: Option<&'static str>| {
        let vendors = Vendors::parse(STRIPE, "vendors.toml").expect("vendors");
        vendors.with_secrets(move |_| secret.map(str::to_owned))
    };
    said.refused("a vendor that is not in the file", vendors(None).client("strpe"));
    said.refused("a secret that is not set", vendors(None).client("stripe"));
    said.refused("a secret that is empty", vendors(Some("")).client("stripe"));
    said.refused("a secret read with its line break", vendors(Some("sk_live_1\n")).client("stripe"));
    said.refused("a file that is not there", Vendors::from_file("/nowhere/vendors.toml"));
}
