//! Transactions of several statements: lock the rows, read them, let the state machine decide, write.
//!
//! Rows beside a locked row are read by a statement after the one that locked it. A statement that waits for a
//! lock then gets the row as it is now, and all others as they were when it began to wait.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{RowReader, Stored, read_operation, read_rest};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Notes, Record};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::Shared;
use super::connections::Exclusive;
use super::row::{self, Reader, Value, damaged};
use super::standing::{self, Allowed};

/// Result of one try of a transaction.
pub(super) enum Decision<T> {
    /// Commit, and return this.
    Commit(T),
    /// Roll back and run again: another transaction was faster.
    Retry,
}

/// Runs `work` in a transaction, on the store's own thread. The work continues if the future is dropped.
pub(super) async fn in_transaction<T, W, F>(shared: &Arc<Shared>, work: W) -> Result<T, StoreError>
where
    T: Send + 'static,
    W: Fn(Transaction) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Decision<T>, StoreError>> + Send + 'static,
{
    let own = Arc::clone(shared);
    shared
        .connections
        .run(async move {
            for turn in 1..=TURNS_MAX {
                let mut exclusive = own.connections.exclusive().await.map_err(of_no_row)?;
                exclusive.begin().await?;
                match work(Transaction { shared: Arc::clone(&own), exclusive }).await {
                    Ok(Decision::Commit(done)) => return Ok(done),
                    Err(error) if error.kind() != StoreErrorKind::Locked || turn == TURNS_MAX => {
                        return Err(error);
                    }
                    Ok(Decision::Retry) | Err(_) => {}
                }
            }
            let problem = "other transactions changed the same rows each time; retry";
            Err(StoreError::new(problem).of_kind(StoreErrorKind::Locked))
        })
        .await
}

/// Changes the kind of a connection's error: it does not mean that the values are invalid.
fn of_no_row(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Invalid { error.of_kind(StoreErrorKind::Denied) } else { error }
}

/// An open transaction. Dropping it rolls back.
pub(super) struct Transaction {
    pub(super) shared: Arc<Shared>,
    exclusive: Exclusive,
}

/// Rows of the names that were locked.
pub(super) struct Found {
    /// The server's time, after the locks were taken.
    pub(super) now: Timestamp,
    pub(super) notes: Notes,
    rows: Vec<Stored>,
}

impl Found {
    pub(super) fn remove(&mut self, id: &OperationId) -> Option<Stored> {
        let at = self.rows.iter().position(|stored| stored.record.id == *id)?;
        Some(self.rows.swap_remove(at))
    }

    /// Returns the rows, in the order in which the operations were asked for.
    pub(super) fn into_rows(self) -> Vec<Stored> {
        self.rows
    }
}

impl Transaction {
    /// Commits, unless the result is [`Decision::Retry`].
    pub(super) async fn finish<T>(
        mut self,
        ended: Result<Decision<T>, StoreError>,
    ) -> Result<Decision<T>, StoreError> {
        let turn = ended?;
        if matches!(turn, Decision::Commit(_)) {
            self.exclusive.commit().await?;
        }
        Ok(turn)
    }

    pub(super) async fn query(
        &self,
        doing: &'static str,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.exclusive.within(doing, self.exclusive.query_typed(statement, values)).await
    }

    /// Runs statements without values, one after the other.
    pub(super) async fn run(&self, doing: &'static str, statements: &str) -> Result<(), StoreError> {
        self.exclusive.within(doing, self.exclusive.batch_execute(statements)).await
    }

    /// Locks the sequences of these operations, then their rows, and reads them. Fails if the store may not be
    /// written to in this way.
    pub(super) async fn lock(
        &self,
        ids: impl IntoIterator<Item = &OperationId>,
        allowed: Allowed,
    ) -> Result<Found, StoreError> {
        self.lock_beside(ids, &[], allowed).await
    }

    /// Form of [`lock`](Transaction::lock) that also locks slots of other [sequences](super::sequence).
    pub(super) async fn lock_beside(
        &self,
        ids: impl IntoIterator<Item = &OperationId>,
        slots: &[i16],
        allowed: Allowed,
    ) -> Result<Found, StoreError> {
        let (scopes, keys) = names(ids);
        let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
        let statements = &self.shared.statements;
        // Sent at once, and carried out one after the other.
        let ((), locked, rest, notes) = tokio::try_join!(
            biased;
            self.lock_slots((&scopes, &keys), slots),
            self.query("lock operations", &statements.lock, &values),
            self.query("read operations", &statements.rest, &values),
            self.query("read the server's time", &statements.see, &[]),
        )?;
        let records = locked.iter().map(|row| read_operation(&mut Reader::of(row)));
        self.found(records.collect::<Result<_, _>>()?, &rest, (&notes, allowed))
    }

    /// Locks the sequences of these operations, and these slots, in one order: so no two transactions deadlock.
    pub(super) async fn lock_slots(
        &self,
        (scopes, keys): (&[&str], &[&str]),
        slots: &[i16],
    ) -> Result<(), StoreError> {
        let values: [Value<'_>; 3] =
            [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY), (&slots, Type::INT2_ARRAY)];
        self.query("lock sequences", &self.shared.statements.sequence.lock, &values).await.map(drop)
    }

    /// Reads the rest of records that are locked. Fails if the store may not be written to in this way.
    pub(super) async fn complete(&self, records: Vec<Record>, allowed: Allowed) -> Result<Found, StoreError> {
        let (scopes, keys) = names(records.iter().map(|record| &record.id));
        let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
        let statements = &self.shared.statements;
        let (rest, notes) = tokio::try_join!(
            biased;
            self.query("read operations", &statements.rest, &values),
            self.query("read the server's time", &statements.see, &[]),
        )?;
        drop((scopes, keys));
        self.found(records, &rest, (&notes, allowed))
    }

    fn found(
        &self,
        records: Vec<Record>,
        rest: &[Row],
        (notes, allowed): (&[Row], Allowed),
    ) -> Result<Found, StoreError> {
        let notes = notes.first().ok_or_else(|| damaged("the table of what was purged is empty"))?;
        let mut from = Reader::of(notes);
        let (now, notes) = row::notes(&mut from)?;
        self.shared.time.record(now);
        standing::check(&mut from, allowed)?;
        let mut others = HashMap::with_capacity(rest.len());
        for row in rest {
            let mut from = Reader::of(row);
            others.insert(from.id()?, from);
        }
        let rows = records.into_iter().map(|record| {
            let other = others.remove(&record.id);
            read_rest(record, &mut other.ok_or_else(|| damaged("an operation has no request"))?)
        });
        Ok(Found { now, notes, rows: rows.collect::<Result<_, _>>()? })
    }
}

fn names<'a>(ids: impl IntoIterator<Item = &'a OperationId>) -> (Vec<&'a str>, Vec<&'a str>) {
    ids.into_iter().map(|id| (id.scope.as_str(), id.key.as_str())).unzip()
}

/// Maximum of tries of a transaction that others undo: by a deadlock, or a purge in between.
pub(super) const TURNS_MAX: u32 = 5;
