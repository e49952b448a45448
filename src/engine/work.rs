//! One call's own choices.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::operation::{Key, RedactedFields};
use steadfast_core::policy::{Backoff, Timeouts};
use steadfast_core::{InFlight, OnUnknown, Policy, Sequence};

use super::routes::Route;

/// Beginning and end of a call's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub started: Instant,
    pub deadline: Instant,
}

/// One call's overrides of its vendor's policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub backoff: Option<Backoff>,
    pub timeout: Option<Timeouts>,
}

/// One call's choices beside its request.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// `None` for a call that is no operation.
    pub key: Option<Key>,
    /// Overrides of the vendor's policy; `None` where the call has none.
    pub overrides: Option<Box<Overrides>>,
    /// Overrides of its route; `None` where the route has none.
    pub route: Option<Arc<Route>>,
    /// The time that its caller gives it, from the start on; `None` for the policy's.
    pub deadline: Option<Duration>,
    /// Until when the caller's own caller waits.
    pub until: Option<Instant>,
    /// A layer above us already retries.
    pub retries_allowed: bool,
    /// Whether the deadline goes out again in `X-Request-Timeout`.
    pub pass_deadline_on: bool,
    pub on_unknown: OnUnknown,
    /// The choice for a key that another call holds.
    pub in_flight: InFlight,
    /// How long its record is kept once it is settled, if the call itself says so.
    pub retention: Option<Duration>,
    /// No caller waits for it: it goes at recovery's own rate, and long waits are left to the schedule.
    pub recovered: bool,
    /// Fields that are never shown of this operation, beside those of its client.
    pub redact: RedactedFields,
    /// The key of the dead letter that it starts over.
    pub predecessor: Option<Key>,
    /// The sequence that it is enqueued into; `None` for a call on its own.
    pub sequence: Option<Sequence>,
}

impl Work {
    pub(super) fn backoff<'a>(&'a self, policy: &'a Policy) -> &'a Backoff {
        let of_route = || self.route.as_ref().and_then(|route| route.backoff.as_ref());
        let own = self.overrides.as_ref().and_then(|own| own.backoff.as_ref());
        own.or_else(of_route).unwrap_or(&policy.backoff)
    }

    pub(super) fn timeout(&self, policy: &Policy) -> Timeouts {
        let of_route = || self.route.as_ref().and_then(|route| route.timeout);
        self.overrides.as_ref().and_then(|own| own.timeout).or_else(of_route).unwrap_or(policy.timeout)
    }

    /// How long a call may take that starts then.
    pub(crate) fn time_allowed(&self, policy: &Policy, started: Instant) -> Duration {
        let total = self.timeout(policy).total;
        self.time_given(started).map_or(total, |given| given.min(total))
    }

    /// The same, without the policy's part.
    pub(super) fn time_given(&self, started: Instant) -> Option<Duration> {
        let left = self.until.map(|until| until.since(started));
        self.deadline.into_iter().chain(left).min()
    }

    /// A call without a caller: the client's own policy and no other deadline.
    pub(super) fn background(on_unknown: OnUnknown) -> Work {
        Work {
            key: None,
            overrides: None,
            route: None,
            deadline: None,
            until: None,
            retries_allowed: true,
            pass_deadline_on: false,
            on_unknown,
            in_flight: InFlight::Refuse,
            retention: None,
            recovered: true,
            redact: RedactedFields::NONE,
            predecessor: None,
            sequence: None,
        }
    }
}
