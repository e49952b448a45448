//! A vendor whose every rule the test sets.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use url::Url;

use steadfast::operation::WireKey;
use steadfast::policy::Timeouts;
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{Attempt, Finding, SpeaksFor, Subject, Vendor, Verdict, wait};
use steadfast::{Effect, Error, Refusal};

#[derive(Clone, Debug)]
pub struct Acme {
    base_url: Url,
    pub replay_window: Option<Duration>,
    pub lookup: bool,
    pub settle: Duration,
    account: String,
}

impl Acme {
    #[allow(clippy::new_without_default, reason = "a test says that it makes one")]
    pub fn new() -> Acme {
        let base_url = Url::parse("http://127.0.0.1:1").expect("a url");
        Acme {
            base_url,
            replay_window: None,
            lookup: false,
            settle: Duration::from_secs(7),
            account: "main".to_owned(),
        }
    }

    /// Of whose window a client with the shipped attempt timeout can use `usable`: the slack comes on top.
    pub fn replaying(usable: Duration) -> Acme {
        let slack = steadfast_core::internal::operation::slack(Timeouts::background().attempt);
        Acme { replay_window: Some(usable + slack), ..Acme::new() }
    }

    pub fn account(mut self, account: &str) -> Acme {
        self.account = account.to_owned();
        self
    }

    pub fn searchable() -> Acme {
        Acme { lookup: true, ..Acme::new() }
    }
}

impl Vendor for Acme {
    fn name(&self) -> &str {
        "acme"
    }

    fn base_url(&self) -> &Url {
        &self.base_url
    }

    fn account(&self, _: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.account)
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let text = wire_key.to_string();
        request.headers.insert("acme-key", HeaderValue::from_str(&text).expect("a uuid"));
        Ok(text)
    }

    fn authorize(&self, request: &mut Request) {
        request.headers.insert("authorization", HeaderValue::from_static("Bearer hush-hush"));
    }

    fn replay_window(&self, _: &Request) -> Option<Duration> {
        self.replay_window
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let answer = match attempt.outcome {
            Ok(answer) => answer,
            Err(error) => return Verdict::Retry { effect: error.effect(), not_before: None },
        };
        let not_before = answer
            .headers
            .get("retry-after")
            .and_then(|value| wait::retry_after(value.as_bytes(), attempt.now));
        let refused = |refusal, speaks_for| Verdict::Refused { refusal, speaks_for };
        match answer.status.as_u16() {
            200..=299 => Verdict::Done { replayed: answer.headers.contains_key("acme-replayed") },
            401 => refused(Refusal::Unauthorized, SpeaksFor::ThisAttempt),
            429 => Verdict::Retry { effect: Effect::None, not_before },
            503 => Verdict::Retry { effect: Effect::Unknown, not_before },
            500 if answer.headers.contains_key("acme-replayed") => Verdict::Unknown,
            500..=599 => Verdict::Retry { effect: Effect::Unknown, not_before: None },
            _ if attempt.in_window => refused(Refusal::Rejected, SpeaksFor::EarlierToo),
            _ => refused(Refusal::Rejected, SpeaksFor::ThisAttempt),
        }
    }

    fn settle_time(&self) -> Duration {
        self.settle
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        if !self.lookup {
            return None;
        }
        let mut url = self.base_url.join("/search").expect("a url");
        url.set_query(Some(&format!("key={}", subject.wire_key)));
        Some(Request::new(http::Method::GET, url))
    }

    fn read_lookup(&self, _: &Subject<'_>, _: &Request, answer: &Answer) -> Finding {
        match (answer.status, answer.json()) {
            (StatusCode::OK, Some(serde_json::Value::Array(hits))) => match hits.first() {
                Some(hit) => Finding::Found(Answer::new(
                    StatusCode::OK,
                    HeaderMap::new(),
                    hit.to_string().into_bytes(),
                )),
                None => Finding::Absent,
            },
            _ => Finding::CannotTell,
        }
    }
}
