//! Sealed rows: what this process can read of a file, and what of it is recorded there.
//!
//! A row that cannot be read is left to whoever can: it is neither claimed, nor taken, nor acted upon, so that its
//! fence, its lease and its effect stay what they were. Two processes of one service hold different keys for as
//! long as a rotation takes.
//!
//! The table `seal_key` names every key that any row may need. A key is put there in the transaction of each row
//! that it seals, and not once at the start: another process may have retired it in the meantime, when no row used
//! it.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::While;
use super::row::Stored;
use crate::operation::OperationId;
#[cfg(feature = "seal")]
use crate::store::seal::{SealKeyId, SealKeys, Unopened};
use crate::store::{StoreError, StoreErrorKind};

#[cfg(feature = "seal")]
pub(super) use crate::store::seal::Part;

/// Which of an operation's two blobs.
#[cfg(not(feature = "seal"))]
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Request,
    Answer,
}

/// What this process seals and unseals with: nothing, unless it was given keys. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Seals {
    #[cfg(feature = "seal")]
    keys: Option<SealKeys>,
}

#[cfg(feature = "seal")]
impl Seals {
    pub(super) fn with(keys: SealKeys) -> Seals {
        Seals { keys: Some(keys) }
    }

    /// `blob` as it is to be written.
    pub(super) fn seal(&self, part: Part, id: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some(keys) = &self.keys else { return Ok(blob) };
        let mut sealed = Vec::with_capacity(HEAD_BYTES + blob.len() + ROOM);
        sealed.push(SEALED);
        sealed.extend_from_slice(keys.current().as_bytes());
        keys.seal((part, id), &blob, &mut sealed)?;
        Ok(sealed)
    }

    /// `blob` as it was before it was sealed, if it was.
    pub(super) fn unseal(&self, part: Part, id: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some((key, sealed)) = head(&blob)? else { return Ok(blob) };
        let opened = match &self.keys {
            Some(keys) => keys.open(SealKeyId::from_bytes(*key), (part, id), sealed),
            None => Err(Unopened::NoKey),
        };
        opened.map_err(|unopened| match unopened {
            Unopened::NoKey => missing(key),
            Unopened::Broken => {
                let problem = format!(
                    "a stored {} does not open: it is not what was sealed, or was sealed for another operation",
                    match part {
                        Part::Request => "request",
                        Part::Answer => "answer",
                    }
                );
                StoreError::new(problem).of_kind(StoreErrorKind::Corrupt)
            }
        })
    }

    /// Whether the key `id` is at hand.
    fn has(&self, id: &KeyId) -> bool {
        self.ids().any(|own| own == *id)
    }

    fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys.iter().flat_map(SealKeys::ids).map(|id| *id.as_bytes())
    }

    fn current(&self) -> Option<KeyId> {
        self.keys.as_ref().map(|keys| *keys.current().as_bytes())
    }
}

#[cfg(not(feature = "seal"))]
impl Seals {
    /// `blob` as it is to be written.
    pub(super) fn seal(&self, _: Part, _: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        Ok(blob)
    }

    /// `blob` as it was before it was sealed, if it was.
    pub(super) fn unseal(&self, _: Part, _: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        match head(&blob)? {
            None => Ok(blob),
            Some((key, _)) => Err(missing(key)),
        }
    }

    /// Whether the key `id` is at hand.
    fn has(&self, _: &KeyId) -> bool {
        false
    }

    fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        std::iter::empty()
    }

    fn current(&self) -> Option<KeyId> {
        None
    }
}

impl Seals {
    /// Whether a row's key is at hand. Asked before anything is written to the row.
    pub(super) fn check_row(&self, stored: &Stored) -> Result<(), StoreError> {
        for blob in [&stored.request, &stored.answer].into_iter().flatten() {
            match head(blob)? {
                Some((key, _)) if !self.has(key) => return Err(missing(key)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The same in SQL, for a list of rows: those that cannot be read must not fill its limit, or they would keep
    /// the others from their turn for ever.
    pub(super) fn readable_rows(&self) -> String {
        let ids: Vec<String> = self.ids().map(|id| format!("x'{}'", hex(&id))).collect();
        format!(
            "AND (substr(request, 1, 1) <> x'{SEALED:02x}' OR substr(request, 2, {KEY_ID_BYTES}) IN ({}))",
            ids.join(", ")
        )
    }

    /// Names the key in the file that seals what this transaction writes.
    pub(super) fn note_use(&self, connection: &Connection) -> Result<(), StoreError> {
        let Some(id) = self.current() else { return Ok(()) };
        let doing = "note the seal key";
        let mut statement = connection
            .prepare_cached("INSERT INTO seal_key (id) VALUES (?1) ON CONFLICT DO NOTHING")
            .while_doing(doing)?;
        statement.execute([&id[..]]).while_doing(doing)?;
        Ok(())
    }

    /// Whether everything in the file can be read. Gives the keys that are named there, are not at hand and are not
    /// needed by any row. Reads every row once for each key that is not at hand, and takes no lock.
    pub(super) fn check_file(&self, connection: &Connection) -> Result<Vec<KeyId>, StoreError> {
        let (mut unused, mut needed) = (Vec::new(), Vec::new());
        for id in self.unknown(connection)? {
            match rows_sealed_with(connection, &id)? {
                0 => unused.push(id),
                rows => needed.push((id, rows)),
            }
        }
        if needed.is_empty() { Ok(unused) } else { Err(self.sealed(&needed)) }
    }

    /// Forgets keys that no row needs, in one transaction. One that another process has used in the meantime stays,
    /// and is an error.
    pub(super) fn retire(&self, connection: &Connection, unused: &[KeyId]) -> Result<(), StoreError> {
        if unused.is_empty() {
            return Ok(());
        }
        let doing = "forget a seal key";
        connection.execute_batch("BEGIN IMMEDIATE").while_doing(doing)?;
        let retired = self.check_file(connection).and_then(|unused| {
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

    /// The keys that the file names and that are not at hand. A file of the first schema names none.
    fn unknown(&self, connection: &Connection) -> Result<Vec<KeyId>, StoreError> {
        let doing = "read which keys the file is sealed with";
        let table = connection
            .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'seal_key'", [], |_| Ok(()))
            .optional()
            .while_doing(doing)?;
        if table.is_none() {
            return Ok(Vec::new());
        }
        let mut statement = connection.prepare("SELECT id FROM seal_key ORDER BY id").while_doing(doing)?;
        let ids: Vec<KeyId> =
            statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).while_doing(doing)?;
        Ok(ids.into_iter().filter(|id| !self.has(id)).collect())
    }

    fn sealed(&self, needed: &[(KeyId, i64)]) -> StoreError {
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
}

/// The key's id and what follows it, if `blob` is sealed.
fn head(blob: &[u8]) -> Result<Option<(&KeyId, &[u8])>, StoreError> {
    match blob.split_first() {
        Some((&SEALED, rest)) => rest.split_first_chunk().map(Some).ok_or_else(|| {
            StoreError::new("a sealed request or answer is cut short").of_kind(StoreErrorKind::Corrupt)
        }),
        _ => Ok(None),
    }
}

fn missing(key: &KeyId) -> StoreError {
    let problem = format!("the operation is sealed with the key {}, which was not given", hex(key));
    StoreError::new(problem).of_kind(StoreErrorKind::Sealed)
}

fn rows_sealed_with(connection: &Connection, id: &KeyId) -> Result<i64, StoreError> {
    let head = [&[SEALED][..], id].concat();
    connection
        .query_row(
            "SELECT count(*) FROM operation WHERE substr(request, 1, ?2) = ?1 OR substr(answer, 1, ?2) = ?1",
            params![head, HEAD_BYTES as i64],
            |row| row.get(0),
        )
        .while_doing("count the rows that a key seals")
}

fn hex(id: &KeyId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

type KeyId = [u8; KEY_ID_BYTES];

const KEY_ID_BYTES: usize = 8;

/// The version of a blob that is sealed.
const SEALED: u8 = 2;

/// Version and key id.
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES;

/// More than nonce and tag, so that one allocation does.
#[cfg(feature = "seal")]
const ROOM: usize = 64;

#[cfg(all(test, feature = "seal"))]
mod tests;
