//! The events that a vendor sends by itself: signed, and at the test's wish late, twice, out of order or not at all.
//!
//! Each event goes out at once, unless the outbox holds. An event that was held, and one that was sent already, is
//! sent on demand. Only to loopback: a fake must not call what a test's fixture happens to name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Host;

use steadfast_core::clock::Clock;

use super::encoding::{base64, from_base64, hex, hmac_sha256};

/// All that a fake sends by itself. A clone shares it.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    holds: bool,
    /// By number, in the order in which they were made. Two may have one id and one URL.
    deliveries: BTreeMap<u64, Delivery>,
    made: u64,
}

/// One event for one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) url: String,
    pub(super) body: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) proof: Proof,
    /// The answers to each sending; null where no answer came.
    pub(super) answers: Vec<Value>,
}

/// How the receiver knows that it is the vendor's.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// `Stripe-Signature`, with this secret.
    Stripe(String),
    /// Standard Webhooks, with this secret in base64.
    Standard(String),
    /// None: Postmark signs nothing.
    None,
}

/// The events that a test asks for: all of them, or those that it names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Whether new events wait for an order.
    hold: Option<bool>,
    /// The events to send, `[]` for none; without it all that were not sent yet.
    send: Option<Vec<String>>,
    #[serde(default)]
    newest_first: bool,
    times: Option<usize>,
    /// Signed so long ago, as if it had been under way since.
    #[serde(default)]
    signed_ago_s: u64,
}

impl Outbox {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Outbox {
        Outbox { clock, state: Arc::default() }
    }

    /// Takes an event for an endpoint, and sends it unless it is to wait.
    pub(super) fn post(&self, delivery: Delivery) {
        let mut state = self.state.lock();
        if state.deliveries.len() == DELIVERIES_MAX {
            state.deliveries.pop_first();
        }
        state.made += 1;
        let number = state.made;
        state.deliveries.insert(number, delivery.clone());
        let sends = !state.holds;
        drop(state);
        // In process there may be no runtime to send by; then it waits for an order.
        if sends && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let outbox = self.clone();
            runtime.spawn(async move { outbox.send(number, &delivery, 0).await });
        }
    }

    pub(super) fn told(&self) -> Value {
        let state = self.state.lock();
        let deliveries: Vec<Value> = state
            .deliveries
            .values()
            .map(|one| json!({ "id": one.id, "type": one.kind, "url": one.url, "answers": one.answers }))
            .collect();
        json!({ "held": state.holds, "deliveries": deliveries })
    }

    /// Carries out what a test asks for. Ends when everything was sent.
    pub(super) async fn carry_out(&self, order: Order) -> Result<Value, String> {
        let times = order.times.unwrap_or(1);
        if !(1..=TIMES_MAX).contains(&times) {
            return Err(format!("times is between 1 and {TIMES_MAX}"));
        }
        let mut due = {
            let mut state = self.state.lock();
            state.holds = order.hold.unwrap_or(state.holds);
            let wanted = |(_, one): &(&u64, &Delivery)| match &order.send {
                Some(ids) => ids.contains(&one.id),
                None => order.hold.is_none() && one.answers.is_empty(),
            };
            let due = state.deliveries.iter().filter(wanted);
            let due: Vec<(u64, Delivery)> = due.map(|(number, one)| (*number, one.clone())).collect();
            due
        };
        if let Some(unknown) =
            order.send.iter().flatten().find(|id| !due.iter().any(|(_, one)| one.id == **id))
        {
            return Err(format!("no webhook was made for the event {unknown:?}"));
        }
        if order.newest_first {
            due.reverse();
        }
        for (number, delivery) in &due {
            for _ in 0..times {
                self.send(*number, delivery, order.signed_ago_s).await;
            }
        }
        Ok(self.told())
    }

    async fn send(&self, number: u64, delivery: &Delivery, signed_ago_s: u64) {
        let at = self.clock.wall().as_millis() / 1000;
        let answer = answer(delivery, at.saturating_sub(signed_ago_s)).await;
        let mut state = self.state.lock();
        if let Some(kept) = state.deliveries.get_mut(&number) {
            kept.answers.push(answer);
        }
    }
}

/// The status that the receiver answered, or why there is none.
async fn answer(delivery: &Delivery, at: u64) -> Value {
    let Some(url) = loopback(&delivery.url) else { return Value::from("not sent: no loopback address") };
    let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
    let Ok(client) = client else { return Value::Null };
    let mut request = client.post(url).header("Content-Type", "application/json").body(delivery.body.clone());
    for (name, value) in delivery.headers.iter().chain(&delivery.proof.headers(delivery, at)) {
        request = request.header(name, value);
    }
    request.send().await.map_or(Value::Null, |answer| Value::from(answer.status().as_u16()))
}

impl Proof {
    fn headers(&self, delivery: &Delivery, at: u64) -> Vec<(String, String)> {
        let body = &delivery.body;
        match self {
            Proof::Stripe(secret) => {
                let signature = hex(&hmac_sha256(secret.as_bytes(), format!("{at}.{body}").as_bytes()));
                vec![("Stripe-Signature".to_owned(), format!("t={at},v1={signature}"))]
            }
            Proof::Standard(secret) => {
                let key = from_base64(secret).unwrap_or_else(|| secret.clone().into_bytes());
                let signature = base64(&hmac_sha256(&key, format!("{}.{at}.{body}", delivery.id).as_bytes()));
                vec![
                    ("webhook-id".to_owned(), delivery.id.clone()),
                    ("webhook-timestamp".to_owned(), at.to_string()),
                    ("webhook-signature".to_owned(), format!("v1,{signature}")),
                ]
            }
            Proof::None => Vec::new(),
        }
    }
}

fn loopback(url: &str) -> Option<url::Url> {
    let url = url::Url::parse(url).ok()?;
    let is_loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    (is_loopback && url.scheme() == "http").then_some(url)
}

/// A receiver is on the same machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The newest; older ones are forgotten.
const DELIVERIES_MAX: usize = 10_000;

const TIMES_MAX: usize = 1_000;
