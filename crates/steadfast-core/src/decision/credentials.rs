//! Refused credentials of an operation without a caller: see [`policy::credentials`](crate::policy).

use std::time::Duration;

use super::situation::Situation;
use super::{RefusedAs, Step, Why};
use crate::error::{Gate, Reason};

/// Leaves the operation due, as it was, for as long as records are kept. It is a dead letter if the refusal is its own.
pub(super) fn noted(situation: &Situation<'_>) -> Step {
    let Situation { context, progress, now, draw } = *situation;
    let wait = match progress.refused_as() {
        Some(RefusedAs::Alone) => return Step::give_up(progress, Reason::Credentials),
        Some(RefusedAs::AtTimes { refusals }) => {
            let step = u32::try_from(refusals.saturating_sub(1)).unwrap_or(u32::MAX);
            context.backoff.wait(step, Duration::ZERO, draw).unwrap_or_default()
        }
        // It is left out of each take while the account is held. It is due at once, unless the answer asks for a wait.
        Some(RefusedAs::Account) | None => Duration::ZERO,
    };
    situation.postpone(now.at.plus(wait), Why::Gate(Gate::Credentials))
}
