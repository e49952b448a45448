//! Keeping the lease while a call waits, and making sure of it before a send.

use std::time::Duration;

use steadfast_core::Error;
use steadfast_core::clock::Instant;

use super::phase::Run;

impl Run<'_> {
    /// Makes sure that the hold lasts for `needed`, and says from when on it does.
    pub(super) async fn keep_lease(&mut self, needed: Duration) -> Result<Instant, Error> {
        let now = self.engine.clock.now();
        if self.hold.as_ref().is_none_or(|hold| hold.lasts_from(now, needed)) {
            return Ok(now);
        }
        // Boxed: nearly no call comes here, and each would have it in its future.
        Box::pin(self.renew_lease(needed)).await?;
        Ok(self.engine.clock.now())
    }

    pub(super) async fn renew_lease(&mut self, needed: Duration) -> Result<(), Error> {
        let reports_before = self.reports_written;
        let evidence = self.evidence();
        let Some(hold) = &mut self.hold else { return Ok(()) };
        let renewed = hold.renew_in_time(needed, evidence).await;
        // They may be on record all the same. Twice is better than never.
        if renewed.is_err() {
            self.reports_written = reports_before;
        }
        renewed.map_err(|error| self.in_context(error))
    }
}
