//! Transactions of several statements: lock the rows, read them, let the state machine decide, write.
//!
//! What is read beside a locked row is read by a statement after the one that locked it. A statement that waits for a
//! lock is then given the row as it is now, and everything else as it was when it began to wait.

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

/// What a transaction came to.
pub(super) enum Turn<T> {
    /// Commit, and give this.
    Done(T),
    /// Another transaction was faster: roll back, and begin anew.
    Again,
}

/// Runs `work` in a transaction, on the store's own thread: dropped, it is carried out all the same.
pub(super) async fn in_transaction<T, W, F>(shared: &Arc<Shared>, work: W) -> Result<T, StoreError>
where
    T: Send + 'static,
    W: Fn(Within) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Turn<T>, StoreError>> + Send + 'static,
{
    let own = Arc::clone(shared);
    shared
        .connections
        .run(async move {
            for turn in 1..=TURNS_MAX {
                let mut exclusive = own.connections.exclusive().await.map_err(of_no_row)?;
                exclusive.begin().await?;
                match work(Within { shared: Arc::clone(&own), exclusive }).await {
                    Ok(Turn::Done(done)) => return Ok(done),
                    Err(error) if error.kind() != StoreErrorKind::Locked || turn == TURNS_MAX => {
                        return Err(error);
                    }
                    Ok(Turn::Again) | Err(_) => {}
                }
            }
            let problem = "other transactions were faster each time; try again";
            Err(StoreError::new(problem).of_kind(StoreErrorKind::Locked))
        })
        .await
}

/// What stands in the way of a connection is no fault of what was to be written.
fn of_no_row(error: StoreError) -> StoreError {
    if error.kind() == StoreErrorKind::Invalid { error.of_kind(StoreErrorKind::Denied) } else { error }
}

/// An open transaction. Dropped, it is rolled back.
pub(super) struct Within {
    pub(super) shared: Arc<Shared>,
    exclusive: Exclusive,
}

/// What is on record of the names that were locked.
pub(super) struct Found {
    /// The server's, once it had the locks.
    pub(super) now: Timestamp,
    pub(super) notes: Notes,
    rows: Vec<Stored>,
}

impl Found {
    pub(super) fn remove(&mut self, id: &OperationId) -> Option<Stored> {
        let at = self.rows.iter().position(|stored| stored.record.id == *id)?;
        Some(self.rows.swap_remove(at))
    }

    /// In the order in which the operations were asked for.
    pub(super) fn into_rows(self) -> Vec<Stored> {
        self.rows
    }
}

impl Within {
    /// Commits what is done, unless it is to be done again.
    pub(super) async fn ended<T>(
        mut self,
        ended: Result<Turn<T>, StoreError>,
    ) -> Result<Turn<T>, StoreError> {
        let turn = ended?;
        if matches!(turn, Turn::Done(_)) {
            self.exclusive.commit().await?;
        }
        Ok(turn)
    }

    pub(super) async fn ask(
        &self,
        doing: &'static str,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.exclusive.within(doing, self.exclusive.query_typed(statement, values)).await
    }

    /// Statements without values, one after the other.
    pub(super) async fn run(&self, doing: &'static str, statements: &str) -> Result<(), StoreError> {
        self.exclusive.within(doing, self.exclusive.batch_execute(statements)).await
    }

    /// Locks what is on record under these names, and their sequences before that, and reads it, if the store may be
    /// written to in this way.
    pub(super) async fn lock(
        &self,
        ids: impl IntoIterator<Item = &OperationId>,
        allowed: Allowed,
    ) -> Result<Found, StoreError> {
        self.lock_beside(ids, &[], allowed).await
    }

    /// As [`lock`](Within::lock), with the slots of other [sequences](super::sequence).
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
            self.ask("lock operations", &statements.lock, &values),
            self.ask("read operations", &statements.rest, &values),
            self.ask("read the server's time", &statements.see, &[]),
        )?;
        let records = locked.iter().map(|row| read_operation(&mut Reader::of(row)));
        self.found(records.collect::<Result<_, _>>()?, &rest, (&notes, allowed))
    }

    /// Locks the sequences that these operations are in, and these slots: in one order, so that no two wait for each
    /// other.
    pub(super) async fn lock_slots(
        &self,
        (scopes, keys): (&[&str], &[&str]),
        slots: &[i16],
    ) -> Result<(), StoreError> {
        let values: [Value<'_>; 3] =
            [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY), (&slots, Type::INT2_ARRAY)];
        self.ask("lock sequences", &self.shared.statements.sequence.lock, &values).await.map(drop)
    }

    /// Reads what belongs to records that are locked, if the store may be written to in this way.
    pub(super) async fn complete(&self, records: Vec<Record>, allowed: Allowed) -> Result<Found, StoreError> {
        let (scopes, keys) = names(records.iter().map(|record| &record.id));
        let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
        let statements = &self.shared.statements;
        let (rest, notes) = tokio::try_join!(
            biased;
            self.ask("read operations", &statements.rest, &values),
            self.ask("read the server's time", &statements.see, &[]),
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
        self.shared.time.saw(now);
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

/// Of a transaction that others undo: a deadlock, or a purge in between.
pub(super) const TURNS_MAX: u32 = 5;
