//! An adapter of one's own, for a vendor that no table can describe: a parcel service that takes our key as
//! the parcel's reference, ships twice if it is asked twice, and can be asked by reference.
//!
//! ```sh
//! cargo run --example custom_vendor
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use steadfast::operation::WireKey;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::url::Url;
use steadfast::vendor::{Attempt, Finding, SpeaksFor, Subject, Vendor, Verdict, wait};
use steadfast::{Client, Effect, Error, Input, Refusal};

#[derive(Debug)]
struct Parcels {
    base_url: Url,
    account: String,
    token: HeaderValue,
}

impl Parcels {
    fn new(account: &str, token: &str) -> Result<Parcels, Error> {
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
        request.headers.insert(header::AUTHORIZATION, self.token.clone());
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
        // Their failures are JSON with a `code`. Whatever else comes in place of one was written by a proxy, which
        // may have passed the parcel on before: no proof that nothing was shipped.
        let is_their_own = answer.json().is_some_and(|body| body["code"].is_string());
        // They never replay, so that a no to this attempt says nothing of an earlier one.
        let refused = |refusal| Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt };
        match answer.status.as_u16() {
            200..=299 if answer.json().is_some() => Verdict::Done { replayed: false },
            429 => Verdict::Retry { effect: Effect::None, not_before },
            401 | 403 if is_their_own => refused(Refusal::Unauthorized),
            // 408: they gave up on reading the request, and may have read enough of it.
            400..=499 if is_their_own && answer.status != StatusCode::REQUEST_TIMEOUT => {
                refused(Refusal::Rejected)
            }
            _ => Verdict::Retry { effect: Effect::Unknown, not_before },
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
            return Finding::Unanswered;
        };
        match parcels.into_iter().find(|parcel| parcel["reference"] == subject.wire_key) {
            Some(parcel) => {
                Finding::Found(Answer::new(answer.status, answer.headers.clone(), parcel.to_string()))
            }
            None => Finding::Absent,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "an example shows something")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The answer to the order is lost; the lookup finds that the parcel was accepted.
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).always_with(|request| {
        let asked = request.url.query_pairs().find(|(name, _)| name == "reference");
        let reference = asked.map(|(_, value)| value.into_owned());
        let found = json!([{"id": 7, "reference": reference, "state": "accepted"}]).to_string();
        Ok(Answer::new(StatusCode::OK, HeaderMap::new(), found))
    });
    let parcels = Client::builder(Parcels::new("main-warehouse", "not-a-real-token")?)
        .transport(network.clone())
        .clock(TestClock::auto())
        .build()?;

    let reply = parcels.post("/parcels").key("order-42/parcel").json(&json!({"to": "Ann"})).send().await?;

    println!("{:?} after {:?} of waiting: {}", reply.obtained(), reply.waited(), reply.text());
    println!(
        "parcels ordered: {}",
        network.requests().iter().filter(|sent| sent.method == Method::POST).count()
    );
    Ok(())
}
