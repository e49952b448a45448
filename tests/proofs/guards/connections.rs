//! The guards of what connections hold back, swallow or share. Real sockets, so real time: each wait is as short as
//! the claim allows.

#![allow(clippy::disallowed_methods, reason = "a socket is waited for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::policy::Timeouts;
use steadfast::testkit::{FixedRandom, TestClock};
use steadfast::transport::{Answer, Http, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::BigCommerce;
use steadfast::{BoxFuture, Client, Policy};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use url::Url;

use support::one_stream::OneStream;

const MOMENT: Duration = Duration::from_millis(100);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn over_http2() -> Http {
    Http::over(|| reqwest::Client::builder().no_proxy().http2_prior_knowledge()).expect("a transport")
}

fn request(method: Method, url: &str) -> Request {
    Request::new(method, Url::parse(url).expect("a url"))
}

async fn is_answered(http: &Http, vendor: &OneStream) -> bool {
    let exchange = http.send(request(Method::GET, &vendor.url("/x")), Limits::new(9));
    timeout(5 * MOMENT, exchange).await.is_ok_and(|answer| answer.is_ok())
}

pub fn what_waits_in_a_connection_and_is_given_up_never_leaves() -> bool {
    runtime().block_on(async {
        let (vendor, http) = (OneStream::start().await, over_http2());
        let (holder, hold) = (http.clone(), request(Method::GET, &vendor.url("/hold")));
        let held = tokio::spawn(async move { holder.send(hold, Limits::new(9)).await.is_ok() });
        while !vendor.has_seen("GET /hold") {
            sleep(Duration::from_millis(1)).await;
        }
        let limits = Limits::new(9).watched();
        let (orderer, order, given) =
            (http.clone(), request(Method::POST, &vendor.url("/order")), limits.clone());
        // Not dropped yet when it is given up: hyper has it all the while.
        let order = tokio::spawn(async move { orderer.send(order, given).await.is_err() });
        sleep(MOMENT).await;
        let is_none = limits.give_up();
        vendor.release();
        let goes_on = held.await.expect("no panic");
        let is_over = timeout(10 * MOMENT, order).await.is_ok_and(|failed| failed.expect("no panic"));
        is_none && goes_on && is_over && !vendor.has_seen("POST /order")
    })
}

pub fn a_pool_that_swallows_is_not_used_again() -> bool {
    runtime().block_on(async {
        let (vendor, http) = (OneStream::start().await, over_http2());
        let before = is_answered(&http, &vendor).await;
        vendor.swallow();
        before && !is_answered(&http, &vendor).await && is_answered(&http, &vendor).await
    })
}

pub fn a_runtime_that_stands_still_holds_up_no_other() -> bool {
    let serving = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (vendor, http) = (serving.block_on(OneStream::start()), over_http2());
    let first = runtime();
    first.block_on(is_answered(&http, &vendor)) && runtime().block_on(is_answered(&http, &vendor))
}

/// No such address is on this host.
pub fn what_this_host_lacks_is_told_from_the_vendors_failure() -> bool {
    let elsewhere = std::net::IpAddr::from([192, 0, 2, 1]);
    let http = Http::over(move || reqwest::Client::builder().no_proxy().local_address(elsewhere));
    let http = http.expect("a transport");
    let sent = http.send(request(Method::POST, "http://127.0.0.1:9/"), Limits::new(9));
    runtime().block_on(sent).is_err_and(|error| error.kind() == SendErrorKind::Local)
}

/// A way to BigCommerce on virtual time.
#[derive(Debug)]
struct Way {
    clock: TestClock,
    orders: Arc<AtomicUsize>,
    /// A first order that gets no answer arrives so long after it was sent.
    late: Option<Duration>,
    /// A request that is sent on the kept connection gets nowhere.
    is_dead: bool,
}

impl Transport for Way {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let orders = Arc::clone(&self.orders);
        Box::pin(async move {
            if self.is_dead && !limits.new_connection {
                return std::future::pending().await;
            }
            let json = |status: u16, body: String| {
                let mut headers = HeaderMap::new();
                headers.insert("content-type", HeaderValue::from_static("application/json"));
                Ok(Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body))
            };
            if request.method != Method::POST {
                let asked_for = request.url.query_pairs().find(|(name, _)| name == "external_order_id");
                let key = asked_for.map(|(_, key)| key.into_owned());
                return match orders.load(Ordering::Relaxed) {
                    0 => json(204, String::new()),
                    _ => json(200, json!([{ "id": 1, "external_order_id": key }]).to_string()),
                };
            }
            if let Some(late) = self.late.filter(|_| orders.load(Ordering::Relaxed) == 0) {
                let arrives = self.clock.latency(late);
                tokio::spawn(async move {
                    arrives.await;
                    orders.fetch_add(1, Ordering::Relaxed);
                });
                return std::future::pending().await;
            }
            orders.fetch_add(1, Ordering::Relaxed);
            json(201, json!({ "id": 1 }).to_string())
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        Duration::from_secs(60)
    }
}

/// How often an order was made, and whether its caller was told that it is.
fn ordered(late: Option<Duration>, is_dead: bool) -> (usize, bool) {
    crate::guards::queued::on_virtual_time(|clock| async move {
        let orders = Arc::<AtomicUsize>::default();
        let way = Way { clock: clock.clone(), orders: Arc::clone(&orders), late, is_dead };
        let [attempt, total] = [10, 300].map(Duration::from_secs);
        let client = Client::builder(BigCommerce::new("abc123", "token"))
            .policy(Policy::background().timeout(Timeouts::new(attempt, attempt, total)).without_breaker())
            .transport(way)
            .clock(clock.clone())
            .random(FixedRandom::at(0.5))
            .build()
            .expect("a client");
        let order = json!({ "products": [{ "product_id": 7, "quantity": 1 }] });
        let told = client.post("/v2/orders").key("order-42").json(&order).send().await;
        clock.latency(Duration::from_secs(600)).await;
        (orders.load(Ordering::Relaxed), told.is_ok())
    })
}

/// The kernel delivers it half a minute after its adapter's settle time is over.
pub fn what_the_kernel_may_still_hold_is_not_looked_up() -> bool {
    ordered(Some(Duration::from_secs(65)), false) == (1, true)
}

pub fn a_repeat_does_not_use_the_connection_that_gave_no_answer() -> bool {
    ordered(None, true) == (1, true)
}
