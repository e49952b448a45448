//! The pause that a vendor asks for holds back every call to it.
//!
//! `Retry-After` on one answer is about the account, not about that call. If only the call that got the answer
//! waited, the client would go on hitting the limit with all the others. So the pause is one point in time that all
//! calls to the vendor look at, and only ever moves later: a second, shorter request does not shorten the first. How
//! long one answer holds back all callers is capped, because one bad header (`Retry-After: 31536000` has been seen)
//! would otherwise switch the vendor off for a year. The operation that got the answer is not capped: it is scheduled
//! for the time that the vendor named.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::invalid;
use crate::clock::Instant;
use crate::error::{Error, field};
use crate::guard::Guard;

/// Form of the limit in the vendors file: a table with `max`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Form {
    #[serde(with = "humantime_serde")]
    max: Duration,
}

impl Default for Form {
    fn default() -> Form {
        Form { max: MAX }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn serialize<S: Serializer>(max: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    Form { max: *max }.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Ok(Form::deserialize(deserializer)?.max)
}

pub(super) fn validate(max: Duration) -> Result<(), Error> {
    if max.is_zero() {
        return Err(invalid(field!(pause.max), "zero ignores every vendor that asks for time"));
    }
    Ok(())
}

/// The longest that one answer holds back all calls, by default.
pub(super) const MAX: Duration = Duration::from_secs(60 * 60);

/// The end of the pause that the vendor has asked for.
#[derive(Debug)]
pub struct Pause {
    max: Duration,
    until: AtomicU64,
    /// Latest end of a pause that other processes reported.
    peer_until: AtomicU64,
}

impl Pause {
    /// No pause yet.
    pub fn new(max: Duration) -> Pause {
        Pause { max, until: AtomicU64::new(0), peer_until: AtomicU64::new(0) }
    }

    /// Holds every call back for `wait` from `now`, cut to the configured most. Never shortens a pause.
    pub fn hold_until(&self, now: Instant, wait: Duration) {
        self.until
            .fetch_max(now.plus(Guard::PauseForAll.keeps(wait.min(self.max))).as_nanos(), Ordering::Relaxed);
    }

    /// Applies a pause that another process was asked for. Repeats of the same pause are ignored, so that an operator's
    /// release of it here stands.
    pub fn hear(&self, now: Instant, left: Duration) {
        let peer_until = Instant::from_nanos(self.peer_until.load(Ordering::Relaxed));
        if now.plus(left) > peer_until.plus(SAME_PAUSE) {
            self.hold_until(now, left);
            self.peer_until.store(self.until.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the end of a pause that the vendor asked this process for. A pause of another process is not passed on:
    /// it would never end.
    pub fn own_until(&self, now: Instant) -> Option<Instant> {
        let peer_until = self.peer_until.load(Ordering::Relaxed);
        self.until(now).filter(|until| until.as_nanos() != peer_until)
    }

    /// Refuses calls that come during the pause.
    ///
    /// # Errors
    ///
    /// The end of the pause.
    #[inline]
    pub fn check(&self, now: Instant) -> Result<(), Instant> {
        let until = Instant::from_nanos(self.until.load(Ordering::Relaxed));
        if now < until { Err(until) } else { Ok(()) }
    }

    /// The end of the pause, if there is one at `now`.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.check(now).err()
    }

    /// Ends the pause. For an operator who knows better than the vendor's header.
    pub fn clear(&self) {
        self.until.store(0, Ordering::Relaxed);
    }
}

/// Ends of pauses that differ by less are one: each word is on its way for a while.
const SAME_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.plus(SECOND * u32::try_from(seconds).unwrap())
    }

    #[test]
    fn a_pause_holds_to_its_last_nanosecond_and_no_longer() {
        let pause = Pause::new(MAX);
        assert_eq!(pause.check(at(0)), Ok(()));
        pause.hold_until(at(1), 2 * SECOND);
        assert_eq!(pause.check(Instant::from_nanos(2_999_999_999)), Err(at(3)));
        assert_eq!(pause.until(at(2)), Some(at(3)));
        assert_eq!(pause.check(at(3)), Ok(()));
        assert_eq!(pause.until(at(3)), None);
    }

    #[test]
    fn a_peers_pause_is_applied_and_not_passed_on() {
        let pause = Pause::new(MAX);
        pause.hear(at(0), 10 * SECOND);
        assert_eq!((pause.until(at(1)), pause.own_until(at(1))), (Some(at(10)), None));
        // The same, told again: an operator has ended it here.
        pause.clear();
        pause.hear(at(1), 9 * SECOND);
        pause.hear(at(2), 9 * SECOND);
        assert_eq!(pause.until(at(2)), None);
        pause.hear(at(2), 9 * SECOND + SECOND);
        assert_eq!((pause.until(at(2)), pause.own_until(at(2))), (Some(at(12)), None));
        // What the vendor asks for here is passed on, and what others then tell of it changes nothing.
        pause.hold_until(at(3), 20 * SECOND);
        pause.hear(at(4), 5 * SECOND);
        assert_eq!((pause.until(at(4)), pause.own_until(at(4))), (Some(at(23)), Some(at(23))));
    }

    #[test]
    fn a_shorter_request_never_shortens_a_pause() {
        let pause = Pause::new(MAX);
        pause.hold_until(at(0), 10 * SECOND);
        pause.hold_until(at(1), SECOND);
        assert_eq!(pause.until(at(1)), Some(at(10)));
        pause.clear();
        assert_eq!(pause.until(at(1)), None);
    }

    #[test]
    fn a_vendor_cannot_ask_for_more_than_the_cap_and_huge_times_do_not_panic() {
        let pause = Pause::new(60 * SECOND);
        pause.hold_until(at(5), Duration::MAX);
        assert_eq!(pause.until(at(5)), Some(at(65)));
        let pause = Pause::new(Duration::MAX);
        pause.hold_until(Instant::from_nanos(u64::MAX), Duration::MAX);
        assert_eq!(pause.until(at(5)), Some(Instant::from_nanos(u64::MAX)));
    }
}
