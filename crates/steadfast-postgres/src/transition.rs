//! Transitions: nearly always of a record that has not changed since its holder read it. Fence and phase prove
//! that, and a batch of such steps is one statement.
//!
//! The new record is predicted from the holder's record, with the holder's idea of the server's time; the
//! statement converts its times to the server's. A step for which the exact time could matter to the state
//! machine takes the slower way: lock, read, decide, write. So does one whose row is not as predicted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::StateExt;
use steadfast_core::internal::store::{Columns, RowReader, Standing, Stored, reports, to_ms};
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Declined, Phase, Record, State, Transition};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::batch::{self, Job, Queue, QueuedJob};
use super::names::settle_heirs;
use super::row::{Reader, Value};
use super::statements::SKEW_MAX_MS;
use super::transaction::{Decision, Transaction, in_transaction};
use super::write::{self, AnswerChange};
use super::{Shared, sequence, standing};

pub(super) async fn transition(
    shared: &Arc<Shared>,
    held: &Record,
    mut transition: Transition,
) -> Result<Result<Record, Declined>, StoreError> {
    let reports = reports::lines(&std::mem::take(&mut transition.reports))?;
    let answer = transition.to.answer_mut();
    let answer = answer.map(|answer| shared.seals.answer(&held.id, answer)).transpose()?;
    let written = OutcomeColumns { answer, reports };
    let written = Arc::new(written);
    if let Some(step) = PredictedTransition::predicted(held, &transition, &written)? {
        match batch::run(shared, step).await {
            Ok(Some(now)) => return Ok(held.apply(transition.rebased(now))),
            Err(error) if error.kind() != StoreErrorKind::Locked => return Err(error),
            Ok(None) | Err(_) => {}
        }
    }
    let id = held.id.clone();
    let work = move |transaction: Transaction| {
        let (id, transition, written) = (id.clone(), transition.clone(), Arc::clone(&written));
        async move {
            let ended = decide(&transaction, &id, transition, &written).await;
            transaction.finish(ended).await
        }
    };
    match in_transaction(shared, work).await? {
        Ok(stored) => stored.whole(&shared.seals).map(Ok),
        Err(declined) => Ok(Err(declined)),
    }
}

/// Values that a transition writes beside the record.
struct OutcomeColumns {
    answer: Option<Vec<u8>>,
    /// Log lines; see [`reports::lines`].
    reports: String,
}

async fn decide(
    transaction: &Transaction,
    id: &steadfast_core::operation::OperationId,
    transition: Transition,
    written: &OutcomeColumns,
) -> Result<Decision<Result<Box<Stored>, Declined>>, StoreError> {
    let mut found = transaction.lock([id], Standing::check_held).await?;
    let Some(stored) = found.remove(id) else { return Ok(Decision::Commit(Err(Declined::Absent))) };
    match stored.record.apply(transition.rebased(found.now)) {
        Ok(record) => {
            write::update(transaction, [&record]).await?;
            let answer = AnswerChange::Set(written.answer.as_deref());
            write::outcome(transaction, id, &written.reports, answer).await?;
            sequence::operation_updated(transaction, &record).await?;
            settle_heirs(transaction, &record, written.answer.as_deref()).await?;
            Ok(Decision::Commit(Ok(Box::new(Stored { record, answer: None, ..stored }))))
        }
        Err(declined) => {
            // Evidence is not fenced.
            write::outcome(transaction, id, &written.reports, AnswerChange::Keep).await?;
            Ok(Decision::Commit(Err(declined)))
        }
    }
}

/// A transition whose result is predicted. Its times are relative to the holder's now.
pub(super) struct PredictedTransition {
    scope: String,
    key: String,
    fence: i64,
    now: i64,
    phase: i64,
    until_in: Option<i64>,
    attempts: i64,
    effect: i64,
    detail: Option<i64>,
    status: Option<i64>,
    unknown_in: Option<i64>,
    lookups: i64,
    resends: i64,
    written: Arc<OutcomeColumns>,
}

impl PredictedTransition {
    /// Predicts a transition. Returns `None` if the row must be read first.
    fn predicted(
        held: &Record,
        transition: &Transition,
        written: &Arc<OutcomeColumns>,
    ) -> Result<Option<PredictedTransition>, StoreError> {
        let now = transition.now;
        let is_held = held.phase() == Phase::InProgress && held.fence == transition.fence;
        // A record of a wrong clock: see `Record::moved`.
        let skew = Duration::from_millis(SKEW_MAX_MS);
        let is_ahead = held.updated_at.max(held.claimed_at).plus(skew) > now.plus(CLOCKS_DIFFER_MAX);
        // Only a renewal changes nothing in a sequence.
        let moves_sequence = held.sequence.is_some() && !matches!(transition.to, State::InProgress { .. });
        if !is_held || is_ahead || moves_sequence {
            return Ok(None);
        }
        let Ok(record) = held.apply(transition.clone()) else { return Ok(None) };
        let columns = Columns::of(&record)?;
        let from_now = |at: i64| at.saturating_sub(to_ms(now));
        Ok(Some(PredictedTransition {
            scope: record.id.scope.as_str().to_owned(),
            key: record.id.key.as_str().to_owned(),
            fence: columns.fence,
            now: to_ms(now),
            phase: columns.phase,
            until_in: columns.until.map(from_now),
            attempts: record.attempts.into(),
            effect: columns.effect,
            detail: columns.detail,
            status: columns.status.map(i64::from),
            unknown_in: columns.unknown_since.map(from_now),
            lookups: record.lookups.into(),
            resends: record.resends_left.into(),
            written: Arc::clone(written),
        }))
    }
}

impl Job for PredictedTransition {
    /// The server's time if the row was as predicted and is now written; else `None`.
    type Done = Option<Timestamp>;

    /// A holder's result must be kept.
    const SKIPPED_IF_ABANDONED: bool = false;

    fn name(&self) -> (&str, &str) {
        (&self.scope, &self.key)
    }

    const DUPLICATE: Option<Timestamp> = None;

    fn bytes(&self) -> usize {
        self.written.reports.len() + self.written.answer.as_ref().map_or(0, Vec::len)
    }

    fn queue(shared: &Shared) -> &Queue<PredictedTransition> {
        &shared.transitions
    }

    async fn send(
        shared: &Shared,
        jobs: &[QueuedJob<PredictedTransition>],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        macro_rules! column {
            ($field:ident) => {
                jobs.iter().map(|queued| queued.job.$field).collect::<Vec<_>>()
            };
            (& $($field:tt)+) => {
                jobs.iter().map(|queued| &queued.job.$($field)+).collect::<Vec<_>>()
            };
        }
        let (scope, key, fence, now) = (column!(&scope), column!(&key), column!(fence), column!(now));
        let (phase, until_in, attempts) = (column!(phase), column!(until_in), column!(attempts));
        let (effect, detail, status) = (column!(effect), column!(detail), column!(status));
        let (unknown_in, lookups, resends) = (column!(unknown_in), column!(lookups), column!(resends));
        let reports = column!(&written.reports);
        let answer: Vec<Option<&[u8]>> =
            jobs.iter().map(|queued| queued.job.written.answer.as_deref()).collect();
        let values: [Value<'_>; 15] = [
            (&scope, Type::TEXT_ARRAY),
            (&key, Type::TEXT_ARRAY),
            (&fence, Type::INT8_ARRAY),
            (&now, Type::INT8_ARRAY),
            (&phase, Type::INT8_ARRAY),
            (&until_in, Type::INT8_ARRAY),
            (&attempts, Type::INT8_ARRAY),
            (&effect, Type::INT8_ARRAY),
            (&detail, Type::INT8_ARRAY),
            (&status, Type::INT8_ARRAY),
            (&unknown_in, Type::INT8_ARRAY),
            (&lookups, Type::INT8_ARRAY),
            (&resends, Type::INT8_ARRAY),
            (&reports, Type::TEXT_ARRAY),
            (&answer, Type::BYTEA_ARRAY),
        ];
        let line = shared.connections.get().await?;
        let rows = line.query("write transitions", &shared.statements.transition, &values).await?;
        let mut moved = HashMap::with_capacity(rows.len());
        for row in &rows {
            let mut from = Reader::of(row);
            standing::check(&mut from, Standing::check_held)?;
            let (Some(scope), Some(key)) = (from.next::<Option<&str>>()?, from.next::<Option<&str>>()?)
            else {
                continue;
            };
            let now = from.time()?;
            moved.insert((scope, key), now);
            shared.time.record(now);
        }
        Ok(jobs.iter().map(|queued| moved.get(&queued.job.name()).copied()).collect())
    }
}
