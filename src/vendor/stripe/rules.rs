//! The meaning of Stripe's answers.
//!
//! The author of an answer comes first. One is Stripe's own if it is JSON in the shape of its errors and has
//! `Request-Id`. Any other answer in place of an error or a success was written by a proxy on the way, before or after
//! Stripe executed the request, and proves nothing.
//!
//! The attempts that it speaks for come second. Stripe keeps the first outcome under a key and answers with it from
//! then on (docs.stripe.com/api/idempotent_requests). So within the window, a refusal that is marked as a replay is the
//! first attempt's. A decline (402) without the mark says then that there is no earlier outcome. No other refusal says
//! anything of an earlier attempt, and after the window none does. A request that fails validation is kept under no
//! key. Refused credentials and a conflict are not kept either. An account's upgrade to another version between two
//! attempts may come to `idempotency_error`.
//!
//! [`retried_at_once`] is the rule of Stripe's own clients, row by row. The verdict differs from it in these
//! places, each because this engine knows more than one exchange:
//!
//! - **429 without `lock_timeout`**: Stripe's clients give up at once, lest they add to the load. A 429 was provably
//!   not executed and is not stored under the key (docs.stripe.com/error-low-level), so here it is retried with
//!   effect *none*, later. The ladder, the vendor's pause and the retry budget stand before it. `Stripe-Should-Retry:
//!   false` beside a 429 is obeyed. stripe-python and stripe-node take a 400 with the code `rate_limit` for a rate
//!   limit too, and so do we.
//! - **A replayed answer** is never retried, whatever else it carries: under this key it will not change.
//! - **TLS failures**: Stripe's clients take them for a misconfiguration. Nothing was sent, so another attempt
//!   is harmless, and certificates are mended while a service runs.

use http::HeaderName;
use serde_json::Value;

use steadfast_core::internal::ext::AnswerExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::body::is_text;
use steadfast_core::transport::{Answer, SendError, SendErrorKind};
use steadfast_core::vendor::rules::{
    asked, by_status, is_anothers_success, is_page, lacks_form, no_answer, refused, replay_speaks_for,
    was_deleted,
};
use steadfast_core::vendor::{Attempt, SpeaksFor, Verdict, wait};
use steadfast_core::{Effect, Refusal};

/// Outcomes that Stripe keeps under a request's key, and answers with from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// None: the request has no key, or one that Stripe ignores.
    Nothing,
    /// The first outcome, a 500 too: v1.
    Outcomes,
    /// Successes. A failed request is executed again: v2 (docs.stripe.com/api-v2-overview).
    Successes,
}

/// Classifies an attempt's outcome.
///
/// In v2 no failure is a replay, whatever marks it, and none speaks for an earlier attempt. That Stripe would answer with
/// a conflict while the earlier one is still executing is documented for v1 alone.
pub(super) fn classify(attempt: &Attempt<'_>, keeps: Keeps) -> Verdict {
    let answer = match attempt.outcome {
        Ok(answer) => answer,
        Err(error) => return no_answer(error),
    };
    let status = answer.status.as_u16();
    let not_before = asked(attempt, answer);
    let is_marked = |value: &str| value.eq_ignore_ascii_case("true");
    let replayed = Guard::ReplayMark.keeps(answer.header_named(&IDEMPOTENT_REPLAYED).is_some_and(is_marked));
    if answer.status.is_success() {
        // `Stripe-Should-Retry: false` also comes with plain 200s, where it means nothing.
        return if is_anothers(attempt, answer) {
            Verdict::Retry { effect: Effect::Unknown, not_before }
        } else {
            Verdict::Done { replayed }
        };
    }
    let error = Problem::of(answer);
    let is_own = answer.headers.contains_key(&REQUEST_ID) && error.is_one() || Guard::OwnAnswer.is_out();
    if replayed && keeps != Keeps::Successes {
        return match refusal(status, &error) {
            // The outcome of the key's first request. Stripe stores neither of the other two.
            refusal @ Refusal::Rejected if is_own && (400..500).contains(&status) => {
                Verdict::Refused { refusal, speaks_for: replay_speaks_for(attempt) }
            }
            _ => Verdict::Unknown,
        };
    }
    if keeps == Keeps::Successes && is_own && is_reused(answer, &error) {
        return refused(attempt, Refusal::KeyReused, Some(SpeaksFor::ThisAttempt), not_before);
    }
    let is_limited = status == 429 || (status == 400 && is_own && error.code() == Some("rate_limit"));
    if retried_at_once(Ok(answer)) {
        let effect =
            if is_limited || (is_own && leaves_no_trace(status)) { Effect::None } else { Effect::Unknown };
        return Verdict::Retry { effect, not_before };
    }
    let told_not_to = wait::stripe_should_retry(&answer.headers) == Some(false);
    let this_attempt = is_own.then_some(SpeaksFor::ThisAttempt);
    let are_kept = keeps == Keeps::Outcomes || keeps == Keeps::Successes && Guard::NoFailureKept.is_out();
    let in_window = are_kept && (attempt.in_window || Guard::OnlyInWindow.is_out());
    // A decline is kept under the key: an earlier request that is still on its way will find it. A request
    // that fails validation is kept nowhere, and that earlier one may pass when it comes.
    let is_kept = in_window && (status == 402 || Guard::DeclinesAlone.is_out());
    let every_attempt = if is_kept { is_own.then_some(SpeaksFor::EarlierToo) } else { this_attempt };
    match status {
        // Another request holds our key, or the server failed: no more sending, but it may have happened.
        409 if told_not_to && error.code() == Some(KEY_IN_USE) => Verdict::Unknown,
        500.. => Verdict::Unknown,
        _ if is_limited && told_not_to => {
            // A 429 was not executed, whoever says so.
            Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::ThisAttempt }
        }
        _ if is_limited => Verdict::Retry { effect: Effect::None, not_before },
        // Whoever wrote it: Stripe's own word on resending is in it.
        _ if told_not_to && !is_own && !attempt.request.method.is_safe() => Verdict::Unknown,
        409 => refused(attempt, Refusal::Rejected, this_attempt, not_before),
        404 if is_own && was_deleted(attempt) => Verdict::Done { replayed: true },
        400..=404 => refused(attempt, refusal(status, &error), every_attempt, not_before),
        _ => by_status(attempt, answer.status, every_attempt, not_before),
    }
}

/// Returns true if a proxy wrote a success. A request that only reads changes nothing, also if a proxy answers it with
/// JSON.
fn is_anothers(attempt: &Attempt<'_>, answer: &Answer) -> bool {
    let is_foreign = || {
        let is_v1 = attempt.request.url.path().contains("/v1/");
        match answer.headers.contains_key(&REQUEST_ID) {
            // Nothing else marks a replay.
            true if answer.headers.contains_key(&IDEMPOTENT_REPLAYED) => false,
            // All of v1 answers so, whatever headers are there. OAuth answers with tokens.
            _ if is_v1 && lacks_form(answer, &SUCCESS_MEMBERS) => true,
            false => is_anothers_success(answer, &SUCCESS_MEMBERS),
            true if is_v1 => false,
            // "Returns an empty object" where it returns anything (docs.stripe.com/api/v2, meter event streams).
            true if attempt.request.url.path().contains("/v2/") => {
                lacks_form(answer, &SUCCESS_MEMBERS) && !answer.body.is_empty()
            }
            true => is_text(answer) && !answer.body.is_empty(),
        }
    };
    is_page(answer) || !attempt.request.method.is_safe() && is_foreign()
}

/// Whether Stripe's own clients would send the request again, by the outcome alone (stripe-go `shouldRetry`,
/// stripe-ruby `should_retry?`, stripe-node `_shouldRetry`). That attempts or time are left is the engine's
/// business.
pub(super) fn retried_at_once(outcome: Result<&Answer, &SendError>) -> bool {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            let kind = error.kind();
            return !matches!(kind, SendErrorKind::Redirected | SendErrorKind::Request | SendErrorKind::Tls);
        }
    };
    if let Some(told) = wait::stripe_should_retry(&answer.headers) {
        return told && !answer.status.is_success();
    }
    match answer.status.as_u16() {
        409 => true,
        429 => Problem::of(answer).code() == Some("lock_timeout"),
        status => status >= 500,
    }
}

/// Returns the kind of the refusal. The key belongs to another request: 400 in published answers, and 404 too for
/// stripe-python, -node and -ruby. A 409 is never decided by its type, on which public sources disagree.
fn refusal(status: u16, error: &Problem) -> Refusal {
    match status {
        401 | 403 => Refusal::Unauthorized,
        400 | 404 if error.text("type") == Some("idempotency_error") => Refusal::KeyReused,
        _ => Refusal::Rejected,
    }
}

/// Returns true for a key that belongs to another request, which in v2 is a 409
/// (docs.stripe.com/api/v2/core/event_destinations/create). Unlike a conflict it stays the same each time that it is
/// sent.
fn is_reused(answer: &Answer, error: &Problem) -> bool {
    answer.status.as_u16() == 409
        && error.code() == Some("idempotency_error")
        && wait::stripe_should_retry(&answer.headers) != Some(true)
}

/// Returns true for a 4xx that Stripe does not execute. A 409 concerns another request under our key, which may execute
/// yet.
fn leaves_no_trace(status: u16) -> bool {
    (400..500).contains(&status) && status != 409
}

/// Value in place of `error`; null if the answer has nothing there, or is no JSON.
struct Problem(Value);

impl Problem {
    fn of(answer: &Answer) -> Problem {
        Problem(answer.json().and_then(|mut body| body.get_mut("error").map(Value::take)).unwrap_or_default())
    }

    /// An object, or OAuth's text.
    fn is_one(&self) -> bool {
        self.0.is_object() || self.0.is_string()
    }

    fn code(&self) -> Option<&str> {
        self.text("code")
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.0.get(member)?.as_str()
    }
}

/// Each of its objects has one.
const SUCCESS_MEMBERS: [&str; 2] = ["object", "id"];
static IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const KEY_IN_USE: &str = "idempotency_key_in_use";
