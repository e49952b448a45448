//! Takeover of operations without a live holder.
//!
//! They are found by an index of times, from a lower bound that moves with the rows found: see
//! [`bounds`](super::bounds). The due operations of an account are taken by [one statement](super::due). This
//! file has the slower way: for leases that ran out, for rows with a time of a wrong clock, and for a take from
//! all accounts.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    FAR_MAX, RowReader, Standing, Stored, duration_ms, phase_number, read_operation,
};
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Phase, Record, Takeover};
use steadfast_core::store::StoreError;

use super::bounds::{self, BoundedRead};
use super::row::{OPERATION, Reader, Value};
use super::schema::Schema;
use super::standing::{self, CLOSED};
use super::transaction::{Decision, Transaction, in_transaction};
use super::{Shared, sealed, turns, wanted, write};

pub(super) async fn take(shared: &Arc<Shared>, take: Takeover) -> Result<Vec<Record>, StoreError> {
    if take.limit == 0 {
        shared.see().await?;
        return Ok(Vec::new());
    }
    // A search for ended operations would also move the bound of the purge.
    if !matches!(take.phase, Phase::InProgress | Phase::Scheduled) {
        return Ok(Vec::new());
    }
    let name = (take.phase, take.account.clone());
    let bounded = shared.bounds.begin(name, shared.time.instant());
    if take.phase == Phase::Scheduled && !take.wanted.is_all() {
        // An operation that is left out may be of any age: the bound stays where it is.
        let found = take_locked(shared, take, bounded.from).await?;
        return Ok(readable_records(shared, found.rows).await);
    }
    let found = if take.phase == Phase::Scheduled && take.account.is_some() {
        due(shared, &take, bounded.from).await?
    } else {
        // Opens a transaction only if there is something to take.
        match time_if_empty(shared, &take, &bounded).await? {
            Some(now) => FoundOperations { now, ..FoundOperations::default() },
            None => take_locked(shared, take.clone(), bounded.from).await?,
        }
    };
    let full_to = found.last.filter(|_| found.is_full);
    shared.bounds.end(bounded, shared.time.instant(), found.now, full_to);
    bounds::search(shared);
    Ok(readable_records(shared, found.rows).await)
}

/// Returns the records of these rows, with their requests.
async fn readable_records(shared: &Arc<Shared>, rows: Vec<Stored>) -> Vec<Record> {
    let mut records = Vec::with_capacity(rows.len());
    for stored in rows {
        let (id, fence) = (stored.record.id.clone(), stored.record.fence);
        let learned = sealed::refresh_seals_for(shared, &stored).await;
        let mut whole = learned.and_then(|()| stored.whole(&shared.seals));
        if whole.is_err()
            && let Ok(Some(again)) = shared.read(&id).await.map(|read| read.stored)
            && again.record.fence == fence
        {
            // It may have been sealed with another key in the same moment.
            whole = Stored { answer: None, ..again }.whole(&shared.seals);
        }
        match whole {
            Ok(record) => records.push(record),
            // It must not cost the others their turn: its lease runs out again.
            Err(error) => {
                tracing::error!(vendor = id.scope.vendor_path(), key = %id.key, %error, "a record cannot be read");
            }
        }
    }
    records
}

async fn due(shared: &Arc<Shared>, take: &Takeover, from: i64) -> Result<FoundOperations, StoreError> {
    if turns::is_contended(shared, take, from).await? {
        return take_locked(shared, take.clone(), from).await;
    }
    let (mut found, reached_limit) = super::due::take(shared, take, from).await?;
    let left = take.limit.saturating_sub(found.rows.len());
    if reached_limit && left > 0 {
        // The operations taken so far are ours, also if the rest fails.
        match take_locked(shared, Takeover { limit: left, ..take.clone() }, from).await {
            Ok(rest) => found.rows.extend(rest.rows),
            Err(error) if found.rows.is_empty() => return Err(error),
            // The next take finds them again.
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Result of a search.
#[derive(Default)]
pub(super) struct FoundOperations {
    /// The server's time.
    pub(super) now: Timestamp,
    /// Rows that now belong to the taker.
    pub(super) rows: Vec<Stored>,
    /// Due time (ms) of the last row that was due. `None` if there was none.
    pub(super) last: Option<i64>,
    /// True if as many rows were found as the limit allows.
    pub(super) is_full: bool,
}

/// Returns the server's time, if there is nothing to take: one statement, and no lock.
async fn time_if_empty(
    shared: &Arc<Shared>,
    take: &Takeover,
    bounded: &BoundedRead,
) -> Result<Option<Timestamp>, StoreError> {
    if bounded.reached_limit {
        return Ok(None);
    }
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT (SELECT o.wake_ms FROM {schema}.operation o WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} \
         AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) ORDER BY o.wake_ms LIMIT 1) IS NOT NULL OR \
         EXISTS (SELECT FROM {schema}.operation o WHERE {}), s.now_ms, (SELECT {CLOSED} FROM {schema}.store_state p) \
         FROM {schema}.see_time() s",
        has_wrong_time(schema)
    );
    let (take_values, own) = (TakeValues::of(shared, take, bounded.from), Arc::clone(shared));
    shared
        .connections
        .run(async move {
            let client = own.connections.get().await?;
            let rows = client.query(LOOK, &sql, &take_values.values(&take_values.limit)).await?;
            let mut from = Reader::first(&rows)?;
            let (is_there, now): (bool, _) = (from.next()?, from.time()?);
            own.time.record(now);
            standing::check(&mut from, Standing::check_new)?;
            Ok((!is_there).then_some(now))
        })
        .await
}

async fn take_locked(shared: &Arc<Shared>, take: Takeover, from: i64) -> Result<FoundOperations, StoreError> {
    let work = move |transaction: Transaction| {
        let take = take.clone();
        async move {
            let ended = look(&transaction, &take, from).await;
            transaction.finish(ended).await
        }
    };
    in_transaction(shared, work).await
}

async fn look(
    transaction: &Transaction,
    take: &Takeover,
    from: i64,
) -> Result<Decision<FoundOperations>, StoreError> {
    let shared = &transaction.shared;
    let schema = shared.connections.schema();
    let mut take_values = TakeValues::of(shared, take, from);
    if take.phase == Phase::InProgress {
        move_renewed_leases(transaction, &take_values).await?;
    }
    let (mut records, last) = if !take.wanted.is_all() && take.phase == Phase::Scheduled {
        let rows = wanted::look(transaction, take, &take_values).await?;
        let records = rows.iter().map(|row| read_operation(&mut Reader::of(row)));
        (records.collect::<Result<Vec<Record>, _>>()?, None)
    } else {
        in_order(transaction, take, &take_values).await?
    };
    let is_full = records.len() >= take.limit;
    if !is_full {
        take_values.limit -= i64::try_from(records.len()).unwrap_or(take_values.limit);
        let wrong = format!(
            "SELECT {OPERATION} FROM {schema}.operation o WHERE {} AND {READABLE} ORDER BY o.until_ms LIMIT $6 \
             FOR UPDATE SKIP LOCKED",
            has_wrong_time(schema)
        );
        for row in transaction.query(LOOK, &wrong, &take_values.values(&take_values.limit)).await? {
            let record = read_operation(&mut Reader::of(&row))?;
            if records.iter().all(|other: &Record| other.id != record.id) {
                records.push(record);
            }
        }
    }
    if records.is_empty() {
        let now = transaction.complete(records, Standing::check_new).await?.now;
        return Ok(Decision::Commit(FoundOperations { now, ..FoundOperations::default() }));
    }
    let (now, rows) = taken(transaction, take, records).await?;
    Ok(Decision::Commit(FoundOperations { now, rows, last, is_full }))
}

/// Reads due operations, in the order of time or of turns. Returns also the due time of the last one.
async fn in_order(
    transaction: &Transaction,
    take: &Takeover,
    take_values: &TakeValues,
) -> Result<(Vec<Record>, Option<i64>), StoreError> {
    let schema = transaction.shared.connections.schema();
    let due_accounts = turns::due_accounts(transaction, take, take_values.from).await?;
    let over = format!(
        "SELECT {OPERATION}, o.wake_ms FROM {schema}.operation o WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} \
         AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) AND o.until_ms <= (SELECT {schema}.store_now()) \
         ORDER BY o.wake_ms LIMIT $6 FOR UPDATE SKIP LOCKED"
    );
    let (mut records, mut last) = (Vec::new(), None);
    let rows = match (&due_accounts[..], &take.account) {
        ([_, _, ..], Some(account)) => {
            turns::in_turn(transaction, (account, &due_accounts), take_values).await?
        }
        _ => transaction.query(LOOK, &over, &take_values.values(&take_values.limit)).await?,
    };
    for row in rows {
        let mut columns = Reader::of(&row);
        let record = read_operation(&mut columns)?;
        last = columns.next::<Option<i64>>()?;
        if due_accounts.len() < 2 || records.iter().all(|other: &Record| other.id != record.id) {
            records.push(record);
        }
    }
    if due_accounts.len() > 1 {
        // The order of turns is not that of time: a skipped operation may be of any age.
        last = Some(take_values.from);
    }
    Ok((records, last))
}

/// Takes those of these records that the taker may have. Returns the server's time, and the taken rows.
async fn taken(
    transaction: &Transaction,
    take: &Takeover,
    records: Vec<Record>,
) -> Result<(Timestamp, Vec<Stored>), StoreError> {
    let found = transaction.complete(records, Standing::check_new).await?;
    let now = found.now;
    let take = take.clone().rebased(found.now);
    let taken = found.into_rows().into_iter().filter_map(|stored| {
        let record = stored.record.take(&take)?;
        Some(Stored { record, answer: None, ..stored })
    });
    let rows: Vec<Stored> = taken.collect();
    write::update(transaction, rows.iter().map(|stored| &stored.record)).await?;
    write::clear_answers(transaction, rows.iter().map(|stored| &stored.record.id)).await?;
    Ok((now, rows))
}

/// Moves renewed leases in the index of times to their current end.
async fn move_renewed_leases(transaction: &Transaction, take_values: &TakeValues) -> Result<(), StoreError> {
    let schema = transaction.shared.connections.schema();
    let sql = format!(
        "UPDATE {schema}.operation w SET wake_ms = w.until_ms FROM (SELECT o.scope, o.key FROM {schema}.operation o \
         WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) \
         AND o.until_ms > (SELECT {schema}.store_now()) ORDER BY o.wake_ms LIMIT $6 FOR UPDATE SKIP LOCKED) renewed \
         WHERE w.scope = renewed.scope AND w.key = renewed.key"
    );
    transaction.query("move renewed leases", &sql, &take_values.values(&MOVED_MAX)).await.map(drop)
}

/// Values of the take's statements.
pub(super) struct TakeValues {
    phase: i64,
    pub(super) vendor: Option<String>,
    account: Option<String>,
    /// IDs of the seal keys that this process has.
    pub(super) seals: Vec<Vec<u8>>,
    pub(super) from: i64,
    pub(super) limit: i64,
}

impl TakeValues {
    pub(super) fn of(shared: &Shared, take: &Takeover, from: i64) -> TakeValues {
        let limit = i64::try_from(take.limit).unwrap_or(i64::MAX);
        TakeValues::new(shared, (take.phase, take.account.as_deref()), (from, limit))
    }

    pub(super) fn new(
        shared: &Shared,
        (phase, account): (Phase, Option<&str>),
        (from, limit): (i64, i64),
    ) -> TakeValues {
        TakeValues {
            phase: phase_number(phase),
            // The vendor is for the index, the account for the rows that it finds.
            vendor: account.map(|account| Scope::from_stored(account).vendor_path().to_owned()),
            account: account.map(str::to_owned),
            seals: shared.seals.ids().map(|id| id.to_vec()).collect(),
            from,
            limit,
        }
    }

    pub(super) fn values<'a>(&'a self, limit: &'a i64) -> [Value<'a>; 6] {
        [
            (&self.phase, Type::INT8),
            (&self.vendor, Type::TEXT),
            (&self.account, Type::TEXT),
            (&self.seals, Type::BYTEA_ARRAY),
            (&self.from, Type::INT8),
            (limit, Type::INT8),
        ]
    }
}

/// Returns a condition for rows that a wrong clock scheduled far ahead: that of a server that failed over.
/// Operations that were enqueued for later keep their time. No index has the time of the last change, so only
/// the rows with the latest times are checked. A backlog that is due in an hour must not be read through each
/// second.
fn has_wrong_time(schema: &Schema) -> String {
    let far = duration_ms(CLOCKS_DIFFER_MAX);
    let then = format!("(SELECT {schema}.later({schema}.store_now(), {far}))");
    // Each is found by its name: see `move_operations`.
    format!(
        "o.phase + 0 = $1 AND {OF_ACCOUNT} AND o.updated_at_ms > {then} AND NOT {} AND (o.scope, o.key) IN \
         (SELECT f.scope, f.key FROM {schema}.operation f WHERE f.phase < 3 AND f.phase = $1 \
         AND ($2 IS NULL OR f.vendor = $2) AND f.wake_ms > {then} AND $5 >= 0 \
         ORDER BY f.wake_ms DESC LIMIT greatest($6, {FAR_MAX}))",
        is_as_enqueued(schema)
    )
}

/// Returns a condition: `o` was enqueued for later, and no process has held it yet.
pub(super) fn is_as_enqueued(schema: &Schema) -> String {
    let due = phase_number(Phase::Scheduled);
    format!(
        "(o.phase = {due} AND o.attempts = 0 AND o.effect = 0 AND o.until_ms > o.updated_at_ms AND EXISTS \
         (SELECT FROM {schema}.request r WHERE r.scope = o.scope AND r.key = o.key AND r.first_fence = o.fence))"
    )
}

/// Condition for open operations of the phase.
pub(super) const OPEN: &str = "o.phase < 3 AND o.phase = $1";

/// [`Scope::is_reached_by`](crate::operation::Scope::is_reached_by), in SQL.
pub(super) const OF_ACCOUNT: &str = "($2 IS NULL OR o.vendor = $2) AND ($3 IS NULL \
     OR substr(o.scope, 1, length($3) + 1) IN ($3 || '/', $3 || '>'))";

/// Condition for rows whose seal key this process has. Unreadable rows must not fill the limit, or the others
/// would never get their turn.
pub(super) const READABLE: &str = "(o.seal IS NULL OR o.seal = ANY ($4))";

pub(super) const LOOK: &str = "look for operations to take";

/// Maximum of leases that are moved at once: more than a process renews between two looks, and few enough to
/// lock.
const MOVED_MAX: i64 = 1_000;
