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

use super::bounds::{self, Begun};
use super::row::{OPERATION, Reader, Value};
use super::schema::Schema;
use super::standing::{self, CLOSED};
use super::transaction::{Turn, Within, in_transaction};
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
    let begun = shared.bounds.begin(name, shared.time.instant());
    if take.phase == Phase::Scheduled && !take.wanted.is_all() {
        // An operation that is left out may be of any age: the bound stays where it is.
        let found = locked(shared, take, begun.from).await?;
        return Ok(readable(shared, found.rows).await);
    }
    let found = if take.phase == Phase::Scheduled && take.account.is_some() {
        due(shared, &take, begun.from).await?
    } else {
        // Opens a transaction only if there is something to take.
        match nothing_at(shared, &take, &begun).await? {
            Some(now) => Looked { now, ..Looked::default() },
            None => locked(shared, take.clone(), begun.from).await?,
        }
    };
    let full_to = found.last.filter(|_| found.is_full);
    shared.bounds.end(begun, shared.time.instant(), found.now, full_to);
    bounds::search(shared);
    Ok(readable(shared, found.rows).await)
}

/// Returns the records of these rows, with their requests.
async fn readable(shared: &Arc<Shared>, rows: Vec<Stored>) -> Vec<Record> {
    let mut records = Vec::with_capacity(rows.len());
    for stored in rows {
        let (id, fence) = (stored.record.id.clone(), stored.record.fence);
        let learned = sealed::learn_of(shared, &stored).await;
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

async fn due(shared: &Arc<Shared>, take: &Takeover, from: i64) -> Result<Looked, StoreError> {
    if turns::are_rivals(shared, take, from).await? {
        return locked(shared, take.clone(), from).await;
    }
    let (mut found, is_more) = super::due::take(shared, take, from).await?;
    let left = take.limit.saturating_sub(found.rows.len());
    if is_more && left > 0 {
        // The operations taken so far are ours, also if the rest fails.
        match locked(shared, Takeover { limit: left, ..take.clone() }, from).await {
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
pub(super) struct Looked {
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
async fn nothing_at(
    shared: &Arc<Shared>,
    take: &Takeover,
    begun: &Begun,
) -> Result<Option<Timestamp>, StoreError> {
    if begun.is_more {
        return Ok(None);
    }
    let schema = shared.connections.schema();
    let sql = format!(
        "SELECT (SELECT o.wake_ms FROM {schema}.operation o WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} \
         AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) ORDER BY o.wake_ms LIMIT 1) IS NOT NULL OR \
         EXISTS (SELECT FROM {schema}.operation o WHERE {}), s.now_ms, (SELECT {CLOSED} FROM {schema}.store_state p) \
         FROM {schema}.see_time() s",
        of_a_wrong_clock(schema)
    );
    let (asked, own) = (Asked::of(shared, take, begun.from), Arc::clone(shared));
    shared
        .connections
        .run(async move {
            let client = own.connections.get().await?;
            let rows = client.ask(LOOK, &sql, &asked.values(&asked.limit)).await?;
            let mut from = Reader::first(&rows)?;
            let (is_there, now): (bool, _) = (from.next()?, from.time()?);
            own.time.saw(now);
            standing::check(&mut from, Standing::check_new)?;
            Ok((!is_there).then_some(now))
        })
        .await
}

async fn locked(shared: &Arc<Shared>, take: Takeover, from: i64) -> Result<Looked, StoreError> {
    let work = move |within: Within| {
        let take = take.clone();
        async move {
            let ended = look(&within, &take, from).await;
            within.ended(ended).await
        }
    };
    in_transaction(shared, work).await
}

async fn look(within: &Within, take: &Takeover, from: i64) -> Result<Turn<Looked>, StoreError> {
    let shared = &within.shared;
    let schema = shared.connections.schema();
    let mut asked = Asked::of(shared, take, from);
    if take.phase == Phase::InProgress {
        move_on(within, &asked).await?;
    }
    let (mut records, last) = if !take.wanted.is_all() && take.phase == Phase::Scheduled {
        let rows = wanted::look(within, take, &asked).await?;
        let records = rows.iter().map(|row| read_operation(&mut Reader::of(row)));
        (records.collect::<Result<Vec<Record>, _>>()?, None)
    } else {
        in_order(within, take, &asked).await?
    };
    let is_full = records.len() >= take.limit;
    if !is_full {
        asked.limit -= i64::try_from(records.len()).unwrap_or(asked.limit);
        let wrong = format!(
            "SELECT {OPERATION} FROM {schema}.operation o WHERE {} AND {READABLE} ORDER BY o.until_ms LIMIT $6 \
             FOR UPDATE SKIP LOCKED",
            of_a_wrong_clock(schema)
        );
        for row in within.ask(LOOK, &wrong, &asked.values(&asked.limit)).await? {
            let record = read_operation(&mut Reader::of(&row))?;
            if records.iter().all(|other: &Record| other.id != record.id) {
                records.push(record);
            }
        }
    }
    if records.is_empty() {
        let now = within.complete(records, Standing::check_new).await?.now;
        return Ok(Turn::Done(Looked { now, ..Looked::default() }));
    }
    let (now, rows) = taken(within, take, records).await?;
    Ok(Turn::Done(Looked { now, rows, last, is_full }))
}

/// Reads due operations, in the order of time or of turns. Returns also the due time of the last one.
async fn in_order(
    within: &Within,
    take: &Takeover,
    asked: &Asked,
) -> Result<(Vec<Record>, Option<i64>), StoreError> {
    let schema = within.shared.connections.schema();
    let line = turns::line(within, take, asked.from).await?;
    let over = format!(
        "SELECT {OPERATION}, o.wake_ms FROM {schema}.operation o WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} \
         AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) AND o.until_ms <= (SELECT {schema}.store_now()) \
         ORDER BY o.wake_ms LIMIT $6 FOR UPDATE SKIP LOCKED"
    );
    let (mut records, mut last) = (Vec::new(), None);
    let rows = match (&line[..], &take.account) {
        ([_, _, ..], Some(account)) => turns::in_turn(within, (account, &line), asked).await?,
        _ => within.ask(LOOK, &over, &asked.values(&asked.limit)).await?,
    };
    for row in rows {
        let mut columns = Reader::of(&row);
        let record = read_operation(&mut columns)?;
        last = columns.next::<Option<i64>>()?;
        if line.len() < 2 || records.iter().all(|other: &Record| other.id != record.id) {
            records.push(record);
        }
    }
    if line.len() > 1 {
        // The order of turns is not that of time: a skipped operation may be of any age.
        last = Some(asked.from);
    }
    Ok((records, last))
}

/// Takes those of these records that the taker may have. Returns the server's time, and the taken rows.
async fn taken(
    within: &Within,
    take: &Takeover,
    records: Vec<Record>,
) -> Result<(Timestamp, Vec<Stored>), StoreError> {
    let found = within.complete(records, Standing::check_new).await?;
    let now = found.now;
    let take = take.clone().rebased(found.now);
    let taken = found.into_rows().into_iter().filter_map(|stored| {
        let record = stored.record.take(&take)?;
        Some(Stored { record, answer: None, ..stored })
    });
    let rows: Vec<Stored> = taken.collect();
    write::update(within, rows.iter().map(|stored| &stored.record)).await?;
    write::unanswer(within, rows.iter().map(|stored| &stored.record.id)).await?;
    Ok((now, rows))
}

/// Moves renewed leases in the index of times to their current end.
async fn move_on(within: &Within, asked: &Asked) -> Result<(), StoreError> {
    let schema = within.shared.connections.schema();
    let sql = format!(
        "UPDATE {schema}.operation w SET wake_ms = w.until_ms FROM (SELECT o.scope, o.key FROM {schema}.operation o \
         WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) \
         AND o.until_ms > (SELECT {schema}.store_now()) ORDER BY o.wake_ms LIMIT $6 FOR UPDATE SKIP LOCKED) renewed \
         WHERE w.scope = renewed.scope AND w.key = renewed.key"
    );
    within.ask("move renewed leases", &sql, &asked.values(&MOVED_MAX)).await.map(drop)
}

/// Values of the take's statements.
pub(super) struct Asked {
    phase: i64,
    pub(super) vendor: Option<String>,
    account: Option<String>,
    /// IDs of the seal keys that this process has.
    pub(super) seals: Vec<Vec<u8>>,
    pub(super) from: i64,
    pub(super) limit: i64,
}

impl Asked {
    pub(super) fn of(shared: &Shared, take: &Takeover, from: i64) -> Asked {
        let limit = i64::try_from(take.limit).unwrap_or(i64::MAX);
        Asked::new(shared, (take.phase, take.account.as_deref()), (from, limit))
    }

    pub(super) fn new(
        shared: &Shared,
        (phase, account): (Phase, Option<&str>),
        (from, limit): (i64, i64),
    ) -> Asked {
        Asked {
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
fn of_a_wrong_clock(schema: &Schema) -> String {
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
