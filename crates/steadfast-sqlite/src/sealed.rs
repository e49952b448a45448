//! Which keys a file's rows need, in its table `seal_key`. What sealing is, and the rules: [`seals`](crate::store::seals).
//!
//! The table names every key that any row may need. A key is put there in the transaction of each row that it seals,
//! and not once at the start. Another process may have retired it in the meantime, when no row used it.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{HEAD_BYTES, KEY_ID_BYTES, KeyId, SEALED, Seals, hex, needs_a_key};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::While;
use super::{facts, notes, outbox, rows};

/// The rows that this process can read, in SQL, for a list of rows. Those that it cannot read must not fill its
/// limit, or they would keep the others from their turn for ever.
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

/// The keys of this process, in SQL, to be looked for behind the first byte of a blob.
pub(super) fn keys_at_hand(seals: &Seals) -> String {
    let ids: Vec<String> = seals.ids().map(|id| format!("x'{}'", hex(&id))).collect();
    ids.join(", ")
}

/// Names a key that seals what the same transaction writes.
pub(super) const NOTE_KEY: &str = "INSERT INTO seal_key (id) VALUES (?1) ON CONFLICT DO NOTHING";

/// Before what these keys read is believed: has them read nothing in the clear if the file is sealed. A process without
/// a key was refused when it opened the file.
pub(super) fn learn(connection: &Connection, seals: &Seals) -> Result<(), StoreError> {
    if seals.current().is_some() && !seals.are_alone() && notes::is_sealed(connection)? {
        seals.stand_alone();
    }
    Ok(())
}

/// Notes that the file is sealed if no record is in the clear, within the transaction of a writer.
pub(super) fn note(connection: &Connection, seals: &Seals) -> Result<bool, StoreError> {
    notes::seal(connection, SEALED)?;
    learn(connection, seals)?;
    Ok(seals.are_alone())
}

/// At the opening: refuses a process without a key where the file is sealed. A file with nothing on record yet is sealed
/// from the start by a process that seals, if it is one that makes stores.
pub(super) fn opened(connection: &Connection, seals: &Seals, creates: bool) -> Result<(), StoreError> {
    match seals.current() {
        None if notes::is_sealed(connection)? => Err(needs_a_key()),
        Some(_) if creates && !facts::is_used(connection)? => note(connection, seals).map(drop),
        _ => learn(connection, seals),
    }
}

/// Names the key in the file that seals what this transaction writes. A process without a key writes nothing into a
/// file that is sealed.
pub(super) fn note_use(connection: &Connection, seals: &Seals) -> Result<(), StoreError> {
    let Some(id) = seals.current() else {
        return if notes::is_sealed(connection)? { Err(needs_a_key()) } else { Ok(()) };
    };
    learn(connection, seals)?;
    let doing = "note the seal key";
    rows::change(connection, doing, (NOTE_KEY, [&id[..]])).map(drop)
}

/// Whether everything in the file can be read. Gives the keys that are named there, are not at hand and are not
/// needed by any row. Reads every row once for each key that is not at hand, and takes no lock.
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

/// Forgets keys that no row needs, in one transaction. One that another process has used in the meantime stays,
/// and is an error.
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
        // The error at hand says more than one of the rollback would.
        let _ = connection.execute_batch("ROLLBACK");
    }
    retired
}

/// The keys that the file names and that are not at hand.
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
