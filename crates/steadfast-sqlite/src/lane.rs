//! A thread that owns a connection, and the bounded queue before it.
//!
//! SQLite blocks: on its file, on locks, on the disk's cache. None of that may happen on an async thread, so a
//! caller sends a [`Job`] and awaits its reply. The store has a thread of its own and does not use tokio's
//! blocking pool. There must be one writer, and it must not wait for a slot behind another task's DNS lookups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use steadfast_core::internal::{guard, panic_text};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::prepared::Prepared;

/// Work on a connection, and the reply to the caller that waits for it.
pub(super) trait Job: Send {
    /// Returns true if the caller has gone and the job may be skipped.
    fn is_abandoned(&self) -> bool;

    /// Does the work. It runs again from the start if its changes were rolled back.
    fn run(&mut self, on: &Prepared<'_>) -> Result<(), StoreError>;

    /// Sends the result to the caller.
    fn reply(self: Box<Self>, ended: Result<(), StoreError>);
}

/// A thread and its queue.
#[derive(Debug)]
pub(super) struct Lane {
    queue: mpsc::Sender<Box<dyn Job>>,
    /// Panic message of the thread. Empty unless it panicked.
    panic_message: Arc<OnceLock<String>>,
    /// Closed after the thread has ended and its connection is shut.
    ended: oneshot::Receiver<()>,
}

impl Lane {
    /// Starts a thread that runs `work` with each batch of at most `batch_max` jobs.
    pub(super) fn start(
        name: &str,
        connection: Connection,
        (queue_max, batch_max): (usize, usize),
        mut work: impl FnMut(&Prepared<'_>, &mut Vec<Box<dyn Job>>) + Send + 'static,
    ) -> Result<Lane, StoreError> {
        let (queue, mut jobs) = mpsc::channel::<Box<dyn Job>>(queue_max);
        let (alive, ended) = oneshot::channel::<()>();
        let panic_message = Arc::new(OnceLock::new());
        let noted = panic_message.clone();
        let run = move || {
            let mut batch = Vec::with_capacity(batch_max);
            let prepared = Prepared::new(&connection);
            while jobs.blocking_recv_many(&mut batch, batch_max) > 0 {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&prepared, &mut batch))) {
                    // Recorded before the replies are dropped, so that waiting callers can get the reason.
                    let _ = noted.set(panic_text(&*panic).to_owned());
                    tracing::error!(problem = panic_text(&*panic), "a thread of the SQLite store panicked");
                    break;
                }
                batch.clear();
            }
            drop((batch, jobs, prepared));
            drop(connection);
            drop(alive);
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(guard::inherited(run))
            .map_err(|error| StoreError::with_source("the SQLite store cannot start a thread", error))?;
        Ok(Lane { queue, panic_message, ended })
    }

    /// Runs `work` on the thread, and returns its output. Waits while the queue is full.
    ///
    /// If the future is dropped while it waits for the queue, nothing runs. If it is dropped later, `on_drop`
    /// decides.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        on_drop: OnDrop,
        mut work: impl FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ((), done) = self.run_on(on_drop, (), move |on: &Prepared<'_>, ()| work(on)).await?;
        Ok(done)
    }

    /// Form of [`run`](Lane::run) with a value that comes back with the answer: neither side needs to copy it.
    pub(super) async fn run_on<S: Send + 'static, T: Send + 'static>(
        &self,
        on_drop: OnDrop,
        subject: S,
        work: impl FnMut(&Prepared<'_>, &S) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(S, T), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(on_drop, subject, work, reply).await?;
        answer.await.map_err(|_| self.stopped())?
    }

    /// Adds `work` to the queue. Its result goes to `reply`.
    pub(super) async fn enqueue<S: Send + 'static, T: Send + 'static>(
        &self,
        on_drop: OnDrop,
        subject: S,
        work: impl FnMut(&Prepared<'_>, &S) -> Result<T, StoreError> + Send + 'static,
        reply: Reply<S, T>,
    ) -> Result<(), StoreError> {
        let task = Task { subject, work, done: None, reply, on_drop };
        self.queue.send(Box::new(task)).await.map_err(|_| self.stopped())
    }

    /// A weak sender: it does not keep the thread alive.
    pub(super) fn weak(&self) -> WeakLane {
        WeakLane { queue: self.queue.downgrade() }
    }

    /// Returns how many more jobs the queue takes before a caller waits.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.queue.capacity()
    }

    /// Waits until all jobs in the queue are done and the connection is shut.
    pub(super) async fn close(self) {
        drop(self.queue);
        let _ = self.ended.await;
    }

    fn stopped(&self) -> StoreError {
        let problem = "the SQLite store has stopped; open it again";
        let error = match self.panic_message.get() {
            Some(panic_message) => StoreError::with_source(problem, panic_message.as_str()),
            None => StoreError::new(problem),
        };
        error.of_kind(StoreErrorKind::Stopped)
    }
}

/// A weak handle for optional work: it does not keep the thread alive.
#[derive(Debug)]
pub(super) struct WeakLane {
    queue: mpsc::WeakSender<Box<dyn Job>>,
}

impl WeakLane {
    /// Runs `work` if there is room in the queue. No caller waits for it, and its result is dropped.
    pub(super) fn offer(&self, mut work: impl FnMut(&Connection) -> Result<(), StoreError> + Send + 'static) {
        let Some(queue) = self.queue.upgrade() else { return };
        let (reply, _) = oneshot::channel();
        let work = move |on: &Prepared<'_>, (): &()| work(on);
        let task = Task { subject: (), work, done: None, reply, on_drop: OnDrop::Finish };
        let _ = queue.try_send(Box::new(task));
    }
}

/// Treatment of queued work after its caller has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDrop {
    /// Skips it: a claim would hold an operation for a caller that has gone.
    Skip,
    /// Runs it: a holder's result must be kept.
    Finish,
}

type Reply<S, T> = oneshot::Sender<Result<(S, T), StoreError>>;

struct Task<S, T, F> {
    subject: S,
    work: F,
    done: Option<T>,
    reply: Reply<S, T>,
    on_drop: OnDrop,
}

impl<S: Send, T: Send, F: FnMut(&Prepared<'_>, &S) -> Result<T, StoreError> + Send> Job for Task<S, T, F> {
    fn is_abandoned(&self) -> bool {
        self.on_drop == OnDrop::Skip && self.reply.is_closed()
    }

    fn run(&mut self, on: &Prepared<'_>) -> Result<(), StoreError> {
        self.done = None;
        self.done = Some((self.work)(on, &self.subject)?);
        Ok(())
    }

    fn reply(self: Box<Self>, ended: Result<(), StoreError>) {
        let answer = match (ended, self.done) {
            (Ok(()), Some(done)) => Ok((self.subject, done)),
            (Ok(()), None) => Err(StoreError::new("the SQLite store did not run this call")),
            (Err(error), _) => Err(error),
        };
        let _ = self.reply.send(answer);
    }
}
