//! [`Enqueued`]: a call that is on record and that a dispatcher sends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::dead_letter::{Change, DeadLetterError, DeadLetters};
use crate::dispatcher::Admission;
use crate::engine::Accepted;
use crate::error::Error;
use crate::guard::Guard;
use crate::operation::OperationId;
use crate::operation::record::BY_SERVICE;
use crate::reply::Reply;
use crate::store::{StoreError, StoreErrorKind};

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
    client: Client,
    accepted: Accepted,
}

impl Enqueued {
    pub(crate) fn new(client: Client, accepted: Accepted) -> Enqueued {
        Enqueued { client, accepted }
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
    /// A dispatcher of the same client wakes it at once; the outcome of another process is seen within a second.
    ///
    /// # Errors
    ///
    /// How the operation ended, if not with a reply. [`is_in_progress`](Error::is_in_progress) if it has not ended by
    /// then: it goes on, and [`retry_at`](Error::retry_at) is when to ask again. [`is_store`](Error::is_store) if the
    /// store failed at the last look, or has no record any more because its time is over: effect unknown.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn wait(&self, limit: Duration) -> Result<Reply, Error> {
        let engine = &self.client.engine;
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
    /// So it is where no dispatcher may admit it yet, as behind a rejected call of its sequence: the error is the
    /// store's, after two seconds.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future may leave the operation closed or as it was, and nothing in between.
    pub async fn cancel(&self, why: impl Into<String>) -> Result<(), DeadLetterError> {
        let engine = &self.client.engine;
        let letters = DeadLetters::new(Arc::clone(&engine.store)).with_clock(Arc::clone(&engine.clock));
        let how = Change::by(Enqueued::CANCELLED_BY).because(why);
        let is_in_outbox = Guard::RowRecordedToCancel.keeps(self.accepted.in_outbox.is_some());
        let until = engine.clock.now().plus(ADMITTED_WITHIN);
        loop {
            let mut admission = Admission::default();
            if is_in_outbox {
                // What no dispatcher has recorded yet is recorded first: then there is something to close.
                while admission.round(&self.client).await.map_err(DeadLetterError::Invalid)? {}
            }
            let Err(error) = letters.cancel(self.id(), &how).await else { break };
            let is_recorded = match error {
                DeadLetterError::Absent(_) => false,
                // It may be the end of an earlier life of the key.
                DeadLetterError::Refused { .. } => !engine.has_only_an_earlier_life(self.id()).await,
                _ => true,
            };
            if is_recorded || !is_in_outbox {
                return Err(error);
            }
            // It is not absent: it is in the outbox, and will be sent.
            if admission.may_not() {
                return Err(may_not_admit());
            }
            // Another dispatcher may be at its row.
            if engine.clock.now() >= until {
                return Err(not_admitted());
            }
            engine.clock.sleep_until(engine.clock.now().plus(ADMITTED_PAUSE)).await;
        }
        engine.waiting.wake(self.id());
        // The next one of its sequence, if it was in one.
        engine.wakes.wake(Some(&self.id().scope), engine.wall());
        Ok(())
    }

    /// Who signs [`cancel`](Enqueued::cancel).
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

/// It may be sent later: who is told that it is absent would send it under another key.
fn not_admitted() -> DeadLetterError {
    in_the_outbox(StoreError::new(
        "it is not on record, and not cancelled: it or a call before it in its sequence was rejected or cannot be read \
         (`steadfast outbox` lists both), or its record was removed after its retention",
    ))
}

fn in_the_outbox(source: StoreError) -> DeadLetterError {
    DeadLetterError::Store { doing: "cancel a call that is in the outbox yet", source }
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
