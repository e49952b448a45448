//! Writes of a transaction, after the state machine has decided.

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{duration_ms, phase_number, redacted, to_fence, to_ms};
use steadfast_core::operation::record::{AuditEntry, Record};
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::store::StoreError;

use super::row::{Changes, Value};
use super::transaction::Transaction;

/// Updates rows from their records. Does not touch requests and answers.
pub(super) async fn update<'a>(
    transaction: &Transaction,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), StoreError> {
    let changes = Changes::of(records)?;
    transaction
        .query("write transitions", &transaction.shared.statements.update, &changes.values())
        .await
        .map(drop)
}

/// Inserts the row and the request of a life of a key. Returns false if the name is taken.
pub(super) async fn start(
    transaction: &Transaction,
    record: &Record,
    request: &[u8],
) -> Result<bool, StoreError> {
    let is_free = insert(transaction, record).await?;
    if is_free {
        write_request(transaction, (record, request), &transaction.shared.statements.insert_request).await?;
    }
    Ok(is_free)
}

/// Inserts the row without the request. Returns true if its name was free.
pub(super) async fn insert(transaction: &Transaction, record: &Record) -> Result<bool, StoreError> {
    let changes = Changes::of([record])?;
    let seal = transaction.shared.seals.current();
    let (vendor, seal) = (record.id.scope.vendor_path(), seal.as_ref().map(|id| &id[..]));
    let mut values = changes.values();
    values.extend([(&vendor as _, Type::TEXT), (&seal as _, Type::BYTEA)]);
    let added = transaction.query("write a claim", &transaction.shared.statements.insert, &values).await?;
    Ok(!added.is_empty())
}

/// Begins another life of a key. The rows stay and the fence continues; all else is new, the log and the place
/// in a list too. Removes nothing, because the role of an app may not.
pub(super) async fn restart(
    transaction: &Transaction,
    record: &Record,
    request: &[u8],
) -> Result<(), StoreError> {
    let name: [Value<'_>; 2] =
        [(&record.id.scope.as_str(), Type::TEXT), (&record.id.key.as_str(), Type::TEXT)];
    let schema = transaction.shared.connections.schema();
    let sql =
        format!("UPDATE {schema}.outcome SET reports = '', answer = NULL WHERE scope = $1 AND key = $2");
    transaction.query("clear the log of a key", &sql, &name).await?;
    update(transaction, [record]).await?;
    set_seal(transaction, &record.id).await?;
    let statement = &transaction.shared.statements.replace_request;
    write_request(transaction, (record, request), statement).await
}

/// Records the current key as the one that seals the request.
pub(super) async fn set_seal(transaction: &Transaction, id: &OperationId) -> Result<(), StoreError> {
    let seal = transaction.shared.seals.current();
    let seal = seal.as_ref().map(|id| &id[..]);
    let schema = transaction.shared.connections.schema();
    let sql = format!("UPDATE {schema}.operation SET seal = $3 WHERE scope = $1 AND key = $2");
    let values: [Value<'_>; 3] =
        [(&id.scope.as_str(), Type::TEXT), (&id.key.as_str(), Type::TEXT), (&seal, Type::BYTEA)];
    transaction.query("record the seal key", &sql, &values).await.map(drop)
}

async fn write_request(
    transaction: &Transaction,
    (record, request): (&Record, &[u8]),
    statement: &str,
) -> Result<(), StoreError> {
    let (fingerprint, redact) = (&record.fingerprint.as_bytes()[..], redacted(record)?);
    let predecessor = record.predecessor.as_ref().map(Key::as_str);
    let values: [Value<'_>; 9] = [
        (&record.id.scope.as_str(), Type::TEXT),
        (&record.id.key.as_str(), Type::TEXT),
        (&duration_ms(record.keep), Type::INT8),
        (&to_fence(record.first_fence), Type::INT8),
        (&fingerprint, Type::BYTEA),
        (&record.wire_key, Type::TEXT),
        (&redact, Type::TEXT),
        (&predecessor, Type::TEXT),
        (&request, Type::BYTEA),
    ];
    transaction.query("write a claim", statement, &values).await.map(drop)
}

/// Change of the stored answer.
#[derive(Clone, Copy)]
pub(super) enum AnswerChange<'a> {
    /// The answer stays as it is.
    Keep,
    /// The answer is replaced by this one, or removed.
    Set(Option<&'a [u8]>),
}

/// Adds to the log of an operation, and sets its answer.
pub(super) async fn outcome(
    transaction: &Transaction,
    id: &OperationId,
    reports: &str,
    answer: AnswerChange<'_>,
) -> Result<(), StoreError> {
    let (statements, doing) = (&transaction.shared.statements, "write an outcome");
    let (scope, key) = (id.scope.as_str(), id.key.as_str());
    let log: [Value<'_>; 3] = [(&scope, Type::TEXT), (&key, Type::TEXT), (&reports, Type::TEXT)];
    match answer {
        AnswerChange::Keep | AnswerChange::Set(None) if !reports.is_empty() => {
            transaction.query(doing, &statements.append, &log).await?;
        }
        AnswerChange::Set(Some(answer)) => {
            let [scope, key, reports] = log;
            let values = [scope, key, reports, (&answer as _, Type::BYTEA)];
            transaction.query(doing, &statements.answer, &values).await?;
        }
        AnswerChange::Keep | AnswerChange::Set(None) => {}
    }
    if matches!(answer, AnswerChange::Set(None)) { clear_answers(transaction, [id]).await } else { Ok(()) }
}

/// Removes stored answers, where there are any.
pub(super) async fn clear_answers<'a>(
    transaction: &Transaction,
    ids: impl IntoIterator<Item = &'a OperationId>,
) -> Result<(), StoreError> {
    let (scopes, keys): (Vec<_>, Vec<_>) =
        ids.into_iter().map(|id| (id.scope.as_str(), id.key.as_str())).unzip();
    let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
    transaction
        .query("write transitions", &transaction.shared.statements.clear_answers, &values)
        .await
        .map(drop)
}

pub(super) async fn append_audit(transaction: &Transaction, entry: &AuditEntry) -> Result<(), StoreError> {
    let action = serde_json::to_string(&entry.action)
        .map_err(|error| StoreError::with_source("cannot serialize an action", error))?;
    let small = |number: i64| i16::try_from(number).unwrap_or_default();
    let values: [Value<'_>; 8] = [
        (&entry.id.scope.as_str(), Type::TEXT),
        (&entry.id.key.as_str(), Type::TEXT),
        (&action, Type::TEXT),
        (&entry.by, Type::TEXT),
        (&entry.why, Type::TEXT),
        (&to_ms(entry.at), Type::INT8),
        (&small(phase_number(entry.before)), Type::INT2),
        (&small(phase_number(entry.after)), Type::INT2),
    ];
    transaction.query("write the audit record", &transaction.shared.statements.audit, &values).await.map(drop)
}
