//! A service that charges through Stripe on behalf of its own callers, and passes their deadline on.
//!
//! ```sh
//! cargo run --example axum_service --features axum
//! # or on another port: cargo run --example axum_service --features axum -- 127.0.0.1:4000
//! curl -i -X POST -H 'X-Request-Timeout: 2.5' http://127.0.0.1:3000/orders/42/charge
//! ```
//!
//! The Stripe it talks to is the testkit's fake, and drops one answer in four. Its operations are in memory. A service of
//! yours gives its client a store, and starts a dispatcher: see the first program of the README.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use steadfast::clock::{Clock, SystemClock, Timestamp};
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, FaultPlan};
use steadfast::vendor::Stripe;
use steadfast::{Client, Disposition, Effect, Error, Inbound, Policy};

/// How an error of ours looks to our own caller: what it may do next, and no more.
struct Problem(Error);

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem(error) = self;
        let status = if error.effect() == Effect::Applied {
            StatusCode::OK // It is paid, although the reply cannot be read.
        } else if error.code().starts_with("AUTH.") {
            StatusCode::SERVICE_UNAVAILABLE // Our own secret: no fault of the customer's card.
        } else if error.is_refused() {
            StatusCode::PAYMENT_REQUIRED
        } else if matches!(error.disposition(), Disposition::Continues { .. }) {
            StatusCode::ACCEPTED // It is recorded; the same request later carries on with it.
        } else if error.is_key_reused() || error.is_validation() {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        // The vendor, the key and the cause are for our own log: `#` puts all causes on the line.
        tracing::warn!("{error:#}");
        let body = Json(json!({"code": error.code(), "effect": error.effect()}));
        let mut response = (status, body).into_response();
        if let Some(seconds) = retry_after(&error, SystemClock::new().wall()) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `Retry-After` in whole seconds, if the error knows when to come back. Rounded up: a caller that comes back too
/// early is only refused again.
fn retry_after(error: &Error, now: Timestamp) -> Option<u64> {
    let left = error.retry_at()?.duration_since(now.into()).unwrap_or_default();
    Some(left.as_secs() + u64::from(left.subsec_nanos() > 0))
}

async fn charge(
    inbound: Inbound,
    State(stripe): State<Client>,
    Path(order): Path<u64>,
) -> Result<Json<Value>, Problem> {
    let reply = stripe
        .post("/v1/payment_intents")
        .key(format!("order-{order}/charge"))
        .form(&[("amount", "1000"), ("currency", "usd")])
        .inbound(&inbound)
        .send()
        .await?;
    Ok(Json(reply.json()?))
}

fn service(stripe: Client) -> Router {
    Router::new().route("/orders/{order}/charge", post(charge)).with_state(stripe)
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example says where it listens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fake = StripeFake::builder().plan(FaultPlan::seeded(1, 0.25, &[Fault::DropAfterApply])).start().await;
    let stripe = Client::builder(Stripe::new("sk_test_123").base_url(fake.url()))
        .policy(Policy::interactive())
        .build()?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&address)
        .await
        .map_err(|problem| format!("cannot listen on {address}: {problem}; name another address"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}; try:");
    println!("curl -i -X POST -H 'X-Request-Timeout: 2.5' http://{address}/orders/42/charge");
    axum::serve(listener, service(stripe)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};

    use super::*;

    #[tokio::test]
    async fn a_caller_that_waits_no_longer_is_told_that_the_charge_is_recorded() {
        // The vendor never answers; the caller allows a fifth of a second. Real time, because hyper serves it.
        let stripe = Client::builder(Stripe::new("sk_test_123"))
            .transport(ScriptedTransport::new().hang())
            .random(FixedRandom::at(0.5))
            .build()
            .expect("a client");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/orders/42/charge", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move { axum::serve(listener, service(stripe)).await });

        let request = reqwest::Client::new().post(url).header("X-Request-Timeout", "0.2");
        let answer = request.timeout(Duration::from_secs(10)).send().await.expect("an answer");

        assert_eq!(answer.status(), 202);
        // Half of the ladder's first half second is left, and rounded up.
        assert_eq!(answer.headers().get("retry-after").expect("it says when to come back"), "1");
        server.abort();
    }

    /// A client on the test's own clock whose vendor has asked for a pause.
    async fn paused(clock: &TestClock, pause: Duration) -> Error {
        let stripe = Client::builder(Stripe::new("sk_test_123"))
            .transport(ScriptedTransport::new())
            .clock(clock.clone())
            .build()
            .expect("a client");
        stripe.pause_for(pause);
        stripe.get("/v1/balance").send().await.expect_err("the vendor asked for a pause")
    }

    #[tokio::test]
    async fn retry_after_is_the_time_that_is_left_in_whole_seconds_and_never_too_short() {
        for (pause, seconds) in [(1_000, 1), (1_001, 2), (1_999, 2), (90_000, 90)] {
            let clock = TestClock::new();
            let error = paused(&clock, Duration::from_millis(pause)).await;
            assert_eq!(retry_after(&error, clock.wall()), Some(seconds), "{pause} ms");
        }
        let clock = TestClock::new();
        let error = paused(&clock, Duration::from_secs(1)).await;
        clock.advance(Duration::from_secs(2));
        assert_eq!(retry_after(&error, clock.wall()), Some(0), "it is over");
    }

    #[tokio::test]
    async fn an_error_that_does_not_know_when_to_come_back_gives_no_retry_after() {
        let refusing = ScriptedTransport::new().status(402);
        let stripe =
            Client::builder(Stripe::new("sk_test_123")).transport(refusing).build().expect("a client");
        let error = stripe.get("/v1/balance").send().await.expect_err("refused");
        assert_eq!(retry_after(&error, SystemClock::new().wall()), None);
        let response = Problem(error).into_response();
        assert_eq!(response.status(), StatusCode::PAYMENT_REQUIRED);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }
}
