//! The parts that the fakes share: wiremock, which answers everything with one state machine, and a front; or neither,
//! for a fake that is reached in process.
//!
//! One catch-all mock, not one per route. Idempotency crosses routes: Stripe's key belongs to the account. And an
//! unknown route must be answered as the vendor would, not with wiremock's own 404.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::task::JoinSet;
use wiremock::Request;

use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_testkit::internal::{Page, Wiring};
use steadfast_testkit::{FAULT_HEADER, Fault, FaultPlan, Front, TestClock};

use super::fixture::Reply;
use super::in_process::InProcess;
use super::servers::{Answers, Servers};

/// A vendor's state machine: one request in, one answer out, atomically.
pub(super) trait Behaviour: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Reply;

    /// Does what a shopper does in a browser, which a test asks for; `None` at a vendor that has no shoppers.
    fn shopper(&self, _body: &[u8]) -> Option<Reply> {
        None
    }
}

/// The settings that every fake can be given.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) plan: FaultPlan,
    /// Whose time slow answers take; real time if `None`.
    pub(super) pace: Option<TestClock>,
    pub(super) ledger_file: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { clock: Arc::new(SystemClock::new()), plan: FaultPlan::new(), pace: None, ledger_file: None }
    }
}

/// A running fake. Dropping it closes its listeners, if it has any.
#[derive(Debug)]
pub(super) struct Served {
    url: String,
    transport: InProcess,
    /// The front, and the task that starts the servers behind it and ends with its set.
    _listeners: Option<(Front, JoinSet<()>)>,
}

impl Served {
    /// Starts the server and its front on the loopback interface, the front on this port or on a free one.
    pub(super) async fn start(
        behaviour: Arc<dyn Behaviour>,
        setup: Setup,
        page: Arc<dyn Page>,
        port: u16,
    ) -> io::Result<Served> {
        let answers = Answers { behaviour: Arc::clone(&behaviour), clock: Arc::clone(&setup.clock) };
        let (servers, succession) = Servers::start(answers).await;
        let mut wiring = Wiring::new(servers, setup.plan.clone(), setup.pace.as_ref());
        // Wiremock never closes a connection by itself.
        (wiring.port, wiring.page, wiring.keeps_backend) = (port, Some(page), true);
        let front = steadfast_testkit::internal::listen(wiring).await?;
        let (url, transport) = (front.url(), InProcess::new(behaviour, setup));
        Ok(Served { url, transport, _listeners: Some((front, succession)) })
    }

    /// Listens nowhere. The URL is one that resolves nowhere (RFC 2606, section 2).
    pub(super) fn in_process(behaviour: Arc<dyn Behaviour>, setup: Setup, name: &str) -> Served {
        let transport = InProcess::new(behaviour, setup);
        Served { url: format!("https://{name}.test"), transport, _listeners: None }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    pub(super) fn plan(&self) -> &FaultPlan {
        self.transport.plan()
    }

    pub(super) fn transport(&self) -> InProcess {
        self.transport.clone()
    }
}

/// The fault that the front passed on with this request.
pub(super) fn fault_of(headers: &HeaderMap) -> Option<Fault> {
    header(headers, FAULT_HEADER).and_then(Fault::from_header)
}

/// A header's value, if it is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a lookup shows what was made then, if lookups lag so far behind. `Timestamp::plus` would tell it too, by a long
/// division. A search asks it of everything.
pub(super) fn shows(made: Timestamp, now: Timestamp, lag: Duration) -> bool {
    now >= made && now.since(made) >= lag
}

/// With the `Date` of the fake's own clock: the machine's would not be that of what the fake creates.
pub(super) fn dated(reply: Reply, clock: &dyn Clock) -> Reply {
    reply.header("Date", clock.wall().to_string())
}
