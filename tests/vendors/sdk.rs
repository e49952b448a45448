//! The vendors' own client libraries, pinned, through their ordinary flows against the fakes.
//!
//! A fake that only this crate's own adapters call is whatever both believe. These libraries were written by the
//! vendors or by others who call them, and parse what the vendor really answers. They come from the package registries
//! by pip and npm, into a directory below `target`, once; what they call is here, on loopback. Without an interpreter
//! or a registry a test says so and skips; with `STEADFAST_NO_SKIP` set that is a failure.
//!
//! Those for Rust are in `rust/`, a package of its own.

mod installed;

use std::collections::BTreeMap;
use std::process::Command;

use installed::Library;
use serde_json::Value;
use steadfast::testkit::fakes::{AdyenFake, BigCommerceFake, PostmarkFake, StripeFake};
use tokio::task;

/// Runs a script against the fake at `url`, and shows what it said if it failed.
async fn passes(library: Library, script: &'static str, url: String) {
    let ended = task::spawn_blocking(move || {
        let mut command = library.command(script)?;
        // Neither a proxy of the machine nor a key of a developer's is meant.
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(variable);
        }
        Some(run(command.env("FAKE_URL", url), script))
    });
    if let Some(said) = ended.await.expect("it ends") {
        assert!(said.0, "{script}:\n{}", said.1);
    }
}

fn run(command: &mut Command, script: &str) -> (bool, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{script} does not run: {error}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

async fn page(url: &str, path: &str) -> Value {
    let answer = reqwest::get(format!("{url}/_fake/{path}")).await.expect("the page answers");
    serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
}

/// Nothing with a key took effect twice, whatever was lost on the way, and every fault was met.
async fn judge(url: &str) {
    let ledger = page(url, "ledger").await;
    assert_eq!(ledger["duplicates"], Value::from(Vec::<Value>::new()));
    assert_eq!(page(url, "faults").await["pending"], 0, "a fault that no request met");
}

/// The mails that were sent more than once. Postmark has no key: the same mail is one to the same people, with the
/// same subject and the same metadata. A flow that means two gives them two subjects.
async fn mailed_twice(url: &str) -> Vec<String> {
    let search = reqwest::Client::new().get(format!("{url}/messages/outbound?count=500&offset=0"));
    let answer = search.header("X-Postmark-Server-Token", "judge").send().await.expect("the search answers");
    let found: Value = serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON");
    let messages = found["Messages"].as_array().expect("messages");
    let ledger = page(url, "ledger").await;
    let effects = ledger["effects"].as_array().expect("effects").iter();
    let accepted =
        effects.filter(|effect| effect["path"].as_str().is_some_and(|path| path.starts_with("/email")));
    assert_eq!(messages.len(), accepted.count(), "the search shows every mail that was accepted");
    let mut sent: BTreeMap<String, u32> = BTreeMap::new();
    for message in messages {
        let said = format!("{} {} {}", message["Recipients"], message["Subject"], message["Metadata"]);
        *sent.entry(said).or_default() += 1;
    }
    sent.into_iter().filter(|(_, times)| *times > 1).map(|(said, _)| said).collect()
}

async fn judge_mail(url: &str) {
    judge(url).await;
    assert_eq!(mailed_twice(url).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripe_for_python() {
    let fake = StripeFake::start().await;
    passes(Library::Python, "stripe_flows.py", fake.url()).await;
    judge(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripe_for_node() {
    let fake = StripeFake::start().await;
    passes(Library::Node, "stripe_flows.mjs", fake.url()).await;
    judge(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_the_fields_that_stripes_own_types_require() {
    let fake = StripeFake::start().await;
    passes(Library::Node, "stripe_types.mjs", fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_fits_the_types_of_adyens_and_postmarks_own_libraries() {
    let (adyen, postmark) = (AdyenFake::start().await, PostmarkFake::start().await);
    postmark.deactivate("inactive@example.com");
    passes(Library::Node, "vendor_types.mjs", format!("{} {}", adyen.url(), postmark.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postmark_for_node() {
    let fake = PostmarkFake::start().await;
    fake.deactivate("inactive@example.com");
    passes(Library::Node, "postmark_flows.cjs", fake.url()).await;
    judge_mail(&fake.url()).await;
}

/// A caller who takes a lost answer for no answer, and sends again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_mails_twice_is_seen() {
    let fake = PostmarkFake::start().await;
    passes(Library::Node, "postmark_twice.cjs", fake.url()).await;
    judge(&fake.url()).await;
    let seen = mailed_twice(&fake.url()).await;
    assert_eq!(seen, [r#"["ann@example.com"] "Paid" {"order":"42"}"#], "and the other two mails are two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postmarker_for_python() {
    let fake = PostmarkFake::start().await;
    fake.deactivate("inactive@example.com");
    passes(Library::Python, "postmark_flows.py", fake.url()).await;
    judge_mail(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bigcommerce_for_python() {
    let fake = BigCommerceFake::start().await;
    passes(Library::Python, "bigcommerce_flows.py", fake.url()).await;
    judge(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bigcommerce_for_node() {
    let fake = BigCommerceFake::start().await;
    passes(Library::Node, "bigcommerce_flows.cjs", fake.url()).await;
    judge(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adyen_for_python() {
    let fake = AdyenFake::start().await;
    passes(Library::Python, "adyen_flows.py", fake.url()).await;
    judge(&fake.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adyen_for_node() {
    let fake = AdyenFake::start().await;
    passes(Library::Node, "adyen_flows.cjs", fake.url()).await;
    judge(&fake.url()).await;
}
