//! A service that charges through Stripe on behalf of its own callers, and passes their deadline on.
//!
//! ```sh
//! cargo run --example axum_service --features axum
//! # or on another port: cargo run --example axum_service --features axum -- 127.0.0.1:4000
//! curl -i -X POST -H 'X-Request-Timeout: 2.5' http://127.0.0.1:3000/orders/42/charge
//! ```
//!
//! The Stripe it talks to is the testkit's fake, and drops one answer in four.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use steadfast::inbound::Inbound;
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, FaultPlan};
use steadfast::vendor::Stripe;
use steadfast::{Client, Error, Policy};

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
        let status = if error.is_refused() {
            StatusCode::PAYMENT_REQUIRED
        } else if error.is_deadline() || error.is_in_progress() {
            StatusCode::ACCEPTED // It is recorded; the same request later carries on with it.
        } else if error.is_key_reused() || error.is_validation() {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let body = Json(json!({"code": error.code(), "effect": error.effect(), "detail": error.to_string()}));
        let mut response = (status, body).into_response();
        if error.retry_at().is_some() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
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
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service(stripe)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steadfast::testkit::ScriptedTransport;

    use super::*;

    #[tokio::test]
    async fn a_caller_that_waits_no_longer_is_told_that_the_charge_is_recorded() {
        // The vendor never answers; the caller allows a fifth of a second. Real time, because hyper serves it.
        let stripe = Client::builder(Stripe::new("sk_test_123"))
            .transport(ScriptedTransport::new().hang())
            .build()
            .expect("a client");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/orders/42/charge", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move { axum::serve(listener, service(stripe)).await });

        let request = reqwest::Client::new().post(url).header("X-Request-Timeout", "0.2");
        let answer = request.timeout(Duration::from_secs(10)).send().await.expect("an answer");

        assert_eq!(answer.status(), 202);
        server.abort();
    }
}
