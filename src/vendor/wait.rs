//! How vendors ask to be left alone, as pure functions over headers that never panic on any bytes.
//!
//! Each vendor says it differently, and the ways to misread it are all expensive. Examples are a date read as zero, a
//! minus sign read as "now", milliseconds read as seconds, a date read on a clock that the vendor does not have. So
//! there is one function per form. Each gives `None` for what it does not understand, and numbers too large to hold
//! become the largest wait there is (the pause's own cap then applies). A header that is sent more than once counts
//! with its longest wait: never early.

use std::time::{Duration, SystemTime};

use http::header::DATE;
use http::{HeaderMap, StatusCode};

use crate::clock::Timestamp;

/// A `Retry-After` value: delta-seconds or an HTTP-date (RFC 9110, section 10.2.3).
///
/// A date is read against `now` and one in the past is a wait of zero. Seconds may have a fraction, which rounds up.
/// A list, as a proxy makes of a header that came twice, counts with its longest wait. A negative number or anything
/// else is `None`.
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    if let Some(wait) = whole_number(value) {
        return Some(Duration::from_secs(wait));
    }
    let date = |text: &str| {
        let date: SystemTime = httpdate::parse_http_date(text.trim()).ok()?;
        Some(Timestamp::from(date).since(now))
    };
    // Nearly always it is one number or one date. The comma in a date makes it two items of a list.
    if let Some(wait) = std::str::from_utf8(value).ok().and_then(date) {
        return Some(wait);
    }
    let mut items = value.split(|&byte| byte == b',').peekable();
    let mut longest = None;
    while let Some(item) = items.next() {
        let text = std::str::from_utf8(item).unwrap_or_default();
        let wait = seconds(item).or_else(|| date(text)).or_else(|| {
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

/// The longest wait that an answer asks for in the standard ways: `Retry-After` beside any status but success, and
/// the `RateLimit` fields beside 429 and 503. Beside a success `Retry-After` says when a result is ready, and
/// nothing of the next request.
///
/// A date is read against the answer's own `Date`, so that neither clock need be right. Without one it is read
/// against `now`.
pub fn asked(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if status.is_success() {
        return None;
    }
    let sent_at = sent_at(headers).unwrap_or(now);
    let after = longest(headers, "retry-after", |value| retry_after(value, sent_at));
    let limited = if matches!(status.as_u16(), 429 | 503) { rate_limit(headers) } else { None };
    after.max(limited)
}

/// BigCommerce's wait: the longer of `X-Rate-Limit-Time-Reset-Ms`, in **milliseconds**, and `X-Retry-After`,
/// in **seconds** (BigCommerce, "API rate limits").
pub fn bigcommerce(headers: &HeaderMap) -> Option<Duration> {
    let reset = longest(headers, "x-rate-limit-time-reset-ms", |value| {
        whole_number(value).map(Duration::from_millis)
    });
    reset.max(longest(headers, "x-retry-after", seconds))
}

/// The same for an answer that is not a 429: `X-Retry-After` as it stands, the window's end only where
/// `X-Rate-Limit-Requests-Left` is 0. BigCommerce sends the window's end with every answer, and to read it as
/// a wait would hold back all calls for up to 30 s after a single 500.
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
    let current = longest(headers, "ratelimit", rate_limit_list);
    let spent = longest(headers, "ratelimit-remaining", |value| {
        (whole_number(value)? == 0).then_some(Duration::ZERO)
    });
    let split =
        spent.and_then(|_| longest(headers, "ratelimit-reset", |value| reset(whole_number(value)?, headers)));
    current.max(split)
}

/// Seconds, or the time that some write instead, in seconds since 1970: GitLab does (docs.gitlab.com, "Response
/// headers"). It is read against the answer's own `Date`, and asks for nothing without one.
fn reset(number: u64, headers: &HeaderMap) -> Option<Duration> {
    if !UNIX_TIMES.contains(&number) {
        return Some(Duration::from_secs(number));
    }
    Some(Timestamp::from_millis(number * 1000).since(sent_at(headers)?))
}

/// What the answer's own `Date` says.
fn sent_at(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(DATE)?.to_str().ok()?;
    httpdate::parse_http_date(date.trim()).ok().map(Timestamp::from)
}

/// From 2001 on, and no wait that a vendor asks for.
const UNIX_TIMES: std::ops::RangeInclusive<u64> = 1_000_000_000..=99_999_999_999;

/// `Stripe-Should-Retry`: `true` or `false`, and `None` for anything else.
pub fn stripe_should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("stripe-should-retry")?.as_bytes() {
        value if value.eq_ignore_ascii_case(b"true") => Some(true),
        value if value.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

fn longest(headers: &HeaderMap, name: &str, read: impl Fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    headers.get_all(name).iter().filter_map(|value| read(value.as_bytes())).max()
}

/// The longest `t` of the list's items whose `r` is zero.
fn rate_limit_list(value: &[u8]) -> Option<Duration> {
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
        (of(b"r")? == 0).then(|| of(b"t").map(Duration::from_secs)).flatten()
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
