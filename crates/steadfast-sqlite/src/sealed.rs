//! Seal keys that a file's rows need, in its table `seal_key`. For sealing and its rules, see
//! [`seals`](crate::store::seals).
//!
//! The table names every key that any row may need. A key is added in the transaction of each row that it
//! seals, and not once at the start. Another process may have retired it in the meantime, when no row used it.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{HEAD_BYTES, KEY_ID_BYTES, KeyId, SEALED, Seals, hex, needs_a_key};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::ErrorContext;
use super::{facts, notes, outbox, rows};

/// Returns a condition for the rows that this process can read. Unreadable rows must not fill a list's limit,
/// or the others would never get their turn.
pub(super) fn readable_rows(seals: &Seals) -> String {
    if seals.are_alone() {
        return format!(
            "AND substr(request, 1, 1) = x'{SEALED:02x}' AND substr(request, 2, {KEY_ID_BYTES}) IN ({})",
            keys_at_hand(seals)
        );
    }
    format!(
        "AND (substr(request, 1, 1) <> x'{SEALED:02x}' OR substr(request, 2, {KEY_ID_BYTES}) IN ({}))",
        keys_at_hand(seals)
    )
}

/// Returns the IDs of this process's keys as a list in SQL, to compare with the bytes behind the first byte of
/// a blob.
pub(super) fn keys_at_hand(seals: &Seals) -> String {
    let ids: Vec<String> = seals.ids().map(|id| format!("x'{}'", hex(&id))).collect();
    ids.join(", ")
}

/// Adds the name of a key that seals rows of the same transaction.
pub(super) const NOTE_KEY: &str = "INSERT INTO seal_key (id) VALUES (?1) ON CONFLICT DO NOTHING";

/// Updates the seal keys from the file, before a blob is trusted: if the file is sealed, they reject a blob in
/// the clear. A process without a key was refused when it opened the file.
pub(super) fn refresh_seals(connection: &Connection, seals: &Seals) -> Result<(), StoreError> {
    if seals.current().is_some() && !seals.are_alone() && notes::is_sealed(connection)? {
        seals.stand_alone();
    }
    Ok(())
}

/// Records that the file is sealed if no record is in the clear, within the transaction of a writer.
pub(super) fn note(connection: &Connection, seals: &Seals) -> Result<bool, StoreError> {
    notes::seal(connection, SEALED)?;
    refresh_seals(connection, seals)?;
    Ok(seals.are_alone())
}

/// Checks a file at its opening: refuses a process without a key where the file is sealed. A file without
/// records is sealed from the start by a process that seals, if it is one that creates stores.
pub(super) fn opened(connection: &Connection, seals: &Seals, creates: bool) -> Result<(), StoreError> {
    match seals.current() {
        None if notes::is_sealed(connection)? => Err(needs_a_key()),
        Some(_) if creates && !facts::is_used(connection)? => note(connection, seals).map(drop),
        _ => refresh_seals(connection, seals),
    }
}

/// Adds the name of the key that seals this transaction's rows. A process without a key writes nothing into a
/// sealed file.
pub(super) fn note_use(connection: &Connection, seals: &Seals) -> Result<(), StoreError> {
    let Some(id) = seals.current() else {
        return if notes::is_sealed(connection)? { Err(needs_a_key()) } else { Ok(()) };
    };
    refresh_seals(connection, seals)?;
    let doing = "record the seal key";
    rows::change(connection, doing, (NOTE_KEY, [&id[..]])).map(drop)
}

/// Checks that everything in the file can be read. Returns the keys that the file names, that were not given,
/// and that no row needs. Reads every row once for each key that was not given, and takes no lock.
pub(super) fn check_file(connection: &Connection, seals: &Seals) -> Result<Vec<KeyId>, StoreError> {
    let (mut unused, mut needed) = (Vec::new(), Vec::new());
    for id in unknown(connection, seals)? {
        match rows_sealed_with(connection, &id)? {
            0 => unused.push(id),
            rows => needed.push((id, rows)),
        }
    }
    if needed.is_empty() { Ok(unused) } else { Err(refused(&needed)) }
}

/// Removes the names of keys that no row needs, in one transaction. A key that another process has used in the
/// meantime stays, and is an error.
pub(super) fn retire(connection: &Connection, seals: &Seals, unused: &[KeyId]) -> Result<(), StoreError> {
    if unused.is_empty() {
        return Ok(());
    }
    let doing = "forget a seal key";
    connection.execute_batch("BEGIN IMMEDIATE").while_doing(doing)?;
    let retired = check_file(connection, seals).and_then(|unused| {
        for id in unused {
            connection.execute("DELETE FROM seal_key WHERE id = ?1", [&id[..]]).while_doing(doing)?;
        }
        connection.execute_batch("COMMIT").while_doing(doing)
    });
    if retired.is_err() && !connection.is_autocommit() {
        // Returns this error: it is more precise than one of the rollback.
        let _ = connection.execute_batch("ROLLBACK");
    }
    retired
}

/// Returns the keys that the file names and that were not given.
fn unknown(connection: &Connection, seals: &Seals) -> Result<Vec<KeyId>, StoreError> {
    let doing = "read which keys the file is sealed with";
    let mut statement = connection.prepare("SELECT id FROM seal_key ORDER BY id").while_doing(doing)?;
    let ids: Vec<KeyId> =
        statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).while_doing(doing)?;
    Ok(ids.into_iter().filter(|id| !seals.has(id)).collect())
}

fn refused(needed: &[(KeyId, i64)]) -> StoreError {
    let keys: Vec<String> = needed
        .iter()
        .map(|(id, rows)| format!("{rows} of its operations need the key {}", hex(id)))
        .collect();
    let mut problem = format!("the file is sealed: {}, which was not given", keys.join(", "));
    if cfg!(not(feature = "seal")) {
        problem.push_str("; this build cannot unseal (feature `seal`)");
    }
    StoreError::new(problem).of_kind(StoreErrorKind::Sealed)
}

fn rows_sealed_with(connection: &Connection, id: &KeyId) -> Result<i64, StoreError> {
    let head = [&[SEALED][..], id].concat();
    let operations: i64 = connection
        .query_row(
            "SELECT count(*) FROM operation WHERE substr(request, 1, ?2) = ?1 OR substr(answer, 1, ?2) = ?1",
            params![head, HEAD_BYTES as i64],
            |row| row.get(0),
        )
        .while_doing("count the rows that a key seals")?;
    Ok(operations + outbox::rows_sealed_with(connection, &head)?)
}

#[cfg(all(test, feature = "seal"))]
mod tests;
