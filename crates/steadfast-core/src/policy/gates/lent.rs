//! [`Lent`]: what an attempt holds of the gates while its reply is streamed to a caller.
//!
//! A streamed reply outlives the call that opened it, so that it cannot borrow the gates. What it has of them is noted
//! here, and given back when the body has ended, has failed or was dropped. The concurrency limit counts it until then, or
//! until it is not read any more: the vendor is at work for what is read.
//!
//! For the breaker it is one attempt, as any other. It is a failure if the body broke off, and a success once the body is
//! whole. Its latency is that of the answer's head: a large report is not a slow vendor. A body that its caller dropped
//! says nothing. A probe is judged by the head, because a circuit that waits for a download to end stays half-open.

use std::sync::Arc;
use std::time::Duration;

use super::{Admission, Gates, Outcome};
use crate::clock::Instant;
use crate::policy::breaker::Permit;
use crate::policy::circuits::{Ended, RoutePermit};
use crate::policy::concurrency::Streamed;

/// What is to be given back.
#[derive(Debug)]
#[must_use = "it is given back by Gates::take_back"]
pub struct Lent {
    /// Generation and state of the circuit at admission, for a permit that is still to be counted.
    counted: Option<u64>,
    place: Option<Arc<Streamed>>,
    latency: Duration,
}

impl Admission<'_> {
    /// Notes what this admission holds, at `now`, when the answer's head has come. A body that is left for `idle` counts
    /// as not read.
    pub fn lend(self, now: Instant, idle: Duration) -> Lent {
        let latency = now.since(self.admitted_at);
        if let Some(of_route) = self.of_route.filter(RoutePermit::is_probe) {
            of_route.settle(Ended { call: None, outcome: Outcome::Success, latency, now });
        }
        let counted = self.permit.and_then(|permit| permit.lend(latency, now));
        Lent { counted, place: self.place.and_then(|place| place.lend(now, idle)), latency }
    }
}

impl Gates {
    /// The caller of a streamed reply asks for more.
    pub fn is_read(&self, lent: &Lent, now: Instant) {
        if let Some((concurrency, streamed)) = self.concurrency.as_ref().zip(lent.place.as_ref()) {
            concurrency.is_read(streamed, now);
        }
    }

    /// Takes back what was lent. `call` is the number of a call that failed before: its failures count once.
    #[allow(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub fn take_back(&self, lent: Lent, outcome: Outcome, call: Option<u64>, now: Instant) {
        if let (Some(breaker), Some(word)) = (&self.breaker, lent.counted) {
            Permit::counted(breaker, word).settle_for(call, outcome, lent.latency, now);
        }
        if let Some((concurrency, streamed)) = self.concurrency.as_ref().zip(lent.place) {
            concurrency.has_ended(&streamed);
        }
    }
}
