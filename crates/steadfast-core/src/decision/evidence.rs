//! The state of the attempts, for a write to the record.

use super::{Context, Now, Phase, Progress};
use crate::clock::Timestamp;
use crate::effect::Effect;

/// The state of the attempts, for a write to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Attempts that are steps of the ladder.
    pub attempts: u32,
    /// Effect of all sends together.
    pub effect: Effect,
    /// End of the last send of unknown effect; `None` if there was none.
    pub unknown_since: Option<Timestamp>,
    /// Lookups that were answered since then.
    pub lookups: u32,
    /// Sends left that may be a second effect.
    pub resends_left: u32,
}

impl Evidence {
    /// The evidence at `now`. `spends_resend` counts the send that comes right after the write.
    pub fn of(context: &Context<'_>, progress: &Progress, spends_resend: bool, now: Now) -> Evidence {
        let of_record = progress.unknown_since();
        let unknown_since = match (progress.phase(), progress.lease()) {
            (Phase::Unknown { since: Some(since), .. }, Some(lease)) => Some(lease.on_record(since, now)),
            _ => of_record,
        };
        Evidence {
            attempts: progress.steps_taken(),
            effect: progress.effect(),
            unknown_since: context.recorded.and(unknown_since),
            lookups: progress.phase().lookups(),
            resends_left: if spends_resend { progress.after_resend() } else { progress.resends_left() },
        }
    }
}
