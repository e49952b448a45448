//! [`Waiters`]: the calls of this process that wait for operations of one store.
//!
//! Two ways to learn that an operation has moved. A holder in this process wakes the calls as soon as its move is on
//! record. A move by another process is found by looking: one of the calls looks for all of them, and wakes those whose
//! operation has moved. So a thousand calls that wait cost the store a few questions a second, and not a thousand. A
//! call never trusts a wake: it reads the record each time. A wake too many costs a read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, Notify, broadcast};

use super::delivery::Version;
use super::{Store, StoreError};
use crate::clock::{Clock, Instant};
use crate::effect::Effect;
use crate::operation::OperationId;
use crate::operation::record::{Phase, Record};

/// The calls of this process that wait for operations of one store.
#[derive(Default)]
pub struct Waiters {
    /// Number of calls that wait. A holder for which no call waits takes no lock.
    count: AtomicUsize,
    operations: Mutex<HashMap<OperationId, Waited>>,
    /// State of the look for all. The call that has it looks.
    round: Turn<Round>,
    /// Sender of ends, once there is a listener.
    ends: OnceLock<broadcast::Sender<End>>,
}

struct Waited {
    calls: usize,
    woken: Arc<Notify>,
    /// Result of the last look for all; `None` before the first.
    seen: Option<Seen>,
}

/// `None` where nothing is on record.
type Seen = Option<Version>;

#[derive(Default)]
struct Round {
    /// Operations still to be looked for in this round.
    left: Vec<OperationId>,
    pause: Duration,
    at: Instant,
}

/// End of an operation: the item of `Client::ends`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The operation.
    pub id: OperationId,
    /// [`Succeeded`](Phase::Succeeded), [`Refused`](Phase::Refused), [`Dead`](Phase::Dead), or
    /// [`Resolved`](Phase::Resolved) if it was cancelled.
    pub phase: Phase,
    /// Effect of the operation, as far as it is known.
    pub effect: Effect,
}

impl Waiters {
    /// A call that waits for the operation is counted until the guard is dropped; the last one removes the entry.
    pub fn enter(&self, id: &OperationId) -> Waiter<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut operations = self.operations.lock();
        let waited = operations.entry(id.clone()).or_insert_with(|| Waited {
            calls: 0,
            woken: Arc::new(Notify::new()),
            seen: None,
        });
        waited.calls += 1;
        Waiter { waiting: self, id: id.clone(), woken: Arc::clone(&waited.woken) }
    }

    /// Wakes the calls that wait for the operation. Its holder calls this once the release is on record.
    pub fn wake(&self, id: &OperationId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(waited) = self.operations.lock().get(id) {
            waited.woken.notify_waiters();
        }
    }

    /// Wakes the calls that wait for an operation with this key, whatever its scope.
    pub fn wake_key(&self, key: &str) {
        let operations = self.operations.lock();
        let named = operations.iter().filter(|(id, _)| id.key.as_str() == key);
        named.for_each(|(_, waited)| waited.woken.notify_waiters());
    }

    /// Wakes the calls that wait for an operation that this process has moved. An operation that has ended is also sent
    /// to the listeners.
    pub fn moved(&self, record: &Record) {
        let phase = record.phase();
        if !matches!(phase, Phase::InProgress | Phase::Scheduled) {
            self.ended(|| End { id: record.id.clone(), phase, effect: record.effect });
        }
        self.wake(&record.id);
    }

    pub fn ended(&self, end: impl FnOnce() -> End) {
        if let Some(ends) = self.ends.get() {
            // No listener is left.
            let _ = ends.send(end());
        }
    }

    /// Returns the ends from now on.
    pub fn ends(&self) -> broadcast::Receiver<End> {
        self.ends.get_or_init(|| broadcast::channel(ENDS_MAX).0).subscribe()
    }

    /// Looks for all that wait here, unless another call does, and wakes those whose operation has moved. It has no end:
    /// the next call goes on with the round as it stands once this is dropped.
    pub async fn look_for_all(&self, store: &dyn Store, clock: &dyn Clock) -> Infallible {
        let mut round = self.round.lock().await;
        loop {
            if round.left.is_empty() {
                round.left = self.operations.lock().keys().cloned().collect();
                let looks = u32::try_from(round.left.len().div_ceil(LOOKED_AT_ONCE)).unwrap_or(u32::MAX);
                round.pause = (LOOK_EVERY / looks.max(1)).max(PAUSE_MIN);
                round.at = clock.now().plus(round.pause);
            }
            // Another client of the store may have another clock.
            clock.sleep_until(round.at.min(clock.now().plus(LOOK_EVERY))).await;
            let from = round.left.len().saturating_sub(LOOKED_AT_ONCE);
            // A store that fails is asked again.
            if let Some(ids) = round.left.get(from..)
                && let Ok(found) = versions(store, ids).await
            {
                self.found(ids, found);
            }
            round.left.truncate(from);
            round.at = clock.now().plus(round.pause);
        }
    }

    /// Wakes the calls whose operation is not as it was at the last look, or was not looked for before.
    fn found(&self, ids: &[OperationId], found: Vec<Seen>) {
        let mut operations = self.operations.lock();
        for (id, found) in ids.iter().zip(found) {
            if let Some(waited) = operations.get_mut(id)
                && waited.seen.replace(found) != Some(found)
            {
                waited.woken.notify_waiters();
            }
        }
    }
}

/// A store without [`Delivery`](super::delivery::Delivery) has them read, one after the other.
async fn versions(store: &dyn Store, ids: &[OperationId]) -> Result<Vec<Seen>, StoreError> {
    if let Some(delivery) = store.delivery() {
        return delivery.versions(ids).await;
    }
    let mut versions = Vec::with_capacity(ids.len());
    for id in ids {
        let record = store.get(id).await?;
        versions.push(record.map(|record| Version { phase: record.phase(), fence: record.fence }));
    }
    Ok(versions)
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters")
            .field("calls", &self.count)
            .field("operations", &self.operations.lock().len())
            .finish_non_exhaustive()
    }
}

/// A call that waits.
pub struct Waiter<'a> {
    waiting: &'a Waiters,
    id: OperationId,
    pub woken: Arc<Notify>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut operations = self.waiting.operations.lock();
        if let Entry::Occupied(mut waited) = operations.entry(self.id.clone()) {
            waited.get_mut().calls -= 1;
            if waited.get().calls == 0 {
                waited.remove();
            }
        }
        self.waiting.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Interval at which each operation is looked for. Where that needs many looks, [`PAUSE_MIN`] is between them, and a
/// round takes longer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Number of operations that are looked for at once, in a millisecond or two.
const LOOKED_AT_ONCE: usize = 500;
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// Number of ends that are kept for a slow listener.
const ENDS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Key, Scope};
    use crate::store::Memory;
    use crate::store::sample::claim_at;
    use crate::test_clock::TestClock;

    fn id(key: &str) -> OperationId {
        let scope = Scope::new("test", "acme", "main", &http::Method::POST, "/charges");
        OperationId::new(scope, Key::new(key).expect("a key"))
    }

    #[test]
    fn the_last_waiter_takes_the_entry_away() {
        let (id, waiting) = (id("order-42"), Waiters::default());
        let (first, second) = (waiting.enter(&id), waiting.enter(&id));
        assert!(Arc::ptr_eq(&first.woken, &second.woken));
        let shown = |calls: usize, operations: usize| {
            format!("Waiters {{ calls: {calls}, operations: {operations}, .. }}")
        };
        assert_eq!(format!("{waiting:?}"), shown(2, 1));
        drop(first);
        assert_eq!(format!("{waiting:?}"), shown(1, 1));
        drop(second);
        assert_eq!(format!("{waiting:?}"), shown(0, 0));
        waiting.wake(&id);
    }

    /// The look goes on where it stood when the call that looked has gone.
    #[tokio::test]
    async fn one_call_looks_for_all_and_another_goes_on_with_it() {
        let (store, clock, waiting) = (Memory::new(), TestClock::auto(), Waiters::default());
        let ids: Vec<OperationId> = (0..2 * LOOKED_AT_ONCE).map(|nth| id(&nth.to_string())).collect();
        let waiters: Vec<Waiter<'_>> = ids.iter().map(|id| waiting.enter(id)).collect();
        let round = async |looks: usize| {
            let mut woken = 0;
            for _ in 0..looks {
                let mut all: Vec<_> =
                    waiters.iter().map(|waiter| Box::pin(waiter.woken.notified())).collect();
                for one in &mut all {
                    one.as_mut().enable();
                }
                let until = clock.now().plus(LOOK_EVERY / 2);
                tokio::select! {
                    biased;
                    _ = waiting.look_for_all(&store, &clock) => {}
                    () = clock.sleep_until(until) => {}
                }
                woken += all.iter_mut().filter_map(|one| one.as_mut().enable().then_some(())).count();
            }
            woken
        };
        assert_eq!(round(2).await, ids.len(), "nobody has looked for them before");
        assert_eq!(round(2).await, 0);
        store.claim(claim_at(&ids[7], clock.wall())).await.expect("a store");
        assert_eq!(round(2).await, 1);
        assert_eq!(round(2).await, 0);
    }
}
