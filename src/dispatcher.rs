//! Carries on with operations that nobody holds: what a dead process left in progress, and what was scheduled
//! and is due.
//!
//! An expired lease is never a licence to send. What is taken over goes through the same loop as a call, and
//! starts where the loop starts after an unknown outcome: the vendor's replay window or a look-up decides, or
//! the operation is parked as a dead letter. It goes through the same gates, at a [rate of its
//! own](crate::policy::recovery) that climbs while the vendor answers well: a backlog after an outage is delivered as
//! fast as the vendor bears it, and costs live calls none of their retries.
//!
//! No operation waits for another. Each is carried on in a task of its own, and the next is taken as soon as one of
//! the places is free, there is a start to spend and no gate is closed; what nobody could send is not taken. An
//! operation that has only to wait, for a settle time or a long backoff, does not keep its place: it is scheduled for
//! that time. So what is held in memory is bounded by the places.
//!
//! A panic of a store, an adapter or a transport ends one round, or one operation's task. An operation that was left so
//! stays in progress until its lease runs out, and is then taken up again.
//!
//! It is safe to stop it anywhere and to run it in any number of processes: taking an operation moves its
//! fence, and of any number of takers one is given it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::clock::Clock;
use crate::error::Error;
use crate::telemetry;

mod caught;
mod purge;
mod registered;
mod under_way;

use caught::caught;
use under_way::{Next, UnderWay};

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
    /// How many wait for another time: a backoff, a settle time, a gate.
    pub postponed: usize,
    /// How many the vendor refused.
    pub refused: usize,
    /// How many are dead letters now.
    pub dead: usize,
    /// How many could not be carried on: the store failed, or somebody else took them.
    pub failed: usize,
}

impl Recovered {
    /// Counts it, and gives the name of what it came to.
    fn count(&mut self, outcome: &Result<crate::reply::Reply, Error>) -> &'static str {
        let (count, name) = match outcome {
            Ok(_) => (&mut self.succeeded, "succeeded"),
            Err(error) if error.is_dead_letter() => (&mut self.dead, "dead"),
            Err(error) if error.is_refused() => (&mut self.refused, "refused"),
            Err(error) if error.is_store() => (&mut self.failed, "failed"),
            Err(_) => (&mut self.postponed, "postponed"),
        };
        *count += 1;
        name
    }
}

impl Client {
    /// Takes at most `limit` of this vendor account's operations that nobody holds, and carries each on until
    /// it ends or is postponed. What a dead process left and what is due take turns, each that has waited longest first.
    ///
    /// It takes no more than can be sent: at recovery's [rate](crate::policy::recovery), and none once a gate is
    /// closed for longer than a few seconds. An operation that has to wait longer than 5 s is postponed, so that none
    /// waits for another's settle time. Operations that are not there to be taken are waited for by nobody; of a
    /// [sequence](crate::Call::sequence), the next is there once the one before it has ended.
    ///
    /// # Errors
    ///
    /// A store that could not say what there is; what was taken by then is carried on first. What happens to the
    /// single operations is counted, and is on their records.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future stops what is under way; its leases run out, and another round takes it up.
    pub async fn recover(&self, limit: usize) -> Result<Recovered, Error> {
        let mut under_way = UnderWay::new(self);
        let ended = loop {
            let left = limit - under_way.recovered.taken;
            match under_way.take(left).await {
                Ok(Next::At(at)) => {
                    let clock = &self.engine.clock;
                    tokio::select! {
                        biased;
                        () = under_way.one_ends() => {}
                        () = clock.sleep_until(at) => {}
                    }
                }
                Ok(Next::Place) => under_way.one_ends().await,
                // The end of one may be the turn of the next.
                Ok(Next::Nothing) if left > 0 && under_way.may_pass_turns() => under_way.one_ends().await,
                Ok(Next::Nothing | Next::Closed(_)) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        while !under_way.is_empty() {
            under_way.one_ends().await;
        }
        ended.map(|()| under_way.recovered)
    }

    /// Recovers in the background, at once and from then on, until the returned guard is dropped or
    /// [stopped](Dispatcher::stop). Where there is nothing to do it looks again after `period`. Beside it, records that
    /// have expired are removed as fast as they expire, in small batches. Must be called within a tokio runtime.
    ///
    /// What fails is said in an event, and so is a panic of a store, an adapter or a transport of your own. It is tried
    /// again after `period`.
    ///
    /// First it [registers](Client::register) the account's terms. As long as they are not those in the store, nothing is
    /// carried on, and keyed calls are refused.
    ///
    /// Run it in every process that has a durable store. [`PERIOD`] suits most. What is
    /// [enqueued](crate::Call::enqueue) in this process and due is sent at once; what is for later, up to a `period` after
    /// its time.
    pub fn keep_recovering(&self, period: Duration) -> Dispatcher {
        let (stop, stopped) = watch::channel(());
        let count = Arc::new(AtomicUsize::new(0));
        let under_way = UnderWay::new(self).counted_by(Arc::clone(&count));
        let client = self.clone();
        let until_stopped = stopped.clone();
        let recovery = async move {
            if let Err(panic) = caught(client.until_registered(until_stopped)).await {
                telemetry::recovery_panicked(client.vendor(), "register the terms of the account", &*panic);
            }
            if let Err(panic) = caught(client.name_unreached()).await {
                telemetry::recovery_panicked(client.vendor(), "name what no client reaches", &*panic);
            }
            under_way.keep_on(period, stopped).await;
        };
        Dispatcher {
            recovery: tokio::spawn(recovery),
            purge: tokio::spawn(purge::keep_purging(self.clone(), period)),
            stop,
            under_way: count,
            clock: Arc::clone(&self.engine.clock),
        }
    }
}

/// Recovery in the background. It stops when this is dropped; [`stop`](Dispatcher::stop) lets what is under way finish.
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
pub struct Dispatcher {
    recovery: JoinHandle<()>,
    purge: JoinHandle<()>,
    stop: watch::Sender<()>,
    under_way: Arc<AtomicUsize>,
    clock: Arc<dyn Clock>,
}

impl Dispatcher {
    /// Takes nothing more, and waits up to `limit` for what is under way. Gives how many operations were cut off then:
    /// their leases run out, and another process carries them on.
    ///
    /// Call it before the process ends, so that an operation which was just sent is also written down. An attempt's
    /// timeout and a second are enough for most.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future cuts off what is under way at once, as dropping the guard does.
    pub async fn stop(mut self, limit: Duration) -> usize {
        self.purge.abort();
        // Nobody listens any more if it has ended by itself.
        let _ = self.stop.send(());
        let over = self.clock.limit_until(self.clock.now().plus(limit));
        tokio::select! {
            biased;
            _ = &mut self.recovery => {}
            () = over => {}
        }
        self.under_way.load(Ordering::Relaxed)
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.recovery.abort();
        self.purge.abort();
    }
}

/// How often to look, for want of a better reason: often enough that a scheduled operation is hardly late,
/// seldom enough that an idle store does not notice.
pub const PERIOD: Duration = Duration::from_secs(1);
