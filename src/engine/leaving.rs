//! A process that stops lets go of what it has taken over and not sent.

use tokio::sync::watch;

/// Says to the operations that a dispatcher carries on when it is to stop. One that waits is then let go of, for another
/// process to take; an attempt under way is finished.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    pub(crate) const fn when(said: watch::Receiver<bool>) -> Shutdown {
        Shutdown(said)
    }

    pub(super) fn is_now(&self) -> bool {
        *self.0.borrow()
    }

    /// Until then. Who has gone without saying so does not leave: its work was dropped with it.
    pub(crate) async fn said(mut self) {
        if self.0.wait_for(|leaving| *leaving).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
