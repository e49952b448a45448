//! The verdicts that follow from HTTP alone, for every adapter.
//!
//! They are what [`Vendor::classify`] does unless an adapter says otherwise. An adapter with rules of its own decides
//! its own cases first and leaves the rest to [`by_status`]. The rules are about two mistakes that cost
//! money. One is to call an effect absent that may be there: after a 408, a 500, a redirect, or a page that a proxy
//! wrote. The other is to take a no to this attempt for a no to an earlier one, whose answer was lost.
//!
//! | answer to a write | verdict |
//! |---|---|
//! | none | the transport knows whether it was sent ([`no_answer`]) |
//! | 2xx | done, unless a page stands there ([`is_page`], [`is_anothers_success`]) |
//! | 3xx | unknown: a 303 follows a POST that was executed |
//! | 401, 403 | refused, and no word on an earlier attempt |
//! | 404, 410 to a DELETE whose answer was lost | done |
//! | 408, 5xx | again, effect unknown |
//! | 425, 429 | again, without effect |
//! | any other 4xx | refused if the vendor itself wrote it, else again with effect unknown |
//!
//! Waits are read beside each of them ([`asked`]).

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde_json::{Map, Value};

use crate::answer::{Answer, AnswerExt};
use crate::effect::Effect;
use crate::error::Refusal;
use crate::guard::Guard;
use crate::request::Request;
use crate::transport::{SendError, SendErrorKind};
use crate::vendor::{Attempt, SpeaksFor, Vendor, Verdict, wait};

/// Returns the verdict on an outcome at a vendor without rules of its own: the table above. [`Vendor::is_own`] decides
/// whose answer it is. A no speaks for the attempt that it answers: an adapter says more where its vendor keeps
/// failures under the key, see [`SpeaksFor::EarlierToo`].
pub fn verdict<V: Vendor + ?Sized>(vendor: &V, attempt: &Attempt<'_>) -> Verdict {
    let answer = match attempt.outcome {
        Ok(answer) => answer,
        Err(error) => return no_answer(error),
    };
    let (is_own, not_before) = (vendor.is_own(answer), asked(attempt, answer));
    if answer.status.is_success() {
        // What reads changes nothing, whoever answers it.
        return if is_own || attempt.request.method.is_safe() {
            Verdict::Done { replayed: false }
        } else {
            Verdict::Retry { effect: Effect::Unknown, not_before }
        };
    }
    by_status(attempt, answer.status, is_own.then_some(SpeaksFor::ThisAttempt), not_before)
}

/// Returns true if a vendor that answers in JSON wrote this itself, as far as its form shows. A success is no page for
/// a browser. A failure has an object or a list for its body. This is the default of [`Vendor::is_own`]. It cannot
/// recognise a proxy that writes JSON.
pub fn is_own(answer: &Answer) -> bool {
    if answer.status.is_success() {
        return !is_page(answer);
    }
    answer.json().is_some_and(|body| body.is_object() || body.is_array())
}

/// Returns the verdict on a failure without an answer: it may be sent again, and its effect is the transport's. A
/// redirect that was followed underneath us went to an unknown place: stop.
pub fn no_answer(error: &SendError) -> Verdict {
    match error.kind() {
        SendErrorKind::Redirected => Verdict::Unknown,
        _ => Verdict::Retry { effect: error.effect(), not_before: None },
    }
}

/// Returns the verdict of a definite no, if the answer is the vendor's own; `says` then gives the attempts that it
/// speaks for.
///
/// `None`: a proxy between us and the vendor may have written it, before or after the vendor executed the request.
/// A safe method has no effect that this could leave open.
///
/// Only what the vendor made of the request itself can speak for an earlier attempt. Where the credentials were
/// refused, the vendor did not look at the key. Where the key belongs to another request, or a duplicate exists, the
/// earlier attempt may be why.
///
/// `not_before` is the wait that the answer asks for: its author is in front of the vendor, so that the wait counts
/// there.
pub fn refused(
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

/// Returns the attempts that a refusal speaks for which the vendor marks as a replay.
///
/// Within the [window](Attempt::in_window), all attempts have had one outcome, and this is it. After it, the vendor may
/// have forgotten an earlier attempt, executed a later one, and kept that one's no.
pub fn replay_speaks_for(attempt: &Attempt<'_>) -> SpeaksFor {
    if attempt.in_window || Guard::MarkInWindow.is_out() {
        SpeaksFor::EarlierToo
    } else {
        SpeaksFor::ThisAttempt
    }
}

/// The verdict that HTTP's status gives, for the answers that a vendor's own rules leave open.
///
/// `says` and `not_before` are as in [`refused`].
pub fn by_status(
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

/// Returns true if the answer is a page for a browser: proxies, gateways and sign-in portals write such, and no API.
///
/// The media type alone does not show it: some vendors label JSON or a plain `ok` as HTML.
///
/// A challenge of AWS WAF is one too, whatever its status and its body are. It keeps the request from its destination
/// (AWS WAF API reference, `ChallengeAction`). A client that is no browser gets 202 and no body.
pub fn is_page(answer: &Answer) -> bool {
    let body =
        answer.body.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(&answer.body).trim_ascii_start();
    let begins =
        |tag: &str| body.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
    let is_labelled =
        answer.header_named(&CONTENT_TYPE).is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    let is_challenge = answer.headers.contains_key("x-amzn-waf-action");
    let is_html = begins("<!doctype html") || begins("<html") || (is_labelled && begins("<"));
    Guard::PageIsNoSuccess.keeps(is_html || is_challenge)
}

/// Returns true if a success is another's, at a vendor that answers in JSON and whose objects each have at least one of
/// `members`. It is an object with none of them, or it is neither an object nor a list: a text, or nothing where the
/// status promises a body. A gateway that stands in for the vendor writes such, before or after the vendor executed the
/// request.
///
/// No proof of another are a 204, an object without members, a list, and a body that was cut off at its limit.
pub fn is_anothers_success(answer: &Answer, members: &[&str]) -> bool {
    let has_no_body =
        matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) && answer.body.is_empty();
    match answer.json() {
        Some(Value::Object(body)) => !body.is_empty() && !has_one(&body, members),
        Some(Value::Array(_)) => false,
        _ => Guard::TextIsNoSuccess.keeps(!answer.cut && !has_no_body),
    }
}

/// Whether a success lacks the form that all of its route have: an object with one of `members`. A text, or nothing,
/// comes from something that stands in for the vendor, whatever headers it copies. No proof is an object without members,
/// and a body that was cut off at its limit or is packed.
pub fn lacks_form(answer: &Answer, members: &[&str]) -> bool {
    let lacks = || match answer.json() {
        Some(Value::Object(body)) => !body.is_empty() && !has_one(&body, members),
        _ => true,
    };
    Guard::FormOfSuccess.keeps(!is_unread(answer) && lacks())
}

/// A null says nothing: `{"data": null, "errors": […]}` is no object of the vendor's.
fn has_one(body: &Map<String, Value>, members: &[&str]) -> bool {
    members.iter().any(|member| body.get(*member).is_some_and(|value| !value.is_null()))
}

/// Whether the form of the body is not known: it was cut off, or is in an encoding that was not unpacked. A header alone
/// does not pack a text.
pub(super) fn is_unread(answer: &Answer) -> bool {
    let is_packed =
        answer.headers.contains_key(CONTENT_ENCODING) && std::str::from_utf8(&answer.body).is_err();
    answer.cut || is_packed
}

/// Whether a resource that is not there is what the request asked for: an earlier DELETE, whose answer was lost, may
/// have removed it. It is gone either way, which is all that a DELETE is for.
pub fn was_deleted(attempt: &Attempt<'_>) -> bool {
    attempt.effect_before == Effect::Unknown && attempt.request.method == Method::DELETE
}

/// The wait that the standard headers ask for.
pub fn asked(attempt: &Attempt<'_>, answer: &Answer) -> Option<Duration> {
    wait::asked(answer.status, &answer.headers, attempt.now)
}

/// Whether a request's body says that it is of this media type, whatever its parameters.
pub fn has_content_type(request: &Request, essence: &str) -> bool {
    let Some(Ok(value)) = request.headers.get(CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
    value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case(essence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::body::is_text;

    #[test]
    fn a_readable_page_is_judged_whatever_its_headers_say() {
        let answer = |headers: &[(&str, &str)], body: &[u8], cut: bool| {
            let named = headers.iter().map(|(name, value)| {
                let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
                (name, HeaderValue::from_str(value).expect("a value"))
            });
            let mut answer = Answer::new(StatusCode::OK, named.collect(), body.to_vec());
            answer.cut = cut;
            answer
        };
        let (encoded, members) = ([("content-encoding", "gzip")], ["id"]);
        for (headers, body, cut, is_read) in [
            (&encoded[..], &b"accepted"[..], false, true),
            (&encoded, b"{\"message\":\"queued\"}", false, true),
            (&encoded, b"\x1f\x8b\x08\x00", false, false),
            (&[], b"{\"message\":\"que", true, false),
            (&[], b"the request is acc", true, false),
        ] {
            let answer = answer(headers, body, cut);
            assert_eq!(lacks_form(&answer, &members), is_read, "{answer:?}");
            let is_object = body.starts_with(b"{") && !cut;
            assert_eq!(is_text(&answer), is_read && !is_object, "{answer:?}");
        }
    }
}
