//! One life of a process: what it hears from store, clock and network, and how it stands still and dies.
//!
//! The code under test awaits nothing but these three, so a process stops by hearing nothing from them. That is
//! also the limit of the model: between two of them a process runs on without losing time. A process that stands
//! still in the very instant between its last check and the first byte that it sends, for longer than its lease
//! and the settle time, could only be stopped by the vendor, and a vendor without keys does not. The design does
//! not promise that case, and the schedules have no such pause.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::{BoxFuture, Client};
use steadfast_core::store::delivery::Wakes;

use crate::world::course::World;
use crate::world::plan::What;

/// The moment of a disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(Duration),
    /// When the store is about to carry out this one of the process's claims and transitions, counted from its
    /// first start.
    BeforeWrite(u64),
    /// When the store has carried it out, and before the process gets to know.
    AfterWrite(u64),
    /// When the store has given the process operations that nobody held, for this time, and before it gets them.
    AfterTake(u64),
    /// When this one of its requests has just left.
    AfterSend(u64),
}

/// One life of a process.
pub struct Life {
    pub world: Arc<World>,
    pub process: usize,
    /// Of its dispatchers: no other process wakes them.
    pub wakes: Wakes,
    state: Mutex<State>,
    died: Notify,
}

#[derive(Default)]
struct State {
    /// For how long its successor lets wait for itself.
    dead: Option<Duration>,
    paused_until: Instant,
}

/// The count of what a process has done so far, over all its lives: the moments that disruptions wait for.
#[derive(Debug, Default)]
pub struct Counts {
    writes: AtomicU64,
    takes: AtomicU64,
    sends: AtomicU64,
}

impl Life {
    pub fn new(world: &Arc<World>, process: usize) -> Arc<Life> {
        let (world, wakes, state) = (world.clone(), Wakes::new(), Mutex::default());
        Arc::new(Life { world, process, wakes, state, died: Notify::new() })
    }

    /// Completes once the process may go on: never, if it is dead.
    pub async fn goes_on(&self) {
        loop {
            let until = {
                let state = self.state.lock();
                if state.dead.is_some() { None } else { Some(state.paused_until) }
            };
            let now = self.world.clock.now();
            match until {
                None => std::future::pending().await,
                Some(until) if until <= now => return,
                Some(until) => self.world.clock.latency(until.since(now)).await,
            }
        }
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().dead.is_some()
    }

    pub fn die(&self, successor_after: Duration) {
        self.state.lock().dead = Some(successor_after);
        self.died.notify_one();
    }

    /// Completes when it is dead, and says when its successor comes.
    pub async fn end(&self) -> Duration {
        loop {
            if let Some(successor_after) = self.state.lock().dead {
                return successor_after;
            }
            self.died.notified().await;
        }
    }

    pub fn pause(&self, pause: Duration) {
        let mut state = self.state.lock();
        state.paused_until = state.paused_until.max(self.world.clock.now().plus(pause));
    }

    /// Counts a claim or a transition.
    pub fn write(&self) -> u64 {
        self.world.counts[self.process].writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a take that took something.
    pub fn take(&self) -> u64 {
        self.world.counts[self.process].takes.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a request that leaves.
    pub fn request(&self) -> u64 {
        self.world.counts[self.process].sends.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets happen what is planned for this moment, and says whether the store fails.
    pub fn meets(&self, moment: When) -> bool {
        let mut store_fails = false;
        for disruption in self.world.disruptions_at(self.process, moment) {
            self.world.disrupt(self, disruption);
            store_fails |= matches!(disruption, What::StoreFails);
        }
        store_fails
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").field("process", &self.process).finish_non_exhaustive()
    }
}

/// The machine's clocks as a process sees them.
#[derive(Clone, Debug)]
pub struct ProcessClock(pub Arc<Life>);

impl ProcessClock {
    fn then_on(&self, wait: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let life = self.0.clone();
        Box::pin(async move {
            wait.await;
            life.goes_on().await;
        })
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Instant {
        self.0.world.clock.now()
    }

    fn wall(&self) -> Timestamp {
        self.0.world.wall(self.0.process)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.then_on(self.0.world.clock.sleep_until(at))
    }

    fn limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.then_on(self.0.world.clock.limit_until(at))
    }
}

/// Runs a process's recovery until it dies, once in so often.
pub async fn recover<N>(life: Arc<Life>, clients: Vec<(N, Client)>, every: Duration) {
    loop {
        for (_, client) in &clients {
            // A store that fails is asked again the next time.
            let _ = client.recover(RECOVERED_MAX).await;
        }
        life.world.clock.latency(every).await;
        life.goes_on().await;
    }
}

/// A process's client of this vendor.
pub fn client_of<N: Copy + PartialEq>(clients: &[(N, Client)], name: N) -> &Client {
    let found = clients.iter().find(|(known, _)| *known == name);
    &found.expect("a client of each vendor that an operation needs").1
}

/// Operations of a schedule are few.
pub const RECOVERED_MAX: usize = 8;
