//! A loop that commits in groups and does nothing else: what the store is measured by.
//!
//! One thread, a bounded queue, `rusqlite`, a log and its syncs as the store has them; SQLite itself moves the log, at
//! 16 MiB. Once with the store's two
//! statements on a file of the store's making, so that the ratio is what the store adds to them; and once with the
//! least that a claim and a settlement could be, a narrow table that has no index to find a lapsed lease, a
//! scheduled call, a dead letter or an expired row with.

use std::path::Path;
use std::sync::Mutex;

use rusqlite::{Connection, params};
use steadfast::store::Sqlite;
use tokio::sync::{mpsc, oneshot};

use super::{BODY, Calls, KEEP, NOW, REPORT, REQUEST_BYTES, SCOPE, WIRE_KEY};

#[derive(Clone, Copy)]
pub(super) enum Table {
    /// The store's own.
    Stores,
    /// The least.
    Narrow,
}

#[derive(Clone, Copy)]
enum Statement {
    Claim,
    Settle,
}

pub(super) struct Bare {
    queue: mpsc::Sender<(Statement, String, oneshot::Sender<()>)>,
}

impl Bare {
    pub(super) fn open(path: &Path, table: Table) -> Bare {
        let connection = open(path, table);
        let (queue, mut jobs) = mpsc::channel::<(Statement, String, oneshot::Sender<()>)>(1_024);
        std::thread::spawn(move || {
            let mut batch = Vec::new();
            while jobs.blocking_recv_many(&mut batch, 256) > 0 {
                commit(
                    &connection,
                    table,
                    batch.iter().map(|(statement, key, _)| (*statement, key.as_str())),
                );
                for (.., reply) in batch.drain(..) {
                    reply.send(()).expect("somebody waits");
                }
            }
        });
        Bare { queue }
    }

    async fn have(&self, statement: Statement, key: String) {
        let (reply, done) = oneshot::channel();
        self.queue.send((statement, key, reply)).await.expect("the loop runs");
        done.await.expect("the loop runs");
    }
}

impl Calls for Bare {
    async fn call(&self, key: String) {
        self.have(Statement::Claim, key.clone()).await;
        self.have(Statement::Settle, key).await;
    }
}

/// The two commits that a call needs, on a thread that does nothing else.
pub(super) struct Commits {
    connection: Mutex<Connection>,
}

impl Commits {
    pub(super) fn open(path: &Path) -> Commits {
        Commits { connection: Mutex::new(open(path, Table::Stores)) }
    }
}

impl Calls for Commits {
    /// On the caller's thread, which waits for the disk.
    async fn call(&self, key: String) {
        let connection = self.connection.lock().expect("no panic");
        for statement in [Statement::Claim, Statement::Settle] {
            commit(&connection, Table::Stores, [(statement, key.as_str())]);
        }
    }
}

fn open(path: &Path, table: Table) -> Connection {
    if let Table::Stores = table {
        drop(Sqlite::open(path).expect("opens"));
    }
    let connection = Connection::open(path).expect("opens");
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .and_then(|()| {
            connection.execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096;
                 PRAGMA cell_size_check = ON",
            )
        })
        .expect("set up");
    if let Table::Narrow = table {
        connection.execute_batch(NARROW).expect("made");
    }
    connection
}

/// Carries out a group in one transaction.
fn commit<'a>(connection: &Connection, table: Table, group: impl IntoIterator<Item = (Statement, &'a str)>) {
    run(connection, "BEGIN IMMEDIATE");
    for (statement, key) in group {
        carry_out(connection, table, statement, key);
    }
    run(connection, "COMMIT");
}

fn carry_out(connection: &Connection, table: Table, statement: Statement, key: &str) {
    let now = NOW.as_millis() as i64;
    let expiry = now + KEEP.as_millis() as i64;
    let prepared = |sql| connection.prepare_cached(sql).expect("SQL of this schema");
    let changed = match (table, statement) {
        (Table::Narrow, Statement::Claim) => {
            prepared("INSERT INTO operation VALUES (?1, ?2, 1, 1, ?3, ?4, NULL) ON CONFLICT DO NOTHING")
                .execute(params![SCOPE, key, now + 60_000, &BODY[..REQUEST_BYTES]])
        }
        (Table::Narrow, Statement::Settle) => prepared(
            "UPDATE operation SET state = 3, until = ?3, answer = ?4 WHERE scope = ?1 AND key = ?2 AND fence = 1",
        )
        .execute(params![SCOPE, key, expiry, BODY]),
        (Table::Stores, Statement::Claim) => prepared(CLAIM).execute(params![
            SCOPE,
            key,
            "default/stripe",
            &[1_u8; 32][..],
            WIRE_KEY,
            now + 60_000,
            now,
            KEEP.as_millis() as i64,
            &BODY[..REQUEST_BYTES],
        ]),
        (Table::Stores, Statement::Settle) => prepared(SETTLE).execute(params![SCOPE, key, expiry, now, BODY, REPORT]),
    };
    assert_eq!(changed, Ok(1));
}

fn run(connection: &Connection, sql: &str) {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).expect("SQLite works");
}

const NARROW: &str = "CREATE TABLE operation (scope TEXT NOT NULL, key TEXT NOT NULL, fence INTEGER NOT NULL,
     state INTEGER NOT NULL, until INTEGER NOT NULL, request BLOB NOT NULL, answer BLOB, UNIQUE (scope, key)) STRICT";

/// The store's claim of a new operation.
const CLAIM: &str = "INSERT INTO operation (scope, key, vendor, fingerprint, wire_key, phase, until_ms, fence, attempts,
     effect, claimed_at_ms, updated_at_ms, retention_ms, on_unknown, request, redact, first_fence, resends_left,
     attempt_max_ms) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, 1, 0, 0, ?7, ?7, ?8, 0, ?9, NULL, 1, 0, 0) ON CONFLICT (scope, key) DO NOTHING";

/// The store's settlement of an operation that its holder still holds.
const SETTLE: &str =
    "UPDATE operation SET phase = 3, until_ms = ?3, attempts = 1, effect = 0, updated_at_ms = ?4,
     detail = 0, status = 200, resolved = NULL, answer = ?5, reports = reports || ?6
     WHERE scope = ?1 AND key = ?2 AND fence = 1 AND phase = 1";
