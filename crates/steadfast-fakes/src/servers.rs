//! The wiremock servers behind one front.
//!
//! Wiremock keeps a copy of each request that a mock has answered for as long as the mock is mounted, recording or
//! not. Over a long run that is far more than all that the fake itself holds, and to unmount a mock takes it from
//! requests that are on their way. So each server has one mock, mounted once, and takes so many requests. Then its
//! successor takes the next ones, which has been started meanwhile. The old server ends with the last of its own
//! requests. No request waits for any of this.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use steadfast_core::clock::Clock;
use steadfast_testkit::internal::{Backend, Lease};

use super::serve::{Behaviour, dated};

/// All servers that still have requests, known by the one that takes the next.
pub(super) struct Servers {
    next: Mutex<Arc<Server>>,
    full: Notify,
}

/// One server, up and with its mock.
struct Server {
    wiremock: MockServer,
    serial: u64,
    taken: AtomicUsize,
}

/// The one mock. It answers everything with the fake's state machine.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) behaviour: Arc<dyn Behaviour>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Servers {
    /// Starts the first. The others come by the task, until it is dropped.
    pub(super) async fn start(answers: Answers) -> (Arc<Servers>, JoinSet<()>) {
        let first = Arc::new(Server::start(&answers, 0).await);
        let servers = Arc::new(Servers { next: Mutex::new(first), full: Notify::new() });
        let mut succession = JoinSet::new();
        succession.spawn(Arc::clone(&servers).succeed(answers));
        (servers, succession)
    }

    async fn succeed(self: Arc<Servers>, answers: Answers) {
        for serial in 1.. {
            self.full.notified().await;
            let server = Arc::new(Server::start(&answers, serial).await);
            let old = std::mem::replace(&mut *self.next.lock(), server);
            // Not under the lock: if it has no more requests it ends here.
            drop(old);
        }
    }
}

impl Backend for Servers {
    fn lease(&self) -> Lease {
        let server = Arc::clone(&self.next.lock());
        if server.taken.fetch_add(1, Ordering::Relaxed) + 1 == TAKEN_MAX {
            self.full.notify_one();
        }
        Lease { address: *server.wiremock.address(), serial: server.serial, _held: Some(server) }
    }
}

impl Server {
    async fn start(answers: &Answers, serial: u64) -> Server {
        // The ledger is what a fake is asked for, and not wiremock's recording.
        let wiremock = MockServer::builder().disable_request_recording().start().await;
        wiremock.register(Mock::given(any()).respond_with(answers.clone())).await;
        Server { wiremock, serial, taken: AtomicUsize::new(0) }
    }
}

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        dated(self.behaviour.answer(request), &*self.clock).template()
    }
}

/// Some two megabytes' worth.
const TAKEN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::fixture::Reply;
    use steadfast_core::clock::SystemClock;
    use steadfast_testkit::internal::Wiring;
    use steadfast_testkit::{FaultPlan, Front};

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Behaviour for Counting {
        fn answer(&self, _: &Request) -> Reply {
            self.0.fetch_add(1, Ordering::Relaxed);
            Reply::empty(204)
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "servers on threads of their own start and end in real time"
    )]
    async fn a_moment() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    struct Bench {
        counting: Arc<Counting>,
        servers: Arc<Servers>,
        front: Front,
        _succession: JoinSet<()>,
    }

    impl Bench {
        async fn start() -> Bench {
            let counting = Arc::new(Counting::default());
            let clock = Arc::new(SystemClock::new());
            let (servers, succession) = Servers::start(Answers { behaviour: counting.clone(), clock }).await;
            let mut wiring = Wiring::new(servers.clone(), FaultPlan::new(), None);
            wiring.keeps_backend = true;
            let front = steadfast_testkit::internal::listen(wiring).await.unwrap();
            Bench { counting, servers, front, _succession: succession }
        }

        async fn ask(&self, client: &reqwest::Client, times: usize) {
            for _ in 0..times {
                assert_eq!(client.get(self.front.url()).send().await.unwrap().status(), 204);
            }
        }

        /// Waits until the server of this serial takes the requests.
        async fn succeeded(&self, serial: u64) {
            while self.servers.next.lock().serial < serial {
                a_moment().await;
            }
        }
    }

    #[tokio::test]
    async fn a_server_takes_so_many_requests_and_ends_with_its_last() {
        let bench = Bench::start().await;
        let client = reqwest::Client::new();
        bench.ask(&client, 1).await;
        let (first, address) = {
            let first = bench.servers.next.lock();
            (Arc::downgrade(&first), *first.wiremock.address())
        };
        let on_its_way = bench.servers.lease();
        bench.ask(&client, TAKEN_MAX - 2).await;
        bench.succeeded(1).await;
        // The connection that the front has kept is not to this one.
        bench.ask(&client, 1).await;
        assert_eq!(bench.servers.next.lock().taken.load(Ordering::Relaxed), 1);

        let late = client.get(format!("http://{}", on_its_way.address)).send().await.unwrap();
        assert_eq!(late.status(), 204, "as if its successor were not there");
        drop(on_its_way);
        assert!(first.upgrade().is_none(), "a connection that waits does not keep it");
        while TcpStream::connect(address).is_ok() {
            a_moment().await;
        }
        assert_eq!(bench.counting.0.load(Ordering::Relaxed), TAKEN_MAX + 1);
    }

    #[tokio::test]
    async fn no_request_is_lost_or_answered_twice_while_servers_succeed_each_other() {
        const CALLERS: usize = 8;
        let bench = Arc::new(Bench::start().await);
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let bench = Arc::clone(&bench);
            callers.spawn(async move { bench.ask(&reqwest::Client::new(), TAKEN_MAX / 2).await });
        }
        callers.join_all().await;
        assert_eq!(bench.counting.0.load(Ordering::Relaxed), CALLERS * (TAKEN_MAX / 2));
        assert!(bench.servers.next.lock().serial >= 2, "two took no more");
    }
}
