//! Writes of a transaction, after the state machine has decided.

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{duration_ms, phase_number, redacted, to_fence, to_ms};
use steadfast_core::operation::record::{AuditEntry, Record};
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::store::StoreError;

use super::row::{Changes, Value};
use super::transaction::Within;

/// Updates rows from their records. Does not touch requests and answers.
pub(super) async fn update<'a>(
    within: &Within,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), StoreError> {
    let changes = Changes::of(records)?;
    within.ask("write transitions", &within.shared.statements.update, &changes.values()).await.map(drop)
}

/// Inserts the row and the request of a life of a key. Returns false if the name is taken.
pub(super) async fn start(within: &Within, record: &Record, request: &[u8]) -> Result<bool, StoreError> {
    let is_free = insert(within, record).await?;
    if is_free {
        write_request(within, (record, request), &within.shared.statements.insert_request).await?;
    }
    Ok(is_free)
}

/// Inserts the row without the request. Returns true if its name was free.
pub(super) async fn insert(within: &Within, record: &Record) -> Result<bool, StoreError> {
    let changes = Changes::of([record])?;
    let seal = within.shared.seals.current();
    let (vendor, seal) = (record.id.scope.vendor_path(), seal.as_ref().map(|id| &id[..]));
    let mut values = changes.values();
    values.extend([(&vendor as _, Type::TEXT), (&seal as _, Type::BYTEA)]);
    let added = within.ask("write a claim", &within.shared.statements.insert, &values).await?;
    Ok(!added.is_empty())
}

/// Begins another life of a key. The rows stay and the fence continues; all else is new, the log and the place
/// in a list too. Removes nothing, because the role of an app may not.
pub(super) async fn start_over(within: &Within, record: &Record, request: &[u8]) -> Result<(), StoreError> {
    let name: [Value<'_>; 2] =
        [(&record.id.scope.as_str(), Type::TEXT), (&record.id.key.as_str(), Type::TEXT)];
    let schema = within.shared.connections.schema();
    let sql =
        format!("UPDATE {schema}.outcome SET reports = '', answer = NULL WHERE scope = $1 AND key = $2");
    within.ask("clear the log of a key", &sql, &name).await?;
    update(within, [record]).await?;
    set_seal(within, &record.id).await?;
    let statement = &within.shared.statements.replace_request;
    write_request(within, (record, request), statement).await
}

/// Records the current key as the one that seals the request.
pub(super) async fn set_seal(within: &Within, id: &OperationId) -> Result<(), StoreError> {
    let seal = within.shared.seals.current();
    let seal = seal.as_ref().map(|id| &id[..]);
    let schema = within.shared.connections.schema();
    let sql = format!("UPDATE {schema}.operation SET seal = $3 WHERE scope = $1 AND key = $2");
    let values: [Value<'_>; 3] =
        [(&id.scope.as_str(), Type::TEXT), (&id.key.as_str(), Type::TEXT), (&seal, Type::BYTEA)];
    within.ask("record the seal key", &sql, &values).await.map(drop)
}

async fn write_request(
    within: &Within,
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
    within.ask("write a claim", statement, &values).await.map(drop)
}

/// Change of the stored answer.
#[derive(Clone, Copy)]
pub(super) enum OnFile<'a> {
    /// The answer stays as it is.
    Kept,
    /// The answer is replaced by this one, or removed.
    Now(Option<&'a [u8]>),
}

/// Adds to the log of an operation, and sets its answer.
pub(super) async fn outcome(
    within: &Within,
    id: &OperationId,
    reports: &str,
    answer: OnFile<'_>,
) -> Result<(), StoreError> {
    let (statements, doing) = (&within.shared.statements, "write an outcome");
    let (scope, key) = (id.scope.as_str(), id.key.as_str());
    let log: [Value<'_>; 3] = [(&scope, Type::TEXT), (&key, Type::TEXT), (&reports, Type::TEXT)];
    match answer {
        OnFile::Kept | OnFile::Now(None) if !reports.is_empty() => {
            within.ask(doing, &statements.append, &log).await?;
        }
        OnFile::Now(Some(answer)) => {
            let [scope, key, reports] = log;
            let values = [scope, key, reports, (&answer as _, Type::BYTEA)];
            within.ask(doing, &statements.answer, &values).await?;
        }
        OnFile::Kept | OnFile::Now(None) => {}
    }
    if matches!(answer, OnFile::Now(None)) { unanswer(within, [id]).await } else { Ok(()) }
}

/// Removes stored answers, where there are any.
pub(super) async fn unanswer<'a>(
    within: &Within,
    ids: impl IntoIterator<Item = &'a OperationId>,
) -> Result<(), StoreError> {
    let (scopes, keys): (Vec<_>, Vec<_>) =
        ids.into_iter().map(|id| (id.scope.as_str(), id.key.as_str())).unzip();
    let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
    within.ask("write transitions", &within.shared.statements.unanswer, &values).await.map(drop)
}

pub(super) async fn log(within: &Within, entry: &AuditEntry) -> Result<(), StoreError> {
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
    within.ask("write the audit record", &within.shared.statements.audit, &values).await.map(drop)
}
