//! The outbox: one table, which the callers' transactions write to by the schema's functions.
//!
//! A row is admitted in one transaction: it is locked, its operation is claimed, and it is removed. A row that
//! another dispatcher has locked is skipped: that dispatcher admits it, or a later look finds it again.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    Account, Database, Outbox, OutboxRow, RESEALED_MAX, ROWS_MAX, Reseal, ResealedBatch, Statement, Value,
    page, read_outbox, read_outbox_tally, read_rejected, sealed_anew, sealed_bytes, spares, start, to_ms,
    values, whole,
};
use steadfast_core::operation::record::{AuditEntry, Claim, Claimed, Page};
use steadfast_core::store::{OutboxTally, Queued, Rejected, StoreError};

use super::read::Given;
use super::row::Reader;
use super::schema::Schema;
use super::{Postgres, Shared, claim, place};

mod aside;

#[async_trait]
impl Outbox for Postgres {
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        // The schema names the key since the store was opened.
        let seals = &self.0.seals;
        let sealed = seals.current().map(|_| sealed_bytes(seals, account, row)).transpose()?;
        let mut values = values(account, row, sealed);
        // The server sets the time of enqueuing.
        values.pop();
        let schema = self.0.connections.schema();
        let sql = format!(
            "SELECT {schema}.put_in_outbox($1, $2, $3, $4, $5, $6, $7, NULL, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
             $17)"
        );
        Ok(vec![Statement { database: Database::Postgres, sql: Cow::Owned(sql), values }])
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        // The statement is one, and so a transaction of its own.
        for Statement { sql, values, .. } in statements {
            let given = |value| -> (Given, Type) {
                match value {
                    Value::Integer(value) => (Box::new(value), Type::INT8),
                    Value::Text(value) => (Box::new(value), Type::TEXT),
                    Value::Bytes(value) => (Box::new(value.map(|bytes| bytes.to_vec())), Type::BYTEA),
                }
            };
            let values = values.into_iter().map(given).collect();
            self.0.query("write a row of the outbox", sql.into_owned(), values).await?;
        }
        Ok(())
    }

    async fn holds_back(&self, account: &Account, sequence: &str) -> Result<bool, StoreError> {
        let own = |text: &str| -> (Given, Type) { (Box::new(text.to_owned()), Type::TEXT) };
        let values =
            vec![own(&account.namespace), own(&account.vendor), own(&account.account), own(sequence)];
        let schema = self.0.connections.schema();
        let sql = format!(
            "SELECT EXISTS (SELECT FROM {schema}.outbox WHERE namespace = $1 AND vendor = $2 AND account = $3 \
             AND sequence = $4 AND (rejected_at_ms IS NULL OR on_dead_letter = 'hold'))"
        );
        let rows = self.0.query("look for a sequence in the outbox", sql, values).await?;
        Reader::first(&rows)?.next()
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        let column = |part: fn(&Account) -> &String| -> (Given, Type) {
            (
                Box::new(accounts.iter().map(|account| part(account).clone()).collect::<Vec<_>>()),
                Type::TEXT_ARRAY,
            )
        };
        let values = vec![column(|of| &of.namespace), column(|of| &of.vendor), column(|of| &of.account)];
        let schema = self.0.connections.schema();
        let sql = format!(
            "SELECT EXISTS (SELECT FROM {schema}.outbox o WHERE o.namespace = a.namespace AND o.vendor = a.vendor \
             AND o.account = a.account AND o.rejected_at_ms IS NULL) \
             FROM unnest($1, $2, $3) WITH ORDINALITY AS a (namespace, vendor, account, nth) ORDER BY a.nth"
        );
        let rows = self.0.query("look for accounts with outbox rows", sql, values).await?;
        rows.iter().map(|row| Reader::of(row).next()).collect()
    }

    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        body_bytes_max: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        let limit = limit.clamp(1, ROWS_MAX);
        let own = |text: &String| -> (Given, Type) { (Box::new(text.clone()), Type::TEXT) };
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let keys: Vec<Vec<u8>> = self.0.seals.ids().map(|id| id.to_vec()).collect();
        let values: Vec<(Given, Type)> = vec![
            own(&account.namespace),
            own(&account.vendor),
            own(&account.account),
            (Box::new(to_number(start(after)?)), Type::INT8),
            (Box::new(number(limit)), Type::INT8),
            (Box::new(number(body_bytes_max)), Type::INT8),
            (Box::new(keys), Type::BYTEA_ARRAY),
            (Box::new(BATCH_BYTES_MAX), Type::INT8),
        ];
        let sql = waiting_statement(&self.0.connections.schema().to_string());
        let found = self.0.query("read outbox rows", sql, values).await?;
        let mut page = Page { rows: Vec::with_capacity(found.len()), next: None };
        for row in &found {
            let mut from = Reader::of(row);
            let (row, blob) = read_outbox(&mut from, body_bytes_max)?;
            // Behind the last row that was read there may be more.
            let (nth, more): (i64, bool) = (from.next()?, from.next()?);
            if more || nth == number(limit) {
                page.next = Some((row.number + 1).to_string());
            }
            match whole(&self.0.seals, account, (row, blob), body_bytes_max) {
                Ok(row) => page.rows.push(row),
                // Another process has the key.
                Err(_) => continue,
            }
        }
        Ok(page)
    }

    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError> {
        let found = aside::under_key(&self.0, account, key).await?;
        let rows = found
            .iter()
            .map(|row| whole(&self.0.seals, account, read_outbox(&mut Reader::of(row), 0)?, usize::MAX));
        rows.collect()
    }

    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        claim::admit(&self.0, to_number(number), claim).await
    }

    async fn reject(&self, number: u64, why: &str, now: Timestamp) -> Result<bool, StoreError> {
        let schema = self.0.connections.schema();
        let sql = format!(
            "UPDATE {schema}.outbox SET rejected_at_ms = $2, rejected = $3 WHERE number = $1 \
             AND rejected_at_ms IS NULL AND (SELECT stage FROM {schema}.store_state) = 0 RETURNING number"
        );
        let values: Vec<(Given, Type)> = vec![
            (Box::new(to_number(number)), Type::INT8),
            (Box::new(to_ms(now)), Type::INT8),
            // A text has no such letter in Postgres.
            (Box::new(why.replace('\0', "")), Type::TEXT),
        ];
        let is_done = !self.0.query("reject a row of the outbox", sql, values).await?.is_empty();
        if !is_done {
            self.0.check_new().await?;
        }
        Ok(is_done)
    }

    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError> {
        aside::rejection(&self.0, account, key).await
    }

    async fn of_key(&self, key: &str) -> Result<Vec<Queued>, StoreError> {
        aside::of_key(&self.0, key).await
    }

    async fn remove(&self, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
        aside::remove(&self.0, to_number(number), entry).await
    }

    async fn disown(&self, why: &str, now: Timestamp) -> Result<u64, StoreError> {
        place::disown_rows(&self.0, why, now).await
    }

    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        let (key, limit) = (self.0.seals.needed()?, reseal.rows_max.clamp(1, RESEALED_MAX));
        let from = to_number(start(reseal.after.as_deref())?);
        let found = aside::sealed_otherwise(&self.0, &key, (from, limit)).await?;
        let (mut batch, rows) = sealed_anew(found, limit, &self.0.seals);
        if reseal.dry_run || rows.is_empty() {
            return Ok(batch);
        }
        let count = rows.len() as u64;
        let written = aside::seal(&self.0, rows).await?;
        (batch.resealed, batch.changed) = (written, count.saturating_sub(written));
        Ok(batch)
    }

    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError> {
        let schema = self.0.connections.schema();
        let sql = format!(
            "SELECT namespace, vendor, account, count(*) FILTER (WHERE rejected_at_ms IS NULL), \
             min(enqueued_at_ms) FILTER (WHERE rejected_at_ms IS NULL), \
             count(*) FILTER (WHERE rejected_at_ms IS NOT NULL) FROM {schema}.outbox GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        );
        let rows = self.0.query("count the rows of the outbox", sql, Vec::new()).await?;
        rows.iter().map(|row| read_outbox_tally(&mut Reader::of(row))).collect()
    }

    async fn rejected(&self, after: Option<&str>, limit: usize) -> Result<Page<Rejected>, StoreError> {
        let limit = limit.clamp(1, ROWS_MAX);
        let schema = self.0.connections.schema();
        let sql = format!(
            "SELECT number, namespace, vendor, account, method, key, rejected_at_ms, rejected, \
             CASE WHEN on_dead_letter = 'hold' THEN sequence END FROM {schema}.outbox WHERE rejected_at_ms IS NOT NULL AND number >= $1 ORDER BY number LIMIT $2"
        );
        let values: Vec<(Given, Type)> =
            vec![(Box::new(to_number(start(after)?)), Type::INT8), (Box::new(limit as i64 + 1), Type::INT8)];
        let rows = self.0.query("list the rejected rows of the outbox", sql, values).await?;
        let rejected = rows.iter().map(|row| read_rejected(&mut Reader::of(row)));
        Ok(page(rejected.collect::<Result<Vec<_>, StoreError>>()?.into_iter(), limit))
    }
}

/// Returns the statement that reads waiting rows in their order, up to the first one at which they reach the
/// limit of bytes. Each row has its number in that order, and a flag if it reached the limit. The sequences
/// that a rejected row holds are found once, and not for each row that waits behind it: there may be very many,
/// and no look gets past them.
fn waiting_statement(schema: &str) -> String {
    format!(
        "WITH holding AS MATERIALIZED (SELECT sequence, min(number) AS first FROM {schema}.outbox \
         WHERE namespace = $1 AND vendor = $2 AND account = $3 AND rejected_at_ms IS NOT NULL \
         AND on_dead_letter = 'hold' AND sequence IS NOT NULL GROUP BY sequence) \
         SELECT number, method, path, key, headers, content_type, \
         CASE WHEN octet_length(body) <= $6 THEN body END, octet_length(body)::bigint, sealed, due_ms, on_unknown, \
         retention_ms, redact, supersedes, origin, sequence, on_dead_letter, enqueued_at_ms, nth, up_to > $8 \
         FROM (SELECT *, row_number() OVER (ORDER BY number) AS nth, sum(bytes) OVER (ORDER BY number)::bigint AS up_to \
         FROM (SELECT *, (CASE WHEN octet_length(body) <= $6 THEN octet_length(body) ELSE 0 END \
         + coalesce(octet_length(sealed), 0))::bigint AS bytes FROM {schema}.outbox o \
         WHERE namespace = $1 AND vendor = $2 AND account = $3 AND number >= $4 AND rejected_at_ms IS NULL \
         AND (sealed IS NULL OR substr(sealed, 2, 8) = ANY ($7)) \
         AND NOT EXISTS (SELECT FROM holding h WHERE h.sequence = o.sequence AND h.first < o.number) \
         ORDER BY number LIMIT $5) AS first) AS counted WHERE up_to - bytes <= $8 ORDER BY number"
    )
}

/// Returns an open EXISTS: an earlier row of the sequence of `o`. The caller adds conditions and closes it.
pub(super) fn earlier_row(schema: &str) -> String {
    format!(
        "EXISTS (SELECT FROM {schema}.outbox before WHERE before.namespace = o.namespace \
         AND before.vendor = o.vendor AND before.account = o.account AND before.sequence = o.sequence \
         AND before.number < o.number"
    )
}

/// Returns a condition: no outbox row has the key of the operation `o`, or supersedes it; see the SQLite store.
/// It selects the first row and not EXISTS: to find that there is none, the server may read the whole table.
pub(super) fn not_spared(schema: &Schema) -> String {
    let row = |column: &str| {
        format!(
            "(SELECT r.number FROM {schema}.outbox r WHERE r.{column} = o.key COLLATE \"C\" LIMIT 1) IS NULL"
        )
    };
    spares([row("key"), row("supersedes")].join(" AND "), "true".to_owned())
}

/// Returns the number of outbox rows that need the key whose blobs begin with `head`.
pub(super) async fn rows_sealed_with(shared: &Arc<Shared>, head: Vec<u8>) -> Result<i64, StoreError> {
    let schema = shared.connections.schema();
    let sql = format!("SELECT count(*) FROM {schema}.outbox WHERE substr(sealed, 1, length($1)) = $1");
    let values: Vec<(Given, Type)> = vec![(Box::new(head), Type::BYTEA)];
    let rows = shared.query("count the rows of the outbox that a key seals", sql, values).await?;
    Reader::first(&rows)?.next()
}

fn to_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Maximum of bytes that are read at once, and one row more.
const BATCH_BYTES_MAX: i64 = 4 * 1024 * 1024;
