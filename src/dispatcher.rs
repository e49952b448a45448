//! Carries on with operations that nobody holds: what a dead process left in progress, and what was scheduled
//! and is due.
//!
//! An expired lease is never a licence to send. What is taken over goes through the same loop as a call, and
//! starts where the loop starts after an unknown outcome: the vendor's replay window or a look-up decides, or
//! the operation is parked as a dead letter. It goes through the same gates and the same retry budget, so that
//! a backlog after an outage is delivered at the rate that the vendor bears.
//!
//! It is safe to stop it anywhere and to run it in any number of processes: taking an operation moves its
//! fence, and of any number of takers one is given it.

use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use crate::client::Client;
use crate::error::Error;
use crate::operation::record::{Left, Take};
use crate::telemetry;

/// What one round of recovery came to.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// # fake.plan().next(steadfast::testkit::Fault::Hang);
/// use std::time::Duration;
///
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let charge = stripe.post("/v1/charges").key("order-42").form(&form);
/// assert!(charge.deadline(Duration::from_secs(5)).send().await.unwrap_err().is_deadline());
///
/// // The caller has gone; the charge is on record, and due again after its backoff.
/// # clock.advance(Duration::from_secs(60));
/// let recovered = stripe.recover(10).await?;
/// assert_eq!((recovered.taken, recovered.succeeded), (1, 1));
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Operations taken.
    pub taken: usize,
    /// Of those, how many succeeded.
    pub succeeded: usize,
    /// How many wait for another time.
    pub postponed: usize,
    /// How many the vendor refused.
    pub refused: usize,
    /// How many are dead letters now.
    pub dead: usize,
    /// How many could not be carried on: the store failed, or somebody else took them.
    pub failed: usize,
}

impl Recovered {
    fn count(&mut self, outcome: &Result<crate::reply::Reply, Error>) {
        self.taken += 1;
        match outcome {
            Ok(_) => self.succeeded += 1,
            Err(error) if error.is_dead_letter() => self.dead += 1,
            Err(error) if error.is_refused() => self.refused += 1,
            Err(error) if error.is_store() => self.failed += 1,
            Err(_) => self.postponed += 1,
        }
    }
}

impl Client {
    /// Takes at most `limit` of this vendor account's operations that nobody holds, and carries each on until
    /// it ends or is postponed. First what a dead process left, then what is due.
    ///
    /// # Errors
    ///
    /// A store that could not say what there is. What happens to the single operations is counted, and is on
    /// their records.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future stops what is under way; its leases run out, and another round takes it up.
    pub async fn recover(&self, limit: usize) -> Result<Recovered, Error> {
        let mut recovered = Recovered::default();
        for what in [Left::Lapsed, Left::Due] {
            let take = Take {
                what,
                account: Some(self.engine.account_path()),
                now: self.engine.clock.wall(),
                lease: self.engine.default_lease(),
                attempt_max: self.engine.policy.timeout.attempt,
                limit: limit - recovered.taken,
            };
            if take.limit == 0 {
                break;
            }
            let lease_until = self.engine.clock.now().plus(take.lease);
            let mut under_way = JoinSet::new();
            for record in self.engine.take(take).await? {
                telemetry::taken_over(&**self.engine.vendor, &record);
                let client = self.clone();
                under_way.spawn(async move { client.engine.carry_on(record, lease_until).await });
            }
            while let Some(ended) = under_way.join_next().await {
                match ended {
                    Ok(outcome) => recovered.count(&outcome),
                    // A panic of an adapter's: its operation stays in progress until its lease runs out.
                    Err(_) => {
                        recovered.taken += 1;
                        recovered.failed += 1;
                    }
                }
            }
        }
        Ok(recovered)
    }

    /// Recovers in the background, at once and then every `period`, until the returned guard is dropped. Each
    /// time it also removes a small batch of records that have expired. Must be called within a tokio runtime.
    ///
    /// Run it in every process that has a durable store. [`PERIOD`] suits most.
    pub fn keep_recovering(&self, period: Duration) -> Dispatcher {
        let client = self.clone();
        Dispatcher(tokio::spawn(async move {
            client.name_unreached().await;
            loop {
                match client.recover(BATCH).await {
                    // A full batch: there may be more.
                    Ok(recovered) if recovered.taken == BATCH => continue,
                    Ok(_) => {}
                    Err(error) => telemetry::recovery_failed(client.vendor(), &error),
                }
                let clock = &client.engine.clock;
                if let Err(error) = client.engine.store.purge(clock.wall(), PURGE_BATCH).await {
                    telemetry::recovery_failed(client.vendor(), &error);
                }
                clock.sleep_until(clock.now().plus(period)).await;
            }
        }))
    }
}

/// Recovery in the background. It stops when this is dropped.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// # use steadfast::clock::Clock;
/// # fake.plan().next(steadfast::testkit::Fault::Hang);
/// use std::time::Duration;
/// use steadfast::dispatcher;
///
/// let recovery = stripe.keep_recovering(dispatcher::PERIOD); // for as long as the service runs
///
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let charge = stripe.post("/v1/charges").key("order-42").form(&form);
/// assert!(charge.deadline(Duration::from_secs(5)).send().await.unwrap_err().is_deadline());
///
/// // A minute later the charge is made, though its caller has gone.
/// # clock.sleep_until(clock.now().plus(Duration::from_secs(60))).await;
/// assert_eq!(fake.ledger().count(), 1, "charged once");
/// drop(recovery);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Debug)]
#[must_use = "recovery stops when the guard is dropped"]
pub struct Dispatcher(JoinHandle<()>);

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How often to look, for want of a better reason: often enough that a scheduled operation is hardly late,
/// seldom enough that an idle store does not notice.
pub const PERIOD: Duration = Duration::from_secs(1);

/// How many expired records one round removes: a short write, and thousands a minute all the same.
const PURGE_BATCH: usize = 100;

/// How many operations one round carries on at once. The gates bound what reaches the vendor.
const BATCH: usize = 64;
