//! Calls while the server fails: nothing is sent that could not be claimed, and nothing stays blocked.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::operation::record::{Act, Action};
use steadfast::store::{Postgres, Store, StoreError, StoreErrorKind};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast::{Effect, Error};

use super::{pay, stripe};
use support::server::{Server, soon};

fn store(url: &str) -> Arc<dyn Store> {
    let builder = Postgres::builder(url).expect("a URL").wait(Duration::from_secs(10));
    Arc::new(builder.open().expect("it opens"))
}

fn ok() -> Answer {
    Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{}")
}

fn kind(error: &Error) -> Option<StoreErrorKind> {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<StoreError>());
    source.map(StoreError::kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_claim_no_call_is_sent() {
    let Some(server) = Server::start(&[]) else { return };
    let network = ScriptedTransport::new();
    let store = store(&server.url("shop"));
    let client = stripe(Arc::clone(&store), &network);
    // A record that cannot be read shows nothing, and neither does a server that takes no claims.
    for (trouble, undone, expected, effect) in [
        (
            "ALTER DATABASE postgres SET default_transaction_read_only = on",
            "ALTER DATABASE postgres RESET ALL",
            StoreErrorKind::ReadOnly,
            Effect::Unknown,
        ),
        (
            "ALTER TABLE shop.operation RENAME TO gone",
            "ALTER TABLE shop.gone RENAME TO operation",
            StoreErrorKind::Absent,
            Effect::Unknown,
        ),
        (
            "ALTER TABLE shop.operation RENAME fence TO gone",
            "ALTER TABLE shop.operation RENAME gone TO fence",
            StoreErrorKind::Older,
            Effect::Unknown,
        ),
    ] {
        server.sql(trouble);
        server.kill_backends();
        let error = loop {
            let error = pay(&client, "order-1").await.expect_err(trouble);
            // The first statement may still use the connection that was killed.
            if kind(&error) != Some(StoreErrorKind::Lost) {
                break error;
            }
        };
        assert_eq!((kind(&error), error.effect()), (Some(expected), effect), "{trouble}: {error:#}");
        server.sql(&format!("SET transaction_read_only = off; {undone}"));
        server.kill_backends();
    }
    assert!(network.requests().is_empty());
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn a_statement_that_waits_for_a_lock_gives_up_and_nothing_is_sent() {
    let Some(server) = Server::start(&[]) else { return };
    let network = ScriptedTransport::new();
    let builder = Postgres::builder(&server.url("shop")).expect("a URL");
    let store: Arc<dyn Store> =
        Arc::new(builder.statement_timeout(Duration::from_millis(500)).open().expect("it opens"));
    let client = stripe(Arc::clone(&store), &network);
    let holder = std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            server.sql(
                "BEGIN; LOCK TABLE shop.operation IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(6); COMMIT",
            )
        });
        soon(|| match &*server.sql("SELECT count(*) FROM pg_locks WHERE mode = 'ShareRowExclusiveLock'") {
            "0" => Err("not locked"),
            _ => Ok(()),
        });
        let result = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(pay(&client, "order-1"))
        });
        held.join().expect("no panic");
        result
    });
    let error = holder.expect_err("the table is locked");
    assert_eq!(error.effect(), Effect::None, "{error:#}");
    assert!(matches!(kind(&error), Some(StoreErrorKind::TimedOut | StoreErrorKind::Locked)), "{error:#}");
    assert!(network.requests().is_empty());
}

/// A commit that waits for its standby is ended by a cancel, with success and a warning: after a failover it is nowhere.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn a_claim_that_no_standby_has_is_not_sent() {
    let Some(server) = Server::start(&["wal_level = replica", "max_wal_senders = 4"]) else { return };
    let network = ScriptedTransport::new().always(ok());
    let builder = Postgres::builder(&server.url("shop")).expect("a URL");
    let store: Arc<dyn Store> =
        Arc::new(builder.statement_timeout(Duration::from_millis(500)).open().expect("it opens"));
    let client = stripe(Arc::clone(&store), &network);
    pay(&client, "order-1").await.expect("no standby is asked for");
    let waits = client.post("/v1/quotes").key("quote-1").enqueue().await.expect("no standby is asked for");
    let drops = client.post("/v1/quotes").key("quote-2").enqueue().await.expect("no standby is asked for");
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'");
    server.sql("SELECT pg_reload_conf()");
    soon(|| match &*server.sql("SHOW synchronous_standby_names") {
        "elsewhere" => Ok(()),
        other => Err(other.to_owned()),
    });
    // The server's processes reload the setting one after the other.
    let mut paid = 1;
    let error = loop {
        match pay(&client, &format!("order-{}", paid + 1)).await {
            Ok(_) if paid < 500 => paid += 1,
            result => break result.expect_err("the standby is away"),
        }
    };
    assert_eq!((kind(&error), error.effect()), (Some(StoreErrorKind::Lost), Effect::Unknown), "{error:#}");
    assert_eq!(network.requests().len(), paid, "what could not be claimed was not sent");
    // A write that may be on record is not repeated, nor reported as another caller's.
    let (action, now) = (Action::Cancel, store.time(Timestamp::default()));
    let act = Act { action, by: "ada".to_owned(), why: "withdrawn".to_owned(), now, fence: None };
    let acted = store.act(drops.id(), act).await.expect_err("the standby is away");
    assert_eq!(acted.kind(), StoreErrorKind::Lost, "{acted}");
    // Nor an operation that could not be taken, or be put into the outbox.
    let takes = client.recover(8).await.expect_err("the standby is away");
    assert_eq!(kind(&takes), Some(StoreErrorKind::Lost), "{takes:#}");
    assert_eq!(network.requests().len(), paid, "what could not be taken was not sent");
    let log = store.append_evidence(waits.id(), Vec::new()).await;
    assert_eq!(
        log.expect_err("the standby is away").kind(),
        StoreErrorKind::Lost,
        "as all that is one statement"
    );
}

/// Cancels as an operator does who unblocks sessions that wait for a standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_wait_for_a_standby_is_cancelled_is_not_sent() {
    let Some(server) = Server::start(&["wal_level = replica", "max_wal_senders = 4"]) else { return };
    let network = ScriptedTransport::new().always(ok());
    let client = stripe(store(&server.url("shop")), &network);
    pay(&client, "order-1").await.expect("no standby is asked for");
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'");
    server.sql("SELECT pg_reload_conf()");
    let cancels = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let mut sent = 1;
    let error = loop {
        let cancelled = || match &*server.sql(cancels) {
            "0" => Err("none waits".to_owned()),
            _ => Ok(()),
        };
        let key = format!("order-{}", sent + 1);
        let (result, ()) = tokio::join!(pay(&client, &key), async {
            tokio::task::block_in_place(|| {
                for _ in 0..50 {
                    if cancelled().is_ok() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        });
        match result {
            Ok(_) if sent < 50 => sent += 1,
            result => break result.expect_err("no standby has it"),
        }
    };
    assert_eq!((kind(&error), error.effect()), (Some(StoreErrorKind::Lost), Effect::Unknown), "{error:#}");
    assert_eq!(network.requests().len(), sent);
}

/// As after a failover, or a maintenance: a connection that was opened meanwhile stays read-only for as long as
/// it lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_session_is_not_reused() {
    let Some(server) = Server::start(&[]) else { return };
    let network = ScriptedTransport::new().always(ok());
    let client = stripe(store(&server.url("shop")), &network);
    pay(&client, "order-1").await.expect("it writes");
    server.sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
    server.kill_backends();
    let began = std::time::Instant::now();
    while kind(&pay(&client, "order-2").await.expect_err("it only reads")) != Some(StoreErrorKind::ReadOnly) {
        assert!(began.elapsed() < Duration::from_secs(20), "the sessions are made anew");
    }
    server
        .sql("SET transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only");
    while pay(&client, "order-3").await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(40), "sessions that write can be had");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_succeed_while_connections_are_killed() {
    let Some(server) = Server::start(&[]) else { return };
    let store = store(&server.url("shop"));
    let network = ScriptedTransport::new().always(ok());
    let client = Arc::new(stripe(Arc::clone(&store), &network));
    let callers: Vec<_> = (0..16)
        .map(|caller| {
            let client = Arc::clone(&client);
            tokio::spawn(async move {
                let mut failed = 0u32;
                for order in 0..25 {
                    let key = format!("order-{caller}-{order}");
                    // Repeated until it is known: the same key has one effect.
                    while let Err(error) = pay(&client, &key).await {
                        failed += 1;
                        assert!(failed < 5_000, "{error:#}");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                failed
            })
        })
        .collect();
    let killed = tokio::task::spawn_blocking(move || {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(150));
            server.kill_backends();
        }
        server.crash();
        server.start_again();
        server
    });
    let mut failed = 0;
    for caller in callers {
        failed += caller.await.expect("no panic");
    }
    let server = killed.await.expect("no panic");
    let settled = "SELECT count(*), count(DISTINCT key) FROM shop.operation WHERE phase = 3";
    soon(|| match server.sql_as("postgres", "postgres", settled)?.as_str() {
        "400|400" => Ok(()),
        other => Err(format!("{other} settled, {failed} calls failed")),
    });
}
