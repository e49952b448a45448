//! The outbox: one table beside the store's own, which the callers' transactions write to.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::{
    Account, Database, Outbox, OutboxRow, RESEALED_MAX, ROWS_MAX, Reseal, ResealedBatch, RowReader, Seals,
    Standing, Statement, Value, page, read_outbox, read_outbox_tally, read_rejected, sealed_anew,
    sealed_bytes, spares, start, to_ms, values, whole,
};
use steadfast_core::operation::record::{AuditEntry, Claim, Claimed, Page};
use steadfast_core::store::{OutboxTally, Queued, Rejected, StoreError};

use super::failure::ErrorContext;
use super::lane::OnDrop;
use super::prepared::Prepared;
use super::rows::{self, Reader};
use super::sealed::keys_at_hand;
use super::write::{self, ClaimResult, FirstClaim};
use super::{Sqlite, notes, sealed};

mod aside;
mod behind;

#[async_trait]
impl Outbox for Sqlite {
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        let mut statements = Vec::with_capacity(2);
        let sealed = match self.seals.current() {
            None => None,
            Some(key) => {
                // Before the row that needs it, in the same transaction.
                let values = vec![Value::Bytes(Some(Bytes::copy_from_slice(&key)))];
                statements.push(statement(sealed::NOTE_KEY, values));
                Some(sealed_bytes(&self.seals, account, row)?)
            }
        };
        statements.push(statement(PUT, values(account, row, sealed)));
        Ok(statements)
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        self.place.check(&self.path)?;
        self.writer.run(OnDrop::Skip, move |connection| behind::write(connection, &statements)).await
    }

    async fn holds_back(&self, account: &Account, sequence: &str) -> Result<bool, StoreError> {
        let (account, sequence) = (account.clone(), sequence.to_owned());
        let work = move |connection: &_| behind::holds_back(connection, &account, &sequence);
        self.reader().run(OnDrop::Skip, work).await
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        let accounts = accounts.to_vec();
        self.reader().run(OnDrop::Skip, move |connection| have_rows(connection, &accounts)).await
    }

    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        body_bytes_max: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        let (owned_account, seals, from) = (account.clone(), self.seals.clone(), start(after)?);
        let limit = limit.clamp(1, ROWS_MAX);
        let work =
            move |connection: &_| waiting(connection, &owned_account, from, (limit, body_bytes_max), &seals);
        let found = self.reader().run(OnDrop::Skip, work).await?;
        let mut rows = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            match whole(&self.seals, account, row, body_bytes_max) {
                Ok(row) => rows.push(row),
                // Another process has the key.
                Err(_) => continue,
            }
        }
        Ok(Page { rows, next: found.next })
    }

    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError> {
        let (owned_account, key) = (account.clone(), key.to_owned());
        let work = move |connection: &_| aside::under_key(connection, &owned_account, &key);
        let found = self.reader().run(OnDrop::Skip, work).await?;
        found.into_iter().map(|row| whole(&self.seals, account, row, usize::MAX)).collect()
    }

    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        self.place.check(&self.path)?;
        let first = self.first(claim)?;
        let (first, result) =
            self.writer.run_on(OnDrop::Skip, first, move |to, first| admit(to, number, first)).await?;
        result.map(|result| self.claimed(*first, result)).transpose()
    }

    async fn reject(&self, number: u64, why: &str, now: Timestamp) -> Result<bool, StoreError> {
        let why = why.to_owned();
        let work = move |connection: &Connection| {
            notes::check(connection, Standing::check_new)?;
            let doing = "reject a row of the outbox";
            rows::change(connection, doing, (REJECT, params![to_number(number), to_ms(now), why]))
        };
        Ok(self.writer.run(OnDrop::Finish, work).await? == 1)
    }

    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError> {
        let (account, key) = (account.clone(), key.to_owned());
        let work = move |connection: &_| aside::rejection(connection, &account, &key);
        self.reader().run(OnDrop::Skip, work).await
    }

    async fn of_key(&self, key: &str) -> Result<Vec<Queued>, StoreError> {
        let key = key.to_owned();
        self.reader().run(OnDrop::Skip, move |connection| aside::of_key(connection, &key)).await
    }

    async fn remove(&self, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
        self.place.check(&self.path)?;
        let entry = entry.clone();
        self.writer.run(OnDrop::Finish, move |connection| aside::remove(connection, number, &entry)).await
    }

    async fn disown(&self, why: &str, now: Timestamp) -> Result<u64, StoreError> {
        let why = why.to_owned();
        self.writer.run(OnDrop::Finish, move |connection| disown(connection, &why, now)).await
    }

    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        self.place.look(&self.path)?;
        let (key, limit) = (self.seals.needed()?, reseal.rows_max.clamp(1, RESEALED_MAX));
        let from = start(reseal.after.as_deref())?;
        let work = move |connection: &_| aside::sealed_otherwise(connection, &key, (from, limit));
        let found = self.reader().run(OnDrop::Skip, work).await?;
        let (mut batch, rows) = sealed_anew(found, limit, &self.seals);
        if reseal.dry_run || rows.is_empty() {
            return Ok(batch);
        }
        let (seals, count) = (self.seals.clone(), rows.len() as u64);
        let work = move |connection: &Prepared<'_>, rows: &Vec<_>| aside::seal(connection, rows, &seals);
        let (_, written) = self.writer.run_on(OnDrop::Skip, rows, work).await?;
        (batch.resealed, batch.changed) = (written, count - written);
        Ok(batch)
    }

    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError> {
        self.reader().run(OnDrop::Skip, tally).await
    }

    async fn rejected(&self, after: Option<&str>, limit: usize) -> Result<Page<Rejected>, StoreError> {
        let (from, limit) = (start(after)?, limit.clamp(1, ROWS_MAX));
        self.reader().run(OnDrop::Skip, move |connection| rejected(connection, from, limit)).await
    }
}

fn disown(connection: &Connection, why: &str, now: Timestamp) -> Result<u64, StoreError> {
    let doing = "reject the rows of the outbox";
    let waiting = rows::first(connection, doing, (COUNT, []), |row| row.amount())?;
    rows::change(connection, doing, (DISOWN, params![to_ms(now), why]))?;
    Ok(waiting.unwrap_or_default())
}

fn statement(sql: &'static str, values: Vec<Value>) -> Statement {
    Statement { database: Database::Sqlite, sql: Cow::Borrowed(sql), values }
}

/// A row, and its sealed bytes. `None` if it is not sealed.
type RowAndSeal = (OutboxRow, Option<Vec<u8>>);

pub(super) fn have_rows(connection: &Connection, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
    let doing = "look for accounts with outbox rows";
    let mut statement = connection.prepare_cached(HAS_ROWS).while_doing(doing)?;
    accounts
        .iter()
        .map(|Account { namespace, vendor, account }| statement.exists([namespace, vendor, account]))
        .collect::<rusqlite::Result<_>>()
        .while_doing(doing)
}

fn waiting(
    connection: &Connection,
    account: &Account,
    from: u64,
    (limit, body_bytes_max): (usize, usize),
    seals: &Seals,
) -> Result<Page<RowAndSeal>, StoreError> {
    let doing = "read outbox rows";
    // The sequences that a rejected row holds are found once, and not for each row that waits behind it.
    let sql = format!(
        "WITH holding AS MATERIALIZED (SELECT sequence, min(number) AS first FROM steadfast_outbox \
         WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND rejected_at_ms IS NOT NULL \
         AND on_dead_letter = 'hold' AND sequence IS NOT NULL GROUP BY sequence) \
         SELECT number, method, path, key, headers, content_type, \
         CASE WHEN octet_length(body) <= ?6 THEN body END, octet_length(body), sealed, due_ms, on_unknown, \
         retention_ms, redact, supersedes, origin, sequence, on_dead_letter, enqueued_at_ms FROM steadfast_outbox AS o \
         WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND number >= ?4 AND rejected_at_ms IS NULL \
         AND (sealed IS NULL OR substr(sealed, 2, 8) IN ({})) \
         AND NOT EXISTS (SELECT 1 FROM holding AS h WHERE h.sequence = o.sequence AND h.first < o.number) \
         ORDER BY number LIMIT ?5",
        keys_at_hand(seals)
    );
    let mut statement = connection.prepare_cached(&sql).while_doing(doing)?;
    let Account { namespace, vendor, account } = account;
    let body_max = i64::try_from(body_bytes_max).unwrap_or(i64::MAX);
    let values = params![namespace, vendor, account, to_number(from), limit as i64, body_max];
    let mut rows = statement.query(values).while_doing(doing)?;
    let (mut found, mut bytes) = (Page { rows: Vec::new(), next: None }, 0);
    while let Some(row) = rows.next().while_doing(doing)? {
        let (read, blob) = read_outbox(&mut Reader::of(row), body_bytes_max)?;
        let number = read.number;
        bytes += read.body.len() + blob.as_ref().map_or(0, Vec::len);
        found.rows.push((read, blob));
        if found.rows.len() == limit || bytes > BATCH_BYTES_MAX {
            found.next = Some((number + 1).to_string());
            break;
        }
    }
    Ok(found)
}

/// Claims the operation of a row that is still there. Removes the row if the operation is then on record for
/// its request.
fn admit(
    connection: &Prepared<'_>,
    number: u64,
    first: &FirstClaim,
) -> Result<Option<ClaimResult>, StoreError> {
    let doing = "admit a row of the outbox";
    let sql = format!(
        "SELECT enqueued_at_ms FROM steadfast_outbox AS o WHERE number = ?1 AND rejected_at_ms IS NULL AND (sequence IS NULL \
         OR NOT {BEFORE} AND (before.rejected_at_ms IS NULL OR before.on_dead_letter = 'hold')))"
    );
    let written = rows::first(connection, doing, (&sql, [to_number(number)]), |row| row.time())?;
    if Guard::RowStillThere.keeps(written.is_none()) {
        return Ok(None);
    }
    let result = write::claim(connection, first, written)?;
    let is_on_record = match &result {
        ClaimResult::Absent { .. } => true,
        ClaimResult::Present(held) => !matches!(held.0, Claimed::Mismatch { .. } | Claimed::InTheWay { .. }),
        ClaimResult::Unreadable(_) | ClaimResult::InTheWay(..) => false,
    };
    if Guard::RowGoesWithClaim.keeps(is_on_record) {
        rows::change(connection, doing, (REMOVE, [to_number(number)]))?;
    }
    Ok(Some(result))
}

fn tally(connection: &Connection) -> Result<Vec<OutboxTally>, StoreError> {
    let doing = "count the rows of the outbox";
    rows::all(connection, doing, (TALLY, []), |row| read_outbox_tally(row))
}

fn rejected(connection: &Connection, from: u64, limit: usize) -> Result<Page<Rejected>, StoreError> {
    let doing = "list the rejected rows of the outbox";
    let values = [to_number(from), limit as i64 + 1];
    let rows = rows::all(connection, doing, (REJECTED, values), |row| read_rejected(row))?;
    Ok(page(rows.into_iter(), limit))
}

/// Returns the number of outbox rows that need the key whose blobs begin with `head`.
pub(super) fn rows_sealed_with(connection: &Connection, head: &[u8]) -> Result<i64, StoreError> {
    let doing = "count the rows of the outbox that a key seals";
    let sql = "SELECT count(*) FROM steadfast_outbox WHERE substr(sealed, 1, ?2) = ?1";
    connection.query_row(sql, params![head, head.len() as i64], |row| row.get(0)).while_doing(doing)
}

fn to_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Inserts a row. The column `content_type` is null: a client's content type is among the headers.
const PUT: &str = "INSERT INTO steadfast_outbox (namespace, vendor, account, method, path, key, headers, \
     content_type, body, sealed, due_ms, on_unknown, retention_ms, redact, supersedes, origin, sequence, on_dead_letter, \
     enqueued_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

const HAS_ROWS: &str = "SELECT 1 FROM steadfast_outbox \
     WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 AND rejected_at_ms IS NULL";

/// An open EXISTS: an earlier row of the sequence of `o`. The user adds conditions and closes it.
const BEFORE: &str = "EXISTS (SELECT 1 FROM steadfast_outbox AS before WHERE before.namespace = o.namespace \
     AND before.vendor = o.vendor AND before.account = o.account AND before.sequence = o.sequence \
     AND before.number < o.number";

const COUNT: &str = "SELECT count(*) FROM steadfast_outbox WHERE rejected_at_ms IS NULL";

/// Rejects all rows. A row that is rejected here holds no sequence.
const DISOWN: &str = "UPDATE steadfast_outbox SET on_dead_letter = 'skip', rejected = coalesce(rejected, ?2), \
     rejected_at_ms = coalesce(rejected_at_ms, ?1)";

/// Returns a condition: no outbox row has the key of an operation, or supersedes it; see [`spares`]. The key
/// alone counts: the account may have another name by now.
pub(super) fn is_purgeable() -> &'static str {
    spares(NOT_SPARED, "true")
}

const NOT_SPARED: &str = "NOT EXISTS (SELECT 1 FROM steadfast_outbox AS r WHERE r.key = operation.key) \
     AND NOT EXISTS (SELECT 1 FROM steadfast_outbox AS r WHERE r.supersedes = operation.key)";

const REMOVE: &str = "DELETE FROM steadfast_outbox WHERE number = ?1";

const REJECT: &str = "UPDATE steadfast_outbox SET rejected_at_ms = ?2, rejected = ?3 \
     WHERE number = ?1 AND rejected_at_ms IS NULL";

const TALLY: &str = "SELECT namespace, vendor, account, count(*) FILTER (WHERE rejected_at_ms IS NULL), \
     min(enqueued_at_ms) FILTER (WHERE rejected_at_ms IS NULL), \
     count(*) FILTER (WHERE rejected_at_ms IS NOT NULL) \
     FROM steadfast_outbox GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";

const REJECTED: &str = "SELECT number, namespace, vendor, account, method, key, rejected_at_ms, rejected, \
     CASE WHEN on_dead_letter = 'hold' THEN sequence END FROM steadfast_outbox WHERE rejected_at_ms IS NOT NULL AND number >= ?1 ORDER BY number LIMIT ?2";

/// Maximum of bytes that are read at once, and one row more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
