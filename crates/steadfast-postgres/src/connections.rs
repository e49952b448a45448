//! [`Connections`]: few of them, shared by all callers.
//!
//! There are two kinds. On a *line*, statements of many callers follow each other without waiting for answers.
//! Each of them is a transaction of its own. An *exclusive* connection is for a transaction of several
//! statements. A pool of one connection for each call in flight, the usual way, needs as many as there are
//! calls, and the server and its poolers have few.
//!
//! No connection has session state: no prepared statement with a name, no setting outside a transaction. So a
//! pooler in transaction mode may stand between.
//!
//! # Never wedged
//!
//! - The next caller that needs a lost connection opens a new one: one at a time, at growing pauses. The others
//!   wait for a limited time.
//! - A line on which a caller waits is watched: once a second an empty query joins the queue. If that is not
//!   answered within the statement timeout, the server is asked to cancel. If even then no answer comes, the
//!   line is cut, and the waiting callers get an error that the answer is lost.
//! - The server limits each statement of a transaction. If the server stays silent for longer than that, the
//!   connection is cut, and its permit is released.
//! - A caller must not stop reading half way: the driver then keeps back the next answer, and every other
//!   caller's. So a statement on a line runs as a task of the store's own thread ([`run`](Connections::run)),
//!   and not in the caller's future, which may be kept without being polled.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Error};

use steadfast_core::store::{StoreError, StoreErrorKind};

use super::address::Address;
use super::connect::{Connect, Connected};
use super::failure::{advice, failure, silent};
use super::line::{CANCEL_MAX, Line, LineHandle};
use super::opening::Opening;
use super::password::PasswordSource;
use super::schema::Schema;
use super::thread::Thread;

/// Numbers of connections, and time limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Number of lines, shared by all statements that are a transaction of their own.
    pub(super) lines: usize,
    /// Maximum of transactions of several statements at once.
    pub(super) exclusive: usize,
    /// Statement timeout: the server cancels a statement that takes longer.
    pub(super) statement_max: Duration,
    /// Time for which a caller waits for a connection.
    pub(super) wait_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            lines: 3,
            exclusive: 4,
            statement_max: Duration::from_secs(10),
            // As long as SQLite waits for its file.
            wait_max: Duration::from_secs(5),
        }
    }
}

/// The connections of a store. Cheap to clone. Dropping the last clone ends them.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    connect: Arc<Connect>,
    opening: Arc<Opening>,
    limits: Limits,
    lines: Box<[Arc<Line>]>,
    /// Number of the next line to use, modulo their number.
    next_line: AtomicUsize,
    idle: Mutex<Vec<Connected>>,
    permits: Arc<Semaphore>,
    thread: Thread,
}

impl Connections {
    /// Starts the thread; connects nothing yet.
    pub(super) fn new(
        address: Address,
        limits: Limits,
        source: Option<PasswordSource>,
    ) -> Result<Connections, StoreError> {
        let thread = Thread::start()?;
        let connect = Arc::new(thread.run_blocking(async { Connect::new(address, source) })?);
        let line = |_| Arc::new(Line::new(Arc::clone(&connect), limits.statement_max));
        Ok(Connections(Arc::new(Shared {
            opening: Arc::new(Opening::new(Arc::clone(&connect))),
            limits,
            lines: (0..limits.lines.max(1)).map(line).collect(),
            next_line: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(limits.exclusive.max(1))),
            thread,
            connect,
        })))
    }

    /// Returns a line to pipeline statements on, for a task of [`run`](Connections::run). Opens a new
    /// connection if the line's is gone, for at most [`wait_max`](Limits::wait_max).
    pub(super) async fn get(&self) -> Result<LineHandle, StoreError> {
        let shared = &self.0;
        let next_line = shared.next_line.fetch_add(1, Ordering::Relaxed);
        let line = &shared.lines[next_line % shared.lines.len()];
        if let Some(client) = line.current() {
            return Ok(client);
        }
        let (line, opening, wait) = (Arc::clone(line), Arc::clone(&shared.opening), shared.limits.wait_max);
        shared
            .thread
            .run(async move {
                let opened = Arc::clone(&line);
                let connected = opening.within(wait, || opened.current()).await?;
                Ok(connected.map_or_else(|current| current, |connected| line.set(connected)))
            })
            .await
    }

    /// Returns a connection for a transaction of several statements. No other caller has it until it is
    /// dropped. Dropping it inside a transaction rolls back.
    pub(super) async fn exclusive(&self) -> Result<Exclusive, StoreError> {
        let (this, wait) = (self.clone(), self.0.limits.wait_max);
        self.run(async move {
            let permits = Arc::clone(&this.0.permits);
            let Some(permit) = this.0.connect.within(wait, permits.acquire_owned()).await else {
                let problem = format!(
                    "all {} connections of the store were in use for {wait:?}: {}",
                    this.0.limits.exclusive,
                    advice(StoreErrorKind::Busy)
                );
                return Err(StoreError::new(problem).of_kind(StoreErrorKind::Busy));
            };
            let permit = permit.map_err(|error| {
                StoreError::with_source("the Postgres store has stopped", error)
                    .of_kind(StoreErrorKind::Stopped)
            })?;
            let opened = this.0.opening.within(wait, || this.idle()).await?;
            let connected = opened.unwrap_or_else(|idle| idle);
            Ok(Exclusive {
                connected: Some(connected),
                is_open: false,
                connections: this,
                permit: Some(permit),
            })
        })
        .await
    }

    /// Runs `work` on the store's own thread, and returns its output. The work continues if the future is
    /// dropped.
    pub(super) fn run<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.0.thread.run(work)
    }

    /// Blocking form of [`run`](Connections::run), for opening a store.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.thread.run_blocking(work)
    }

    /// Runs `work` on the store's own thread, in the background.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.thread.spawn(work);
    }

    pub(super) fn schema(&self) -> &Schema {
        self.0.connect.address.schema()
    }

    /// Returns true if features that a distributed Postgres lacks may not be used: advisory locks, LISTEN.
    pub(super) fn is_portable(&self) -> bool {
        self.0.connect.address.is_portable()
    }

    /// Returns true if the server's disk settings are not checked: `durability=elsewhere`.
    pub(super) fn is_durable_elsewhere(&self) -> bool {
        self.0.connect.address.is_durable_elsewhere()
    }

    /// Returns the settings for another connection, for a part that needs one of its own.
    pub(super) fn connect(&self) -> Arc<Connect> {
        Arc::clone(&self.0.connect)
    }

    /// Lets each new connection compare the store's place, from now on.
    pub(super) fn compare_places(&self) {
        self.0.connect.compare_places();
    }

    /// Returns the hosts and the database for messages, without a password.
    pub(super) fn place(&self) -> String {
        self.0.connect.address.place()
    }

    fn idle(&self) -> Option<Connected> {
        let mut idle = self.0.idle.lock();
        idle.retain(|connected| !connected.client.is_closed());
        idle.pop()
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.0.connect).field(&self.0.limits).finish()
    }
}

/// A connection that is not shared. It [derefs](Deref) to the client.
pub(super) struct Exclusive {
    /// The connection. `None` only after the drop.
    connected: Option<Connected>,
    /// True while a transaction is open.
    is_open: bool,
    connections: Connections,
    permit: Option<OwnedSemaphorePermit>,
}

impl Exclusive {
    /// Begins a transaction. The server cancels a statement of it that takes too long.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]. Nothing was written: the transaction has not begun.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        let Limits { statement_max, .. } = self.connections.0.limits;
        // Set in the transaction, so that a pooler gives the next client a session without it.
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {0}; SET LOCAL idle_in_transaction_session_timeout = {1}",
            statement_max.as_millis(),
            statement_max.as_millis().saturating_mul(3)
        );
        self.is_open = true;
        self.within("begin a transaction", self.batch_execute(&begin)).await.map_err(|failed| {
            let nothing = failed.kind() == StoreErrorKind::Lost;
            if nothing { failed.of_kind(StoreErrorKind::Unreachable) } else { failed }
        })
    }

    /// Waits for the server's answer, for as long as it may take to cancel a statement, and cuts the connection
    /// then. A host without power never answers, and the connection would be held for a quarter of an hour.
    ///
    /// # Errors
    ///
    /// The server's, or [`Lost`](StoreErrorKind::Lost).
    pub(super) fn within<'a, T: Send + 'a>(
        &'a self,
        doing: &'static str,
        answer: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'a {
        self.in_time(self.connections.0.limits.statement_max + CANCEL_MAX, doing, answer)
    }

    /// Form of [`within`](Exclusive::within) for a statement with a limit of its own.
    pub(super) fn in_time<'a, T: Send + 'a>(
        &'a self,
        limit: Duration,
        doing: &'static str,
        answer: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'a {
        // Boxed: the driver's futures would be part of those of every transaction, several times.
        let answer = Box::pin(answer);
        async move {
            if let Some(answered) = self.connections.0.connect.within(limit, answer).await {
                return answered
                    .map_err(|error| failure(doing, error))
                    .inspect_err(|error| self.record_failure(error));
            }
            if let Some(connected) = &self.connected {
                connected.driver.abort();
            }
            Err(silent(doing))
        }
    }

    fn record_failure(&self, error: &StoreError) {
        if let Some(connected) = &self.connected {
            connected.faults.record_failure(error, self.connections.0.connect.clock.now());
        }
    }

    /// Commits. After the error [`Lost`](StoreErrorKind::Lost) the transaction may be committed or not.
    pub(super) async fn commit(&mut self) -> Result<(), StoreError> {
        let doubts = || self.connected.as_ref().map(|connected| connected.faults.doubts());
        let before = doubts();
        self.within(COMMIT, self.batch_execute("COMMIT")).await?;
        if doubts() != before {
            return Err(silent(COMMIT));
        }
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Exclusive {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.connected.as_ref().expect("there until it is dropped").client
    }
}

impl DerefMut for Exclusive {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.connected.as_mut().expect("there until it is dropped").client
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let (Some(connected), permit) = (self.connected.take(), self.permit.take()) else { return };
        if connected.client.is_closed() {
            return;
        }
        if connected.faults.is_read_only() {
            connected.driver.abort();
            return;
        }
        if !self.is_open {
            self.connections.0.idle.lock().push(connected);
            return;
        }
        let connections = self.connections.clone();
        let limit = connections.0.limits.statement_max;
        self.connections.spawn(async move {
            let rollback =
                connections.0.connect.within(limit, connected.client.batch_execute("ROLLBACK")).await;
            if matches!(rollback, Some(Ok(()))) {
                connections.0.idle.lock().push(connected);
            } else {
                connected.driver.abort();
            }
            drop(permit);
        });
    }
}

const COMMIT: &str = "commit";

#[cfg(test)]
mod tests;
