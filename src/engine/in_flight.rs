//! Waiting for the outcome of an operation that another call holds, or has taken over from this one.
//!
//! At first the call reads the record at growing intervals: most calls end within a few tenths of a second. Then it is
//! woken, see [`Waiters`](crate::store::Waiters).

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::futures::Notified;

use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::{ErrorExt, WakesExt};
use steadfast_core::{Effect, Error};

use super::Engine;
use super::claim::Keyed;
use super::entry::Stop;
use super::on_record::{Open, Standing, in_progress};
use crate::reply::Reply;
use crate::telemetry;

impl Engine {
    /// Waits until the operation is free or has ended, or until the call's time is over. `told` is what the call is told
    /// if the record cannot be read; one that was overtaken is told that of every end but a success.
    ///
    /// Dropping the future leaves nothing behind.
    pub(super) async fn wait_for_holder(&self, call: Keyed<'_>, mut told: Error) -> Result<Reply, Error> {
        let offered = call.offered;
        let waiter = self.wakes.waiting().enter(offered.id);
        let mut pauses = Pauses::new();
        loop {
            // Before the look: an outcome that is written down in between still wakes.
            let mut woken = pin!(waiter.woken.notified());
            woken.as_mut().enable();
            let mut due_in = None;
            match self.standing(offered).await {
                Standing::Final { outcome: ended, .. } => {
                    return self.with_waited(unless_sent_before(told, *ended), call);
                }
                Standing::Free(refused) => {
                    return self.with_waited(unless_sent_before(told, Err(refused)), call);
                }
                Standing::Open(open) if !open.is_free => {
                    told = in_place_of(told, in_progress(&open));
                    due_in = open.free_in(self.wall());
                    if !self.may_end_in_time(&open, call) {
                        return self.with_waited(Err(told), call);
                    }
                }
                Standing::CannotSay => {
                    told = told.with_effect(Effect::Unknown);
                    // What woke it may not wake it again.
                    pauses.once_more();
                }
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
                return self.with_waited(Err(told), call);
            }
            let (pause, looks) = pauses.next(self.random.unit());
            let until = now.plus(due_in.map_or(pause, |due| due.min(pause))).min(offered.deadline);
            telemetry::waiting_for_holder(call.whose(&self.vendor), until.since(now));
            self.until_moved(woken, looks, until).await;
        }
    }

    /// Waits until a wake, or `until`. Where it `looks`, this call or another one looks for all that wait.
    /// Whether it was a wake.
    pub(super) async fn until_moved(
        &self,
        woken: Pin<&mut Notified<'_>>,
        looks: bool,
        until: Instant,
    ) -> bool {
        tokio::select! {
            biased;
            () = woken => true,
            () = self.clock.sleep_until(until) => false,
            never = self.wakes.waiting().look_for_all(&*self.store, &*self.clock), if looks => match never {},
        }
    }

    /// Whether the operation can end, or become free, before the call's time is over. No process sends what is
    /// scheduled for later before its time.
    pub(super) fn may_end_in_time(&self, open: &Open, call: Keyed<'_>) -> bool {
        let left = call.offered.deadline.since(self.clock.now());
        open.due.is_none_or(|due| due.since(self.wall()) < left)
    }

    fn with_waited(&self, ended: Result<Reply, Error>, call: Keyed<'_>) -> Result<Reply, Error> {
        let waited = self.clock.now().since(call.started);
        let named = |error| self.named_if_it_is_not(error, call.offered).with_waited(waited);
        ended.map(|reply| reply.with_waited(waited)).map_err(named)
    }
}

/// The call's result for `ended`. One that was overtaken has sent something that the record need not know of: a
/// success is proof for it too, and nothing else is.
fn unless_sent_before(told: Error, ended: Result<Reply, Error>) -> Result<Reply, Error> {
    ended.map_err(|ended| if told.is_fenced() { told.with_disposition(ended.disposition()) } else { ended })
}

/// As long as it waits, a call that was overtaken is told so, and what goes on by now.
fn in_place_of(told: Error, newer: Error) -> Error {
    if told.is_fenced() && !newer.is_fenced() { told.with_disposition(newer.disposition()) } else { newer }
}

/// The time between two looks at a record that another process moves, if no wake comes: longer each time.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Pauses {
        Pauses(LOOK_STEP_MIN)
    }

    /// Equal jitter: those who began to wait together do not look together. And whether one call looks for all meanwhile:
    /// after the longest step. Each reads for itself then too, but rarely: the one that looks may be polled no more.
    pub(super) fn next(&mut self, unit: f64) -> (Duration, bool) {
        let looks = self.0 > LOOK_STEP_MAX;
        let step = if looks { LOOK_ALONE } else { self.0 };
        if !looks {
            self.0 = self.0.saturating_mul(2);
        }
        let half = step / 2;
        (half.saturating_add(half.mul_f64(unit)), looks)
    }

    /// The longest step again, if that was the last: the record could not be read.
    pub(super) fn once_more(&mut self) {
        if self.0 > LOOK_STEP_MAX {
            self.0 /= 2;
        }
    }
}

/// The longest pause before the first look at the record: most calls end within a few tenths of a second.
const LOOK_STEP_MIN: Duration = Duration::from_millis(50);

/// The longest pause between two looks: the period of a dispatcher, and one read a second of a record that is indexed
/// by its key.
const LOOK_STEP_MAX: Duration = Duration::from_secs(1);

/// The longest time for which a call trusts the one that looks for all. Five thousand that wait then cost about forty
/// reads a second.
const LOOK_ALONE: Duration = Duration::from_secs(180);
