//! US Eastern dates, which Postmark writes and filters by (its messages API documents them so).
//!
//! A time-zone database is too much for one zone with one rule: daylight time from the second Sunday of March,
//! 2 a.m., to the first Sunday of November, 2 a.m. (US Energy Policy Act of 2005, in force since 2007).

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::vendor::date::days_from_civil;

/// A point in wall time, as Postmark writes it: `2014-02-17T07:25:01.4170000-05:00`.
pub(super) fn eastern(at: Timestamp) -> String {
    let seconds = i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX / 2);
    let offset = offset_hours(seconds);
    let local = seconds + offset * 3600;
    let (year, month, day) = civil_from_days(local.div_euclid(DAY));
    let of_day = local.rem_euclid(DAY);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}0000-{:02}:00",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        at.as_millis() % 1000,
        -offset
    )
}

/// The point that an Eastern `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ss` names. A date alone is its first instant,
/// or its last millisecond if `end` is set. `None` if it is neither form.
pub(super) fn parse_eastern(text: &str, end: bool) -> Option<Timestamp> {
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (of_day, millis) = match time {
        "" if end => (DAY - 1, 999),
        "" => (0, 0),
        time => {
            let mut parts = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
            let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
            let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
            (valid.then_some(hour * 3600 + minute * 60 + second)?, 0)
        }
    };
    let local = days_from_civil(year, month, day) * DAY + of_day;
    // The offset an hour or so away is the offset here but in the hour that is skipped or repeated.
    let utc = local - offset_hours(local + 5 * 3600) * 3600;
    u64::try_from(utc * 1000 + millis).ok().map(Timestamp::from_millis)
}

/// The same time of day so many months later, in seconds; on the month's last day if it has no such day.
pub(super) fn months_later(seconds: u64, months: u64) -> u64 {
    let (Ok(seconds), Ok(months)) = (i64::try_from(seconds), i64::try_from(months)) else { return u64::MAX };
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
    let month = month - 1 + months;
    let first = days_from_civil(year + month / 12, month % 12 + 1, 1);
    let next = days_from_civil(year + (month + 1) / 12, (month + 1) % 12 + 1, 1);
    let later = first + day.min(next - first) - 1;
    u64::try_from(later * DAY + seconds.rem_euclid(DAY)).unwrap_or(0)
}

/// Hours that Eastern time is ahead of UTC: -4 in daylight time, -5 else.
fn offset_hours(utc_seconds: i64) -> i64 {
    let (year, ..) = civil_from_days(utc_seconds.div_euclid(DAY));
    let begins = sunday_on_or_after(days_from_civil(year, 3, 8)) * DAY + 7 * 3600;
    let ends = sunday_on_or_after(days_from_civil(year, 11, 1)) * DAY + 6 * 3600;
    if (begins..ends).contains(&utc_seconds) { -4 } else { -5 }
}

/// 1 January 1970 was a Thursday, so day 3 was a Sunday.
fn sunday_on_or_after(day: i64) -> i64 {
    day + (3 - day).rem_euclid(7)
}

/// Days since 1 January 1970 to a Gregorian date (Howard Hinnant, *chrono-compatible low-level date algorithms*).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_index + 2) / 5 + 1)
}

const DAY: i64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_eastern_and_follow_daylight_time() {
        // 2014-02-17T12:25:01Z and 2026-07-01T00:00:00Z.
        assert_eq!(eastern(Timestamp::from_millis(1_392_639_901_417)), "2014-02-17T07:25:01.4170000-05:00");
        assert_eq!(eastern(Timestamp::from_millis(1_782_864_000_000)), "2026-06-30T20:00:00.0000000-04:00");
        // The last second of standard time and the first of daylight time in 2026 (8 March, 07:00Z).
        assert_eq!(eastern(Timestamp::from_millis(1_772_953_199_000)), "2026-03-08T01:59:59.0000000-05:00");
        assert_eq!(eastern(Timestamp::from_millis(1_772_953_200_000)), "2026-03-08T03:00:00.0000000-04:00");
    }

    #[test]
    fn a_date_is_its_first_or_last_instant_in_eastern_time() {
        assert_eq!(parse_eastern("2026-06-30", false), Some(Timestamp::from_millis(1_782_792_000_000)));
        assert_eq!(parse_eastern("2026-06-30", true), Some(Timestamp::from_millis(1_782_878_399_999)));
        assert_eq!(
            parse_eastern("2014-02-17T07:25:01", false),
            Some(Timestamp::from_millis(1_392_639_901_000))
        );
        assert_eq!(parse_eastern("2026-13-01", false), None);
        assert_eq!(parse_eastern("soon", false), None);
    }

    #[test]
    fn a_month_later_is_the_same_day_or_the_months_last() {
        let at = |year, month, day| u64::try_from(days_from_civil(year, month, day) * DAY).unwrap() + 3_723;
        for ((year, month, day), months, (later, of, on)) in [
            ((2026, 11, 23), 1, (2026, 12, 23)),
            ((2026, 12, 31), 1, (2027, 1, 31)),
            ((2027, 1, 31), 1, (2027, 2, 28)),
            ((2028, 2, 29), 12, (2029, 2, 28)),
            ((2026, 8, 31), 18, (2028, 2, 29)),
        ] {
            assert_eq!(months_later(at(year, month, day), months), at(later, of, on));
        }
    }

    #[test]
    fn every_day_survives_the_round_trip() {
        for day in 0..200_000 {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
    }
}
