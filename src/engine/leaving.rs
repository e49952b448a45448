//! A process that stops lets go of what it has taken over and not sent.

use tokio::sync::watch;

use steadfast_core::internal::guard::Guard;

use super::run::Run;

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

    /// The word of the process, for an operation that it took over.
    pub(super) fn leaving(&self) -> Option<&Leaving> {
        Guard::LetGoOnStop.keeps(self.leaving.as_ref())
    }
}
