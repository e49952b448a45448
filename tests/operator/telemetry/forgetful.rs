//! Warnings of a client without a store and of one without a namespace: once in a process, and not from tests.

use std::process::Command;

use steadfast::clock::SystemClock;
use steadfast::store::{Memory, Sqlite};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::Http;
use steadfast::vendor::Stripe;
use steadfast::{Client, ClientBuilder, Vendors};

use crate::telemetry::capture::{captured, listen};

/// The warning comes once in a process, and another test of this one may be the first.
#[test]
fn a_client_without_a_store_warns_once() {
    alone("telemetry::forgetful::in_a_process_of_its_own");
}

#[test]
fn a_client_without_a_namespace_warns_once() {
    alone("telemetry::forgetful::nameless_in_a_process_of_its_own");
}

/// A reboot loses what is in memory. Linux has this place for such files.
#[cfg(target_os = "linux")]
#[test]
fn a_client_with_an_unsafe_file_warns_once() {
    alone("telemetry::forgetful::unsafe_in_a_process_of_its_own");
}

fn alone(test: &str) {
    let this = std::env::current_exe().expect("this program");
    let only = ["--exact", test, "--ignored"];
    let output = Command::new(this).args(only).output().expect("it runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
#[ignore = "a_client_without_a_store_warns_once runs it"]
fn in_a_process_of_its_own() {
    stripe().build().expect("a client that is built before anybody listens");
    listen();
    for quiet in quiet() {
        let shown = format!("{quiet:?}");
        quiet.build().expect("a client");
        assert_eq!(warnings(), Vec::<String>::new(), "{shown}");
    }
    vendors("store = 'memory'").client("stripe").expect("a client");
    vendors("").rules().expect("rules");
    let builder = vendors("").builder("stripe").expect("a builder");
    let unsaid = builder.transport(ScriptedTransport::new()).transport(http()).clock(SystemClock::new());
    assert_eq!(warnings(), Vec::<String>::new());

    unsaid.build().expect("a client");
    let warnings = warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("no store: operations are in memory only"), "{warnings:?}");
    assert_eq!(captured().event(&warnings[0])["steadfast.vendor"], "stripe");

    stripe().build().expect("another client");
    assert_eq!(self::warnings().len(), 1, "it is said once");
}

#[test]
#[ignore = "a_client_without_a_namespace_warns_once runs it"]
fn nameless_in_a_process_of_its_own() {
    let nameless = || Client::builder(Stripe::new("sk_test")).store(Memory::new());
    nameless().build().expect("a client that is built before anybody listens");
    listen();
    for quiet in [
        nameless().namespace("prod"),
        nameless().namespace("default"),
        nameless().transport(ScriptedTransport::new()),
        nameless().clock(TestClock::auto()),
        Client::builder(Stripe::new("sk_test").base_url("http://[::1]:9")).store(Memory::new()),
        Client::builder(Stripe::new("sk_test").base_url("http://localhost:9")).store(Memory::new()),
    ] {
        let shown = format!("{quiet:?}");
        quiet.build().expect("a client");
        assert_eq!(warnings(), Vec::<String>::new(), "{shown}");
    }
    vendors("namespace = 'default'\nstore = 'memory'").client("stripe").expect("a client");
    unnamed("store = 'memory'").rules().expect("rules");
    assert_eq!(warnings(), Vec::<String>::new());

    unnamed("store = 'memory'").client("stripe").expect("a client");
    let warned = warnings();
    assert_eq!(warned.len(), 1);
    assert!(warned[0].starts_with("no namespace: ") && warned[0].contains("steadfast adopt"), "{warned:?}");
    assert_eq!(captured().event(&warned[0])["steadfast.vendor"], "stripe");
    nameless().build().expect("another client");
    assert_eq!(warnings().len(), 1, "it is said once");
}

#[tokio::test]
#[ignore = "a_client_with_an_unsafe_file_warns_once runs it"]
async fn unsafe_in_a_process_of_its_own() {
    const UNSAFE: &str = "the store's file is unsafe";

    listen();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let build = |file: &str, base_url: &str| {
        let store = Sqlite::open(place.path().join(file)).expect("opens");
        let stripe = Client::builder(Stripe::new("sk_test").base_url(base_url));
        stripe.namespace("prod").store(store).build().expect("a client")
    };
    build("calls.db", "http://127.0.0.1:9");
    assert_eq!(warnings(), Vec::<String>::new(), "a test's");
    build("calls.db", "https://api.stripe.com");
    build("other.db", "https://api.stripe.com");
    assert_eq!(warnings(), [UNSAFE], "once");
    let captured = captured();
    let event = captured.event(UNSAFE);
    assert_eq!(event["steadfast.vendor"], "stripe");
    assert!(event["reason"].starts_with("the store's file is in memory (tmpfs)"), "{event:?}");
}

/// Clients of a test, or with an explicit choice.
fn quiet() -> Vec<ClientBuilder> {
    vec![
        stripe().store(Memory::new()),
        stripe().transport(ScriptedTransport::new()),
        stripe().clock(TestClock::auto()),
        Client::builder(Stripe::new("sk_test").base_url("http://127.0.0.1:9")).namespace("test"),
        Client::builder(Stripe::new("sk_test").base_url("http://localhost:9")),
    ]
}

fn stripe() -> ClientBuilder {
    Client::builder(Stripe::new("sk_test")).namespace("test")
}

fn vendors(settings: &str) -> Vendors {
    let named = if settings.contains("namespace") { "" } else { "namespace = 'test'\n" };
    unnamed(&format!("{named}{settings}"))
}

fn unnamed(settings: &str) -> Vendors {
    let text = format!("{settings}\n[vendors.stripe]\nsecret_env = 'STRIPE'");
    Vendors::parse(&text, "vendors.toml").expect("good").with_secrets(|_| Some("sk_test".to_owned()))
}

fn warnings() -> Vec<String> {
    let warns = |event: &&crate::telemetry::capture::Fields| event["level"] == "WARN";
    captured().events.iter().filter(warns).map(|event| event["message"].clone()).collect()
}

fn http() -> Http {
    Http::over(reqwest::Client::builder).expect("a transport")
}
