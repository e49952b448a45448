//! A card at Stripe that is declined today, and may not be tomorrow.
//!
//! Stripe keeps a decline under the key for a day, as it keeps a charge: whatever the card is worth by then, the key's first
//! outcome is told again, with a mark (docs.stripe.com/api/idempotent_requests). A request whose key the vendor has seen
//! before is the fake's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::transport::{Answer, Request};

use crate::world::allowed::WINDOW;
use crate::world::vendors::VendorClock;

#[derive(Debug)]
pub struct Card {
    clock: Arc<VendorClock>,
    /// By account and key: when it was declined, or when it came last and was not.
    keys: Mutex<BTreeMap<(String, String), (Timestamp, bool)>>,
}

impl Card {
    pub fn new(clock: Arc<VendorClock>) -> Card {
        Card { clock, keys: Mutex::default() }
    }

    /// The decline, now or of this key's first request. `None`: the request goes on.
    pub fn answer(&self, request: &Request, declines: bool) -> Option<Answer> {
        let text = |name| Some(request.headers.get(name)?.to_str().ok()?.to_owned());
        let (key, now) = (text("idempotency-key")?, self.clock.wall());
        let account = text("stripe-account").unwrap_or_default();
        let mut keys = self.keys.lock();
        let known = keys.get(&(account.clone(), key.clone())).copied();
        let known = known.filter(|(at, _)| now.since(*at) < WINDOW);
        if known.is_some_and(|(_, is_declined)| is_declined) {
            return Some(declined(true));
        }
        let declines = declines && known.is_none();
        keys.insert((account, key), (now, declines));
        declines.then(|| declined(false))
    }
}

fn declined(is_replay: bool) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("request-id", HeaderValue::from_static("req_declined"));
    if is_replay {
        headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    let error =
        json!({ "type": "card_error", "code": "card_declined", "message": "Your card was declined." });
    Answer::new(StatusCode::PAYMENT_REQUIRED, headers, json!({ "error": error }).to_string())
}
