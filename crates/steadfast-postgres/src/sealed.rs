//! Seal keys that a schema's rows need, in its table `seal_key`. For sealing and its rules, see
//! [`seals`](crate::store::seals).
//!
//! The table names every key that any row may need, from before the first row that it seals. No name is ever
//! removed: a process with that key may be sealing with it. If a named key was not given, the rows are searched
//! for it.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{KEY_ID_BYTES, KeyId, SEALED, Stored, hex, is_sealed, needs_a_key};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::row::{Reader, damaged};
use super::transaction::{Decision, Transaction, in_transaction};
use super::{Shared, outbox, place};

/// Checks that everything in the schema can be read. Then records the key that this process seals with.
pub(super) async fn check(shared: &Arc<Shared>, creates: bool) -> Result<(), StoreError> {
    refresh_seals(shared).await?;
    let doing = "read which keys the schema is sealed with";
    let schema = shared.connections.schema();
    let named =
        shared.query(doing, format!("SELECT id FROM {schema}.seal_key ORDER BY id"), Vec::new()).await?;
    let mut needed = Vec::new();
    for row in &named {
        let id: &[u8] = Reader::of(row).next()?;
        let id = KeyId::try_from(id).map_err(|_| damaged("no id of a key"))?;
        if shared.seals.has(&id) {
            continue;
        }
        let rows = sealed_with(shared, &id).await?;
        if rows > 0 {
            needed.push(format!("{rows} of its operations need the key {}", hex(&id)));
        }
    }
    if !needed.is_empty() {
        let mut problem = format!("the schema is sealed: {}, which was not given", needed.join(", "));
        if cfg!(not(feature = "seal")) {
            problem.push_str("; this build cannot unseal (feature `seal`)");
        }
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Sealed));
    }
    let Some(own) = shared.seals.current() else {
        return if is_recorded(shared).await? { Err(needs_a_key()) } else { Ok(()) };
    };
    if named.iter().any(|row| Reader::of(row).next::<&[u8]>().is_ok_and(|id| id == own)) {
        return Ok(());
    }
    let sql = format!("INSERT INTO {schema}.seal_key (id) VALUES ($1) ON CONFLICT DO NOTHING");
    shared.query("record the seal key", sql, vec![(Box::new(own.to_vec()), Type::BYTEA)]).await.map(drop)?;
    // The first key in a schema without a record: nothing was ever in the clear.
    if named.is_empty() && creates && !place::is_store_used(shared).await? {
        // Where the role may not, or another process holds a lock, `reseal` records it.
        let _ = record_sealed(shared).await;
    }
    Ok(())
}

async fn is_recorded(shared: &Arc<Shared>) -> Result<bool, StoreError> {
    let sql = format!("SELECT sealed FROM {}.store_state", shared.connections.schema());
    let rows = shared.query("read whether the schema is sealed", sql, Vec::new()).await?;
    Reader::first(&rows)?.next()
}

/// Updates the seal keys from the schema, before a blob is trusted: if the schema is sealed, they reject a blob
/// in the clear.
pub(super) async fn refresh_seals(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let may_be_new = shared.seals.current().is_some() && !shared.seals.are_alone();
    if may_be_new && is_recorded(shared).await? {
        shared.seals.stand_alone();
    }
    Ok(())
}

/// Form of [`refresh_seals`] for a row that was read: needed only for a blob in the clear, which is nearly never.
pub(super) async fn refresh_seals_for(shared: &Arc<Shared>, stored: &Stored) -> Result<(), StoreError> {
    let blobs = [&stored.request, &stored.answer];
    if blobs.into_iter().flatten().all(|blob| is_sealed(blob)) { Ok(()) } else { refresh_seals(shared).await }
}

/// Records that the schema is sealed, if no record is in the clear.
pub(super) async fn record_sealed(shared: &Arc<Shared>) -> Result<bool, StoreError> {
    let work = move |transaction: Transaction| async move {
        let ended = record_sealed_within(&transaction).await;
        transaction.finish(ended).await
    };
    let is_recorded = in_transaction(shared, work).await?;
    refresh_seals(shared).await?;
    Ok(is_recorded)
}

async fn record_sealed_within(transaction: &Transaction) -> Result<Decision<bool>, StoreError> {
    let doing = "note that the schema is sealed";
    let schema = transaction.shared.connections.schema();
    // Each writer of a request or an answer writes to this table before.
    transaction.run(doing, &format!("LOCK TABLE {schema}.operation IN EXCLUSIVE MODE")).await?;
    let rows = transaction.query(doing, &format!("SELECT {schema}.note_sealed()"), &[]).await?;
    Reader::first(&rows)?.next().map(Decision::Commit)
}

async fn sealed_with(shared: &Arc<Shared>, id: &KeyId) -> Result<i64, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT count(*) FROM {schema}.operation o LEFT JOIN {schema}.outcome a USING (scope, key) \
         WHERE o.seal = $1 OR substr(a.answer, 1, {}) = $2",
        1 + KEY_ID_BYTES
    );
    let head = [&[SEALED][..], id].concat();
    let values: Vec<(super::read::Given, Type)> =
        vec![(Box::new(id.to_vec()), Type::BYTEA), (Box::new(head), Type::BYTEA)];
    let rows = shared.query("count the rows that a key seals", sql, values).await?;
    let operations: i64 = Reader::first(&rows)?.next()?;
    Ok(operations + outbox::rows_sealed_with(shared, [&[SEALED][..], id].concat()).await?)
}
