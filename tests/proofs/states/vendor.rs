//! The vendors of the search, one of each kind, behind the shipped adapters: what they execute and what they answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::clock::Timestamp;
use steadfast::policy::{Backoff, Jitter};
use steadfast::testkit::FixedRandom;
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{BigCommerce, Keyed, Vendor};
use steadfast::{Call, Client, OnUnknown, Policy};

use crate::states::host::{HostClock, Tape, Wire};
use crate::states::shelf::TapeStore;
use support::keyed::{BARE, KEYED};

/// The treatment of a repeat by a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It answers a key from its own record, for exactly as long as it says.
    Replays,
    /// It executes every request, and can be asked.
    LooksUp,
    /// It executes every request, and cannot be asked.
    Neither,
}

pub const KINDS: [Kind; 3] = [Kind::Replays, Kind::LooksUp, Kind::Neither];

/// The promises that the vendor itself holds to. A test breaks one of these promises to see the search notice.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// For how long it answers a key from its record.
    pub window: Duration,
    /// From the execution until a lookup shows it.
    pub lag: Duration,
    /// For how long after its sender closed the connection a request may still be executed.
    pub late: Duration,
}

impl Kind {
    /// The time that the adapter waits before a lookup counts, where there is one.
    pub fn settle(self) -> Duration {
        match self {
            Kind::LooksUp => Vendor::settle_time(&BigCommerce::new("abc123", "token")),
            Kind::Replays | Kind::Neither => Duration::from_secs(30),
        }
    }
}

impl Rules {
    /// As documented, and not a second kinder: lag and lateness together are the adapter's whole settle time.
    pub fn of(kind: Kind) -> Rules {
        let settle = kind.settle();
        let late = settle / 3;
        Rules { window: WINDOW, lag: settle - late, late }
    }
}

/// The window that the adapter of the vendor that replays documents.
pub const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// A request that the vendor has executed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The first fence of the life that it was sent in.
    pub life: u64,
    pub at_ms: u64,
    pub refused: bool,
}

/// The vendor's answer to a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome {
    pub refused: bool,
    pub replayed: bool,
    /// When it was executed.
    pub at_ms: u64,
}

/// Executes a request, or answers it from the record. Gives whether it was executed.
pub fn arrive(kind: Kind, rules: &Rules, ledger: &[Entry], now_ms: u64, refuses: bool) -> (Outcome, bool) {
    if kind == Kind::Replays
        && let Some(first) =
            ledger.iter().rev().find(|entry| Duration::from_millis(now_ms - entry.at_ms) < rules.window)
    {
        return (Outcome { refused: first.refused, replayed: true, at_ms: first.at_ms }, false);
    }
    (Outcome { refused: refuses, replayed: false, at_ms: now_ms }, true)
}

impl Outcome {
    pub fn answer(self, kind: Kind, asked: &Request) -> Answer {
        if self.refused {
            // In BigCommerce's shape, which the others' adapters take for the vendor's own too.
            return answer(422, &[], &json!({ "status": 422, "title": "no" }));
        }
        match kind {
            Kind::Replays if self.replayed => {
                answer(200, &[("idempotent-replayed", "true")], &json!({ "id": 1 }))
            }
            Kind::LooksUp => answer(201, &[], &order(asked, self.at_ms)),
            Kind::Replays | Kind::Neither => answer(200, &[], &json!({ "id": 1 })),
        }
    }
}

/// The answer that a lookup shows now.
pub fn lookup(rules: &Rules, ledger: &[Entry], now_ms: u64, asked: &Request) -> Answer {
    let lag_ms = rules.lag.as_millis() as u64;
    let rows: Vec<_> = ledger
        .iter()
        .filter(|entry| !entry.refused && entry.at_ms + lag_ms <= now_ms)
        .map(|entry| order(asked, entry.at_ms))
        .collect();
    if rows.is_empty() {
        return Answer::new(StatusCode::NO_CONTENT, HeaderMap::new(), Vec::new());
    }
    answer(200, &[], &json!(rows))
}

/// A vendor that answers nothing just now.
pub fn unavailable() -> Answer {
    answer(503, &[], &json!({ "status": 503, "title": "not now" }))
}

/// An order as BigCommerce shows it, with the key that it was asked with.
fn order(asked: &Request, at_ms: u64) -> serde_json::Value {
    let in_query = || asked.url.query_pairs().find(|(name, _)| name == "external_order_id");
    let key = match serde_json::from_slice::<serde_json::Value>(&asked.body) {
        Ok(body) => body["external_order_id"].as_str().map(str::to_owned),
        Err(_) => in_query().map(|(_, key)| key.into_owned()),
    };
    let date = wall(at_ms, 0).to_string().replace("GMT", "+0000");
    json!({ "id": at_ms, "external_order_id": key, "status_id": 0, "date_created": date })
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &serde_json::Value) -> Answer {
    let mut map = HeaderMap::new();
    map.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Answer::new(StatusCode::from_u16(status).expect("a status"), map, body.to_string())
}

/// True wall time, or that of a host that is `off_ms` ahead.
pub fn wall(now_ms: u64, off_ms: i64) -> Timestamp {
    Timestamp::from_millis(EPOCH_MS.saturating_add(now_ms).saturating_add_signed(off_ms))
}

/// Long ago enough for a clock to be behind. [`lesson`] has the same in words.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// A vendor's client on the tape. The preset as it is shipped, with one rung instead of four, so that a ladder can end
/// within the depth, and without jitter and without the gates, which keep nothing of an operation.
pub fn client(kind: Kind, tape: &Arc<Tape>) -> Client {
    let policy = Policy::background()
        .backoff(Backoff::ladder([Duration::from_secs(2)]).jitter(Jitter::None))
        .without_breaker()
        .without_budget();
    let builder = match kind {
        Kind::Replays => Client::builder(Keyed::new(KEYED.clone(), "secret")),
        Kind::LooksUp => Client::builder(BigCommerce::new("abc123", "token")),
        Kind::Neither => Client::builder(Keyed::new(BARE.clone(), "secret")),
    };
    builder
        .policy(policy)
        .transport(Wire(tape.clone()))
        .clock(HostClock(tape.clone()))
        .random(FixedRandom::at(0.0))
        .store(TapeStore(tape.clone()))
        .namespace("states")
        .build()
        .expect("a client")
}

/// The one call of the search.
pub fn call(kind: Kind, client: &Client, resends: bool) -> Call {
    call_of("order-42", kind, client, resends)
}

/// A call that is none of the search's, and the vendor's answer at the start of time.
pub fn lesson(kind: Kind, client: &Client) -> (Call, Answer) {
    let answer = answer(201, &[("date", "Tue, 14 Nov 2023 22:13:20 GMT")], &json!({ "id": 1 }));
    (call_of("order-41", kind, client, false), answer)
}

fn call_of(key: &str, kind: Kind, client: &Client, resends: bool) -> Call {
    let call = match kind {
        Kind::LooksUp => client
            .post("/v2/orders")
            .json(&json!({"status_id": 0, "billing_address": {"zip": "12345"}, "products": [{"product_id": 1, "quantity": 1}]})),
        Kind::Replays | Kind::Neither => client.post("/v1/things").json(&json!({"value": 1})),
    };
    call.key(key).on_unknown(if resends { OnUnknown::Resend } else { OnUnknown::Park })
}

/// Whether a request asks for the effect, and is no lookup.
pub fn is_send(request: &Request) -> bool {
    request.method == Method::POST
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Replays => "the vendor that replays its key",
            Kind::LooksUp => "the vendor that can be looked up",
            Kind::Neither => "the vendor with neither",
        })
    }
}
