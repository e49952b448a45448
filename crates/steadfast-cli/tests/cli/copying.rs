//! Records that go from one store to another, and the terms of the accounts in it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use steadfast::clock::{Clock, SystemClock};
use steadfast::operation::record::{Claim, Filter};
use steadfast::operation::{Key, OperationId};
use steadfast::store::{Sqlite, Store, StoreUrl};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;

use super::{LONG_AGO, NOW, TestDirectory, pay};
use support::on_disk;
use support::rig::{Rig, plain};

const COPY: [&str; 5] = ["copy", "--from", "sqlite:calls.db", "--to", "sqlite:new.db"];

#[tokio::test]
async fn all_records_are_in_the_new_store_and_the_old_one_is_closed() {
    let place = TestDirectory::fresh();
    place.never_sent("due").await;
    place.lost("lost", LONG_AGO).await;
    place.succeeds("done", NOW).await;
    place.run(&["dead-letters", "resolve", "lost", "--not-applied", "--why", "ticket 7"]).ended(0);
    let before = ["due", "lost", "done"].map(|key| place.json(0, &["show", key]));
    let text = place.run_with(&[], &COPY).ended(0);
    let whole = |name: &str| place.path(name).canonicalize().expect("there").display().to_string();
    let (old, new) = (whole("calls.db"), whole("new.db"));
    let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with(&format!(
            "3 operations and 1 entries of the audit record are in sqlite:{new} each was compared; checksum "
        )),
        "{text}"
    );
    assert!(
        words.ends_with(&format!("sqlite:{old} is closed; configure the service to use sqlite:{new}")),
        "{text}"
    );
    for (key, before) in ["due", "lost", "done"].iter().zip(before) {
        let show = ["show", key, "--json"];
        let shown =
            place.run_with(&["--store", "sqlite:new.db", "--vendors", "vendors.toml"], &show).ended(0);
        let mut shown = super::schema::answer(&shown)["result"].take();
        let mut before = before;
        (shown["now"], before["now"]) = (json!(null), json!(null));
        assert_eq!(shown, before, "{key}");
    }
    // A process that still has the old store sends nothing, and its error names the new one.
    let network = ScriptedTransport::new();
    let error = pay(&place.stripe(NOW, &network), "next").await.expect_err("closed");
    assert_eq!(network.requests().len(), 0);
    let result = format!("{error:#}");
    assert!(
        result.contains(&format!("the store's records were copied to sqlite:{new}; use that store")),
        "{result}"
    );
    let redrive = place.run(&["dead-letters", "redrive", "due"]);
    assert!(redrive.code == 3 && redrive.err.contains("use that store"), "{}", redrive.err);
    // A second copy has nothing to do.
    assert_eq!(copied(&place)["was_complete"], true);
    place.run_with(&["--store", "new.db"], &["dead-letters", "redrive", "due"]).ended(0);
}

#[tokio::test]
async fn a_copy_beside_a_held_operation_is_refused_with_the_leases_end_or_waits() {
    let place = TestDirectory::fresh();
    let held = holds(&place, "held", Duration::from_millis(1_500)).await;
    let result = place.run_with(&[], &COPY);
    assert_eq!(result.code, 1, "{}{}", result.out, result.err);
    let expected = "steadfast: 1 operation is held in the source, the last until ";
    assert!(result.err.starts_with(expected), "{}", result.err);
    assert!(
        result.err.ends_with("; stop the service, and try again then, or let --wait do so\n"),
        "{}",
        result.err
    );
    let error = place.run_with(&[], &[&COPY[..], &["--json"]].concat());
    let error = super::schema::answer(&error.ended(1))["error"].take();
    assert_eq!(error["code"], "refused", "{error}");
    place.succeeds("beside", NOW).await;
    let began = SystemClock::new().wall();
    let text = place.run_with(&[], &[&COPY[..], &["--wait"]].concat()).ended(0);
    assert!(text.starts_with("2 operations"), "{text}");
    let ended = SystemClock::new().wall();
    assert!(ended >= held, "it waited from {began} to {ended}, and not until {held}");
}

#[tokio::test]
async fn a_copy_is_sealed_as_the_keys_say() {
    let mut place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    let hex = |byte: u8| format!("{byte:02x}").repeat(32);
    let holds = |name: &str| on_disk::holds(&place.path(name), "amount=1000&");
    assert!(holds("calls.db"), "what is searched for is there");
    let copy = |from: &'static str, to: &'static str| ["copy", "--from", from, "--to", to];
    let sealed = place.run_as(&[("STEADFAST_SEAL_KEYS", &hex(1))], &copy("calls.db", "one.db"));
    assert!(sealed.ended(0).starts_with("1 operations"));
    assert!(!holds("one.db"));
    let keys = format!("{},{}", hex(2), hex(1));
    place.run_as(&[("STEADFAST_SEAL_KEYS", &keys)], &copy("one.db", "two.db")).ended(0);
    assert!(!holds("two.db"));
    let missing = place.run_as(&[("STEADFAST_SEAL_KEYS", &hex(1))], &copy("two.db", "three.db"));
    assert!(missing.code == 3 && missing.err.contains("the file is sealed"), "{}", missing.err);
    let unsealed = [&copy("two.db", "three.db")[..], &["--unsealed"]].concat();
    place.run_as(&[("STEADFAST_SEAL_KEYS", &hex(2))], &unsealed).ended(0);
    assert!(holds("three.db"));
    place.seal_keys = None;
    let shown = place.run_with(&["--store", "three.db"], &["show", "order-1"]).ended(0);
    assert!(shown.contains("order-1"), "{shown}");
}

#[tokio::test]
async fn an_impossible_copy_is_refused_with_the_reason() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    for (code, arguments, problem) in [
        (2, &["--from", "calls.db"][..], "--to"),
        (2, &["--from", "calls.db", "--to", "memory:"], "--to: a store in memory ends with its process"),
        (2, &["--from", "memory:", "--to", "new.db"], "--from: a store in memory"),
        (
            2,
            &["--from", "calls.db", "--to", "mysql://u:hunter2@db/x"],
            "--to: this build opens no store `mysql`",
        ),
        (2, &["--from", "calls.db", "--to", "./calls.db"], "source and target are the same store"),
        (2, &["--from", "calls.db", "--to", "new.db", "--lost"], "--lost"),
        (3, &["--from", "absent.db", "--to", "new.db"], "no such store: there is no file"),
        (3, &["--from", "calls.db", "--to", "vendors.toml"], "it belongs to another program"),
    ] {
        let result = place.run_with(&[], &[&["copy"], arguments].concat());
        assert_eq!(result.code, code, "{arguments:?}: {}", result.err);
        assert!(
            result.err.contains(problem) && !result.err.contains("hunter2"),
            "{arguments:?}: {}",
            result.err
        );
    }
    std::fs::copy(place.path("calls.db"), place.path("other.db")).expect("copies");
    let result = place.run_with(&[], &["copy", "--from", "calls.db", "--to", "other.db"]);
    assert_eq!(
        (result.code, &result.err[..]),
        (1, "steadfast: the target has records of its own; name a new store\n")
    );
    place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
}

/// A process that is killed anywhere, again and again; the copy is given up once, and begins anew.
#[allow(clippy::disallowed_methods, reason = "a real process is killed, and runs in real time")]
#[tokio::test]
async fn a_killed_copy_continues_and_is_never_open_twice() {
    let place = TestDirectory::fresh();
    let store = Arc::new(Sqlite::open(place.path("calls.db")).expect("opens"));
    let answer =
        steadfast::transport::Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{\"id\":\"po_1\"}");
    let setup = Rig::of(Stripe::new("sk_test_secret")).policy(plain().without_rate());
    let client = setup.store(Arc::clone(&store)).network(ScriptedTransport::new().always(answer)).client();
    for nth in 0..700 {
        pay(&client, &format!("order-{nth}")).await.expect("paid");
    }
    drop(client);
    Arc::into_inner(store).expect("no client is left").close().await;
    let (mut killed, mut is_given_up) = (0, false);
    for nth in 0..400_u64 {
        let mut process = place.command(&COPY);
        let mut process = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        // Real time: the other process runs in it. It is killed a little later each time, and the last time too
        // late.
        tokio::time::sleep(Duration::from_millis(3 + 2 * nth)).await;
        let is_over = process.try_wait().expect("a process").is_some();
        process.kill().expect("killed, or gone already");
        process.wait().expect("gone");
        assert!(
            !(is_open(&place, "calls.db").await && is_open(&place, "new.db").await),
            "kill {nth}: both open"
        );
        if is_over {
            break;
        }
        killed += 1;
        if !is_given_up && place.store("new.db").is_ok() && !is_open(&place, "calls.db").await {
            is_given_up = true;
            let give_up = ["copy", "--from", "calls.db", "--to", "new.db", "--give-up"];
            place.run_with(&[], &give_up).ended(0);
            assert!(is_open(&place, "calls.db").await, "given up");
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(place.path(&format!("new.db{end}")));
            }
        }
    }
    assert!(killed > 3 && is_given_up, "only {killed} were killed in time");
    assert_eq!(copied(&place)["was_complete"], true);
    let (old, new) = (all(&place, "calls.db").await, all(&place, "new.db").await);
    assert!(old.len() == 700 && old == new, "{} and {}", old.len(), new.len());
    assert!(is_open(&place, "new.db").await && !is_open(&place, "calls.db").await);
}

#[tokio::test]
async fn a_copy_is_given_up_only_before_it_is_complete() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    let give_up = |end: &'static [&'static str]| {
        place.run_with(&[], &[&["copy", "--from", "calls.db", "--give-up"], end].concat())
    };
    assert!(give_up(&["--lost"]).ended(0).trim_end().ends_with("calls.db is open"));
    assert_eq!(give_up(&["--to", "new.db"]).code, 3, "there is no such store");
    place.run_with(&[], &COPY).ended(0);
    let result = give_up(&["--to", "new.db"]);
    assert_eq!(result.code, 1, "{}", result.err);
    assert!(
        result.err.starts_with("steadfast: the copy is complete: the records are in sqlite:/"),
        "{}",
        result.err
    );
    std::fs::remove_file(place.path("new.db")).expect("lost");
    give_up(&["--lost"]).ended(0);
    place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
}

#[tokio::test]
async fn terms_are_shown_and_forgotten() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    assert_eq!(place.run(&["terms"]).ended(0), "no client has registered anything\n");
    let stripe = place.stripe(NOW, &ScriptedTransport::new());
    stripe.register().await.expect("the first");
    let text = place.run_with(&["--store", "sqlite:calls.db"], &["terms"]).ended(0);
    let account = "default/stripe/test";
    assert_eq!(
        text,
        format!(
            "{account}\n    base_url: https://api.stripe.com/\n    key: header idempotency-key\n    \
             replay_window: 1day\n    settle_time: 1m 20s\n"
        )
    );
    let staging = Stripe::new("sk_test_secret").base_url("https://stripe.staging.example");
    // The payment fails after all its waits.
    let setup = Rig::of(staging).network(ScriptedTransport::new().fail(SendErrorKind::Connect));
    let other = setup.store(Sqlite::open(place.path("calls.db")).expect("opens")).client();
    let error = other.register().await.expect_err("another address").to_string();
    assert!(error.contains(&format!("steadfast terms --forget {account}")), "{error}");
    assert_eq!(pay(&other, "order-2").await.expect_err("refused").code(), "VALIDATION.terms");
    assert_eq!(place.run(&["terms", "--forget", account]).ended(0), format!("forgotten: {account}\n"));
    assert_eq!(
        place.run(&["terms", "--forget", account]).ended(0),
        format!("nothing is registered for {account}\n")
    );
    other.register().await.expect("the first now");
    assert_ne!(pay(&other, "order-2").await.expect_err("nobody is there").code(), "VALIDATION.terms");
    assert_eq!(stripe.register().await.expect_err("the old address").code(), "VALIDATION.terms");
}

fn copied(place: &TestDirectory) -> serde_json::Value {
    let result = place.run_with(&[], &[&COPY[..], &["--json"]].concat()).ended(0);
    super::schema::answer(&result)["result"].take()
}

/// Holds an operation for so long from now, by a clock that is a second ahead. Returns the lease's end.
async fn holds(place: &TestDirectory, key: &str, lease: Duration) -> steadfast::clock::Timestamp {
    let store = Sqlite::open(place.path("calls.db")).expect("opens");
    let now = SystemClock::new().wall().plus(Duration::from_secs(1));
    store.claim(claim(key, now, lease)).await.expect("claims");
    store.close().await;
    now.plus(lease)
}

fn claim(key: &str, now: steadfast::clock::Timestamp, lease: Duration) -> Claim {
    let scope = steadfast::operation::Scope::from_stored("default/stripe/test/POST /v1/quotes");
    let id = OperationId::new(scope, Key::new(key).expect("a key"));
    let url = "https://api.stripe.com/v1/quotes".parse().expect("a URL");
    let request = steadfast::transport::Request::new(http::Method::POST, url);
    let keep = Duration::from_secs(7 * 24 * 3600);
    Claim { lease, keep, attempt_max: lease, ..support::commands::claim(&id, request, now) }
}

#[tokio::test]
async fn a_store_with_calls_in_its_outbox_is_not_copied() {
    let place = TestDirectory::fresh();
    place.never_sent("due").await;
    place.rejects(2).await;
    let result = place.run_with(&[], &COPY);
    assert_eq!(result.code, 1, "{}{}", result.out, result.err);
    let words: String = result.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "3 calls lie in the source's outbox (2 rejected), and an outbox is not copied; let a dispatcher"
        ),
        "{words}"
    );
    place.sql("DELETE FROM steadfast_outbox");
    place.run_with(&[], &COPY).ended(0);
}

/// Returns true if the store can be written to. It tries to remove terms that do not exist, which is refused as
/// a claim is.
async fn is_open(place: &TestDirectory, name: &str) -> bool {
    let Ok(store) = place.store(name) else { return false };
    let is_empty = store.list(&Filter::default(), None, 1).await.expect("reads").rows.is_empty();
    let asked = store.register("nobody", None).await;
    // An empty target that is not marked yet belongs to no copy.
    asked.is_ok() && (name == "calls.db" || !is_empty)
}

/// Returns every record, in order.
async fn all(place: &TestDirectory, name: &str) -> Vec<steadfast::operation::record::Record> {
    let store = place.store(name).expect("opens");
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&Filter::default(), after.as_deref(), 1_000).await.expect("reads");
        for summary in &page.rows {
            all.push(store.get(&summary.id).await.expect("reads").expect("a record"));
        }
        if page.next.is_none() {
            return all;
        }
        after = page.next;
    }
}

impl TestDirectory {
    /// A store that is there.
    fn store(&self, name: &str) -> Result<Arc<dyn Store>, steadfast::store::StoreError> {
        let url = StoreUrl::from_argument(self.path(name).as_os_str())?;
        url.create(false).open()
    }
}
