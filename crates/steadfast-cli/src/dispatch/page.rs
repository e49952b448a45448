//! The HTTP page: `GET /health` and `GET /metrics`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use steadfast::clock::{Clock as _, SystemClock};
use steadfast::dead_letter::visible;
use steadfast::dispatcher::Health;

use super::gauges::Gauges;

/// Sources of the page's answers.
#[derive(Clone)]
pub(super) struct Page {
    pub health: Health,
    pub counted: PrometheusHandle,
    pub gauges: Gauges,
}

/// Answers for ever.
pub(super) async fn serve(listener: TcpListener, page: Page) {
    tokio::join!(accept(listener, &page), summarize(&page.counted));
}

/// Adds up the values of histograms, which otherwise grow until the next scrape.
async fn summarize(counted: &PrometheusHandle) {
    let clock = SystemClock::new();
    loop {
        clock.sleep_until(clock.now().plus(SUMMARIZE_EVERY)).await;
        counted.run_upkeep();
    }
}

async fn accept(listener: TcpListener, page: &Page) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Most often: too many open files. Those of the deliveries are closed in time.
            Err(error) => {
                warn!(error = %error, "a connection to the page was not accepted");
                // The socket stays readable: an immediate retry would take the thread that delivers.
                let clock = SystemClock::new();
                clock.sleep_until(clock.now().plus(NOT_ACCEPTED_WAIT)).await;
                continue;
            }
        };
        let page = page.clone();
        tokio::spawn(async move {
            let _place = place;
            serve_one(stream, from, page).await;
        });
    }
}

async fn serve_one(stream: TcpStream, from: SocketAddr, page: Page) {
    let service = service_fn(|request: Request<Incoming>| {
        let page = page.clone();
        async move { Ok::<_, Infallible>(answer(&request, &page).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%from, %error, "a connection to the page ended");
    }
}

async fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/health" | "/metrics" if !is_read => {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET or HEAD\n".to_owned());
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refused
        }
        "/health" => match page.health.check(STORE_TIMEOUT).await {
            Ok(()) => text(StatusCode::OK, PLAIN, "ok\n".to_owned()),
            Err(unwell) => {
                let why = crate::failure::chain(&unwell);
                text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}\n", visible(&why)))
            }
        },
        "/metrics" => {
            let gauges = page.gauges.text(STORE_TIMEOUT).await;
            text(StatusCode::OK, PROMETHEUS, page.counted.render() + &gauges)
        }
        _ => text(StatusCode::NOT_FOUND, PLAIN, "there are /health and /metrics\n".to_owned()),
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// The text format that every version of Prometheus reads.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Maximum of connections: an orchestrator and a scraper or two.
const CONNECTIONS_MAX: usize = 32;

/// Delay after a failed `accept`.
const NOT_ACCEPTED_WAIT: Duration = Duration::from_millis(200);

/// Interval of the histograms' upkeep: the exporter's own default.
const SUMMARIZE_EVERY: Duration = Duration::from_secs(5);

/// Limit for reading a request, and for an idle connection.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit for the store: below the usual timeout of a health check, so that the check gets the reason.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
