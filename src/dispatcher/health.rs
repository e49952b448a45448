//! [`Health`]: whether a dispatcher is at work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::{BoxError, Chain};
use steadfast_core::store::{StoreError, StoreErrorKind};

use crate::client::Client;

/// Says whether a [`Dispatcher`](super::Dispatcher) is at work, for a health check of its process. Clones ask the same
/// one. It outlives the dispatcher, and then says that it has ended.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use std::time::Duration;
/// use steadfast::dispatcher::PERIOD;
///
/// let dispatcher = stripe.keep_recovering(PERIOD);
/// let health = dispatcher.health();
/// assert!(health.check(Duration::from_secs(1)).await.is_ok());
///
/// dispatcher.stop(Duration::from_secs(30)).await;
/// let unwell = health.check(Duration::from_secs(1)).await.unwrap_err();
/// assert_eq!(unwell.to_string(), "the delivery from the store of stripe has ended");
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone)]
pub struct Health {
    /// Pulse of each store.
    deliveries: Arc<[(Arc<Pulse>, AbortHandle)]>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the clients: all that they are made of fills a screen and says nothing of their health.
        let problems = self.deliveries.iter().filter_map(|(pulse, _)| pulse.problem.lock().clone());
        let problems: Vec<_> = problems.collect();
        f.debug_struct("Health").field("stores", &self.deliveries.len()).field("problems", &problems).finish()
    }
}

/// Time at which a loop was last seen at its beginning, and its work.
#[derive(Debug)]
pub(super) struct Pulse {
    beat_at: AtomicU64,
    /// Problem of the store when it was last asked; `None` if it answered.
    problem: Mutex<Option<String>>,
    /// A client of the loop, for the store and the clock.
    client: Client,
    period: Duration,
}

impl Pulse {
    pub(super) fn new(client: &Client, period: Duration) -> Arc<Pulse> {
        let now = client.engine.clock.now();
        Arc::new(Pulse {
            beat_at: AtomicU64::new(now.as_nanos()),
            problem: Mutex::new(None),
            client: client.clone(),
            period,
        })
    }

    pub(super) fn beat(&self, now: Instant) {
        self.beat_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The store has answered, or failed.
    pub(super) fn asked(&self, failed: Option<&(dyn std::error::Error + 'static)>) {
        *self.problem.lock() = failed.map(|error| Chain(error).to_string());
    }

    /// Returns the time by which its loop is overdue.
    fn overdue(&self) -> Option<Duration> {
        let since =
            self.client.engine.clock.now().since(Instant::from_nanos(self.beat_at.load(Ordering::Relaxed)));
        (since > self.period.saturating_add(OVERDUE)).then_some(since)
    }
}

impl Health {
    pub(super) fn of(deliveries: impl Iterator<Item = (Arc<Pulse>, AbortHandle)>) -> Health {
        Health { deliveries: deliveries.collect() }
    }

    /// Checks that it is at work: its loops turn, and each store answers within `limit`. That a vendor is down, or a
    /// circuit open, is no fault of it.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] with the problem, and with that of the store as its source. `Stopped` if the delivery has ended
    /// or does not move, `TimedOut` if the store does not answer.
    ///
    /// # Cancellation safety
    ///
    /// It only looks.
    pub async fn check(&self, limit: Duration) -> Result<(), StoreError> {
        let stopped = |problem: String| StoreError::new(problem).of_kind(StoreErrorKind::Stopped);
        for (pulse, delivery) in &*self.deliveries {
            let engine = &pulse.client.engine;
            let whose = format!("the store of {}", pulse.client.vendor());
            if delivery.is_finished() {
                return Err(stopped(format!("the delivery from {whose} has ended")));
            }
            let over = engine.clock.limit_until(engine.clock.now().plus(limit));
            tokio::select! {
                biased;
                answered = engine.store.believed(engine.wall()) => {
                    answered.map_err(|error| fails(&whose, error.kind(), error))?;
                }
                () = over => {
                    let problem = format!("{whose} does not answer within {limit:?}");
                    // Often known: a server that is waited for refused the connection before.
                    let known = pulse.problem.lock().clone();
                    let error = match known {
                        Some(known) => StoreError::with_source(problem, known),
                        None => StoreError::new(problem),
                    };
                    return Err(error.of_kind(StoreErrorKind::TimedOut));
                }
            }
            if let Some(problem) = pulse.problem.lock().clone() {
                return Err(fails(&whose, StoreErrorKind::Other, problem));
            }
            if let Some(overdue) = pulse.overdue() {
                return Err(stopped(format!("the delivery from {whose} has not moved for {overdue:?}")));
            }
        }
        Ok(())
    }
}

fn fails(whose: &str, kind: StoreErrorKind, source: impl Into<BoxError>) -> StoreError {
    StoreError::with_source(format!("{whose} fails"), source).of_kind(kind)
}

/// A loop turns once a period, and waits for one answer of its store: SQLite gives up on a locked file after five
/// seconds.
const OVERDUE: Duration = Duration::from_secs(15);
