//! The keyed vendors that are known: each is one line of the vendors file, and three are in `examples/vendors.toml`.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steadfast::policy::Jitter;
use steadfast::store::Memory;
use steadfast::testkit::internals::slack;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Request, SendErrorKind};
use steadfast::{Call, Client, Effect, Obtained, Policy, Reason, Vendors};

/// Where a vendor wants its key, and for how long it replays it.
struct Case {
    name: &'static str,
    path: &'static str,
    key_header: Option<&'static str>,
    key_len_max: usize,
    window_hours: Option<u64>,
    auth: (&'static str, &'static str),
}

const BEARER: &str = "auth = { header = 'Authorization', prefix = 'Bearer ' }";

/// What the table of a vendor says whose preset does not know its base URL, or how its secret is sent.
const NOT_IN_THE_EXAMPLE: [&str; 4] = ["checkout", "gocardless", "increase", "plaid"];

const CASES: [Case; 7] = [
    Case {
        name: "square",
        path: "/v2/payments",
        key_header: None,
        key_len_max: 45,
        window_hours: None,
        auth: ("authorization", "Bearer secret of SQUARE_ACCESS_TOKEN"),
    },
    Case {
        name: "paypal",
        path: "/v2/checkout/orders",
        key_header: Some("paypal-request-id"),
        key_len_max: 108,
        window_hours: Some(6),
        auth: ("authorization", "Bearer secret of PAYPAL_ACCESS_TOKEN"),
    },
    Case {
        name: "resend",
        path: "/emails",
        key_header: Some("idempotency-key"),
        key_len_max: 256,
        window_hours: Some(24),
        auth: ("authorization", "Bearer secret of RESEND_API_KEY"),
    },
    Case {
        name: "checkout",
        path: "/payments",
        key_header: Some("cko-idempotency-key"),
        key_len_max: 255,
        window_hours: Some(24),
        auth: ("authorization", "Bearer secret of VENDOR_SECRET"),
    },
    Case {
        name: "gocardless",
        path: "/payments",
        key_header: Some("idempotency-key"),
        key_len_max: 255,
        window_hours: None,
        auth: ("authorization", "Bearer secret of VENDOR_SECRET"),
    },
    Case {
        name: "increase",
        path: "/ach_transfers",
        key_header: Some("idempotency-key"),
        key_len_max: 200,
        window_hours: None,
        auth: ("authorization", "Bearer secret of VENDOR_SECRET"),
    },
    Case {
        name: "plaid",
        path: "/transfer/create",
        key_header: None,
        key_len_max: 50,
        window_hours: None,
        auth: ("authorization", "Bearer secret of VENDOR_SECRET"),
    },
];

fn client(name: &str, network: &ScriptedTransport, clock: &TestClock) -> Client {
    let vendors = if NOT_IN_THE_EXAMPLE.contains(&name) {
        let said = format!("base_url = 'https://{name}.test'\nsecret_env = 'VENDOR_SECRET'\n{BEARER}");
        Vendors::parse(&format!("[vendors.{name}]\n{said}"), "vendors.toml").expect(name)
    } else {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/vendors.toml");
        Vendors::from_file(path).expect("the example")
    };
    let vendors = vendors.with_store(Memory::new());
    let vendors = vendors.with_secrets(|variable| Some(format!("secret of {variable}")));
    let mut ladder = Policy::background().backoff;
    ladder.jitter = Jitter::None;
    vendors
        .builder(name)
        .expect(name)
        .policy(Policy::background().backoff(ladder).without_breaker().without_budget())
        .transport(network.clone())
        .clock(clock.clone())
        .build()
        .expect(name)
}

fn pay(client: &Client, case: &Case) -> Call {
    client.post(case.path).key("order-42").json(&json!({"amount": 1000}))
}

fn key_in(request: &Request, case: &Case) -> String {
    match case.key_header {
        Some(name) => request.headers[name].to_str().expect("text").to_owned(),
        None => {
            let body: Value = serde_json::from_slice(&request.body).expect("json");
            body["idempotency_key"].as_str().expect("a key in the body").to_owned()
        }
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

#[tokio::test]
async fn the_key_travels_where_the_vendor_wants_it_and_the_secret_beside_it() {
    for case in &CASES {
        let network = ScriptedTransport::new().status(200);
        let reply =
            pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect(case.name);
        let sent = &network.requests()[0];
        let key = key_in(sent, case);
        assert_eq!(Some(key.as_str()), reply.wire_key(), "{}", case.name);
        assert!(key.len() <= case.key_len_max && key.len() >= 16, "{}: {key}", case.name);
        assert!(!key.contains('"'), "{}: raw, not quoted", case.name);
        assert_eq!(sent.headers[case.auth.0], case.auth.1);
        assert!(sent.url.path().ends_with(case.path), "{}", sent.url);
        let in_header = ["idempotency-key", "paypal-request-id", "cko-idempotency-key"]
            .iter()
            .any(|name| sent.headers.contains_key(*name));
        assert_eq!(in_header, case.key_header.is_some(), "{}: in one place only", case.name);
    }
}

#[tokio::test]
async fn a_lost_answer_is_resent_byte_for_byte_under_the_same_key() {
    for case in CASES.iter().filter(|case| case.window_hours.is_some()) {
        let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(500).status(200);
        let reply =
            pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect(case.name);
        let sent = network.requests();
        assert_eq!((reply.attempts(), sent.len(), reply.obtained()), (3, 3, Obtained::Fresh));
        assert!(sent.iter().all(|request| *request == sent[0]), "{}", case.name);
    }
}

#[tokio::test]
async fn each_vendors_own_window_ends_the_resends() {
    for (case, window) in CASES.iter().filter_map(|case| Some((case, hours(case.window_hours?)))) {
        // The slack stands between our window and the vendor's.
        let usable = window - slack(Policy::background().timeout.attempt);
        for (later, resent) in [(usable - Duration::from_secs(1), true), (usable, false)] {
            let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
            let clock = TestClock::auto();
            let client = client(case.name, &network, &clock);
            let first = pay(&client, case).deadline(Duration::from_millis(100)).send().await;
            assert!(first.expect_err("no time for a retry").is_deadline());
            clock.advance(later);
            let outcome = pay(&client, case).send().await;
            assert_eq!(
                (outcome.is_ok(), network.requests().len()),
                (resent, 1 + usize::from(resent)),
                "{}",
                case.name
            );
            if let Err(error) = outcome {
                assert_eq!((error.reason(), error.effect()), (Some(Reason::Expired), Effect::Unknown));
            }
        }
    }
}

#[tokio::test]
async fn a_vendor_that_states_no_window_gets_at_most_one_send() {
    let case = CASES.iter().find(|case| case.name == "square").expect("in the example");
    assert_eq!(case.window_hours, None);
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
    let error = pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect_err("parked");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));
    assert_eq!(network.requests().len(), 1);
}

/// An answer that means: this key is in use, come back with it.
fn in_progress(network: ScriptedTransport, name: &str) -> ScriptedTransport {
    match name {
        "resend" => network.json(409, json!({"name": "concurrent_idempotent_requests"})),
        other => panic!("{other} documents none"),
    }
}

#[tokio::test]
async fn a_key_in_progress_is_asked_again_with_the_same_key() {
    for case in CASES.iter().filter(|case| case.name == "resend") {
        let network = in_progress(ScriptedTransport::new(), case.name).status(200);
        let reply =
            pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect(case.name);
        let sent = network.requests();
        assert_eq!((reply.attempts(), sent.len()), (2, 2));
        assert_eq!(key_in(&sent[0], case), key_in(&sent[1], case));

        // In use for ever: nobody can tell, and it is not called refused.
        let network = (0..5).fold(ScriptedTransport::new(), |network, _| in_progress(network, case.name));
        let error =
            pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect_err("in use");
        assert_eq!((error.effect(), error.is_refused()), (Effect::Unknown, false), "{}", case.name);
    }
}

#[tokio::test]
async fn a_key_used_for_another_request_is_terminal() {
    for (name, status, body) in [
        ("square", 400, json!({"errors": [{"code": "IDEMPOTENCY_KEY_REUSED"}]})),
        ("paypal", 422, json!({"details": [{"issue": "DUPLICATE_REQUEST_ID"}]})),
        ("resend", 409, json!({"name": "invalid_idempotent_request"})),
    ] {
        let case = CASES.iter().find(|case| case.name == name).expect("a case");
        let network = ScriptedTransport::new().json(status, body).status(200);
        let error = pay(&client(name, &network, &TestClock::auto()), case).send().await.expect_err(name);
        assert!(error.is_key_reused(), "{name}: {error}");
        assert_eq!(error.code(), "CONFLICT.idempotency.payload_mismatch");
        assert_eq!(network.requests().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn what_the_key_has_made_before_is_unknown_and_sent_no_more() {
    for (name, body) in [
        (
            "gocardless",
            json!({"error": {"errors": [{"reason": "idempotent_creation_conflict",
                "links": {"conflicting_resource_id": "PM1"}}]}}),
        ),
        ("increase", json!({"type": "idempotency_key_already_used_error", "resource_id": "ach_1"})),
    ] {
        let case = CASES.iter().find(|case| case.name == name).expect("a case");
        let network = ScriptedTransport::new().json(409, body).status(200);
        let error = pay(&client(name, &network, &TestClock::auto()), case).send().await.expect_err(name);
        assert_eq!((error.code(), network.requests().len()), ("UNKNOWN.effect", 1), "{name}");
        assert!(
            error.is_dead_letter() && error.answer().is_some(),
            "{name}: a person finds it at the vendor: {error}"
        );
        // Another conflict is none: it does not say so.
        let network = ScriptedTransport::new().json(409, json!({"resource_id": null, "reason": "other"}));
        let error = pay(&client(name, &network, &TestClock::auto()), case).send().await.expect_err(name);
        assert!(error.is_refused(), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_replay_that_is_marked_is_told_as_one() {
    let case = CASES.iter().find(|case| case.name == "increase").expect("a case");
    let network = ScriptedTransport::new().status(200).header("idempotent-replayed", "true");
    let reply =
        pay(&client("increase", &network, &TestClock::auto()), case).send().await.expect("a transfer");
    assert_eq!(reply.obtained(), Obtained::Replayed);
}

#[test]
fn a_known_vendor_is_one_line_and_its_table_changes_what_is_known() {
    let shown = |text: &str| {
        let vendors =
            Vendors::parse(text, "vendors.toml").expect(text).with_secrets(|_| Some("s".to_owned()));
        format!("{:?}", vendors.builder("square").expect("a builder"))
    };
    let named = "[vendors.square]\nsecret_env = 'S'";
    assert_eq!(shown(named), shown(&format!("{named}\nadapter = 'square'")));
    let whole = "[vendors.square]\nadapter = 'keyed'\nsecret_env = 'S'\nbase_url = 'https://connect.squareup.com'\n\
        auth = { header = 'Authorization', prefix = 'Bearer ' }\nkey = { body = 'idempotency_key' }\nkey_len_max = 45\n\
        reused = [{ says = 'IDEMPOTENCY_KEY_REUSED' }]\n";
    assert_eq!(shown(named), shown(whole));
    let windowed =
        shown(&format!("{named}\nwindow = '24h'\nbase_url = 'https://connect.squareupsandbox.com'"));
    assert!(windowed.contains("86400s") && windowed.contains("squareupsandbox"), "{windowed}");

    let refusal = |text: &str| Vendors::parse(text, "vendors.toml").expect_err(text).to_string();
    for name in NOT_IN_THE_EXAMPLE {
        let bare = refusal(&format!("[vendors.x]\nadapter = '{name}'"));
        for missing in ["`base_url` is missing", "`auth` is missing", "`secret_env` is missing"] {
            assert!(bare.contains(missing), "{name}: {bare}");
        }
    }
    let near = refusal("[vendors.x]\nadapter = 'sqare'");
    assert!(near.contains("square"), "{near}");
}

#[tokio::test]
async fn a_key_of_the_callers_own_is_refused_before_anything_is_sent() {
    for case in &CASES {
        let network = ScriptedTransport::new().status(200);
        let client = client(case.name, &network, &TestClock::auto());
        let call = match case.key_header {
            Some(name) => pay(&client, case).header(name, "mine"),
            None => client.post(case.path).key("order-42").json(&json!({"idempotency_key": "mine"})),
        };
        let error = call.send().await.expect_err("two keys");
        assert!(error.is_validation(), "{}: {error}", case.name);
        assert_eq!(network.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_get_carries_no_key_and_is_retried_freely() {
    for case in &CASES {
        let network = ScriptedTransport::new().fail(SendErrorKind::Reset).status(200);
        client(case.name, &network, &TestClock::auto()).get(case.path).send().await.expect(case.name);
        for request in network.requests() {
            assert_eq!(request.method, Method::GET);
            assert!(case.key_header.is_none_or(|name| !request.headers.contains_key(name)));
            assert!(request.body.is_empty());
        }
    }
}
