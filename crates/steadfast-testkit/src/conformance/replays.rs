//! Replays: what an answer proves that the vendor marks as coming from its record.

use http::Method;
use http::header::CONTENT_TYPE;

use steadfast_core::Effect;
use steadfast_core::transport::Answer;
use steadfast_core::vendor::{SpeaksFor, Verdict};

use super::cases::with_status;
use super::verdicts::{CREDENTIALS, Case, CheckedVerdict, NO_SUCCESS};
use super::{Book, Conformance};

impl Conformance<'_> {
    /// Adds the vendor's answer to a repeat of a call that it carried out, with the mark of a replay. The
    /// adapter must classify it as done, and as a replay.
    ///
    /// The suite puts the same headers on a 5xx, and on the vendor's own [failure](Conformance::failure).
    /// Neither changes under this key. Where the mark is in the body, add a marked 4xx too, with a second call
    /// of this method.
    ///
    /// Leave it out for a vendor that records successes alone: there a failure is no replay, however it is
    /// marked.
    ///
    /// ```
    /// use steadfast::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
    /// use steadfast::testkit::conformance;
    /// use steadfast::transport::Answer;
    /// use steadfast::vendor::{Keyed, KeyedConfig};
    ///
    /// let config = KeyedConfig::preset("increase").expect("a preset");
    /// let increase = Keyed::new(config, "a-secret");
    /// let mark = (HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"));
    /// let replayed = Answer::new(StatusCode::OK, HeaderMap::from_iter([mark]), r#"{"id":"transfer_1"}"#);
    /// assert_eq!(conformance::vendor(&increase).replayed(replayed).breaches(), []);
    /// ```
    pub fn replayed(mut self, answer: Answer) -> Self {
        self.replayed.push(answer);
        self
    }

    pub(super) fn replays(&self, book: &mut Book) {
        if self.replayed.is_empty() {
            return;
        }
        let Some((request, _)) = self.stamped(&Method::POST, false, book) else { return };
        for before in [Effect::None, Effect::Unknown] {
            for in_window in [true, false] {
                let case = Case { request: request.clone(), keyed: true, before, in_window };
                for given in &self.replayed {
                    match given.status.as_u16() {
                        400..500 => self.kept_no(&case, given, book),
                        500.. => self.kept_failure(&case, given, book),
                        _ => self.kept_success(&case, given, book),
                    }
                }
            }
        }
    }

    /// Checks a success from the vendor's record, and the meaning of its marks.
    fn kept_success(&self, case: &Case, marked: &Answer, book: &mut Book) {
        let is_reported = |checked: &CheckedVerdict<'_>| checked.verdict == Verdict::Done { replayed: true };
        self.checked(case, marked, book).hold(book, REPORTED, is_reported);
        for status in 500..600 {
            self.kept_failure(case, &with_status(marked, status), book);
        }
        let is_given = self.replayed.iter().any(|given| given.status.is_client_error());
        let own = self.failure.as_ref().filter(|_| !is_given).map(|own| with_marks(own, marked));
        for no in [Some(marked), own.as_ref()].into_iter().flatten() {
            for status in 400..500 {
                self.speaks_in_the_window(case, &with_status(no, status), book);
            }
        }
        if let Some(own) = own {
            self.kept_no(case, &own, book);
        }
    }

    fn kept_failure(&self, case: &Case, marked: &Answer, book: &mut Book) {
        let checked = self.checked(case, marked, book);
        self.one_failure(case, marked.status.as_u16(), &checked, book);
        checked.hold(book, NOT_RETRIED, |checked| !is_retry(checked));
    }

    /// Checks the vendor's own refusal from its record.
    fn kept_no(&self, case: &Case, marked: &Answer, book: &mut Book) {
        self.speaks_in_the_window(case, marked, book);
        let checked = self.checked(case, marked, book);
        checked.hold(book, NOT_RETRIED, |checked| !is_retry(checked));
        // A 401 or 403 is no outcome, and a conflict may be caused by the earlier attempt.
        let is_outcome = !matches!(marked.status.as_u16(), 401 | 403 | 409);
        let has_window = self.vendor.replay_window(&case.request).is_some();
        if case.in_window && has_window && is_outcome {
            checked.hold(book, EVERY_ATTEMPT, speaks_for_earlier);
        }
    }

    fn speaks_in_the_window(&self, case: &Case, marked: &Answer, book: &mut Book) {
        let checked = self.checked(case, marked, book);
        checked.hold(book, NO_SUCCESS, |checked| !checked.is_done());
        if matches!(marked.status.as_u16(), 401 | 403) {
            checked.hold(book, CREDENTIALS, |checked| !speaks_for_earlier(checked));
        } else {
            checked.hold(book, WINDOW, |checked| case.in_window || !speaks_for_earlier(checked));
        }
    }
}

fn is_retry(checked: &CheckedVerdict<'_>) -> bool {
    matches!(checked.verdict, Verdict::Retry { .. })
}

fn speaks_for_earlier(checked: &CheckedVerdict<'_>) -> bool {
    matches!(checked.verdict, Verdict::Refused { speaks_for: SpeaksFor::EarlierToo, .. })
}

/// Returns the failure with the headers of the marked answer. Its body keeps its own type.
fn with_marks(failure: &Answer, marked: &Answer) -> Answer {
    let mut answer = failure.clone();
    for name in marked.headers.keys().filter(|name| **name != CONTENT_TYPE) {
        answer.headers.remove(name);
        for value in marked.headers.get_all(name) {
            answer.headers.append(name.clone(), value.clone());
        }
    }
    answer
}

const REPORTED: &str = "a success marked as a replay is done, and reported as a replay";
const NOT_RETRIED: &str = "a failure marked as a replay is final, and is not retried";
const WINDOW: &str = "after the window, a refusal marked as a replay speaks for this attempt alone";
const EVERY_ATTEMPT: &str = "in the window, a refusal marked as a replay speaks for every attempt";
