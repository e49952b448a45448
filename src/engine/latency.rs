//! How long a keyed attempt lasts at this vendor, as far as this client has seen.
//!
//! The estimate is TCP's for the time after which an answer is overdue (RFC 6298, section 2): the smoothed latency and
//! four times its smoothed deviation. It follows a vendor that becomes slower, and one outlier does not set it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    use super::*;

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
