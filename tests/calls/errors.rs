//! Every way to fail, read aloud: what each error says is held word for word in `*.txt` beside this file.
//!
//! Each entry is what happened, the error's code, its line, and its causes below it. Read them as somebody does whom
//! they wake: one thought, the field's nouns, whose call it was, and what to do next where something can be done.

mod calls;
mod gates;
mod input;
#[cfg(all(target_os = "linux", feature = "rustls"))]
mod network;
mod replies;
mod stores;

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{SendError, SendErrorKind};
use steadfast::vendor::{Stripe, Vendor};
use steadfast::{Call, Client, ClientBuilder, Error, Policy, Reply};

/// The text that was said so far.
#[derive(Default)]
struct Said(String);

impl Said {
    /// One error of a call or a client.
    fn error(&mut self, happened: &str, error: &Error) {
        self.entry(happened, error.code(), error);
    }

    fn refused<T>(&mut self, happened: &str, result: Result<T, Error>) {
        let error = result.err().unwrap_or_else(|| panic!("{happened}: no error"));
        self.error(happened, &error);
    }

    fn entry(&mut self, happened: &str, code: &str, error: &(dyn StdError + 'static)) {
        write!(self.0, "== {happened}\n{code}\n{error}\n").expect("a text takes all");
        let mut next = error.source();
        while let Some(layer) = next {
            writeln!(self.0, "    because: {layer}").expect("a text takes all");
            next = layer.source();
        }
        self.0.push('\n');
    }

    /// Holds all that was said to the file of this name.
    fn is_what_stands_in(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/errors").join(name);
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        if held == self.0 {
            return;
        }
        let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&now, &self.0).expect("a file for what is said now");
        let entries = |text: &str| text.split("== ").map(str::to_owned).collect::<Vec<_>>();
        let (held, said) = (entries(&held), entries(&self.0));
        let differs = (0..held.len().max(said.len())).find(|&nth| held.get(nth) != said.get(nth));
        let nth = differs.expect("they differ");
        panic!(
            "{name} holds\n\n{}\nbut now it is\n\n{}\nAll of what is said now: {}",
            held.get(nth).map_or("(nothing)\n", String::as_str),
            said.get(nth).map_or("(nothing)\n", String::as_str),
            now.display(),
        );
    }
}

/// The background ladder of two waits without jitter, and nothing that would refuse.
fn policy() -> Policy {
    let mut backoff = Backoff::ladder([Duration::from_millis(500), Duration::from_secs(2)]);
    backoff.jitter = Jitter::None;
    Policy::background().backoff(backoff).without_breaker().without_budget().lookups_max(0)
}

fn builder(vendor: impl Vendor, network: ScriptedTransport, policy: Policy) -> ClientBuilder {
    Client::builder(vendor)
        .policy(policy)
        .transport(network)
        .clock(TestClock::auto())
        .random(FixedRandom::at(0.5))
}

fn client(vendor: impl Vendor, network: ScriptedTransport) -> Client {
    builder(vendor, network, policy()).build().expect("a client")
}

fn stripe(network: ScriptedTransport) -> Client {
    client(Stripe::new("sk_test_123"), network)
}

fn charge(client: &Client) -> Call {
    client.post("/v1/charges").key("order-42/charge").form(&[("amount", "1000"), ("currency", "usd")])
}

/// How a charge ends.
async fn charged(client: &Client) -> Result<Reply, Error> {
    charge(client).send().await
}

fn network() -> ScriptedTransport {
    ScriptedTransport::new()
}

#[tokio::test]
async fn each_error_says_whose_it_is_what_happened_and_what_to_do() {
    let mut said = Said::default();
    calls::refusals(&mut said).await;
    calls::conflicts(&mut said).await;
    calls::dead_letters(&mut said).await;
    calls::calls_that_are_no_operations(&mut said).await;
    calls::deadlines(&mut said).await;
    gates::all(&mut said).await;
    replies::all(&mut said).await;
    stores::all(&mut said).await;
    input::of_calls(&mut said).await;
    input::of_clients(&mut said);
    input::of_policies(&mut said);
    input::of_vendors_files(&mut said);
    said.is_what_stands_in("errors.txt");
}

/// The causes that the network gives, on a real one: their words are other crates' and the system's.
#[cfg(all(target_os = "linux", feature = "rustls"))]
#[tokio::test]
async fn each_failure_of_the_network_is_followed_down_to_its_first_cause() {
    let mut said = Said::default();
    network::all(&mut said).await;
    said.is_what_stands_in("network.txt");
}

/// A program asks; it does not read the line.
#[tokio::test]
async fn what_the_line_says_can_also_be_asked_for() {
    let client = stripe(network().always_fail(SendErrorKind::Dns));
    let error = charged(&client).await.expect_err("no such name");
    assert_eq!(error.vendor(), Some("stripe"));
    assert_eq!(error.method(), Some(&http::Method::POST));
    assert_eq!((error.path(), error.key()), (Some("/v1/charges"), Some("order-42/charge")));
    assert_eq!(error.operation(), Some("default/stripe/test/POST /v1/charges"));
    let cause = error.source().and_then(|cause| cause.downcast_ref::<SendError>());
    assert_eq!(cause.map(SendError::kind), Some(SendErrorKind::Dns));
    let (line, chain) = (error.to_string(), format!("{error:#}"));
    assert_eq!(chain, format!("{line}: the name api.stripe.com did not resolve"));
    assert_eq!(error.attempts()[2].failure.as_deref(), Some("the name api.stripe.com did not resolve"));

    let unkeyed = client.get("/v1/balance").send().await.expect_err("no such name");
    assert_eq!((unkeyed.path(), unkeyed.key(), unkeyed.operation()), (Some("/v1/balance"), None, None));
    let built = Client::builder(Stripe::new("")).build().expect_err("no secret");
    assert_eq!((built.vendor(), built.method(), built.path()), (Some("stripe"), None, None));
}
