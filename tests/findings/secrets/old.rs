//! A file as version 0.1 left it: its schema, with secrets in headers and in free space.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use serde_json::json;
use steadfast::clock::{Clock as _, SystemClock, Timestamp};
use steadfast::operation::record::{Claim, Claimed};
use steadfast::operation::{Key, OperationId, Scope, fingerprint};
use steadfast::policy::Backoff;
use steadfast::store::{Sqlite, Store};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, Policy};
use tempfile::TempDir;

use super::super::on_disk;
use crate::commands;

/// What 0.1 stored, by header.
const STORED: [(&str, &str); 6] = [
    ("authorization", "Bearer sk_live_of_0_1_aaaa"),
    ("cookie", "session=of_0_1_bbbb"),
    ("x-auth-token", "token_of_0_1_cccc"),
    ("x-postmark-server-token", "token_of_0_1_dddd"),
    ("x-acme-token", "token_of_0_1_eeee"),
    ("x-signature", "signature_of_0_1_ffff"),
];
pub const SECRETS: [&str; 6] = [
    "sk_live_of_0_1_aaaa",
    "of_0_1_bbbb",
    "token_of_0_1_cccc",
    "token_of_0_1_dddd",
    "token_of_0_1_eeee",
    "signature_of_0_1_ffff",
];

/// In rows that are no longer there: a small one, whose place is in a page in use, and one of many pages.
pub const PURGED: [&str; 2] = ["sk_live_purged_small", "sk_live_purged_large"];

/// The service's own secret, which its adapter adds.
pub const OWN: &str = "sk_test_own_of_the_service";

/// In what [`claim_with_secret`] claims.
pub const CLAIMED: &str = "sk_live_claimed_gggg";

pub struct Old {
    place: TempDir,
    path: String,
    /// Of the service.
    pub network: ScriptedTransport,
}

impl Old {
    /// Six operations with secrets and one without: two settled, one due, and dead letters.
    pub async fn filled() -> Old {
        let place = crate::in_memory::directory();
        let path = place.path().join("calls.db").display().to_string();
        let old = Old { place, path, network: ScriptedTransport::new() };
        let now = old.place.path().join("now.db");
        let client = client(&now, &ScriptedTransport::new().reply(replied()).reply(replied()));
        for key in ["settled", "without"] {
            charge(&client, key).send().await.expect("succeeds");
        }
        let client = self::client(&now, &ScriptedTransport::new().always_fail(SendErrorKind::Connect));
        for key in ["due", "dead 1", "dead 2", "dead 3", "dead 4"] {
            charge(&client, key).send().await.expect_err("never sent");
        }
        drop(client);
        old.write(&now);
        old
    }

    /// Writes what is in the file `now` into one of the third schema, which was 0.1's.
    fn write(&self, now: &Path) {
        let raw = Connection::open(&self.path).expect("opens");
        for migration in [
            include_str!("../../../src/store/sqlite/migrations/0001_operations.sql"),
            include_str!("../../../src/store/sqlite/migrations/0002_seal.sql"),
            include_str!("../../../src/store/sqlite/migrations/0003_reports.sql"),
        ] {
            raw.execute_batch(migration).expect("its schema");
        }
        raw.execute_batch(
            "PRAGMA application_id = 1398031940; PRAGMA user_version = 3; PRAGMA journal_mode = WAL",
        )
        .expect("its identity");
        raw.execute("ATTACH ?1 AS now", [now.display().to_string()]).expect("attaches");
        raw.execute_batch(&format!(
            "INSERT INTO operation ({COLUMNS}) SELECT {COLUMNS} FROM now.operation; \
             UPDATE operation SET effect = 0; UPDATE operation SET phase = 2, until_ms = 1, detail = NULL WHERE key = 'due'"
        ))
        .expect("copies");
        for (key, headers) in [
            ("settled", &STORED[..2]),
            ("due", &[STORED[0], STORED[1], STORED[5]]),
            ("dead 1", &STORED[2..3]),
            ("dead 2", &STORED[3..4]),
            ("dead 3", &STORED[4..5]),
            ("dead 4", &STORED[5..]),
        ] {
            self.rewrite(&raw, key, headers);
        }
        // The small one last: what is written after it may lie where it lay.
        for (secret, bytes) in PURGED.into_iter().zip([100, 50_000]).rev() {
            let blob = [secret.as_bytes(), &vec![b'.'; bytes]].concat();
            let columns =
                COLUMNS.replace("number", "NULL").replace(" key,", " 'purged',").replace("request", "?1");
            let copy = format!(
                "INSERT INTO operation ({COLUMNS}) SELECT {columns} FROM operation WHERE key = 'without'"
            );
            raw.execute(&copy, [blob]).expect("one more");
            raw.execute("DELETE FROM operation WHERE key = 'purged'", []).expect("purged");
        }
    }

    fn rewrite(&self, raw: &Connection, key: &str, headers: &[(&str, &str)]) {
        let request: Vec<u8> = raw
            .query_row("SELECT request FROM operation WHERE key = ?1", [key], |row| row.get(0))
            .expect("there");
        let request = with_headers(&request, headers);
        raw.execute("UPDATE operation SET request = ?2 WHERE key = ?1", params![key, request])
            .expect("written");
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// A vendors file with an adapter that takes its secret in a header of its own.
    pub fn vendors(&self) -> String {
        let path = self.place.path().join("vendors.toml");
        let text = "[vendors.acme]\nadapter = \"keyed\"\nsecret_env = \"NOT_SET\"\nbase_url = \"https://acme.test\"\n\
                    window = \"24h\"\nkey = { header = \"Idempotency-Key\" }\nauth = { header = \"X-Acme-Token\" }\n";
        std::fs::write(&path, text).expect("writes");
        path.display().to_string()
    }

    /// The service.
    pub fn client(&self) -> Client {
        client(Path::new(&self.path), &self.network.clone().reply(replied()))
    }

    /// Whether a text is anywhere in the file or in those beside it.
    pub fn holds(&self, text: &str) -> bool {
        on_disk::holds(Path::new(&self.path), text)
    }
}

pub fn charge(client: &Client, key: &str) -> Call {
    client.post("/v1/charges").key(key).header("X-Customer", "in the file").form(&[("amount", "1000")])
}

/// Claims an operation with these headers, as nobody can through a client of today.
pub async fn claim(store: &Sqlite, key: &str, headers: &[(&'static str, &'static str)]) -> OperationId {
    claim_at(store, key, headers, SystemClock::new().wall()).await
}

/// The same at a time of the test's.
pub async fn claim_at(
    store: &dyn Store,
    key: &str,
    headers: &[(&'static str, &'static str)],
    now: Timestamp,
) -> OperationId {
    let mut request = steadfast::transport::Request::new(
        http::Method::POST,
        "https://api.stripe.com/v1/charges".parse().expect("a URL"),
    );
    for (name, value) in headers {
        request.headers.insert(*name, http::HeaderValue::from_static(value));
    }
    let scope = Scope::new("default", "stripe", "test", &request.method, "/v1/charges");
    let id = OperationId::new(scope, Key::new(key).expect("a key"));
    let day = Duration::from_secs(24 * 3600);
    let fingerprint = fingerprint("test", &request);
    let claim = commands::claim(&id, request, now);
    let claim = Claim { fingerprint, lease: day, keep: day, ..claim };
    assert!(matches!(store.claim(claim).await.expect("works"), Claimed::Fresh(_)));
    id
}

pub async fn claim_with_secret(store: &Sqlite, key: &str) -> OperationId {
    claim(store, key, &[("authorization", CLAIMED), ("x-customer", "in the file")]).await
}

/// Makes a file one of the sixth schema, which has no flags.
pub fn take_flags_away(path: &PathBuf) {
    let raw = Connection::open(path).expect("opens");
    raw.execute_batch(
        "DROP VIEW steadfast_ended; DROP TABLE sequenced; DROP TABLE secret_headers; DROP TABLE account; \
             DROP TABLE steadfast_outbox; DROP TABLE heartbeat; DROP INDEX operation_due; DROP INDEX operation_ended; \
             CREATE INDEX operation_ended ON operation (until_ms) WHERE phase > 2 AND until_ms IS NOT NULL; \
             CREATE INDEX operation_dead ON operation (phase) WHERE phase = 5; \
             ALTER TABLE purged DROP COLUMN standing; ALTER TABLE purged DROP COLUMN place; \
             ALTER TABLE purged DROP COLUMN sealed; PRAGMA user_version = 6",
    )
    .expect("an older file");
}

fn client(path: &Path, network: &ScriptedTransport) -> Client {
    Client::builder(Stripe::new(OWN))
        .policy(Policy::background().backoff(Backoff::none()).without_breaker().without_budget())
        .store(Sqlite::open(path).expect("opens"))
        .transport(network.clone())
        .build()
        .expect("a client")
}

fn replied() -> steadfast::transport::Answer {
    let mut headers = http::HeaderMap::new();
    headers.insert("request-id", http::HeaderValue::from_static("req_1"));
    let body = json!({"id": "ch_1", "object": "charge"}).to_string();
    steadfast::transport::Answer::new(http::StatusCode::OK, headers, body)
}

/// A stored request with more headers: a version, method and URL with their lengths, and the number of headers come
/// before the headers.
fn with_headers(request: &[u8], headers: &[(&str, &str)]) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("four bytes"));
    let mut at = 1;
    for _ in 0..2 {
        at += 4 + number(at) as usize;
    }
    let count = number(at) + u32::try_from(headers.len()).expect("few");
    let mut bytes = [&request[..at], &count.to_le_bytes()].concat();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(&u32::try_from(text.len()).expect("short").to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&request[at + 4..]);
    bytes
}

/// Those of the third schema.
const COLUMNS: &str = "number, scope, key, vendor, fingerprint, wire_key, phase, until_ms, fence, attempts, effect, \
                       claimed_at_ms, updated_at_ms, keep_ms, on_unknown, detail, status, resolved, request, answer, \
                       redact, reports";
