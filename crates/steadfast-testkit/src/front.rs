//! A listener that breaks connections.
//!
//! wiremock, on which the fakes are built, answers through hyper: it cannot close without answering, reset, or
//! promise a body and stop half-way. Those are the faults that leave a caller in doubt. So this listener speaks
//! HTTP/1.1 over the bare socket and produces them, with one connection to the backend per request. The fake
//! behind it still produces the vendor's *answers*; a header tells it which.

use std::any::Any;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use steadfast_core::BoxFuture;
use steadfast_core::clock::{Clock, SystemClock};

use super::{Fault, FaultPlan, TestClock};

mod wire;

use wire::{Framing, Reader, RequestHead, ResponseHead};

/// A listener on loopback, in front of a fake vendor, that injects the faults of a [`FaultPlan`].
///
/// ```
/// use std::net::SocketAddr;
/// use steadfast::testkit::{Fault, FaultPlan, Front};
///
/// # async fn shown(fake: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
/// let plan = FaultPlan::new();
/// let front = Front::start(fake, plan.clone()).await?;
///
/// plan.next(Fault::DropAfterApply);
/// let answer = reqwest::Client::new().post(front.url()).body("amount=1000").send().await;
/// assert!(answer.is_err(), "charged, but the caller does not get to know");
/// # Ok(())
/// # }
/// ```
///
/// Each request asks the plan once. [Transport faults](Fault::is_transport) are produced here; for those
/// *after* applying, the backend has answered in full before the fault shows. The others go to the backend in
/// the header [`FAULT_HEADER`](super::FAULT_HEADER), which is removed from requests that come from outside.
/// Without a fault the answer is passed on as it is, its body with a `Content-Length`.
///
/// It speaks HTTP/1.1 and 1.0 with keep-alive, bodies with a length and chunked ones, heads up to 64 KiB and
/// bodies up to 16 MiB; no TLS. A head that is not HTTP gets 400 and does not ask the plan. If the backend does
/// not answer, the front answers 502 with the reason.
///
/// Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    plan: FaultPlan,
    task: JoinHandle<()>,
}

impl Front {
    /// Starts a front on a free port of 127.0.0.1 that passes requests on to `backend`. [`Fault::SlowBody`]
    /// takes real time.
    ///
    /// # Errors
    ///
    /// The system's, if there is no port to listen on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn start(backend: SocketAddr, plan: FaultPlan) -> io::Result<Front> {
        Front::listen(Wiring::new(Arc::new(backend), plan, None)).await
    }

    /// Form of [`start`](Front::start) with the time of [`Fault::SlowBody`], [`Fault::Hang`] and
    /// [`Fault::HangAfterApply`] on the test's clock. Like [`TestClock::latency`] they move an automatic clock.
    /// A caller's timeout on the same clock then fires at its exact time and without real waiting.
    ///
    /// # Errors
    ///
    /// The system's, if there is no port to listen on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn start_on(backend: SocketAddr, plan: FaultPlan, clock: &TestClock) -> io::Result<Front> {
        Front::listen(Wiring::new(Arc::new(backend), plan, Some(clock))).await
    }

    pub(crate) async fn listen(wiring: Wiring) -> io::Result<Front> {
        let listener = TcpListener::bind(("127.0.0.1", wiring.port)).await?;
        let (address, plan) = (listener.local_addr()?, wiring.plan.clone());
        Ok(Front { address, plan, task: tokio::spawn(accept(listener, Arc::new(wiring))) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for clients, `http://127.0.0.1:{port}`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the plan that it asks.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }
}

impl Drop for Front {
    /// Ends the listener's task; the connections are its tasks and end with it.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Settings of a front: its backend, plan, clock and port.
pub struct Wiring {
    backend: Arc<dyn Backend>,
    pub plan: FaultPlan,
    pace: Pace,
    /// Port to listen on; 0 for a free one.
    pub port: u16,
    /// True if a caller's connection keeps one to the backend open. A backend that may close an idle connection
    /// by itself would cause a failure that no plan has.
    pub keeps_backend: bool,
    /// Page that answers below [`PAGE`]. `None`: those requests go to the backend like all others.
    pub page: Option<Arc<dyn Page>>,
}

impl Wiring {
    pub fn new(backend: Arc<dyn Backend>, plan: FaultPlan, clock: Option<&TestClock>) -> Wiring {
        let pace = clock.map_or_else(|| Pace::Real(SystemClock::new()), |clock| Pace::Test(clock.clone()));
        Wiring { backend, plan, pace, port: 0, keeps_backend: false, page: None }
    }
}

/// A page of the front itself, about the fake and not of the vendor. The plan is not asked.
pub trait Page: Send + Sync {
    /// Answers a request whose path begins with [`PAGE`].
    fn answer(&self, method: &str, path: &str, body: &[u8]) -> BoxFuture<'static, PageAnswer>;
}

/// An answer of a [`Page`].
#[derive(Debug)]
pub struct PageAnswer {
    pub status: u16,
    pub reason: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Path of the front's own page, which no vendor has.
pub const PAGE: &str = "/_fake";

/// A source of backends that requests are passed on to.
pub trait Backend: Send + Sync {
    /// Returns the backend of the next request.
    fn lease(&self) -> Lease;
}

/// A backend, for one request.
pub struct Lease {
    pub address: SocketAddr,
    /// Number of the backend: another number is another backend, since a port may be given twice.
    pub serial: u64,
    /// Value that is dropped after the answer. `None` if there is nothing to keep.
    pub _held: Option<Arc<dyn Any + Send + Sync>>,
}

impl Backend for SocketAddr {
    fn lease(&self) -> Lease {
        Lease { address: *self, serial: 0, _held: None }
    }
}

/// The clock of a slow vendor's pauses.
enum Pace {
    Real(SystemClock),
    Test(TestClock),
}

impl Pace {
    fn pause(&self, pause: Duration) -> BoxFuture<'static, ()> {
        match self {
            Pace::Real(clock) => clock.sleep_until(clock.now().plus(pause)),
            Pace::Test(clock) => clock.latency(pause),
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Wiring>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    // A connection's error is its end; the caller sees it at its own end.
                    connections.spawn(async move { serve(stream, &shared).await.ok() });
                }
                // Out of descriptors, or a caller that went before it was accepted: the next accept may
                // succeed.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: &Wiring) -> io::Result<()> {
    // The halves of a slow body must leave when they are written.
    stream.set_nodelay(true)?;
    let mut client = Reader::new(stream);
    let mut backend = None;
    loop {
        match serve_one(&mut client, &mut backend, shared).await {
            Ok(AfterRequest::KeepAlive) => {}
            Ok(AfterRequest::Close) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let refusal = ResponseHead::plain(400, "Bad Request");
                return client.stream.write_all(&refusal.encode(b"not HTTP/1.1", true)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A connection to a backend that a caller's connection has left open.
struct OpenBackend {
    serial: u64,
    backend: Reader,
}

enum AfterRequest {
    KeepAlive,
    Close,
}

async fn serve_one(
    client: &mut Reader,
    backend: &mut Option<OpenBackend>,
    shared: &Wiring,
) -> io::Result<AfterRequest> {
    let Some(head) = client.head(wire::parse_request).await? else { return Ok(AfterRequest::Close) };
    let framing = head.framing()?;
    let method = Method::from_bytes(head.method.as_bytes()).map_err(wire::invalid)?;
    if let Some(page) = shared.page.as_deref().filter(|_| is_page(&head.path())) {
        return serve_page(client, page, &head, framing).await;
    }
    let fault = shared.plan.decide(&method, &head.path());
    match fault {
        Some(Fault::DropBeforeRead) => return Ok(AfterRequest::Close),
        Some(Fault::Reset) => return reset(&client.stream),
        Some(Fault::Hang) => return hang(client, shared).await,
        _ => {}
    }
    if head.expects_continue() {
        client.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let body = client.body(framing).await?;
    let fault_header = fault.filter(|fault| !fault.is_transport()).map(Fault::to_header);
    let (response, answer) = match forward(shared, backend, &head, fault_header.as_deref(), &body).await {
        Ok(answered) => answered,
        Err(error) => {
            *backend = None;
            let why = format!("the backend did not answer: {error}");
            (ResponseHead::plain(502, "Bad Gateway"), why.into_bytes())
        }
    };
    let close = head.wants_close();
    let bytes = response.encode(&answer, close);
    match fault {
        Some(Fault::DropAfterApply) => return Ok(AfterRequest::Close),
        Some(Fault::ResetAfterApply) => return reset(&client.stream),
        Some(Fault::HangAfterApply) => return hang(client, shared).await,
        Some(Fault::TruncatedBody) => {
            client.stream.write_all(first_half(&bytes, answer.len()).0).await?;
            return Ok(AfterRequest::Close);
        }
        Some(Fault::SlowBody(pause)) => {
            let (first, second) = first_half(&bytes, answer.len());
            client.stream.write_all(first).await?;
            if !stays(&client.stream, shared.pace.pause(pause)).await {
                return Ok(AfterRequest::Close);
            }
            client.stream.write_all(second).await?;
        }
        _ => client.stream.write_all(&bytes).await?,
    }
    Ok(if close { AfterRequest::Close } else { AfterRequest::KeepAlive })
}

/// Splits an encoded answer in the middle of its body; one without a body, in the middle of its head.
fn first_half(bytes: &[u8], body_bytes: usize) -> (&[u8], &[u8]) {
    let head_bytes = bytes.len() - body_bytes.min(bytes.len());
    let at = if body_bytes == 0 { bytes.len() / 2 } else { head_bytes + body_bytes / 2 };
    bytes.split_at(at)
}

/// Turns the coming close into an RST: a linger of zero discards unsent bytes and skips the FIN.
fn reset(stream: &TcpStream) -> io::Result<AfterRequest> {
    stream.set_zero_linger()?;
    Ok(AfterRequest::Close)
}

/// Holds the connection until the caller gives up. Reads and drops the caller's further bytes: an unread body
/// would hide that the caller has gone, and the pause would go on moving an automatic clock.
async fn hang(client: &mut Reader, shared: &Wiring) -> io::Result<AfterRequest> {
    let mut unread = [0; 4096];
    let gone = async { while matches!(client.stream.read(&mut unread).await, Ok(1..)) {} };
    tokio::select! {
        () = shared.pace.pause(Duration::MAX) => {}
        () = gone => {}
    }
    Ok(AfterRequest::Close)
}

/// Returns true if the caller is still there when `pause` is over. Ends at once when it goes.
async fn stays(stream: &TcpStream, pause: impl Future<Output = ()>) -> bool {
    let gone = async {
        match stream.peek(&mut [0]).await {
            Ok(0) | Err(_) => {}
            // The next request is waiting already: the caller is there.
            Ok(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = pause => true,
        () = gone => false,
    }
}

async fn forward(
    shared: &Wiring,
    kept: &mut Option<OpenBackend>,
    head: &RequestHead,
    fault: Option<&str>,
    body: &[u8],
) -> io::Result<(ResponseHead, Vec<u8>)> {
    // Until the answer is there.
    let lease = shared.backend.lease();
    let keeps = shared.keeps_backend;
    let OpenBackend { backend, .. } = match kept.take().filter(|kept| kept.serial == lease.serial) {
        Some(known) => kept.insert(known),
        None => {
            let stream = TcpStream::connect(lease.address).await?;
            stream.set_nodelay(true)?;
            kept.insert(OpenBackend { serial: lease.serial, backend: Reader::new(stream) })
        }
    };
    backend.stream.write_all(&head.encode(fault, body, !keeps)).await?;
    loop {
        let mut response = backend
            .head(wire::parse_response)
            .await?
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        // Interim answers (1xx) precede the one that counts.
        if response.status >= 200 {
            let framing = response.framing(&head.method)?;
            let body = backend.body(framing).await?;
            if !keeps || framing == Framing::UntilClose || response.closes() {
                *kept = None;
            }
            return Ok((response, body));
        }
    }
}

/// Returns true if the path is [`PAGE`] or below it.
fn is_page(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the refusal of a page of another site, in a developer's browser: such a request is no test.
fn refused() -> PageAnswer {
    let body = b"{\"error\":\"a page of another site sent this; only the page at /_fake and programs may\"}"
        .to_vec();
    let headers = vec![("Content-Type", "application/json".to_owned())];
    PageAnswer { status: 403, reason: "Forbidden", headers, body }
}

async fn serve_page(
    client: &mut Reader,
    page: &dyn Page,
    head: &RequestHead,
    framing: Framing,
) -> io::Result<AfterRequest> {
    if head.expects_continue() {
        client.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let body = client.body(framing).await?;
    let is_write = !matches!(head.method.as_str(), "GET" | "HEAD");
    let answer = if is_write && head.is_of_another_site() {
        refused()
    } else {
        page.answer(&head.method, &head.path(), &body).await
    };
    let close = head.wants_close();
    let mut response = ResponseHead::with(answer.status, answer.reason, &answer.headers);
    response.framing(&head.method)?;
    let body = if head.method == "HEAD" { &[] } else { answer.body.as_slice() };
    client.stream.write_all(&response.encode(body, close)).await?;
    Ok(if close { AfterRequest::Close } else { AfterRequest::KeepAlive })
}

#[cfg(test)]
mod tests;
