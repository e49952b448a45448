//! The facts of an operation's log about earlier sends.

use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::guard::Guard;

/// The facts of an operation's log that decide something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFacts {
    /// True if a lookup was made, or an attempt left the effect unknown. A lookup's miss, and a person's word, are on
    /// record as no effect, so that the log alone tells of the doubt.
    pub was_in_doubt: bool,
    /// True if the last attempt ended with [`Verdict::Unknown`](crate::vendor::Verdict::Unknown).
    pub is_last_unknown: bool,
    /// End of the last attempt; `None` without one.
    pub last_ended: Option<Timestamp>,
    /// Attempts on the log.
    pub sends: u32,
    /// Set if credentials were refused.
    pub refusals: Option<Refusals>,
    /// Beginning of the first attempt of unknown effect that no lookup has excluded. Without one, of the last line: a
    /// process that died while it sent left none, and that send came after all that are on the log.
    pub first_doubt: Timestamp,
}

/// Refusals of an operation's credentials in earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// End of the last one.
    pub last: Timestamp,
    /// Attempts that were refused in a row, the last ones.
    pub in_a_row: usize,
    /// True if another call of the account was answered well since then. The driver asks the gate.
    pub is_answered_since: bool,
}

impl LogFacts {
    /// The facts of a log, with `own` lines of this run that are not written yet.
    pub fn of(stored: &[AttemptReport], own: &[AttemptReport], claimed_at: Timestamp) -> LogFacts {
        let sends = || stored.iter().filter(|report| !report.is_lookup());
        let last = sends().next_back();
        let in_doubt = |report: &AttemptReport| {
            Guard::LookupInLog.keeps(report.is_lookup()) || report.effect == Effect::Unknown
        };
        let refused = sends().rev().find(|report| is_refused(report)).map(|last| Refusals {
            last: ended(last),
            in_a_row: sends().rev().take_while(|report| is_refused(report)).count(),
            is_answered_since: false,
        });
        LogFacts {
            was_in_doubt: stored.iter().any(in_doubt),
            is_last_unknown: last.is_some_and(|report| report.verdict == UNKNOWN),
            last_ended: last.map(ended),
            sends: u32::try_from(sends().count()).unwrap_or(u32::MAX),
            refusals: refused,
            first_doubt: first_doubt(stored.iter().chain(own), claimed_at),
        }
    }
}

fn first_doubt<'a>(lines: impl Iterator<Item = &'a AttemptReport>, claimed_at: Timestamp) -> Timestamp {
    let (mut first, mut last) = (None, claimed_at);
    for report in lines {
        last = last.max(report.started_at);
        match (report.is_lookup(), report.effect) {
            (true, Effect::None) => first = None,
            (false, Effect::Unknown) => drop(first.get_or_insert(report.started_at)),
            _ => {}
        }
    }
    first.unwrap_or(last)
}

fn ended(report: &AttemptReport) -> Timestamp {
    report.started_at.plus(report.latency)
}

fn is_refused(report: &AttemptReport) -> bool {
    report.status.is_some_and(|status| refuses_credentials(status, report.verdict == UNAUTHORIZED))
}

/// Whether an answer refuses the credentials themselves, and not what they may do. A proxy's 401 counts too: the
/// credentials did not get through.
pub(super) const fn refuses_credentials(status: u16, by_adapter: bool) -> bool {
    status == 401 || (by_adapter && status != 403)
}

/// The log's name for a verdict that refuses the credentials.
pub const UNAUTHORIZED: &str = "unauthorized";

/// The log's name for a verdict that another send does not change.
const UNKNOWN: &str = crate::vendor::Verdict::Unknown.name();
