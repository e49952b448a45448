//! A client over a sealed file: it never sends an unreadable request, or one that was moved to another row.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::json;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::record::Filter;
use steadfast::policy::Backoff;
use steadfast::store::{SealKeys, Sqlite, Store, StoreError, StoreErrorKind};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::Stripe;
use steadfast::{Client, Error, Policy, Reply};
use tempfile::TempDir;

struct Service {
    directory: TempDir,
    clock: TestClock,
}

impl Service {
    fn new() -> Service {
        Service { directory: TempDir::new().expect("a directory"), clock: TestClock::auto() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("calls.db")
    }

    fn store(&self, keys: SealKeys) -> Arc<Sqlite> {
        Arc::new(Sqlite::builder(self.path()).seal(keys).open().expect("opens"))
    }

    fn client(&self, store: &Arc<Sqlite>, network: &ScriptedTransport) -> Client {
        Client::builder(Stripe::new("sk_test_1"))
            .policy(Policy::background().backoff(Backoff::none()).without_breaker().without_budget())
            .store(Arc::clone(store))
            .clock(self.clock.clone())
            .transport(network.clone())
            .build()
            .expect("a client")
    }

    /// Operations that were never sent and are due.
    async fn due(&self, store: &Arc<Sqlite>, keys: &[&str]) {
        let network = keys.iter().fold(ScriptedTransport::new(), |n, _| n.fail(SendErrorKind::Connect));
        let client = self.client(store, &network);
        for key in keys {
            assert!(pay(&client, key).await.expect_err("never sent").is_dead_letter());
        }
        let letters = DeadLetters::new(Arc::clone(store) as Arc<dyn Store>).with_clock(self.clock.clone());
        let all = Filter::default();
        let redriven = letters.redrive_all(&all, &Change::by("ada")).await.expect("works");
        assert_eq!(redriven.done, keys.len() as u64);
    }
}

async fn pay(client: &Client, key: &str) -> Result<Reply, Error> {
    client.post("/v1/quotes").key(key).form(&[("to", key)]).send().await
}

/// A network that answers every request.
fn ready() -> ScriptedTransport {
    let body = json!({"id": "po_1"}).to_string();
    ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), body))
}

fn raw(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).and_then(|file| file.execute_batch(sql)).expect("runs");
}

fn assert_store(error: &Error, kind: StoreErrorKind) {
    assert!(error.is_store(), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<StoreError>()).expect("the store's");
    assert_eq!(source.kind(), kind, "{source}");
}

#[tokio::test]
async fn requests_that_were_swapped_are_never_sent() {
    let service = Service::new();
    let store = service.store(SealKeys::new([1; 32]));
    service.due(&store, &["a", "b"]).await;
    raw(
        &service.path(),
        "CREATE TEMP TABLE t AS SELECT key, request FROM operation;
         UPDATE operation SET request = (SELECT request FROM t WHERE t.key <> operation.key)",
    );
    let network = ready();
    let client = service.client(&store, &network);
    assert_store(&pay(&client, "a").await.expect_err("not what was sealed"), StoreErrorKind::Corrupt);
    let recovered = client.recover(10).await.expect("works");
    assert_eq!((recovered.taken, network.requests().len()), (0, 0));
    // Untouched operations are sent.
    pay(&client, "c").await.expect("sent");
    assert_eq!(network.requests().len(), 1);
}

#[tokio::test]
async fn an_operation_sealed_with_a_newer_key_is_sent_by_its_process_alone() {
    let service = Service::new();
    let behind = service.store(SealKeys::new([1; 32]));
    let ahead = service.store(SealKeys::new([2; 32]).with_older([1; 32]));
    service.due(&ahead, &["a", "b"]).await;
    let network = ready();
    let slow = service.client(&behind, &network);
    assert_eq!(slow.recover(10).await.expect("works").taken, 0);
    assert_store(&pay(&slow, "a").await.expect_err("sealed"), StoreErrorKind::Sealed);
    assert_eq!(network.requests().len(), 0);
    let recovered = service.client(&ahead, &network).recover(10).await.expect("works");
    assert_eq!((recovered.taken, recovered.succeeded), (2, 2));
    let mut bodies: Vec<_> = network.requests().into_iter().map(|sent| sent.body).collect();
    bodies.sort();
    assert_eq!(bodies, ["to=a", "to=b"]);
    // Settled by now, and still not for the slow process to read or to send.
    assert_store(&pay(&slow, "a").await.expect_err("sealed"), StoreErrorKind::Sealed);
    assert_eq!(network.requests().len(), 2);
}
