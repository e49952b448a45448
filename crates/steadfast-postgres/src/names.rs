//! Operations that continue under another name: see [`renaming`](steadfast_core::internal::store::adopted_row).

use std::borrow::Cow;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    AdoptedRow, Part, Standing, Stored, Superseding, adopted_row, superseding, to_fence,
};
use steadfast_core::operation::record::{Claimed, Forbidden, Notes, Record};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::StoreError;

use super::row::Value;
use super::sequence;
use super::transaction::Transaction;
use super::write::{self, AnswerChange};

/// Closes the operation that the claim `first` supersedes. Returns the obstacle, if the claim would be the
/// first of its key. `held` is the record of that key; `notes` decide if the two have expired.
pub(super) async fn supersede<'a>(
    transaction: &Transaction,
    (first, held): (&Record, Option<&'a Stored>),
    (old, notes): (Option<&'a Stored>, &Notes),
) -> Result<Option<Claimed>, StoreError> {
    let record = |stored: &'a Stored| &stored.record;
    match superseding(first, held.map(record), old.map(record), notes) {
        Superseding::InTheWay(obstacle, effect) => return Ok(Some(Claimed::InTheWay { obstacle, effect })),
        Superseding::Close(closed) => {
            if let Some(old) = old {
                let (closed, entry) = *closed;
                old.check(&transaction.shared.seals)?;
                write::update(transaction, [&closed]).await?;
                sequence::operation_updated(transaction, &closed).await?;
                write::append_audit(transaction, &entry).await?;
            }
        }
        Superseding::Nothing => {}
    }
    Ok(None)
}

/// Result of recording an operation under another name.
pub(super) enum Adopted {
    Done,
    Forbidden(Forbidden),
    /// Another process has taken the name in the meantime.
    Again,
}

/// Records an operation under its name in the scope `to`. `held` is the record that has this name.
pub(super) async fn adopt(
    transaction: &Transaction,
    stored: &Stored,
    (to, held): (&Scope, Option<Stored>),
    (now, notes): (Timestamp, &Notes),
) -> Result<Adopted, StoreError> {
    let held = held.as_ref().map(|held| &held.record);
    let adopted = match adopted_row(stored, (to, held), (now, notes), &transaction.shared.seals)? {
        Ok(adopted) => adopted,
        Err(forbidden) => return Ok(Adopted::Forbidden(forbidden)),
    };
    let AdoptedRow { record, request, answer } = adopted;
    remove(transaction, &record.id).await?;
    if !write::insert(transaction, &record).await? {
        return Ok(Adopted::Again);
    }
    copy(transaction, (&stored.record.id, &record), (request.as_deref(), answer.as_deref())).await?;
    sequence::enter(transaction, &record).await?;
    Ok(Adopted::Done)
}

/// Settles the successors of an operation that has succeeded late, with this `answer`.
pub(super) async fn settle_heirs(
    transaction: &Transaction,
    record: &Record,
    answer: Option<&[u8]>,
) -> Result<(), StoreError> {
    let (mut next, mut former) = (record.heir(), Cow::Borrowed(record));
    while let Some(id) = next
        && let Some(held) = transaction.lock([&id], Standing::check_held).await?.remove(&id)
        && let Some(heir) = held.record.settled_by(&former)
    {
        let seals = &transaction.shared.seals;
        let answer = answer.map(|blob| seals.seal_anew(Part::Answer, (&record.id, &id), blob)).transpose()?;
        write::update(transaction, [&heir]).await?;
        write::outcome(transaction, &id, "", AnswerChange::Set(answer.as_deref())).await?;
        sequence::operation_updated(transaction, &heir).await?;
        (next, former) = (heir.heir(), Cow::Owned(heir));
    }
    Ok(())
}

/// Removes an expired record.
async fn remove(transaction: &Transaction, id: &OperationId) -> Result<(), StoreError> {
    let schema = transaction.shared.connections.schema();
    let name: [Value<'_>; 2] = [(&id.scope.as_str(), Type::TEXT), (&id.key.as_str(), Type::TEXT)];
    for table in ["operation", "request", "outcome", "sequenced"] {
        let sql = format!("DELETE FROM {schema}.{table} WHERE scope = $1 AND key = $2");
        transaction.query("remove expired records", &sql, &name).await?;
    }
    Ok(())
}

/// Copies the request and the log from the old name of `record` to its new one, with these blobs.
async fn copy(
    transaction: &Transaction,
    (old, record): (&OperationId, &Record),
    (request, answer): (Option<&[u8]>, Option<&[u8]>),
) -> Result<(), StoreError> {
    let (schema, doing) = (transaction.shared.connections.schema(), "write an operation under another name");
    let (scope, key, to) = (old.scope.as_str(), old.key.as_str(), record.id.scope.as_str());
    let first_scope = record.first_scope.as_ref().map(Scope::as_str);
    let sql = format!(
        "INSERT INTO {schema}.request (retention_ms, first_fence, scope, key, fingerprint, wire_key, redact, \
         predecessor, first_scope, request) SELECT retention_ms, $4, $3, key, fingerprint, wire_key, redact, \
         predecessor, $5, $6 FROM {schema}.request WHERE scope = $1 AND key = $2"
    );
    let values: [Value<'_>; 6] = [
        (&scope, Type::TEXT),
        (&key, Type::TEXT),
        (&to, Type::TEXT),
        (&to_fence(record.first_fence), Type::INT8),
        (&first_scope, Type::TEXT),
        (&request, Type::BYTEA),
    ];
    transaction.query(doing, &sql, &values).await?;
    let sql = format!(
        "INSERT INTO {schema}.outcome (scope, key, reports, answer) SELECT $3, key, reports, $4 \
         FROM {schema}.outcome WHERE scope = $1 AND key = $2"
    );
    let values: [Value<'_>; 4] =
        [(&scope, Type::TEXT), (&key, Type::TEXT), (&to, Type::TEXT), (&answer, Type::BYTEA)];
    transaction.query(doing, &sql, &values).await.map(drop)
}
