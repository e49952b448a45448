//! A process that stops lets go of what it has taken over and not sent.

use tokio::sync::watch;

use steadfast_core::Error;
use steadfast_core::clock::Instant;
use steadfast_core::internal::guard::Guard;

use super::phase::Run;

/// Says to the operations that a dispatcher carries on when it is to stop. One that waits is then let go of, for another
/// process to take; an attempt under way is finished.
#[derive(Clone, Debug)]
pub(crate) struct Leaving(watch::Receiver<bool>);

impl Leaving {
    pub(crate) const fn when(said: watch::Receiver<bool>) -> Leaving {
        Leaving(said)
    }

    fn is_now(&self) -> bool {
        *self.0.borrow()
    }

    /// Until then. Who has gone without saying so does not leave: its work was dropped with it.
    pub(crate) async fn said(mut self) {
        if self.0.wait_for(|leaving| *leaving).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Run<'_> {
    /// Whether the operation is to be let go of as soon as nothing of it is under way.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving().is_some_and(Leaving::is_now)
    }

    fn leaving(&self) -> Option<&Leaving> {
        Guard::LetGoOnStop.keeps(self.leaving.as_ref())
    }

    /// Sleeps until `at`. Whether it came to the end of it.
    pub(super) async fn sleep_unless_leaving(&self, at: Instant) -> bool {
        let slept = self.engine.clock.sleep_until(at);
        let Some(leaving) = self.leaving().cloned() else {
            slept.await;
            return true;
        };
        tokio::select! {
            biased;
            () = leaving.said() => false,
            () = slept => true,
        }
    }

    /// Lets go of the operation before a send that only our own gates hold up. Another process may take it at once,
    /// or when the pause is over that the vendor asked for.
    pub(super) async fn let_go(&mut self) -> Error {
        let (now, kind) = (self.engine.clock.now(), self.dependency());
        // Of this process, for whichever operation.
        let asked = self.engine.gates.pause().until(now);
        self.postpone(asked.unwrap_or(now), kind).await
    }
}
