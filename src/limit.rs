//! A limit on something that is under way, on the injected clock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use steadfast_core::BoxFuture;
use steadfast_core::clock::{Clock, Instant};

/// The future's output, or `None` if `at` came first.
///
/// The timer is made only once the future has been pending: what is ready at once costs no allocation and no
/// clock.
pub(crate) async fn within<F: Future>(clock: &dyn Clock, at: Instant, future: F) -> Option<F::Output> {
    until(|| clock.limit_until(at), future).await
}

/// The same, with a limit that is made by `begin`.
pub(crate) async fn until<F: Future>(
    begin: impl Fn() -> BoxFuture<'static, ()>,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut limit = None;
    poll_fn(move |context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let limit = limit.get_or_insert_with(&begin);
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}
