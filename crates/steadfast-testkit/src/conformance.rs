//! The suite that every adapter passes: run it on an adapter of your own.
//!
//! [`vendor`] gives an adapter every status, failure, wait and broken answer that HTTP has, replays, and
//! lookups that fail, break off or find the wrong object. It sends nothing. It returns a list of [`Breach`]es,
//! each with the rule that is broken. An empty list is the pass:
//!
//! ```
//! use steadfast::http::{HeaderMap, StatusCode};
//! use steadfast::testkit::conformance::{self, rfc3339};
//! use steadfast::transport::Answer;
//! use steadfast::vendor::Postmark;
//!
//! let answer = |status, body: &str| Answer::new(status, HeaderMap::new(), body.to_owned());
//! let postmark = Postmark::new("a-server-token");
//! let breaches = conformance::vendor(&postmark)
//!     .call("/email/withTemplate", "application/json", r#"{"From":"a@shop.test","To":"b@x.test","TemplateId":1}"#)
//!     .success(answer(StatusCode::OK, r#"{"MessageID":"1","ErrorCode":0,"Message":"OK"}"#))
//!     .failure(answer(StatusCode::UNPROCESSABLE_ENTITY, r#"{"ErrorCode":300,"Message":"Invalid"}"#))
//!     .found(|key, at| {
//!         let at = rfc3339(at);
//!         let message = format!(r#"{{"MessageID":"1","Metadata":{{"steadfast_key":"{key}"}},"ReceivedAt":"{at}"}}"#);
//!         answer(StatusCode::OK, &format!(r#"{{"TotalCount":1,"Messages":[{message}]}}"#))
//!     })
//!     .breaches();
//! assert_eq!(breaches, []);
//! ```
//!
//! The suite knows HTTP and not the vendor. Add examples of the vendor's own answers, as above. Without them it
//! cannot check that the vendor's refusal is final, that a [replay](Conformance::replayed) is reported as one,
//! or that a lookup finds its object.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use steadfast_core::clock::Timestamp;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::Vendor;

mod cases;
mod lists;
mod lookups;
mod replays;
mod secrets;
mod stamps;
mod verdicts;

/// Starts the suite on an adapter. It runs with [`Conformance::breaches`].
///
/// Without further calls the request is a POST of a JSON object to `/conformance`, a success is `{}`, and the
/// vendor's failures are not known.
pub fn vendor(vendor: &dyn Vendor) -> Conformance<'_> {
    let success = Answer::new(StatusCode::OK, HeaderMap::new(), "{}");
    let conformance = Conformance {
        vendor,
        call: Request::new(Method::POST, vendor.base_url().clone()),
        success,
        failure: None,
        replayed: Vec::new(),
        found: None,
        another: None,
        list: None,
    };
    conformance.call("/conformance", "application/json", CALL)
}

/// Writes a time in RFC 3339, for a [found](Conformance::found) object that is dated so.
pub fn rfc3339(at: Timestamp) -> String {
    humantime_serde::re::humantime::format_rfc3339_millis(SystemTime::from(at)).to_string()
}

/// The suite, before its run on one adapter.
#[must_use = "the suite runs with breaches()"]
pub struct Conformance<'a> {
    vendor: &'a dyn Vendor,
    call: Request,
    success: Answer,
    failure: Option<Answer>,
    replayed: Vec<Answer>,
    found: Option<Box<Find<'a>>>,
    another: Option<Box<Find<'a>>>,
    list: Option<lists::List>,
}

type Find<'a> = dyn Fn(&str, Timestamp) -> Answer + 'a;

impl<'a> Conformance<'a> {
    /// Sets the call that the adapter stamps: a POST to `path`, below its base URL.
    pub fn call(mut self, path: &str, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut url = self.vendor.base_url().clone();
        url.set_path(&[url.path().trim_end_matches('/'), path].concat());
        self.call = Request::new(Method::POST, url);
        self.call.body = body.into();
        if let Ok(kind) = HeaderValue::from_str(content_type) {
            self.call.headers.insert(CONTENT_TYPE, kind);
        }
        self
    }

    /// Sets the vendor's answer to a call that it carried out. The adapter must classify it as done.
    pub fn success(mut self, answer: Answer) -> Self {
        self.success = answer;
        self
    }

    /// Sets the vendor's answer to a call that it refuses, with its own 4xx. The adapter must classify it as
    /// final.
    pub fn failure(mut self, answer: Answer) -> Self {
        self.failure = Some(answer);
        self
    }

    /// Sets the vendor's answer to the lookup of a call that took effect: an object that has this key, and was
    /// created at this time. Where the object has neither, both may be left out; the rules that depend on them
    /// are then not checked.
    pub fn found(mut self, answer: impl Fn(&str, Timestamp) -> Answer + 'a) -> Self {
        self.found = Some(Box::new(answer));
        self
    }

    /// Sets the vendor's answer to the lookup with an object that has this key, was created at this time, and
    /// differs from the request: another amount, recipient or customer. The adapter must not accept it, and it
    /// is no proof of absence.
    pub fn another(mut self, answer: impl Fn(&str, Timestamp) -> Answer + 'a) -> Self {
        self.another = Some(Box::new(answer));
        self
    }

    /// Runs the suite. Each broken rule is listed once, with the first case that breaks it.
    pub fn breaches(&self) -> Vec<Breach> {
        let mut book = Book::default();
        self.secrets(&mut book);
        self.stamps(&mut book);
        self.verdicts(&mut book);
        self.replays(&mut book);
        self.lookups(&mut book);
        self.lists(&mut book);
        let breach = |(rule, (case, more)): (&'static str, (String, usize))| {
            let case = if more == 0 { case } else { format!("{case} (and {more} more)") };
            Breach { rule, case }
        };
        book.broken.into_iter().map(breach).collect()
    }
}

impl fmt::Debug for Conformance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vendor = self.vendor.name();
        f.debug_struct("Conformance")
            .field("vendor", &vendor)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

/// A rule that an adapter breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Breach {
    /// The rule, in a sentence. It is the same from run to run.
    pub rule: &'static str,
    /// The adapter's input, and its result. Contains no secrets.
    pub case: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.case)
    }
}

/// Broken rules so far: for each the first case and how many more there are.
#[derive(Default)]
struct Book {
    broken: BTreeMap<&'static str, (String, usize)>,
}

impl Book {
    fn hold(&mut self, rule: &'static str, holds: bool, case: impl FnOnce() -> String) {
        if holds {
            return;
        }
        match self.broken.get_mut(rule) {
            Some((_, more)) => *more += 1,
            None => drop(self.broken.insert(rule, (case(), 0))),
        }
    }
}

/// Body of the default call, with numbers that do not survive a conversion to floats.
const CALL: &str = r#"{"amount":10.00,"account":123456789012345678901234567890,"name":"Ann"}"#;
