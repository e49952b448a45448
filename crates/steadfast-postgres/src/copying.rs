//! Copies to and from another store: see [`copy`](crate::store::copy()). Also the terms of accounts.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{Head, Restore, Sealed, Standing, from_ms};
use steadfast_core::operation::record::Notes;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::Shared;
use super::row::{Reader, damaged};
use super::standing::{self, CLOSED};
use super::transaction::{Decision, TURNS_MAX, Transaction, in_transaction};

pub(super) async fn head(shared: &Arc<Shared>) -> Result<Head, StoreError> {
    let doing = "read the store's notes";
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT purged_fence, believed_ms, doubted_from_ms, doubted_to_ms, copy_state, (SELECT count(*) FROM {schema}.audit) \
         FROM {schema}.store_state, {schema}.clock"
    );
    let rows = shared.query(doing, sql, Vec::new()).await?;
    let mut from = Reader::of(rows.first().ok_or_else(|| damaged("the table of what was purged is empty"))?);
    let purged: i64 = from.next()?;
    let mut time = || Ok::<_, StoreError>(from.next::<Option<i64>>()?.map(from_ms));
    let notes = Notes { purged: purged.max(0) as u64, believed: time()?, doubted: time()?.zip(time()?) };
    let standing = standing_of(from.next()?)?;
    let audit: i64 = from.next()?;
    let rows = shared.query(doing, format!("SELECT path, terms FROM {schema}.account"), Vec::new()).await?;
    let mut accounts = BTreeMap::new();
    for row in &rows {
        let mut from = Reader::of(row);
        accounts.insert(from.next()?, from.next()?);
    }
    Ok(Head { standing, notes, audit: audit.max(0) as u64, accounts })
}

pub(super) async fn stand(
    shared: &Arc<Shared>,
    from: &Standing,
    to: &Standing,
) -> Result<Standing, StoreError> {
    let (from, to) = (from.clone(), to.clone());
    let work = move |transaction: Transaction| {
        let (from, to) = (from.clone(), to.clone());
        async move {
            let ended = stand_within(&transaction, &from, to).await;
            transaction.finish(ended).await
        }
    };
    in_transaction(shared, work).await
}

async fn stand_within(
    transaction: &Transaction,
    from: &Standing,
    to: Standing,
) -> Result<Decision<Standing>, StoreError> {
    let doing = "write the copy state";
    let schema = transaction.shared.connections.schema();
    transaction.run(doing, &standing::lock(schema)).await?;
    let there =
        transaction.query(doing, &format!("SELECT copy_state FROM {schema}.store_state"), &[]).await?;
    let there = standing_of(Reader::first(&there)?.next()?)?;
    if there != *from {
        return Ok(Decision::Commit(there));
    }
    // For transactions that read from one snapshot: see the migration.
    let sql = format!(
        "WITH closing AS (UPDATE {schema}.closing SET times = times + 1) UPDATE {schema}.store_state SET stage = $1, copy_state = $2"
    );
    let (stage, text) = (standing::number(to.stage), to.to_text()?);
    transaction.query(doing, &sql, &[(&stage, Type::INT2), (&text, Type::TEXT)]).await?;
    Ok(Decision::Commit(to))
}

fn standing_of(text: Option<&str>) -> Result<Standing, StoreError> {
    Ok(text.map(Standing::from_text).transpose()?.unwrap_or_default())
}

pub(super) async fn restore(shared: &Arc<Shared>, restore: Restore) -> Result<(), StoreError> {
    let restore = Arc::new(Sealed::of(restore, &shared.seals)?);
    let work = move |transaction: Transaction| {
        let restore = Arc::clone(&restore);
        async move {
            let ended = super::restore::write(&restore, &transaction).await.map(|()| Decision::Commit(()));
            transaction.finish(ended).await
        }
    };
    in_transaction(shared, work).await
}

/// Registers or removes the terms of an account. Of several processes at once, the first one registers.
pub(super) async fn register(
    shared: &Arc<Shared>,
    account: &str,
    terms: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let schema = shared.connections.schema();
    let path = || (Box::new(account.to_owned()) as super::read::Given, Type::TEXT);
    let Some(terms) = terms else {
        let sql = format!(
            "WITH gone AS (DELETE FROM {schema}.account a USING {schema}.store_state p WHERE a.path = $1 AND p.stage = 0 \
             RETURNING a.terms) SELECT {CLOSED}, (SELECT terms FROM gone) FROM {schema}.store_state p"
        );
        let rows = shared.query("remove the terms of an account", sql, vec![path()]).await?;
        let mut from = Reader::first(&rows)?;
        standing::check(&mut from, Standing::check_new)?;
        return from.next();
    };
    for _ in 0..TURNS_MAX {
        // Nearly always the row exists, and a role that may only read may read it.
        let sql = format!("SELECT terms FROM {schema}.account WHERE path = $1");
        let rows = shared.query("read the terms of an account", sql, vec![path()]).await?;
        if let Some(row) = rows.first() {
            return Reader::of(row).next().map(Some);
        }
        let sql = format!(
            "WITH added AS (INSERT INTO {schema}.account (path, terms) SELECT $1, $2 FROM {schema}.store_state p \
             WHERE p.stage = 0 ON CONFLICT (path) DO NOTHING RETURNING path) \
             SELECT {CLOSED}, EXISTS (SELECT FROM added) FROM {schema}.store_state p"
        );
        let values = vec![path(), (Box::new(terms.to_owned()) as _, Type::TEXT)];
        let rows = shared.query("write the terms of an account", sql, values).await?;
        let mut from = Reader::first(&rows)?;
        standing::check(&mut from, Standing::check_new)?;
        if from.next()? {
            return Ok(None);
        }
    }
    let problem = "other processes keep changing the terms of this account; retry";
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Locked))
}
