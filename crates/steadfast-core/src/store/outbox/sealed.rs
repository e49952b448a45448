//! Rows of the outbox that are sealed with another than the current key, and are to be resealed.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use super::Account;
use super::form::sealed_for;
use crate::store::sealing::ResealedBatch;
use crate::store::seals::{Part, Seals};

/// Row as it is on file: its sealed part, and the operation that it is sealed for.
pub struct SealedRow {
    pub number: i64,
    pub account: Account,
    pub key: String,
    pub sealed: Vec<u8>,
}

/// Sealed bytes of a row, before and after.
pub struct Anew {
    pub number: i64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

/// Returns the rows to write. A row that cannot be read stays as it is. `limit` is how many rows were asked for.
pub fn sealed_anew(found: Vec<SealedRow>, limit: usize, seals: &Seals) -> (ResealedBatch, Vec<Anew>) {
    let next = found.last().filter(|_| found.len() >= limit).map(|row| (row.number + 1).to_string());
    let mut batch = ResealedBatch { next, ..ResealedBatch::default() };
    let mut rows = Vec::with_capacity(found.len());
    for SealedRow { number, account, key, sealed: old } in found {
        // A row whose key is none is rejected when a dispatcher comes to it, and can be read by nobody.
        let Some(id) = sealed_for(&account, &key) else { continue };
        batch.found += 1;
        let plain = seals.unseal(Part::Request, &id, old.clone());
        match plain.and_then(|plain| seals.seal(Part::Request, &id, plain)) {
            Ok(new) => rows.push(Anew { number, old, new }),
            Err(why) => batch.unreadable.push((id, why)),
        }
    }
    (batch, rows)
}

/// Number of rows that are read at once. A body may have megabytes.
pub const RESEALED_MAX: usize = 16;
