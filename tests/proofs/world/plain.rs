//! A vendor that is configuration: every method, and a key in a header that it replays for a day exactly.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use steadfast::clock::Timestamp;
use steadfast::transport::{Answer, Request};

/// The vendor's state.
#[derive(Debug, Default)]
pub struct Plain(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    effects: Vec<String>,
    keys: BTreeMap<String, (Answer, Timestamp)>,
    gone: Vec<String>,
}

/// The window that it documents: see `window` in the configuration.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

impl Plain {
    pub fn effects(&self) -> Vec<String> {
        self.0.lock().effects.clone()
    }

    /// Carries a request out. `fails`: with a 500 that is stored under the key.
    pub fn answer(&self, request: &Request, now: Timestamp, fails: bool) -> Answer {
        let mut state = self.0.lock();
        let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
        let held = key.as_ref().and_then(|key| state.keys.get(key));
        if let Some((answer, since)) = held
            && now.since(*since) < WINDOW
        {
            let mut answer = answer.clone();
            answer.headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
            return answer;
        }
        let answer = if fails { reply(500, "") } else { state.carry_out(request) };
        if let Some(key) = key {
            state.keys.insert(key, (answer.clone(), now));
        }
        answer
    }
}

impl State {
    fn carry_out(&mut self, request: &Request) -> Answer {
        let path = request.url.path().to_owned();
        let is_gone = self.gone.contains(&path);
        if is_gone {
            return reply(404, "");
        }
        if request.method == Method::GET {
            return reply(200, "read");
        }
        if request.method == Method::DELETE {
            self.gone.push(path);
        }
        // Ids that are no part of each other.
        let id = format!("plain_{:06}", self.effects.len());
        self.effects.push(id.clone());
        reply(200, &id)
    }
}

fn reply(status: u16, id: &str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let status = StatusCode::from_u16(status).expect("a status");
    Answer::new(status, headers, json!({ "id": id }).to_string())
}
