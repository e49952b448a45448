//! [`Lent`]: the permits of an attempt while its reply is streamed to a caller.
//!
//! A streamed reply outlives the call that opened it, so that it cannot borrow the gates. Its permits are noted here,
//! and given back when the body has ended, has failed or was dropped. The concurrency limit counts it until then, or
//! until it is not read any more: the vendor is at work for what is read.
//!
//! For the breaker it is one attempt, as any other. It is a failure if the body broke off, and a success once the body is
//! whole. Its latency is that of the answer's head: a large report is not a slow vendor. A body that its caller dropped
//! says nothing. A probe is judged by the head, because a circuit that waits for a download to end stays half-open.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::concurrency::Streamed;

/// Permits that are to be given back.
#[derive(Debug)]
#[must_use = "it is given back by Gates::take_back"]
pub struct Lent {
    /// Generation and state of the circuit at admission, for a permit that is still to be counted.
    pub(super) counted: Option<u64>,
    pub(super) place: Option<Arc<Streamed>>,
    pub(super) latency: Duration,
}
