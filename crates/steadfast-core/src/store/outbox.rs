//! The outbox: calls that lie in the caller's own database until a dispatcher records them.
//!
//! A service that wants a call to happen together with a change of its own writes one row, in the transaction of that
//! change. The row has the caller's request in plain values: no fence, no wire key, no fingerprint. A dispatcher
//! *admits* it: it makes the call from it by the rules of every call, and records the operation. Why not write the
//! operation itself in the caller's transaction:
//!
//! - A claim's decision depends on the records that the store has purged, doubts and holds under that key. A caller's
//!   transaction would have to read all that, and would hold it locked until it commits.
//! - A service that was not updated yet, a trigger or another language would write rows of an older or a wrong form into
//!   the table that keeps the promise. A row of the outbox is checked before it becomes an operation.
//! - Plain SQL can write it.
//!
//! The operation is recorded and its row is removed in one commit. So a row is admitted once: not again by a dispatcher
//! that read it, stood still, and goes on when the operation has been delivered and its record has expired.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::sealing::{Reseal, ResealedBatch};
use super::statement::{Database, Value};
use super::{OutboxTally, Queued, Rejected, StoreError};
use crate::clock::Timestamp;
use crate::operation::record::{AuditEntry, Claim, Claimed, Page};
use crate::operation::{OnUnknown, Sequence};

pub(crate) mod form;
pub(crate) mod rows;
pub(crate) mod sealed;

/// The outbox of a store that has one. See [`Store::outbox`](super::Store::outbox).
///
/// Its contract is `steadfast_testkit::contract::check_outbox`.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns the statements that the caller's transaction has to execute, in this order, to put `row` into the
    /// outbox. The row's own number is not used. A store that seals seals the row's path, headers and body.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]: the store cannot seal.
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError>;

    /// Executes what [`put`](Outbox::put) gave, in a transaction of the store's own.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the row may be there or not.
    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError>;

    /// Whether committed rows of the account hold back what comes behind them in this
    /// [sequence](OutboxRow::sequence): they wait, or were rejected and do not let the next one go.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn holds_back(&self, account: &Account, sequence: &str) -> Result<bool, StoreError>;

    /// Returns, for each of these accounts, true if it has committed rows that were not rejected. It may be true
    /// without such a row. A dispatcher asks this at each of its looks, for all of its clients at once: it must cost
    /// little where there are none.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError>;

    /// A page of the committed rows of the account that were not rejected, by number: at most `limit`, and fewer if
    /// they are large: its `next` says whether there are more. A body of more than `body_bytes_max` is not read, and is the row's
    /// [`problem`](OutboxRow::problem). Rows that are sealed with a key which is not at hand are left out.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; also for a cursor that this store did not give.
    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        body_bytes_max: usize,
    ) -> Result<Page<OutboxRow>, StoreError>;

    /// The committed rows of the account under this key that were not rejected, by number: what may be recorded yet.
    /// Their bodies may be left out.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; also for a row that is sealed with a key which is not at hand.
    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError>;

    /// Carries out [`Store::claim`](super::Store::claim), and removes the row in the same commit if the operation is
    /// then on record for this request.
    ///
    /// The claim is judged by the time at which the row was written. A record that existed by then, or came since,
    /// answers it, also if its time is over by now. That record is there, because [`Store::purge`](super::Store::purge)
    /// of a store with an outbox spares each whose key a row has, or starts over.
    ///
    /// `None` if the row is not there any more, was rejected, or has to wait for one
    /// before it in its [sequence](OutboxRow::sequence): nothing was claimed.
    ///
    /// # Errors
    ///
    /// As there.
    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError>;

    /// Keeps a row aside with the reason why it cannot become an operation. Only operators look at it any more. Says
    /// whether it was there, and was not aside before.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn reject(&self, number: u64, why: &str, now: Timestamp) -> Result<bool, StoreError>;

    /// Returns the reason for which the last row of this key was rejected, if no other one of it waits. A key may have
    /// several rows: of other routes, and of calls that were made again.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError>;

    /// The committed rows under this key, whatever their account, by number; those that were rejected too.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn of_key(&self, key: &str) -> Result<Vec<Queued>, StoreError>;

    /// Removes a row, and keeps `entry` on the audit record in the same commit. Returns true if it was there: a
    /// dispatcher that records it at the same time was first, or finds no row.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; of kind [`Denied`](super::StoreErrorKind::Denied) for a role that may not admit rows.
    async fn remove(&self, number: u64, entry: &AuditEntry) -> Result<bool, StoreError>;

    /// Rejects the rows that wait, for the reason `why`, and has none of them hold a sequence: what
    /// [`Action::Disown`](crate::operation::record::Action::Disown) is to an operation. Gives how many there were.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn disown(&self, why: &str, now: Timestamp) -> Result<u64, StoreError>;

    /// Reseals the rows that are sealed with another than the store's current key, as [`Sealing::reseal`] does
    /// operations. Rows that are in the clear stay so: no key is needed for them.
    ///
    /// Default, for a store without [`Sealing`]: there are none.
    ///
    /// [`Sealing`]: super::sealing::Sealing
    /// [`Sealing::reseal`]: super::sealing::Sealing::reseal
    ///
    /// # Errors
    ///
    /// As there.
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        let _ = reseal;
        Ok(ResealedBatch::default())
    }

    /// Returns the number of rows by account. An account without rows is left out.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError>;

    /// A page of at most `limit` rows that were rejected, by number.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; also for a cursor that this store did not give.
    async fn rejected(&self, after: Option<&str>, limit: usize) -> Result<Page<Rejected>, StoreError>;
}

/// Account whose client a row is for: the first three parts of a [`Scope`](crate::operation::Scope), as they are named
/// and not as they are written there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The client's namespace.
    pub namespace: String,
    /// The adapter's name.
    pub vendor: String,
    /// The adapter's account. The part that a call's headers add to it (Stripe's `Stripe-Account`) is in the row's
    /// headers.
    pub account: String,
}

/// Row of the outbox: the caller's request.
///
/// `Debug` shows neither the query, nor headers' values, nor the body.
#[derive(Clone, PartialEq)]
pub struct OutboxRow {
    /// Its place in the outbox.
    pub number: u64,
    /// The method.
    pub method: String,
    /// The path as a call gives it, with its query.
    pub path: String,
    /// The caller's key.
    pub key: String,
    /// Names and values, `Content-Type` among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// Earliest time to send; `None` is at once.
    pub due: Option<Timestamp>,
    /// Choice for an effect that stays unknown; `None` for the client's.
    pub on_unknown: Option<OnUnknown>,
    /// Retention of the settled operation; `None` for the client's.
    pub keep: Option<Duration>,
    /// The fields that are never shown.
    pub redact: Vec<String>,
    /// The key of the operation that it starts over.
    pub supersedes: Option<String>,
    /// Scheme, host and port of the writer's base URL, if it was a client: a client with another one does not make
    /// the call.
    pub origin: Option<String>,
    /// Sequence that it is enqueued into. While a row of the same sequence lies before it, it is not admitted; nor
    /// while one was rejected that a dead letter's sequence would wait for.
    pub sequence: Option<Sequence>,
    /// Time at which it was written, by the writer's clock.
    pub enqueued_at: Timestamp,
    /// Reason for which the row cannot be read as one; `None` for a good one.
    pub problem: Option<String>,
}

impl fmt::Debug for OutboxRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxRow")
            .field("number", &self.number)
            .field("method", &self.method)
            .field("path", &self.path.split('?').next())
            .field("key", &self.key)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .field("problem", &self.problem)
            .finish_non_exhaustive()
    }
}

/// An SQL statement with its values.
///
/// `Debug` shows no value.
#[derive(Clone, PartialEq)]
pub struct Statement {
    /// Database for whose SQL it is.
    pub database: Database,
    /// The text, without any value in it.
    pub sql: Cow<'static, str>,
    /// The values, in the order of the parameters.
    pub values: Vec<Value>,
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement")
            .field("database", &self.database)
            .field("sql", &self.sql)
            .field("values", &self.values.len())
            .finish()
    }
}
