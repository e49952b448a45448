//! [`Pools`]: the reqwest clients behind one transport, and which of them a request takes.
//!
//! A client of reqwest is a pool of connections, and no caller can take one connection out of it. Two things follow:
//!
//! - A connection that swallows would be used for ever: HTTP/2 puts every request on the one that it has. So repeats
//!   and probes go through a client that keeps no connection. The pool is replaced once it is suspect: an exchange was
//!   given up, and the pool answered nothing since it began. It is replaced before a probe too, or a circuit that
//!   closes would lead back to the dead connection. Neither happens more often than every [`REPLACED_EVERY`]: a slow
//!   vendor must not be stormed with handshakes. No shared connection is closed for one attempt. Exchanges under way on
//!   the old pool end as they would.
//! - The task of a connection runs on the runtime that opened it. A request of another runtime would stand still while
//!   that one does not run, and break off when it ends. So each runtime has a pool of its own. A thread that drives all
//!   connections would do as well, but cost each call two changes of thread.
//!
//! A client is made when a request first needs it: TLS reads the certificates of the platform, which takes tens of
//! milliseconds and fails where there are none. A request over http needs none.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::Version;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{self, Handle};
use tokio::sync::{OnceCell, oneshot};

use steadfast_core::clock::{Clock as _, Instant, SystemClock};
use steadfast_core::internal::ext::LimitsExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::transport::{Limits, SendError};

use crate::transport::failure::not_set_up;

/// The clients for targets of one kind.
pub(super) struct Pools {
    setup: Setup,
    /// Pool of each runtime.
    shared: RwLock<Vec<Arc<Pool>>>,
    /// Keeps no connection.
    apart: Arc<OnceCell<reqwest::Client>>,
    clock: SystemClock,
    /// Times at which pools were last replaced: because one was suspect, and before a probe.
    replaced_at: Mutex<[Option<Instant>; 2]>,
}

/// Settings by which clients are made.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) make: Arc<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>,
    pub(super) trust: Trust,
}

/// Certificates that a client accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those of the builder, by default the platform's.
    AsBuilt,
    /// Those of the builder if they can be read, else none: for http, where a proxy may still need them.
    IfReadable,
    /// None: for http without a proxy.
    None,
}

impl Setup {
    fn build(&self, keeps_connections: bool) -> Result<reqwest::Client, reqwest::Error> {
        let builder = || {
            let builder = (self.make)();
            if keeps_connections { builder } else { builder.pool_max_idle_per_host(0) }
        };
        match self.trust {
            Trust::AsBuilt => builder().build(),
            Trust::IfReadable => builder().build().or_else(|_| trusting_none(builder()).build()),
            Trust::None => trusting_none(builder()).build(),
        }
    }
}

fn trusting_none(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    let builder = builder.tls_certs_only([]);
    builder
}

/// The connections of one runtime.
struct Pool {
    runtime: runtime::Id,
    /// Closed once the runtime has ended, as its other end is held by a task there. An id may then be another
    /// runtime's.
    ended: oneshot::Sender<()>,
    client: Arc<OnceCell<reqwest::Client>>,
    answers: AtomicU64,
    /// The last answer came over HTTP/1, which closes the connection of an exchange that is given up.
    is_http1: AtomicBool,
}

impl Pool {
    fn is_of(&self, runtime: runtime::Id) -> bool {
        Guard::RuntimesApart.is_out() || (self.runtime == runtime && !self.ended.is_closed())
    }
}

impl Pools {
    pub(super) fn new(setup: Setup) -> Pools {
        Pools {
            setup,
            shared: RwLock::default(),
            apart: Arc::default(),
            clock: SystemClock::new(),
            replaced_at: Mutex::default(),
        }
    }

    /// Checks that clients can be made, but for the certificates.
    pub(super) fn check(&self) -> Result<(), reqwest::Error> {
        Setup { trust: Trust::None, ..self.setup.clone() }.build(true).map(drop)
    }

    /// Sends the request, until the answer's head has come. Nothing of it leaves before `prepare` was called.
    pub(super) async fn execute(
        &self,
        limits: &Limits,
        prepare: impl FnOnce() -> reqwest::Request,
    ) -> Result<Result<reqwest::Response, reqwest::Error>, SendError> {
        if limits.is_probe() {
            self.replace(None);
        }
        if limits.new_connection {
            let client = self.apart.get_or_try_init(|| self.build(&self.apart, false)).await?;
            return Ok(client.execute(prepare()).await);
        }
        let pool = self.pool();
        let client = pool.client.get_or_try_init(|| self.build(&pool.client, true)).await?;
        let answers = pool.answers.load(Ordering::Relaxed);
        let under_way = UnderWay { pools: self, pool: &pool, answers, is_given_up: true };
        let answered = client.execute(prepare()).await;
        under_way.ended(&answered);
        Ok(answered)
    }

    /// Builds a client on a thread that may block. The client is kept in `cell` also if its caller is gone.
    async fn build(
        &self,
        cell: &Arc<OnceCell<reqwest::Client>>,
        keeps_connections: bool,
    ) -> Result<reqwest::Client, SendError> {
        if self.setup.trust == Trust::None {
            return self.setup.build(keeps_connections).map_err(not_set_up);
        }
        let (setup, cell) = (self.setup.clone(), Arc::clone(cell));
        let building = move || {
            let client = setup.build(keeps_connections).map_err(not_set_up)?;
            // Declined while its caller waits, which sets it then.
            let _ = cell.set(client.clone());
            Ok(client)
        };
        tokio::task::spawn_blocking(building).await.unwrap_or_else(|error| Err(not_set_up(error)))
    }

    /// The pool of the runtime that asks.
    fn pool(&self) -> Arc<Pool> {
        let handle = Handle::current();
        let runtime = handle.id();
        let of_ours = |pools: &Vec<Arc<Pool>>| pools.iter().find(|pool| pool.is_of(runtime)).cloned();
        // Not in an `if let`, which would hold the lock to its end.
        let found = of_ours(&self.shared.read());
        if let Some(pool) = found {
            return pool;
        }
        let mut pools = self.shared.write();
        pools.retain(|pool| !pool.ended.is_closed());
        of_ours(&pools).unwrap_or_else(|| {
            let (ended, end) = oneshot::channel();
            // Ends with the pool, or with the runtime.
            drop(handle.spawn(end));
            let (client, answers, is_http1) = (Arc::default(), AtomicU64::new(0), AtomicBool::new(false));
            let pool = Arc::new(Pool { runtime, ended, client, answers, is_http1 });
            pools.push(Arc::clone(&pool));
            pool
        })
    }

    /// Forgets this pool, or all: the next request opens a connection. Exchanges that are under way go on.
    fn replace(&self, suspect: Option<&Arc<Pool>>) {
        let now = self.clock.now();
        let mut replaced_at = self.replaced_at.lock();
        let last = &mut replaced_at[usize::from(suspect.is_none())];
        if Guard::PoolReplaced.is_out() || last.is_some_and(|at| now.since(at) < REPLACED_EVERY) {
            return;
        }
        *last = Some(now);
        let mut pools = self.shared.write();
        let forgotten = match suspect {
            Some(suspect) => pools.extract_if(.., |pool| Arc::ptr_eq(pool, suspect)).collect(),
            None => mem::take(&mut *pools),
        };
        // Outside the locks: dropping a client closes its connections.
        drop((pools, replaced_at));
        drop(forgotten);
    }
}

/// An exchange on a shared connection. One that is dropped, or that ran out of its caller's time, was given up.
struct UnderWay<'a> {
    pools: &'a Pools,
    pool: &'a Arc<Pool>,
    /// Number of answers that the pool had had when it began.
    answers: u64,
    is_given_up: bool,
}

impl UnderWay<'_> {
    fn ended(mut self, answered: &Result<reqwest::Response, reqwest::Error>) {
        match answered {
            Ok(response) => {
                let is_http1 = response.version() < Version::HTTP_2;
                if self.pool.is_http1.load(Ordering::Relaxed) != is_http1 {
                    self.pool.is_http1.store(is_http1, Ordering::Relaxed);
                }
                self.pool.answers.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_timeout() && !error.is_connect() => return,
            // The connection broke, so that the pool has forgotten it.
            Err(_) => {}
        }
        self.is_given_up = false;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let is_silent = self.is_given_up && self.pool.answers.load(Ordering::Relaxed) == self.answers;
        if is_silent && !self.pool.is_http1.load(Ordering::Relaxed) {
            self.pools.replace(Some(self.pool));
        }
    }
}

/// Pause between two replacements of a pool. Each costs a handshake, and the certificates are read again.
const REPLACED_EVERY: Duration = Duration::from_secs(5);
