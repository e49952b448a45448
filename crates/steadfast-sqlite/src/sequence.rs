//! Sequences: see [`record::turn`](crate::operation::record::turn), and the migration for the table.
//!
//! What moves an operation of a sequence calls [`moved`] in the same transaction. What waits has no `until_ms`, so that
//! the index of what is due does not have it.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;

use steadfast_core::internal::store::{columns, numbers, to_ms};
use steadfast_core::operation::Key;
use steadfast_core::operation::record::{Phase, Place, Record, State, turn};
use steadfast_core::store::StoreError;

use super::failure::{While, damaged};

/// An operation's place as one column, null for most: with who has the turn, if it is another one. For a statement about
/// `operation`.
pub(super) const PLACE: &str = "(SELECT json_array(own.sequence, own.skips, own.position, own.at_ms, ahead.scope, \
     ahead.key, ahead.phase, ahead.until_ms) FROM sequenced AS own \
     LEFT JOIN sequenced AS other ON other.account = own.account AND other.sequence = own.sequence \
     AND other.turn = 1 AND other.operation <> own.operation \
     LEFT JOIN operation AS ahead ON ahead.number = other.operation WHERE own.operation = operation.number)";

/// What [`PLACE`] gives.
#[derive(Deserialize)]
struct Stored(String, i64, u64, Option<i64>, Option<String>, Option<String>, Option<i64>, Option<i64>);

/// Reads [`PLACE`]: the place, and when the operation is due, if it is scheduled.
pub(super) fn place(text: &str, column: usize) -> rusqlite::Result<(Box<Place>, Option<i64>)> {
    let stored: Stored = serde_json::from_str(text).map_err(|_| damaged(column, "no place in a sequence"))?;
    let Stored(name, skips, position, at, scope, key, phase, until) = stored;
    let place = columns::sequence_place((name, skips == 1, position), (scope, key, phase, until));
    Ok((place.map_err(|problem| damaged(column, problem))?, at))
}

/// A row that is new joins the end of its record's sequence, or takes the place of the one that it starts over. A copied
/// one has its position.
pub(super) fn enter(connection: &Connection, number: i64, record: &Record) -> Result<(), StoreError> {
    let Some(place) = &record.sequence else { return Ok(()) };
    let doing = "enter a sequence";
    let (account, name) = (record.id.scope.account_path(), place.sequence.name());
    let mut statement = connection.prepare_cached(ENTER).while_doing(doing)?;
    let predecessor = record.predecessor.as_ref().map(Key::as_str);
    let skips = place.sequence.skips_dead_letters();
    statement
        .execute(params![
            number,
            account,
            name,
            skips,
            record.id.scope.as_str(),
            predecessor,
            i64::try_from(place.position).unwrap_or(i64::MAX)
        ])
        .while_doing(doing)?;
    if matches!(record.state, State::Scheduled { .. }) {
        wait(connection, number)?;
    }
    moved(connection, number, record)
}

/// The place of a row.
pub(super) fn place_of(connection: &Connection, number: i64) -> Result<Option<Box<Place>>, StoreError> {
    let doing = "read a place in a sequence";
    let sql = format!("SELECT {PLACE} FROM operation WHERE number = ?1");
    let mut statement = connection.prepare_cached(&sql).while_doing(doing)?;
    let read = statement.query_row([number], |row| match row.get::<_, Option<String>>(0)? {
        Some(text) => place(&text, 0).map(|(place, _)| Some(place)),
        None => Ok(None),
    });
    read.while_doing(doing)
}

/// The row of a record in a sequence was brought in line with it: who holds the sequence, and whose turn it is.
pub(super) fn moved(connection: &Connection, number: i64, record: &Record) -> Result<(), StoreError> {
    let Some(place) = &record.sequence else { return Ok(()) };
    let doing = "write a place in a sequence";
    let at = match record.state {
        State::Scheduled { at } => Some(to_ms(at)),
        _ => None,
    };
    let mut statement = connection
        .prepare_cached("UPDATE sequenced SET holds = ?2, at_ms = ?3 WHERE operation = ?1")
        .while_doing(doing)?;
    statement.execute(params![number, record.holds_sequence(), at]).while_doing(doing)?;
    pass_turn(connection, record.id.scope.account_path(), place.sequence.name())
}

/// As [`moved`], by the record's name.
pub(super) fn moved_by_name(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    if record.sequence.is_none() || record.phase() == Phase::InProgress {
        return Ok(());
    }
    let doing = "find an operation of a sequence";
    let mut statement = connection
        .prepare_cached("SELECT number FROM operation WHERE scope = ?1 AND key = ?2")
        .while_doing(doing)?;
    let number = statement
        .query_row(params![record.id.scope.as_str(), record.id.key.as_str()], |row| row.get(0))
        .while_doing(doing)?;
    moved(connection, number, record)
}

/// A row is about to be removed.
pub(super) fn leave(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let doing = "leave a sequence";
    let mut statement = connection
        .prepare_cached("DELETE FROM sequenced WHERE operation = ?1 RETURNING account, sequence, turn")
        .while_doing(doing)?;
    let left = statement
        .query_row([number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .while_doing(doing)?;
    match left {
        Some((account, sequence, true)) => {
            let (account, sequence): (String, String) = (account, sequence);
            pass_turn(connection, &account, &sequence)
        }
        _ => Ok(()),
    }
}

/// Gives the turn to whom it belongs.
fn pass_turn(connection: &Connection, account: &str, sequence: &str) -> Result<(), StoreError> {
    let doing = "pass the turn of a sequence";
    let mut statement = connection.prepare_cached(TURN).while_doing(doing)?;
    let last: Option<(i64, bool, i64)> = statement
        .query_row([account, sequence], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .while_doing(doing)?;
    let mut statement = connection.prepare_cached(FIRST).while_doing(doing)?;
    let first = statement.query_row([account, sequence], |row| row.get(0)).optional().while_doing(doing)?;
    let phase = |number| numbers::phase(number).ok_or_else(|| StoreError::new("no such phase"));
    let current = match last {
        Some((number, true, its)) => Some((number, phase(its)?)),
        _ => None,
    };
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
        let mut statement = connection
            .prepare_cached(
                "UPDATE operation SET until_ms = (SELECT at_ms FROM sequenced WHERE operation = number) \
                 WHERE number = ?1 AND phase = 2",
            )
            .while_doing(doing)?;
        statement.execute([number]).while_doing(doing)?;
    }
    Ok(())
}

fn set_turn(connection: &Connection, number: i64, turn: bool) -> Result<(), StoreError> {
    let doing = "write whose turn it is";
    let mut statement = connection
        .prepare_cached("UPDATE sequenced SET turn = ?2 WHERE operation = ?1")
        .while_doing(doing)?;
    statement.execute(params![number, turn]).while_doing(doing)?;
    Ok(())
}

/// Takes what is scheduled out of the index of what is due.
fn wait(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let doing = "let an operation wait for its turn";
    let mut statement = connection
        .prepare_cached("UPDATE operation SET until_ms = NULL WHERE number = ?1 AND phase = 2")
        .while_doing(doing)?;
    statement.execute([number]).while_doing(doing)?;
    Ok(())
}

/// Adds a row: behind the last position, or at that of the operation of the same sequence with this name.
const ENTER: &str = "INSERT INTO sequenced (operation, account, sequence, position, skips, holds, turn, at_ms) \
             SELECT ?1, ?2, ?3, coalesce(nullif(?7, 0), \
             (SELECT position FROM sequenced WHERE account = ?2 AND sequence = ?3 AND operation = \
             (SELECT number FROM operation WHERE scope = ?5 AND key = ?6)), \
             (SELECT max(position) FROM sequenced WHERE account = ?2 AND sequence = ?3) + 1, 1), ?4, 0, 0, NULL";

/// Whose turn it is.
const TURN: &str = "SELECT operation, holds, phase FROM sequenced JOIN operation ON number = operation \
             WHERE sequenced.account = ?1 AND sequence = ?2 AND turn = 1";

/// The first of those that hold a sequence.
const FIRST: &str = "SELECT operation FROM sequenced WHERE account = ?1 AND sequence = ?2 AND holds = 1 \
             ORDER BY position LIMIT 1";

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;

    use super::*;
    use crate::Sqlite;

    /// A line of a hundred thousand, and a hundred thousand lines, cost what one does: nothing is read through.
    #[test]
    fn an_index_answers_what_a_sequence_is_asked() {
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
