//! Reads: one statement each, on a snapshot of its own.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use steadfast_core::AttemptReport;
use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    Dialect, ROWS_MAX, RowReader, Standing, Stored, filters, listable, page, read_entry, read_operation,
    read_request, read_stored, read_tally, reports, start,
};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    AuditEntry, Declined, Filter, Notes, Page, Summary, Tally, is_final,
};
use steadfast_core::store::delivery::Version;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::row::{self, OPERATION, Reader, Value};
use super::schema::Schema;
use super::standing::{self, CLOSED};
use super::{Shared, failure, place};

/// An operation as it was read.
pub(super) struct Read {
    /// The server's time.
    pub(super) now: Timestamp,
    /// Clock notes, without the highest fence that was purged.
    pub(super) notes: Notes,
    pub(super) stored: Option<Stored>,
}

impl Shared {
    /// Runs one statement on a line, as a transaction of its own.
    pub(super) async fn query(
        self: &Arc<Self>,
        doing: &'static str,
        statement: String,
        values: Vec<(Given, Type)>,
    ) -> Result<Vec<Row>, StoreError> {
        let own = Arc::clone(self);
        self.connections
            .run(async move {
                let client = own.connections.get().await?;
                let values: Vec<Value<'_>> =
                    values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
                client.query(doing, &statement, &values).await
            })
            .await
    }

    /// Reads an operation.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::store::StoreErrorKind::ReadOnly) where the server takes no claim, such as a standby,
    /// and the record is not [final](is_final), or has expired.
    pub(super) async fn read(self: &Arc<Self>, id: &OperationId) -> Result<Read, StoreError> {
        let rows = match self.query(READ, self.statements.read.clone(), name(id)).await {
            // A name that the server cannot store has no record.
            Err(error) if error.kind() == StoreErrorKind::Invalid => {
                let (now, _) = self.now().await?;
                return Ok(Read { now, notes: Notes::default(), stored: None });
            }
            rows => rows?,
        };
        let mut from = Reader::first(&rows)?;
        let now = from.time()?;
        self.time.record(now);
        let believed = row::believed(&mut from, now)?;
        let (read_only, is_there): (bool, bool) = (from.next()?, from.next()?);
        let stored = if is_there { Some(read_stored(&mut from)?) } else { None };
        let record = stored.as_ref().map(|stored| &stored.record);
        // An expired record may have begun anew.
        let is_over = record.is_some_and(|record| record.has_expired(now));
        if read_only && (is_over || !is_final(record)) {
            return Err(failure::read_only(READ));
        }
        Ok(Read { now, notes: Notes { believed, ..Notes::default() }, stored })
    }

    /// Checks that the store may report that there is no record: see [`Standing::check_absent`].
    pub(super) async fn check_absent(self: &Arc<Self>) -> Result<(), StoreError> {
        let sql = format!("SELECT {CLOSED} FROM {}.store_state p", self.connections.schema());
        let rows = self.query("read the copy state", sql, Vec::new()).await?;
        standing::check(&mut Reader::first(&rows)?, Standing::check_absent)
    }

    /// Returns the version of each of these operations; `None` where no record exists.
    pub(super) async fn versions(
        self: &Arc<Self>,
        ids: &[OperationId],
    ) -> Result<Vec<Option<Version>>, StoreError> {
        let schema = self.connections.schema();
        let sql = format!(
            "SELECT o.key IS NOT NULL, o.phase, o.fence FROM unnest($1, $2) WITH ORDINALITY AS n (scope, key, nth) \
             LEFT JOIN {schema}.operation o ON o.scope = n.scope AND o.key = n.key ORDER BY n.nth"
        );
        let column = |part: fn(&OperationId) -> &str| -> (Given, Type) {
            let texts: Vec<String> = ids.iter().map(|id| part(id).to_owned()).collect();
            (Box::new(texts), Type::TEXT_ARRAY)
        };
        let values = vec![column(|id| id.scope.as_str()), column(|id| id.key.as_str())];
        let rows = self.query("read the versions of operations", sql, values).await?;
        let versions = rows.iter().map(|row| {
            let mut from = Reader::of(row);
            let is_there = from.flag()?;
            is_there.then(|| Ok(Version { phase: from.phase()?, fence: from.amount()? })).transpose()
        });
        versions.collect()
    }

    /// Returns the server's time, and the time that the store believes. Writes nothing.
    pub(super) async fn now(self: &Arc<Self>) -> Result<(Timestamp, Timestamp), StoreError> {
        self.noted(self.statements.notes.clone()).await
    }

    /// Records the time of a command that does nothing else.
    pub(super) async fn see(self: &Arc<Self>) -> Result<(), StoreError> {
        self.noted(self.statements.see.clone()).await.map(drop)
    }

    /// Returns the error of a statement that writes only where the store is open, and found nothing to write.
    pub(super) async fn check_new(self: &Arc<Self>) -> Result<(), StoreError> {
        let rows = self.query("read the server's time", self.statements.notes.clone(), Vec::new()).await?;
        let mut from = Reader::first(&rows)?;
        row::notes(&mut from)?;
        standing::check(&mut from, Standing::check_new)
    }

    /// Compares the store's place once more if [`here`](super::place::here) has changed. Returns true if it
    /// has.
    pub(super) async fn compare_if_changed(self: &Arc<Self>, here: &str) -> Result<bool, StoreError> {
        let connect = self.connections.connect();
        let is_changed = connect.place_seen().is_some_and(|seen| seen != here);
        if is_changed {
            let connections = self.connections.clone();
            let compare = async move { place::check(&*connections.get().await?, &connect).await };
            self.connections.run(compare).await?;
        }
        Ok(is_changed)
    }

    async fn noted(self: &Arc<Self>, sql: String) -> Result<(Timestamp, Timestamp), StoreError> {
        let rows = self.query("read the server's time", sql, Vec::new()).await?;
        let mut from = Reader::first(&rows)?;
        let (now, notes) = row::notes(&mut from)?;
        self.time.record(now);
        let (_, may_lose_commits): (Option<&str>, bool) = (from.next()?, from.next()?);
        self.durability.record(may_lose_commits, &self.connections);
        self.compare_if_changed(from.next()?).await?;
        Ok((now, notes.now(now)))
    }

    pub(super) async fn evidence(
        self: &Arc<Self>,
        id: &OperationId,
    ) -> Result<Vec<AttemptReport>, StoreError> {
        let schema = self.connections.schema();
        let sql = format!("SELECT reports FROM {schema}.outcome WHERE scope = $1 AND key = $2");
        let rows = self.query("read evidence", sql, name(id)).await?;
        match rows.first() {
            Some(row) => reports::read(Reader::of(row).next()?),
            None => Ok(Vec::new()),
        }
    }

    /// Adds to the log of an operation, if there is one. Locks the row, so that a purge leaves no log behind.
    pub(super) async fn append(
        self: &Arc<Self>,
        id: &OperationId,
        reports: &[AttemptReport],
    ) -> Result<Result<(), Declined>, StoreError> {
        let schema = self.connections.schema();
        let sql = format!(
            "WITH there AS MATERIALIZED (SELECT o.scope, o.key FROM {schema}.operation o, {schema}.store_state p \
             WHERE o.scope = $1 AND o.key = $2 AND p.stage < 2 FOR UPDATE OF o), wrote AS (INSERT INTO {schema}.outcome AS a (scope, key, reports) SELECT scope, key, $3 \
             FROM there WHERE $3 <> '' ON CONFLICT (scope, key) DO UPDATE SET reports = a.reports || excluded.reports) \
             SELECT {CLOSED}, t.key IS NOT NULL FROM {schema}.store_state p LEFT JOIN there t ON true"
        );
        let mut values = name(id);
        values.push((Box::new(reports::lines(reports)?), Type::TEXT));
        let rows = self.query("write evidence", sql, values).await?;
        let mut from = Reader::first(&rows)?;
        standing::check(&mut from, Standing::check_held)?;
        Ok(if from.next()? { Ok(()) } else { Err(Declined::Absent) })
    }

    pub(super) async fn list(
        self: &Arc<Self>,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        listable(filter)?;
        let limit = limit.clamp(1, ROWS_MAX);
        let (sql, mut values) = list_statement(self.connections.schema(), filter);
        values.push((Box::new(start(after)? as i64), Type::INT8));
        values.push((Box::new(limit as i64 + 1), Type::INT8));
        let rows = self.query("list operations", sql, values).await?;
        let names_one = filter.key.is_some() || filter.wire_key.is_some();
        if rows.is_empty() && names_one && self.read_only().await? {
            return Err(failure::read_only("list operations"));
        }
        let summaries = rows.iter().map(|row| {
            let mut from = Reader::of(row);
            let mut record = read_operation(&mut from)?;
            let number = read_request(&mut record, &mut from)?;
            Ok((number, record.summary()))
        });
        Ok(page(summaries.collect::<Result<Vec<_>, StoreError>>()?.into_iter(), limit))
    }

    /// Returns true if the server takes no claims, and so may not report that there is no record.
    async fn read_only(self: &Arc<Self>) -> Result<bool, StoreError> {
        let sql = "SELECT current_setting('transaction_read_only') = 'on'".to_owned();
        let rows = self.query("read whether the server takes claims", sql, Vec::new()).await?;
        Reader::first(&rows)?.next()
    }

    pub(super) async fn tally(self: &Arc<Self>) -> Result<Vec<Tally>, StoreError> {
        let schema = self.connections.schema();
        let sql = format!(
            "SELECT vendor, phase, count(*), min(updated_at_ms) FROM {schema}.operation GROUP BY vendor, phase \
             ORDER BY vendor, phase"
        );
        let rows = self.query("count operations", sql, Vec::new()).await?;
        rows.iter().map(|row| read_tally(&mut Reader::of(row))).collect()
    }

    pub(super) async fn audit(
        self: &Arc<Self>,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let schema = self.connections.schema();
        let limit = limit.clamp(1, ROWS_MAX);
        let (clause, mut values) = match id {
            Some(id) => ("scope = $1 AND key = $2 AND number >= $3", name(id)),
            None => ("number >= $1", Vec::new()),
        };
        values.push((Box::new(start(after)? as i64), Type::INT8));
        values.push((Box::new(limit as i64 + 1), Type::INT8));
        let sql = format!(
            "SELECT number, scope, key, action, by, why, at_ms, before, after FROM {schema}.audit WHERE {clause} \
             ORDER BY number LIMIT ${}",
            values.len()
        );
        let rows = self.query("read the audit record", sql, values).await?;
        let entries = rows.iter().map(|row| read_entry(&mut Reader::of(row)));
        Ok(page(entries.collect::<Result<Vec<_>, _>>()?.into_iter(), limit))
    }
}

/// A statement's value that a task can own.
pub(super) type Given = Box<dyn tokio_postgres::types::ToSql + Sync + Send>;

fn name(id: &OperationId) -> Vec<(Given, Type)> {
    vec![
        (Box::new(id.scope.as_str().to_owned()), Type::TEXT),
        (Box::new(id.key.as_str().to_owned()), Type::TEXT),
    ]
}

/// Returns the statement of a list, without its last two values: the number of the first row, and the limit.
fn list_statement(schema: &Schema, filter: &Filter) -> (String, Vec<(Given, Type)>) {
    let in_any_scope = in_any_scope(schema);
    let dialect = Dialect {
        value: |number| format!("${number}"),
        scope: "scope",
        in_any_scope: &in_any_scope,
        dead: "phase = 5",
        due: "wake_ms",
        in_sequence: |name| format!("m.sequence = {name}"),
        holds_sequence: "m.holds",
    };
    let places = if filter.sequence.is_some() || filter.holds_sequence {
        format!("JOIN {schema}.sequenced m USING (scope, key) ")
    } else {
        String::new()
    };
    let (clauses, values) = filters::conditions(filter, &dialect);
    let count = values.len();
    let sql = format!(
        "SELECT {OPERATION}, {} FROM {schema}.operation o JOIN {schema}.request r USING (scope, key) {places}\
         WHERE {clauses}r.number >= ${} ORDER BY r.number LIMIT ${}",
        row::request(schema),
        count + 1,
        count + 2
    );
    let values = values.into_iter().map(|value| -> (Given, Type) {
        match value {
            filters::Value::Text(text) => (Box::new(text), Type::TEXT),
            filters::Value::Number(number) => (Box::new(number), Type::INT8),
        }
    });
    (sql, values.collect())
}

/// Returns a condition that goes from scope to scope in the index of names, which has the key behind the scope,
/// and searches each for the key.
fn in_any_scope(schema: &Schema) -> String {
    format!(
        "scope IN (WITH RECURSIVE scopes (name) AS ((SELECT min(scope) FROM {schema}.operation) UNION ALL \
         SELECT (SELECT min(scope) FROM {schema}.operation WHERE scope > name) FROM scopes WHERE name IS NOT NULL) \
         SELECT name FROM scopes WHERE name IS NOT NULL)"
    )
}

const READ: &str = "read an operation";
