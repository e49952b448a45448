//! The parts that the benchmarks share: turns that alternate within one run, medians over them, a vendor without
//! opinions and a transport without a network.
//!
//! Rounds are interleaved because a shared machine speeds up and slows down over minutes: each round measures
//! every variant once, in turning order, and what is compared is compared within its round.
#![allow(dead_code, reason = "every benchmark takes what it needs")]

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use steadfast::BoxFuture;
use steadfast::operation::WireKey;
use steadfast::policy::{BreakerConfig, BudgetConfig, RateConfig};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::{Attempt, Finding, Subject, Vendor, Verdict};
use steadfast::{Policy, Refusal};
use url::Url;

/// Whether the run only has to show that the benchmark works: `cargo bench -- --test` or `-- --quick`.
pub fn is_quick() -> bool {
    std::env::args().any(|argument| argument == "--test" || argument == "--quick")
}

/// Measures `N` variants in each of `rounds` rounds, in turning order: `samples[variant][round]`.
pub fn interleave<const N: usize>(rounds: usize, mut measure: impl FnMut(usize) -> f64) -> [Vec<f64>; N] {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..rounds {
        for turn in 0..N {
            let variant = (round + turn) % N;
            samples[variant].push(measure(variant));
        }
    }
    samples
}

/// The median over the rounds.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The median over the rounds of one variant divided by another in the same round.
pub fn median_ratio(over: &[f64], under: &[f64]) -> f64 {
    let ratios: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
    median(&ratios)
}

/// Every gate on, with limits that no benchmark reaches.
pub fn all_gates() -> Policy {
    Policy::background()
        .breaker(BreakerConfig::default())
        .budget(BudgetConfig::default())
        .concurrency(1_000_000)
        .rate(RateConfig::new(1_000_000_000, Duration::from_secs(1)))
}

/// A vendor with a secret and a key header, and nothing else to say.
#[derive(Debug)]
pub struct Plain {
    base_url: Url,
}

impl Plain {
    pub fn at(base_url: &str) -> Plain {
        Plain { base_url: Url::parse(base_url).expect("a base URL") }
    }
}

impl Vendor for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn base_url(&self) -> &Url {
        &self.base_url
    }

    fn account(&self, _: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed("main")
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, steadfast::Error> {
        let text = wire_key.to_string();
        request.headers.insert("idempotency-key", HeaderValue::from_str(&text).expect("a UUID"));
        Ok(text)
    }

    fn authorize(&self, request: &mut Request) {
        request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static(SECRET));
    }

    fn replay_window(&self, _: &Request) -> Option<Duration> {
        Some(Duration::from_secs(24 * 60 * 60))
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        match attempt.outcome {
            Ok(answer) if answer.status.is_success() => Verdict::Done { replayed: false },
            Ok(answer) if answer.status.is_client_error() => {
                let speaks_for = steadfast::vendor::SpeaksFor::EarlierToo;
                Verdict::Refused { refusal: Refusal::Rejected, speaks_for }
            }
            Ok(_) => Verdict::Unknown,
            Err(error) => Verdict::Retry { effect: error.effect(), not_before: None },
        }
    }

    fn settle_time(&self) -> Duration {
        Duration::ZERO
    }

    fn lookup(&self, _: &Subject<'_>) -> Option<Request> {
        None
    }

    fn read_lookup(&self, _: &Subject<'_>, _: &Request, _: &Answer) -> Finding {
        Finding::CannotTell
    }
}

/// The work of `transport::Http`, without the network between: the request becomes reqwest's, a ready response
/// becomes reqwest's, and its body is taken as `Http` takes it, chunk by chunk.
#[derive(Debug)]
pub struct Nowhere;

impl Transport for Nowhere {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move {
            let Request { method, url, headers, body, .. } = request;
            let mut prepared = reqwest::Request::new(method, url);
            *prepared.headers_mut() = headers;
            if !body.is_empty() {
                *prepared.body_mut() = Some(body.into());
            }
            std::hint::black_box(prepared);
            let mut response = ready_response();
            let status = response.status();
            let headers = std::mem::take(response.headers_mut());
            let body = response.chunk().await.map_err(truncated)?.unwrap_or_default();
            let rest = response.chunk().await.map_err(truncated)?;
            debug_assert!(rest.is_none(), "a ready body is one chunk");
            Ok(Answer::new(status, headers, body))
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        Duration::ZERO
    }
}

fn truncated(error: reqwest::Error) -> SendError {
    SendError::with_source(SendErrorKind::Truncated, error)
}

/// The answer that needs no vendor.
pub fn ready_response() -> reqwest::Response {
    let mut response = http::Response::new(Bytes::from_static(REPLY));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reqwest::Response::from(response)
}

/// The same work as a GET through the client, on bare reqwest.
pub async fn bare_get(client: &reqwest::Client) -> usize {
    let request = client
        .get(URL)
        .header(header::AUTHORIZATION, HeaderValue::from_static(SECRET))
        .build()
        .expect("a request");
    std::hint::black_box(request);
    let response = ready_response();
    assert_eq!(response.status(), http::StatusCode::OK);
    response.bytes().await.expect("a ready body").len()
}

/// The same work as a POST through the client, on bare reqwest, with a key that the caller has made.
pub async fn bare_post(client: &reqwest::Client, key: &str) -> usize {
    let request = client
        .post(URL)
        .header(header::AUTHORIZATION, HeaderValue::from_static(SECRET))
        .header("idempotency-key", key)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(serde_json::to_vec(&CHARGE).expect("JSON"))
        .build()
        .expect("a request");
    std::hint::black_box(request);
    let response = ready_response();
    assert_eq!(response.status(), http::StatusCode::OK);
    response.bytes().await.expect("a ready body").len()
}

/// The body that a POST carries.
#[derive(serde::Serialize)]
pub struct Charge {
    amount: u32,
    currency: &'static str,
}

pub const CHARGE: Charge = Charge { amount: 1000, currency: "usd" };
pub const BASE: &str = "http://127.0.0.1:1";
pub const PATH: &str = "/v1/things";
const URL: &str = "http://127.0.0.1:1/v1/things";
pub const SECRET: &str = "Bearer not-a-secret-but-as-long-as-one";
pub const REPLY: &[u8] = br#"{"id":"thing-42","object":"thing","amount":1000,"currency":"usd"}"#;
