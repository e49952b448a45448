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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sample::{Sample, answered, at, check, dead_letter, ms, postponed, refused};
    use crate::decision::{Attempted, Observed, Purpose};
    use crate::error::Refusal;

    #[test]
    fn an_accounts_refusal_is_waited_out_and_an_operations_own_ends_it() {
        let refused = answered(401, refused(Refusal::Unauthorized).verdict);
        let noted = |call: Sample, asked_wait, refused_as| {
            let attempted = Observed::Attempted(Attempted { asked_wait, ..refused });
            call.seen(&attempted).did(Step::NoteCredentials(refused_as))
        };
        let at_times = |refusals| RefusedAs::AtTimes { refusals };
        let due = |after_ms| postponed(at(after_ms), Why::Gate(Gate::Credentials), None);
        let rows = [
            (noted(Sample::taken(), None, RefusedAs::Account), due(0)),
            (noted(Sample::taken(), Some(ms(7_000)), RefusedAs::Account), due(7_000)),
            (noted(Sample::taken(), None, at_times(1)), due(500)),
            (noted(Sample::taken(), None, at_times(2)), due(2_000)),
            (noted(Sample::taken(), None, RefusedAs::Alone), dead_letter(Reason::Credentials)),
            (
                noted(Sample::unknown(), None, RefusedAs::Alone),
                Step::lookup(Purpose::Settle(Reason::Credentials)),
            ),
        ];
        check(rows.map(|(call, step)| (call, Observed::CredentialsNoted, step)));
    }
}
