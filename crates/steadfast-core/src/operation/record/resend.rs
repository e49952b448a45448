//! The decision whether an operation may be sent again.
//!
//! A second send is a second effect unless one of four things holds. Nothing took effect before. The vendor answers
//! the key from its own record. The method changes nothing the second time. Or a lookup showed that there is no
//! effect. [`may_send`] is the only place that decides it. The engine asks before every send, recovery with it, and a
//! redrive and its dry run ask for the operator.
//!
//! [`window`] decides until when the vendor's record is trusted. It is asked again before each send, because every
//! wait uses the window up: a backoff, an open breaker, a crash.

use std::time::Duration;

use easy_ext::ext;
use http::Method;

use super::{CLOCKS_DIFFER_MAX, Record};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::Reason;
use crate::guard::Guard;
use crate::operation::OnUnknown;

/// Facts that [`may_send`] decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Effect of the earlier sends, as far as it is known.
    pub effect: Effect,
    /// Safety of a second send, by the vendor and the caller.
    pub repeat: Repeat,
    /// State of the vendor's replay window.
    pub window: Window,
    /// Result of the lookups since the last send of unknown effect.
    pub lookup: Lookup,
    /// Number of sends that may be a second effect, by the caller's choice or an operator's force.
    pub resends_left: u32,
}

/// Consequence of a request that is sent twice: by HTTP's rules (RFC 9110, section 9.2), unless the vendor's differ, or
/// the caller decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// A safe method, such as GET: it has no effect at all.
    Safe,
    /// An idempotent method, such as PUT: the second send leaves what the first one left. It may still undo a change
    /// that another client of the vendor made in between.
    Idempotent,
    /// Any other method, such as POST: the second send is a second effect.
    Other,
}

/// State of the time for which the vendor answers a resend from its own record instead of executing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// The vendor replays, for a resend that leaves before `until`.
    Open {
        /// The vendor's window less [the slack](slack), on the clock of the host that asks.
        until: Timestamp,
    },
    /// The vendor replayed, or it is not known whether it still does.
    Closed,
    /// The vendor never replays this request.
    None,
}

/// Result of the lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// The vendor has none for this request.
    None,
    /// The vendor has a lookup, and none was answered yet. One that failed has not answered.
    NotAsked,
    /// The effect is provably not there.
    #[cfg_attr(
        not(any(test, feature = "testkit")),
        allow(dead_code, reason = "tests ask the rule for each case")
    )]
    Absent,
    /// The lookups were answered as often as the policy asks, and could not tell.
    CannotTell,
}

/// Decision whether an operation may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// Send: another send is no second effect.
    Send(Why),
    /// Look up first: a lookup may still tell.
    LookupFirst,
    /// Send, although that can be a second effect. The sender takes one off [`Facts::resends_left`], on record, before
    /// the first byte leaves.
    SendAtRisk,
    /// Do not send. The reason is that of the dead letter.
    Stop(Reason),
}

/// Reason for which another send is no second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// No earlier send took effect.
    NotApplied,
    /// The vendor answers from its own record.
    WindowOpen {
        /// End of the window, as in [`Window::Open`].
        until: Timestamp,
    },
    /// The method is safe, or the vendor lets it be repeated.
    Repeatable,
    /// A lookup proved that no earlier send took effect.
    ProvenAbsent,
}

/// Decides whether an operation may be sent, now.
pub fn may_send(facts: &Facts) -> Ruling {
    match facts.effect {
        Effect::None => return Ruling::Send(Why::NotApplied),
        // There is nothing left to send it for.
        Effect::Applied => return Ruling::Stop(Reason::Unknown),
        Effect::Unknown => {}
    }
    if let Window::Open { until } = facts.window {
        return Ruling::Send(Why::WindowOpen { until });
    }
    match (facts.repeat, facts.lookup) {
        (Repeat::Safe | Repeat::Idempotent, _) => Ruling::Send(Why::Repeatable),
        (Repeat::Other, Lookup::Absent) => Ruling::Send(Why::ProvenAbsent),
        (Repeat::Other, Lookup::NotAsked) => Ruling::LookupFirst,
        (Repeat::Other, Lookup::None | Lookup::CannotTell)
            if facts.resends_left > 0 || Guard::UnknownIsParked.is_out() =>
        {
            Ruling::SendAtRisk
        }
        (Repeat::Other, Lookup::None | Lookup::CannotTell) => Ruling::Stop(match facts.window {
            Window::None => Reason::Unknown,
            Window::Open { .. } | Window::Closed => Reason::Expired,
        }),
    }
}

impl Repeat {
    /// Returns the safety that HTTP gives the method.
    pub fn of(method: &Method) -> Repeat {
        match method {
            method if method.is_safe() => Repeat::Safe,
            method if method.is_idempotent() => Repeat::Idempotent,
            _ => Repeat::Other,
        }
    }

    /// Returns the safety of the request by the vendor (`is_idempotent`) and its caller. With [`OnUnknown::Park`] it is
    /// not repeated, whatever its method.
    pub fn chosen(method: &Method, is_idempotent: bool, choice: OnUnknown) -> Repeat {
        let is_parked = Guard::ChoiceForAll.keeps(choice == OnUnknown::Park);
        match Repeat::of(method) {
            Repeat::Safe => Repeat::Safe,
            _ if is_idempotent && !is_parked => Repeat::Idempotent,
            _ => Repeat::Other,
        }
    }
}

/// The times that a window is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// [`Record::claimed_at`]: no first byte left earlier.
    pub claimed_at: Timestamp,
    /// [`Record::updated_at`].
    pub updated_at: Timestamp,
    /// The asker's wall clock.
    pub now: Timestamp,
    /// The time since the first claim as the asker measured it itself, on its monotonic clock; `None` if it has
    /// measured nothing.
    pub measured: Option<Duration>,
    /// The longest that a request can be under way.
    pub attempt_max: Duration,
}

/// Returns until when a vendor that replays for `replay` after the first send is trusted to do so; `None` is a vendor
/// that never does.
///
/// The window is counted from the first claim and ends [the slack](slack) early, on the wall clock and on the asker's
/// own measure: the stricter holds. A wall clock that is set back therefore opens nothing, and neither does a machine
/// whose own measure stood still while it slept.
///
/// A window that is no longer than the slack is never open. Neither is one whose times a wrong clock wrote. A first
/// claim or a last move that lies ahead of `now` by more than clocks differ is no evidence of when the first send was.
pub fn window(replay: Option<Duration>, sent: &Sent) -> Window {
    let Some(replay) = replay else { return Window::None };
    let Sent { claimed_at, updated_at, now, measured, attempt_max } = *sent;
    let latest = now.plus(CLOCKS_DIFFER_MAX);
    if Guard::WrongClockNoWindow.keeps(claimed_at > latest || updated_at > latest) {
        return Window::Closed;
    }
    let usable = replay.saturating_sub(Guard::WindowSlack.keeps(slack(attempt_max)));
    let passed = now.since(claimed_at).max(Guard::MonotonicWindow.keeps(measured).unwrap_or_default());
    match usable.checked_sub(passed) {
        Some(left) if !left.is_zero() => Window::Open { until: now.plus(left) },
        _ => Window::Closed,
    }
}

/// Returns the time by which our window ends before the vendor's own. By [`CLOCKS_DIFFER_MAX`], because the first claim
/// may be by another host's clock than ours. And by the longest attempt, because a request that leaves just before the
/// end arrives after it. It is under way for at most as long as the policy gives an attempt; then its connection is
/// closed.
pub const fn slack(attempt_max: Duration) -> Duration {
    CLOCKS_DIFFER_MAX.saturating_add(attempt_max)
}

/// Methods that only the crates of this workspace call.
#[ext(RecordResendExt)]
impl Record {
    /// The times on record, as they are read at `now`.
    pub fn sent(&self, now: Timestamp, measured: Option<Duration>) -> Sent {
        let (claimed_at, updated_at, attempt_max) = (self.claimed_at, self.updated_at, self.attempt_max);
        Sent { claimed_at, updated_at, now, measured, attempt_max }
    }

    /// Returns until when the vendor that replays for `replay` is trusted to answer this operation from its own record:
    /// see [`window`]. `measured` is as [`Sent::measured`].
    pub fn window(&self, replay: Option<Duration>, now: Timestamp, measured: Option<Duration>) -> Window {
        window(replay, &self.sent(now, measured))
    }
}

#[cfg(test)]
mod tests;
