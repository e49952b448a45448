//! Verdicts: every status and failure, from three authors: the vendor, a proxy, and one unknown.

use std::time::{Duration, SystemTime};

use http::Method;

use steadfast_core::clock::Timestamp;
use steadfast_core::transport::{Answer, Request, SendError, SendErrorKind};
use steadfast_core::vendor::{Attempt, SpeaksFor, Verdict};
use steadfast_core::{Effect, Refusal};

use super::cases::{
    CLAIMED_AT, FAILURES, JUNK, PAGE, PROBLEM, answer, page, problem, with_method, with_status,
};
use super::{Book, Conformance};

/// An attempt, without its outcome.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) request: Request,
    pub(super) keyed: bool,
    pub(super) before: Effect,
    pub(super) in_window: bool,
}

impl Case {
    fn shown(&self, outcome: Result<&Answer, &SendError>) -> String {
        let outcome = match outcome {
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(60)]);
                format!("{} {text}", answer.status.as_u16())
            }
            Err(error) => error.kind().name().to_owned(),
        };
        let after = if self.before == Effect::Unknown { ", after an unknown one" } else { "" };
        let window = if self.in_window { " in the window" } else { "" };
        format!("{}: {outcome}{after}{window}", self.request.method)
    }
}

impl Conformance<'_> {
    pub(super) fn verdicts(&self, book: &mut Book) {
        let mut cases = Vec::new();
        for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::GET] {
            // A method that takes no key is sent without one, and has the same rules.
            let keyed = method == Method::POST;
            let stamped = keyed.then(|| self.stamped(&Method::POST, false, book)).flatten();
            let request = stamped.map_or_else(|| with_method(&self.call, method), |(request, _)| request);
            for (before, in_window) in
                [(Effect::None, true), (Effect::Unknown, true), (Effect::Unknown, false)]
            {
                cases.push(Case { request: request.clone(), keyed, before, in_window });
            }
        }
        for case in &cases {
            self.without_an_answer(case, book);
            self.successes(case, book);
            self.failures(case, book);
            self.waits(case, book);
            if case.before == Effect::Unknown && case.in_window {
                self.junk(case, book);
            }
        }
    }

    fn verdict(
        &self,
        case: &Case,
        now: Timestamp,
        outcome: Result<&Answer, &SendError>,
        book: &mut Book,
    ) -> Verdict {
        let attempt = Attempt::new(&case.request, case.keyed, outcome, now);
        let attempt = attempt.after(case.before).in_window(case.in_window);
        let what = || format!("classify: {}", case.shown(outcome));
        let checked = self.asked(book, what, |vendor| vendor.classify(&attempt));
        checked.unwrap_or(Verdict::Unknown)
    }

    /// Returns the adapter's verdict on an answer, to check several rules on it.
    pub(super) fn checked<'c>(
        &self,
        case: &'c Case,
        answer: &'c Answer,
        book: &mut Book,
    ) -> CheckedVerdict<'c> {
        CheckedVerdict { verdict: self.verdict(case, CLAIMED_AT, Ok(answer), book), case, answer }
    }

    fn without_an_answer(&self, case: &Case, book: &mut Book) {
        for kind in FAILURES {
            let error = SendError::new(kind);
            let verdict = self.verdict(case, CLAIMED_AT, Err(&error), book);
            let is_right = match verdict {
                Verdict::Retry { effect, .. } => {
                    effect == error.effect() && kind != SendErrorKind::Redirected
                }
                Verdict::Unknown => error.effect() == Effect::Unknown,
                Verdict::Done { .. } | Verdict::Refused { .. } => false,
            };
            book.hold(NO_ANSWER, is_right, || format!("{}: {verdict:?}", case.shown(Err(&error))));
        }
    }

    fn successes(&self, case: &Case, book: &mut Book) {
        self.checked(case, &self.success, book).hold(book, DONE, CheckedVerdict::is_done);
        if case.request.method.is_safe() {
            return;
        }
        for status in [200, 201, 202, 207] {
            let unlabelled = answer(status, &[], format!("\u{feff}\r\n {PAGE}"));
            for page in [page(status), unlabelled] {
                self.checked(case, &page, book).hold(book, PAGE_IS_NONE, |checked| !checked.is_done());
            }
        }
    }

    fn failures(&self, case: &Case, book: &mut Book) {
        for status in (300..600).filter(|status| *status != 304) {
            let own = self.failure.as_ref().map(|own| with_status(own, status));
            let by_all = [Some(answer(status, &[], "")), Some(page(status)), Some(problem(status)), own];
            for answer in by_all.into_iter().flatten() {
                self.one_failure(case, status, &self.checked(case, &answer, book), book);
            }
            let is_write = !case.request.method.is_safe();
            if is_write && (400..500).contains(&status) && !matches!(status, 425 | 429) {
                self.checked(case, &page(status), book).hold(book, PROXY, CheckedVerdict::is_open);
            }
        }
        self.own_no(case, book);
    }

    /// Checks the rules for a failure of this status, by any author.
    pub(super) fn one_failure(
        &self,
        case: &Case,
        status: u16,
        checked: &CheckedVerdict<'_>,
        book: &mut Book,
    ) {
        let is_write = !case.request.method.is_safe();
        let is_gone = case.request.method == Method::DELETE && matches!(status, 404 | 410);
        checked.hold(book, if status == 409 { CONFLICT } else { NO_SUCCESS }, |checked| {
            is_gone || !checked.is_done()
        });
        let rule = if matches!(status, 401 | 403) { CREDENTIALS } else { SPEAKS };
        checked.hold(book, rule, |checked| self.may_speak(case, status, &checked.verdict));
        match status {
            300..400 if is_write => checked.hold(book, REDIRECT, CheckedVerdict::is_open),
            408 if is_write => checked.hold(book, TIMED_OUT, CheckedVerdict::is_open),
            500.. if is_write => checked.hold(book, SERVER, CheckedVerdict::is_open),
            408 | 500.. => {
                checked.hold(book, SERVER, |checked| !matches!(checked.verdict, Verdict::Refused { .. }));
            }
            425 | 429 => {
                checked.hold(book, LIMITED, |checked| matches!(checked.verdict, Verdict::Retry { .. }));
            }
            409 if is_write => checked.hold(book, CONFLICT, |checked| {
                !matches!(checked.verdict, Verdict::Retry { effect: Effect::None, .. })
            }),
            _ => {}
        }
    }

    /// Checks the vendor's own refusals.
    fn own_no(&self, case: &Case, book: &mut Book) {
        let Some(own) = &self.failure else { return };
        if case.before == Effect::None {
            let is_final = |checked: &CheckedVerdict<'_>| matches!(checked.verdict, Verdict::Refused { .. });
            self.checked(case, own, book).hold(book, OWN_NO, is_final);
        } else if case.request.method == Method::DELETE {
            self.checked(case, &with_status(own, 404), book).hold(book, GONE, CheckedVerdict::is_done);
        }
    }

    /// Returns true if a refusal is of the kind of its status, and speaks for no more attempts than it can.
    fn may_speak(&self, case: &Case, status: u16, checked: &Verdict) -> bool {
        let Verdict::Refused { refusal, speaks_for } = *checked else { return true };
        if matches!(status, 401 | 403) {
            return refusal == Refusal::Unauthorized && speaks_for == SpeaksFor::ThisAttempt;
        }
        let would_replay = case.keyed
            && case.in_window
            && status != 409
            && self.vendor.replay_window(&case.request).is_some();
        speaks_for == SpeaksFor::ThisAttempt || would_replay
    }

    fn waits(&self, case: &Case, book: &mut Book) {
        let date = |at: Timestamp| httpdate::fmt_http_date(SystemTime::from(at));
        let half_a_minute = Duration::from_secs(30);
        let hour = Duration::from_secs(3600);
        let (sent_at, until) = (date(CLAIMED_AT), date(CLAIMED_AT.plus(half_a_minute)));
        for (value, least, most) in [
            ("7", Duration::from_secs(7), None),
            ("1.5", Duration::from_millis(1500), None),
            ("5, 10", Duration::from_secs(10), None),
            ("7200", 2 * hour, None),
            (until.as_str(), half_a_minute, Some(half_a_minute)),
        ] {
            // Our clock is right, ahead and behind.
            for now in [CLAIMED_AT, CLAIMED_AT.plus(hour), CLAIMED_AT.minus(hour)] {
                for status in [429, 503] {
                    let headers = [("retry-after", value), ("date", sent_at.as_str())];
                    let answer = answer(status, &headers, PROBLEM);
                    let verdict = self.verdict(case, now, Ok(&answer), book);
                    let Verdict::Retry { not_before, .. } = verdict else { continue };
                    let is_kept =
                        not_before.is_some_and(|wait| wait >= least && most.is_none_or(|most| wait <= most));
                    book.hold(WAIT, is_kept, || {
                        format!("{status} with Retry-After: {value}: {not_before:?}")
                    });
                }
            }
        }
    }

    /// Checks every status with bodies and headers that no vendor sends on purpose.
    fn junk(&self, case: &Case, book: &mut Book) {
        let headers = [
            ("retry-after", "-99999999999999999999"),
            ("date", "Thu, 99 Xxx 0000"),
            ("content-type", "\u{7f}"),
            ("ratelimit", "r=;t=,;;\"\\"),
        ];
        for status in 100..=999 {
            // Each body with each status that has a rule of its own, and with some of the others.
            let has_rule = matches!(status, 200..=209 | 301..=304 | 400..=431 | 500..=504);
            for (index, body) in (0..).zip(JUNK) {
                if has_rule || status % 14 == index {
                    let answer = answer(status, &headers, body);
                    self.verdict(case, Timestamp::from_millis(0), Ok(&answer), book);
                }
            }
        }
    }
}

/// A verdict, with its case and answer.
pub(super) struct CheckedVerdict<'c> {
    pub(super) verdict: Verdict,
    case: &'c Case,
    answer: &'c Answer,
}

impl CheckedVerdict<'_> {
    pub(super) fn hold(&self, book: &mut Book, rule: &'static str, holds: impl FnOnce(&Self) -> bool) {
        book.hold(rule, holds(self), || format!("{}: {:?}", self.case.shown(Ok(self.answer)), self.verdict));
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.verdict, Verdict::Done { .. })
    }

    /// Returns true if the verdict leaves the write's effect unknown.
    fn is_open(&self) -> bool {
        matches!(self.verdict, Verdict::Unknown | Verdict::Retry { effect: Effect::Unknown, .. })
    }
}

const NO_ANSWER: &str = "without an answer, only the transport knows whether the request was sent";
const DONE: &str = "a success is done";
const PAGE_IS_NONE: &str = "a page for a browser is no success of a write";
pub(super) const NO_SUCCESS: &str = "only a 2xx is a success";
const CONFLICT: &str = "a 409 is no success, and leaves open what an earlier attempt did";
const REDIRECT: &str = "a redirect leaves open what a write did";
const TIMED_OUT: &str = "a 408 leaves open what a write did";
const SERVER: &str = "a 5xx is no refusal, and leaves open what a write did";
const LIMITED: &str = "a 425 and a 429 are retried";
const PROXY: &str = "a proxy's refusal is not the vendor's";
const OWN_NO: &str = "the vendor's own refusal is final";
const GONE: &str = "an object that is gone after a DELETE was deleted";
pub(super) const CREDENTIALS: &str = "refused credentials prove nothing about the request";
const SPEAKS: &str = "a refusal speaks for an earlier attempt only in a replay window";
const WAIT: &str = "a requested wait is kept";
