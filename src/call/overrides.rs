//! Overrides of the vendor's policy for one call.

use steadfast_core::internal::ext::{BackoffExt, TimeoutsExt};
use steadfast_core::policy::{Backoff, Timeouts};

use super::Call;

impl Call {
    /// Another ladder for this call. The call must be [sent](Call::send): an enqueued call goes by its client's policy. The
    /// gates belong to the vendor, and a call cannot override them.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use steadfast::policy::{Backoff, Timeouts};
    ///
    /// // A page waits for this list: ten seconds at most, and one attempt.
    /// let quick = stripe.get("/v1/charges").timeout(Timeouts::interactive()).backoff(Backoff::none());
    /// assert_eq!(quick.send().await?.attempts(), 1);
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn backoff(mut self, backoff: Backoff) -> Call {
        if let Err(mistake) = backoff.validate() {
            self.note(mistake);
        }
        self.prepared.work.overrides.get_or_insert_default().backoff = Some(backoff);
        self
    }

    /// Other timeouts for this call, which must be [sent](Call::send). The connect limit belongs to the connection pool
    /// and is the client's; a call cannot change it.
    pub fn timeout(mut self, timeout: Timeouts) -> Call {
        if let Err(mistake) = timeout.validate() {
            self.note(mistake);
        }
        self.prepared.work.overrides.get_or_insert_default().timeout = Some(timeout);
        self
    }
}
