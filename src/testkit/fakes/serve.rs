//! What the three fakes share: a wiremock server that answers everything with one state machine, and a front; or
//! neither, for a fake that is reached in process.
//!
//! One catch-all mock, not one per route. Idempotency crosses routes: Stripe's key belongs to the account. And an
//! unknown route must be answered as the vendor would, not with wiremock's own 404.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::{Notify, RwLock};
use tokio::task::JoinSet;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::fixture::Reply;
use super::in_process::InProcess;
use super::ledger::Ledger;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::testkit::front::{Page, Wiring};
use crate::testkit::{FAULT_HEADER, Fault, FaultPlan, Front, TestClock};

/// A vendor's state machine: one request in, one answer out, atomically.
pub(super) trait Behaviour: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Reply;
}

/// What every fake can be given.
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

impl Setup {
    /// # Panics
    ///
    /// If the file cannot be opened.
    pub(super) fn ledger(&self) -> Ledger {
        Ledger::kept_in(self.ledger_file.as_deref()).expect("the ledger's file can be opened")
    }
}

/// A running fake. Dropping it closes its listeners, if it has any.
#[derive(Debug)]
pub(super) struct Served {
    url: String,
    transport: InProcess,
    /// The front, and the task that has the server and ends with its set.
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
        let mount = Mount::new(Arc::clone(&behaviour), Arc::clone(&setup.clock));
        let (front, renewal) = mount.listen(&setup, Some(page), port).await?;
        let (url, transport) = (front.url(), InProcess::new(behaviour, setup));
        Ok(Served { url, transport, _listeners: Some((front, renewal)) })
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

/// The one mock. Wiremock keeps a copy of each request that a mock answers for as long as it is mounted, recording or
/// not. Over a long run that is far more than all that the fake itself holds. So it is mounted anew now and then.
#[derive(Clone)]
struct Mount {
    behaviour: Arc<dyn Behaviour>,
    clock: Arc<dyn Clock>,
    /// How many requests wiremock keeps by now.
    kept: Arc<AtomicUsize>,
    full: Arc<Notify>,
}

impl Mount {
    fn new(behaviour: Arc<dyn Behaviour>, clock: Arc<dyn Clock>) -> Mount {
        Mount { behaviour, clock, kept: Arc::default(), full: Arc::default() }
    }

    /// Starts the server and its front. The server ends with the task.
    async fn listen(
        self,
        setup: &Setup,
        page: Option<Arc<dyn Page>>,
        port: u16,
    ) -> io::Result<(Front, JoinSet<()>)> {
        // The ledger is what a fake is asked for, and not wiremock's recording.
        let server = MockServer::builder().disable_request_recording().start().await;
        self.put_on(&server).await;
        let mut wiring = Wiring::new(*server.address(), setup.plan.clone(), setup.pace.as_ref());
        // Wiremock never closes a connection by itself.
        (wiring.port, wiring.page, wiring.keeps_backend) = (port, page, true);
        let front = Front::listen(wiring).await?;
        let mut renewal = JoinSet::new();
        renewal.spawn(self.renew(server, front.passage()));
        Ok((front, renewal))
    }

    async fn put_on(&self, server: &MockServer) {
        server.register(Mock::given(any()).respond_with(self.clone())).await;
    }

    /// Mounts it anew each time that wiremock keeps enough: never while a request is on its way, which would find
    /// no mock and be told 404 by wiremock.
    async fn renew(self, server: MockServer, passage: Arc<RwLock<()>>) {
        loop {
            self.full.notified().await;
            let _alone = passage.write().await;
            server.reset().await;
            self.kept.store(0, Ordering::Relaxed);
            self.put_on(&server).await;
        }
    }
}

impl Respond for Mount {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        if self.kept.fetch_add(1, Ordering::Relaxed) + 1 == KEPT_MAX {
            self.full.notify_one();
        }
        dated(self.behaviour.answer(request), &*self.clock).template()
    }
}

/// Some two megabytes' worth.
const KEPT_MAX: usize = 500;

/// The fault that the front passed on with this request.
pub(super) fn fault_of(headers: &HeaderMap) -> Option<Fault> {
    header(headers, FAULT_HEADER).and_then(Fault::from_header)
}

/// A header's value, if it is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A query parameter's decoded value.
pub(super) fn query(request: &Request, name: &str) -> Option<String> {
    request.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// With the `Date` of the fake's own clock: the machine's would not be that of what the fake creates.
pub(super) fn dated(reply: Reply, clock: &dyn Clock) -> Reply {
    reply.header("Date", clock.wall().to_string())
}

/// An HTTP date this long after the clock's present, rounded up to a whole second.
pub(super) fn date(clock: &dyn Clock, wait: Duration) -> String {
    let seconds = clock.wall().plus(wait).as_millis().div_ceil(1000);
    Timestamp::from_millis(seconds.saturating_mul(1000)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Behaviour for Counting {
        fn answer(&self, _: &Request) -> Reply {
            self.0.fetch_add(1, Ordering::Relaxed);
            Reply::empty(204)
        }
    }

    #[tokio::test]
    async fn wiremock_keeps_few_requests_and_none_finds_it_without_a_mock() {
        let counting = Arc::new(Counting::default());
        let mount = Mount::new(counting.clone(), Setup::default().clock);
        let (front, _renewal) = mount.clone().listen(&Setup::default(), None, 0).await.unwrap();
        let client = reqwest::Client::new();
        let passing = front.passage().read_owned().await;
        for _ in 0..KEPT_MAX {
            assert_eq!(client.get(front.url()).send().await.unwrap().status(), 204);
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(mount.kept.load(Ordering::Relaxed), KEPT_MAX, "not while a request is on its way");
        drop(passing);
        assert_eq!(client.get(front.url()).send().await.unwrap().status(), 204);
        assert_eq!(mount.kept.load(Ordering::Relaxed), 1, "mounted anew before the next came through");

        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let (client, url) = (client.clone(), front.url());
            callers.spawn(async move {
                for _ in 0..KEPT_MAX / 2 {
                    assert_eq!(client.get(&url).send().await.unwrap().status(), 204);
                }
            });
        }
        callers.join_all().await;
        assert_eq!(counting.0.load(Ordering::Relaxed), 1 + KEPT_MAX + 8 * (KEPT_MAX / 2));
    }
}
