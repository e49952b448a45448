//! The steps that read what is on record.

use steadfast_core::AttemptReport;
use steadfast_core::internal::decision::{LogFacts, Observed, STORE_GRACE};
use steadfast_core::operation::record::Record;

use super::run::Run;
use crate::limit;

/// Reads the operation's log.
pub(super) async fn read(run: &mut Run<'_>) -> Observed {
    let Some(record) = run.hold.as_ref().map(|hold| &hold.record) else { return Observed::Log(None) };
    let Some(stored) = log_of(run, record).await else { return Observed::Log(None) };
    let mut facts = LogFacts::of(&stored, run.log.unwritten(), record.claimed_at);
    if let Some(refusals) = &mut facts.refusals {
        let last = run.now().instant_of(refusals.last);
        let credentials = run.engine.gates.credentials();
        refusals.is_answered_since = credentials.is_answered_since(record.id.scope.account_path(), last);
    }
    Observed::Log(Some(facts))
}

/// The operation's log; `None` if the store cannot say, or not in time.
async fn log_of(run: &Run<'_>, record: &Record) -> Option<Vec<AttemptReport>> {
    let clock = &*run.engine.clock;
    let until = run.context.deadline.max(clock.now().plus(STORE_GRACE));
    limit::within(clock, until, run.engine.store.evidence(&record.id)).await?.ok()
}

/// Reads the record again, after a write that took long.
pub(super) async fn reread(run: &mut Run<'_>) -> Observed {
    let clock = &*run.engine.clock;
    let asked = clock.now();
    let Some(held) = run.hold.as_ref().map(|hold| &hold.record) else {
        return Observed::Reread { is_unchanged: true, asked };
    };
    let read = limit::within(clock, asked.plus(STORE_GRACE), run.engine.store.get(&held.id)).await;
    let is_unchanged = matches!(read, Some(Ok(Some(record))) if record.fence == held.fence);
    Observed::Reread { is_unchanged, asked }
}
