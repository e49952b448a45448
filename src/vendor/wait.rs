//! How vendors ask to be left alone, as pure functions over headers that never panic on any bytes.
//!
//! Each vendor says it differently, and the ways to misread it are all expensive: a date read as zero, a
//! minus sign read as "now", milliseconds read as seconds. So there is one function per form, each gives
//! `None` for what it does not understand, and numbers too large to hold become the largest wait there is
//! (the pause's own cap then applies). A header that is sent more than once counts with its longest wait:
//! never early.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use crate::clock::Timestamp;

/// A `Retry-After` value: delta-seconds or an HTTP-date (RFC 9110, section 10.2.3).
///
/// A date in the past is a wait of zero. A negative number, a fraction or anything else is `None`.
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    if let Some(seconds) = whole_number(value) {
        return Some(Duration::from_secs(seconds));
    }
    let date: SystemTime = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
    Some(Timestamp::from(date).since(now))
}

/// Whether a `Retry-After` beside this status means this request: 429, 503, and a redirect that was not
/// followed (RFC 9110). Beside a 502 it is a gateway's guess and is ignored, as go-retryablehttp and
/// failsafe-go do.
pub fn honours_retry_after(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503) || status.is_redirection()
}

/// The longest wait that an answer asks for in the standard ways: `Retry-After` where the status honours it,
/// and the `RateLimit` fields on 429 and 503.
pub fn asked(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if !honours_retry_after(status) {
        return None;
    }
    let after = longest(headers, "retry-after", |value| retry_after(value, now));
    let limited = if status.is_redirection() { None } else { rate_limit(headers) };
    after.max(limited)
}

/// BigCommerce's wait: the longer of `X-Rate-Limit-Time-Reset-Ms`, in **milliseconds**, and `X-Retry-After`,
/// in **seconds** (BigCommerce, "API rate limits").
pub fn bigcommerce(headers: &HeaderMap) -> Option<Duration> {
    let reset = longest(headers, "x-rate-limit-time-reset-ms", |value| {
        whole_number(value).map(Duration::from_millis)
    });
    let after = longest(headers, "x-retry-after", |value| whole_number(value).map(Duration::from_secs));
    reset.max(after)
}

/// The same for an answer that is not a 429: `X-Retry-After` as it stands, the window's end only where
/// `X-Rate-Limit-Requests-Left` is 0. BigCommerce sends the window's end with every answer, and to read it as
/// a wait would hold back all calls for up to 30 s after a single 500.
pub fn bigcommerce_unless_quota_is_left(headers: &HeaderMap) -> Option<Duration> {
    let left = headers.get("x-rate-limit-requests-left").and_then(|value| whole_number(value.as_bytes()));
    if left == Some(0) {
        return bigcommerce(headers);
    }
    longest(headers, "x-retry-after", |value| whole_number(value).map(Duration::from_secs))
}

/// The wait in the IETF `RateLimit` fields: `RateLimit: "policy";r=0;t=30` of the current draft
/// (draft-ietf-httpapi-ratelimit-headers-10) and the split `RateLimit-Remaining`/`RateLimit-Reset` of the
/// older ones. Seconds, and only where nothing remains: a reset time alone asks for nothing.
pub fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    let current = longest(headers, "ratelimit", rate_limit_list);
    let spent = longest(headers, "ratelimit-remaining", |value| {
        (whole_number(value)? == 0).then_some(Duration::ZERO)
    });
    let split = spent.and_then(|_| {
        longest(headers, "ratelimit-reset", |value| whole_number(value).map(Duration::from_secs))
    });
    current.max(split)
}

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
