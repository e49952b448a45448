//! Operations that go on under another name: see [`crate::operation::record::supersede`] and [`Record::adopted`].

use std::borrow::Cow;

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Part, Seals, Stored, to_fence};
use steadfast_core::operation::record::{Forbidden, Notes, Record};
use steadfast_core::operation::{Key, OperationId, Scope, record};
use steadfast_core::store::StoreError;
use steadfast_core::{Effect, Obstacle};

use super::failure::While;
use super::row::{self, OnFile};
use super::statements::COPY;
use super::{notes, purge, sealed, sequence, write};

/// What became of the predecessor that a claim names.
pub(super) enum Superseded {
    /// It is closed, if there was anything to close.
    Done,
    InTheWay(Obstacle, Effect),
    Unreadable(StoreError),
}

/// `notes` have seen the claim's time, and say whether the key's own record and its predecessor's have expired.
pub(super) fn supersede(
    connection: &Connection,
    record: &Record,
    predecessor: &Key,
    (notes, seals): (&Notes, &Seals),
) -> Result<Superseded, StoreError> {
    let (now, id) = (record.claimed_at, &record.id);
    let believed = notes.now(now);
    let held = row::load(connection, id)?.filter(|held| !held.record.has_expired(believed));
    if held.as_ref().is_some_and(|held| held.record.fingerprint != record.fingerprint) {
        return Ok(Superseded::Done);
    }
    let old = row::load(connection, &OperationId::new(id.scope.clone(), predecessor.clone()))?;
    match record::supersede(old.as_ref().map(|old| &old.record), &id.key, (now, believed)) {
        Ok(Some((closed, entry))) => {
            if let Some(old) = old {
                if let Err(error) = old.check(seals) {
                    return Ok(Superseded::Unreadable(error));
                }
                row::update(connection, old.number, &closed, OnFile::Kept)?;
                write::log(connection, &entry)?;
            }
            Ok(Superseded::Done)
        }
        Err((obstacle, effect)) if held.is_none() => Ok(Superseded::InTheWay(obstacle, effect)),
        Ok(None) | Err(_) => Ok(Superseded::Done),
    }
}

/// Writes an operation down under its name in the scope `to`.
pub(super) fn adopt(
    connection: &Connection,
    stored: &Stored,
    (to, now): (&Scope, Timestamp),
    seals: &Seals,
) -> Result<Result<(), Forbidden>, StoreError> {
    let old = &stored.record.id;
    let id = OperationId::new(to.clone(), old.key.clone());
    if let Some(held) = row::load(connection, &id)? {
        // Not by the operator's clock alone, which may be days ahead.
        if !held.record.has_expired(notes::read(connection)?.now(now)) {
            return Ok(Err(Forbidden::NameTaken));
        }
        notes::removed(connection, held.record.fence)?;
        purge::remove(connection, held.number)?;
    }
    let record = match stored.record.adopted(to, now, notes::read(connection)?.purged) {
        Ok(record) => record,
        Err(forbidden) => return Ok(Err(forbidden)),
    };
    let seal_anew = |part, blob: &Vec<u8>| seals.seal_anew(part, (old, &id), blob);
    let request = stored.request.as_ref().map(|blob| seal_anew(Part::Request, blob)).transpose()?;
    let answer = stored.answer.as_ref().map(|blob| seal_anew(Part::Answer, blob)).transpose()?;
    sealed::note_use(connection, seals)?;
    copy(connection, stored.number, &record, (request.as_deref(), answer.as_deref()))?;
    Ok(Ok(()))
}

/// Settles what carries on under other names an operation that has succeeded late, with this `answer`.
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
        row::update(connection, held.number, &heir, OnFile::Now(answer.as_deref()))?;
        (next, former) = (heir.heir(), Cow::Owned(heir));
    }
    Ok(())
}

/// Adds a row beside the row `number`: the same operation under the name of `record`, with these blobs.
fn copy(
    connection: &Connection,
    number: i64,
    record: &Record,
    (request, answer): (Option<&[u8]>, Option<&[u8]>),
) -> Result<(), StoreError> {
    let doing = "write an operation under another name";
    let mut statement = connection.prepare_cached(COPY).while_doing(doing)?;
    statement
        .execute(params![
            number,
            record.id.scope.as_str(),
            record.id.scope.vendor_path(),
            request,
            answer,
            to_fence(record.first_fence),
            record.first_scope.as_ref().map(Scope::as_str),
        ])
        .while_doing(doing)?;
    let copy = connection.last_insert_rowid();
    row::update(connection, copy, record, OnFile::Kept)?;
    sequence::enter(connection, copy, record)
}
