//! Waiting for the outcome of an operation that another call holds, or has taken over from this one.
//!
//! Two ways to learn of it. A holder of the same client wakes the call as soon as its outcome is on record. Any other
//! holder is known by the record alone, which is read at growing intervals. The call never trusts the wake itself: it
//! looks at the record each time. So a wake too many costs a read, and a lost wake costs one interval.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Engine;
use super::claim::Keyed;
use super::keyed::Stop;
use super::on_record::{Open, Standing, in_progress};
use crate::error::{Effect, Error};
use crate::operation::OperationId;
use crate::reply::Reply;
use crate::telemetry;

impl Engine {
    /// Waits until the operation is free or has ended, or until the call's time is over. `told` is what the call is told
    /// if the record cannot be read; one that was overtaken is told that of every end but a success.
    ///
    /// Dropping the future leaves nothing behind.
    pub(super) async fn wait_for_holder(&self, call: Keyed<'_>, mut told: Error) -> Result<Reply, Error> {
        let offered = call.offered;
        let waiter = self.waiting.enter(offered.id);
        let mut pauses = Pauses::new();
        loop {
            // Before the look: an outcome that is written down in between still wakes.
            let mut woken = pin!(waiter.woken.notified());
            woken.as_mut().enable();
            let mut due_in = None;
            match self.standing(offered).await {
                Standing::Final { outcome: ended, .. } => {
                    return self.after_waiting(unless_sent_before(told, *ended), call);
                }
                Standing::Free(refused) => {
                    return self.after_waiting(unless_sent_before(told, Err(refused)), call);
                }
                Standing::Open(open) if !open.is_free => {
                    told = in_place_of(told, in_progress(&open));
                    due_in = open.due.map(|due| due.since(self.wall()));
                    if !self.may_end_in_time(&open, call) {
                        return self.after_waiting(Err(told), call);
                    }
                }
                Standing::CannotSay => told = told.of_effect(Effect::Unknown),
                Standing::Absent | Standing::Open(_) if self.clock.now() < offered.deadline => {
                    match Box::pin(self.begin(&call, self.clock.now())).await {
                        Err(Stop::Held(held)) => told = in_place_of(told, held),
                        ended => return unless_sent_before(told, ended.map_err(Stop::into_error)),
                    }
                }
                Standing::Absent | Standing::Open(_) => {}
            }
            let now = self.clock.now();
            if now >= offered.deadline {
                return self.after_waiting(Err(told), call);
            }
            let pause = pauses.next(self.random.unit());
            let at = now.plus(due_in.map_or(pause, |due| due.min(pause))).min(offered.deadline);
            telemetry::waiting_for_holder(call.whose(&self.vendor), at.since(now));
            tokio::select! {
                biased;
                () = woken => {}
                () = self.clock.sleep_until(at) => {}
            }
        }
    }

    /// Whether the operation can end, or become free, before the call's time is over. No process sends what is
    /// scheduled for later before its time.
    pub(super) fn may_end_in_time(&self, open: &Open, call: Keyed<'_>) -> bool {
        let left = call.offered.deadline.since(self.clock.now());
        open.due.is_none_or(|due| due.since(self.wall()) < left)
    }

    fn after_waiting(&self, ended: Result<Reply, Error>, call: Keyed<'_>) -> Result<Reply, Error> {
        let waited = self.clock.now().since(call.started);
        let named = |error| self.named_if_it_is_not(error, call.offered).after_waiting(waited);
        ended.map(|reply| reply.after_waiting(waited)).map_err(named)
    }
}

/// What a call is told for `ended`. One that was overtaken has sent something that the record need not know of: a
/// success is proof for it too, and nothing else is.
fn unless_sent_before(told: Error, ended: Result<Reply, Error>) -> Result<Reply, Error> {
    ended.map_err(|ended| if told.is_fenced() { told.going_on(ended.disposition()) } else { ended })
}

/// As long as it waits, a call that was overtaken is told so, and what goes on by now.
fn in_place_of(told: Error, newer: Error) -> Error {
    if told.is_fenced() && !newer.is_fenced() { told.going_on(newer.disposition()) } else { newer }
}

/// The time between two looks at a record that another process moves, if no wake comes: longer each time.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Pauses {
        Pauses(LOOK_STEP_MIN)
    }

    /// Equal jitter: those who began to wait together do not look together.
    pub(super) fn next(&mut self, unit: f64) -> Duration {
        let half = self.0 / 2;
        self.0 = self.0.saturating_mul(2).min(LOOK_STEP_MAX);
        half.saturating_add(half.mul_f64(unit))
    }
}

/// The calls of one client that wait for an operation.
#[derive(Default)]
pub(crate) struct Waiting {
    /// How many calls wait. A holder for which no call waits takes no lock.
    count: AtomicUsize,
    operations: Mutex<HashMap<OperationId, Waited>>,
}

struct Waited {
    calls: usize,
    woken: Arc<Notify>,
}

impl Waiting {
    /// A call that waits for the operation is counted until the guard is dropped; the last one removes the entry.
    pub(super) fn enter(&self, id: &OperationId) -> Waiter<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut operations = self.operations.lock();
        let waited = operations
            .entry(id.clone())
            .or_insert_with(|| Waited { calls: 0, woken: Arc::new(Notify::new()) });
        waited.calls += 1;
        Waiter { waiting: self, id: id.clone(), woken: Arc::clone(&waited.woken) }
    }

    /// Wakes the calls that wait for the operation. Its holder calls this once it has let go of it on record.
    pub(crate) fn wake(&self, id: &OperationId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(waited) = self.operations.lock().get(id) {
            waited.woken.notify_waiters();
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("calls", &self.count)
            .field("operations", &self.operations.lock().len())
            .finish()
    }
}

/// One call that waits.
pub(super) struct Waiter<'a> {
    waiting: &'a Waiting,
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

/// The longest pause before the first look at the record: most calls end within a few tenths of a second.
const LOOK_STEP_MIN: Duration = Duration::from_millis(50);

/// The longest pause between two looks: the period of a dispatcher, and one read a second of a record that is indexed
/// by its key.
const LOOK_STEP_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Key, Scope};

    #[test]
    fn the_last_waiter_takes_the_entry_away() {
        let scope = Scope::new("test", "acme", "main", &http::Method::POST, "/charges");
        let id = OperationId::new(scope, Key::new("order-42").expect("a key"));
        let waiting = Waiting::default();
        let (first, second) = (waiting.enter(&id), waiting.enter(&id));
        assert!(Arc::ptr_eq(&first.woken, &second.woken));
        assert_eq!(format!("{waiting:?}"), "Waiting { calls: 2, operations: 1 }");
        drop(first);
        assert_eq!(format!("{waiting:?}"), "Waiting { calls: 1, operations: 1 }");
        drop(second);
        assert_eq!(format!("{waiting:?}"), "Waiting { calls: 0, operations: 0 }");
        waiting.wake(&id);
    }
}
