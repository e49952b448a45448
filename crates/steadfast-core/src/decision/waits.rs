//! How long calls wait in memory, and how those come back that were told the same time.

use std::time::Duration;

/// The jitter on a wait that a vendor asked many callers for: up to a tenth of it. So they come back over a time that
/// grows with their number. Never below the spread of a gate's wait, and never over half a minute.
pub fn spread_over(wait: Duration, unit: f64) -> Duration {
    (wait / SPREAD_PART).clamp(SPREAD_MIN, SPREAD_MAX).mul_f64(unit)
}

/// A little positive jitter behind a time that many callers were told, so that they do not all come at once.
pub fn spread(unit: f64) -> Duration {
    SPREAD_MIN.mul_f64(unit)
}

/// The longest that a recovered operation waits in memory, where it keeps others from being taken. The ladder's first
/// three steps are within it, so that most retries cost no write to the schedule and none to be taken again.
pub const SLEEP_MAX: Duration = Duration::from_secs(5);

const SPREAD_PART: u32 = 10;

/// Long enough to spread callers over several scheduler ticks, short beside any wait it follows.
const SPREAD_MIN: Duration = Duration::from_millis(50);

/// Beside waits of over five minutes: later than that only costs time.
const SPREAD_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_wait_between_50_ms_and_30_s() {
        for (wait_ms, most_ms) in [
            (0, 50),
            (500, 50),
            (501, 50),
            (2_000, 200),
            (60_000, 6_000),
            (300_000, 30_000),
            (86_400_000, 30_000),
        ] {
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(spread_over(wait, 0.0), Duration::ZERO);
            let most = spread_over(wait, 1.0);
            assert_eq!(most.as_millis(), most_ms, "{wait:?}");
            assert_eq!(spread_over(wait, 0.5), most / 2);
        }
        assert_eq!(spread_over(Duration::MAX, 1.0), SPREAD_MAX);
    }
}
