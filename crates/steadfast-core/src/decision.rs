//! The decision: how a call under way goes on.
//!
//! [`next_step`] is pure and total. It is the only place where it is decided whether a call is sent, looked up, waited
//! for, postponed or ended. A driver carries out the [`Step`], reports what it [`Observed`], and asks again:
//!
//! ```text
//! loop {
//!     progress.observe(&context, &observed, now);
//!     let step = next_step(&context, &progress, &observed, now, draw);
//!     progress.follow(&step, now);
//!     observed = carry out the step;
//! }
//! ```
//!
//! [`Context`] never changes during a run. [`Progress`] changes by `observe` and `follow` alone. Permits, locks, bodies
//! and errors stay with the driver.
//!
//! Each situation has its rule, in a file of its own. A rule calls no other rule: where one hands on to another, its
//! step is [`Step::Pursue`], and the situation after it is [`Observed::Pursued`]. Rules share the questions
//! that [`Situation`] answers, [`may_send`](crate::operation::record::may_send) among them.
//!
//! Two more decisions stand beside the run: the [meaning of a claim's answer](claim::meaning), and whether
//! [a failed write is tried again](rewrite::after_failed_write).

mod admitted;
mod attempted;
pub mod claim;
mod clear;
mod conclude;
mod context;
mod credentials;
mod evidence;
mod gates;
mod interrupted;
mod ladder;
mod lease;
mod log;
mod looked_up;
mod lookup;
mod observed;
mod outage;
mod paid;
mod progress;
mod renewed;
mod resume;
pub mod rewrite;
#[cfg(test)]
mod sample;
mod settling;
mod situation;
mod step;
#[cfg(any(test, feature = "testkit"))]
pub mod tape;
mod waits;
mod woken;
mod written;

pub use context::{Context, Now, Recorded};
pub use evidence::Evidence;
pub use gates::ask_again_at;
pub use lease::Lease;
pub use log::{LogFacts, UNAUTHORIZED};
pub use looked_up::PAGES_MAX;
pub use observed::{AttemptOutcome, Attempted, Down, LookedUp, Observed, TakenOperation, meets_refusal};
pub use progress::{Last, Phase, Progress};
pub use settling::{Moment, Settling};
pub use situation::LOOKUP_GAP_MAX;
pub use step::{
    CallEnd, CallerAnswer, Concluded, Errand, Goal, LogQuestion, Planned, Postponed, Purpose, RefusedAs,
    Search, Step, Success, Why,
};
pub use waits::{SLEEP_MAX, spread, spread_over};
pub use written::STORE_GRACE;

use situation::Situation;

/// The next step of a call.
///
/// `draw` is a random number from 0 up to 1, for the jitter of a wait.
pub fn next_step(
    context: &Context<'_>,
    progress: &Progress,
    observed: &Observed,
    now: Now,
    draw: f64,
) -> Step {
    let situation = Situation { context, progress, now, draw };
    match (observed, progress.goal()) {
        (Observed::Taken(taken), _) => resume::taken(&situation, taken),
        (Observed::Claimed { is_paused, .. }, _) => admitted::claimed(&situation, *is_paused),
        (Observed::Pursued, Goal::Resume) => resume::resume(&situation, None),
        (Observed::Pursued, Goal::Send(_)) => clear::clear(&situation),
        (Observed::Pursued, Goal::Retry) => ladder::retry(&situation),
        (Observed::Pursued, Goal::Lookup(search)) => lookup::plan(&situation, search),
        (Observed::Pursued, Goal::Conclude { purpose, concluded }) => {
            conclude::conclude(&situation, purpose, concluded)
        }
        (Observed::Log(log), goal) => with_log(&situation, goal, log.as_ref()),
        (Observed::Charged { is_paid }, _) => paid::charged(&situation, *is_paid),
        (Observed::Admitted { is_paused }, _) => admitted::admitted(&situation, *is_paused),
        (Observed::HeldBack { gate, retry_at }, _) => gates::held_back(&situation, *gate, *retry_at),
        (Observed::Stopping { paused_until }, _) => interrupted::stopping(&situation, *paused_until),
        (Observed::Renewed { is_paused, .. }, _) => renewed::renewed(&situation, *is_paused),
        (Observed::Woken, _) => woken::woken(&situation),
        (Observed::Attempted(attempted), _) => attempted::attempted(&situation, attempted, None),
        (Observed::LookedUp { looked, .. }, goal) => looked_up::looked_up(&situation, goal, *looked, None),
        (Observed::CredentialsNoted, goal @ Goal::Lookup(_)) => {
            let looked = progress.last().looked.unwrap_or(LookedUp::CannotTell);
            looked_up::looked_up(&situation, goal, looked, None)
        }
        (Observed::CredentialsNoted, _) => credentials::noted(&situation),
        (Observed::Written { began }, _) => written::written(&situation, *began),
        (Observed::Reread { is_unchanged, asked }, _) => written::reread(&situation, *is_unchanged, *asked),
        (Observed::Failed, _) => Step::Tell(CallerAnswer::Failure),
    }
}

/// Goes back to the rule that asked for the log.
fn with_log(situation: &Situation<'_>, goal: Goal, log: Option<&LogFacts>) -> Step {
    let log = Some(log);
    match (situation.progress.reading(), goal, situation.progress.last()) {
        (LogQuestion::Lookup | LogQuestion::Miss, goal, Last { looked: Some(looked), .. }) => {
            looked_up::looked_up(situation, goal, looked, log)
        }
        (LogQuestion::Attempt, _, Last { attempted: Some(attempted), .. }) => {
            attempted::attempted(situation, &attempted, log)
        }
        _ => resume::resume(situation, log),
    }
}
