//! An attempt of recovery that failed because the vendor is down for all callers.
//!
//! The ladder bounds what one operation may cost while the vendor is well: after so many failures the trouble is the
//! operation's own, and a person is told. In an outage a failure says nothing of the operation. Recovery sends one
//! operation after the other as the probes of the open circuit. If they counted as steps of their ladders, an outage
//! of an hour would end some operations as dead letters, only because it was their turn. So such an attempt is no
//! step.
//!
//! The breaker says whether the vendor is down: it is not closed when the attempt has failed. Without a breaker an
//! outage looks like the operation's own trouble, and each attempt is a step.
//!
//! A service that makes few calls learns of an outage by one operation, or a handful: too few to open a circuit, and
//! their ladders are climbed within 40 seconds. So a second failure is a step only if another call was answered since
//! the one before it: the vendor is well, and the trouble is the operation's own. Where no call was answered, the two
//! cannot be told apart. Then the operation goes on at the ladder's last wait, and its steps count again once it is
//! an hour old.
//!
//! A host without file descriptors, ports or memory fails every call alike. Such a failure is no step, for a day.
//!
//! An operation that the vendor never takes does not keep the circuit from closing: see [`circuits`](crate::policy::circuits). So the
//! wait behind an open circuit is no longer than the circuit's own, and once the vendor is back all is due. After a day
//! each attempt is a step again: every operation ends, and a person is told. Behind the circuit of a route alone it is so
//! after an hour: whether the route is down or the operation is poison cannot be told apart.

use std::time::Duration;

use super::situation::{LOOKUP_GAP_MAX, LOOKUPS_LAST, Situation, grown};
use super::{Attempted, Context, Down, LogFacts, Now, Progress};
use crate::guard::Guard;
use crate::policy::gates::Outcome as Health;
use crate::transport::SendErrorKind;

/// The reason for which a failure says nothing of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The circuit is not closed.
    Down,
    /// No call was answered since the failure before it.
    Unseen,
    /// It is this host's own.
    Local,
}

/// Whether an attempt is spared the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    No,
    Yes(Outage),
    /// The log of earlier runs says.
    ByLog,
}

/// Whether an attempt failed for a reason that may be all callers', and is therefore no step of the ladder. A lack of this
/// host is all callers' also where one waits: its time bounds that.
pub(super) fn of(context: &Context<'_>, progress: &Progress, attempted: &Attempted, now: Now) -> Spared {
    let lasts = context.retention.min(LOOKUPS_LAST);
    let spared_within = |lasts: Duration, outage| match age(context, now) < lasts {
        true => Spared::Yes(outage),
        false => Spared::No,
    };
    if attempted.failure == Some(SendErrorKind::Local) && !context.backoff.steps.is_empty() {
        return spared_within(lasts, Outage::Local);
    }
    if !context.is_recovery || attempted.health != Health::Failure {
        return Spared::No;
    }
    match attempted.down {
        Some(Down::Account) => return spared_within(lasts, Outage::Down),
        Some(Down::Route) => return spared_within(lasts.min(UNSEEN_LAST), Outage::Down),
        None => {}
    }
    if age(context, now) >= lasts.min(UNSEEN_LAST) || Guard::QuietOutage.is_out() {
        return Spared::No;
    }
    match (attempted.answered_at, progress.attempted_at()) {
        (None, _) => Spared::No,
        (Some(_), None) => Spared::ByLog,
        (Some(answered), Some(before)) if answered <= before => Spared::Yes(Outage::Unseen),
        (Some(_), Some(_)) => Spared::No,
    }
}

/// The same for the first attempt of a run, by the last one of an earlier run.
pub(super) fn by_log(log: &LogFacts, attempted: &Attempted, now: Now) -> Option<Outage> {
    let before = now.instant_of(log.last_ended?);
    (attempted.answered_at? <= before).then_some(Outage::Unseen)
}

/// Time since the first claim.
fn age(context: &Context<'_>, now: Now) -> Duration {
    context.recorded.map_or(Duration::ZERO, |recorded| now.wall.since(recorded.claimed_at))
}

/// The wait after an attempt that was no step: half of a tenth of the operation's age to all of it. While nothing but this
/// operation tells of an outage it is the ladder's wait, or that of its last step, where that is longer.
pub(super) fn wait(situation: &Situation<'_>, outage: Outage) -> Duration {
    let Situation { context, progress, now, draw } = *situation;
    let most = if outage == Outage::Down { DOWN_WAIT_MAX } else { LOOKUP_GAP_MAX };
    let by_age = grown(age(context, now)).min(most).mul_f64(f64::midpoint(1.0, draw));
    let by_age = by_age.max(situation.first_step());
    match outage {
        Outage::Down => by_age,
        Outage::Unseen | Outage::Local => {
            let last = context.backoff.steps.len().saturating_sub(1) as u32;
            let tried = progress.attempts().saturating_add(progress.spared_before()).saturating_sub(1);
            let rung = context.backoff.wait(tried.min(last), progress.rung(), draw);
            rung.unwrap_or_default().max(by_age)
        }
    }
}

/// The longest wait after an attempt that a circuit which is open spared: the circuit's own. A failed operation comes after what
/// did not, so that no longer wait is needed to keep it from the probes; and once the vendor is back, all is due.
const DOWN_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long an operation is spared its ladder while only its own failures, or its route's, tell of an outage. It is longer
/// than most outages. It is so short that an operator does not hear a day late of a request which the vendor never takes.
const UNSEEN_LAST: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{NOW, Sample, at, log, lost, ms};
    use crate::decision::{LogQuestion, Observed, Step};

    #[test]
    fn a_failure_that_is_all_callers_is_no_step_for_an_hour_or_a_day() {
        let hours = |hours: u64| {
            Sample::held(|record| record.claimed_at = NOW.wall.minus(ms(hours * 3_600_000))).recovered()
        };
        let (down, route) = (Some(Down::Account), Some(Down::Route));
        let behind = |down| Attempted { down, ..lost() };
        let quiet = |answered_ms| Attempted { answered_at: Some(at(answered_ms)), ..lost() };
        let local = Attempted { failure: Some(SendErrorKind::Local), ..lost() };
        let again = |call: Sample| call.seen(&Observed::Attempted(lost()));
        let is_open = |call: Sample, attempted| call.seen(&Observed::Attempted(attempted)).last().is_open;
        for (row, (call, attempted, outage)) in [
            (Sample::taken(), lost(), None),
            (Sample::taken(), behind(down), Some(Outage::Down)),
            (Sample::claimed(), behind(down), None),
            (Sample::taken(), Attempted { health: Health::Neutral, ..behind(down) }, None),
            (hours(23), behind(down), Some(Outage::Down)),
            (hours(24), behind(down), None),
            (Sample::taken(), behind(route), Some(Outage::Down)),
            (hours(1), behind(route), None),
            (Sample::claimed(), local, Some(Outage::Local)),
            (hours(24), local, None),
            (again(Sample::taken()), quiet(0), Some(Outage::Unseen)),
            (again(Sample::taken()), quiet(1), None),
            (again(hours(1)), quiet(0), None),
        ]
        .into_iter()
        .enumerate()
        {
            let seen = call.seen(&Observed::Attempted(attempted));
            assert_eq!(seen.last().outage, outage, "row {row}");
        }
        assert!(is_open(Sample::taken(), quiet(0)), "only the log knows of the attempt before");
        for (last_ended, outage) in [(NOW.wall, Some(Outage::Unseen)), (NOW.wall.minus(ms(1)), None)] {
            let read = Sample::taken().seen(&Observed::Attempted(quiet(0)));
            let facts = LogFacts { last_ended: Some(last_ended), ..log() };
            let read = read.did(Step::ReadLog(LogQuestion::Attempt)).seen(&Observed::Log(Some(facts)));
            assert_eq!((read.last().outage, read.last().is_open), (outage, false));
        }
    }
}
