//! Recording an operation without sending it, and waiting for what becomes of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::decision::claim::{Intent, Meaning, meaning};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, WakesExt};
use steadfast_core::operation::record::{Action, Record};
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::transport::Request;
use steadfast_core::{Disposition, Effect, Error, Reason};

use super::claim::{Keyed, Offered, key_reused};
use super::entry::no_time;
use super::entry::{Named, Stop};
use super::in_flight::Pauses;
use super::on_record::{Standing, in_progress};
use super::{Engine, Work};
use crate::limit;
use crate::reply::Reply;
use crate::telemetry;

/// An operation that is on record.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub named: Named,
    /// The names that a row may be recorded by instead, if one of them is on record from before the vendor moved.
    pub formers: Vec<Named>,
    /// As it was stamped.
    pub request: Arc<Request>,
    /// Whether this call recorded it.
    pub is_new: bool,
    /// Its row, if it lies in the outbox, until a dispatcher records it.
    pub in_outbox: Option<Row>,
    /// Whether its handle was asked for by the name alone: then it is of whatever request has the name.
    pub by_name: bool,
}

/// A row of the outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Since when it is known here.
    pub since: Instant,
    /// When it was written, by the clock that its row has the time of.
    pub written: Timestamp,
}

impl Engine {
    /// Records the operation as due at `due`, and sends nothing. One that is there already stays as it is.
    ///
    /// No gate is asked: what cannot be sent now is sent later.
    pub(crate) async fn enqueue(
        &self,
        mut request: Request,
        work: &Work,
        key: Key,
        due: Timestamp,
        started: Instant,
    ) -> Result<Accepted, Error> {
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        Box::pin(self.register_once(deadline)).await;
        let row = self.row_of_sequence(&request, work, (&key, due))?;
        let named = self.name_of_call(&mut request, work, key, deadline).await?;
        let request = Arc::new(request);
        let call = Keyed { due: Some(due), ..named.call(&request, work, (started, deadline)) };
        telemetry::named(call.whose(&self.vendor));
        if let Some(row) = row
            && deadline > started
            && let Some(is_new) = Box::pin(self.record_behind_rows(&call, &row)).await?
        {
            let in_outbox = is_new.then(|| Row { since: self.clock.now(), written: row.enqueued_at });
            return Ok(Accepted { named, formers: Vec::new(), request, is_new, in_outbox, by_name: false });
        }
        let is_new = self.record_as_due(&call, due).await?;
        telemetry::outbox::enqueued(call.whose(&self.vendor), is_new);
        Ok(Accepted { named, formers: Vec::new(), request, is_new, in_outbox: None, by_name: false })
    }

    /// Whether it is on record by this call.
    async fn record_as_due(&self, call: &Keyed<'_>, due: Timestamp) -> Result<bool, Error> {
        let Keyed { offered, work, started, .. } = *call;
        let deadline = offered.deadline;
        if deadline <= started {
            let refused = self.named(no_time(), offered);
            Box::pin(self.refused_before_claim(refused, *call)).await.map_err(Stop::into_error)?;
            return Ok(false);
        }
        let claimed = match self.claim(call).await {
            Ok(claimed) => *claimed,
            Err(failure) => {
                Box::pin(self.not_claimed(failure, *call)).await.map_err(Stop::into_error)?;
                return Ok(false);
            }
        };
        match meaning(claimed, Intent::Enqueue) {
            Meaning::Send(record) | Meaning::CarryOn { record, .. } | Meaning::Recorded(record) => {
                self.wake_for(&record, due);
                Ok(true)
            }
            Meaning::OnRecord | Meaning::Held { .. } | Meaning::Later => Ok(false),
            Meaning::Ended(record) => {
                self.with_cause_on_record(self.replay(record), offered.id, deadline).await?;
                Ok(false)
            }
            Meaning::OtherRequest { held, effect, next } => {
                Err(self.named(key_reused(held, offered.fingerprint, (effect, next)), offered))
            }
            Meaning::InTheWay { obstacle, effect } => {
                Err(self.named(self.in_the_way(work, obstacle, effect), offered))
            }
        }
    }

    /// Wakes a dispatcher for an operation that was recorded just now, unless it waits for its turn.
    pub(super) fn wake_for(&self, record: &Record, due: Timestamp) {
        if record.waits_for().is_none() {
            // At the time that is on record: it is of the store's own clock.
            self.wakes.wake(Some(&record.id.scope), record.until().unwrap_or(due));
        }
    }

    /// The operation has moved on by this process. If it has ended, the next one of its sequence may be taken.
    pub(crate) fn pass_turn(&self, record: &Record) {
        if record.sequence.is_some() && !record.holds_sequence() {
            self.wakes.wake(Some(&record.id.scope), self.wall());
        }
    }

    /// Waits until the operation has ended, at most until `deadline`. Sends nothing.
    ///
    /// Dropping the future leaves nothing behind.
    pub(crate) async fn wait_for_end(&self, accepted: &Accepted, deadline: Instant) -> Result<Reply, Error> {
        let started = self.clock.now();
        // Its end wakes those that wait for the name on record.
        let waiter = self.wakes.waiting().enter(&self.name_on_record_now(accepted, deadline).await.id);
        let (mut pauses, mut in_outbox) = (Pauses::new(), accepted.in_outbox);
        let mut asks_at = started;
        loop {
            // Before the look: an outcome that is written down in between still wakes.
            let mut woken = pin!(waiter.woken.notified());
            woken.as_mut().enable();
            let named = self.name_on_record_now(accepted, deadline).await;
            let offered = Offered { deadline, ..named.offered(&accepted.request) };
            let waited = |error: Error| {
                let error = self.named_if_it_is_not(error, offered);
                error.with_waited(self.clock.now().since(started))
            };
            // Before the look at the record, too: a row may be admitted in between, and an older one of its key be rejected.
            let asks_row = in_outbox.is_some() && self.clock.now() >= asks_at.min(deadline);
            let mut rejected = None;
            if asks_row {
                asks_at = self.clock.now().plus(REJECTED_EVERY);
                rejected = Box::pin(self.why_rejected(&named.id)).await;
            }
            let standing = match accepted.by_name {
                true => self.standing_by_name(offered).await,
                false => self.standing(offered).await,
            };
            let told = match (standing, in_outbox) {
                // No dispatcher has recorded it yet, as far as its name tells. What is on record is of an earlier life.
                (standing @ (Standing::Final { is_over: true, .. } | Standing::Absent), Some(row)) => {
                    let effect = self.effect_of_row(row, named);
                    let row = AskedRow { row, named, rejected, asks: asks_row, is_seen: accepted.by_name };
                    if let Some(end) = Box::pin(self.end_of_row(standing, row)).await {
                        let passed = self.clock.now().since(started);
                        return end.map(|reply| reply.with_waited(passed)).map_err(waited);
                    }
                    Error::new(Kind::InProgress, effect)
                }
                (Standing::Final { outcome, .. }, _) => {
                    let passed = self.clock.now().since(started);
                    return outcome.map(|reply| reply.with_waited(passed)).map_err(waited);
                }
                (Standing::Free(refused), _) => return Err(waited(refused)),
                (Standing::Open(open), _) => {
                    in_outbox = None;
                    in_progress(&open)
                }
                (Standing::Absent, None) => return Err(waited(forgotten())),
                (Standing::CannotSay, _) => {
                    // What woke it may not wake it again.
                    pauses.once_more();
                    Error::new(Kind::Store { doing: FIND }, Effect::Unknown)
                }
            };
            let now = self.clock.now();
            if now >= deadline {
                return Err(waited(told));
            }
            let (pause, looks) = pauses.next(self.random.unit());
            let until = now.plus(pause).min(deadline);
            let asks = in_outbox.map_or(until, |_| asks_at.min(until));
            if self.until_moved(woken, looks, asks).await {
                // Perhaps its row was rejected.
                asks_at = self.clock.now();
            }
        }
    }

    /// The name by which a row is recorded, or will be: see [`former_name`](Engine::former_name). A store that cannot say is
    /// asked again.
    pub(crate) async fn name_on_record_now<'a>(&self, accepted: &'a Accepted, until: Instant) -> &'a Named {
        let until = until.max(self.clock.now().plus(STORE_GRACE));
        for former in &accepted.formers {
            if let Ok(Some(_)) = self.record_of(&former.id, until).await {
                return former;
            }
        }
        &accepted.named
    }

    /// The effect of a row without a record. Once its retention is over, its record may have been
    /// there and been removed.
    fn effect_of_row(&self, row: Row, named: &Named) -> Effect {
        let is_recent = self.clock.now().since(row.since) < named.keep;
        if is_recent { self.effect_of_absent() } else { Effect::Unknown }
    }

    /// The end of a row without a record of its own; `None` while it waits, or may not be visible yet.
    async fn end_of_row(&self, standing: Standing, asked: AskedRow<'_>) -> Option<Result<Reply, Error>> {
        let AskedRow { row, named, rejected, asks, is_seen } = asked;
        let (id, until) = (&named.id, self.clock.now().plus(STORE_GRACE));
        let fence = match &standing {
            Standing::Final { fence, .. } => Some(*fence),
            _ => None,
        };
        let effect = self.effect_of_row(row, named);
        if let Some(why) = rejected {
            return Some(Err(Error::new(Kind::RowRejected { why }, effect)));
        }
        if !(asks || fence.is_some()) || self.is_in_outbox(id, until).await != Some(false) {
            return None;
        }
        // It waits no more, and may have been recorded since the look at the record.
        let record = self.record_of(id, until).await.ok()?;
        if record.as_ref().map(|record| record.fence) != fence {
            return None;
        }
        // It may have been rejected since the look at its rejection.
        if let Some(why) = self.why_rejected(id).await {
            return Some(Err(Error::new(Kind::RowRejected { why }, effect)));
        }
        // A repeat of what was on record when it was written. It has begun nothing.
        if let (Standing::Final { outcome, .. }, Some(record)) = (standing, record)
            && !record.has_expired(row.written)
        {
            return Some(*outcome);
        }
        if asks && self.was_cancelled(id, row).await {
            return Some(Err(closed(effect)));
        }
        // One that was never seen may not be committed yet.
        let is_forgotten = asks && (is_seen || self.clock.now().since(row.since) >= named.keep);
        is_forgotten.then(|| Err(forgotten()))
    }

    /// Whether a person removed a row before it was recorded. The audit record alone tells: a row that cannot be found may
    /// not be visible yet.
    async fn was_cancelled(&self, id: &OperationId, row: Row) -> bool {
        let until = self.clock.now().plus(STORE_GRACE);
        let audit = self.store.audit(Some(id), None, AUDIT_MAX);
        let Some(Ok(page)) = limit::within(&*self.clock, until, audit).await else { return false };
        page.rows.iter().any(|entry| entry.action == Action::Cancel && entry.at >= row.written)
    }

    /// Why the row of a call was rejected that is in the outbox. A store that cannot say is asked again.
    async fn why_rejected(&self, id: &OperationId) -> Option<String> {
        let outbox = self.outbox()?;
        let account = self.account();
        let look = outbox.rejection(&account, id.key.as_str());
        limit::within(&*self.clock, self.clock.now().plus(STORE_GRACE), look).await?.ok()?
    }
}

/// A row that a wait has asked for.
struct AskedRow<'a> {
    row: Row,
    named: &'a Named,
    rejected: Option<String>,
    /// Whether it is time to find out where it is.
    asks: bool,
    /// Whether it was found in the outbox, and not only written.
    is_seen: bool,
}

/// Its time on record is over, or somebody removed it.
fn forgotten() -> Error {
    Error::new(Kind::Store { doing: FIND }, Effect::Unknown).with_disposition(Disposition::Ended)
}

/// As of a record that was closed before it came to an end.
fn closed(effect: Effect) -> Error {
    let kind = Kind::DeadLetter { reason: Reason::Closed, timeout: false, rate_limited: false };
    Error::new(kind, effect).with_disposition(Disposition::Ended)
}

/// As many as are read of one operation's audit record.
const AUDIT_MAX: usize = 100;

/// How often a wait looks whether another process rejected its row, beside the first and the last time.
const REJECTED_EVERY: Duration = Duration::from_secs(60);

const FIND: &str = "find the operation";
