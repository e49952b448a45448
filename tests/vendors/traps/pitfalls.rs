//! The pitfalls that other resilience libraries fell into, each with a test, through the public API.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::operation::record::{self, Claim, Claimed, State};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{Backoff, BreakerConfig, BudgetConfig};
use steadfast::store::Store as _;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::vendor::{Postmark, Stripe};
use steadfast::{Call, Client, Effect, Error, Gate, Obtained, Reply};

use support::commands;
use support::rig::{Rig, plain, secs, until};

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(secs(seconds))
}

fn stripe() -> Stripe {
    Stripe::new("sk_test_1").look_up_by_metadata(Vec::<String>::new())
}

/// What a call comes to that has nothing to wait for: a test that would wait for ever fails instead.
async fn at_once(call: Call) -> Result<Reply, Error> {
    let task = tokio::spawn(call.send());
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(task.is_finished(), "the call waits for something");
    task.await.expect("no panic")
}

fn charge(client: &Client, key: &str) -> Call {
    client.post("/v1/charges").key(key).form(&[("amount", "1000")])
}

fn charge_id(key: &str) -> OperationId {
    let scope = Scope::new("default", "stripe", "test", &Method::POST, "/v1/charges");
    OperationId::new(scope, Key::new(key).expect("a key"))
}

/// The same through a client and its clones (tower-resilience#407: clones over-admitted).
#[tokio::test]
async fn clones_of_a_client_share_the_probes_of_a_half_open_circuit() {
    let config = BreakerConfig::default().consecutive_failures(1).probes(2);
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect).hang().hang();
    let once = plain().breaker(config).backoff(Backoff::none());
    let rig = Rig::of(stripe()).policy(once).network(network).clock(&TestClock::new()).build();
    rig.client.get("/v1/balance").send().await.expect_err("opens the circuit");
    rig.clock.advance(secs(2));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let client = rig.client.clone();
            tokio::spawn(async move { client.get("/v1/balance").send().await })
        })
        .collect();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.network.requests().len(), 3, "the failure and two probes");
    let refused = tasks.iter().filter(|task| task.is_finished()).count();
    assert_eq!(refused, 6);
    for task in tasks {
        task.abort();
    }
}

/// Retries that wait in backoff and are not charged to the budget are all released at once (envoy#30205).
#[tokio::test]
async fn a_retry_is_charged_when_it_is_scheduled() {
    let policy = plain().budget(BudgetConfig::new(0.0, 10, 0.0));
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    let rig = Rig::of(stripe()).policy(policy).network(network).clock(&TestClock::new()).build();
    let tasks: Vec<_> =
        (0..50).map(|n| tokio::spawn(charge(&rig.client, &format!("order-{n}")).send())).collect();
    rig.clock.until_sleeping(10).await;
    let mut refused = 0;
    for task in tasks {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        if task.is_finished() {
            let error = task.await.expect("no panic").expect_err("nothing connects");
            assert_eq!((error.gate(), error.effect()), (Some(Gate::Budget), Effect::None));
            refused += 1;
        } else {
            task.abort();
        }
    }
    assert_eq!((refused, rig.network.requests().len()), (40, 50), "ten wait, and not one has been resent");
}

/// POST retried by default (dotnet/extensions#5248, reqwest-retry).
#[tokio::test]
async fn a_post_is_not_retried_by_default() {
    for first in [SendErrorKind::Reset, SendErrorKind::Timeout, SendErrorKind::Truncated] {
        for method in [Method::POST, Method::PATCH] {
            let network = ScriptedTransport::new().fail(first).status(200);
            let rig = Rig::of(Postmark::new("token")).network(network).build();
            rig.client.request(method, "/bounces").send().await.expect_err("it may have been done");
            assert_eq!(rig.network.requests().len(), 1);
        }
    }
}

/// A rejected duplicate that deletes the live holder's record (Powertools ts#5675).
#[tokio::test]
async fn a_rejected_duplicate_leaves_the_holders_record_alone() {
    let clock = TestClock::new();
    let network = ScriptedTransport::new().status(200).after(secs(10), &clock).status(500);
    let rig = Rig::of(stripe()).network(network).clock(&clock).build();
    let holder = tokio::spawn(charge(&rig.client, "order-42").send());
    until(|| !rig.network.requests().is_empty()).await;
    let held = rig.store.get(&charge_id("order-42")).await.expect("a store").expect("a record");
    assert!(at_once(charge(&rig.client, "order-42")).await.expect_err("held").is_in_progress());
    let other = rig.client.post("/v1/charges").key("order-42").form(&[("amount", "9")]);
    assert!(at_once(other).await.expect_err("another request").is_key_reused());
    let after = rig.store.get(&charge_id("order-42")).await.expect("a store").expect("a record");
    assert_eq!(held, after);
    rig.clock.advance(secs(10));
    assert_eq!(holder.await.expect("no panic").expect("its reply").obtained(), Obtained::Fresh);
    assert_eq!(
        at_once(charge(&rig.client, "order-42")).await.expect("stored").obtained(),
        Obtained::Replayed
    );
}

/// `Instant` subtraction that panics, also when an operator sets the wall clock back in mid-call.
#[tokio::test]
async fn time_that_goes_backwards_panics_nothing() {
    assert_eq!(at(1).since(at(2)), Duration::ZERO);
    assert_eq!(Timestamp::from_millis(1).since(Timestamp::from_millis(2)), Duration::ZERO);
    assert_eq!(Timestamp::from_millis(1).minus(secs(1)), Timestamp::from_millis(0));
    assert_eq!(Instant::from_nanos(u64::MAX).plus(Duration::MAX), Instant::from_nanos(u64::MAX));

    let clock = TestClock::auto();
    let (wall, network) = (clock.clone(), ScriptedTransport::new());
    let network = network.always_with(move |_| {
        wall.set_wall(Timestamp::from_millis(wall.wall().as_millis() / 2));
        Err(SendErrorKind::Connect)
    });
    let policy = plain().breaker(BreakerConfig::default()).budget(BudgetConfig::default());
    let rig = Rig::of(stripe()).policy(policy).network(network).clock(&clock).build();
    let error = charge(&rig.client, "k").send().await.expect_err("nothing connects");
    assert_eq!(error.effect(), Effect::None);
}

/// A lease of 0 read as "none" (Powertools python#4759): it has run out, and is no licence to send blindly.
#[test]
fn a_lease_of_zero_has_run_out_and_never_means_none() {
    let request = Request::new(Method::POST, "https://v.test/x".parse().expect("a url"));
    let now = Timestamp::from_millis(1_000);
    let claim = || Claim { lease: Duration::ZERO, ..commands::claim(&charge_id("k"), request.clone(), now) };
    let (Some(held), Claimed::Fresh(_)) = record::claim(None, claim(), &record::Notes::default()) else {
        panic!("the first claim")
    };
    assert_eq!(held.state, State::InProgress { lease_until: now });
    let (_, Claimed::TakenOver(taken)) = record::claim(Some(&held), claim(), &record::Notes::default())
    else {
        panic!("a lease that ends now has run out")
    };
    assert_eq!((taken.effect, taken.fence), (Effect::Unknown, 2), "its holder may have sent");
    let mut zero = plain();
    zero.lease_margin = Duration::ZERO;
    assert_eq!(zero.validate().expect_err("no margin").code(), "VALIDATION.policy");
}

/// A wrapper error that hides `is_timeout()`; a Display that repeats its source.
#[tokio::test]
async fn an_error_shows_a_timeout_and_never_repeats_its_source() {
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Timeout);
    let rig = Rig::of(Postmark::new("token")).network(network).build();
    let keyed = rig.client.post("/bounces").key("k").send().await.expect_err("a timeout");
    let unkeyed = rig.client.get("/bounces").send().await.expect_err("a timeout");
    assert!(keyed.is_timeout() && keyed.is_dead_letter() && unkeyed.is_timeout());

    let own = ["request-id", "idempotent-replayed"]
        .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("true")));
    let own = HeaderMap::from_iter(own);
    let not_json = ScriptedTransport::new().reply(Answer::new(StatusCode::OK, own, ""));
    let rig = Rig::of(stripe()).network(not_json).build();
    let reply = charge(&rig.client, "k").send().await.expect("a reply without a body");
    let error = reply.json::<serde_json::Value>().expect_err("nothing is no JSON");
    let source = error.source().expect("where it went wrong").to_string();
    assert!(!error.to_string().contains(&source), "{error} repeats {source}");
}

/// Public types of a driver in the API: a dependency bump becomes a breaking change. reqwest's are, on purpose,
/// in the one file where a caller may bring a client of their own.
#[test]
fn no_drivers_type_is_in_a_public_signature() {
    let drivers =
        ["reqwest::", "governor::", "toml::", "wiremock::", "httparse::", "rand::", "sha2::", "tokio::"];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                read += 1;
                let text = std::fs::read_to_string(&path).expect("a file");
                let public = text.lines().map(str::trim).filter(|line| line.starts_with("pub "));
                for line in public.filter(|_| !path.ends_with("transport/http_client.rs")) {
                    let found = drivers.iter().find(|driver| line.contains(*driver));
                    assert_eq!(found, None, "{}: {line}", path.display());
                }
            }
        }
    }
    assert!(read > 50, "{read} files");
}
