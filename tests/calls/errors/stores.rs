//! A store that fails, at each step of a call, and one that does not open.

use std::time::Duration;

use steadfast::Client;
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Sqlite};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;

use super::{Said, builder, charge, charged, network, policy};
use support::watched::{Failing, Watched};

fn on(failing: Failing, network: ScriptedTransport) -> Client {
    let store = Watched { fails: Some(failing), ..Watched::default() };
    builder(Stripe::new("sk_test_123"), network, policy()).store(store).build().expect("a client")
}

pub async fn all(said: &mut Said) {
    said.refused("the claim fails", charged(&on(Failing::Claims, network())).await);

    let clock = TestClock::auto();
    let store = Watched { fails: Some(Failing::ClaimsHang(clock.clone())), ..Watched::default() };
    let client = builder(Stripe::new("sk_test_123"), network(), policy()).clock(clock).store(store);
    let client = client.build().expect("a client");
    let short = charge(&client).deadline(Duration::from_secs(5));
    said.refused("the claim takes too long", short.send().await);

    let client = on(Failing::Transitions, network().status(200));
    said.refused("the outcome cannot be recorded", charged(&client).await);

    let client = on(Failing::Transitions, network().fail(SendErrorKind::Reset));
    let short = charge(&client).deadline(Duration::from_millis(100));
    said.refused("the next attempt cannot be recorded", short.send().await);

    let client = on(Failing::Transitions, network().fail(SendErrorKind::Reset));
    said.refused("the lease cannot be renewed for a retry", charged(&client).await);

    let client = on(Failing::Transitions, network().fail(SendErrorKind::Connect));
    let once = charge(&client).backoff(Backoff::none());
    said.refused("a dead letter cannot be recorded", once.send().await);

    let client = on(Failing::Holders, network().status(200));
    said.refused("another process has taken it over", charged(&client).await);

    said.refused("recovery cannot ask the store", on(Failing::Takes, network()).recover(1).await);

    let full = builder(Stripe::new("sk_test_123"), network(), policy()).store(Memory::with_capacity(0));
    said.refused("the store in memory is full", charged(&full.build().expect("a client")).await);

    let directory = tempfile::tempdir().expect("a directory");
    let in_directory = |name: &str| directory.path().join(name);
    let mut opened = |happened: &str, name: &str| {
        let error = Sqlite::open(in_directory(name)).expect_err(happened);
        let kind = format!("StoreErrorKind::{:?}", error.kind());
        let mut own = Said::default();
        own.entry(happened, &kind, &error);
        said.0 += &own.0.replace(&directory.path().display().to_string(), "/var/lib/shop");
    };
    std::fs::write(in_directory("letter.txt"), "a letter to Ada".repeat(100)).expect("a file");
    opened("a file that is no database", "letter.txt");
    opened("a file in a directory that is not there", "absent/calls.db");
    opened("a directory where the file should be", "");
}
