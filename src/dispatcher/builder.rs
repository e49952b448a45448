//! [`DispatcherBuilder`]: which clients, how often to look, how many at once.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use steadfast_core::clock::SystemClock;
use steadfast_core::internal::ext::WakesExt;
use steadfast_core::operation::Scope;

use super::delivery::Delivery;
use super::health::Pulse;
use super::member::Member;
use super::places::Places;
use super::{Dispatcher, PERIOD, answered, purge, registered};
use crate::client::Client;
use crate::dead_letter::DeadLetters;
use crate::engine::Shutdown;
use crate::telemetry;

/// Starts a [`Dispatcher`] of several clients.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use std::time::Duration;
/// use steadfast::dispatcher::Dispatcher;
///
/// let dispatcher = Dispatcher::over([&stripe])
///     .period(Duration::from_millis(200)) // five looks a second where nothing happens
///     .at_once(16)
///     .start();
/// assert!(dispatcher.health().check(Duration::from_secs(1)).await.is_ok());
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until start() is called"]
pub struct DispatcherBuilder {
    clients: Vec<Client>,
    period: Duration,
    at_once: Option<usize>,
}

impl DispatcherBuilder {
    pub(super) fn new(clients: Vec<Client>) -> DispatcherBuilder {
        DispatcherBuilder { clients, period: PERIOD, at_once: None }
    }

    /// Sets the longest time until it finds work that another process left, enqueued or made due. While idle it asks
    /// each store once in this time, for all clients that share the store. After it has found something, it asks
    /// sooner. An operation that this process enqueues or postpones does not wait for it.
    ///
    /// Default: [`PERIOD`].
    pub fn period(mut self, period: Duration) -> DispatcherBuilder {
        self.period = period;
        self
    }

    /// Sets the number of operations of one vendor that are under way at once, over all of its accounts and stores; at
    /// least 1. No client has more than its own policy allows.
    ///
    /// Default: the largest `recovery.at_once` of the clients' policies.
    pub fn at_once(mut self, at_once: usize) -> DispatcherBuilder {
        self.at_once = Some(at_once);
        self
    }

    /// Delivers from now on, until the dispatcher is dropped or stopped. It also purges records that have expired, in
    /// small batches. Call it within a tokio runtime.
    ///
    /// It takes from the clients of one store, and then of one vendor, in turn. A client with a million due operations
    /// keeps no other one waiting for longer than until the next of its operations ends. (A store without
    /// [`delivery`](crate::store::Store::delivery) cannot be distinguished from another one: each client then looks for
    /// itself. An event warns of it.) The accounts behind one client, such as a platform's connected accounts, have
    /// their turns too.
    ///
    /// A failure is an event, and so is a panic of a store, an adapter or a transport of your own. It tries again
    /// after the period.
    pub fn start(self) -> Dispatcher {
        let DispatcherBuilder { clients, period, at_once } = self;
        let (stop, stopped) = watch::channel(false);
        let under_way = Arc::default();
        let places = Places::of_each(&clients, at_once, &under_way);
        let clock = clients.first().map(|client| Arc::clone(&client.engine.clock));
        let mut dispatcher = Dispatcher {
            deliveries: Vec::new(),
            pulses: Vec::new(),
            purges: Vec::new(),
            stop,
            under_way,
            clients: distinct(&clients),
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
        };
        for of_store in by_store(clients) {
            let Some(first) = of_store.first().cloned() else { continue };
            if first.engine.store.delivery().is_none() {
                telemetry::recovery::undivided(first.engine.store.name());
            }
            let (expired, pulse) = (Arc::new(Notify::new()), Pulse::new(&first, period));
            let member = |client: &Client| Some(Member::new(client, places.get(client.vendor())?.clone()));
            let members = of_store.iter().filter_map(member).collect();
            let leaving = Shutdown::when(stopped.clone());
            let Some(delivery) =
                Delivery::new(members, period, leaving.clone(), expired.clone(), pulse.clone())
            else {
                continue;
            };
            let delivery = async move {
                let prepared = async {
                    let differing = registered::register(&of_store).await;
                    name_unreached(&of_store).await;
                    differing
                };
                let differing = tokio::select! {
                    biased;
                    () = leaving.clone().said() => return,
                    differing = prepared => differing,
                };
                let mut delivered = pin!(delivery.run(leaving));
                tokio::select! {
                    biased;
                    () = &mut delivered => return,
                    () = registered::until_registered(differing) => {}
                }
                delivered.await;
            };
            dispatcher.deliveries.push(tokio::spawn(delivery));
            dispatcher.pulses.push(pulse);
            dispatcher.purges.push(tokio::spawn(purge::keep_purging(first, period, expired)));
        }
        dispatcher
    }
}

/// Each once: clones of a client share what they write late.
fn distinct(clients: &[Client]) -> Vec<Client> {
    let mut distinct: Vec<Client> = Vec::new();
    for client in clients {
        if !distinct.iter().any(|other| Arc::ptr_eq(&other.engine, &client.engine)) {
            distinct.push(client.clone());
        }
    }
    distinct
}

/// Clients of one store together, in the order in which they were given.
fn by_store(clients: Vec<Client>) -> Vec<Vec<Client>> {
    let mut stores: Vec<Vec<Client>> = Vec::new();
    for client in clients {
        let wakes = &client.engine.wakes;
        let is_same = |store: &&mut Vec<Client>| store.iter().any(|other| other.engine.wakes.is_same(wakes));
        match stores.iter_mut().find(is_same) {
            Some(store) => store.push(client),
            None => stores.push(vec![client]),
        }
    }
    stores
}

/// Once for each vendor: one client names what none of its accounts reaches.
async fn name_unreached(clients: &[Client]) {
    let mut vendors = BTreeSet::new();
    for client in clients.iter().filter(|client| vendors.insert(client.vendor())) {
        let naming = async {
            unreached_of_vendor(client).await;
            Ok(())
        };
        match answered(&*client.engine.clock, NAME, naming).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => telemetry::recovery_failed(client.vendor(), &error),
            Err(panic) => telemetry::recovery_panicked(client.vendor(), NAME, &*panic),
        }
    }
}

/// Says which open operations of a client's vendor no client that this process has built carries on with: its account or
/// namespace was renamed, or they are another process's.
async fn unreached_of_vendor(client: &Client) {
    let engine = &client.engine;
    let letters = DeadLetters::new(Arc::clone(&engine.store));
    let reached = crate::client::accounts();
    let is_reached = |path: &str| {
        let scope = Scope::from_stored(format!("{path}/"));
        let is_of_vendor = path.split('/').nth(1) == engine.account_path().split('/').nth(1);
        !is_of_vendor || reached.iter().any(|account| scope.is_reached_by(account))
    };
    match letters.unreached_by(is_reached).await {
        Ok(unreached) => unreached.iter().for_each(|group| {
            telemetry::unreached(client.vendor(), &group.account, group.phase, group.count);
        }),
        Err(error) => telemetry::recovery_failed(client.vendor(), &error),
    }
}

const NAME: &str = "list the accounts that no client reaches";
