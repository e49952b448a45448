//! What goes on beside the writer and never in its way: each reader's one statement, on a snapshot of its own.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::codec;
use super::failure::While;
use super::lane::Job;
use super::numbers;
use super::row::{self, COLUMNS};
use crate::attempt::AttemptReport;
use crate::operation::record::{AuditEntry, Cursor, Filter, Page, Phase, Summary, Tally};
use crate::operation::{Key, OperationId, Scope};
use crate::store::{StoreError, StoreErrorKind};

/// Carries out a batch, one by one.
pub(super) fn answer(connection: &Connection, batch: &mut Vec<Box<dyn Job>>) {
    for mut job in batch.drain(..) {
        if !job.is_moot() {
            let ended = job.run(connection);
            job.reply(ended);
        }
    }
}

pub(super) fn evidence(connection: &Connection, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
    let doing = "read evidence";
    let mut statement = connection
        .prepare_cached("SELECT reports FROM operation WHERE scope = ?1 AND key = ?2")
        .while_doing(doing)?;
    let lines: Option<String> = statement
        .query_row(params![id.scope.as_str(), id.key.as_str()], |row| row.get(0))
        .optional()
        .while_doing(doing)?;
    codec::reports(lines.as_deref().unwrap_or_default())
}

pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page<Summary>, StoreError> {
    let doing = "list operations";
    let (sql, mut values) = list_statement(filter);
    values.push(Value::Integer(start(after)?));
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    values.push(Value::Integer(limit as i64 + 1));
    let mut statement = connection.prepare_cached(&sql).while_doing(doing)?;
    let rows = statement
        .query_map(params_from_iter(values), |row| {
            let (number, record) = row::hollow(row)?;
            Ok((number, record.summary()))
        })
        .and_then(Iterator::collect)
        .while_doing(doing)?;
    Ok(page(rows, limit))
}

pub(super) fn tally(connection: &Connection) -> Result<Vec<Tally>, StoreError> {
    let doing = "count operations";
    let mut statement = connection.prepare_cached(TALLY).while_doing(doing)?;
    statement
        .query_map([], |row| {
            Ok(Tally {
                vendor: row.get(0)?,
                phase: phase(row, 1)?,
                count: row.get::<_, i64>(2)?.max(0) as u64,
                oldest: numbers::from_ms(row.get(3)?),
                secrets: row.get::<_, i64>(4)?.max(0) as u64,
            })
        })
        .and_then(Iterator::collect)
        .while_doing(doing)
}

pub(super) fn audit(
    connection: &Connection,
    id: Option<&OperationId>,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page<AuditEntry>, StoreError> {
    let doing = "read the audit record";
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    let mut values = Vec::new();
    let clause = id.map_or("", |id| {
        values.push(text(id.scope.as_str()));
        values.push(text(id.key.as_str()));
        "scope = ? AND key = ? AND "
    });
    values.push(Value::Integer(start(after)?));
    values.push(Value::Integer(limit as i64 + 1));
    let sql = format!(
        "SELECT number, scope, key, action, by, why, at_ms, before, after FROM audit \
         WHERE {clause}number >= ? ORDER BY number LIMIT ?"
    );
    let mut statement = connection.prepare_cached(&sql).while_doing(doing)?;
    let rows = statement
        .query_map(params_from_iter(values), entry)
        .and_then(Iterator::collect)
        .while_doing(doing)?;
    Ok(page(rows, limit))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<(i64, AuditEntry)> {
    let key = Key::new(row.get::<_, String>(2)?).map_err(|_| numbers::damaged(2, "no key"))?;
    let action: String = row.get(3)?;
    let entry = AuditEntry {
        id: OperationId::new(Scope::from_stored(row.get::<_, String>(1)?), key),
        action: serde_json::from_str(&action).map_err(|_| numbers::damaged(3, "no action"))?,
        by: row.get(4)?,
        why: row.get(5)?,
        at: numbers::from_ms(row.get(6)?),
        before: phase(row, 7)?,
        after: phase(row, 8)?,
    };
    Ok((row.get(0)?, entry))
}

fn phase(row: &Row<'_>, column: usize) -> rusqlite::Result<Phase> {
    numbers::phase(row.get(column)?).ok_or_else(|| numbers::damaged(column, "no such phase"))
}

/// Lacks two values: the number of the first row, and how many.
fn list_statement(filter: &Filter) -> (String, Vec<Value>) {
    let (clauses, values) = conditions(filter);
    let sql = format!("SELECT {COLUMNS} FROM operation WHERE {clauses}number >= ? ORDER BY number LIMIT ?");
    (sql, values)
}

/// A filter as SQL. A list goes through the table by number and not through an index, but for a key and for dead
/// letters. The names of one scope come in another order, and each page would sort all of them: the `+` keeps
/// SQLite from that index. A wire key has no index: it comes from a hash, so that every claim would write to another
/// page of it.
fn conditions(filter: &Filter) -> (String, Vec<Value>) {
    let Filter { vendor, scope, key, wire_key, phases, reason, effect, status, updated_from, updated_before } =
        filter;
    let mut conditions = Conditions::default();
    conditions.add("vendor = ?", vendor.as_deref().map(text));
    let by_scope = if key.is_some() { "scope = ?" } else { "+scope = ?" };
    conditions.add(by_scope, scope.as_ref().map(|scope| text(scope.as_str())));
    if key.is_some() && scope.is_none() {
        conditions.clauses.push_str(IN_ANY_SCOPE);
    }
    conditions.add("key = ?", key.as_ref().map(|key| text(key.as_str())));
    conditions.add("wire_key = ?", wire_key.as_deref().map(text));
    if let [Phase::Dead] = phases[..] {
        // In words, since an index on a part of a table is not used for a value that is bound later.
        conditions.clauses.push_str("phase = 5 AND ");
    } else if !phases.is_empty() {
        if phases.iter().all(|phase| matches!(phase, Phase::InProgress | Phase::Scheduled)) {
            // As above: the index of what is open.
            conditions.clauses.push_str("phase < 3 AND ");
        }
        let numbers: Vec<String> =
            phases.iter().map(|phase| numbers::phase_number(*phase).to_string()).collect();
        conditions.clauses.push_str(&format!("phase IN ({}) AND ", numbers.join(", ")));
    }
    conditions.add("phase > 4 AND detail = ?", reason.and_then(numbers::reason_number).map(Value::Integer));
    // A success took effect, also where 0.1 wrote its row and another effect into it.
    conditions.add(
        "CASE phase WHEN 3 THEN 2 ELSE effect END = ?",
        effect.map(|effect| Value::Integer(codec::effect_number(effect))),
    );
    conditions.add("status = ?", status.map(|status| Value::Integer(i64::from(status))));
    conditions.add("updated_at_ms >= ?", updated_from.map(|at| Value::Integer(numbers::to_ms(at))));
    conditions.add("updated_at_ms < ?", updated_before.map(|at| Value::Integer(numbers::to_ms(at))));
    (conditions.clauses, conditions.values)
}

#[derive(Default)]
struct Conditions {
    clauses: String,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, clause: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.clauses.push_str(clause);
            self.clauses.push_str(" AND ");
            self.values.push(value);
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The number of the first row after a page.
fn start(after: Option<&Cursor>) -> Result<i64, StoreError> {
    let Some(cursor) = after else { return Ok(0) };
    cursor.as_str().parse().map_err(|_| {
        let problem = format!("{:?} is not a place in a list of this store", cursor.as_str());
        StoreError::new(problem).of_kind(StoreErrorKind::Invalid)
    })
}

/// A page of `limit`, from one row more than that if there are more.
fn page<T>(mut rows: Vec<(i64, T)>, limit: usize) -> Page<T> {
    let next = rows.get(limit).map(|(number, _)| Cursor::new(number.to_string()));
    rows.truncate(limit);
    Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
}

/// The most rows of one page, so that a list of everything does not become one answer.
const PAGE_ROWS_MAX: usize = 1_000;

/// Goes from scope to scope in the index of names, which has the key behind the scope, and looks into each for the
/// key. A million operations in ten scopes are ten look-ups; only where each has a scope of its own is it as slow as
/// reading them all.
const IN_ANY_SCOPE: &str = "scope IN (WITH RECURSIVE scopes (name) AS (SELECT min(scope) FROM operation UNION ALL \
                            SELECT (SELECT min(scope) FROM operation WHERE scope > name) FROM scopes \
                            WHERE name IS NOT NULL) SELECT name FROM scopes WHERE name IS NOT NULL) AND ";

/// Reads the whole table: a count is an operator's, and an index that it could use would be paid for by every
/// call.
///
/// The flag of secrets is behind the blobs, where reading it would mean to read those: an index has the few rows that
/// are flagged.
const TALLY: &str = "WITH flagged AS MATERIALIZED (SELECT vendor, phase, count(*) AS secrets FROM operation \
                     WHERE secrets = 1 GROUP BY vendor, phase), \
                     counted AS MATERIALIZED (SELECT vendor, phase, count(*) AS amount, min(updated_at_ms) AS oldest \
                     FROM operation GROUP BY vendor, phase) \
                     SELECT vendor, phase, amount, oldest, coalesce(flagged.secrets, 0) \
                     FROM counted LEFT JOIN flagged USING (vendor, phase) ORDER BY vendor, phase";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Sqlite;

    /// How SQLite finds what a filter asks for, in its own words.
    fn plan(connection: &Connection, filter: &Filter) -> String {
        let (sql, mut values) = list_statement(filter);
        values.extend([Value::Integer(0), Value::Integer(2)]);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("prepares");
        let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        let steps: rusqlite::Result<Vec<String>> = rows.and_then(Iterator::collect);
        steps.expect("a plan").join("\n")
    }

    #[test]
    fn an_index_finds_keys_and_dead_letters_and_a_page_of_anything_else_is_in_order_as_it_is_read() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = directory.path().join("calls.db");
        drop(Sqlite::open(&path).expect("opens"));
        let connection = Connection::open(&path).expect("opens");
        let key = || Key::new("order-42").ok();
        let scope = || Some(Scope::from_stored("n/v/a/POST /x"));
        let dead = || Filter { phases: vec![Phase::Dead], ..Filter::default() };
        let by_name = "operation_name (scope=? AND key=?";
        let in_order = "USING INTEGER PRIMARY KEY (rowid>?)";
        let by_phase = "operation_dead";
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
