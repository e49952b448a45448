//! What a vendor's answers say of its clock.
//!
//! A lookup that searches by date needs the vendor's clock at the first claim: a host whose own was ahead would begin
//! the search after what it looks for. Every answer carries a `Date`; the last one is remembered here, per client.
//!
//! And what our own two clocks say of each other: a wall clock that was set while this client lived says nothing of
//! when another host sent.

use std::time::Duration;

use http::header::{AGE, DATE};
use parking_lot::Mutex;

use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::ext::AnswerExt;
use steadfast_core::operation::record::CLOCKS_DIFFER_MAX;
use steadfast_core::store::Store;
use steadfast_core::transport::Answer;

/// Our own two clocks when this client was built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    wall: Timestamp,
    now: Instant,
}

impl Began {
    pub(crate) fn of(clock: &dyn Clock, store: &dyn Store) -> Began {
        Began { wall: store.time(clock.wall()), now: clock.now() }
    }

    /// Whether the wall clock was set ahead since then, by more than clocks differ: it was wrong before, or it is now.
    /// After a machine slept it looks the same. Then what counts by our own measure alone takes longer, and no more.
    pub(super) fn was_set_ahead(self, wall: Timestamp, now: Instant) -> bool {
        wall.since(self.wall) > now.since(self.now).saturating_add(CLOCKS_DIFFER_MAX)
    }
}

/// The vendor's clock, as far as its answers in this process tell it.
#[derive(Debug, Default)]
pub(crate) struct VendorClock(Mutex<Option<Reading>>);

/// One `Date`, and our own clocks when it came.
#[derive(Clone, Copy, Debug)]
struct Reading {
    theirs: Timestamp,
    wall: Timestamp,
    now: Instant,
}

impl VendorClock {
    /// Remembers the `Date` of an answer that came just now, at `wall` and `now`. An answer out of a cache, which has
    /// an `Age`, is older than it came.
    pub(super) fn learn(&self, answer: &Answer, wall: Timestamp, now: Instant) {
        let mut reading = self.0.lock();
        let is_recent = |last: Reading| last.is_believed(wall, now) && now.since(last.now) < LEARN_EVERY;
        if reading.is_some_and(is_recent) || answer.headers.contains_key(AGE) {
            return;
        }
        let date = answer.header_named(&DATE).and_then(|text| httpdate::parse_http_date(text).ok());
        if let Some(theirs) = date.map(Timestamp::from) {
            *reading = Some(Reading { theirs, wall, now });
        }
    }

    /// The vendor's clock less ours in milliseconds, at `wall` and `now`. `None` if no answer told it, if that is too
    /// long ago, or if one of our own clocks was set or stood still since.
    ///
    /// `now` is asked for only where there is an answer.
    pub(crate) fn less_ours(&self, wall: Timestamp, now: impl FnOnce() -> Instant) -> Option<i64> {
        let reading = (*self.0.lock())?;
        let now = now();
        let theirs = reading.theirs.plus(now.since(reading.now));
        reading.is_believed(wall, now).then(|| signed_ms(theirs) - signed_ms(wall))
    }
}

impl Reading {
    /// Whether our two clocks agree on how long ago this was, and it was not too long ago for the vendor's clock to have
    /// drifted.
    fn is_believed(self, wall: Timestamp, now: Instant) -> bool {
        let (by_wall, passed) = (signed_ms(wall) - signed_ms(self.wall), now.since(self.now));
        let differ = by_wall.abs_diff(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX));
        passed < BELIEVED_FOR && Duration::from_millis(differ) < CLOCKS_AGREE
    }
}

fn signed_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A `Date` is not parsed more often than this: it has whole seconds, and a clock drifts by less in a minute.
const LEARN_EVERY: Duration = Duration::from_secs(60);

/// A clock without NTP drifts by seconds a day (a quartz of 50 ppm: 4.3 s). A lookup's margin is minutes.
const BELIEVED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Far above what slewing does in a day (500 ppm: 43 s), and below the margin of a lookup.
const CLOCKS_AGREE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// An answer of noon, 2026-01-01.
    fn of_noon(more: &[(&'static str, &'static str)]) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Thu, 01 Jan 2026 12:00:00 GMT"));
        headers.extend(
            more.iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value))),
        );
        Answer::new(StatusCode::OK, headers, Vec::new())
    }

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_767_268_800_000)
    }

    #[test]
    fn a_clock_was_set_ahead_if_it_went_further_than_time_did() {
        let began = Began { wall: noon(), now: Instant::from_nanos(5) };
        let was_set = |by_wall: Duration, passed: Duration| {
            began.was_set_ahead(noon().plus(by_wall), began.now.plus(passed))
        };
        let (differ, more) = (CLOCKS_DIFFER_MAX, CLOCKS_DIFFER_MAX + Duration::from_millis(1));
        assert!(!was_set(Duration::ZERO, Duration::ZERO));
        assert!(!was_set(48 * HOUR, 48 * HOUR), "two days went by");
        assert!(!was_set(HOUR + differ, HOUR));
        assert!(was_set(HOUR + more, HOUR));
        assert!(!was_set(Duration::ZERO, HOUR), "it was set back, or time stood still for it");
        assert!(!began.was_set_ahead(noon().minus(HOUR), began.now));
    }

    #[test]
    fn the_vendors_clock_is_that_of_its_last_answer_carried_on_by_our_own() {
        let clock = VendorClock::default();
        let (start, wall) = (Instant::from_nanos(5), noon().plus(HOUR));
        assert_eq!(clock.less_ours(wall, || start), None);
        clock.learn(&of_noon(&[]), wall, start);
        assert_eq!(clock.less_ours(wall, || start), Some(-3_600_000));
        assert_eq!(clock.less_ours(wall.plus(HOUR), || start.plus(HOUR)), Some(-3_600_000));
        let drifted = wall.plus(HOUR).plus(Duration::from_secs(20));
        assert_eq!(clock.less_ours(drifted, || start.plus(HOUR)), Some(-3_620_000));
        assert_eq!(clock.less_ours(wall.plus(24 * HOUR), || start.plus(24 * HOUR)), None, "too long ago");
    }

    #[test]
    fn a_clock_of_ours_that_was_set_or_stood_still_makes_it_unknown_until_the_next_answer() {
        let (start, wall) = (Instant::from_nanos(5), noon());
        for (by_wall, by_now) in
            [(25 * HOUR, HOUR), (2 * HOUR, HOUR), (Duration::ZERO, HOUR), (HOUR, 2 * HOUR)]
        {
            let clock = VendorClock::default();
            clock.learn(&of_noon(&[]), wall, start);
            let (later, now) = (wall.plus(by_wall), start.plus(by_now));
            assert_eq!(clock.less_ours(later, || now), None, "{by_wall:?} {by_now:?}");
            clock.learn(&of_noon(&[]), later, now);
            let differ = -i64::try_from(by_wall.as_millis()).expect("small");
            assert_eq!(clock.less_ours(later, || now), Some(differ));
        }
        let clock = VendorClock::default();
        clock.learn(&of_noon(&[]), wall, start);
        assert_eq!(clock.less_ours(wall.minus(HOUR), || start.plus(HOUR)), None, "set back");
    }

    #[test]
    fn an_answer_from_a_cache_or_without_a_date_says_nothing() {
        let clock = VendorClock::default();
        clock.learn(&of_noon(&[("age", "3000")]), noon(), Instant::ORIGIN);
        let dateless = Answer::new(StatusCode::OK, HeaderMap::new(), Vec::new());
        clock.learn(&dateless, noon(), Instant::ORIGIN);
        assert_eq!(clock.less_ours(noon(), || Instant::ORIGIN), None);
    }
}
