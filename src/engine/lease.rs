//! Keeping the lease while a call waits, and making sure of it before a send.

use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::{Disposition, Effect, Error};

use super::hold::{Evidence, Hold};
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

impl Hold<'_> {
    /// A store that wrote in time may still answer when the new lease is over, and another process hold the
    /// operation by then. It is asked again, and a second answer that comes too late is believed no more.
    async fn renew_in_time(&mut self, needed: Duration, mut evidence: Evidence) -> Result<(), Error> {
        for _ in 0..RENEWALS_MAX {
            let again = Evidence { reports: Vec::new(), ..evidence };
            self.renew(needed, evidence).await?;
            if self.lasts(Duration::ZERO) {
                return Ok(());
            }
            evidence = again;
        }
        let at = self.record.until();
        let error = Error::new(Kind::Store { doing: "renew the lease in time" }, Effect::Unknown);
        Err(error.going_on(Disposition::Continues { at }).with_retry_at(at))
    }
}

/// A store this slow twice in a row is no store to send by; recovery carries on.
const RENEWALS_MAX: u32 = 2;
