//! Resealing of rows: see [`seal_rows`](steadfast_core::internal::store::seal_rows).

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{
    Blobs, FoundRows, HEAD_BYTES, KeyId, Reseal, ResealedBatch, ResealedRow, RowReader, SEALED, read_blobs,
    seal_rows, start,
};
use steadfast_core::store::StoreError;

use super::Shared;
use super::row::{Reader, Value};
use super::transaction::{Decision, Transaction, in_transaction};

pub(super) async fn reseal(shared: &Arc<Shared>, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
    let key = shared.seals.needed()?;
    let found = find(shared, reseal, &key).await?;
    let (mut batch, rows) = seal_rows(found, &shared.seals);
    if reseal.dry_run || rows.is_empty() {
        return Ok(batch);
    }
    let (count, rows) = (rows.len() as u64, Arc::new(rows));
    let work = move |transaction: Transaction| {
        let rows = Arc::clone(&rows);
        async move {
            let ended = write(&transaction, &rows, &key).await;
            transaction.finish(ended).await
        }
    };
    let written = in_transaction(shared, work).await?;
    (batch.resealed, batch.changed) = (written, count.saturating_sub(written));
    Ok(batch)
}

async fn find(shared: &Arc<Shared>, reseal: &Reseal, key: &KeyId) -> Result<FoundRows, StoreError> {
    let schema = shared.connections.schema();
    // The sizes come first: they limit a batch, because a number of rows does not limit its bytes.
    let sql = format!(
        "WITH found AS MATERIALIZED (SELECT r.number, r.scope, r.key, octet_length(r.request) + \
         coalesce(octet_length(a.answer), 0) AS bytes FROM {schema}.request r LEFT JOIN {schema}.outcome a \
         USING (scope, key) WHERE r.number >= $1 AND (substr(r.request, 1, {HEAD_BYTES}) <> $2 \
         OR substr(a.answer, 1, {HEAD_BYTES}) <> $2) ORDER BY r.number LIMIT $3), \
         summed AS (SELECT *, sum(bytes) OVER (ORDER BY number) - bytes AS before, \
         count(*) OVER () AS amount FROM found) \
         SELECT r.number, r.scope, r.key, r.request, a.answer, f.amount FROM summed f JOIN {schema}.request r \
         ON r.scope = f.scope AND r.key = f.key LEFT JOIN {schema}.outcome a ON a.scope = f.scope AND a.key = f.key \
         WHERE f.before <= {BATCH_BYTES_MAX} ORDER BY r.number"
    );
    let head = [&[SEALED][..], key].concat();
    let rows_max = i64::try_from(reseal.rows_max.max(1)).unwrap_or(i64::MAX);
    let values: Vec<(super::read::Given, Type)> = vec![
        (Box::new(start(reseal.after.as_deref())? as i64), Type::INT8),
        (Box::new(head), Type::BYTEA),
        (Box::new(rows_max), Type::INT8),
    ];
    let (mut rows, mut amount) = (Vec::new(), 0_i64);
    for row in shared.query("look for operations to seal", sql, values).await? {
        let mut from = Reader::of(&row);
        rows.push(read_blobs(&mut from)?);
        amount = from.number()?;
    }
    let is_more = amount >= rows_max || (rows.len() as i64) < amount;
    let next = rows.last().filter(|_| is_more).map(|(number, ..)| (number + 1).to_string());
    Ok(FoundRows { rows, next })
}

/// Writes resealed rows. Returns how many had not changed meanwhile. Locks the rows of the operations first:
/// each change of a request or an answer locks its operation.
async fn write(
    transaction: &Transaction,
    rows: &[ResealedRow],
    key: &KeyId,
) -> Result<Decision<u64>, StoreError> {
    // A reader sees the same as before, so this is allowed in every stage of the store.
    transaction.lock(rows.iter().map(|row| &row.id), |_| Ok(())).await?;
    let schema = transaction.shared.connections.schema();
    let sql = format!(
        "WITH same AS MATERIALIZED (SELECT w.* FROM unnest($1, $2, $3, $4, $5, $6, $7) \
         AS w (number, scope, key, old_request, old_answer, request, answer) \
         JOIN {schema}.request r ON r.scope = w.scope AND r.key = w.key \
         LEFT JOIN {schema}.outcome a ON a.scope = w.scope AND a.key = w.key \
         WHERE r.number = w.number AND r.request = w.old_request AND a.answer IS NOT DISTINCT FROM w.old_answer), \
         requests AS (UPDATE {schema}.request r SET request = w.request FROM same w \
         WHERE r.scope = w.scope AND r.key = w.key), \
         answers AS (UPDATE {schema}.outcome a SET answer = w.answer FROM same w \
         WHERE a.scope = w.scope AND a.key = w.key AND w.answer IS NOT NULL), \
         noted AS (UPDATE {schema}.operation o SET seal = $8 FROM same w WHERE o.scope = w.scope AND o.key = w.key) \
         SELECT count(*) FROM same"
    );
    let number: Vec<i64> = rows.iter().map(|row| row.number).collect();
    let scope: Vec<&str> = rows.iter().map(|row| row.id.scope.as_str()).collect();
    let key_of: Vec<&str> = rows.iter().map(|row| row.id.key.as_str()).collect();
    let (old_request, old_answer) = columns(rows.iter().map(|row| &row.old));
    let (request, answer) = columns(rows.iter().map(|row| &row.new));
    let key = &key[..];
    let values: [Value<'_>; 8] = [
        (&number, Type::INT8_ARRAY),
        (&scope, Type::TEXT_ARRAY),
        (&key_of, Type::TEXT_ARRAY),
        (&old_request, Type::BYTEA_ARRAY),
        (&old_answer, Type::BYTEA_ARRAY),
        (&request, Type::BYTEA_ARRAY),
        (&answer, Type::BYTEA_ARRAY),
        (&key, Type::BYTEA),
    ];
    let written = transaction.query("seal operations", &sql, &values).await?;
    let written: i64 = Reader::first(&written)?.next()?;
    Ok(Decision::Commit(written.max(0) as u64))
}

/// Splits blobs into requests and answers.
fn columns<'a>(blobs: impl Iterator<Item = &'a Blobs>) -> (Vec<&'a [u8]>, Vec<Option<&'a [u8]>>) {
    blobs.map(|blobs| (&blobs.request[..], blobs.answer.as_deref())).unzip()
}

/// Maximum of bytes that are read at once, and one row more: the size of one commit.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
