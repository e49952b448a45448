//! Delivers operations that no process holds: operations that a dead process left in progress, and scheduled ones that
//! are due.
//!
//! An expired lease is never a licence to send. After a takeover an operation goes through the same loop as a call.
//! It starts where the loop starts after an unknown outcome: the vendor's replay window or a lookup decides, or the
//! operation is dead-lettered. It goes through the same gates, at a [rate of its own](crate::policy::RecoveryConfig) that
//! climbs while the vendor answers well. So a backlog after an outage is delivered as fast as the vendor bears it,
//! and costs live calls none of their retries.
//!
//! [`Dispatcher::over`] delivers for any number of clients: of several vendors, several accounts, several stores. It
//! takes from them in turn, so that none waits for another's backlog. [`Client::keep_recovering`] is the same for one
//! client, and [`Client::recover`] one round of it.
//!
//! No operation waits for another. Each has a task of its own. The next one is taken as soon as one of the places is
//! free, there is a start to spend and no gate is closed. An operation that could not be sent is not taken. An
//! operation that only waits, for a settle time or a long backoff, gives its place back: it is scheduled for that time.
//! So the places bound the memory.
//!
//! Before each look for what is due, committed rows of the store's [outbox](crate::outbox) become operations.
//!
//! A panic of a store, an adapter or a transport ends one round, or one operation's task. Such an operation stays in
//! progress until its lease runs out, and is then taken over again.
//!
//! An operation that this process enqueues or postpones wakes the dispatcher at its time. Work that other processes
//! leave is found by looking, once in a period. All processes that deliver for an account from one store share
//! recovery's rate; each has its own gates.
//!
//! It is safe to stop it anywhere and to run it in any number of processes. A takeover moves the operation's fence,
//! and of any number of takers one is given the operation.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use steadfast_core::Error;
use steadfast_core::clock::Clock;
use steadfast_core::internal::guard::Guard;

use crate::admission::Admission;
use crate::client::Client;
use crate::engine::Shutdown;
use crate::telemetry;

mod builder;
mod caught;
mod delivery;
mod health;
mod member;
pub(crate) mod peers;
mod places;
mod purge;
mod registered;
mod under_way;
mod wants;

pub use builder::DispatcherBuilder;
use caught::{answered, asked};
pub use health::Health;
use health::Pulse;
use member::{Has, Member, Next};
use peers::confer;
use places::Places;
use under_way::UnderWay;

/// The counts of one round of recovery.
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
    /// Number of those that succeeded.
    pub succeeded: usize,
    /// Number that wait for another time: a backoff, a settle time, a gate.
    pub postponed: usize,
    /// Number that the vendor refused.
    pub refused: usize,
    /// Number that are dead letters now.
    pub dead: usize,
    /// Number that could not be carried on: the store failed, or another process took them.
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
    /// Takes at most `limit` of this vendor account's operations that no process holds, and carries each on until it
    /// ends or is postponed. Lapsed operations and due ones take turns; of each, the operation that has waited longest
    /// comes first.
    ///
    /// It takes no more than can be sent: at recovery's [rate](crate::policy::RecoveryConfig), and none once a gate is
    /// closed for longer than a few seconds. An operation that has to wait longer than 5 s is postponed, so that none
    /// waits for another's settle time. It does not wait for operations that cannot be taken yet. Of a
    /// [sequence](crate::Call::sequence), the next is there once the one before it has ended.
    ///
    /// # Errors
    ///
    /// The store could not answer; operations that were taken by then are carried on first. The end of each operation
    /// is counted, and is on its record.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future stops what is under way. Its leases run out, and another round takes it over.
    pub async fn recover(&self, limit: usize) -> Result<Recovered, Error> {
        // Nobody says that it stops: it ends by itself, or is dropped.
        let (_stop, stopped) = watch::channel(false);
        let mut under_way = UnderWay::new([self.vendor().to_owned()].into_iter(), Shutdown::when(stopped));
        let places = Places::new(self.engine.gates.recovery().at_once(), &Arc::default());
        let mut member = Member::new(self, places);
        // It comes to its end while the circuit is open.
        member.untried_at = None;
        let (mut admission, mut more_rows) = (Admission::default(), true);
        let ended = loop {
            let left = limit - under_way.recovered.taken;
            if left == 0 {
                break Ok(());
            }
            if member.is_to_tell() {
                confer(&self.engine, [(&mut member, true)]).await;
            }
            if more_rows {
                // What is on record already does not wait for a store that fails here.
                more_rows = admission.round(&self.engine).await.unwrap_or_else(|error| {
                    telemetry::recovery_failed(self.vendor(), &error);
                    false
                });
            }
            let wanted = match member.room(under_way.of(0)) {
                Ok(room) => room.min(left),
                Err(Next::At(at)) => {
                    tokio::select! {
                        biased;
                        () = under_way.some_end() => {}
                        () = self.engine.clock.sleep_until(at) => {}
                    }
                    continue;
                }
                Err(Next::Place) => {
                    under_way.some_end().await;
                    continue;
                }
                Err(Next::Closed(_)) => break Ok(()),
            };
            member.has = Has::BOTH;
            match member.take(wanted, &mut under_way, 0).await {
                // The end of one may be the turn of the next.
                Ok(taken) if taken < wanted && under_way.may_pass_turns() => under_way.some_end().await,
                Ok(taken) if taken < wanted && !more_rows => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        while !under_way.is_empty() {
            under_way.some_end().await;
        }
        confer(&self.engine, [(&mut member, false)]).await;
        ended.map(|()| under_way.recovered)
    }

    /// Wakes the [dispatchers](Client::keep_recovering) of the client's store in this process to look for work, such as
    /// a [row of the outbox](crate::outbox) that was just committed. Without it, they look after their `period`. Does
    /// not block.
    pub fn wake(&self) {
        self.engine.wakes.wake(None, self.engine.wall());
    }

    /// Starts a [`Dispatcher`] of this client alone. It recovers in the background until the returned guard is
    /// dropped or [stopped](Dispatcher::stop). While idle it looks every `period` for what other processes left or
    /// enqueued. Call it within a tokio runtime.
    ///
    /// First it [registers](Client::register) the account's terms. As long as the store has other terms, nothing is
    /// carried on, and keyed calls are refused.
    ///
    /// A call that was [committed](crate::outbox::Uncommitted::committed) with a transaction is found at the next look,
    /// or at once if this process was woken for it.
    ///
    /// Run it in every process that has a durable store. [`PERIOD`] suits most. For several clients there is
    /// [`Dispatcher::over`].
    pub fn keep_recovering(&self, period: Duration) -> Dispatcher {
        Dispatcher::over([self]).period(period).start()
    }
}

/// Delivers in the background what is due: of one client, or of [several](Dispatcher::over). It stops when this is
/// dropped; [`stop`](Dispatcher::stop) lets what is under way finish.
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
    /// Task of each store.
    deliveries: Vec<JoinHandle<()>>,
    pulses: Vec<Arc<Pulse>>,
    purges: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    under_way: Arc<AtomicUsize>,
    clients: Vec<Client>,
    clock: Arc<dyn Clock>,
}

impl Dispatcher {
    /// A dispatcher of all these clients, once it is [started](DispatcherBuilder::start).
    ///
    /// An operation that a client of this process enqueues or postpones begins at its time, also if another client of
    /// the same store and account did so. Work of other processes is found by looking. One look serves all clients of a
    /// store, so give them one store: an `Arc` of it, or a [vendors file](crate::config).
    ///
    /// ```
    #[doc = include_str!("docs/setup/stripe.md")]
    /// # let postmark = stripe.clone();
    /// use std::time::Duration;
    /// use steadfast::dispatcher::Dispatcher;
    ///
    /// let dispatcher = Dispatcher::over([&stripe, &postmark]).start(); // for as long as the service runs
    ///
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let charge = stripe.post("/v1/charges").key("order-42/charge").form(&form).enqueue().await?;
    /// assert!(charge.wait(Duration::from_secs(60)).await.is_ok());
    ///
    /// // Before the process ends.
    /// assert_eq!(dispatcher.stop(Duration::from_secs(30)).await, 0);
    #[doc = include_str!("docs/setup/end.md")]
    /// ```
    pub fn over<C: Borrow<Client>>(clients: impl IntoIterator<Item = C>) -> DispatcherBuilder {
        DispatcherBuilder::new(clients.into_iter().map(|client| client.borrow().clone()).collect())
    }

    /// Returns a handle on its health: for another task, or for a health check of the process.
    pub fn health(&self) -> Health {
        Health::of(self.pulses.iter().cloned().zip(self.deliveries.iter().map(JoinHandle::abort_handle)))
    }

    /// Takes nothing more, and waits up to `limit` for operations that are under way. It releases operations that were
    /// taken and wait. Those that were not sent are due now, or at the end of a pause that the vendor has asked for, so
    /// another process takes them. The rest is due at its time. It also waits for outcomes that the store has not taken
    /// yet, also of calls that these clients sent. Returns the number of operations that were cut off at the limit:
    /// their leases run out, and another process takes them over. Operations that the store was giving in that moment
    /// are not counted, and go the same way.
    ///
    /// Call it before the process ends: then the outcome of an operation that was just sent is recorded too. A limit
    /// of an attempt's timeout and a second is enough for most.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future cuts off what is under way at once, as dropping the guard does.
    pub async fn stop(mut self, limit: Duration) -> usize {
        self.purges.iter().for_each(JoinHandle::abort);
        self.stop.send_replace(true);
        let over = self.clock.limit_until(self.clock.now().plus(limit));
        let deliveries = &mut self.deliveries;
        let all = async {
            for delivery in deliveries {
                // One that panicked has ended, too.
                let _ = delivery.await;
            }
            for client in Guard::LateWritesAwaited.keeps(self.clients.as_slice()) {
                client.engine.late_writes.have_ended().await;
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = over => {}
        }
        let written_late = self.clients.iter().map(|client| client.engine.late_writes.under_way());
        self.under_way.load(Ordering::Relaxed) + written_late.sum::<usize>()
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.deliveries.iter().chain(&self.purges).for_each(JoinHandle::abort);
    }
}

/// Default period: often enough that a scheduled operation is hardly late, seldom enough that an idle store does not
/// notice.
pub const PERIOD: Duration = Duration::from_secs(1);
