//! [`Enqueued`]: a call that is on record and that a dispatcher sends.

use std::fmt;
use std::future::pending;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use steadfast_core::Error;
use steadfast_core::internal::ext::WakesExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::BY_SERVICE;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Summary;
use steadfast_core::store::{End, StoreError, StoreErrorKind};

use crate::admission::Admission;
use crate::change::{Change, DeadLetterError, rows_of};
use crate::engine::{Accepted, Engine};
use crate::reply::Reply;

/// An operation that is on record: what [`Call::enqueue`](crate::Call::enqueue) gives. Dropping it changes nothing.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use std::time::Duration;
///
/// let reminder = stripe.post("/v1/invoices/in_1/send").key("in_1/remind").after(Duration::from_secs(3_600));
/// let reminder = reminder.enqueue().await?;
/// assert!(reminder.is_new());
///
/// // It was paid meanwhile.
/// reminder.cancel("paid").await?;
/// let error = reminder.wait(Duration::ZERO).await.unwrap_err();
/// assert_eq!(error.effect(), steadfast::Effect::None);
#[doc = include_str!("docs/setup/end.md")]
/// ```
pub struct Enqueued {
    engine: Arc<Engine>,
    accepted: Accepted,
}

impl Enqueued {
    pub(crate) fn new(engine: Arc<Engine>, accepted: Accepted) -> Enqueued {
        Enqueued { engine, accepted }
    }

    /// The operation's name.
    pub fn id(&self) -> &OperationId {
        &self.accepted.named.id
    }

    /// The key as the vendor sees it.
    pub fn wire_key(&self) -> &str {
        &self.accepted.named.wire_key
    }

    /// Whether this call recorded the operation. `false`: it was on record before, and has ended or goes on as it
    /// was. Of a call that was [committed](crate::outbox::Uncommitted::committed) with a transaction it is `true`:
    /// the store has not been asked yet.
    pub fn is_new(&self) -> bool {
        self.accepted.is_new
    }

    /// Waits for the outcome, at most for `limit`. Sends nothing, and holds nothing: a dispatcher does the work.
    ///
    /// A client of the same store in this process wakes it at once. A move by another process is seen within about a
    /// second; where thousands wait in one process, within a few. The wait then costs a look at the store that is one
    /// for all of them.
    ///
    /// # Errors
    ///
    /// The end of the operation, if it has no reply. [`is_in_progress`](Error::is_in_progress) if it has not ended by
    /// then: it goes on, and [`retry_at`](Error::retry_at) is when to ask again. [`is_store`](Error::is_store) if the
    /// store failed at the last look, or has no record any more because its time is over: effect unknown. A call that a
    /// person took out of the outbox ends as a dead letter that is closed.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn wait(&self, limit: Duration) -> Result<Reply, Error> {
        let engine = &self.engine;
        let deadline = engine.clock.now().plus(limit);
        let mut reply = engine.wait_for_end(&self.accepted, deadline).await?;
        let request = &self.accepted.request;
        reply.sent_by(Arc::clone(engine) as _, request.method.clone(), request.url.clone());
        Ok(reply)
    }

    /// Closes the operation: no process sends it any more. In a sequence, the next one goes. `why` is kept in the
    /// audit record, signed by [`CANCELLED_BY`](Enqueued::CANCELLED_BY).
    ///
    /// Its effect is as on record: *none* if it was never sent, *unknown* if it may have been.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if a process is sending it now, or it has ended; nothing is changed then. Any
    /// other error is the store's: ask again. If the operation was closed all the same, the answer is then `Refused`.
    ///
    /// A call of `enqueue_in` that no dispatcher has admitted yet is admitted first, which takes a dispatcher's role on
    /// Postgres. With less, the error is the store's and of kind
    /// [`Denied`](crate::store::StoreErrorKind::Denied): the call is **not** cancelled, and can be once it is admitted.
    /// Where it cannot be admitted, as behind a rejected call of its sequence, its row is removed from the outbox.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future may leave the operation closed or as it was, and nothing in between.
    pub async fn cancel(&self, why: impl Into<String>) -> Result<(), DeadLetterError> {
        let engine = &self.engine;
        let how = Change::by(Enqueued::CANCELLED_BY).because(why);
        let is_in_outbox = Guard::RowRecordedToCancel.keeps(self.accepted.in_outbox.is_some());
        let until = engine.clock.now().plus(ADMITTED_WITHIN);
        let cancelled = loop {
            let mut admission = Admission::default();
            if is_in_outbox {
                // What no dispatcher has recorded yet is recorded first: then there is something to close.
                while admission.round(engine).await.map_err(DeadLetterError::Invalid)? {}
            }
            let id = &engine.name_on_record_now(&self.accepted, until).await.id;
            let error = match how.cancel(&*engine.store, id, engine.wall()).await {
                Ok(record) => {
                    let Summary { id, phase, effect, .. } = record.summary();
                    engine.wakes.waiting().ended(|| End { id: id.clone(), phase, effect });
                    break id;
                }
                Err(error) => error,
            };
            let is_recorded = match error {
                DeadLetterError::Absent(_) => false,
                // It may be the end of an earlier life of the key.
                DeadLetterError::Refused { .. } => !engine.has_only_an_earlier_life(id).await,
                _ => true,
            };
            if is_recorded || !is_in_outbox {
                return Err(error);
            }
            // It is not absent: it is in the outbox, and will be sent.
            if admission.may_not() {
                return Err(may_not_admit());
            }
            if self.is_removed_from_outbox(&how).await? {
                break self.id().clone();
            }
            // Another dispatcher may be at its row.
            if engine.clock.now() >= until {
                return Err(not_admitted());
            }
            engine.clock.sleep_until(engine.clock.now().plus(ADMITTED_PAUSE)).await;
        };
        engine.wakes.waiting().wake(&cancelled);
        // The next one of its sequence, if it was in one.
        engine.wakes.wake(Some(&cancelled.scope), engine.wall());
        Ok(())
    }

    /// Removes its rows from the outbox. Returns true if there was one.
    async fn is_removed_from_outbox(&self, how: &Change) -> Result<bool, DeadLetterError> {
        let engine = &self.engine;
        let Some(outbox) = engine.outbox() else { return Ok(false) };
        let mut is_removed = false;
        // The client names rows: a header may have chosen another account.
        for (row, _) in rows_of(outbox, iter::once(&**engine), self.id().key.as_str()).await? {
            if row.id.scope == self.id().scope {
                is_removed |= how.cancel_row(outbox, &row, engine.wall()).await?;
            }
        }
        Ok(is_removed)
    }

    /// Author, on the audit record, of [`cancel`](Enqueued::cancel).
    pub const CANCELLED_BY: &'static str = BY_SERVICE;
}

fn may_not_admit() -> DeadLetterError {
    in_the_outbox(
        StoreError::new(
            "the role may not admit it, as a dispatcher's may; cancel it again once a dispatcher has admitted it",
        )
        .of_kind(StoreErrorKind::Denied),
    )
}

/// Refuses to call it absent: it may be sent later, and a caller who takes it for absent would send it under another
/// key.
fn not_admitted() -> DeadLetterError {
    in_the_outbox(StoreError::new(
        "it is neither on record nor in the outbox: its transaction was not committed, somebody removed it, or its record's \
         retention is over",
    ))
}

fn in_the_outbox(source: StoreError) -> DeadLetterError {
    DeadLetterError::Store { doing: "cancel a call that is in the outbox yet", source }
}

/// The ends of a client's operations: what [`Client::ends`](crate::Client::ends) gives.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// let mut ends = stripe.ends();
/// let charge = stripe.post("/v1/charges").key("order-42/charge");
/// charge.form(&[("amount", "1000"), ("currency", "usd")]).send().await?;
/// let end = ends.next().await.expect("none was missed");
/// assert_eq!((end.id.key.as_str(), end.effect), ("order-42/charge", steadfast::Effect::Applied));
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Debug)]
pub struct Ends {
    account: String,
    ends: broadcast::Receiver<End>,
}

impl Ends {
    pub(crate) fn of(engine: &Engine) -> Ends {
        Ends { account: engine.account_path(), ends: engine.wakes.waiting().ends() }
    }

    /// The next one.
    ///
    /// # Errors
    ///
    /// So many were missed, of whatever account, because this was called too seldom. The next call goes on behind them.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses none.
    pub async fn next(&mut self) -> Result<End, u64> {
        loop {
            match self.ends.recv().await {
                Ok(end) if end.id.scope.is_reached_by(&self.account) => return Ok(end),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Err(missed),
                // Each client of the store has gone.
                Err(RecvError::Closed) => pending().await,
            }
        }
    }
}

/// Longer than a dispatcher that lives takes to record a row.
const ADMITTED_WITHIN: Duration = Duration::from_secs(2);
const ADMITTED_PAUSE: Duration = Duration::from_millis(50);

impl fmt::Debug for Enqueued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueued")
            .field("id", self.id())
            .field("is_new", &self.is_new())
            .finish_non_exhaustive()
    }
}
