//! What the adapters share: credentials that do not print, routes below a base URL, and the verdicts that
//! follow from HTTP alone.

use std::fmt;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::answer::Answer;
use crate::error::{Effect, Error, Input, Refusal};
use crate::guard::Guard;
use crate::request::Request;
use crate::transport::{SendError, SendErrorKind};
use crate::vendor::{Attempt, SpeaksFor, Verdict, wait};

/// A secret as the header's value that carries it.
///
/// It is made once and shared by reference count, so that a send allocates nothing for it. The value is
/// marked sensitive: neither `Debug` nor HPACK's tables show it.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    value: Result<HeaderValue, &'static str>,
}

impl Credential {
    /// `prefix` and `secret` as one value.
    pub(super) fn new(prefix: &str, secret: &SecretString) -> Credential {
        let text = secret.expose_secret();
        if text.trim().is_empty() {
            return Credential { value: Err("it is empty") };
        }
        let line = SecretString::from(format!("{prefix}{text}"));
        let value = HeaderValue::from_str(line.expose_secret()).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Credential {
            value: value.map_err(
                |_| "it holds a character that a header cannot carry, such as a line break at its end",
            ),
        }
    }

    /// Whether there is a value to send.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.value {
            Ok(_) => Ok(()),
            Err(problem) => Err(Error::validation(Input::Secret, *problem)),
        }
    }

    /// Puts the value into a header. Without one nothing is sent: `check` has said so.
    pub(super) fn put(&self, name: HeaderName, headers: &mut HeaderMap) {
        if let Ok(value) = &self.value {
            headers.insert(name, value.clone());
        }
    }
}

/// A base URL as it was given, so that builders need no `Result`.
///
/// `Debug` shows neither credentials nor a query: `check` comes after a log may have shown it.
#[derive(Clone)]
pub(super) struct Base {
    url: Url,
    problem: Option<String>,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").field("url", &shown(&self.url)).field("problem", &self.problem).finish()
    }
}

/// Where a URL leads, and nothing that may be secret.
pub(super) fn shown(url: &Url) -> String {
    let authority = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{authority}{port}{}", url.scheme(), url.path())
}

impl Base {
    pub(super) fn new(text: &str) -> Base {
        match Url::parse(text) {
            Ok(url) if url.cannot_be_a_base() => Base::broken("it has no host".into()),
            Ok(url) => Base { url, problem: None },
            Err(url::ParseError::RelativeUrlWithoutBase) => {
                Base::broken("it lacks its scheme; write it whole, as \"https://api.stripe.com\"".into())
            }
            Err(error) => Base::broken(error.to_string()),
        }
    }

    /// A base that `check` refuses. The URL is one that resolves nowhere (RFC 2606).
    fn broken(problem: String) -> Base {
        let url = Url::parse("https://invalid.invalid/").expect("a constant that is a URL");
        Base { url, problem: Some(problem) }
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => Err(Error::validation(Input::BaseUrl, problem.clone())),
        }
    }

    /// The path of `url` below the base, with a leading slash. Empty if it is not below it.
    pub(super) fn route<'a>(&self, url: &'a Url) -> &'a str {
        let base = self.url.path().trim_end_matches('/');
        match url.path().strip_prefix(base) {
            Some(route) if route.starts_with('/') => route,
            _ => "",
        }
    }

    /// The URL of `route`, with a query.
    pub(super) fn at(&self, route: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{route}", self.url.path().trim_end_matches('/')));
        url.set_query(None);
        url.set_fragment(None);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// What a failure without an answer means: it may be sent again, and its effect is the transport's word. A redirect
/// that was followed underneath us went to an unknown place: stop.
pub(super) fn no_answer(error: &SendError) -> Verdict {
    match error.kind() {
        SendErrorKind::Redirected => Verdict::Unknown,
        _ => Verdict::Retry { effect: error.effect(), not_before: None },
    }
}

/// A definite no, if the answer is the vendor's own: `says` then tells which attempts it speaks for.
///
/// `None`: a proxy between us and the vendor may have written it, before or after the vendor executed the request.
/// A safe method has no effect that this could leave open.
///
/// Only what the vendor made of the request itself can speak for an earlier attempt. Where the credentials were
/// refused, the vendor did not look at the key. Where the key belongs to another request, or a duplicate exists, the
/// earlier attempt may be why.
///
/// `not_before` is the wait that the answer asks for: its author is in front of the vendor, and heard there.
pub(super) fn refused(
    attempt: &Attempt<'_>,
    refusal: Refusal,
    says: Option<SpeaksFor>,
    not_before: Option<Duration>,
) -> Verdict {
    match says {
        Some(speaks_for) if refusal == Refusal::Rejected => Verdict::Refused { refusal, speaks_for },
        None if !attempt.request.method.is_safe() => Verdict::Retry { effect: Effect::Unknown, not_before },
        _ => Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt },
    }
}

/// The verdict that HTTP's status gives, for the answers that a vendor's own rules leave open.
///
/// `says` and `not_before` are as in [`refused`].
pub(super) fn by_status(
    attempt: &Attempt<'_>,
    status: StatusCode,
    says: Option<SpeaksFor>,
    not_before: Option<Duration>,
) -> Verdict {
    let retry = |effect| Verdict::Retry { effect, not_before };
    match status.as_u16() {
        200..=299 => Verdict::Done { replayed: false },
        // Whoever asked with a condition has what it asks for; a method with an effect has none from this (RFC 9110,
        // section 15.4.5: only a GET or a HEAD is answered so).
        304 if attempt.request.method.is_safe() => Verdict::Done { replayed: false },
        404 | 410 if says.is_some() && was_deleted(attempt) => Verdict::Done { replayed: true },
        // A redirect is not followed on a keyed call, and a 303 is what follows a POST that was executed.
        300..=399 if attempt.request.method.is_safe() => {
            refused(attempt, Refusal::Rejected, says, not_before)
        }
        300..=399 => Verdict::Unknown,
        401 | 403 => refused(attempt, Refusal::Unauthorized, says, not_before),
        // The server gave up on reading the request (RFC 9110, section 15.5.9): it may have read enough.
        408 => retry(Effect::Unknown),
        // Neither was executed (RFC 8470, section 5.2; RFC 6585, section 4), whoever says so: what limits the rate in
        // front of a vendor does not let the request through.
        425 | 429 => retry(Effect::None),
        400..=499 => refused(attempt, Refusal::Rejected, says, not_before),
        _ => retry(Effect::Unknown),
    }
}

/// Whether the answer is a page for a browser: what proxies, gateways and sign-in portals write, and no API.
///
/// The media type alone does not tell: some vendors label JSON or a plain `ok` as HTML.
pub(super) fn is_page(answer: &Answer) -> bool {
    let body =
        answer.body.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(&answer.body).trim_ascii_start();
    let begins =
        |tag: &str| body.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
    let is_labelled =
        answer.header_named(&CONTENT_TYPE).is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    Guard::PageIsNoSuccess.keeps(begins("<!doctype html") || begins("<html") || (is_labelled && begins("<")))
}

/// Whether a success is somebody else's: an object in JSON with none of `members`, of which each of the vendor's own has
/// at least one. A gateway that stands in for the vendor writes such, before or after the vendor executed the request.
///
/// Not JSON, or an object that says nothing, is no proof of another: some routes of a vendor answer so.
pub(super) fn is_anothers_success(answer: &Answer, members: &[&str]) -> bool {
    let is_foreign = |body: &serde_json::Map<String, Value>| {
        !body.is_empty() && !members.iter().any(|member| body.contains_key(*member))
    };
    answer.json().as_ref().and_then(Value::as_object).is_some_and(is_foreign)
}

/// Whether a resource that is not there is what the request asked for: an earlier DELETE, whose answer was lost, may
/// have removed it. It is gone either way, which is all that a DELETE is for.
pub(super) fn was_deleted(attempt: &Attempt<'_>) -> bool {
    attempt.effect_before == Effect::Unknown && attempt.request.method == Method::DELETE
}

/// The wait that the standard headers ask for.
pub(super) fn asked(attempt: &Attempt<'_>, answer: &Answer) -> Option<Duration> {
    wait::asked(answer.status, &answer.headers, attempt.now)
}

/// Whether a request's body says that it is of this media type, whatever its parameters.
pub(super) fn has_content_type(request: &Request, essence: &str) -> bool {
    let Some(Ok(value)) = request.headers.get(CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
    value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case(essence)
}

/// An answer that a lookup puts together in the shape of the one that was lost.
pub(super) fn reconciled(status: StatusCode, body: impl Into<bytes::Bytes>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Answer::new(status, headers, body)
}

/// A header's value made from text that we chose ourselves.
///
/// # Errors
///
/// A validation error that names the header if the text cannot be one.
pub(super) fn header_value(name: &str, text: &str) -> Result<HeaderValue, Error> {
    let problem =
        || Error::validation(Input::Header, format!("{name}: a character that a header cannot carry"));
    HeaderValue::from_str(text).map_err(|_| problem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_broken_secret_is_refused_and_never_shown() {
        for bad in ["", "  ", "sk_live_x\r\nX-Evil: 1"] {
            let credential = Credential::new("Bearer ", &bad.into());
            assert_eq!(credential.check().expect_err(bad).code(), "VALIDATION.secret");
            assert!(!format!("{credential:?}").contains("sk_live"));
        }
        let good = Credential::new("Bearer ", &"sk_live_x".into());
        good.check().expect("a secret");
        assert!(!format!("{good:?}").contains("sk_live"), "{good:?}");
    }

    #[test]
    fn a_route_is_what_follows_the_base_path() {
        let base = Base::new("https://v.test/stores/x/");
        let route = |text: &str| base.route(&Url::parse(text).expect("a url")).to_owned();
        assert_eq!(route("https://v.test/stores/x/v2/orders?a=1"), "/v2/orders");
        assert_eq!(route("https://v.test/stores/xyz/v2/orders"), "");
        assert_eq!(
            base.at("/v2/orders", &[("a", "b c")]).as_str(),
            "https://v.test/stores/x/v2/orders?a=b+c"
        );
        assert_eq!(Base::new("http://v.test").at("/a", &[]).as_str(), "http://v.test/a");
    }

    #[test]
    fn a_base_url_that_is_none_is_refused_by_check() {
        for bad in ["", "api.stripe.com", "mailto:x@y.z"] {
            assert_eq!(Base::new(bad).check().expect_err(bad).code(), "VALIDATION.base_url");
        }
    }
}
