//! Signals that ask a process to end.

use crate::failure::Failure;

/// SIGTERM and SIGINT. Both ask a process to end: the first from an orchestrator, the second from a person at a
/// terminal.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Installs the handlers: from now on the signals no longer end the process by themselves.
    pub(crate) fn new() -> Result<Signals, Failure> {
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |kind| signal(kind).map_err(Failure::Signals);
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> Result<Signals, Failure> {
        Ok(Signals)
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
