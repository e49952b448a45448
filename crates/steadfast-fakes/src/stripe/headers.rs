//! The content of a request's headers, and the headers of every answer.

use http::Method;
use wiremock::Request;

use super::super::encoding::from_base64;
use super::super::fixture::Reply;
use super::super::serve::header;

/// The account and mode that a request's keys and objects belong to; `None` if it may not come in.
pub(super) fn account(request: &Request) -> Option<String> {
    let credentials = header(&request.headers, "authorization")?;
    let secret = match credentials.split_once(' ')? {
        ("Bearer", secret) => secret.to_owned(),
        // The key is the user, without a password.
        ("Basic", pair) => String::from_utf8(from_base64(pair)?).ok()?.trim_end_matches(':').to_owned(),
        _ => return None,
    };
    let (_, rest) = secret.split_once('_').filter(|(kind, _)| matches!(*kind, "sk" | "rk"))?;
    let mode = if rest.starts_with("live") { "live" } else { "test" };
    let account = header(&request.headers, "stripe-account").unwrap_or("acct_own");
    Some(format!("{account}/{mode}"))
}

/// The headers that are on every answer.
pub(super) fn echo(reply: Reply, request: &Request, request_id: &str) -> Reply {
    if reply.headers.iter().any(|(_, value)| value == "text/html") {
        // A gateway's: it knows none of them.
        return reply;
    }
    let is_v2 = request.url.path().starts_with("/v2/");
    let mut reply = reply.header("Request-Id", request_id);
    // v2 has no version but that of the request.
    let asked = header(&request.headers, "stripe-version").filter(|version| is_version(version));
    if let Some(version) = asked.or((!is_v2).then_some(VERSION)) {
        reply = reply.header("Stripe-Version", version);
    }
    if let Some(key) = header(&request.headers, "idempotency-key") {
        reply = reply.header("Idempotency-Key", key);
        let named = reply.headers.iter().any(|(name, _)| name == "Original-Request");
        // Seen in v1 alone.
        if request.method == Method::POST && !is_v2 && !named {
            reply = reply.header("Original-Request", request_id);
        }
    }
    reply
}

/// Whether it can be a version: a date, the name of a release behind it, and beta headers behind that
/// (<https://docs.stripe.com/api/versioning>). Which versions there are is not known to the fake.
pub(super) fn is_version(text: &str) -> bool {
    let (version, betas) = text.split_once(';').unwrap_or((text, "_=_"));
    let (date, release) = version.split_once('.').unwrap_or((version, "_"));
    let number = |text: &str, len: usize| {
        (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<u32>().ok())?
    };
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let mut parts = date.splitn(3, '-');
    let mut next = |len| parts.next().and_then(|part| number(part, len));
    let (year, month, day) = (next(4), next(2), next(2));
    year.is_some_and(|year| year >= FIRST_YEAR)
        && month.is_some_and(|month| (1..=12).contains(&month))
        && day.is_some_and(|day| (1..=31).contains(&day))
        && is_name(release)
        && betas.split(';').all(|beta| {
            beta.trim().split_once('=').is_some_and(|(name, version)| is_name(name) && is_name(version))
        })
}

/// Whether a version of the API is of this date or later. A version begins with its date.
pub(super) fn is_since(version: &str, date: &str) -> bool {
    version.get(..date.len()).is_some_and(|dated| dated >= date)
}

/// Of the first version of the API.
const FIRST_YEAR: u32 = 2011;

/// The version of the newest real answer among the fixtures.
pub(super) const VERSION: &str = "2026-07-29.dahlia";

#[cfg(test)]
mod tests {
    use super::{is_since, is_version};

    #[test]
    fn versions_are_compared_by_their_date() {
        for (version, is) in [
            ("2023-08-16", true),
            ("2026-07-29.dahlia", true),
            ("2024-06-20; a_beta=v3", true),
            ("2022-11-15", false),
            ("2023-08-15; a_beta=v3", false),
        ] {
            assert_eq!(is_since(version, "2023-08-16"), is, "{version}");
        }
    }

    #[test]
    fn a_version_is_a_date_with_the_name_of_a_release_and_betas() {
        for version in [
            "2011-01-01",
            "2024-06-20",
            "2026-07-29.dahlia",
            "2026-07-29.preview",
            "2024-06-20; invoice_partial_payments_beta=v3",
            "2024-06-20; a_beta=v3; b_beta=v1",
        ] {
            assert!(is_version(version), "{version}");
        }
        for text in [
            "",
            "x",
            "latest",
            "2024-6-20",
            "2024-13-20",
            "2024-06-32",
            "2024-06",
            "2024-06-20-1",
            "2010-12-31",
            "2024-06-20.",
            "2024-06-20;",
            "2024-06-20; beta",
            "2019-12-03, 2019-12-03",
            "+024-06-20",
        ] {
            assert!(!is_version(text), "{text}");
        }
    }
}
