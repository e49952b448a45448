//! A client over real sockets, and what went through them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::testkit::TestClock;
use steadfast::transport::{Answer, Http, Limits, Request, SendError, Transport};
use steadfast::vendor::Vendor;
use steadfast::{BoxFuture, Call, Error, Policy, Reply};

use crate::rig::{Rig, plain};

/// The real transport, with a record of what went through it.
#[derive(Clone, Debug)]
pub struct Tap {
    http: Http,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Tap {
    #[allow(clippy::new_without_default, reason = "a test says that it makes one")]
    pub fn new() -> Tap {
        Tap { http: Http::new(Http::CONNECT_TIMEOUT).expect("a transport"), seen: Arc::default() }
    }
}

impl Transport for Tap {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        self.seen.lock().expect("no test panics in here").push(request.clone());
        self.http.send(request, limits)
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

impl Rig<Tap> {
    pub fn over_sockets(vendor: impl Vendor, clock: &TestClock) -> Self {
        Self::over_sockets_with(vendor, clock, plain())
    }

    pub fn over_sockets_with(vendor: impl Vendor, clock: &TestClock, policy: Policy) -> Self {
        Rig::of(vendor).policy(policy).network(Tap::new()).clock(clock).build()
    }

    /// The requests that were sent with this method, in order.
    pub fn sent(&self, method: &Method) -> Vec<Request> {
        let seen = self.network.seen.lock().expect("no test panics in here");
        seen.iter().filter(|request| request.method == *method).cloned().collect()
    }

    pub fn posts(&self) -> usize {
        self.sent(&Method::POST).len()
    }

    pub fn gets(&self) -> usize {
        self.sent(&Method::GET).len()
    }

    /// Sends, and sends again whenever the error says when to come back, until the operation is at rest. One
    /// whose vendor never recovers is still scheduled in the end, with effect unknown.
    pub async fn at_rest(&self, call: impl Fn() -> Call) -> Result<Reply, Error> {
        for _ in 0..8 {
            match call().send().await {
                Err(error) if error.retry_at().is_some() => {
                    let at = Timestamp::from(error.retry_at().expect("a time"));
                    self.clock.advance(at.since(self.clock.wall()));
                }
                settled => return settled,
            }
        }
        call().send().await
    }
}
