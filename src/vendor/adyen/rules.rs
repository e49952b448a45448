//! The meaning of Adyen's answers.
//!
//! | failure of Adyen's own to a POST | verdict |
//! |---|---|
//! | `transient-error: true` | again, without effect: "no side effects" |
//! | the same, with code 704 | again, effect unknown: the other request with this key is being processed |
//! | code 704 or a 409 without the mark | unknown: "already processed or in progress", "do not retry" |
//! | 401, 403 | refused, and no word on an earlier attempt |
//! | any other 4xx whose `errorType` is not `internal` | refused |
//! | 408, a 4xx of the type `internal`, 5xx | unknown: final under this key, and it may have been acted upon |
//!
//! The words are of docs.adyen.com/development-resources/api-idempotency. A failure that has not the form of Adyen's
//! errors may be a proxy's, and is sent again under the same key. A 425 and a 429 were not executed, also
//! if a proxy answers them.
//!
//! A refusal speaks for no earlier attempt: Adyen does not document which failures it keeps under the key. A request
//! that is still on its way may be processed although its repeat was refused.

use http::{HeaderName, Method};
use serde_json::Value;

use steadfast_core::internal::ext::AnswerExt;
use steadfast_core::internal::vendor::body::is_text;
use steadfast_core::transport::Answer;
use steadfast_core::vendor::rules::{asked, by_status, is_page, lacks_form, no_answer, refused};
use steadfast_core::vendor::{Attempt, SpeaksFor, Verdict};
use steadfast_core::{Effect, Refusal};

/// Classifies an attempt's outcome. `moves_money`: its answer has the form of a payment or of a change of one.
///
/// A request that `takes_key` is answered in JSON (the Checkout specification), and the removal of a stored method with
/// nothing.
pub(super) fn classify(attempt: &Attempt<'_>, moves_money: bool, takes_key: bool) -> Verdict {
    let answer = match attempt.outcome {
        Ok(answer) => answer,
        Err(error) => return no_answer(error),
    };
    let not_before = asked(attempt, answer);
    let is_safe = attempt.request.method.is_safe();
    if answer.status.is_success() {
        let is_anothers = is_page(answer)
            || moves_money && lacks_form(answer, &SUCCESS_MEMBERS)
            || takes_key && attempt.request.method == Method::POST && is_text(answer);
        return if is_anothers && !is_safe {
            Verdict::Retry { effect: Effect::Unknown, not_before }
        } else {
            Verdict::Done { replayed: false }
        };
    }
    let problem = Problem::of(answer);
    let status = answer.status.as_u16();
    if matches!(status, 300..=399 | 425 | 429) {
        return by_status(attempt, answer.status, None, not_before);
    }
    let is_transient =
        answer.header_named(&TRANSIENT_ERROR).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    let is_in_progress = problem.code() == Some(IN_PROGRESS);
    if is_transient {
        let effect = if problem.is_own() && !is_in_progress { Effect::None } else { Effect::Unknown };
        return Verdict::Retry { effect, not_before };
    }
    if !problem.is_own() || attempt.request.method != Method::POST {
        let says = problem.is_own().then_some(SpeaksFor::ThisAttempt);
        return by_status(attempt, answer.status, says, not_before);
    }
    let says = Some(SpeaksFor::ThisAttempt);
    match status {
        _ if is_in_progress => Verdict::Unknown,
        409 | 408 | 500.. => Verdict::Unknown,
        401 | 403 => refused(attempt, Refusal::Unauthorized, says, not_before),
        _ if problem.text("errorType") == Some("internal") => Verdict::Unknown,
        _ => refused(attempt, Refusal::Rejected, says, not_before),
    }
}

/// Whether Adyen wrote this: `ServiceError` of its specifications, with the code and the type that each published
/// one has.
pub(super) fn is_own(answer: &Answer) -> bool {
    if answer.status.is_success() { !is_page(answer) } else { Problem::of(answer).is_own() }
}

/// A failure's body; null if it is no JSON.
struct Problem(Value);

impl Problem {
    fn of(answer: &Answer) -> Problem {
        Problem(answer.json().unwrap_or_default())
    }

    fn is_own(&self) -> bool {
        self.code().is_some() && self.text("errorType").is_some()
    }

    fn code(&self) -> Option<&str> {
        self.text("errorCode")
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.0.get(member)?.as_str()
    }
}

/// "request already processed or in progress", with a 422 or a 409.
const IN_PROGRESS: &str = "704";
const SUCCESS_MEMBERS: [&str; 2] = ["pspReference", "resultCode"];
static TRANSIENT_ERROR: HeaderName = HeaderName::from_static("transient-error");
