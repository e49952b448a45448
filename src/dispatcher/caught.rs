//! A panic ends one round of recovery, and not recovery.
//!
//! A store, an adapter and a transport may be the service's own. One that panics once would otherwise end the task that
//! calls it: the service goes on, and no task delivers what is on record. So the panic is caught and reported, and the
//! next round begins after the usual pause.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::store::{StoreError, StoreErrorKind};
use steadfast_core::{Effect, Error};

/// The round's output, or what it panicked with. A round that panicked is not polled again.
async fn caught<F: Future>(round: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut round = pin!(round);
    // What outlives the round is behind locks that no panic poisons.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| round.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Catches a panic as [`caught`] does, of a question to a store. One that never answers is given up after
/// [`ANSWER_MAX`]: it would hold up all that its loop delivers, also when it is whole again. Its request may be carried
/// out all the same.
pub(super) async fn answered<T>(
    clock: &dyn Clock,
    doing: &'static str,
    round: impl Future<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, Box<dyn Any + Send>> {
    let over = clock.limit_until(clock.now().plus(ANSWER_MAX));
    tokio::select! {
        biased;
        output = caught(round) => output,
        () = over => {
            let silent = StoreError::new(format!("the store has not answered within {ANSWER_MAX:?}"));
            Ok(Err(failed(doing, silent.of_kind(StoreErrorKind::TimedOut))))
        }
    }
}

/// Asks a store one question, as [`answered`] does.
pub(super) async fn asked<T>(
    clock: &dyn Clock,
    doing: &'static str,
    question: impl Future<Output = Result<T, StoreError>>,
) -> Result<Result<T, Error>, Box<dyn Any + Send>> {
    answered(clock, doing, async { question.await.map_err(|source| failed(doing, source)) }).await
}

/// Wraps a failure of the store, which changed nothing.
pub(super) fn failed(doing: &'static str, source: StoreError) -> Error {
    Error::new(Kind::Store { doing }, Effect::None).with_source(source)
}

/// Longer than any store here takes to give up by itself. SQLite waits 5 s for its file. Postgres waits 5 s for a
/// connection, 10 s for a statement and 6 s for its end.
const ANSWER_MAX: Duration = Duration::from_secs(30);
