//! Rows as another store had them: [`Restore`], written in one transaction.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{
    Sealed, Standing, duration_ms, phase_number, redacted, to_fence, to_ms,
};
use steadfast_core::operation::Scope;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::row::{Changes, Reader, Value};
use super::sequence;
use super::transaction::Transaction;

pub(super) async fn write(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    begin(transaction, &restored.copy).await?;
    if !restored.audit.is_empty() && entries(transaction).await? != restored.audit_after {
        return Err(
            StoreError::new(steadfast_core::internal::store::AUDIT_MOVED).of_kind(StoreErrorKind::Locked)
        );
    }
    if !restored.gone.is_empty() {
        remove(restored, transaction).await?;
    }
    if !restored.rows.is_empty() {
        write_operations(restored, transaction).await?;
        write_requests(restored, transaction).await?;
        write_outcomes(restored, transaction).await?;
        enter_sequences(restored, transaction).await?;
    }
    if !restored.audit.is_empty() {
        write_audit(restored, transaction).await?;
    }
    if let Some(notes) = &restored.notes {
        let sql = format!(
            "UPDATE {}.store_state SET purged_fence = greatest(purged_fence, $1)",
            schema(transaction)
        );
        transaction.query(DOING, &sql, &[(&to_fence(notes.purged), Type::INT8)]).await?;
        // The restored records have times of the clock that the other store believed.
        let sql = format!(
            "UPDATE {}.clock SET believed_ms = $1, doubted_from_ms = $2, doubted_to_ms = $3",
            schema(transaction)
        );
        let (from, to) = notes.doubted.unzip();
        let times: [Option<i64>; 3] = [notes.believed, from, to].map(|time| time.map(to_ms));
        let values: [Value<'_>; 3] = times.each_ref().map(|time| (time as _, Type::INT8));
        transaction.query(DOING, &sql, &values).await?;
    }
    match &restored.accounts {
        Some(accounts) => write_accounts(transaction, accounts).await,
        None => Ok(()),
    }
}

async fn remove(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    let names = restored.gone.iter().map(|id| (id.scope.as_str(), id.key.as_str()));
    remove_from(transaction, &["operation", "request", "outcome"], names).await?;
    sequence::leave(transaction, restored.gone.iter()).await
}

/// Restores operations at their positions in sequences.
async fn enter_sequences(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    sequence::leave(transaction, restored.rows.iter().map(|row| &row.record.id)).await?;
    for row in &restored.rows {
        sequence::enter(transaction, &row.record).await?;
    }
    Ok(())
}

/// Writes operations, in place of those of the same names, which may be of another life.
async fn write_operations(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    let names = restored.rows.iter().map(|row| (row.record.id.scope.as_str(), row.record.id.key.as_str()));
    remove_from(transaction, &["operation", "outcome"], names).await?;
    let changes = Changes::of(restored.rows.iter().map(|row| &row.record))?;
    let vendors: Vec<&str> = restored.rows.iter().map(|row| row.record.id.scope.vendor_path()).collect();
    let seal = transaction.shared.seals.current();
    let seal = seal.as_ref().map(|id| &id[..]);
    let mut values = changes.values();
    values.extend([(&vendors as _, Type::TEXT_ARRAY), (&seal as _, Type::BYTEA)]);
    let (names, places) = (Changes::NAMES, Changes::PLACES);
    let sql = format!(
        "INSERT INTO {}.operation ({names}, wake_ms, vendor, seal) SELECT scope, key, phase::smallint, until_ms, \
         fence, attempts, effect::smallint, claimed_at_ms, updated_at_ms, on_unknown::smallint, detail::smallint, \
         status::smallint, resolved, unknown_since_ms, lookups, resends_left, attempt_max_ms, vendor_clock_ms, holder, \
         until_ms, vendor, $21 FROM unnest({places}, $20) AS c ({names}, vendor)",
        schema(transaction)
    );
    transaction.query(DOING, &sql, &values).await.map(drop)
}

/// Writes requests. A row keeps its number if its life is the same. The others get new numbers, in their order
/// here.
async fn write_requests(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    macro_rules! column {
        ($row:ident => $value:expr) => {
            restored.rows.iter().map(|$row| $value).collect::<Vec<_>>()
        };
    }
    let redact = restored.rows.iter().map(|row| redacted(&row.record));
    let redact = redact.collect::<Result<Vec<Option<String>>, StoreError>>()?;
    let scope = column!(row => row.record.id.scope.as_str());
    let key = column!(row => row.record.id.key.as_str());
    let keep = column!(row => duration_ms(row.record.keep));
    let first_fence = column!(row => to_fence(row.record.first_fence));
    let fingerprint = column!(row => &row.record.fingerprint.as_bytes()[..]);
    let wire_key = column!(row => &row.record.wire_key);
    let predecessor =
        column!(row => row.record.predecessor.as_ref().map(steadfast_core::operation::Key::as_str));
    let first_scope = column!(row => row.record.first_scope.as_ref().map(Scope::as_str));
    let request = column!(row => &row.request[..]);
    let values: [Value<'_>; 10] = [
        (&scope, Type::TEXT_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&keep, Type::INT8_ARRAY),
        (&first_fence, Type::INT8_ARRAY),
        (&fingerprint, Type::BYTEA_ARRAY),
        (&wire_key, Type::TEXT_ARRAY),
        (&redact, Type::TEXT_ARRAY),
        (&predecessor, Type::TEXT_ARRAY),
        (&first_scope, Type::TEXT_ARRAY),
        (&request, Type::BYTEA_ARRAY),
    ];
    let sql = format!(
        "INSERT INTO {}.request AS r (scope, key, retention_ms, first_fence, fingerprint, wire_key, redact, \
             predecessor, first_scope, request) SELECT scope, key, retention_ms, first_fence, fingerprint, wire_key, \
             redact, predecessor, first_scope, request FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
             WITH ORDINALITY AS c (scope, key, retention_ms, first_fence, fingerprint, wire_key, redact, predecessor, \
         first_scope, request, place) ORDER BY place ON CONFLICT (scope, key) DO UPDATE SET \
         number = CASE r.first_fence WHEN excluded.first_fence THEN r.number ELSE excluded.number END, \
             retention_ms = excluded.retention_ms, first_fence = excluded.first_fence, \
         fingerprint = excluded.fingerprint, wire_key = excluded.wire_key, redact = excluded.redact, \
         predecessor = excluded.predecessor, first_scope = excluded.first_scope, request = excluded.request",
        schema(transaction)
    );
    transaction.query(DOING, &sql, &values).await.map(drop)
}

async fn write_outcomes(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    let rows = || restored.rows.iter().filter(|row| row.answer.is_some() || !row.reports.is_empty());
    let scope: Vec<&str> = rows().map(|row| row.record.id.scope.as_str()).collect();
    let key: Vec<&str> = rows().map(|row| row.record.id.key.as_str()).collect();
    let reports: Vec<&str> = rows().map(|row| row.reports.as_str()).collect();
    let answer: Vec<Option<&[u8]>> = rows().map(|row| row.answer.as_deref()).collect();
    let sql = format!(
        "INSERT INTO {}.outcome (scope, key, reports, answer) SELECT * FROM unnest($1, $2, $3, $4)",
        schema(transaction)
    );
    let values: [Value<'_>; 4] = [
        (&scope, Type::TEXT_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&reports, Type::TEXT_ARRAY),
        (&answer, Type::BYTEA_ARRAY),
    ];
    transaction.query(DOING, &sql, &values).await.map(drop)
}

async fn write_audit(restored: &Sealed, transaction: &Transaction) -> Result<(), StoreError> {
    let actions = restored.audit.iter().map(|entry| serde_json::to_string(&entry.action));
    let actions = actions
        .collect::<Result<Vec<String>, _>>()
        .map_err(|error| StoreError::with_source("cannot serialize an action", error))?;
    let scope: Vec<&str> = restored.audit.iter().map(|entry| entry.id.scope.as_str()).collect();
    let key: Vec<&str> = restored.audit.iter().map(|entry| entry.id.key.as_str()).collect();
    let by: Vec<&str> = restored.audit.iter().map(|entry| entry.by.as_str()).collect();
    let why: Vec<&str> = restored.audit.iter().map(|entry| entry.why.as_str()).collect();
    let at: Vec<i64> = restored.audit.iter().map(|entry| to_ms(entry.at)).collect();
    let before: Vec<i64> = restored.audit.iter().map(|entry| phase_number(entry.before)).collect();
    let after: Vec<i64> = restored.audit.iter().map(|entry| phase_number(entry.after)).collect();
    let values: [Value<'_>; 8] = [
        (&scope, Type::TEXT_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&actions, Type::TEXT_ARRAY),
        (&by, Type::TEXT_ARRAY),
        (&why, Type::TEXT_ARRAY),
        (&at, Type::INT8_ARRAY),
        (&before, Type::INT8_ARRAY),
        (&after, Type::INT8_ARRAY),
    ];
    let sql = format!(
        "INSERT INTO {}.audit (scope, key, action, by, why, at_ms, before, after) SELECT scope, key, action, by, why, \
         at_ms, before::smallint, after::smallint FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY \
         AS e (scope, key, action, by, why, at_ms, before, after, place) ORDER BY place",
        schema(transaction)
    );
    transaction.query(DOING, &sql, &values).await.map(drop)
}

/// Begins a restore: one copy at a time, into a store that is set aside for it. Locks the table before the row,
/// as each change of the store's standing does: see [`standing::lock`](super::standing::lock).
async fn begin(transaction: &Transaction, copy: &str) -> Result<(), StoreError> {
    let schema = schema(transaction);
    let lock = format!(
        "LOCK TABLE {schema}.operation, {schema}.account IN ROW EXCLUSIVE MODE; SET LOCAL steadfast.copies = 'on'"
    );
    transaction.run(DOING, &lock).await?;
    let there = transaction
        .query(DOING, &format!("SELECT copy_state FROM {schema}.store_state FOR UPDATE"), &[])
        .await?;
    let text: Option<&str> = Reader::first(&there)?.next()?;
    text.map(Standing::from_text).transpose()?.unwrap_or_default().check_restore(copy)
}

/// Returns the number of entries in the audit record.
async fn entries(transaction: &Transaction) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM {}.audit", schema(transaction));
    let rows = transaction.query("count the audit record", &sql, &[]).await?;
    let count: i64 = Reader::first(&rows)?.next()?;
    Ok(count.max(0) as u64)
}

async fn remove_from<'a>(
    transaction: &Transaction,
    tables: &[&str],
    names: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), StoreError> {
    let (scopes, keys): (Vec<&str>, Vec<&str>) = names.unzip();
    let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
    for table in tables {
        let sql = format!(
            "DELETE FROM {}.{table} t USING unnest($1, $2) AS n (scope, key) WHERE t.scope = n.scope AND t.key = n.key",
            schema(transaction)
        );
        transaction.query(DOING, &sql, &values).await?;
    }
    Ok(())
}

async fn write_accounts(
    transaction: &Transaction,
    accounts: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    let schema = schema(transaction);
    transaction.query(DOING, &format!("DELETE FROM {schema}.account"), &[]).await?;
    let (paths, terms): (Vec<&str>, Vec<&str>) =
        accounts.iter().map(|(path, terms)| (path.as_str(), terms.as_str())).unzip();
    let sql = format!("INSERT INTO {schema}.account (path, terms) SELECT * FROM unnest($1, $2)");
    transaction.query(DOING, &sql, &[(&paths, Type::TEXT_ARRAY), (&terms, Type::TEXT_ARRAY)]).await.map(drop)
}

fn schema(transaction: &Transaction) -> &super::schema::Schema {
    transaction.shared.connections.schema()
}

const DOING: &str = "write copied records";
