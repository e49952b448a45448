//! Resealing of rows, for a store whose rows are not at hand: found by a statement, sealed on the caller's task,
//! written in one commit.
//!
//! A row is to be written only if both its blobs are still those that were read. Nothing else of it is touched, so a
//! process that moves the operation meanwhile loses nothing, and neither does the row.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use super::StoreError;
use super::rows::RowReader;
use super::sealing::ResealedBatch;
use super::seals::{Part, Seals};
use crate::operation::OperationId;

/// A request, and an answer if there is one, as they are on file.
pub struct Blobs {
    pub request: Vec<u8>,
    pub answer: Option<Vec<u8>>,
}

impl Blobs {
    pub fn size(&self) -> usize {
        self.request.len() + self.answer.as_ref().map_or(0, Vec::len)
    }
}

/// Rows that are not sealed with the current key.
#[derive(Default)]
pub struct FoundRows {
    pub rows: Vec<(i64, OperationId, Blobs)>,
    /// Start of the next batch; `None` if this was the last.
    pub next: Option<String>,
}

/// A row with what is there and what is to be there.
pub struct ResealedRow {
    pub number: i64,
    pub id: OperationId,
    pub old: Blobs,
    pub new: Blobs,
}

/// Number, scope, key, request, answer.
pub fn read_blobs<'r>(row: &mut impl RowReader<'r>) -> Result<(i64, OperationId, Blobs), StoreError> {
    let (number, id) = (row.number()?, row.id()?);
    Ok((number, id, Blobs { request: row.bytes()?, answer: row.blob()?.map(<[u8]>::to_vec) }))
}

/// Returns the rows to write. A row that cannot be read stays as it is.
pub fn seal_rows(found: FoundRows, seals: &Seals) -> (ResealedBatch, Vec<ResealedRow>) {
    let mut batch =
        ResealedBatch { found: found.rows.len() as u64, next: found.next, ..ResealedBatch::default() };
    let mut rows = Vec::with_capacity(found.rows.len());
    for (number, id, old) in found.rows {
        let anew = |part, blob: &Vec<u8>| seals.seal(part, &id, seals.unseal(part, &id, blob.clone())?);
        let request = anew(Part::Request, &old.request);
        let answer = old.answer.as_ref().map(|blob| anew(Part::Answer, blob)).transpose();
        match request.and_then(|request| Ok(Blobs { request, answer: answer? })) {
            Ok(new) => rows.push(ResealedRow { number, id, old, new }),
            Err(why) => batch.unreadable.push((id, why)),
        }
    }
    (batch, rows)
}
