//! The step that writes a call's end to its record.

use std::sync::Arc;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::rewrite::{
    FailedWrite, PAUSE_MAX, PAUSE_MIN, Rewrite, after_failed_write, is_vendors_word,
};
use steadfast_core::internal::decision::{
    CallEnd, Evidence, Moment, Observed, Phase, STORE_GRACE, Success, Why,
};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::operation::record::{State, Transition};
use steadfast_core::{Effect, Error, Gate};

use super::late_write::LateWrite;
use super::run::Run;
use crate::telemetry;

/// Writes the end down. A call without a key has nothing to write.
///
/// No permit is held by now: a store that hangs keeps no other call from the vendor.
pub(super) async fn write(run: &mut Run<'_>) -> Observed {
    run.in_hand.admission = None;
    let began = run.engine.clock.now();
    if let Some(CallEnd::Postponed(postponed)) = run.progress.ending() {
        if let Some(wait) = postponed.rung {
            run.log.note_wait(wait);
        }
        if let Why::Gate(gate) = postponed.why
            && gate != Gate::Credentials
        {
            telemetry::refused(run.whose(), gate);
        }
    }
    if run.hold.is_none() {
        return Observed::Written { began };
    }
    match write_down(run, began).await {
        Ok(()) => {
            note_written(run);
            Observed::Written { began }
        }
        Err(error) => {
            let error = match run.progress.ending() {
                // On record it is still in progress; the vendor's word is in hand all the same.
                Some(CallEnd::Success(_)) => {
                    error.with_effect(Effect::Applied).with_answer(run.in_hand.answer.clone())
                }
                Some(CallEnd::Refused(_) | CallEnd::DeadLetter(_)) => {
                    error.with_answer(run.in_hand.answer.clone())
                }
                Some(CallEnd::Postponed(_)) | None => error,
            };
            run.in_hand.error = Some(run.in_context(error));
            Observed::Failed
        }
    }
}

/// The record's state after the end that was decided on.
fn state(run: &Run<'_>, due: Timestamp) -> Option<State> {
    let answer = run.in_hand.answer.as_ref();
    Some(match run.progress.ending()? {
        CallEnd::Success(how) => {
            State::Succeeded { answer: answer?.clone(), reconciled: how == Success::Reconciled }
        }
        CallEnd::Refused(refusal) => State::Refused { refusal, answer: answer?.clone() },
        CallEnd::DeadLetter(reason) => State::Dead { reason, answer: answer.cloned() },
        CallEnd::Postponed(_) => State::Scheduled { at: due },
    })
}

async fn write_down(run: &mut Run<'_>, began: Instant) -> Result<(), Error> {
    let due = match run.progress.ending() {
        Some(CallEnd::Postponed(postponed)) => run.engine.wall().plus(postponed.at.since(began)),
        _ => Timestamp::from_millis(0),
    };
    let until = run.context.deadline.max(began.plus(STORE_GRACE));
    match write_once(run, due, until).await {
        Ok(()) => Ok(()),
        Err(error) => Box::pin(write_again(run, due, until, error)).await,
    }
}

/// Goes on writing after a failure, as long as [`after_failed_write`] says so.
async fn write_again(
    run: &mut Run<'_>,
    due: Timestamp,
    until: Instant,
    mut error: Error,
) -> Result<(), Error> {
    let engine = run.engine;
    let over_at = run.progress.lease().map_or(until, |lease| lease.until());
    let mut pause = PAUSE_MIN;
    loop {
        let Some(to) = state(run, due) else { return Ok(()) };
        let (is_fenced, is_vendors_word) = (error.is_fenced(), is_vendors_word(&to));
        let failed = FailedWrite { pause, until, over_at, is_fenced, is_vendors_word };
        let again_at = match after_failed_write(&failed, engine.clock.now()) {
            Rewrite::At(again_at) => again_at,
            Rewrite::Never => return Err(error),
            Rewrite::WithoutCaller => {
                if let (Some(hold), Some(write)) = (&run.hold, transition(run, due)) {
                    engine.late_writes.begin(LateWrite {
                        vendor: Arc::clone(&engine.vendor),
                        store: Arc::clone(&engine.store),
                        clock: Arc::clone(&engine.clock),
                        wakes: engine.wakes.clone(),
                        held: hold.record.clone(),
                        transition: write,
                        over_at,
                    });
                }
                return Err(error);
            }
        };
        engine.clock.sleep_until(again_at).await;
        if let Some(hold) = &mut run.hold
            && hold.is_written(&to, until).await
        {
            return Ok(());
        }
        match write_once(run, due, until).await {
            Ok(()) => return Ok(()),
            Err(failed) => error = failed,
        }
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
}

async fn write_once(run: &mut Run<'_>, due: Timestamp, until: Instant) -> Result<(), Error> {
    let doing = run.progress.ending().map_or("", doing);
    let (Some(write), Some(hold)) = (transition(run, due), &mut run.hold) else { return Ok(()) };
    hold.write(doing, write, until).await?;
    run.log.mark_written();
    Ok(())
}

fn transition(run: &Run<'_>, due: Timestamp) -> Option<Transition> {
    let to = state(run, due)?;
    let evidence = Evidence::of(&run.context, &run.progress, false, run.now());
    Some(run.hold.as_ref()?.transition(to, evidence, run.log.unwritten().to_vec()))
}

/// Remembers what this process measured of an operation that it lets go of, and wakes those that wait for it.
fn note_written(run: &Run<'_>) {
    let Some(record) = run.hold.as_ref().map(|hold| &hold.record) else { return };
    let (engine, progress) = (run.engine, &run.progress);
    let State::Scheduled { at } = record.state else { return engine.let_go.forget(&record.id) };
    let ended = match progress.phase() {
        Phase::Unknown { since: Some(ours), .. } => Some(Moment::of(ours)),
        Phase::Unknown { since: None, .. } => progress.settling().map(|settling| settling.ended),
        Phase::NotApplied | Phase::ProvenAbsent => None,
    };
    let now = engine.clock.now();
    if let Some(ended) = ended {
        engine.let_go.note(record, ended, progress.unknown_for(now), now);
    }
    // At the time that is on record: it is of the store's own clock. This process is not woken for what is another client's,
    // or it would take it again and again. Nor for what waits for credentials: it is left out of each take meanwhile.
    let is_for_us = !matches!(
        progress.ending(),
        Some(CallEnd::Postponed(postponed))
            if matches!(postponed.why, Why::NotOurs | Why::Gate(Gate::Credentials))
    );
    if is_for_us {
        engine.wakes.wake(Some(&record.id.scope), at);
    }
}

const fn doing(ending: CallEnd) -> &'static str {
    match ending {
        CallEnd::Success(_) | CallEnd::Refused(_) => "record the outcome",
        CallEnd::DeadLetter(_) => "record the dead letter",
        CallEnd::Postponed(_) => "schedule the next attempt",
    }
}
