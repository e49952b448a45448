//! The public vector files, row by row, through the public API. A row that nobody holds fails the test.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use steadfast::clock::{Clock, Timestamp};
use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Postmark, Stripe, Vendor, wait};
use steadfast::{Call, Client, Effect, Error, Policy};

/// The first rung of the ladder in these tests: shorter than any wait that a vendor asks for.
const RUNG: Duration = Duration::from_millis(1);

fn vectors(name: &str) -> Value {
    let path = format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).expect("the vector file")).expect("json")
}

/// `retries` rungs without jitter, so that every wait that is longer is the vendor's.
fn policy(retries: usize) -> Policy {
    let backoff = Backoff::ladder(vec![RUNG; retries]).jitter(Jitter::None);
    let mut policy = Policy::background().backoff(backoff).without_breaker().without_budget();
    policy.timeout.total = Duration::from_secs(600);
    policy
}

fn client(vendor: impl Vendor, network: &ScriptedTransport, clock: &TestClock, retries: usize) -> Client {
    Client::builder(vendor)
        .policy(policy(retries))
        .transport(network.clone())
        .clock(clock.clone())
        .random(FixedRandom::at(0.0))
        .build()
        .expect("a client")
}

fn postmark(network: &ScriptedTransport, clock: &TestClock) -> Client {
    client(Postmark::new("token"), network, clock, 3)
}

fn at_the_vectors_date(vectors: &Value) -> TestClock {
    let clock = TestClock::auto();
    let now = vectors["now_for_dates"].as_str().expect("a date");
    let now = httpdate_of(now);
    clock.set_wall(now);
    clock
}

/// An HTTP date is read by the crate's own parser: a date is a wait from the epoch.
fn httpdate_of(date: &str) -> Timestamp {
    let epoch = Timestamp::from_millis(0);
    epoch.plus(wait::retry_after(date.as_bytes(), epoch).expect("a date"))
}

#[tokio::test]
async fn every_row_of_retry_after_is_waited_as_it_says() {
    let vectors = vectors("retry_after.json");
    let rows = vectors["parse"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        let clock = at_the_vectors_date(&vectors);
        let expected = row["s"].as_u64().map(Duration::from_secs);
        assert!(expected.is_some() || row["s"].is_null(), "{row} says neither a time nor none");
        let mut network = ScriptedTransport::new().status(429);
        match &row["v"] {
            Value::String(value) => {
                assert_eq!(wait::retry_after(value.as_bytes(), clock.wall()), expected, "{row}");
                network = network.header("retry-after", value);
            }
            Value::Null => {}
            other => panic!("nobody holds a row of this form: {other}"),
        }
        let network = network.status(200);
        postmark(&network, &clock).get("/messages").send().await.expect("the retry");
        // Never early, and the ladder where nothing is asked for.
        assert_eq!(clock.slept(), [expected.unwrap_or(RUNG).max(RUNG)], "{row}");
    }
}

#[tokio::test]
async fn retry_after_counts_beside_the_statuses_that_the_vectors_name() {
    let vectors = vectors("retry_after.json");
    for (client, statuses) in vectors["which_statuses"].as_object().expect("statuses") {
        match (client.as_str(), statuses) {
            ("go-retryablehttp" | "failsafe-go", Value::Array(statuses)) => {
                for status in statuses {
                    let status = u16::try_from(status.as_u64().expect("a status")).expect("a status");
                    assert_eq!(waited_after(status).await, Duration::from_secs(2), "{client} {status}");
                }
            }
            // Not followed, on purpose: whoever put it there, to come sooner than it says is early.
            ("502 with Retry-After: 2 (go-retryablehttp)", said) => {
                assert_eq!(
                    (said.as_str(), waited_after(502).await),
                    (Some("ignored"), Duration::from_secs(2))
                );
            }
            ("dotnet", said) => {
                assert_eq!(said.as_str(), Some("any response that carries it"));
                for status in [408, 500, 502, 503, 504] {
                    assert_eq!(waited_after(status).await, Duration::from_secs(2), "{status}");
                }
            }
            (client, _) => panic!("nobody holds the row of {client}"),
        }
    }
}

async fn waited_after(status: u16) -> Duration {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(status).header("retry-after", "2").status(200);
    postmark(&network, &clock).get("/messages").send().await.expect("the retry");
    clock.slept().iter().sum()
}

fn charge(client: &Client) -> Call {
    client.post("/v1/charges").key("order-42").form(&[("amount", "1000")])
}

/// A Stripe whose spent or stuck operations are not looked up, so that every request is a send.
fn stripe() -> Stripe {
    Stripe::new("sk_test_1").look_up_by_metadata(Vec::<String>::new())
}

/// Whether a charge that meets this first is sent again.
async fn is_retried(first: ScriptedTransport) -> bool {
    let network = first.status(200);
    let outcome = charge(&client(stripe(), &network, &TestClock::auto(), 3)).send().await;
    let sent = network.requests().len();
    assert_eq!(outcome.is_ok(), sent == 2, "{sent} sends, {outcome:?}");
    sent == 2
}

#[tokio::test]
async fn every_row_of_stripes_should_retry_is_held() {
    let vectors = vectors("stripe_should_retry.json");
    for case in vectors["cases"].as_array().expect("rows") {
        let want = case["want"].as_bool().expect("a verdict");
        let fields: Vec<&str> = case.as_object().expect("a row").keys().map(String::as_str).collect();
        match fields.as_slice() {
            ["retries", "want"] => {
                assert_eq!((case["retries"].as_str(), want), (Some("max"), false));
                no_retry_is_left().await;
            }
            ["ctx", "want"] => {
                assert_eq!((case["ctx"].as_str(), want), (Some("cancelled"), false));
                the_caller_is_gone().await;
            }
            ["err", "want"] => hold_failures(case["err"].as_str().expect("a failure"), want).await,
            _ => hold_answer(case, &fields, want).await,
        }
    }
}

/// With the last rung spent, nothing is sent again.
async fn no_retry_is_left() {
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let outcome = charge(&client(stripe(), &network, &TestClock::auto(), 2)).send().await;
    assert!(outcome.expect_err("nothing connects").is_dead_letter());
    assert_eq!(network.requests().len(), 3);
}

/// Neither a dropped call nor one whose deadline has passed is sent again.
async fn the_caller_is_gone() {
    let clock = TestClock::new();
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let call = charge(&client(stripe(), &network, &clock, 3));
    let task = tokio::spawn(call.send());
    clock.until_sleeping(1).await;
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    clock.advance(Duration::from_secs(3600));
    tokio::task::yield_now().await;
    assert_eq!(network.requests().len(), 1);

    let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let call = charge(&client(stripe(), &network, &TestClock::auto(), 3)).deadline(RUNG);
    assert!(call.send().await.expect_err("no time for a retry").is_deadline());
    assert_eq!(network.requests().len(), 1);
}

async fn hold_failures(names: &str, want: bool) {
    for name in names.split('|') {
        let kind = match name {
            "too many redirects" => SendErrorKind::Redirected,
            "unsupported scheme" => SendErrorKind::Request,
            "tls certificate" => return a_tls_failure_is_tried_again_later().await,
            "conn refused" | "host unreachable" | "open timeout" => SendErrorKind::Connect,
            "reset" => SendErrorKind::Reset,
            "timed out" | "read timeout" => SendErrorKind::Timeout,
            "EOF" => SendErrorKind::Truncated,
            other => panic!("nobody holds the row of {other}"),
        };
        assert_eq!(is_retried(ScriptedTransport::new().fail(kind)).await, want, "{name}");
    }
}

/// A deviation, said so in the adapter: nothing was sent, so another attempt is harmless, and certificates are
/// mended while a service runs. It waits for the ladder, and the operation's effect is none throughout.
async fn a_tls_failure_is_tried_again_later() {
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Tls);
    let clock = TestClock::auto();
    let error = charge(&client(stripe(), &network, &clock, 2)).send().await.expect_err("no handshake");
    assert_eq!((error.effect(), network.requests().len()), (Effect::None, 3));
    assert_eq!(clock.slept(), [RUNG, RUNG]);
}

async fn hold_answer(case: &Value, fields: &[&str], want: bool) {
    let known = ["status", "Stripe-Should-Retry", "code", "want"];
    assert!(fields.iter().all(|field| known.contains(field)), "nobody holds {case}");
    let status = u16::try_from(case["status"].as_u64().expect("a status")).expect("a status");
    let mut network = ScriptedTransport::new();
    network = network
        .json(status, serde_json::json!({"error": {"code": case["code"]}}))
        .header("request-id", "req_1");
    if let Some(told) = case["Stripe-Should-Retry"].as_str() {
        network = network.header("stripe-should-retry", told);
    }
    if status == 429 && !want {
        // A deviation, said so in the adapter: Stripe's clients give up, this one comes back later. A 429 is
        // neither executed nor stored, and the ladder, the pause and the budget stand before the next send.
        assert!(is_retried(network).await, "{case}");
        let told = ScriptedTransport::new().status(429).header("stripe-should-retry", "false");
        assert!(!is_retried(told).await, "and where Stripe says no, it is obeyed");
        return;
    }
    assert_eq!(is_retried(network).await, want, "{case}");
}

/// The rules above the rows, each with a case that only their order decides.
#[tokio::test]
async fn the_order_of_stripes_rules_is_kept() {
    let vectors = vectors("stripe_should_retry.json");
    let told = |status, told| ScriptedTransport::new().status(status).header("stripe-should-retry", told);
    for rule in vectors["precedence"].as_array().expect("rules") {
        match rule.as_str().expect("a rule") {
            "retries >= max => no" => no_retry_is_left().await,
            "cancelled/deadline => no" => the_caller_is_gone().await,
            "transport error => yes, except redirect loop, bad scheme, TLS/cert error => no" => {
                assert!(is_retried(ScriptedTransport::new().fail(SendErrorKind::Dns)).await);
                assert!(!is_retried(ScriptedTransport::new().fail(SendErrorKind::Redirected)).await);
            }
            "Stripe-Should-Retry: false => no" => {
                for status in [409, 429, 500, 503] {
                    assert!(!is_retried(told(status, "false")).await, "{status}");
                }
            }
            "Stripe-Should-Retry: true => yes" => {
                for status in [400, 402, 404, 409, 429, 500] {
                    assert!(is_retried(told(status, "true")).await, "{status}");
                }
            }
            "409 => yes" => assert!(is_retried(ScriptedTransport::new().status(409)).await),
            "429 only with code lock_timeout" => {
                let body = serde_json::json!({"error": {"code": "lock_timeout"}});
                assert!(is_retried(ScriptedTransport::new().json(429, body)).await);
            }
            ">=500 => yes" => {
                for status in [500, 502, 503, 504, 599] {
                    assert!(is_retried(ScriptedTransport::new().status(status)).await, "{status}");
                }
            }
            "else no" => {
                for status in [400, 402, 403, 404, 410, 422] {
                    let own = ScriptedTransport::new().json(status, serde_json::json!({"error": {}}));
                    assert!(!is_retried(own.header("request-id", "req_1")).await, "{status}");
                }
            }
            other => panic!("nobody holds the rule {other:?}"),
        }
    }
}

#[tokio::test]
async fn keys_are_sent_as_the_vectors_say() -> Result<(), Error> {
    let keys = vectors("stripe_should_retry.json")["keys"].clone();
    assert_eq!(keys["auto"], "every v1 POST; v2 POST and DELETE");
    let network = ScriptedTransport::new().status(200).status(200).status(200);
    let client = client(stripe().api_version("2026-07-29.dahlia"), &network, &TestClock::auto(), 0);
    client.post("/v1/charges").send().await?;
    client.post("/v2/core/events").send().await?;
    client.request(Method::DELETE, "/v2/core/events/1").key("k").send().await?;
    for request in network.requests() {
        let key = request.headers["idempotency-key"].to_str().expect("text").to_owned();
        assert!(key.len() as u64 <= keys["max_len"].as_u64().expect("a length"));
        assert_eq!(key.starts_with('"'), !keys["header_sent_raw"].as_bool().expect("a flag"), "{key}");
    }
    Ok(())
}

/// The files have no part that this test does not know.
#[test]
fn the_vector_files_have_no_part_that_nobody_holds() {
    for (name, parts) in [
        ("retry_after.json", vec!["now_for_dates", "parse", "sources", "which_statuses"]),
        (
            "stripe_should_retry.json",
            // `delays` and `node_exception` tell how Stripe's clients wait, which is this crate's policy here.
            vec!["cases", "delays", "keys", "node_exception", "precedence", "sources"],
        ),
    ] {
        let vectors = vectors(name);
        let mut held: Vec<&str> =
            vectors.as_object().expect("an object").keys().map(String::as_str).collect();
        held.sort_unstable();
        assert_eq!(held, parts, "{name}");
    }
}
