//! Work of the writer inside a transaction: load, let the state machine decide, store.

use std::time::Duration;

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::{ClaimedExt, NotesExt, RecordExt};
use steadfast_core::internal::store::{FAR_MAX, Seals, Stored, Tenants, phase_number, read_stored, to_ms};
use steadfast_core::operation::record::{
    Act, Action, AuditEntry, CLOCKS_DIFFER_MAX, Claimed, Declined, Forbidden, Phase, Place, Record, Takeover,
    Transition,
};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::StoreError;
use steadfast_core::{Effect, Obstacle};

use super::names::{adopt, settle_heirs, supersede};
use super::prepared::Prepared;
use super::row::{self, AnswerChange};
use super::{due, notes, purge, rows, sealed, sequence};

/// A claim, as the values that it writes if it is the first.
pub(super) struct FirstClaim {
    pub record: Record,
    pub request: Vec<u8>,
    pub lease: Duration,
    pub seals: Seals,
}

/// Result of a claim in the writer.
pub(super) enum ClaimResult {
    /// No record of this life of the key: the claim is the first, and is now on file. The life begins with this
    /// fence, and with this place in its sequence.
    Absent { first_fence: u64, place: Option<Box<Place>> },
    /// A record was there: the claim's result, and the row.
    Present(Box<(Claimed, Stored)>),
    /// An operation that may be taken over or started over, but that this process cannot read. Nothing was
    /// written.
    Unreadable(StoreError),
    /// The claim would be the first, but the operation that it supersedes is an obstacle. Nothing was written.
    InTheWay(Obstacle, Effect),
}

/// Carries out a claim. `written` is when the outbox row was enqueued; `None` for a call.
pub(super) fn claim(
    connection: &Prepared<'_>,
    first: &FirstClaim,
    written: Option<Timestamp>,
) -> Result<ClaimResult, StoreError> {
    let FirstClaim { record, request, lease, seals } = first;
    let notes = notes::record_time(connection, record.claimed_at)?;
    sealed::refresh_seals(connection, seals)?;
    let notes = written.map_or(notes, |written| notes.of_row(written));
    if let Some(key) = &record.predecessor
        && let Some(result) = supersede(connection, record, key, (&notes, seals))?
    {
        return Ok(result);
    }
    sealed::note_use(connection, seals)?;
    // The index decides which claim is first; only for the others is there anything to read.
    let first_fence = notes.purged.saturating_add(1);
    if row::insert(connection, record, first_fence, request)? {
        return begin_life(connection, record, first_fence);
    }
    let Some(stored) = row::load(connection, &record.id)? else {
        return Err(StoreError::new("internal error: the record vanished during the transaction"));
    };
    let claimed = stored.record.claim(record, *lease, &notes);
    if let Claimed::Fresh(record) = &claimed {
        // As if a purge had come first: the new life's row is as new as its log.
        purge::remove(connection, stored.number)?;
        row::insert(connection, record, record.first_fence, request)?;
        return begin_life(connection, record, record.first_fence);
    }
    if let Some(record) = claimed.changes() {
        if let Err(error) = stored.check(seals) {
            return Ok(ClaimResult::Unreadable(error));
        }
        row::update(connection, stored.number, record, AnswerChange::Set(None))?;
    }
    Ok(ClaimResult::Present(Box::new((claimed, stored))))
}

/// Enters a new life of a key into its sequence. Its row is the one that was inserted last.
fn begin_life(connection: &Connection, record: &Record, first_fence: u64) -> Result<ClaimResult, StoreError> {
    let mut place = None;
    if record.sequence.is_some() {
        let number = connection.last_insert_rowid();
        sequence::enter(connection, number, record)?;
        place = sequence::place_of(connection, number)?;
    }
    Ok(ClaimResult::Absent { first_fence, place })
}

/// A transition, as the writer gets it.
pub(super) struct PendingTransition {
    /// The predicted record, if `predicted`; else the holder's.
    pub record: Record,
    /// True if the record was predicted: the holder's is in progress under the transition's fence.
    pub predicted: bool,
    pub transition: Transition,
    /// The event's answer; `None` if it has none.
    pub answer: Option<Vec<u8>>,
    /// Log lines of the attempts; see [`reports::lines`](crate::store::reports::lines).
    pub reports: String,
    pub seals: Seals,
}

/// Result of a transition in the writer.
pub(super) enum TransitionResult {
    /// The predicted record was written.
    AsPredicted,
    /// The record was not as predicted, and is now this.
    Moved(Box<Stored>),
    Declined(Declined),
}

/// Carries out a transition. Nearly always the record has not changed since its holder read it. Fence and phase
/// prove that, and one statement is enough, where loading the row first costs as much as the write.
pub(super) fn transition(
    connection: &Prepared<'_>,
    pending: &PendingTransition,
) -> Result<TransitionResult, StoreError> {
    let PendingTransition { record, predicted, transition, answer, reports, seals } = pending;
    let answer = answer.as_deref();
    notes::check_held(connection)?;
    if answer.is_some() {
        sealed::note_use(connection, seals)?;
    }
    if *predicted && row::update_held(connection, record, answer, reports)? {
        sequence::operation_updated_by_name(connection, record)?;
        return Ok(TransitionResult::AsPredicted);
    }
    let Some(stored) = row::load(connection, &record.id)? else {
        return Ok(TransitionResult::Declined(Declined::Absent));
    };
    // Also for a declined transition: evidence is not fenced.
    if !reports.is_empty() {
        row::append(connection, &record.id, reports)?;
    }
    Ok(match stored.record.apply(transition.clone()) {
        Ok(record) => {
            row::update(connection, stored.number, &record, AnswerChange::Set(answer))?;
            settle_heirs(connection, &record, answer, seals)?;
            TransitionResult::Moved(Box::new(Stored { record, answer: None, ..stored }))
        }
        Err(declined) => TransitionResult::Declined(declined),
    })
}

pub(super) fn take(
    connection: &Connection,
    take: &Takeover,
    (tenants, seals): (&Tenants, &Seals),
) -> Result<Vec<Stored>, StoreError> {
    notes::record_time(connection, take.now)?;
    sealed::refresh_seals(connection, seals)?;
    let mut found = match (take.phase, take.account.as_deref()) {
        (Phase::Scheduled, Some(account)) if take.wanted.is_all() => {
            due::in_turn(connection, (take, account), tenants, seals)?
        }
        (Phase::Scheduled, Some(account)) => due::wanted(connection, (take, account), seals)?,
        _ => find_operations(connection, take, (DUE, take.now, take.limit), seals)?,
    };
    if found.len() < take.limit {
        let from = take.now.plus(CLOCKS_DIFFER_MAX);
        let limit = (take.limit - found.len()).max(FAR_MAX);
        found.extend(find_operations(connection, take, (HAS_WRONG_TIME, from, limit), seals)?);
    }
    let mut taken = Vec::new();
    for stored in found {
        if taken.len() < take.limit
            && let Some(record) = stored.record.take(take)
        {
            row::update(connection, stored.number, &record, AnswerChange::Set(None))?;
            taken.push(Stored { record, answer: None, ..stored });
        }
    }
    Ok(taken)
}

/// Returns operations that a taker may have, among those that `clause` selects by a time, at most `limit`.
fn find_operations(
    connection: &Connection,
    take: &Takeover,
    (clause, time, limit): (&str, Timestamp, usize),
    seals: &Seals,
) -> Result<Vec<Stored>, StoreError> {
    let doing = "look for operations to take";
    let account = take.account.as_deref();
    // The vendor is for the index, the account for the rows that it finds.
    let scope = account.map(Scope::from_stored);
    let vendor = scope.as_ref().map(Scope::vendor_path);
    // The limit is on rows and not on bytes: a caller asks for as many as it can process.
    let sql = format!(
        "SELECT {} FROM operation WHERE phase < 3 AND phase = ?1 {} {} AND {clause} ORDER BY until_ms, number LIMIT ?3",
        row::columns(),
        if account.is_some() { OF_ACCOUNT } else { "AND ?4 IS NULL AND ?5 IS NULL" },
        sealed::readable_rows(seals)
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = params![phase_number(take.phase), to_ms(time), limit, vendor, account];
    rows::all(connection, doing, (&sql, values), |row| read_stored(row))
}

/// Condition: the lease has expired, or the operation is due.
pub(super) const DUE: &str = "until_ms <= ?2";

/// Condition for rows that a wrong clock scheduled far ahead, except operations that were enqueued for later,
/// which keep their time. No index has the time of the last change, so only the rows with the latest times are
/// checked. A backlog that is due in an hour must not be read through each second.
pub(super) const HAS_WRONG_TIME: &str = "updated_at_ms > ?2 AND NOT (phase = 2 AND fence = first_fence \
     AND attempts = 0 AND effect = 0 AND until_ms > updated_at_ms) AND number IN (SELECT number FROM operation \
     WHERE phase < 3 AND phase = ?1 AND until_ms > ?2 ORDER BY until_ms DESC LIMIT ?3)";

/// [`Scope::is_reached_by`](crate::operation::Scope::is_reached_by), in SQL.
pub(super) const OF_ACCOUNT: &str =
    "AND vendor = ?4 AND substr(scope, 1, length(?5) + 1) IN (?5 || '/', ?5 || '>')";

pub(super) fn act(
    connection: &Connection,
    id: &OperationId,
    act: &Act,
    seals: &Seals,
) -> Result<Result<Stored, Forbidden>, StoreError> {
    let Some(stored) = row::load(connection, id)? else {
        return Ok(Err(Forbidden::Absent));
    };
    sealed::refresh_seals(connection, seals)?;
    stored.check(seals)?;
    let (record, entry) = match stored.record.act(&notes::with_time(connection, act)?) {
        Ok(acted) => acted,
        Err(forbidden) => return Ok(Err(forbidden)),
    };
    if let Action::Adopt { to } = &act.action
        && let Err(forbidden) = adopt(connection, &stored, (to, act.now), seals)?
    {
        return Ok(Err(forbidden));
    }
    // An operator's action brings no answer: the stored answer stays as long as the state has one.
    let answer =
        if record.phase() == Phase::Scheduled { AnswerChange::Set(None) } else { AnswerChange::Keep };
    row::update(connection, stored.number, &record, answer)?;
    append_audit(connection, &entry)?;
    Ok(Ok(Stored { record, ..stored }))
}

pub(super) fn append_evidence(
    connection: &Connection,
    id: &OperationId,
    reports: &str,
) -> Result<Result<(), Declined>, StoreError> {
    notes::check_held(connection)?;
    let there = row::append(connection, id, reports)?;
    Ok(if there { Ok(()) } else { Err(Declined::Absent) })
}

pub(super) fn append_audit(connection: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let doing = "write the audit record";
    let action = serde_json::to_string(&entry.action)
        .map_err(|error| StoreError::with_source("cannot serialize an action", error))?;
    let sql = "INSERT INTO audit (scope, key, action, by, why, at_ms, before, after) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        entry.id.scope.as_str(),
        entry.id.key.as_str(),
        action,
        entry.by,
        entry.why,
        to_ms(entry.at),
        phase_number(entry.before),
        phase_number(entry.after),
    ];
    rows::change(connection, doing, (sql, values)).map(drop)
}
