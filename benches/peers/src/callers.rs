//! Each peer as its users would set it up, around a ready future and a ready response. Over loopback they are in
//! `loopback.rs`.
//!
//! - reqwest-middleware + reqwest-retry: retries with exponential backoff. It has no breaker, budget or limit.
//! - tower: load shedding over a concurrency limit, retries with a budget, a timeout. Its rate limit cannot be
//!   cloned, and a buffer in front of it would be a task and a channel for every call, so it has none here.
//! - tower-resilience: breaker, bulkhead, rate limiter, retries, time limiter.
//! - failsafe: a breaker and nothing else, for the gates' comparison.
//! - reqx: retries with a budget, a breaker, a timeout.

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Method, header};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_resilience::circuitbreaker::CircuitBreakerLayer;
use tower_resilience::ratelimiter::RateLimiterLayer;
use tower_resilience::retry::RetryLayer;
use tower_resilience::timelimiter::TimeLimiterLayer;
use url::Url;

use steadfast::Client;
use steadfast::clock::{Clock, SystemClock};
use steadfast_core::internal::policy::{Gates, Outcome};
use steadfast_core::internal::random::SystemRandom;

use crate::{Measure, contestant};
use crate::support::{self, Nowhere, PATH, Plain, SECRET, all_gates};

/// Makes one call after another.
pub trait Caller: Clone + Send + Sync + 'static {
    fn once(&mut self) -> impl Future<Output = ()> + Send;
}

/// Around a ready future; the first is the future alone.
pub fn gates() -> Vec<(&'static str, Measure)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let gates = Arc::new(Gates::new(&all_gates(), Arc::clone(&clock), Arc::new(SystemRandom)));
    let ready = || service_fn(|ask: u64| async move { Ok::<_, Infallible>(black_box(ask)) });
    vec![
        contestant("ready future", Ready),
        contestant("steadfast's gates", Gated { gates, clock }),
        contestant("failsafe, breaker alone", Failsafe(failsafe::Config::new().build())),
        contestant("tower", Stack { stack: tower_stack(ready()), ask: 1 }),
        contestant("tower-resilience", Stack { stack: resilience_stack(ready()), ask: 1 }),
    ]
}

/// An exchange without a network; the first is bare reqwest.
pub fn nowhere() -> Vec<(&'static str, Measure)> {
    let reqwest = reqwest::Client::new();
    let ours = Client::builder(Plain::at(support::BASE))
        .policy(all_gates())
        .transport(Nowhere)
        .build()
        .expect("a client");
    let ready = || {
        service_fn(|ask: Ask| {
            black_box(ask.request());
            async { Ok::<_, reqwest::Error>(support::ready_response()) }
        })
    };
    let ask = Ask::of(support::BASE);
    vec![
        contestant("reqwest", BareNowhere(reqwest.clone())),
        contestant("steadfast", Ours(ours)),
        contestant(
            "reqwest-middleware + reqwest-retry",
            Wrapped { client: with_retries(reqwest).with(NoNetwork).build(), url: ask.url.to_string() },
        ),
        contestant("tower", Http(Stack { stack: tower_stack(ready()), ask: ask.clone() })),
        contestant("tower-resilience", Http(Stack { stack: resilience_stack(ready()), ask })),
    ]
}

/// A request that a retry can clone.
#[derive(Clone)]
pub struct Ask {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Ask {
    /// A GET.
    pub fn of(base: &str) -> Ask {
        let url = Url::parse(&format!("{base}{PATH}")).expect("a URL");
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(SECRET))]);
        Ask { method: Method::GET, url, headers, body: Bytes::new() }
    }

    pub fn request(self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method, self.url);
        *request.headers_mut() = self.headers;
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.into());
        }
        request
    }
}

#[derive(Clone)]
struct Ready;

impl Caller for Ready {
    async fn once(&mut self) {
        black_box(async { black_box(1_u64) }.await);
    }
}

#[derive(Clone)]
struct Gated {
    gates: Arc<Gates>,
    clock: Arc<dyn Clock>,
}

impl Caller for Gated {
    async fn once(&mut self) {
        let now = self.clock.now();
        let admission = self.gates.admit(now).expect("limits that nothing reaches");
        if let Some(budget) = self.gates.budget() {
            budget.earn(now);
        }
        black_box(async { black_box(1_u64) }.await);
        admission.settle(Outcome::Success, self.clock.now());
    }
}

#[derive(Clone)]
struct Failsafe<B>(B);

impl<B> Caller for Failsafe<B>
where
    B: failsafe::futures::CircuitBreaker + Clone + Send + Sync + 'static,
{
    async fn once(&mut self) {
        let work = std::pin::pin!(async { Ok::<_, Infallible>(black_box(1_u64)) });
        black_box(self.0.call(work).await.is_ok());
    }
}

#[derive(Clone)]
pub struct Stack<S, Q> {
    pub stack: S,
    pub ask: Q,
}

impl<S, Q> Stack<S, Q>
where
    S: Service<Q>,
    Q: Clone,
    S::Error: std::fmt::Debug,
{
    async fn send(&mut self) -> S::Response {
        let ask = self.ask.clone();
        self.send_this(ask).await
    }

    pub async fn send_this(&mut self, ask: Q) -> S::Response {
        self.stack.ready().await.expect("a stack that is ready").call(ask).await.expect("an answer")
    }
}

impl<S> Caller for Stack<S, u64>
where
    S: Service<u64, Future: Send, Error: std::fmt::Debug + Send> + Clone + Send + Sync + 'static,
{
    async fn once(&mut self) {
        let _ = black_box(self.send().await);
    }
}

/// A stack whose answer is reqwest's, with its body still to come.
#[derive(Clone)]
struct Http<T>(T);

impl<S> Caller for Http<Stack<S, Ask>>
where
    S: Service<Ask, Response = reqwest::Response, Future: Send, Error: std::fmt::Debug + Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    async fn once(&mut self) {
        black_box(self.0.send().await.bytes().await.expect("a body"));
    }
}

#[derive(Clone)]
struct BareNowhere(reqwest::Client);

impl Caller for BareNowhere {
    async fn once(&mut self) {
        black_box(support::bare_get(&self.0).await);
    }
}

#[derive(Clone)]
struct Ours(Client);

impl Caller for Ours {
    async fn once(&mut self) {
        black_box(self.0.get(PATH).send().await.expect("a reply"));
    }
}

#[derive(Clone)]
struct Wrapped {
    client: ClientWithMiddleware,
    url: String,
}

impl Caller for Wrapped {
    async fn once(&mut self) {
        let request =
            self.client.get(&self.url).header(header::AUTHORIZATION, HeaderValue::from_static(SECRET));
        black_box(request.send().await.expect("an answer").bytes().await.expect("a body"));
    }
}

pub fn with_retries(client: reqwest::Client) -> reqwest_middleware::ClientBuilder {
    let policy = ExponentialBackoff::builder().build_with_max_retries(3);
    reqwest_middleware::ClientBuilder::new(client).with(RetryTransientMiddleware::new_with_policy(policy))
}

/// Answers in the network's place.
struct NoNetwork;

#[async_trait::async_trait]
impl Middleware for NoNetwork {
    async fn handle(
        &self,
        request: reqwest::Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        black_box(request);
        Ok(support::ready_response())
    }
}

pub fn tower_stack<Q, A, S>(
    service: S,
) -> impl Service<Q, Response = A, Error = BoxError, Future: Send> + Clone + Send + Sync + 'static
where
    Q: Clone + Send + Sync + 'static,
    A: Send + 'static,
    S: Service<Q, Response = A, Error: Into<BoxError> + Send, Future: Send> + Clone + Send + Sync + 'static,
{
    ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(1_000_000)
        .retry(Budgeted(Arc::new(TpsBudget::new(Duration::from_secs(10), 1, 0.1))))
        .timeout(Duration::from_secs(30))
        .service(service)
}

/// Retries what failed, as far as the budget goes.
#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

impl<Q: Clone, A> tower::retry::Policy<Q, A, BoxError> for Budgeted {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut Q, result: &mut Result<A, BoxError>) -> Option<Self::Future> {
        if result.is_ok() {
            self.0.deposit();
            return None;
        }
        self.0.withdraw().then(|| tokio::time::sleep(Duration::from_millis(500)))
    }

    fn clone_request(&mut self, request: &Q) -> Option<Q> {
        Some(request.clone())
    }
}

pub fn resilience_stack<Q, A, E, S>(
    service: S,
) -> impl Service<Q, Response = A, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + Sync + 'static
where
    Q: Clone + Send + Sync + 'static,
    A: Send + Sync + 'static,
    E: std::error::Error + Send + Sync + 'static,
    S: Service<Q, Response = A, Error = E, Future: Send> + Clone + Send + Sync + 'static,
{
    let breaker = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(100)
        .build()
        .expect("a breaker");
    let bulkhead = BulkheadLayer::builder().max_concurrent_calls(1_000_000).build().expect("a bulkhead");
    let rate = RateLimiterLayer::builder()
        .limit_for_period(1_000_000_000)
        .refresh_period(Duration::from_secs(1))
        .build()
        .expect("a rate limit");
    let retry = RetryLayer::<Q, A, E>::builder()
        .max_attempts(4)
        .exponential_backoff(Duration::from_millis(500))
        .build();
    let limit = TimeLimiterLayer::builder().timeout_duration(Duration::from_secs(30)).build();
    ServiceBuilder::new()
        .layer(limit)
        .layer(bulkhead)
        .layer(rate)
        .layer(breaker)
        .layer(retry)
        .service(service)
}
