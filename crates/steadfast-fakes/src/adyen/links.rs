//! `/paymentLinks` (Pay by Link): their creation, how they stand, and their end.
//!
//! Requests and answers are those of CheckoutService-v71 (github.com/Adyen/adyen-openapi).

use serde_json::Value;

use steadfast_core::clock::Timestamp;

use super::super::fixture::Reply;
use super::bodies;
use super::checkouts::{Checkout, Kind, Status, seconds};
use super::machine::{Made, State, Write};

/// `POST /paymentLinks`.
pub(super) fn create(state: &mut State, write: &Write<'_>) -> Result<Made, Reply> {
    let fixtures = write.fixtures;
    let body = bodies::read(fixtures, "PaymentLinkRequest", write.body)?;
    let mut link = Checkout::begin(state, write, Kind::Link, &body, fixtures.reply("payment_link"))?;
    // "Any value that you provide with this key is going to be replaced by the real payment link ID."
    if let Some(value) = link.told.pointer_mut("/metadata/checkout.linkId") {
        *value = Value::from(link.id.as_str());
    }
    let made = Made { psp: link.id.clone(), reply: Reply::json(201, &shown(&link, write.now)) };
    state.checkouts.add(link);
    Ok(made)
}

/// `GET /paymentLinks/{linkId}`.
pub(super) fn show(state: &State, write: &Write<'_>, id: &str) -> Result<Reply, Reply> {
    let (_, link) = state.checkouts.of(write, Kind::Link, id, "linkId")?;
    Ok(Reply::json(200, &shown(&link, write.now)))
}

/// `PATCH /paymentLinks/{linkId}`, whose only status is `expired`. Of a link that is not active it is refused: what Adyen
/// does then is not documented.
pub(super) fn expire(state: &mut State, write: &Write<'_>, id: &str) -> Result<Made, Reply> {
    bodies::read(write.fixtures, "UpdatePaymentLinkRequest", write.body)?;
    let (ordinal, mut link) = state.checkouts.of(write, Kind::Link, id, "linkId")?;
    link.must_be_active(write)?;
    link.status = Status::Expired;
    link.updated_at = Some(write.now);
    let reply = Reply::json(200, &shown(&link, write.now));
    state.checkouts.replace(ordinal, link);
    Ok(Made { psp: id.to_owned(), reply })
}

/// `PaymentLinkResponse`.
fn shown(link: &Checkout, now: Timestamp) -> Value {
    let mut shown = link.told.clone();
    shown["status"] = Value::from(link.status_at(now).word());
    if let Some(at) = link.updated_at {
        shown["updatedAt"] = Value::from(seconds(at));
    }
    shown
}
