//! A service that is killed in the middle of a typed call, and its next process.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "processes, by the clock of the machine")]

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carriers::stripe::{Carrier, StripeError};
use steadfast::policy::Timeouts;
use steadfast::store::Sqlite;
use steadfast::testkit::Fault;
use steadfast::testkit::fakes::StripeFake;
use steadfast::vendor::Stripe;
use steadfast::{Client, Policy};
use stripe_client_core::{IdempotencyKey, RequestStrategy, StripeRequest};
use stripe_core::payment_intent::CreatePaymentIntent;
use stripe_types::Currency;

#[tokio::test]
async fn a_killed_process_leaves_one_charge_for_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let fake = StripeFake::start().await;
    fake.plan().next(Fault::HangAfterApply);
    let start = || process(&fake.url(), directory.path().join("calls.db").to_str().expect("text"));

    let mut killed = start();
    within_a_minute(async || fake.ledger().count() == 1).await;
    killed.kill().expect("it runs");
    killed.wait().expect("it is over");

    let mut next = start();
    within_a_minute(async || next.try_wait().expect("it can be asked").is_some()).await;
    let output = next.wait_with_output().expect("it is over");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("charged 1000"), "{said}");
    assert_eq!((fake.ledger().count(), fake.plan().pending()), (1, 0));
}

/// The service that runs in the processes of the test above.
#[tokio::test]
#[ignore = "a process of another test"]
async fn service() {
    let [url, file] = ["CARRIERS_STRIPE", "CARRIERS_STORE"].map(|name| env::var(name).expect("it is set"));
    // Short times: a key is free once the lease of the process that died is over.
    let times = [1, 2, 20].map(Duration::from_secs);
    let policy =
        Policy::background().timeout(Timeouts::new(times[0], times[1], times[2])).lease_margin(times[0]);
    let client = Client::builder(Stripe::new("sk_test_123").base_url(url)).policy(policy);
    let client = client.store(Sqlite::open(file).expect("a store")).build().expect("a client");
    let stripe = Carrier::new(client);
    loop {
        let key = IdempotencyKey::new("order-42/charge").expect("a key");
        let create = CreatePaymentIntent::new(1000, Currency::USD);
        let request = create.customize().request_strategy(RequestStrategy::Idempotent(key));
        match request.send(&stripe).await {
            Ok(intent) => return println!("charged {}", intent.amount),
            // Real time: the lease of a process that was killed ends by the clock of the machine.
            Err(StripeError::Call(error)) if error.is_in_progress() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn process(url: &str, store: &str) -> Child {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "--nocapture", "service"]);
    command.env("CARRIERS_STRIPE", url).env("CARRIERS_STORE", store);
    command.stdout(Stdio::piped()).spawn().expect("a process")
}

/// Real time: another process does it.
async fn within_a_minute(mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
