//! Sequences: see [`record::turn`](crate::operation::record::turn), and the migration for the table.
//!
//! A change to an operation of a sequence calls [`operation_updated`] in the same transaction. A waiting operation has no
//! `until_ms`, so that it is not in the index of due operations.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{RowReader, damaged, read_place, to_ms};
use steadfast_core::operation::Key;
use steadfast_core::operation::record::{Phase, Place, Record, State, turn};
use steadfast_core::store::StoreError;

use super::rows;

/// An operation's place as one column, null for most, as [`read_place`] reads it. For a statement about
/// `operation`.
pub(super) const PLACE: &str = "(SELECT json_array(own.sequence, json(iif(own.skips, 'true', 'false')), own.position, \
     ahead.scope, ahead.key, ahead.phase, ahead.until_ms) FROM sequenced AS own \
     LEFT JOIN sequenced AS other ON other.account = own.account AND other.sequence = own.sequence \
     AND other.turn = 1 AND other.operation <> own.operation \
     LEFT JOIN operation AS ahead ON ahead.number = other.operation WHERE own.operation = operation.number)";

/// Enters a new row into its record's sequence: at the end, or in the place of the operation that it
/// supersedes. A copied row has its position.
pub(super) fn enter(connection: &Connection, number: i64, record: &Record) -> Result<(), StoreError> {
    let Some(place) = &record.sequence else { return Ok(()) };
    let doing = "enter a sequence";
    let (account, name) = (record.id.scope.account_path(), place.sequence.name());
    let predecessor = record.predecessor.as_ref().map(Key::as_str);
    let skips = place.sequence.skips_dead_letters();
    let values = params![
        number,
        account,
        name,
        skips,
        record.id.scope.as_str(),
        predecessor,
        i64::try_from(place.position).unwrap_or(i64::MAX)
    ];
    rows::change(connection, doing, (ENTER, values))?;
    if matches!(record.state, State::Scheduled { .. }) {
        wait(connection, number)?;
    }
    operation_updated(connection, number, record)
}

/// Returns the place of a row.
pub(super) fn place_of(connection: &Connection, number: i64) -> Result<Option<Box<Place>>, StoreError> {
    let doing = "read a place in a sequence";
    let sql = format!("SELECT {PLACE} FROM operation WHERE number = ?1");
    rows::first(connection, doing, (&sql, [number]), |row| read_place(row)).map(Option::flatten)
}

/// Updates the holding and the turn of a sequence, after the row of `record` was written.
pub(super) fn operation_updated(
    connection: &Connection,
    number: i64,
    record: &Record,
) -> Result<(), StoreError> {
    let Some(place) = &record.sequence else { return Ok(()) };
    let doing = "write a place in a sequence";
    let at = match record.state {
        State::Scheduled { at } => Some(to_ms(at)),
        _ => None,
    };
    let sql = "UPDATE sequenced SET holds = ?2, at_ms = ?3 WHERE operation = ?1";
    rows::change(connection, doing, (sql, params![number, record.holds_sequence(), at]))?;
    pass_turn(connection, record.id.scope.account_path(), place.sequence.name())
}

/// Form of [`operation_updated`] that finds the row by the record's name.
pub(super) fn operation_updated_by_name(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    if record.sequence.is_none() || record.phase() == Phase::InProgress {
        return Ok(());
    }
    let doing = "find an operation of a sequence";
    let sql = "SELECT number FROM operation WHERE scope = ?1 AND key = ?2";
    let name = [record.id.scope.as_str(), record.id.key.as_str()];
    let number = rows::first(connection, doing, (sql, name), |row| row.number())?;
    operation_updated(connection, number.ok_or_else(|| damaged("an operation has gone"))?, record)
}

/// Removes a row from its sequence, before the row is removed.
pub(super) fn leave(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let doing = "leave a sequence";
    let sql = "DELETE FROM sequenced WHERE operation = ?1 RETURNING account, sequence, turn";
    let left =
        rows::all(connection, doing, (sql, [number]), |row| Ok((row.string()?, row.string()?, row.flag()?)))?;
    match &left[..] {
        [(account, sequence, true)] => pass_turn(connection, account, sequence),
        _ => Ok(()),
    }
}

/// Gives the turn to the first operation that holds the sequence.
fn pass_turn(connection: &Connection, account: &str, sequence: &str) -> Result<(), StoreError> {
    let doing = "pass the turn of a sequence";
    let line = [account, sequence];
    let last =
        rows::first(connection, doing, (TURN, line), |row| Ok((row.number()?, row.flag()?, row.phase()?)))?;
    let first = rows::first(connection, doing, (FIRST, line), |row| row.number())?;
    let current = last.filter(|(_, holds, _)| *holds).map(|(number, _, phase)| (number, phase));
    let last = last.map(|(number, ..)| number);
    let next: Option<i64> = turn(current, first);
    if last == next {
        return Ok(());
    }
    if let Some(number) = last {
        set_turn(connection, number, false)?;
        wait(connection, number)?;
    }
    if let Some(number) = next {
        set_turn(connection, number, true)?;
        let sql = "UPDATE operation SET until_ms = (SELECT at_ms FROM sequenced WHERE operation = number) \
                   WHERE number = ?1 AND phase = 2";
        rows::change(connection, doing, (sql, [number]))?;
    }
    Ok(())
}

fn set_turn(connection: &Connection, number: i64, turn: bool) -> Result<(), StoreError> {
    let doing = "write whose turn it is";
    let sql = "UPDATE sequenced SET turn = ?2 WHERE operation = ?1";
    rows::change(connection, doing, (sql, params![number, turn])).map(drop)
}

/// Removes a scheduled operation from the index of due ones.
fn wait(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let doing = "move an operation out of the due ones";
    let sql = "UPDATE operation SET until_ms = NULL WHERE number = ?1 AND phase = 2";
    rows::change(connection, doing, (sql, [number])).map(drop)
}

/// Adds a row: behind the last position, or at that of the operation of the same sequence with this name.
const ENTER: &str = "INSERT INTO sequenced (operation, account, sequence, position, skips, holds, turn, at_ms) \
             SELECT ?1, ?2, ?3, coalesce(nullif(?7, 0), \
             (SELECT position FROM sequenced WHERE account = ?2 AND sequence = ?3 AND operation = \
             (SELECT number FROM operation WHERE scope = ?5 AND key = ?6)), \
             (SELECT max(position) FROM sequenced WHERE account = ?2 AND sequence = ?3) + 1, 1), ?4, 0, 0, NULL";

/// Reads the operation that has the turn.
const TURN: &str = "SELECT operation, holds, phase FROM sequenced JOIN operation ON number = operation \
             WHERE sequenced.account = ?1 AND sequence = ?2 AND turn = 1";

/// Reads the first operation that holds a sequence.
const FIRST: &str = "SELECT operation FROM sequenced WHERE account = ?1 AND sequence = ?2 AND holds = 1 \
             ORDER BY position LIMIT 1";

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;

    use super::*;
    use crate::Sqlite;

    /// A line of a hundred thousand, and a hundred thousand lines, cost as much as one: nothing is read
    /// through.
    #[test]
    fn an_index_serves_each_query_of_a_sequence() {
        let directory = support::in_memory::directory();
        let path = directory.path().join("calls.db");
        drop(Sqlite::open(&path).expect("opens"));
        let connection = Connection::open(&path).expect("opens");
        let due = format!(
            "SELECT number, {PLACE} FROM operation WHERE phase < 3 AND phase = ?1 AND until_ms <= ?2 \
             ORDER BY until_ms, number LIMIT 10"
        );
        let listed = "SELECT number FROM operation WHERE number IN (SELECT operation FROM sequenced WHERE sequence = ?1)";
        for (sql, values, expected) in [
            (ENTER, 7, "sequenced_position (account=? AND sequence=?"),
            (TURN, 2, "sequenced_turn (account=? AND sequence=?"),
            (FIRST, 2, "sequenced_holds (account=? AND sequence=?"),
            (&due, 2, "operation_open (phase=? AND until_ms<?"),
            (&due, 2, "sequenced_turn (account=? AND sequence=?"),
            (listed, 1, "sequenced_name (sequence=?"),
        ] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("prepares");
            let values = params_from_iter(std::iter::repeat_n("1", values));
            let rows = statement.query_map(values, |row| row.get::<_, String>(3));
            let steps: rusqlite::Result<Vec<String>> = rows.and_then(Iterator::collect);
            let plan = steps.expect("a plan").join("\n");
            assert!(plan.contains(expected), "{sql}:\n{plan}");
            for table in ["SCAN sequenced", "SCAN operation", "SCAN own", "SCAN other", "SCAN ahead"] {
                assert!(!plan.contains(table), "{sql}:\n{plan}");
            }
        }
    }
}
