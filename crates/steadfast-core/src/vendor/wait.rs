//! Waits that vendors ask for, read by pure functions over headers that never panic on any bytes.
//!
//! Each vendor asks in another form, and the ways to misread it are all expensive. Examples are a date read as zero, a
//! minus sign read as "now", milliseconds read as seconds, a date read on a clock that the vendor does not have. So
//! there is one function per form. Each gives `None` for what it does not understand, and numbers too large to hold
//! become the largest wait there is. A header that is sent more than once counts with its longest wait: never early. No
//! wait is [believed] beyond a day: then the vendor is asked again.

use std::time::{Duration, SystemTime};

use http::header::DATE;
use http::{HeaderMap, StatusCode};

use super::date as dates;
use crate::clock::Timestamp;
use crate::guard::Guard;

/// Limits a vendor's wait to the one that is believed, a day. Then the vendor is asked again, and may repeat it. A
/// number that was meant in another unit, or a year, strands nothing that was accepted.
pub fn believed(wait: Duration) -> Duration {
    if Guard::WaitBelieved.holds() { wait.min(BELIEVED_MAX) } else { wait }
}

/// The longest that a vendor's wait is believed.
const BELIEVED_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A `Retry-After` value: delta-seconds or an HTTP-date (RFC 9110, section 10.2.3).
///
/// A date is read against `now` and one in the past is a wait of zero. Seconds may have a fraction, which rounds up. So is
/// a number that is a time since 1970, in seconds or milliseconds, as some write it (docker/hub-feedback#2459). A list, as a proxy makes of a header that came twice, counts with its longest wait. A negative number or anything
/// else is `None`.
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    if let Some(wait) = whole_number(value) {
        return Some(in_seconds(wait, now));
    }
    let date = |text: &str| Some(http_date(text)?.since(now));
    // Nearly always it is one number or one date. The comma in a date makes it two items of a list.
    if let Some(wait) = std::str::from_utf8(value).ok().and_then(date) {
        return Some(wait);
    }
    let mut items = value.split(|&byte| byte == b',').peekable();
    let mut longest = None;
    while let Some(item) = items.next() {
        let text = std::str::from_utf8(item).unwrap_or_default();
        let wait = seconds(item).map(|wait| in_seconds(wait.as_secs(), now));
        let wait = wait.or_else(|| date(text)).or_else(|| {
            // The comma behind a date's weekday.
            let rest = std::str::from_utf8(items.peek()?).ok()?;
            let wait = date(&format!("{text},{rest}"))?;
            items.next();
            Some(wait)
        });
        longest = longest.max(wait);
    }
    longest
}

/// The longest wait that an answer asks for in the ways that many vendors share. `Retry-After`, and its forms in
/// milliseconds, count beside any status but success, and the `RateLimit` fields beside 429 and 503. Of the older
/// `X-RateLimit-*` many vendors send the same names with every answer, so that they count beside 429 alone. Beside a success
/// `Retry-After` says when a result is ready, and nothing of the next request.
///
/// A date is read against the answer's own `Date`, so that neither clock need be right. Without one it is read
/// against `now`.
pub fn asked(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if status.is_success() {
        return None;
    }
    let sent_at = sent_at(headers).unwrap_or(now);
    let after = longest(headers, "retry-after", |value| retry_after(value, sent_at));
    let after = MILLISECONDS.iter().fold(after, |after, name| {
        after.max(longest(headers, name, |value| Some(in_millis(seconds(value)?.as_secs(), sent_at))))
    });
    let limited = if matches!(status.as_u16(), 429 | 503) { rate_limit(headers) } else { None };
    let older = if status == StatusCode::TOO_MANY_REQUESTS { older_limits(headers, sent_at) } else { None };
    after.max(limited).max(older)
}

/// Azure's and OpenAI's (`retry-after-ms`, `x-ms-retry-after-ms`).
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// The wait beside a 429 in what came before the standard: `X-RateLimit-Reset`, unless something remains, and the
/// dictionary of draft-ietf-httpapi-ratelimit-headers-07, `RateLimit: limit=10, remaining=0, reset=30`.
fn older_limits(headers: &HeaderMap, sent_at: Timestamp) -> Option<Duration> {
    let remains = |name: &&str| longest_number(headers, name).is_some_and(|left| left > 0);
    let spelt = |name| longest(headers, name, |value| reset_at(value, sent_at));
    let reset = OLDER_RESETS.iter().filter_map(|name| spelt(name)).max();
    let reset = reset.filter(|_| !OLDER_REMAINING.iter().any(remains));
    reset.max(longest(headers, "ratelimit", |value| rate_limit_dictionary(value, sent_at)))
}

const OLDER_REMAINING: [&str; 2] = ["x-ratelimit-remaining", "x-rate-limit-remaining"];
const OLDER_RESETS: [&str; 3] = ["x-ratelimit-reset", "x-rate-limit-reset", "x-ratelimit-reset-after"];

/// Seconds, a time since 1970, a date of HTTP or of RFC 3339, or a span such as `6m0s`.
fn reset_at(value: &[u8], sent_at: Timestamp) -> Option<Duration> {
    if let Some(wait) = seconds(value) {
        return Some(in_seconds(wait.as_secs(), sent_at));
    }
    let text = std::str::from_utf8(value).ok()?.trim();
    let date = http_date(text).or_else(|| dates::rfc3339(text)).map(|date| date.since(sent_at));
    date.or_else(|| humantime_serde::re::humantime::parse_duration(text).ok())
}

fn rate_limit_dictionary(value: &[u8], sent_at: Timestamp) -> Option<Duration> {
    let member = |name: &str| {
        let mut items = value.split(|&byte| byte == b',').filter_map(|item| {
            let equals = item.iter().position(|&byte| byte == b'=')?;
            item[..equals].trim_ascii().eq_ignore_ascii_case(name.as_bytes()).then(|| &item[equals + 1..])
        });
        items.next().and_then(seconds)
    };
    let is_spent = member("remaining").is_none_or(|left| left.is_zero());
    is_spent.then(|| member("reset")).flatten().map(|reset| in_seconds(reset.as_secs(), sent_at))
}

/// A number in a header for seconds: a wait, or a time since 1970 in seconds or milliseconds.
fn in_seconds(number: u64, now: Timestamp) -> Duration {
    since_1970(number).map_or(Duration::from_secs(number), |at| at.since(now))
}

/// Reads a number in a header for milliseconds.
fn in_millis(number: u64, now: Timestamp) -> Duration {
    since_1970(number)
        .filter(|_| !UNIX_TIMES.contains(&number))
        .map_or(Duration::from_millis(number), |at| at.since(now))
}

fn since_1970(number: u64) -> Option<Timestamp> {
    if UNIX_TIMES.contains(&number) {
        return Some(Timestamp::from_millis(number * 1000));
    }
    UNIX_MILLIS.contains(&number).then(|| Timestamp::from_millis(number))
}

/// A date of HTTP. A leap second is one (RFC 9110, section 5.6.7): it is taken for the second after it.
fn http_date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let read = |text: &str| httpdate::parse_http_date(text).ok();
    let date: SystemTime = read(text).or_else(|| {
        let before = read(&text.replacen(":60 ", ":59 ", 1))?;
        before.checked_add(Duration::from_secs(1))
    })?;
    Some(Timestamp::from(date))
}

/// BigCommerce's wait: the longer of `X-Rate-Limit-Time-Reset-Ms`, in **milliseconds**, and `X-Retry-After`,
/// in **seconds** (BigCommerce, "API rate limits").
pub fn bigcommerce(headers: &HeaderMap) -> Option<Duration> {
    let reset = longest(headers, "x-rate-limit-time-reset-ms", |value| {
        time_to_reset(whole_number(value)?, Duration::from_millis, headers)
    });
    reset.max(longest(headers, "x-retry-after", seconds))
}

/// Reads the wait of an answer that is not a 429: `X-Retry-After` as it stands, the window's end only if
/// `X-Rate-Limit-Requests-Left` is 0. BigCommerce sends the window's end with every answer, and to read it as a wait
/// would hold back all calls for up to 30 s after a single 500.
pub fn bigcommerce_unless_quota_is_left(headers: &HeaderMap) -> Option<Duration> {
    let left = headers.get("x-rate-limit-requests-left").and_then(|value| whole_number(value.as_bytes()));
    if left == Some(0) {
        return bigcommerce(headers);
    }
    longest(headers, "x-retry-after", seconds)
}

/// The wait in the IETF `RateLimit` fields: `RateLimit: "policy";r=0;t=30` of the current draft
/// (draft-ietf-httpapi-ratelimit-headers-10) and the split `RateLimit-Remaining`/`RateLimit-Reset` of the
/// older ones. Seconds, and only where nothing remains: a reset time alone asks for nothing.
pub fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    let current = longest(headers, "ratelimit", |value| rate_limit_list(value, headers));
    let spent = longest(headers, "ratelimit-remaining", |value| {
        (whole_number(value)? == 0).then_some(Duration::ZERO)
    });
    let split = spent.and_then(|_| {
        longest(headers, "ratelimit-reset", |value| seconds_to_reset(whole_number(value)?, headers))
    });
    current.max(split)
}

/// Seconds, or the time that some write instead, in seconds since 1970: GitLab does (docs.gitlab.com, "Response
/// headers"). It is read against the answer's own `Date`, and asks for nothing without one.
fn seconds_to_reset(number: u64, headers: &HeaderMap) -> Option<Duration> {
    time_to_reset(number, Duration::from_secs, headers)
}

fn time_to_reset(number: u64, in_unit: fn(u64) -> Duration, headers: &HeaderMap) -> Option<Duration> {
    let Some(at) = since_1970(number) else { return Some(in_unit(number)) };
    Some(at.since(sent_at(headers)?))
}

/// Returns the time in the answer's own `Date`.
fn sent_at(headers: &HeaderMap) -> Option<Timestamp> {
    http_date(headers.get(DATE)?.to_str().ok()?)
}

/// Times since 1970 from 2001 on, which no vendor asks for as a wait.
const UNIX_TIMES: std::ops::RangeInclusive<u64> = 1_000_000_000..=99_999_999_999;
/// Times since 1970 in milliseconds, from 2001 on.
const UNIX_MILLIS: std::ops::RangeInclusive<u64> = 1_000_000_000_000..=99_999_999_999_999;

/// `Stripe-Should-Retry`: `true` or `false`, and `None` for anything else.
pub fn stripe_should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("stripe-should-retry")?.as_bytes() {
        value if value.eq_ignore_ascii_case(b"true") => Some(true),
        value if value.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

fn longest_number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| seconds(value.as_bytes()))
        .map(|left| left.as_secs())
        .max()
}

fn longest(headers: &HeaderMap, name: &str, read: impl Fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    headers.get_all(name).iter().filter_map(|value| read(value.as_bytes())).max()
}

/// The longest `t` of the list's items whose `r` is zero.
fn rate_limit_list(value: &[u8], headers: &HeaderMap) -> Option<Duration> {
    let item_wait = |item: &[u8]| {
        let mut parts = split_unquoted(item, b';').into_iter().skip(1);
        let mut parameters = Vec::new();
        for part in parts.by_ref() {
            let equals = part.iter().position(|&byte| byte == b'=')?;
            parameters.push((part[..equals].trim_ascii(), &part[equals + 1..]));
        }
        let of = |name: &[u8]| {
            let found = parameters.iter().find(|(parameter, _)| *parameter == name);
            found.and_then(|(_, value)| whole_number(value))
        };
        (of(b"r")? == 0).then(|| seconds_to_reset(of(b"t")?, headers)).flatten()
    };
    split_unquoted(value, b',').into_iter().filter_map(item_wait).max()
}

/// Splits at `at` outside of double quotes; a backslash inside quotes escapes the next byte (RFC 8941).
fn split_unquoted(value: &[u8], at: u8) -> Vec<&[u8]> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (index, &byte) in value.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == at && !quoted => {
                parts.push(&value[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&value[start..]);
    parts
}

/// Seconds, a fraction of which is rounded up: never early.
fn seconds(value: &[u8]) -> Option<Duration> {
    let value = value.trim_ascii();
    let (whole, fraction) = match value.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&value[..dot], &value[dot + 1..]),
        None => (value, &b""[..]),
    };
    // Digits on one side of the point are enough.
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let rounded = u64::from(fraction.iter().any(|&digit| digit != b'0'));
    Some(Duration::from_secs(whole_number(whole).unwrap_or(0).saturating_add(rounded)))
}

/// Digits and nothing else, but for blanks around them. Too large for `u64` is `u64::MAX`.
fn whole_number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests;
