//! A panic ends one round of recovery, and not recovery.
//!
//! A store, an adapter and a transport may be anybody's. One that panics once would otherwise end the task that calls
//! it: the service goes on, and what is on record is delivered by nobody. So the panic is caught and said, and the next
//! round begins after the usual pause.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The round's output, or what it panicked with. A round that panicked is not polled again.
pub(super) async fn caught<F: Future>(round: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut round = pin!(round);
    // What outlives the round is behind locks that no panic poisons.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| round.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
