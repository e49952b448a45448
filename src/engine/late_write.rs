//! An outcome that the store did not take while its call had time.
//!
//! This process alone has the vendor's answer. For a vendor with neither key nor lookup it is the only proof there
//! will ever be. The caller is answered at its deadline all the same. So the write goes on in a task of its own while
//! the lease lasts. Until then no other process may touch the operation; afterwards another one may hold it.
//!
//! A dispatcher that is stopped waits for them.
//!
//! At most [`AT_ONCE_MAX`] of a client's go on at a time, each for no longer than a lease. Beyond that, and where no
//! runtime is there to run it, the operation is recovered as after a crash.

use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use steadfast_core::clock::{Clock, Instant};
use steadfast_core::internal::decision::rewrite::{PAUSE_MAX, PAUSE_MIN};
use steadfast_core::internal::ext::{RecordExt, WakesExt};
use steadfast_core::internal::store::Wakes;
use steadfast_core::internal::vendor::Adapter;
use steadfast_core::operation::record::{Record, Transition};
use steadfast_core::store::Store;

use super::hold::is_same;
use crate::limit;
use crate::telemetry;

/// Room for the writes of one client that go on without their callers.
#[derive(Debug)]
pub(crate) struct LateWrites {
    places: Arc<Semaphore>,
    /// One has come to its end.
    ended: Arc<Notify>,
}

impl Default for LateWrites {
    fn default() -> LateWrites {
        LateWrites { places: Arc::new(Semaphore::new(AT_ONCE_MAX)), ended: Arc::default() }
    }
}

impl LateWrites {
    /// Carries a write out in a task of its own.
    pub(super) fn begin(&self, write: LateWrite) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let ended = self.ended.clone();
        drop(runtime.spawn(async move {
            write.carry_out().await;
            write.wakes.waiting().wake(&write.held.id);
            if write.held.sequence.is_some() {
                write.wakes.wake(Some(&write.held.id.scope), write.store.time(write.clock.wall()));
            }
            drop(place);
            ended.notify_waiters();
        }));
    }

    /// How many go on now.
    pub(crate) fn under_way(&self) -> usize {
        AT_ONCE_MAX - self.places.available_permits()
    }

    /// Waits until none goes on.
    pub(crate) async fn have_ended(&self) {
        loop {
            let mut ended = pin!(self.ended.notified());
            // Before the look: one that ends in between is not missed.
            ended.as_mut().enable();
            if self.under_way() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// The write of an outcome that goes on without its caller, until `over_at`.
pub(super) struct LateWrite {
    pub vendor: Arc<Adapter>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Who waits for the outcome, and who takes the next one of its sequence.
    pub wakes: Wakes,
    pub held: Record,
    pub transition: Transition,
    pub over_at: Instant,
}

impl LateWrite {
    /// Until it is written, another process has the say, or the hold is over.
    async fn carry_out(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let again_at = self.clock.now().plus(pause);
            if again_at >= self.over_at {
                return;
            }
            self.clock.sleep_until(again_at).await;
            if self.is_over().await {
                return;
            }
            let transition =
                Transition { now: self.store.time(self.clock.wall()), ..self.transition.clone() };
            let written = self.store.transition(&self.held, transition);
            if let Some(Ok(written)) = limit::within(&*self.clock, self.over_at, written).await {
                if let Ok(record) = &written {
                    self.wakes.waiting().moved(record);
                    if record.may_have_happened_twice() {
                        telemetry::may_have_happened_twice(&**self.vendor, record);
                    }
                }
                return;
            }
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Whether an earlier try was written after all. Another process's outcome is its own, but a success is proof to them
    /// too, so that it is brought to the store all the same.
    async fn is_over(&self) -> bool {
        let read = limit::within(&*self.clock, self.over_at, self.store.get(&self.held.id)).await;
        let Some(Ok(Some(record))) = read else { return false };
        record.fence == self.transition.fence && is_same(&self.transition.to, &record.state)
    }
}

/// Far more than a service has calls that end while its store is away. Answers of a few KiB are a MiB; if each is as
/// large as `limits.reply_bytes_max` allows, they are that many times as much.
const AT_ONCE_MAX: usize = 256;
