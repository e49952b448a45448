//! Reads, beside the writer and never in its way: each reader has one statement, on a snapshot of its own.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use steadfast_core::AttemptReport;
use steadfast_core::internal::store::{
    Dialect, ROWS_MAX, RowReader, Seals, Stored, filters, listable, page, read_entry, read_operation,
    read_request, read_tally, reports, start,
};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{AuditEntry, Filter, Page, Summary, Tally};
use steadfast_core::store::StoreError;

use super::lane::Job;
use super::prepared::Prepared;
use super::row::{self, OPERATION, REQUEST};
use super::sequence::PLACE;
use super::{notes, rows, sealed};

/// Runs a batch of jobs, one by one.
pub(super) fn answer(connection: &Prepared<'_>, batch: &mut Vec<Box<dyn Job>>) {
    for mut job in batch.drain(..) {
        if !job.is_abandoned() {
            let ended = job.run(connection);
            job.reply(ended);
        }
    }
}

/// Returns the record of an operation. A store whose records may be elsewhere does not report that there is
/// none.
pub(super) fn get(
    connection: &Connection,
    id: &OperationId,
    seals: &Seals,
) -> Result<Option<Stored>, StoreError> {
    sealed::refresh_seals(connection, seals)?;
    let stored = row::load(connection, id)?;
    if stored.is_none() {
        notes::read_from_file(connection)?.1.check_absent()?;
    }
    Ok(stored)
}

pub(super) fn evidence(connection: &Connection, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
    let doing = "read evidence";
    let sql = "SELECT reports FROM operation WHERE scope = ?1 AND key = ?2";
    let name = [id.scope.as_str(), id.key.as_str()];
    let read = rows::first(connection, doing, (sql, name), |row| reports::read(&row.string()?))?;
    Ok(read.unwrap_or_default())
}

pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<Summary>, StoreError> {
    listable(filter)?;
    let doing = "list operations";
    let (sql, mut values) = list_statement(filter);
    values.push(Value::Integer(start(after)? as i64));
    let limit = limit.clamp(1, ROWS_MAX);
    values.push(Value::Integer(limit as i64 + 1));
    let rows = rows::all(connection, doing, (&sql, params_from_iter(values)), |row| {
        let mut record = read_operation(row)?;
        let number = read_request(&mut record, row)?;
        Ok((number, record.summary()))
    })?;
    Ok(page(rows.into_iter(), limit))
}

pub(super) fn tally(connection: &Connection) -> Result<Vec<Tally>, StoreError> {
    rows::all(connection, "count operations", (TALLY, []), |row| read_tally(row))
}

pub(super) fn audit(
    connection: &Connection,
    id: Option<&OperationId>,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<AuditEntry>, StoreError> {
    let doing = "read the audit record";
    let limit = limit.clamp(1, ROWS_MAX);
    let mut values = Vec::new();
    let clause = id.map_or("", |id| {
        values.push(text(id.scope.as_str()));
        values.push(text(id.key.as_str()));
        "scope = ? AND key = ? AND "
    });
    values.push(Value::Integer(start(after)? as i64));
    values.push(Value::Integer(limit as i64 + 1));
    let sql = format!(
        "SELECT number, scope, key, action, by, why, at_ms, before, after FROM audit \
         WHERE {clause}number >= ? ORDER BY number LIMIT ?"
    );
    let rows = rows::all(connection, doing, (&sql, params_from_iter(values)), |row| read_entry(row))?;
    Ok(page(rows.into_iter(), limit))
}

/// Returns the statement of a list, without its last two values: the number of the first row, and the limit.
fn list_statement(filter: &Filter) -> (String, Vec<Value>) {
    let (clauses, values) = filters::conditions(filter, &DIALECT);
    let sql = format!(
        "SELECT {OPERATION}, {REQUEST}, {PLACE} FROM operation WHERE {clauses}number >= ? ORDER BY number LIMIT ?"
    );
    let values = values.into_iter().map(|value| match value {
        filters::Value::Text(text) => Value::Text(text),
        filters::Value::Number(number) => Value::Integer(number),
    });
    (sql, values.collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// SQL of filters. A list goes through the table by number and not through an index, except for a key and for
/// dead letters. The names of one scope come in another order, and each page would sort all of them: the `+`
/// keeps SQLite from that index.
const DIALECT: Dialect<'_> = Dialect {
    value: |_| "?".to_owned(),
    scope: "+scope",
    in_any_scope: IN_ANY_SCOPE,
    dead: "phase > 2 AND until_ms IS NULL AND phase = 5",
    due: "until_ms",
    in_sequence: |name| format!("number IN (SELECT operation FROM sequenced WHERE sequence = {name})"),
    holds_sequence: "EXISTS (SELECT 1 FROM sequenced WHERE operation = number AND holds = 1)",
};

/// Condition that goes from scope to scope in the index of names, which has the key behind the scope, and
/// searches each for the key. A million operations in ten scopes are ten lookups; only where each has a scope
/// of its own is it as slow as reading them all.
const IN_ANY_SCOPE: &str = "scope IN (WITH RECURSIVE scopes (name) AS (SELECT min(scope) FROM operation UNION ALL \
                            SELECT (SELECT min(scope) FROM operation WHERE scope > name) FROM scopes \
                            WHERE name IS NOT NULL) SELECT name FROM scopes WHERE name IS NOT NULL)";

/// Counts of each vendor and phase. It reads the whole table: an operator asks for it, and every call would pay
/// for an index.
const TALLY: &str = "SELECT vendor, phase, count(*), min(updated_at_ms) FROM operation GROUP BY vendor, phase \
                     ORDER BY vendor, phase";

#[cfg(test)]
mod tests {
    use steadfast_core::operation::record::Phase;
    use steadfast_core::operation::{Key, Scope};

    use super::*;
    use crate::Sqlite;

    /// Returns SQLite's query plan for a filter.
    fn plan(connection: &Connection, filter: &Filter) -> String {
        let (sql, mut values) = list_statement(filter);
        values.extend([Value::Integer(0), Value::Integer(2)]);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("prepares");
        let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        let steps: rusqlite::Result<Vec<String>> = rows.and_then(Iterator::collect);
        steps.expect("a plan").join("\n")
    }

    #[test]
    fn an_index_finds_keys_and_dead_letters_and_other_pages_need_no_sort() {
        let directory = support::in_memory::directory();
        let path = directory.path().join("calls.db");
        drop(Sqlite::open(&path).expect("opens"));
        let connection = Connection::open(&path).expect("opens");
        let key = || Key::new("order-42").ok();
        let scope = || Some(Scope::from_stored("n/v/a/POST /x"));
        let dead = || Filter { phases: vec![Phase::Dead], ..Filter::default() };
        let by_name = "operation_name (scope=? AND key=?";
        let in_order = "USING INTEGER PRIMARY KEY (rowid>?)";
        let by_phase = "operation_ended (until_ms=?";
        for (expected, filter) in [
            (by_name, Filter { key: key(), ..Filter::default() }),
            (by_name, Filter { key: key(), scope: scope(), ..Filter::default() }),
            (by_name, Filter { key: key(), vendor: Some("n/v".into()), ..Filter::default() }),
            (by_phase, dead()),
            (by_phase, Filter { wire_key: Some("w".into()), ..dead() }),
            (in_order, Filter::default()),
            (in_order, Filter { scope: scope(), ..Filter::default() }),
            (in_order, Filter { wire_key: Some("w".into()), ..Filter::default() }),
        ] {
            let plan = plan(&connection, &filter);
            assert!(plan.contains(expected), "{filter:?}:\n{plan}");
        }
    }
}
