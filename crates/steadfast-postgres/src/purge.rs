//! Removal of rows. Their highest fence stays, so that no key's fence ever goes back.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{RowReader, Standing};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::bounds::{self, ENDED};
use super::failure::failure;
use super::row::{Reader, Value};
use super::{Shared, standing};

/// Removes at most `limit` rows that have expired by the time that the store believes, in batches that are a
/// commit each. A claim waits for at most one batch, and only for one that removes its own rows.
///
/// Index entries before the last removed row are dead, and vacuum may not remove them for long. So each batch,
/// also of the next purge, begins where the one before has ended. See [`bounds`](super::bounds).
pub(super) async fn expired(shared: &Arc<Shared>, limit: usize) -> Result<usize, StoreError> {
    let mut removed = 0;
    while removed < limit {
        let batch = BATCH.min(limit - removed);
        let begun = shared.bounds.begin((ENDED, None), shared.time.instant());
        let PurgedBatch { rows, last, believed } = batch_of(shared, begun.from, batch).await?;
        let is_full = rows >= batch;
        shared.bounds.end(begun, shared.time.instant(), believed, last.filter(|_| is_full));
        bounds::search(shared);
        removed += rows;
        if !is_full {
            break;
        }
    }
    Ok(removed)
}

/// Result of a batch.
struct PurgedBatch {
    rows: usize,
    /// Time of expiry of the last removed row, in ms. `None` if none was removed.
    last: Option<i64>,
    /// Time by which a row had to have expired: the time that the store believes, or an hour before.
    believed: Timestamp,
}

async fn batch_of(shared: &Arc<Shared>, from: i64, batch: usize) -> Result<PurgedBatch, StoreError> {
    let own = Arc::clone(shared);
    shared
        .connections
        .run(async move {
            let batch = i64::try_from(batch).unwrap_or(i64::MAX);
            let values: [Value<'_>; 2] = [(&from, Type::INT8), (&batch, Type::INT8)];
            let client = own.connections.get().await?;
            let rows = client.query("purge", &own.statements.purge, &values).await?;
            let mut from = Reader::first(&rows)?;
            let (rows, last, now): (i64, _, _) = (from.next()?, from.next()?, from.time()?);
            own.time.record(now);
            let believed = from.time()?;
            standing::check(&mut from, Standing::check_new)?;
            Ok(PurgedBatch { rows: usize::try_from(rows).unwrap_or_default(), last, believed })
        })
        .await
}

/// Rewrites the tables, so that removed rows leave the disk. A writer to a table waits meanwhile.
///
/// The server skips a table that the role may not vacuum, and its warning does not reach a driver's caller. So
/// the table's file is compared: after a rewrite it is another one.
pub(super) async fn wipe(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let own = Arc::clone(shared);
    shared
        .connections
        .run(async move {
            let schema = own.connections.schema();
            let exclusive = own.connections.exclusive().await?;
            // One by one: VACUUM cannot run in a transaction.
            for table in ["outcome", "request", "operation", "outbox", "sequenced", "audit"] {
                let file = format!("SELECT pg_catalog.pg_relation_filenode('{schema}.{table}')");
                let before = file_of(&exclusive, &file).await?;
                let sql = format!("VACUUM (FULL) {schema}.{table}");
                exclusive.batch_execute(&sql).await.map_err(|error| failure(WIPE, error))?;
                if file_of(&exclusive, &file).await? == before {
                    let problem = format!(
                        "Postgres did not rewrite table {table}: only its owner may; run this as a member of the schema's \
                         owner (`steadfast migrate --roles` makes SCHEMA_owner)"
                    );
                    return Err(StoreError::new(problem).of_kind(StoreErrorKind::Denied));
                }
            }
            Ok(())
        })
        .await
}

async fn file_of(client: &Client, question: &str) -> Result<Option<u32>, StoreError> {
    let row = client.query_typed_one(question, &[]).await.map_err(|error| failure(WIPE, error))?;
    row.try_get(0).map_err(|error| failure(WIPE, error))
}

const WIPE: &str = "rewrite a table";

/// Rows that are removed in one commit, which takes some ten milliseconds.
const BATCH: usize = 500;
