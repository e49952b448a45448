//! Reads of the outbox for operators and callers: why a row was rejected, which rows of a key wait, and which
//! are sealed with an older key.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use steadfast_core::internal::store::{
    Account, Anew, HEAD_BYTES, KeyId, SEALED, SealedRow, phase_number, read_queued, read_sealed_row,
};
use steadfast_core::operation::record::AuditEntry;
use steadfast_core::store::{Queued, StoreError};

use super::super::Shared;
use super::super::read::Given;
use super::super::row::Reader;

pub(super) async fn rejection(
    shared: &Arc<Shared>,
    account: &Account,
    key: &str,
) -> Result<Option<String>, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT CASE WHEN rejected_at_ms IS NOT NULL THEN coalesce(rejected, '') END FROM {schema}.outbox \
         WHERE namespace = $1 AND vendor = $2 AND account = $3 AND key = $4 ORDER BY rejected_at_ms IS NULL DESC, number DESC LIMIT 1"
    );
    let rows = shared.query("look for a rejected row of the outbox", sql, name(account, key)).await?;
    rows.first().map_or(Ok(None), |row| Reader::of(row).next())
}

/// Returns the rows under this key that were not rejected, without their bodies.
pub(super) async fn under_key(
    shared: &Arc<Shared>,
    account: &Account,
    key: &str,
) -> Result<Vec<Row>, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT number, method, path, key, headers, content_type, NULL::bytea, NULL::bigint, sealed, due_ms, on_unknown, \
         retention_ms, redact, supersedes, origin, sequence, on_dead_letter, enqueued_at_ms FROM {schema}.outbox \
         WHERE namespace = $1 AND vendor = $2 AND account = $3 AND key = $4 AND rejected_at_ms IS NULL ORDER BY number"
    );
    shared.query("look for the rows of a key in the outbox", sql, name(account, key)).await
}

/// Returns the values of `namespace`, `vendor`, `account` and `key`.
fn name(account: &Account, key: &str) -> Vec<(Given, Type)> {
    let own = |text: &str| -> (Given, Type) { (Box::new(text.to_owned()), Type::TEXT) };
    vec![own(&account.namespace), own(&account.vendor), own(&account.account), own(key)]
}

/// Returns the rows under this key, of all accounts.
pub(super) async fn of_key(shared: &Arc<Shared>, key: &str) -> Result<Vec<Queued>, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT number, namespace, vendor, account, method, path, enqueued_at_ms, due_ms, sequence, rejected \
         FROM {schema}.outbox WHERE key = $1 COLLATE \"C\" ORDER BY number"
    );
    let values: Vec<(Given, Type)> = vec![(Box::new(key.to_owned()), Type::TEXT)];
    let rows = shared.query("look for the rows of a key in the outbox", sql, values).await?;
    let read = rows.iter().map(|row| read_queued(&mut Reader::of(row), key));
    read.filter_map(Result::transpose).collect()
}

/// Removes a row. Returns true if it was there. Waits for a dispatcher that has locked it.
pub(super) async fn remove(
    shared: &Arc<Shared>,
    number: i64,
    entry: &AuditEntry,
) -> Result<bool, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "WITH gone AS (DELETE FROM {schema}.outbox WHERE number = $1 AND (SELECT stage FROM {schema}.store_state) = 0 \
         RETURNING number) \
         INSERT INTO {schema}.audit (scope, key, action, by, why, at_ms, before, after) \
         SELECT $2, $3, $4, $5, $6, {schema}.store_now(), $7::smallint, $8::smallint FROM gone RETURNING at_ms"
    );
    let action = serde_json::to_string(&entry.action)
        .map_err(|error| StoreError::with_source("cannot serialize an action", error))?;
    let text = |text: &str| -> (Given, Type) { (Box::new(text.to_owned()), Type::TEXT) };
    let phase = |phase| -> (Given, Type) { (Box::new(phase_number(phase)), Type::INT8) };
    let values: Vec<(Given, Type)> = vec![
        (Box::new(number), Type::INT8),
        text(entry.id.scope.as_str()),
        text(entry.id.key.as_str()),
        text(&action),
        text(&entry.by),
        text(&entry.why),
        phase(entry.before),
        phase(entry.after),
    ];
    let is_gone = !shared.query("remove a row of the outbox", sql, values).await?.is_empty();
    if !is_gone {
        shared.check_new().await?;
    }
    Ok(is_gone)
}

/// Returns the next rows that are not sealed with this key.
pub(super) async fn sealed_otherwise(
    shared: &Arc<Shared>,
    key: &KeyId,
    (from, limit): (i64, usize),
) -> Result<Vec<SealedRow>, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT number, namespace, vendor, account, key, sealed FROM {schema}.outbox \
         WHERE number >= $1 AND sealed IS NOT NULL AND substr(sealed, 1, {HEAD_BYTES}) <> $2 ORDER BY number LIMIT $3"
    );
    let values: Vec<(Given, Type)> = vec![
        (Box::new(from), Type::INT8),
        (Box::new([&[SEALED][..], key].concat()), Type::BYTEA),
        (Box::new(i64::try_from(limit).unwrap_or(i64::MAX)), Type::INT8),
    ];
    let rows = shared.query("look for rows of the outbox to seal", sql, values).await?;
    rows.iter().map(|row| read_sealed_row(&mut Reader::of(row))).collect()
}

/// Writes resealed rows. Returns how many had not changed meanwhile. The schema names the key since the store
/// was opened.
pub(super) async fn seal(shared: &Arc<Shared>, rows: Vec<Anew>) -> Result<u64, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "UPDATE {schema}.outbox o SET sealed = w.new FROM unnest($1, $2, $3) AS w (number, old, new) \
         WHERE o.number = w.number AND o.sealed = w.old RETURNING o.number"
    );
    let numbers: Vec<i64> = rows.iter().map(|row| row.number).collect();
    let (old, new): (Vec<_>, Vec<_>) = rows.into_iter().map(|row| (row.old, row.new)).unzip();
    let values: Vec<(Given, Type)> = vec![
        (Box::new(numbers), Type::INT8_ARRAY),
        (Box::new(old), Type::BYTEA_ARRAY),
        (Box::new(new), Type::BYTEA_ARRAY),
    ];
    Ok(shared.query("seal rows of the outbox", sql, values).await?.len() as u64)
}
