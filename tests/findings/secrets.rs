//! Secrets that version 0.1 stored with the headers of requests: they are counted, told, and removed for good; and no
//! command shows any secret that a client was given.

mod old;
mod outputs;

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use steadfast::clock::Clock as _;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Action, Record};
use steadfast::store::{Memory, SealKeys, Sqlite, Store, StoreError, StoreErrorKind, Wrapper};
use steadfast::testkit::TestClock;
use steadfast::{Obtained, Reply};

use super::on_disk;
use old::{Old, PURGED, SECRETS};

/// Runs the command line as in a container, and gives what it says.
fn steadfast(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments).env_clear().env("USER", "ada").output().expect("the binary runs")
}

fn json(arguments: &[&str]) -> Value {
    let said = steadfast(&[arguments, &["--json"]].concat());
    let mut answer: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(answer["exit_code"], 0, "{answer}");
    answer["result"].take()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn e3_a_store_of_0_1_says_how_many_secrets_it_holds_and_scrub_removes_them_for_good() {
    let old = Old::filled().await;
    for secret in SECRETS.iter().chain(&PURGED) {
        assert!(old.holds(secret), "{secret} is in the file that 0.1 left");
    }
    let store = ["--store", old.path()];
    let stats = || json(&[&["stats"], &store[..]].concat());
    assert_eq!((&stats()["secrets"], &stats()["totals"]["succeeded"]), (&json!(4), &json!(2)));
    let said = text(&steadfast(&[&["stats"], &store[..]].concat()));
    let line = "       4  hold secrets in their headers, which version 0.1 stored; to remove them: steadfast scrub\n";
    assert!(said.contains(line), "{said}");

    // A service has the file open all the while.
    let service = old.client();
    let vendors = old.vendors();
    let scrub = |more: &[&str]| {
        let named = ["scrub", "--header", "X-Signature", "--vendors", &vendors];
        [&named[..], &store[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |more: &[&str]| json(&scrub(more).iter().map(String::as_str).collect::<Vec<_>>());
    let dry = run(&[]);
    assert_eq!((&dry["dry_run"], &dry["matched"], &dry["scrubbed"]), (&json!(true), &json!(6), &json!(0)));
    let headers = dry["headers"].as_array().expect("names");
    for name in ["authorization", "x-postmark-server-token", "x-acme-token", "x-signature"] {
        assert!(headers.contains(&json!(name)), "{name}: {headers:?}");
    }
    assert_eq!(stats()["secrets"], 4, "a dry run changes nothing");
    let unsigned = steadfast(&scrub(&["--yes"]).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(unsigned.status.code(), Some(2), "{}", text(&unsigned));
    let why = ["--yes", "--why", "ticket 7"];
    let rows = run(&[&why[..], &["--rows-only"]].concat());
    let counts = |said: &Value| (said["matched"].clone(), said["scrubbed"].clone(), said["wiped"].clone());
    assert_eq!(counts(&rows), (json!(6), json!(6), json!(false)));
    assert_eq!(stats()["secrets"], 0);
    assert!(PURGED.iter().any(|secret| old.holds(secret)), "the free space is another matter");
    assert_eq!(counts(&run(&why)), (json!(0), json!(0), json!(true)), "the same again completes it");
    for secret in SECRETS.iter().chain(&PURGED) {
        assert!(!old.holds(secret), "{secret}");
    }
    let said = text(&steadfast(&[&["stats"], &store[..]].concat()));
    assert!(!said.contains("secrets"), "{said}");
    old.is_as_it_was(&service).await;
}

impl Old {
    /// What is settled is answered from its record, what is due is sent with the adapter's own secret, and each has it on
    /// its audit record that it was scrubbed, by whom and why.
    async fn is_as_it_was(&self, service: &steadfast::Client) {
        let replayed = old::charge(service, "settled").send().await.expect("on record");
        assert_eq!(replayed.obtained(), Obtained::Replayed);
        assert_eq!(replayed.headers()["request-id"], "req_1");
        assert!(old::charge(service, "settled").form(&[("amount", "1")]).send().await.is_err(), "reused");
        let due: Reply = old::charge(service, "due").send().await.expect("sent");
        assert_eq!(due.obtained(), Obtained::Fresh);
        let sent = self.network.requests();
        let request = sent.last().expect("sent");
        assert_eq!(request.headers["authorization"], format!("Bearer {}", old::OWN).as_str());
        assert_eq!(request.headers["x-customer"], "in the file");
        assert!(!request.headers.contains_key("cookie") && !request.headers.contains_key("x-signature"));
        let store = Sqlite::open(self.path()).expect("opens");
        let entries = store.audit(None, None, 100).await.expect("works").rows;
        assert_eq!(entries.len(), 6);
        for entry in &entries {
            assert!(matches!(&entry.action, Action::Scrub { headers } if !headers.is_empty()), "{entry:?}");
            assert_eq!((&entry.by[..], &entry.why[..], entry.before), ("ada", "ticket 7", entry.after));
        }
        let shown = text(&steadfast(&["show", "settled", "--store", self.path()]));
        assert!(shown.contains("    scrub, authorization, cookie: ticket 7\n"), "{shown}");
    }
}

/// Sealed rows are counted and scrubbed with their keys, and stay sealed.
#[tokio::test]
async fn e3_sealed_rows_are_counted_and_scrubbed_with_their_keys() {
    let place = crate::in_memory::directory();
    let path = place.path().join("calls.db");
    let open = |key| Sqlite::builder(&path).seal(SealKeys::new([key; 32])).open();
    let store = open(1).expect("opens");
    let id = old::claim_with_secret(&store, "sealed").await;
    store.close().await;
    old::take_flags_away(&path);
    assert_eq!(open(2).expect_err("no key").kind(), StoreErrorKind::Sealed);
    let store: Arc<Sqlite> = Arc::new(open(1).expect("opens"));
    assert_eq!(store.tally().await.expect("works")[0].secrets, 1, "it was read with the key");
    let letters = DeadLetters::new(store.clone());
    let scrubbed = letters.scrub(&[], &Change::by("ada").because("ticket 7")).await.expect("works");
    assert_eq!((scrubbed.matched, scrubbed.done), (1, 1));
    Sqlite::wipe(&path).expect("works");
    let record = store.get(&id).await.expect("works").expect("there");
    let headers: Vec<&str> = record.request.headers.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(headers, ["x-customer"]);
    assert!(!on_disk::holds(&path, "x-customer"), "it is sealed again");
}

/// Rows in the thousands are scrubbed and the file is written anew while a service claims: none of its claims fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e3_calls_go_on_while_a_store_is_scrubbed() {
    let place = crate::in_memory::directory();
    let path = place.path().join("calls.db");
    let store = Arc::new(Sqlite::open(&path).expect("opens"));
    for key in 0..1_000 {
        old::claim_with_secret(&store, &format!("old {key}")).await;
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = tokio::spawn({
        let store = store.clone();
        async move {
            let (mut claimed, mut stopped) = (0, stopped);
            while stopped.try_recv().is_err() {
                old::claim(&store, &format!("new {claimed}"), &[]).await;
                claimed += 1;
            }
            claimed
        }
    });
    // As the command line does it, from a store of its own.
    let letters = DeadLetters::new(Arc::new(Sqlite::open(&path).expect("opens")));
    let scrubbed = letters.scrub(&[], &Change::by("ada").because("ticket 7")).await.expect("works");
    let wiped = tokio::task::spawn_blocking({
        let path = path.clone();
        move || Sqlite::wipe(&path)
    });
    wiped.await.expect("no panic").expect("works");
    stop.send(()).expect("it goes on");
    let claimed: u64 = service.await.expect("no claim failed");
    assert!(claimed > 0);
    assert_eq!((scrubbed.matched, scrubbed.done), (1_000, 1_000));
    let tally = store.tally().await.expect("works");
    assert_eq!((tally[0].count, tally[0].secrets), (1_000 + claimed, 0));
    assert!(!on_disk::holds(&path, old::CLAIMED));
}

/// A store in which a service claims one operation for each that is read.
#[derive(Debug)]
struct Busy {
    store: Memory,
    clock: TestClock,
    claimed: AtomicU64,
}

/// A scrub that goes after them for longer has no end.
const CLAIMS_MAX: u64 = 10_000;

#[async_trait]
impl Wrapper for Busy {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let number = self.claimed.fetch_add(1, Ordering::Relaxed);
        if number < CLAIMS_MAX {
            old::claim_at(&self.store, &format!("new {number}"), &[], self.clock.wall()).await;
        }
        self.store.get(id).await
    }
}

/// It read on to the end of the list, and the end went away from it.
#[tokio::test]
async fn a_scrub_ends_while_a_service_claims_as_fast_as_it_reads() {
    let (store, clock) = (Memory::new(), TestClock::new());
    for key in 0..100 {
        let secret = [("authorization", old::CLAIMED)];
        old::claim_at(&store, &format!("old {key}"), &secret, clock.wall()).await;
    }
    let service = TestClock::new();
    service.advance(Duration::from_millis(1));
    let store = Arc::new(Busy { store, clock: service, claimed: AtomicU64::new(0) });
    let letters = DeadLetters::new(store.clone()).with_clock(clock);
    let scrubbed = letters.scrub(&[], &Change::by("ada").because("ticket 7")).await.expect("works");
    assert_eq!((scrubbed.matched, scrubbed.done), (100, 100));
    let claimed = store.claimed.load(Ordering::Relaxed);
    assert!(claimed < 500, "it went after {claimed} new ones");
    assert_eq!(store.tally().await.expect("works")[0].secrets, 0);
}

#[tokio::test]
async fn e3_a_wipe_makes_no_store_and_says_who_is_in_its_way() {
    let place = crate::in_memory::directory();
    let path = place.path().join("calls.db");
    assert_eq!(Sqlite::wipe(&path).expect_err("nothing there").kind(), StoreErrorKind::Absent);
    assert!(!path.exists());
    let store = Arc::new(Sqlite::open(&path).expect("opens"));
    old::claim(&store, "a", &[]).await;
    let letters = DeadLetters::new(store);
    let wrong = letters.scrub(&["no name"], &Change::by("ada").because("x")).await;
    assert!(wrong.expect_err("invalid").to_string().contains("\"no name\" is no header's name"));
}
