//! The transactional outbox: a vendor call in the caller's own database transaction.
//!
//! Either an order is written and its charge is made, or neither. Two writes to two places cannot promise that: a crash
//! between them leaves one without the other. [`Call::enqueue_in`](crate::Call::enqueue_in) writes the call as a row of
//! the store's own database, in the transaction that writes the order. Once it is committed, a
//! [dispatcher](crate::dispatcher) *admits* the row: it records the operation and removes the row in one commit, and
//! then sends as it sends everything else. A row that is rolled back was never there.
//!
//! # In the store's own database
//!
//! One transaction is in one database. So the service's tables and the store share a database: for [`Sqlite`], one
//! file.
//!
//! - Let the store make the file, then make your tables in it. Leave the file's `user_version` and `application_id` as
//!   they are: the store knows its file by them. Its own tables are `operation`, `account`, `audit`, `heartbeat`,
//!   `seal_key`, `sequenced`, `store_state` and `steadfast_outbox`, and the view `steadfast_ended`.
//! - SQLite lets one connection write at a time. While your transaction holds the file, no call of the service is
//!   recorded; after some five seconds such a call fails, and nothing is sent. Keep transactions short.
//! - Begin them with `BEGIN IMMEDIATE` if they read before they write. A deferred one fails at its first write if
//!   another connection wrote since it read. Give the connection a busy timeout of some seconds (rusqlite and sqlx do
//!   by themselves).
//! - An attached database will not do: with a write-ahead log, a crash may keep one file's half of the commit alone
//!   (<https://www.sqlite.org/lang_attach.html>).
//! - A call in the outbox is as durable as your connection's `synchronous` makes your commit. `FULL` is SQLite's default
//!   and the store's.
//!
//! Drivers: rusqlite 0.39, which the feature `sqlite` has anyway, re-exported as `steadfast::outbox::rusqlite`; sqlx
//! 0.9 with feature `sqlx-sqlite`. A program links one SQLite, so a driver of another version does not build beside
//! it. For any other driver, implement [`Transaction`].
#![cfg_attr(feature = "sqlx-sqlite", doc = include_str!("docs/setup/outbox_sqlx.md"))]
//!
//! # From SQL
//!
//! Any program that may write to the file can enqueue: a trigger, a script, another language. The dispatcher makes
//! the call by the same rules as a client's own call, with the client's policy and secret.
//!
//! ```sql
//! INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body)
//! VALUES ('stripe', 'test', '/v1/charges', 'order-42/charge', 'application/x-www-form-urlencoded',
//!         'amount=1000&currency=usd');
//! ```
//!
//! | column | default | |
//! |---|---|---|
//! | `namespace` | `default` | the client's [namespace](crate::ClientBuilder::namespace) |
//! | `vendor`, `account` | | as the adapter names them, such as `stripe` and `live`; what no dispatcher has a client for waits |
//! | `method`, `path` | `POST` | the path is below the adapter's base URL, and may have a query |
//! | `key` | | names the operation, as in [`Call::key`](crate::Call::key) |
//! | `body` | none | text or bytes, sent as they are |
//! | `content_type` | `application/json` | of the body; for a form, `application/x-www-form-urlencoded` |
//! | `headers` | `{}` | a JSON object of names and texts, or arrays of texts. No secret: the adapter adds those |
//! | `due_ms` | now | not to be sent before; milliseconds since 1970 |
//! | `on_unknown` | what the route says | or `by_method`, `dead_letter`, `resend`: see [`OnUnknown`](crate::OnUnknown) |
//! | `sequence`, `on_dead_letter` | none, `hold` | as [`Call::sequence`](crate::Call::sequence); `skip` lets the next one go |
//! | `retention_ms`, `redact`, `supersedes` | | as [`Call::retention`](crate::Call::retention), [`redact`](crate::Call::redact) (a JSON array) and [`supersedes`](crate::Call::supersedes) |
//!
//! A mistake that the table's checks can see, such as a key that is too long, fails in the transaction. A later
//! `send()` of the same call under the same key finds the operation. JSON in another order of members, and a form in
//! another order of names, are the same request.
//!
//! # On Postgres
//!
//! The store's schema is in the database of the service's own tables. A transaction of `tokio_postgres` (re-exported as
//! `steadfast::outbox::tokio_postgres`) takes [`Call::enqueue_in`](crate::Call::enqueue_in). Through a pooler, sqlx and
//! tokio-postgres alike send it as a statement without a name.
#![cfg_attr(feature = "sqlx-postgres", doc = include_str!("docs/setup/outbox_sqlx_postgres.md"))]
//!
//! A program in any language calls a function of the schema in its own transaction:
//!
//! ```sql
//! SELECT payments.enqueue('acme', 'POST', '/v1/payouts', 'order-42/payout', '{"amount": 1000}');
//! SELECT payments.enqueue_text('stripe', 'POST', '/v1/charges', 'order-42/charge', 'amount=1000&currency=usd',
//!     'application/x-www-form-urlencoded', account => 'live', after => '1 hour');
//! ```
//!
//! [A page](crate::guide::postgres#enqueue-from-another-language) has it in Python.
//!
//! | function | body |
//! |---|---|
//! | `enqueue(vendor, method, path, key, body, …)` | `jsonb`; none by default |
//! | `enqueue_text(vendor, method, path, key, body, content_type, …)` | `text`, such as a form |
//! | `enqueue_bytes(vendor, method, path, key, body, content_type, …)` | `bytea` |
//!
//! Behind those come, by name: `account` (`default`), `query` (encoded, without `?`), `headers` (`jsonb`), `at` or
//! `after`, `on_unknown`, `retention`, `redact`, `supersedes`, `namespace`, `sequence`, `on_dead_letter`. They return
//! the row's number, and notify the dispatchers of all processes (`NOTIFY`) when the transaction commits. The server
//! commits transactions with a `NOTIFY` one after the other; of many at once only the first has one.
//! `SET steadfast.notify = 'off'`, or `ALTER DATABASE`, leaves it out. Use that for `PREPARE TRANSACTION`, which does
//! not allow it, and for the last bit of throughput. A mistake fails in the caller's transaction, and says what to
//! give. The caller's login needs no right to a table: `GRANT USAGE ON SCHEMA` and `GRANT EXECUTE ON FUNCTION`. The
//! role of an app has both. Rows lie in the table `outbox` of the schema, with the columns above, but for `body`
//! (`bytea`) and `account` (`default`); only a dispatcher's role admits them.
//!
//! # What cannot be admitted
//!
//! A row can have a header that carries a secret, a body without room for the vendor's key, or a key that belongs to
//! another request. Such a row is *rejected*. It stays in the outbox with the reason, in the columns `rejected_at_ms`
//! and `rejected`; nothing of it is sent, its key is not used up, and the rows behind it go on. An event says so,
//! `steadfast stats` counts it, and [`DeadLetters::rejected`](crate::dead_letter::DeadLetters::rejected) lists it. It
//! is no dead letter: there is no operation yet, so there is nothing to redrive and no effect to doubt. So its key
//! stays free: a correct call under the same key is made. The rows behind it in its sequence wait, unless it skips.
//! Mend it, and put it back:
//!
//! ```sql
//! UPDATE steadfast_outbox SET headers = '{}', rejected_at_ms = NULL, rejected = NULL WHERE number = 7;
//! ```
//!
//! A row waits for as long as no dispatcher comes, and is delivered then. It is compared with what was on record when
//! it was written, and with what came under its key since. So a repeat finds its outcome also where the record's
//! retention is over by now. A purge spares the record of each key that has a row, a rejected one too. On Postgres
//! there is one exception: a transaction that stays open for an hour after the retention of its key's record. Its call
//! is made again.
//!
//! A correct row that the store could not record for now waits. The only event is then `recovery failed`.
//!
//! # What became of a call, in other languages
//!
//! The view `ended` of a store's schema on Postgres, `steadfast_ended` in a file, has what has ended: `scope`, `key`,
//! `outcome` (`succeeded`, `refused`, `dead`, `resolved`), `effect` (`none`, `unknown`, `applied`), the answer's `status`,
//! and `ended_at_ms`. A program asks it for the calls that its own rows wait for:
//!
//! ```sql
//! SELECT o.number, e.outcome, e.effect FROM orders o JOIN payments.ended e
//!     ON e.scope = 'default/stripe/test/POST /v1/charges' AND e.key = 'order-' || o.number || '/charge'
//!     WHERE o.paid IS NULL;
//! ```
//!
//! On Postgres, `LISTEN steadfast_payments` says when to ask, `payments` being the schema: a notification
//! `ended [["SCOPE", "KEY"], …]` follows each commit that ends a delivered call, within about 50 ms. It is a hint, and may
//! be missed. In Rust there are [`Enqueued::wait`](crate::Enqueued::wait), [`Call::handle`](crate::Call::handle) and
//! [`Client::ends`](crate::Client::ends).
//!
//! # Sealed stores
//!
//! A client whose store [seals] seals the row's query, headers and body with the same key. A row that SQL wrote is in
//! the clear until it is admitted, and longer in the file's free space.
//!
#![cfg_attr(feature = "sqlite", doc = "[`Sqlite`]: crate::store::Sqlite")]
#![cfg_attr(not(feature = "sqlite"), doc = "[`Sqlite`]: crate#features")]
#![cfg_attr(all(feature = "seal", feature = "sqlite"), doc = "[seals]: crate::store::SqliteBuilder::seal")]
#![cfg_attr(not(all(feature = "seal", feature = "sqlite")), doc = "[seals]: crate#features")]

use std::fmt;
use std::sync::Arc;

use steadfast_core::operation::OperationId;

use crate::engine::{Accepted, Engine};
use crate::enqueued::Enqueued;

/// The crate `rusqlite`: its transactions are a caller's. Named from here it always is of the right version.
#[cfg(feature = "sqlite")]
pub use steadfast_core::outbox::rusqlite;
/// The crate `tokio_postgres`: its transactions are a caller's. Named from here it always is of the right version.
#[cfg(feature = "postgres")]
pub use steadfast_core::outbox::tokio_postgres;
#[doc(inline)]
pub use steadfast_core::outbox::{Database, Transaction, Value};

/// A call that is written in a transaction which is not committed yet: what
/// [`Call::enqueue_in`](crate::Call::enqueue_in) gives. Dropping it changes nothing: only the transaction decides
/// about the call.
///
/// ```
#[doc = include_str!("docs/setup/outbox.md")]
/// let transaction = shop.transaction()?;
/// let charge = stripe.post("/v1/charges").form(&[("amount", "1000"), ("currency", "usd")]).key("order-42/charge");
/// let charge = charge.blocking_enqueue_in(&transaction)?;
/// assert_eq!(charge.id().key.as_str(), "order-42/charge");
/// transaction.rollback()?;
///
/// stripe.recover(10).await?;
/// assert_eq!(fake.ledger().count(), 0, "it was never there");
#[doc = include_str!("docs/setup/outbox_end.md")]
/// ```
pub struct Uncommitted {
    engine: Arc<Engine>,
    accepted: Accepted,
}

impl Uncommitted {
    pub(crate) fn new(engine: Arc<Engine>, accepted: Accepted) -> Uncommitted {
        Uncommitted { engine, accepted }
    }

    /// The name that the operation will have.
    pub fn id(&self) -> &OperationId {
        &self.accepted.named.id
    }

    /// The key as the vendor will see it.
    pub fn wire_key(&self) -> &str {
        &self.accepted.named.wire_key
    }

    /// Call it after the commit. It wakes the dispatcher of this process, and gives the handle of the operation. A
    /// dispatcher finds the row without it too, at its next look.
    pub fn committed(self) -> Enqueued {
        self.engine.wakes.wake(None, self.engine.wall());
        Enqueued::new(self.engine, self.accepted)
    }
}

impl fmt::Debug for Uncommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uncommitted").field("id", self.id()).finish_non_exhaustive()
    }
}
