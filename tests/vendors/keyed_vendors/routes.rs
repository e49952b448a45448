//! A window holds on the routes that take the key. Anywhere else a POST is sent at most once.

use std::time::Duration;

use serde_json::{Value, json};

use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Request, SendErrorKind};
use steadfast::{Effect, Policy, Reason, Vendors};
use steadfast_core::internal::operation::slack;

use super::{CASES, Case, client, client_of, one_line};

/// A preset with a window, and routes of it.
struct Preset {
    name: &'static str,
    /// They take the key.
    listed: &'static [&'static str],
    /// They are near those, and do not.
    unlisted: &'static [&'static str],
}

impl Preset {
    fn case(&self) -> &'static Case {
        CASES.iter().find(|case| case.name == self.name).expect("a case")
    }

    fn header(&self) -> &'static str {
        self.case().key_header.expect("its key is in a header")
    }
}

const PRESETS: [Preset; 3] = [
    Preset {
        name: "resend",
        listed: &["/emails", "/emails/batch"],
        unlisted: &[
            "/emails/",
            "/emails/e_1/cancel",
            "/emails/batch/b_1",
            "/broadcasts",
            "/Emails",
            "/domains",
        ],
    },
    Preset {
        name: "paypal",
        listed: &[
            "/v2/checkout/orders",
            "/v2/checkout/orders/5O1/capture",
            "/v2/checkout/orders/5O1/authorize",
            "/v2/payments/captures/2GG/refund",
            "/v2/payments/authorizations/0VF/capture",
            "/v1/payments/payouts",
            "/v1/billing/subscriptions",
        ],
        unlisted: &[
            "/v2/checkout/orders/5O1/track",
            "/v2/checkout/orders/5O1/confirm-payment-source",
            "/v2/checkout/orders//capture",
            "/v2/payments/authorizations/0VF/void",
            "/v2/invoicing/invoices",
            "/v1/billing/subscriptions/I-B/cancel",
            // Kept for 3 hours.
            "/v3/vault/payment-tokens",
        ],
    },
    Preset {
        name: "checkout",
        listed: &[
            "/payments",
            "/payments/pay_1/captures",
            "/payments/pay_1/refunds",
            "/payments/pay_1/voids",
        ],
        unlisted: &["/tokens", "/payments/pay_1/reversals", "/hosted-payments", "/customers"],
    },
];

/// Loses the answer to a POST, and asks again under the same key so much later. Gives all requests, and whether the second
/// call succeeded.
async fn lost_and_asked_again(text: &str, path: &str, later: Duration) -> (Vec<Request>, bool) {
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
    let clock = TestClock::auto();
    let name = text.split(['.', ']']).nth(1).expect("its table");
    let client = client_of(text, name, &network, &clock);
    let post = || client.post(path).key("order-42").json(&json!({"amount": 1000}));
    let first = post().deadline(Duration::from_millis(100)).send().await.expect_err("lost");
    assert_eq!(first.effect(), Effect::Unknown, "{path}: {first}");
    clock.advance(later);
    let second = post().send().await;
    if let Err(error) = &second {
        assert_eq!(error.effect(), Effect::Unknown, "{path}: {error}");
    }
    (network.requests(), second.is_ok())
}

/// The last moment of a window of so many hours, and the first after it.
fn ends(hours: u64) -> [(Duration, bool); 2] {
    let usable = Duration::from_secs(hours * 3600) - slack(Policy::background().timeout.attempt);
    [(usable - Duration::from_secs(1), true), (usable, false)]
}

#[tokio::test]
async fn on_a_listed_route_a_lost_answer_is_resent_under_the_key_within_the_window_and_not_after() {
    for preset in PRESETS {
        let (name, header) = (preset.name, preset.header());
        let hours = preset.case().window_hours.expect("a window");
        for (path, (later, resent)) in
            preset.listed.iter().flat_map(|path| ends(hours).map(|end| (path, end)))
        {
            let (sent, done) = lost_and_asked_again(&one_line(name), path, later).await;
            assert_eq!((sent.len(), done), (1 + usize::from(resent), resent), "{name} {path} {later:?}");
            assert!(sent.iter().all(|request| *request == sent[0]), "{name} {path}");
            assert!(sent[0].headers.contains_key(header), "{name} {path}");
        }
    }
}

#[tokio::test]
async fn on_any_other_route_it_is_not_resent_at_once_nor_later() {
    for preset in PRESETS {
        let (name, header) = (preset.name, preset.header());
        for path in preset.unlisted {
            let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
            let call = client(name, &network, &TestClock::auto());
            let error =
                call.post(path).key("order-42").json(&json!({})).send().await.expect_err("a dead letter");
            assert_eq!(
                (error.reason(), error.effect()),
                (Some(Reason::Unknown), Effect::Unknown),
                "{name} {path}"
            );
            let sent = network.requests();
            assert_eq!(sent.len(), 1, "{name} {path}");
            assert!(sent[0].headers.contains_key(header), "{name} {path}: whom it helps takes it");

            let (sent, done) = lost_and_asked_again(&one_line(name), path, Duration::from_secs(60)).await;
            assert_eq!((sent.len(), done), (1, false), "{name} {path}");
        }
    }
}

/// A proxy's 5xx and a vendor's "still under way" leave the effect open too.
#[tokio::test]
async fn no_answer_that_asks_for_a_repeat_gets_one_on_another_route() {
    let in_use = json!({"name": "concurrent_idempotent_requests"});
    for (path, sends) in [("/emails", 2), ("/broadcasts", 1)] {
        for (status, body) in [(500, json!({})), (502, json!({})), (409, in_use.clone())] {
            let network = ScriptedTransport::new().json(status, body).status(200);
            let resend = client("resend", &network, &TestClock::auto());
            let outcome = resend.post(path).key("order-42").json(&json!({})).send().await;
            assert_eq!((network.requests().len(), outcome.is_ok()), (sends, sends == 2), "{path} {status}");
        }
    }
}

/// A call that was for certain not executed is sent again anywhere.
#[tokio::test]
async fn what_never_left_is_sent_again_on_every_route() {
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(429).status(200);
    let resend = client("resend", &network, &TestClock::auto());
    resend.post("/broadcasts").key("order-42").json(&json!({})).send().await.expect("sent");
    assert_eq!(network.requests().len(), 3);
}

#[tokio::test]
async fn a_window_of_the_table_changes_the_time_and_not_the_routes() {
    let text = format!("{}window = '72h'\n", one_line("paypal"));
    for (later, resent) in ends(72) {
        let (sent, done) = lost_and_asked_again(&text, "/v2/checkout/orders", later).await;
        assert_eq!((sent.len(), done), (1 + usize::from(resent), resent), "{later:?}");
    }
    let (sent, _) = lost_and_asked_again(&text, "/v2/invoicing/invoices", Duration::from_secs(60)).await;
    assert_eq!(sent.len(), 1);

    let text = format!("{text}keyed_routes = ['POST /v2/invoicing/invoices']\n");
    for (path, sends) in [("/v2/invoicing/invoices", 2), ("/v2/checkout/orders", 1)] {
        let (sent, _) = lost_and_asked_again(&text, path, Duration::from_secs(60)).await;
        assert_eq!(sent.len(), sends, "{path}");
    }
}

#[tokio::test]
async fn the_routes_are_below_the_base_url_wherever_that_is() {
    let text = format!("{}base_url = 'https://proxy.test/mail/v1/'\n", one_line("resend"));
    for (path, sends) in [("/emails", 2), ("/mail/v1/emails", 1), ("/emails?dry=1", 2)] {
        let (sent, _) = lost_and_asked_again(&text, path, Duration::from_secs(60)).await;
        assert_eq!(sent.len(), sends, "{path}");
    }
}

/// A vendor may refuse a member that it does not know, as Plaid does; its reads are POSTs too.
#[tokio::test]
async fn a_key_goes_into_the_body_on_the_listed_routes_alone() {
    let text = format!("{}window = '24h'\n", one_line("plaid"));
    for (path, sends) in [("/transfer/refund/create", 2), ("/accounts/get", 1), ("/transfer/create/x", 1)] {
        let (sent, _) = lost_and_asked_again(&text, path, Duration::from_secs(60)).await;
        assert_eq!(sent.len(), sends, "{path}");
        let body: Value = serde_json::from_slice(&sent[0].body).expect("JSON");
        assert_eq!(body.get("idempotency_key").is_some(), sends == 2, "{path}: {body}");
        assert_eq!(
            (body["amount"].clone(), &sent[0].headers["plaid-client-id"]),
            (json!(1000), &"acct-5f1a".parse().expect("a value"))
        );
    }
}

/// Square refuses a field that it does not know, and takes another payment's key in one route's.
#[tokio::test]
async fn square_has_its_key_on_the_routes_that_take_one() {
    let text = format!("{}window = '24h'\n", one_line("square"));
    for (path, sends) in [
        ("/v2/payments", 2),
        ("/v2/orders/order_1/pay", 2),
        ("/v2/orders/search", 1),
        ("/v2/payments/cancel", 1),
        ("/v2/payments/payment_1/complete", 1),
    ] {
        let (sent, _) = lost_and_asked_again(&text, path, Duration::from_secs(60)).await;
        assert_eq!(sent.len(), sends, "{path}");
        let body: Value = serde_json::from_slice(&sent[0].body).expect("JSON");
        assert_eq!(body.get("idempotency_key").is_some(), sends == 2, "{path}: {body}");
    }
}

#[test]
fn a_list_that_makes_no_sense_is_refused() {
    let keyed = "[vendors.v]\nadapter = 'keyed'\nbase_url = 'https://v.test'\n";
    let key = "key = { header = 'Idempotency-Key' }\n";
    for (text, problem) in [
        (format!("{keyed}{key}keyed_routes = []"), "it is empty"),
        (format!("{keyed}keyed_routes = ['POST /a']"), "without `key`"),
        (format!("{keyed}{key}keyed_routes = ['POST /a', '/emails']"), "a route is a method and a path"),
        (format!("{keyed}{key}keyed_routes = ['GET /a']"), "a route is a method and a path"),
        (format!("{keyed}{key}keyed_routes = ['POST /a/*']"), "a route is a whole path"),
        (format!("{keyed}{key}keyed_routes = ['POST /a/{{}}']"), "between its braces"),
    ] {
        let said = Vendors::parse(&text, "vendors.toml").expect_err(&text).to_string();
        assert!(said.contains(problem) && said.contains("keyed_routes"), "{text}: {said}");
    }
}
