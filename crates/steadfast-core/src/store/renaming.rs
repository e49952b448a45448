//! Operations that go on under another name: see [`supersede`] and [`Record::adopted`]. The decisions about the rows
//! that a database has read are here; the writes are the database's own.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use super::StoreError;
use super::seals::{Part, Seals};
use super::stored::Stored;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::Obstacle;
use crate::operation::record::{AuditEntry, Forbidden, Notes, Record, supersede};
use crate::operation::{OperationId, Scope};

/// Effect of a claim on the operation that it starts over.
pub enum Superseding {
    /// The claim closes none, or finds a record of its own key, which is its answer.
    Nothing,
    /// The operation is closed, and this is written down.
    Close(Box<(Record, AuditEntry)>),
    InTheWay(Obstacle, Effect),
}

/// `held` is what is on record of the key of the claim `first`, and `old` what is on record of its predecessor. `notes` have
/// seen the claim's time, and say whether the two have expired.
pub fn superseding(
    first: &Record,
    held: Option<&Record>,
    old: Option<&Record>,
    notes: &Notes,
) -> Superseding {
    let now = first.claimed_at;
    let believed = notes.now(now);
    let held = held.filter(|held| !held.has_expired(believed));
    if held.is_some_and(|held| held.fingerprint != first.fingerprint) {
        return Superseding::Nothing;
    }
    match supersede(old, &first.id.key, (now, believed)) {
        Ok(Some(closed)) => Superseding::Close(Box::new(closed)),
        Err((obstacle, effect)) if held.is_none() => Superseding::InTheWay(obstacle, effect),
        Ok(None) | Err(_) => Superseding::Nothing,
    }
}

/// An operation under its new name.
pub struct AdoptedRow {
    pub record: Record,
    /// Sealed for that name, as the answer.
    pub request: Option<Vec<u8>>,
    pub answer: Option<Vec<u8>>,
}

/// `stored` under its name in the scope `to`, of which `held` is what is on record: not by the operator's clock alone, which
/// may be days ahead, it has expired.
pub fn adopted_row(
    stored: &Stored,
    (to, held): (&Scope, Option<&Record>),
    (now, notes): (Timestamp, &Notes),
    seals: &Seals,
) -> Result<Result<AdoptedRow, Forbidden>, StoreError> {
    if held.is_some_and(|held| !held.has_expired(notes.now(now))) {
        return Ok(Err(Forbidden::NameTaken));
    }
    let above = held.map_or(notes.purged, |held| notes.purged.max(held.fence));
    let record = match stored.record.adopted(to, now, above) {
        Ok(record) => record,
        Err(forbidden) => return Ok(Err(forbidden)),
    };
    let old: &OperationId = &stored.record.id;
    let seal_anew = |part, blob: &Option<Vec<u8>>| {
        blob.as_ref().map(|blob| seals.seal_anew(part, (old, &record.id), blob)).transpose()
    };
    let (request, answer) =
        (seal_anew(Part::Request, &stored.request)?, seal_anew(Part::Answer, &stored.answer)?);
    Ok(Ok(AdoptedRow { record, request, answer }))
}
