//! The same call by each peer over loopback: see `../../support/real.rs`.

use std::hint::black_box;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use reqwest_middleware::ClientWithMiddleware;
use reqx::advanced::{CircuitBreakerPolicy, RetryBudgetPolicy};
use reqx::prelude::RetryPolicy;
use steadfast::Client;
use tower::{Service, service_fn};

use crate::callers::{Ask, Caller, Stack, resilience_stack, tower_stack, with_retries};
use crate::real::{self, HEADERS, Keys, TIMEOUT};
use crate::server::BODY_BYTES;
use crate::support::{PATH, Plain, SECRET, all_gates};
use crate::{Measure, contestant};

/// The first is reqwest with a timeout of its own.
pub fn contestants(base: &str, method: &Method) -> Vec<(&'static str, Measure)> {
    let way = || Way { url: format!("{base}{PATH}"), method: method.clone(), keys: Keys::default() };
    let ours = || Client::builder(Plain::at(base)).policy(all_gates());
    let send = || {
        let client = reqwest::Client::new();
        service_fn(move |ask: Ask| {
            let request = ask.request();
            let client = client.clone();
            async move { client.execute(request).await }
        })
    };
    let ask = ask(base, method);
    let tower = Stack { stack: tower_stack(send()), ask: ask.clone() };
    let resilience = Stack { stack: resilience_stack(send()), ask };
    let wrapped = with_retries(real::with_timeout()).build();
    vec![
        contestant("reqwest with a timeout", Bare(real::with_timeout(), way())),
        contestant("reqwest", Bare(reqwest::Client::new(), way())),
        contestant("steadfast", Ours(ours().build().expect("a client"), way())),
        contestant("reqwest-middleware + reqwest-retry", Wrapped(wrapped, way())),
        contestant("reqx", Reqx(reqx(base), way())),
        contestant("tower", Stacked(tower, way())),
        contestant("tower-resilience", Stacked(resilience, way())),
    ]
}

/// The route that is called, and the keys that it is called with.
#[derive(Clone)]
struct Way {
    url: String,
    method: Method,
    keys: Keys,
}

/// All of the call but its key, and its body.
fn ask(base: &str, method: &Method) -> Ask {
    let mut ask = Ask::of(base);
    ask.method = method.clone();
    ask.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in HEADERS {
        ask.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    ask
}

fn reqx(base: &str) -> reqx::Client {
    reqx::Client::builder(base)
        .request_timeout(TIMEOUT)
        .total_timeout(TIMEOUT)
        .retry_policy(RetryPolicy::standard())
        .retry_budget_policy(RetryBudgetPolicy::standard())
        .circuit_breaker_policy(CircuitBreakerPolicy::standard())
        .build()
        .expect("a client")
}

fn check(body: &[u8]) {
    assert_eq!(black_box(body).len(), BODY_BYTES);
}

#[derive(Clone)]
struct Bare(reqwest::Client, Way);

impl Caller for Bare {
    async fn once(&mut self) {
        let Bare(client, way) = self;
        real::bare(client, &way.method, &way.url, &way.keys).await;
    }
}

#[derive(Clone)]
struct Ours(Client, Way);

impl Caller for Ours {
    async fn once(&mut self) {
        let Ours(client, way) = self;
        real::ours(client, &way.method, &way.keys).await;
    }
}

#[derive(Clone)]
struct Wrapped(ClientWithMiddleware, Way);

impl Caller for Wrapped {
    async fn once(&mut self) {
        let Wrapped(client, way) = self;
        let mut request = client
            .request(way.method.clone(), &way.url)
            .header(header::AUTHORIZATION, HeaderValue::from_static(SECRET))
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = way.keys.of(&way.method) {
            request = request.header("idempotency-key", key);
        }
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let response = request.body(real::body()).send().await.expect("an answer");
        check(&response.bytes().await.expect("a body"));
    }
}

#[derive(Clone)]
struct Reqx(reqx::Client, Way);

impl Caller for Reqx {
    async fn once(&mut self) {
        let Reqx(client, way) = self;
        let mut request = client
            .request(way.method.clone(), PATH)
            .header(header::AUTHORIZATION, HeaderValue::from_static(SECRET))
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = way.keys.of(&way.method) {
            request = request.idempotency_key(&key).expect("a key");
        }
        for (name, value) in HEADERS {
            request = request.try_header(name, value).expect("a header");
        }
        let response = request.body(real::body()).send().await.expect("an answer");
        check(response.body());
    }
}

/// A stack takes a request that is ready, so that its headers are copied and not parsed.
#[derive(Clone)]
struct Stacked<S>(Stack<S, Ask>, Way);

impl<S> Caller for Stacked<S>
where
    S: Service<Ask, Response = reqwest::Response, Future: Send, Error: std::fmt::Debug + Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    async fn once(&mut self) {
        let Stacked(stack, way) = self;
        let mut ask = stack.ask.clone();
        ask.body = Bytes::from(real::body());
        if let Some(key) = way.keys.of(&way.method) {
            let key = HeaderValue::try_from(key).expect("a key");
            ask.headers.insert(HeaderName::from_static("idempotency-key"), key);
        }
        check(&stack.send_this(ask).await.bytes().await.expect("a body"));
    }
}
