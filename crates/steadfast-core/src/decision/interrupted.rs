//! The process stops.

use super::situation::Situation;
use super::{Planned, Step, Why};
use crate::clock::Instant;

/// Lets go of the operation. Where only this process's own gates held it up, another one may take it at once, or when
/// the pause is over that the vendor asked for. A longer wait stays as it was.
pub(super) fn stopping(situation: &Situation<'_>, paused_until: Option<Instant>) -> Step {
    let at = match situation.progress.planned() {
        Some(Planned { until, why: Why::Retry | Why::LookUp, .. }) => until,
        _ => paused_until.unwrap_or(situation.now.at),
    };
    situation.postpone(at, Why::Retry)
}
