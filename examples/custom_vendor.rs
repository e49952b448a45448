//! An adapter of one's own, for a vendor that no table can describe: a parcel service that takes our key as
//! the parcel's reference, ships twice if it is asked twice, and can be asked by reference.
//!
//! Everything that is not said here has a default: verdicts follow HTTP, and a no counts if the vendor itself wrote
//! it. Without the last three methods it is an adapter too. A parcel whose answer was lost is then left to a person.
//!
//! ```sh
//! cargo run --example custom_vendor
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::clock::Timestamp;
use steadfast::http::{HeaderMap, Method, StatusCode, header};
use steadfast::operation::WireKey;
use steadfast::testkit::{ScriptedTransport, TestClock, conformance};
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::url::Url;
use steadfast::vendor::{BaseUrl, Credential, Finding, KeyPlace, Subject, Vendor};
use steadfast::{Client, Error};

/// The parcel service, for one of our accounts.
#[derive(Debug)]
pub struct Parcels {
    base: BaseUrl,
    account: String,
    token: Credential,
}

impl Parcels {
    /// The account's name is part of its operations' names. It stays when the token changes.
    pub fn new(account: &str, token: &str) -> Parcels {
        let base = BaseUrl::new("https://api.parcels.example");
        Parcels { base, account: account.to_owned(), token: Credential::new("Token ", token) }
    }
}

impl Vendor for Parcels {
    fn name(&self) -> &str {
        "parcels"
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        self.token.check()?;
        self.base.check()
    }

    fn account(&self, _: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.account)
    }

    /// At each send, on a copy: what is recorded has no token in it.
    fn authorize(&self, request: &mut Request) {
        self.token.put(header::AUTHORIZATION, &mut request.headers);
    }

    /// Once, before the claim: what is recorded and resent has the reference in it.
    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let key = wire_key.to_string();
        KeyPlace::Body("reference".to_owned()).put(&key, request)?;
        Ok(key)
    }

    /// Their failures have a `code`. Whatever else comes in place of one was written by a proxy, which may have passed
    /// the parcel on before: no proof that nothing was shipped.
    fn is_own(&self, answer: &Answer) -> bool {
        let body = answer.json().unwrap_or_default();
        if answer.status.is_success() {
            body.is_object() || body.is_array()
        } else {
            body["code"].is_string()
        }
    }

    /// Their documentation: a parcel can be found a second after it was accepted, and no request runs longer
    /// than ten.
    fn settle_time(&self) -> Duration {
        Duration::from_secs(11)
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        let url = self.base.at("/parcels", &[("reference", subject.wire_key)]);
        Some(Request::new(Method::GET, url))
    }

    fn read_lookup(&self, subject: &Subject<'_>, _: &Request, answer: &Answer) -> Finding {
        // Only a working lookup may say that there is none.
        let (StatusCode::OK, Some(Value::Array(parcels))) = (answer.status, answer.json()) else {
            return Finding::Unanswered;
        };
        let [parcel] = parcels.as_slice() else {
            return if parcels.is_empty() { Finding::Absent } else { Finding::CannotTell };
        };
        // A parcel of another reference: their filter was not heard, and ours may be on a page that is not shown.
        // An older one is of a time when the same key was used before.
        let ordered_at = parcel["ordered_at_ms"].as_u64().map(Timestamp::from_millis);
        let is_older = ordered_at.and_then(|at| subject.is_older(at));
        if parcel["reference"] != subject.wire_key || is_older != Some(false) {
            return Finding::CannotTell;
        }
        // The request that was sent, in all that they show of it: another service may have made the same reference.
        // They show what was ordered as it was written; where a vendor writes it anew, compare what it means.
        let sent: Value = serde_json::from_slice(&subject.request.body).unwrap_or_default();
        let is_shown = |(name, value): (&String, &Value)| parcel.get(name).is_none_or(|shown| shown == value);
        if !sent.as_object().is_some_and(|sent| sent.iter().all(is_shown)) {
            return Finding::CannotTell;
        }
        Finding::Found(Answer::new(StatusCode::CREATED, answer.headers.clone(), parcel.to_string()))
    }
}

/// How they answer a lookup that finds a parcel.
pub fn listed(reference: &str, ordered_at: Timestamp) -> Answer {
    let parcel = json!([{"id": 7, "reference": reference, "ordered_at_ms": ordered_at.as_millis()}]);
    Answer::new(StatusCode::OK, HeaderMap::new(), parcel.to_string())
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "an example shows something")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The questions that a test of the adapter asks: every status, failure, wait and broken answer.
    let adapter = Parcels::new("main-warehouse", "not-a-real-token");
    let refused = Answer::new(StatusCode::BAD_REQUEST, HeaderMap::new(), r#"{"code":"no_address"}"#);
    let breaches = conformance::vendor(&adapter).failure(refused).found(listed).breaches();
    println!("rules that the adapter breaks: {breaches:?}");

    // The answer to the order is lost; the lookup finds that the parcel was accepted.
    let network = ScriptedTransport::new().fail(SendErrorKind::Reset).always_with(|request| {
        let asked = request.url.query_pairs().find(|(name, _)| name == "reference");
        let reference = asked.map(|(_, value)| value.into_owned()).unwrap_or_default();
        Ok(listed(&reference, TestClock::START))
    });
    let parcels = Client::builder(adapter).transport(network.clone()).clock(TestClock::auto()).build()?;

    let reply = parcels.post("/parcels").key("order-42/parcel").json(&json!({"to": "Ann"})).send().await?;

    println!("{:?} after {:?} of waiting: {}", reply.obtained(), reply.waited(), reply.text());
    println!(
        "parcels ordered: {}",
        network.requests().iter().filter(|sent| sent.method == Method::POST).count()
    );
    Ok(())
}
