//! Operations that continue under another name: see [`renaming`](steadfast_core::internal::store::adopted_row).

use std::borrow::Cow;

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    AdoptedRow, Part, Seals, Stored, Superseding, adopted_row, superseding, to_fence,
};
use steadfast_core::operation::record::{Forbidden, Notes, Record};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::StoreError;

use super::row::{self, AnswerChange};
use super::statements::COPY;
use super::write::{self, ClaimResult};
use super::{notes, purge, rows, sealed, sequence};

/// Closes the operation that a claim supersedes. Returns the claim's result if that operation is an obstacle,
/// or cannot be read.
pub(super) fn supersede(
    connection: &Connection,
    first: &Record,
    predecessor: &Key,
    (notes, seals): (&Notes, &Seals),
) -> Result<Option<ClaimResult>, StoreError> {
    let held = row::load(connection, &first.id)?.map(|held| held.record);
    let old = row::load(connection, &OperationId::new(first.id.scope.clone(), predecessor.clone()))?;
    match superseding(first, held.as_ref(), old.as_ref().map(|old| &old.record), notes) {
        Superseding::InTheWay(obstacle, effect) => return Ok(Some(ClaimResult::InTheWay(obstacle, effect))),
        Superseding::Close(closed) => {
            if let Some(old) = old {
                if let Err(error) = old.check(seals) {
                    return Ok(Some(ClaimResult::Unreadable(error)));
                }
                row::update(connection, old.number, &closed.0, AnswerChange::Keep)?;
                write::append_audit(connection, &closed.1)?;
            }
        }
        Superseding::Nothing => {}
    }
    Ok(None)
}

/// Records an operation under its name in the scope `to`.
pub(super) fn adopt(
    connection: &Connection,
    stored: &Stored,
    (to, now): (&Scope, Timestamp),
    seals: &Seals,
) -> Result<Result<(), Forbidden>, StoreError> {
    let held = row::load(connection, &OperationId::new(to.clone(), stored.record.id.key.clone()))?;
    let notes = notes::read(connection)?;
    let adopted =
        match adopted_row(stored, (to, held.as_ref().map(|held| &held.record)), (now, &notes), seals)? {
            Ok(adopted) => adopted,
            Err(forbidden) => return Ok(Err(forbidden)),
        };
    if let Some(held) = held {
        notes::removed(connection, held.record.fence)?;
        purge::remove(connection, held.number)?;
    }
    sealed::note_use(connection, seals)?;
    copy(connection, stored.number, &adopted).map(Ok)
}

/// Settles the successors of an operation that has succeeded late, with this `answer`.
pub(super) fn settle_heirs(
    connection: &Connection,
    record: &Record,
    answer: Option<&[u8]>,
    seals: &Seals,
) -> Result<(), StoreError> {
    let (mut next, mut former) = (record.heir(), Cow::Borrowed(record));
    while let Some(id) = next
        && let Some(held) = row::load(connection, &id)?
        && let Some(heir) = held.record.settled_by(&former)
    {
        let answer = answer.map(|blob| seals.seal_anew(Part::Answer, (&record.id, &id), blob)).transpose()?;
        row::update(connection, held.number, &heir, AnswerChange::Set(answer.as_deref()))?;
        (next, former) = (heir.heir(), Cow::Owned(heir));
    }
    Ok(())
}

/// Adds a row beside the row `number`: the same operation under another name.
fn copy(connection: &Connection, number: i64, adopted: &AdoptedRow) -> Result<(), StoreError> {
    let doing = "write an operation under another name";
    let AdoptedRow { record, request, answer } = adopted;
    let values = params![
        number,
        record.id.scope.as_str(),
        record.id.scope.vendor_path(),
        request,
        answer,
        to_fence(record.first_fence),
        record.first_scope.as_ref().map(Scope::as_str),
    ];
    rows::change(connection, doing, (COPY, values))?;
    let copy = connection.last_insert_rowid();
    row::update(connection, copy, record, AnswerChange::Keep)?;
    sequence::enter(connection, copy, record)
}
