//! Points in time as vendors write them into the things that a lookup finds.
//!
//! A lookup believes nothing that is older than its operation, so what is read here errs on one side. A text with two
//! meanings is read as the earlier of the two, and one without meaning is `None`.

use crate::clock::Timestamp;

/// `2014-02-20T07:25:02.8782715-05:00` or `…Z`. One without an offset is US Eastern, as all dates of Postmark's are:
/// daylight time is the earlier reading.
pub fn rfc3339(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let end = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(end);
    let offset_seconds = match zone {
        "" => -4 * 3600,
        "Z" | "z" => 0,
        zone => offset(zone)?,
    };
    point((year, month, day), time, offset_seconds)
}

/// `Tue, 20 Nov 2012 00:00:00 +0000`, as BigCommerce's V2 writes it (RFC 2822).
pub fn rfc2822(text: &str) -> Option<Timestamp> {
    let words = text.split_once(", ").map_or(text, |(_, rest)| rest);
    let mut words = words.split_ascii_whitespace();
    let day = digits(words.next()?)?;
    let name = words.next()?;
    let month = MONTHS.iter().zip(1..).find(|(month, _)| name.eq_ignore_ascii_case(month))?.1;
    let year = digits(words.next()?)?;
    let time = words.next()?;
    let offset_seconds = match words.next()? {
        "GMT" | "UT" | "Z" => 0,
        zone => offset(zone)?,
    };
    point((year, month, day), time, offset_seconds)
}

/// `hh:mm:ss`, with or without a fraction, on a day at an offset from UTC.
fn point((year, month, day): (i64, i64, i64), time: &str, offset_seconds: i64) -> Option<Timestamp> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.splitn(3, ':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let millis = format!("{:0<3}", fraction.get(..3).unwrap_or(fraction));
    let is_valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        // A leap second is written so.
        && second <= 60;
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let at = (seconds - offset_seconds).checked_mul(1000)? + digits(&millis)?;
    u64::try_from(at).ok().filter(|_| is_valid).map(Timestamp::from_millis)
}

/// `+05:30` or `-0500`, in seconds.
fn offset(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let hours = digits(rest.get(..2)?)?;
    let rest = rest.get(2..)?;
    let minutes = digits(rest.strip_prefix(':').unwrap_or(rest))?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Reads up to six digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    let plain = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days from 1 January 1970 to a Gregorian date (Howard Hinnant, *chrono-compatible low-level date algorithms*).
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(millis))
    }

    #[test]
    fn postmarks_dates_are_read_with_their_offset() {
        assert_eq!(rfc3339("2014-02-17T07:25:01.4178645-05:00"), at(1_392_639_901_417));
        assert_eq!(rfc3339("2014-02-17T12:25:01.4Z"), at(1_392_639_901_400));
        assert_eq!(rfc3339("2014-02-17T17:55:01+05:30"), at(1_392_639_901_000));
        assert_eq!(rfc3339("2026-06-30T20:00:00.0000000-04:00"), at(1_782_864_000_000));
    }

    #[test]
    fn without_an_offset_the_earlier_reading_counts() {
        // In February it is five hours behind UTC, and is read as if it were four.
        assert_eq!(rfc3339("2014-02-17T07:25:01"), at(1_392_639_901_000 - 3_600_000));
    }

    #[test]
    fn bigcommerces_dates_are_read() {
        assert_eq!(rfc2822("Mon, 17 Feb 2014 12:25:01 +0000"), at(1_392_639_901_000));
        assert_eq!(rfc2822("Mon, 17 Feb 2014 07:25:01 -0500"), at(1_392_639_901_000));
        assert_eq!(rfc2822("17 feb 2014 12:25:01 GMT"), at(1_392_639_901_000));
    }

    #[test]
    fn a_text_that_is_no_date_reads_as_none() {
        for text in [
            "",
            "T",
            "soon",
            "2014-02-17",
            "2014-13-01T00:00:00Z",
            "2014-02-17T24:00:00Z",
            "2014-02-17T07:25Z",
            "2014-02-17T07:25:01+5",
            "2014-02-17T07:25:01-05:0x",
            "1969-12-31T00:00:00Z",
            "2014-02-17T07:25:01.xZ",
            "-014-02-17T07:25:01Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
        for text in ["", "Mon, 17 Feb 2014", "Mon, 17 Foo 2014 12:25:01 +0000", "Mon, 17 Feb 2014 12:25:01"] {
            assert_eq!(rfc2822(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_date_readers_panic(text in ".{0,40}", date in "[0-9]{1,6}-[0-9]{1,3}-[0-9]{1,3}T[0-9:.]{0,9}[Z+-]?[0-9:]{0,5}") {
            for text in [&text, &date] {
                rfc3339(text);
                rfc2822(text);
            }
        }
    }
}
