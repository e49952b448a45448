//! What Stripe's answers mean.
//!
//! [`retried_at_once`] is the rule of Stripe's own clients, row by row. The verdict differs from it in these
//! places, each because this engine knows more than one exchange:
//!
//! - **429 without `lock_timeout`**: Stripe's clients give up at once, lest they add to the load. A 429 was
//!   provably not executed and is not stored under the key (docs.stripe.com/error-low-level), so here it is
//!   retried with effect *none*, later: the ladder, the vendor's pause and the retry budget stand before it.
//!   `Stripe-Should-Retry: false` beside a 429 is obeyed.
//! - **A replayed answer** is never retried, whatever else it carries: under this key it will not change.
//! - **TLS failures**: Stripe's clients take them for a misconfiguration. Nothing was sent, so another attempt
//!   is harmless, and certificates are mended while a service runs.

use serde_json::Value;

use crate::answer::Answer;
use crate::error::{Effect, Refusal};
use crate::transport::{SendError, SendErrorKind};
use crate::vendor::common::{asked, by_status, no_answer, refused, was_deleted};
use crate::vendor::{Attempt, Verdict, wait};

/// What an attempt's outcome means. `replays`: Stripe keeps the outcome under the request's key.
pub(super) fn classify(attempt: &Attempt<'_>, replays: bool) -> Verdict {
    let answer = match attempt.outcome {
        Ok(answer) => answer,
        Err(error) => return no_answer(error),
    };
    let status = answer.status.as_u16();
    let replayed =
        answer.header("idempotent-replayed").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if answer.status.is_success() {
        // `Stripe-Should-Retry: false` also comes with plain 200s, where it means nothing.
        return Verdict::Done { replayed };
    }
    if replayed {
        let is_final = (400..500).contains(&status);
        return if is_final { refusal(attempt, answer, replays) } else { Verdict::Unknown };
    }
    if retried_at_once(Ok(answer)) {
        let effect = if leaves_no_trace(status) { Effect::None } else { Effect::Unknown };
        return Verdict::Retry { effect, not_before: asked(attempt, answer) };
    }
    let told_not_to = wait::stripe_should_retry(&answer.headers) == Some(false);
    match status {
        // Another request holds our key, or the server failed: no more sending, but it may have happened.
        409 if told_not_to && code(answer).as_deref() == Some(KEY_IN_USE) => Verdict::Unknown,
        500.. => Verdict::Unknown,
        429 if told_not_to => refused(attempt, false, Refusal::Rejected),
        404 if was_deleted(attempt) => Verdict::Done { replayed: true },
        400 | 401 | 402 | 403 | 404 | 409 => refusal(attempt, answer, replays && status != 409),
        _ => by_status(attempt, answer.status, replays, asked(attempt, answer)),
    }
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
        429 => code(answer).as_deref() == Some("lock_timeout"),
        status => status >= 500,
    }
}

/// A definite no of Stripe's. Decided by the status and `error.type` of a 400 only; a 409 is never decided by
/// its type, on which public sources disagree.
fn refusal(attempt: &Attempt<'_>, answer: &Answer, replays: bool) -> Verdict {
    let refusal = match answer.status.as_u16() {
        401 | 403 => Refusal::Unauthorized,
        400 if error_text(answer, "type").as_deref() == Some("idempotency_error") => Refusal::KeyReused,
        _ => Refusal::Rejected,
    };
    refused(attempt, replays, refusal)
}

/// 4xx that Stripe does not execute. A 409 tells of another request under our key, which may execute yet.
fn leaves_no_trace(status: u16) -> bool {
    (400..500).contains(&status) && status != 409
}

fn code(answer: &Answer) -> Option<String> {
    error_text(answer, "code")
}

/// A text in the answer's `error` object. OAuth's `error` is a text itself, a gateway's body is HTML: `None`.
fn error_text(answer: &Answer, member: &str) -> Option<String> {
    match answer.json()?.get("error")?.get(member)? {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

const KEY_IN_USE: &str = "idempotency_key_in_use";
