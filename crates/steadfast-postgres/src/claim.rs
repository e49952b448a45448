//! Claims: nearly always the first of its key, which only the unique name has to decide.
//!
//! A claim that finds a row reads it, and [`operation::record`](crate::operation::record) decides. Nearly
//! always that is a repeat of a settled operation or of one in flight, and nothing is written. Only a claim
//! that writes is decided again, in a transaction that has locked the row.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::{ClaimedExt, NotesExt, RecordExt};
use steadfast_core::internal::store::{Columns, RowReader, Standing, Stored, duration_ms, redacted, to_ms};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Claim, Claimed, Record};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::batch::{self, Job, Queue, QueuedJob};
use super::outbox::earlier_row;
use super::read::Read;
use super::row::{Reader, Value};
use super::transaction::{Decision, TURNS_MAX, Transaction, in_transaction};
use super::{Shared, names, sealed, sequence, standing, write};

pub(super) async fn claim(shared: &Arc<Shared>, claim: Claim) -> Result<Claimed, StoreError> {
    let request = shared.seals.request(&claim.id, &claim.request)?;
    let request = Bytes::from(request);
    if claim.predecessor.is_some() || slot_of(&claim).is_some() {
        return decide(shared, claim, request).await;
    }
    let mut turn = 1;
    loop {
        let job = FirstClaim::of(&claim, request.clone())?;
        match batch::run(shared, job).await {
            Ok(FirstClaimResult::Fresh { fence, now }) => {
                let record = Record::first(claim.rebased(now));
                return Ok(Claimed::Fresh(record.after_fence(fence - 1)));
            }
            Ok(FirstClaimResult::Taken) => {}
            Err(error) if error.kind() == StoreErrorKind::Locked => {
                return decide(shared, claim, request).await;
            }
            Err(error) => return Err(error),
        }
        let Read { now, notes, stored } = shared.read(&claim.id).await?;
        match stored {
            Some(stored) => {
                sealed::refresh_seals_for(shared, &stored).await?;
                let first = Record::first(claim.clone().rebased(now));
                let claimed = stored.record.claim(&first, claim.lease, &notes);
                return match claimed.changes() {
                    None => with_stored_row(shared, claimed, stored),
                    Some(_) => decide(shared, claim, request).await,
                };
            }
            // The record was purged in between.
            None if turn < TURNS_MAX => turn += 1,
            None => return decide(shared, claim, request).await,
        }
    }
}

/// Returns the slot of the sequence that a first claim would enter; `None` if it enters none.
fn slot_of(claim: &Claim) -> Option<i16> {
    let sequence = claim.due.and(claim.sequence.as_ref())?;
    Some(sequence::slot_of(claim.id.scope.account_path(), sequence.name()))
}

/// Decides a claim with the rows of its key and of its predecessor locked.
async fn decide(shared: &Arc<Shared>, claim: Claim, request: Bytes) -> Result<Claimed, StoreError> {
    let work = move |transaction: Transaction| {
        let (claim, request) = (claim.clone(), request.clone());
        async move {
            let ended = decide_within(&transaction, claim, &request, None).await;
            transaction.finish(ended).await
        }
    };
    let (claimed, stored) = in_transaction(shared, work).await?;
    match stored {
        Some(stored) => with_stored_row(shared, claimed, *stored),
        None => Ok(claimed),
    }
}

/// Claims the operation of an outbox row. Removes the row in the same commit, if the operation is then on
/// record for its request. Returns `None` if the row is gone, or another dispatcher has locked it.
pub(super) async fn admit(
    shared: &Arc<Shared>,
    number: i64,
    claim: Claim,
) -> Result<Option<Claimed>, StoreError> {
    let request = shared.seals.request(&claim.id, &claim.request)?;
    let request = Bytes::from(request);
    let work = move |transaction: Transaction| {
        let (claim, request) = (claim.clone(), request.clone());
        async move {
            let ended = admit_within(&transaction, number, claim, &request).await;
            transaction.finish(ended).await
        }
    };
    match in_transaction(shared, work).await? {
        None => Ok(None),
        Some((claimed, Some(stored))) => with_stored_row(shared, claimed, *stored).map(Some),
        Some((claimed, None)) => Ok(Some(claimed)),
    }
}

async fn admit_within(
    transaction: &Transaction,
    number: i64,
    claim: Claim,
    request: &[u8],
) -> Result<Decision<Option<Outcome>>, StoreError> {
    let schema = transaction.shared.connections.schema();
    let lock = format!(
        "SELECT enqueued_at_ms FROM {schema}.outbox o WHERE number = $1 AND rejected_at_ms IS NULL AND (sequence IS NULL OR NOT {} \
         AND (before.rejected_at_ms IS NULL OR before.on_dead_letter = 'hold'))) FOR UPDATE SKIP LOCKED",
        earlier_row(&schema.to_string())
    );
    let locked = transaction.query("lock a row of the outbox", &lock, &[(&number, Type::INT8)]).await?;
    let Some(row) = locked.first() else { return Ok(Decision::Commit(None)) };
    let written = Reader::of(row).time()?;
    let decided = decide_within(transaction, claim, request, Some(written)).await?;
    let Decision::Commit(outcome) = decided else { return Ok(Decision::Retry) };
    if !matches!(outcome.0, Claimed::Mismatch { .. } | Claimed::InTheWay { .. }) {
        let remove = format!("DELETE FROM {schema}.outbox WHERE number = $1");
        transaction.query("remove a row of the outbox", &remove, &[(&number, Type::INT8)]).await?;
    }
    Ok(Decision::Commit(Some(outcome)))
}

/// Result of a claim, and the row that it found.
type Outcome = (Claimed, Option<Box<Stored>>);

type Decided = Decision<Outcome>;

/// Decides a claim in a transaction. `written` is when the outbox row was enqueued; `None` for a call.
async fn decide_within(
    transaction: &Transaction,
    claim: Claim,
    request: &[u8],
    written: Option<Timestamp>,
) -> Result<Decided, StoreError> {
    let old = claim.predecessor.as_ref();
    let old = old.map(|key| OperationId::new(claim.id.scope.clone(), key.clone()));
    let names = std::iter::once(&claim.id).chain(old.iter().filter(|old| **old != claim.id));
    let slot = slot_of(&claim);
    let mut found = transaction.lock_beside(names, slot.as_slice(), Standing::check_new).await?;
    let lease = claim.lease;
    let first = Record::first(claim.rebased(found.now));
    let held = found.remove(&first.id);
    let notes = written.map_or(found.notes, |written| found.notes.of_row(written));
    if let Some(old) = old {
        // A key that names itself as its predecessor finds its own record.
        let old = if old == first.id { held.clone() } else { found.remove(&old) };
        if let Some(in_the_way) =
            names::supersede(transaction, (&first, held.as_ref()), (old.as_ref(), &notes)).await?
        {
            return Ok(Decision::Commit((in_the_way, None)));
        }
    }
    let Some(held) = held else {
        let record = first.after_fence(notes.purged);
        if !write::start(transaction, &record, request).await? {
            return Ok(Decision::Retry);
        }
        sequence::enter(transaction, &record).await?;
        return Ok(Decision::Commit((
            sequence::with_place(transaction, Claimed::Fresh(record)).await?,
            None,
        )));
    };
    let claimed = held.record.claim(&first, lease, &notes);
    match &claimed {
        Claimed::Fresh(record) => {
            write::restart(transaction, record, request).await?;
            sequence::reenter(transaction, record).await?;
        }
        Claimed::TakenOver(record) | Claimed::Freed(record) => {
            held.check(&transaction.shared.seals)?;
            write::update(transaction, [record]).await?;
            write::clear_answers(transaction, [&record.id]).await?;
            sequence::operation_updated(transaction, record).await?;
        }
        _ => {}
    }
    Ok(Decision::Commit((sequence::with_place(transaction, claimed).await?, Some(Box::new(held)))))
}

/// Returns the result of a claim that found a row, with the request and the answer of that row.
fn with_stored_row(shared: &Shared, claimed: Claimed, stored: Stored) -> Result<Claimed, StoreError> {
    Ok(match claimed {
        Claimed::TakenOver(record) => {
            Claimed::TakenOver(Stored { record, answer: None, ..stored }.whole(&shared.seals)?)
        }
        Claimed::Freed(record) => {
            Claimed::Freed(Stored { record, answer: None, ..stored }.whole(&shared.seals)?)
        }
        Claimed::Settled(record) => Claimed::Settled(Stored { record, ..stored }.whole(&shared.seals)?),
        other => other,
    })
}

/// A claim as the first of its key: the columns that it writes. Times are relative to the claim's now.
pub(super) struct FirstClaim {
    scope: String,
    key: String,
    vendor: String,
    phase: i64,
    until_in: i64,
    on_unknown: i64,
    resends: i64,
    attempt_max: i64,
    vendor_clock: Option<i64>,
    keep: i64,
    fingerprint: [u8; 32],
    wire_key: String,
    redact: Option<String>,
    request: Bytes,
    holder: Option<Arc<str>>,
}

/// Result of a first claim.
#[derive(Clone, Copy, Debug)]
pub(super) enum FirstClaimResult {
    /// On record under this fence, at this time of the server's.
    Fresh { fence: u64, now: Timestamp },
    /// The key has a record.
    Taken,
}

impl FirstClaim {
    fn of(claim: &Claim, request: Bytes) -> Result<FirstClaim, StoreError> {
        let record = Record::first(claim.clone());
        let columns = Columns::of(&record)?;
        let from = to_ms(claim.now);
        Ok(FirstClaim {
            phase: columns.phase,
            until_in: columns.until.unwrap_or(from).saturating_sub(from),
            on_unknown: columns.on_unknown,
            resends: record.resends_left.into(),
            attempt_max: columns.attempt_max,
            vendor_clock: record.vendor_clock_ms,
            keep: duration_ms(record.keep),
            fingerprint: *record.fingerprint.as_bytes(),
            redact: redacted(&record)?,
            vendor: record.id.scope.vendor_path().to_owned(),
            scope: record.id.scope.as_str().to_owned(),
            key: record.id.key.as_str().to_owned(),
            wire_key: record.wire_key,
            holder: record.holder,
            request,
        })
    }
}

impl Job for FirstClaim {
    type Done = FirstClaimResult;

    /// A claim would hold an operation for a caller that has gone.
    const SKIPPED_IF_ABANDONED: bool = true;

    fn bytes(&self) -> usize {
        self.request.len()
    }

    fn queue(shared: &Shared) -> &Queue<FirstClaim> {
        &shared.first_claims
    }

    fn name(&self) -> (&str, &str) {
        (&self.scope, &self.key)
    }

    const DUPLICATE: FirstClaimResult = FirstClaimResult::Taken;

    async fn send(
        shared: &Shared,
        jobs: &[QueuedJob<FirstClaim>],
    ) -> Result<Vec<FirstClaimResult>, StoreError> {
        macro_rules! column {
            ($field:ident) => {
                jobs.iter().map(|queued| queued.job.$field).collect::<Vec<_>>()
            };
            (& $($field:tt)+) => {
                jobs.iter().map(|queued| &queued.job.$($field)+).collect::<Vec<_>>()
            };
        }
        let (scope, key, vendor) = (column!(&scope), column!(&key), column!(&vendor));
        let (phase, until_in, on_unknown) = (column!(phase), column!(until_in), column!(on_unknown));
        let (resends, attempt_max, vendor_clock) =
            (column!(resends), column!(attempt_max), column!(vendor_clock));
        let seal = shared.seals.current();
        let seal: Option<&[u8]> = seal.as_ref().map(|id| &id[..]);
        let (keep, fingerprint) = (column!(keep), column!(&fingerprint[..]));
        let (wire_key, redact, request) = (column!(&wire_key), column!(&redact), column!(&request[..]));
        let holder: Vec<Option<&str>> = jobs.iter().map(|queued| queued.job.holder.as_deref()).collect();
        let values: [Value<'_>; 16] = [
            (&scope, Type::TEXT_ARRAY),
            (&key, Type::TEXT_ARRAY),
            (&vendor, Type::TEXT_ARRAY),
            (&phase, Type::INT8_ARRAY),
            (&until_in, Type::INT8_ARRAY),
            (&on_unknown, Type::INT8_ARRAY),
            (&resends, Type::INT8_ARRAY),
            (&attempt_max, Type::INT8_ARRAY),
            (&vendor_clock, Type::INT8_ARRAY),
            (&holder, Type::TEXT_ARRAY),
            (&seal, Type::BYTEA),
            (&keep, Type::INT8_ARRAY),
            (&fingerprint, Type::BYTEA_ARRAY),
            (&wire_key, Type::TEXT_ARRAY),
            (&redact, Type::TEXT_ARRAY),
            (&request, Type::BYTEA_ARRAY),
        ];
        let line = shared.connections.get().await?;
        let rows = line.query("write claims", &shared.statements.first_claim, &values).await?;
        let mut started = HashMap::with_capacity(rows.len());
        for row in &rows {
            let mut from = Reader::of(row);
            standing::check(&mut from, Standing::check_new)?;
            let (Some(scope), Some(key)) = (from.next::<Option<&str>>()?, from.next::<Option<&str>>()?)
            else {
                continue;
            };
            let (fence, now): (i64, _) = (from.next()?, from.time()?);
            started.insert((scope, key), FirstClaimResult::Fresh { fence: fence.max(1) as u64, now });
            shared.time.record(now);
        }
        let of = |queued: &QueuedJob<FirstClaim>| {
            started.get(&queued.job.name()).copied().unwrap_or(FirstClaimResult::Taken)
        };
        Ok(jobs.iter().map(of).collect())
    }
}
