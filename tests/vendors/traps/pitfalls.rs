//! The pitfalls that other resilience libraries fell into, each with a test, through the public API.

use std::path::Path;

use steadfast::policy::BudgetConfig;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Effect, Gate};

use support::rig::{Rig, plain};

fn stripe() -> Stripe {
    Stripe::new("sk_test_1").lookup_by_metadata(Vec::<String>::new())
}

fn charge(client: &Client, key: &str) -> Call {
    client.post("/v1/charges").key(key).form(&[("amount", "1000")])
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
