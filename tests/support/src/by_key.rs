//! Vendors that are known by what they do about keys alone: the presets, and Stripe's second interface.
//!
//! Each answers a second request under a key as its own documentation says, see `src/vendor/keyed/presets.rs`, and
//! carries it out again once it has forgotten the key. Where none says for how long a key is known, it is an hour, or what
//! a schedule draws: short, so that a caller who counts on more is seen.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::clock::Timestamp;
use steadfast::testkit::{Fault, WaitForm};
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{KeyPlace, KeyedConfig};

/// The rules of a vendor for keys.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    place: Place,
    /// For how long it knows a key, from the first request on.
    keeps: Duration,
    /// Whether the vendor says so, and what it keeps.
    is_stated: bool,
    /// Whether it keeps what failed too.
    keeps_failures: bool,
    again: Again,
    /// The refusal of a key that came with another request: a status and a code.
    reused: (u16, &'static str),
    /// The same for a key whose first request is under way. `None` where nothing is documented: a fault of that name is then
    /// a no to what is asked for, which would be a yes at another time.
    in_use: Option<(u16, &'static str)>,
    /// Its failures are told by a header that a proxy's have not.
    has_mark: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Header(&'static str),
    Body(&'static str),
}

/// The answer to a second request under a key.
#[derive(Clone, Copy, Debug)]
enum Again {
    /// The first answer.
    Same,
    /// The first answer, and that it is.
    Marked,
    /// That there is one, and what it has made.
    Conflict,
}

const HOUR: Duration = Duration::from_secs(3600);

const PLAIN: Rules = Rules {
    place: Place::Header("idempotency-key"),
    keeps: HOUR,
    is_stated: false,
    keeps_failures: true,
    again: Again::Same,
    reused: (409, "key_reused"),
    in_use: None,
    has_mark: false,
};

/// The preset, with what it leaves to its user.
pub fn config_of(preset: &str) -> KeyedConfig {
    let mut config = KeyedConfig::preset(preset).expect("a preset");
    for value in config.headers.values_mut().filter(|value| value.is_empty()) {
        *value = "an-account".to_owned();
    }
    config
}

/// A route on which the vendor takes the key.
pub fn keyed_route(preset: &str) -> &'static str {
    match preset {
        "checkout" => "/payments",
        "paypal" => "/v2/checkout/orders",
        "plaid" => "/transfer/refund/create",
        "resend" => "/emails",
        "square" => "/v2/payments",
        _ => "/v1/things",
    }
}

/// The presets, by name.
pub const VENDORS: [(&str, Rules); 7] = [
    (
        "checkout",
        Rules {
            place: Place::Header("cko-idempotency-key"),
            keeps: HOUR.saturating_mul(24),
            is_stated: true,
            keeps_failures: false,
            ..PLAIN
        },
    ),
    ("gocardless", Rules { again: Again::Conflict, reused: (409, "idempotent_creation_conflict"), ..PLAIN }),
    ("increase", Rules { again: Again::Marked, ..PLAIN }),
    (
        "paypal",
        Rules {
            place: Place::Header("paypal-request-id"),
            keeps: HOUR.saturating_mul(6),
            is_stated: true,
            reused: (422, "DUPLICATE_REQUEST_ID"),
            ..PLAIN
        },
    ),
    ("plaid", Rules { place: Place::Body("idempotency_key"), ..PLAIN }),
    (
        "resend",
        Rules {
            keeps: HOUR.saturating_mul(24),
            is_stated: true,
            reused: (409, "invalid_idempotent_request"),
            in_use: Some((409, "concurrent_idempotent_requests")),
            ..PLAIN
        },
    ),
    (
        "square",
        Rules { place: Place::Body("idempotency_key"), reused: (400, "IDEMPOTENCY_KEY_REUSED"), ..PLAIN },
    ),
];

/// Stripe's `/v2`: 30 days, and what failed is carried out again.
pub const STRIPE_V2: Rules = Rules {
    keeps: HOUR.saturating_mul(24 * 30),
    is_stated: true,
    keeps_failures: false,
    reused: (400, "idempotency_error"),
    has_mark: true,
    ..PLAIN
};

impl Rules {
    pub fn of(preset: &str) -> Rules {
        VENDORS.into_iter().find(|(name, _)| *name == preset).expect("a preset").1
    }

    /// The same, with what the vendor does not say about what it keeps, and for how long.
    pub fn unstated(self, keeps: Duration, keeps_failures: bool) -> Rules {
        if self.is_stated { self } else { Rules { keeps, keeps_failures, ..self } }
    }
}

/// One vendor.
#[derive(Debug)]
pub struct ByKey {
    pub rules: Rules,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The id of each write that was carried out, in their order.
    made: Vec<String>,
    known: BTreeMap<String, First>,
}

/// The facts that are known of a key.
#[derive(Debug)]
struct First {
    body: Vec<u8>,
    answer: Answer,
    id: String,
    at: Timestamp,
}

impl ByKey {
    pub fn new(rules: Rules) -> ByKey {
        ByKey { rules, state: Mutex::default() }
    }

    pub fn has_mark(&self) -> bool {
        self.rules.has_mark
    }

    /// The id of each write that was carried out, in their order.
    pub fn made(&self) -> Vec<String> {
        self.state.lock().made.clone()
    }

    pub fn count(&self) -> usize {
        self.state.lock().made.len()
    }

    /// Answers a POST that has arrived. The events on the way are the network's business.
    pub fn answer(&self, request: &Request, now: Timestamp, fault: Option<Fault>) -> Answer {
        let mut state = self.state.lock();
        match fault {
            Some(Fault::Error500Before) => return self.failure(500, "api_error"),
            Some(Fault::TooManyRequests(form)) => {
                let mut answer = self.failure(429, "rate_limit");
                if let WaitForm::Seconds(seconds) = form {
                    answer.headers.insert("retry-after", HeaderValue::from(seconds));
                }
                return answer;
            }
            Some(Fault::KeyInUse) if self.rules.in_use.is_some() => {
                let (status, code) = self.rules.in_use.expect("it has one");
                return self.failure(status, code);
            }
            _ => {}
        }
        let key = self.key_of(request);
        let first = key.as_ref().and_then(|key| state.known.get(key));
        let answer = match first.filter(|first| now.since(first.at) < self.rules.keeps) {
            Some(first) if first.body != request.body => {
                let (status, code) = self.rules.reused;
                self.failure(status, code)
            }
            Some(first) => self.again(first),
            None => self.first(&mut state, key, request, now, fault),
        };
        // Somebody of the vendor's loses the answer, and what was done stays.
        if fault == Some(Fault::Error500After) { self.failure(500, "api_error") } else { answer }
    }

    fn first(
        &self,
        state: &mut State,
        key: Option<String>,
        request: &Request,
        now: Timestamp,
        fault: Option<Fault>,
    ) -> Answer {
        // Ids that are no part of each other.
        let id = format!("made_{:06}", state.made.len());
        let answer = match fault {
            Some(Fault::Stored500) => self.failure(500, "api_error"),
            // For now: there is no money today, or the account is being looked at.
            Some(Fault::KeyInUse) => self.failure(422, "not_now"),
            _ => {
                state.made.push(id.clone());
                self.reply(200, &json!({ "id": id, "object": "thing" }))
            }
        };
        if let Some(key) = key.filter(|_| answer.status.is_success() || self.rules.keeps_failures) {
            let body = request.body.to_vec();
            state.known.insert(key, First { body, answer: answer.clone(), id, at: now });
        }
        answer
    }

    fn again(&self, first: &First) -> Answer {
        let mut answer = first.answer.clone();
        match self.rules.again {
            Again::Same => {}
            Again::Marked => {
                answer.headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
            }
            Again::Conflict if answer.status.is_success() => {
                answer = self.failure(409, self.rules.reused.1);
                let mut body: Value = answer.json().expect("its own");
                body["error"]["links"] = json!({ "conflicting_resource_id": first.id });
                answer.body = body.to_string().into();
            }
            Again::Conflict => {}
        }
        answer
    }

    fn key_of(&self, request: &Request) -> Option<String> {
        match self.rules.place {
            Place::Header(name) => Some(request.headers.get(name)?.to_str().ok()?.to_owned()),
            Place::Body(field) => {
                assert!(KeyPlace::Body(field.to_owned()).is_in(request), "a write without its key");
                let body: Value = serde_json::from_slice(&request.body).ok()?;
                Some(body[field].as_str()?.to_owned())
            }
        }
    }

    fn failure(&self, status: u16, code: &str) -> Answer {
        self.reply(status, &json!({ "error": { "type": code, "code": code, "message": "No." } }))
    }

    fn reply(&self, status: u16, body: &Value) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if self.rules.has_mark {
            headers.insert("request-id", HeaderValue::from_static("req_v2"));
        }
        Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_string())
    }
}
