//! [`Thread`]: the store's own runtime, which drives its connections.
//!
//! A connection is driven by a task, and a task needs a runtime that is never late. The caller's runtime is not
//! that. A test pauses its clock, and the command line's ends between two commands. A handler that computes for
//! a second would delay the statements of all callers. So the store has a runtime of one thread of its own, as
//! SQLite has a thread that writes. It also lets [`open`](super::PostgresBuilder::open) block, inside a runtime
//! and outside of one.

use std::future::Future;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use steadfast_core::internal::guard;
use steadfast_core::store::{StoreError, StoreErrorKind};

/// A runtime on a thread of its own. Dropping it ends the thread and every connection.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    /// Ends the thread when it is dropped. No caller waits for that: the last owner may be a task on the thread
    /// itself.
    _stop: oneshot::Sender<()>,
}

impl Thread {
    pub(super) fn start() -> Result<Thread, StoreError> {
        let no_thread = |error| StoreError::with_source("the Postgres store cannot start a thread", error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // An error means that the sender is gone, which is the signal to stop.
            let _ = runtime.block_on(stopped);
        };
        std::thread::Builder::new()
            .name("steadfast-postgres".to_owned())
            .spawn(guard::inherited(run))
            .map_err(no_thread)?;
        Ok(Thread { handle, _stop: stop })
    }

    /// Runs `work` on the thread, in the background.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Runs `work` on the thread, and returns its output. The work continues if the future is dropped.
    pub(super) fn run<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        // Not in an async block: that would be as large as the work.
        let done = self.handle.spawn(work);
        async move { done.await.unwrap_or_else(|_| Err(stopped())) }
    }

    /// Blocking form of [`run`](Thread::run).
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = reply.send(work.await);
        });
        answer.recv().unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> StoreError {
    StoreError::new("the Postgres store has stopped; open it again").of_kind(StoreErrorKind::Stopped)
}
