//! Which keys a schema's rows need, in its table `seal_key`. What sealing is, and the rules: [`seals`](crate::store::seals).
//!
//! The table names every key that any row may need, from before the first row that it seals. No name is ever taken away:
//! a process with that key may be sealing with it. A key that is named and not at hand is looked for in the rows.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::row::{Reader, damaged};
use super::{Shared, outbox};
use crate::store::seals::{KEY_ID_BYTES, KeyId, SEALED, hex};
use crate::store::{StoreError, StoreErrorKind};

/// Whether everything in the schema can be read. Then names the key that this process seals with.
pub(super) async fn check(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let doing = "read which keys the schema is sealed with";
    let schema = shared.connections.schema();
    let named =
        shared.ask(doing, format!("SELECT id FROM {schema}.seal_key ORDER BY id"), Vec::new()).await?;
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
    let Some(own) = shared.seals.current() else { return Ok(()) };
    if named.iter().any(|row| Reader::of(row).next::<&[u8]>().is_ok_and(|id| id == own)) {
        return Ok(());
    }
    let sql = format!("INSERT INTO {schema}.seal_key (id) VALUES ($1) ON CONFLICT DO NOTHING");
    shared.ask("note the seal key", sql, vec![(Box::new(own.to_vec()), Type::BYTEA)]).await.map(drop)
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
    let rows = shared.ask("count the rows that a key seals", sql, values).await?;
    let operations: i64 = Reader::of(rows.first().ok_or_else(|| damaged("no answer"))?).next()?;
    Ok(operations + outbox::rows_sealed_with(shared, [&[SEALED][..], id].concat()).await?)
}
