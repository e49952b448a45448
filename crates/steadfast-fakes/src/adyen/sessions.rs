//! `/sessions`, which Drop-in and Components begin with: its creation, and its result.
//!
//! Requests and answers are those of CheckoutService-v71 (github.com/Adyen/adyen-openapi).

use serde_json::Value;
use wiremock::Request;

use super::super::fixture::Reply;
use super::bodies;
use super::checkouts::{Checkout, Kind};
use super::machine::{Made, State, Write};

/// `POST /sessions`.
pub(super) fn create(state: &mut State, write: &Write<'_>) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let body = bodies::read(fixtures, "CreateCheckoutSessionRequest", write.body)?;
    // The fake has no stores.
    if !body["storeFiltrationMode"].is_null() {
        return Err(bodies::unsupported(fixtures, "storeFiltrationMode"));
    }
    let mut session = Checkout::begin(state, write, Kind::Session, &body, fixtures.reply("session"))?;
    if let Some(date) = body["dateOfBirth"].as_str() {
        if !is_date(date) {
            return Err(fixtures.reply("field_invalid").fill("<field>", "dateOfBirth"));
        }
        // A date in the request and a time in the answer: example post-sessions-01.klarna-201.
        session.told["dateOfBirth"] = Value::from(format!("{date}T00:00:00Z"));
    }
    if session.told["mode"] == "hosted" {
        // "The URL for the Hosted Checkout page." Its form is composed, like that of a payment link.
        session.told["url"] = Value::from(format!("https://test.adyen.link/{}", session.id));
    }
    let made = Made { psp: session.id.clone(), reply: Reply::json(201, &session.told) };
    state.checkouts.add(session);
    Ok(made)
}

/// `GET /sessions/{sessionId}?sessionResult=…`.
pub(super) fn result(state: &State, write: &Write<'_>, request: &Request, id: &str) -> Result<Reply, Reply> {
    let fixtures = write.fixtures;
    let given = request.url.query_pairs().find(|(name, _)| name == "sessionResult");
    let result = given.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty());
    let result = result.ok_or_else(|| fixtures.reply("query_missing").fill("<field>", "sessionResult"))?;
    let (_, session) = state.checkouts.of(write, Kind::Session, id, "sessionId")?;
    let attempt = session.attempts.iter().find(|attempt| attempt.result == result);
    // Adyen names the session where the result is another's: the issue at the fixture.
    let attempt = attempt.ok_or_else(|| fixtures.reply("field_invalid").fill("<field>", "sessionId"))?;
    let mut told = fixtures.reply("session_result").fill("<id>", id).value();
    told["reference"] = session.told["reference"].clone();
    told["status"] = Value::from(attempt.status);
    if let Some(payment) = &attempt.payment {
        told["payments"] = Value::from(vec![payment.clone()]);
    }
    Ok(Reply::json(200, &told))
}

/// `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| {
        if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
    };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}
