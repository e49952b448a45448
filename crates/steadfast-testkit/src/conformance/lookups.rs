//! Lookups: failed, broken and wrong answers, which must prove nothing.

use std::time::Duration;

use http::Method;

use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::{Finding, Subject};

use super::cases::{CLAIMED_AT, JUNK, answer, page, problem, wire_key, with_status};
use super::{Book, Conformance};

impl Conformance<'_> {
    pub(super) fn lookups(&self, book: &mut Book) {
        let Some((request, key)) = self.stamped(&Method::POST, false, book) else { return };
        // The vendor's clock at the claim is known, or it is not.
        for clock in [Some(0), None, Some(i64::MIN), Some(i64::MAX)] {
            let subject = Subject::new(&request, &key, CLAIMED_AT).with_vendor_clock(clock);
            let asked = self.asked(book, || "lookup".to_owned(), |vendor| vendor.lookup(&subject));
            let Some(Some(asked)) = asked else { continue };
            self.junk_answers(&subject, &asked, book);
            if clock.is_some_and(|offset| offset != 0) {
                continue;
            }
            let vendor = self.vendor;
            book.hold(CHANGES_NOTHING, asked.method.is_safe(), || asked.method.to_string());
            book.hold(GOES_THERE, asked.url.origin() == vendor.base_url().origin(), || {
                "its request leads to another host".to_owned()
            });
            book.hold(SETTLES, !vendor.settle_time().is_zero(), || "settle_time is zero".to_owned());
            self.failed_answers(&subject, &asked, book);
            self.found_answers(&subject, &asked, book);
        }
    }

    fn finding(
        &self,
        (subject, asked): (&Subject<'_>, &Request),
        answer: &Answer,
        book: &mut Book,
    ) -> Finding {
        let what = || format!("read_lookup: {}", shown(answer));
        let finding = self.asked(book, what, |vendor| vendor.read_lookup(subject, asked, answer));
        finding.unwrap_or(Finding::CannotTell)
    }

    /// Checks that an answer proves neither that there is an effect nor that there is none.
    fn proves_nothing(
        &self,
        rule: &'static str,
        about: (&Subject<'_>, &Request),
        answer: &Answer,
        book: &mut Book,
    ) {
        let finding = self.finding(about, answer, book);
        let is_open = !matches!(finding, Finding::Found(_) | Finding::Absent);
        book.hold(rule, is_open, || format!("{}: {}", shown(answer), name(&finding)));
    }

    fn failed_answers(&self, subject: &Subject<'_>, asked: &Request, book: &mut Book) {
        let about = (subject, asked);
        let lists = ["[]", r#"{"data":[]}"#, r#"{"data":[],"meta":{}}"#];
        let more = [r#"{"object":"list","data":[],"has_more":false}"#, r#"{"Messages":[],"TotalCount":0}"#];
        for status in [301, 302, 304, 400, 401, 403, 408, 429, 500, 502, 503, 504, 599] {
            let mut answers = vec![answer(status, &[], ""), page(status), problem(status)];
            answers.extend(lists.iter().chain(&more).map(|body| answer(status, &[], body)));
            answers.extend(
                self.found.as_ref().map(|found| with_status(&found(subject.wire_key, AFTER), status)),
            );
            for answer in answers {
                self.proves_nothing(FAILED, about, &answer, book);
            }
        }
        // Where a 404 of an API means that there is no such object, its own body has to show that.
        for status in [404, 410] {
            for answer in [answer(status, &[], ""), page(status)] {
                self.proves_nothing(FAILED, about, &answer, book);
            }
        }
        for body in ["", "ok", "null", "\"x\"", "7", "{}", r#"{"error":"x"}"#, "[", "[{\"id\":"] {
            self.proves_nothing(FAILED, about, &answer(200, &[], body), book);
        }
        self.proves_nothing(FAILED, about, &page(200), book);
    }

    fn found_answers(&self, subject: &Subject<'_>, asked: &Request, book: &mut Book) {
        let about = (subject, asked);
        let Some(found) = &self.found else {
            book.hold(SHOWN, false, || "say with found() what the lookup finds".to_owned());
            return;
        };
        let ours = found(subject.wire_key, AFTER);
        let finding = self.finding(about, &ours, book);
        // The adapter may ask for a part of the object next, to compare it.
        book.hold(FINDS, matches!(finding, Finding::Found(_) | Finding::Next(_)), || {
            format!("{}: {}", shown(&ours), name(&finding))
        });
        for part in 1..8 {
            let mut broken = ours.clone();
            broken.body = ours.body.slice(..ours.body.len() * part / 8);
            self.proves_nothing(WHOLE, about, &broken, book);
        }
        let other_key = wire_key(true).to_string();
        let other = found(&other_key, AFTER);
        if other != ours {
            let finding = self.finding(about, &other, book);
            book.hold(OTHERS, !matches!(finding, Finding::Found(_)), || shown(&other));
            let by_key = asked.url.as_str().contains(subject.wire_key);
            book.hold(FILTERED, !by_key || finding != Finding::Absent, || shown(&other));
        }
        if let Some(another) = &self.another {
            self.proves_nothing(SENT, about, &another(subject.wire_key, AFTER), book);
        }
        for ago in [Duration::from_secs(3600), Duration::from_secs(30 * 24 * 3600)] {
            let older = found(subject.wire_key, CLAIMED_AT.minus(ago));
            if older != ours {
                let finding = self.finding(about, &older, book);
                book.hold(OLDER, !matches!(finding, Finding::Found(_)), || shown(&older));
            }
        }
    }

    fn junk_answers(&self, subject: &Subject<'_>, asked: &Request, book: &mut Book) {
        for status in [200, 201, 204, 206, 404, 500, 999] {
            for body in JUNK {
                self.finding((subject, asked), &answer(status, &[], body), book);
            }
        }
    }
}

fn shown(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(100)]).into_owned();
    format!("{} {text}", answer.status.as_u16())
}

fn name(finding: &Finding) -> &'static str {
    match finding {
        Finding::Found(_) => "found",
        Finding::Absent => "absent",
        Finding::CannotTell => "cannot tell",
        Finding::Unanswered => "unanswered",
        Finding::Next(_) => "next page",
    }
}

/// A second after the claim.
const AFTER: steadfast_core::clock::Timestamp =
    steadfast_core::clock::Timestamp::from_millis(CLAIMED_AT.as_millis() + 1000);

const CHANGES_NOTHING: &str = "a lookup changes nothing";
const GOES_THERE: &str = "a lookup goes to the vendor";
const SETTLES: &str = "a lookup has a settle time";
const SHOWN: &str = "a lookup needs an example of what it finds";
const FAILED: &str = "a lookup that failed proves nothing";
const WHOLE: &str = "a lookup's answer that broke off proves nothing";
const FINDS: &str = "a lookup finds an operation that took effect";
const OTHERS: &str = "another operation's object is not ours";
const SENT: &str = "an object with our key that differs from the request is not ours";
const FILTERED: &str = "a filter that was ignored proves nothing";
const OLDER: &str = "an object older than the operation is not its effect";
