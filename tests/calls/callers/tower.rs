//! A client as a service of tower, and a transport over one.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use steadfast::policy::Backoff;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{SendError, SendErrorKind, Transport, over_tower};
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast::{Client, ClientBuilder, Effect, Obtained, Policy};
use tower_service::Service;

fn builder(transport: impl Transport) -> ClientBuilder {
    let config = KeyedConfig::new("acme", "https://api.acme.test/base");
    let policy = Policy::interactive().reply_bytes_max(100).backoff(Backoff::none());
    Client::builder(Keyed::new(config, "")).transport(transport).policy(policy)
}

fn acme(transport: impl Transport) -> Client {
    builder(transport).clock(TestClock::auto()).build().expect("a client")
}

#[tokio::test]
async fn a_client_is_a_service_and_a_repeat_is_replayed() {
    let network = ScriptedTransport::new().json(201, json!({"id": 1}));
    let mut service = acme(network.clone());
    let request = || {
        let request = Request::post("/orders").header("Idempotency-Key", "order-42");
        request.header("Content-Type", "application/json").body(Bytes::from_static(b"{}")).expect("a request")
    };
    for obtained in [Obtained::Fresh, Obtained::Replayed] {
        std::future::poll_fn(|context| Service::<Request<Bytes>>::poll_ready(&mut service, context))
            .await
            .expect("ready");
        let response = service.call(request()).await.expect("a response");
        assert_eq!((response.status(), response.body().as_ref()), (StatusCode::CREATED, &br#"{"id":1}"#[..]));
        assert_eq!(response.extensions().get(), Some(&obtained));
    }
    assert_eq!(network.requests().len(), 1);
}

#[tokio::test]
async fn a_router_stands_in_for_a_vendor() {
    let router = Router::new()
        .route("/base/echo", post(async |body: Json<Value>| body))
        .route("/base/long", get(async || "x".repeat(1000)))
        .route("/base/down", get(async || StatusCode::SERVICE_UNAVAILABLE));
    let acme = acme(over_tower::<Body>(router));
    let reply = acme.post("/echo").json(&json!({"a": 1})).send().await.expect("a reply");
    assert_eq!(reply.json::<Value>().expect("JSON"), json!({"a": 1}));
    let long = acme.get("/long").send().await.expect_err("too long");
    assert_eq!(
        (long.code(), long.answer().map(|answer| answer.body.len())),
        ("VALIDATION.reply_too_large", Some(100))
    );
    assert_eq!(
        acme.get("/down").send().await.expect_err("down").status().map(|status| status.as_u16()),
        Some(503)
    );
}

/// Fails, or is never ready.
#[derive(Clone)]
struct Broken {
    ready: fn() -> Poll<Result<(), SendError>>,
    called: Arc<AtomicU32>,
    kind: Option<SendErrorKind>,
}

impl Service<Request<Bytes>> for Broken {
    type Response = http::Response<String>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = std::future::Ready<Result<http::Response<String>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        (self.ready)().map_err(|_| "closed".into())
    }

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        self.called.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err(match self.kind {
            Some(kind) => SendError::new(kind).into(),
            None => "broken".into(),
        }))
    }
}

#[tokio::test]
async fn the_effect_follows_from_how_far_the_request_can_have_got() {
    let not_ready: fn() -> Poll<Result<(), SendError>> =
        || Poll::Ready(Err(SendError::new(SendErrorKind::Reset)));
    for (ready, kind, effect, calls) in [
        ((|| Poll::Ready(Ok(()))) as fn() -> _, None, Effect::Unknown, 1),
        (|| Poll::Ready(Ok(())), Some(SendErrorKind::Dns), Effect::None, 1),
        (not_ready, None, Effect::None, 0),
        // Its time runs out while it waits for the service: in real time, as nothing else is under way.
        (|| Poll::Pending, None, Effect::None, 0),
    ] {
        let called = Arc::new(AtomicU32::new(0));
        let broken = Broken { ready, called: called.clone(), kind };
        let acme = builder(over_tower(broken)).build().expect("a client");
        let call = acme.post("/orders").key("order-42").json(&json!({}));
        let error = call.deadline(Duration::from_millis(100)).send().await.expect_err("broken");
        assert_eq!((error.effect(), called.load(Ordering::Relaxed)), (effect, calls), "{error:#}");
    }
}

#[test]
fn a_service_that_cannot_fail_is_one_too() {
    fn is_transport<T: Transport>(_: &T) {}
    let router: Router = Router::new();
    is_transport(&over_tower::<Body>(router.clone()));
    fn fails_never<S: Service<Request<Body>, Error = Infallible>>(_: &S) {}
    fails_never(&router);
}
