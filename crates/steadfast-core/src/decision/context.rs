//! The facts that do not change while a call is under way.

use std::borrow::Cow;
use std::time::Duration;

use crate::clock::{Instant, Timestamp};
use crate::guard::Guard;
use crate::operation::record::resend::Repeat;
use crate::policy::Backoff;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// By the store's clock: the time that goes on record.
    pub wall: Timestamp,
    /// By the process's own monotonic clock.
    pub at: Instant,
}

impl Now {
    /// A moment of the store's clock, by the process's own: the start of time for what is before it.
    pub fn instant_of(self, at: Timestamp) -> Instant {
        let ago = u64::try_from(self.wall.since(at).as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(self.at.as_nanos().saturating_sub(ago))
    }
}

/// The facts of one call that stay as they are for all of its run: of the call, of its policy, and of its vendor.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Set for a call with a key: it has a record and a lease.
    pub recorded: Option<Recorded>,
    /// True where no caller waits: long waits are left to the schedule, and gates are asked at recovery's own rate.
    pub is_recovery: bool,
    /// Start of the call.
    pub started: Instant,
    /// End of the call's time. No step is waited for beyond it.
    pub deadline: Instant,
    /// False where a layer above this client retries.
    pub retries_allowed: bool,
    /// The ladder of waits.
    pub backoff: Cow<'a, Backoff>,
    /// The longest that the policy gives one attempt.
    pub attempt_max: Duration,
    /// The longest pause that a call waits out. A longer one is left to the schedule.
    pub pause_max: Duration,
    /// How long the policy keeps records.
    pub retention: Duration,
    /// Lookups that are answered without a result before the outcome stays unknown.
    pub lookups_max: u32,
    /// The effect of a second request: by the method, the vendor and the caller's choice.
    pub repeat: Repeat,
    /// True for a safe method (RFC 9110, section 9.2.1), which has no effect.
    pub is_safe: bool,
    /// How long the vendor replays an answer; `None` where it never does.
    pub replay_window: Option<Duration>,
    /// How long after a send a lookup is not believed yet.
    pub settle_time: Duration,
    /// True where the vendor's lookup also lists what was deleted.
    pub lists_deleted: bool,
    /// How long a request may still be on its way once its exchange is over without an answer.
    pub queue_max: Duration,
}

/// The facts of a call's record that stay as they are while it is held.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// First claim.
    pub claimed_at: Timestamp,
    /// The longest attempt of any process, as recorded.
    pub attempt_max: Duration,
    /// True while no other holder had it before.
    pub is_first_hold: bool,
    /// True on the first take of a record that was enqueued and never attempted: its log is empty.
    pub is_first_take: bool,
    /// True where a caller was told that the operation goes on by itself: refused credentials do not end it.
    pub is_accepted: bool,
}

impl Context<'_> {
    /// Whether a lookup's miss is held against the operation's log: what was made may have been deleted since.
    pub(super) fn asks_log_for_miss(&self) -> bool {
        Guard::MissWithinAnHour.keeps(!self.lists_deleted && self.is_operation())
    }

    /// Whether the call has a record.
    pub fn is_operation(&self) -> bool {
        self.recorded.is_some()
    }
}
