//! A client's measurements: its own clocks, the vendor's clock, and how long an attempt lasts at this vendor.
//!
//! A lookup that searches by date needs the vendor's clock at the first claim: a host whose own was ahead would begin
//! the search after what it looks for. Every answer carries a `Date`; the last one is remembered here, per client.
//!
//! And what our own two clocks say of each other: a wall clock that was set while this client lived says nothing of
//! when another host sent.
//!
//! The latency is TCP's estimate of the time after which an answer is overdue (RFC 6298, section 2): the smoothed latency
//! and four times its smoothed deviation. It follows a vendor that becomes slower, and one outlier does not set it.

use std::sync::atomic::{AtomicU64, Ordering};
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

/// Smoothed latency in the upper half and deviation in the lower, in microseconds each: up to 71 minutes, longer than
/// any attempt. Zero until the first answer.
#[derive(Debug, Default)]
pub(crate) struct Latency(AtomicU64);

impl Latency {
    /// Notes an attempt that was answered.
    pub(super) fn note(&self, latency: Duration) {
        let sample = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX).max(1);
        let after = |packed: u64| {
            let (smoothed, deviation) = unpacked(packed);
            Some(match smoothed {
                0 => packed_of(sample, sample / 2),
                _ => packed_of(
                    weighted(smoothed, 7, sample),
                    weighted(deviation, 3, smoothed.abs_diff(sample)),
                ),
            })
        };
        // It always gives a value, so that this cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    }

    /// Within this time an attempt is most likely answered; `None` before the first answer.
    pub(super) fn expected(&self) -> Option<Duration> {
        let (smoothed, deviation) = unpacked(self.0.load(Ordering::Relaxed));
        (smoothed > 0).then(|| Duration::from_micros(u64::from(smoothed) + 4 * u64::from(deviation)))
    }
}

/// `old` counts `weight` times and `sample` once.
fn weighted(old: u32, weight: u64, sample: u32) -> u32 {
    let mean = (u64::from(old) * weight + u64::from(sample)) / (weight + 1);
    u32::try_from(mean).unwrap_or(u32::MAX).max(1)
}

fn unpacked(packed: u64) -> (u32, u32) {
    ((packed >> 32) as u32, packed as u32)
}

fn packed_of(smoothed: u32, deviation: u32) -> u64 {
    u64::from(smoothed) << 32 | u64::from(deviation)
}

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

    fn after(samples_ms: &[u64]) -> Option<Duration> {
        let latency = Latency::default();
        for sample in samples_ms {
            latency.note(Duration::from_millis(*sample));
        }
        latency.expected()
    }

    #[test]
    fn it_is_the_estimate_of_rfc_6298() {
        assert_eq!(after(&[]), None);
        // The first: SRTT = R, RTTVAR = R/2.
        assert_eq!(after(&[200]), Some(Duration::from_millis(200 + 4 * 100)));
        // Then RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|, SRTT = 7/8 SRTT + 1/8 R.
        assert_eq!(after(&[200, 280]), Some(Duration::from_millis(210 + 4 * 95)));
    }

    #[test]
    fn it_settles_on_a_steady_latency_and_bears_any_sample() {
        let steady = after(&[100; 100]).expect("known");
        assert!((100..=101).contains(&steady.as_millis()), "{steady:?}");
        assert!(after(&[0, u64::MAX, u64::MAX, 0]).is_some());
        assert!(after(&[0]).is_some_and(|expected| expected < Duration::from_millis(1)));
    }
}
