//! The example of an adapter of one's own as version 0.1 shipped it, changed so far as it compiles. People have copied
//! it: the suite must see what is wrong with it.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use steadfast::operation::WireKey;
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{Attempt, Finding, SpeaksFor, Subject, Vendor, Verdict, wait};
use steadfast::{Effect, Error, Input, Refusal};
use url::Url;

#[derive(Debug)]
pub struct Parcels {
    base_url: Url,
    account: String,
    token: HeaderValue,
}

impl Parcels {
    pub fn new(account: &str, token: &str) -> Result<Parcels, Error> {
        let mut value = HeaderValue::from_str(&format!("Token {token}"))
            .map_err(|problem| Error::validation(Input::Secret, problem.to_string()))?;
        value.set_sensitive(true); // Debug prints it as `Sensitive`
        let base_url = Url::parse("https://api.parcels.example")
            .map_err(|problem| Error::validation(Input::BaseUrl, problem.to_string()))?;
        Ok(Parcels { base_url, account: account.to_owned(), token: value })
    }
}

impl Vendor for Parcels {
    fn name(&self) -> &str {
        "parcels"
    }

    fn base_url(&self) -> &Url {
        &self.base_url
    }

    fn account(&self, _: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.account)
    }

    /// Once, before the claim: what is recorded and resent has the reference in it.
    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let mut parcel: Value = serde_json::from_slice(&request.body)
            .map_err(|problem| Error::validation(Input::Body, problem.to_string()))?;
        parcel["reference"] = json!(wire_key.to_string());
        request.body = parcel.to_string().into();
        Ok(wire_key.to_string())
    }

    fn authorize(&self, request: &mut Request) {
        request.headers.insert(http::header::AUTHORIZATION, self.token.clone());
    }

    /// It ships again: there is no window in which a resend is safe.
    fn replay_window(&self, _: &Request) -> Option<Duration> {
        None
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let answer = match attempt.outcome {
            Ok(answer) => answer,
            Err(error) => return Verdict::Retry { effect: error.effect(), not_before: None },
        };
        let not_before = wait::asked(answer.status, &answer.headers, attempt.now);
        // Version 0.1 had `Refused(refusal)`, without a word on whom it speaks for.
        let refused = |refusal| Verdict::Refused { refusal, speaks_for: SpeaksFor::EarlierToo };
        match answer.status.as_u16() {
            200..=299 => Verdict::Done { replayed: false },
            401 | 403 => refused(Refusal::Unauthorized),
            429 => Verdict::Retry { effect: Effect::None, not_before },
            500..=599 => Verdict::Retry { effect: Effect::Unknown, not_before },
            _ => refused(Refusal::Rejected),
        }
    }

    /// Their documentation: a parcel can be found a second after it was accepted, and no request runs longer
    /// than ten.
    fn settle_time(&self) -> Duration {
        Duration::from_secs(11)
    }

    fn look_up(&self, subject: &Subject<'_>) -> Option<Request> {
        let mut url = self.base_url.join("/parcels").ok()?;
        url.query_pairs_mut().append_pair("reference", subject.wire_key);
        Some(Request::new(Method::GET, url))
    }

    fn read_look_up(&self, subject: &Subject<'_>, _: &Request, answer: &Answer) -> Finding {
        // Only a working lookup may say that there is none.
        let (true, Some(Value::Array(parcels))) = (answer.status.is_success(), answer.json()) else {
            return Finding::CannotTell;
        };
        match parcels.into_iter().find(|parcel| parcel["reference"] == subject.wire_key) {
            Some(parcel) => {
                Finding::Found(Answer::new(answer.status, answer.headers.clone(), parcel.to_string()))
            }
            None => Finding::Absent,
        }
    }
}
