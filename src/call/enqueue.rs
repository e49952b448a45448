//! A call that is recorded now and sent by a dispatcher.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::Instrument;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input, Sequence};

use super::Call;
use crate::engine::Work;
use crate::enqueued::Enqueued;
use crate::prepared::Due;
use crate::telemetry;

impl Call {
    /// [Enqueues](Call::enqueue) the call for `time`: it is not sent before, by the wall clocks of the hosts. A time
    /// that has passed means now. The last of several counts, also with [`after`](Call::after).
    ///
    /// Default: now. It is a mistake in a call that is [sent](Call::send).
    pub fn at(mut self, time: impl Into<SystemTime>) -> Call {
        self.prepared.due = Some(Due::At(Timestamp::from(time.into())));
        self
    }

    /// [Enqueues](Call::enqueue) it for a time that is `wait` after it is enqueued. Otherwise as [`at`](Call::at).
    pub fn after(mut self, wait: Duration) -> Call {
        self.prepared.due = Some(Due::After(wait));
        self
    }

    /// [Enqueues](Call::enqueue) the call into a [`Sequence`], such as `customer-7`. The calls of one sequence are
    /// delivered one at a time, in the order in which they were accepted. Retries, other processes and restarts do
    /// not change that order.
    ///
    /// A call that waits for a retry, a settle time or its [own time](Call::at) holds all calls behind it. A success,
    /// a refusal and [`cancel`](Enqueued::cancel) let the next one go. A dead letter holds its sequence until an
    /// operator has resolved it, unless the [`Sequence`] says to skip it.
    ///
    /// The order is that of the commits in the store. Of two calls that are enqueued at the same time either may be
    /// first. Rows of the sequence that lie in the [outbox](crate::outbox) were accepted too. While there are any,
    /// the call goes there itself, and a dispatcher records it behind them. An operation that is on record already
    /// stays where it is, in its first sequence or in none. A call that [starts another one over](Call::supersedes)
    /// in the same sequence takes that one's place.
    ///
    /// Default: none; it is delivered beside all others. It is a mistake in a call that is [sent](Call::send): a call
    /// that is sent now does not wait for others. The name is stored as it is, also where requests are sealed.
    pub fn sequence(mut self, sequence: impl Into<Sequence>) -> Call {
        self.prepared.sequence(sequence.into());
        self
    }

    /// Records the call durably, and returns before anything is sent. A dispatcher sends it: see
    /// [`Client::keep_recovering`](crate::Client::keep_recovering), in this process or another one on the same store.
    /// A dispatcher in this process begins at once, if the call is due. Without a dispatcher nothing is sent.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use std::time::Duration;
    ///
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let charge = stripe.post("/v1/charges").key("order-42/charge").form(&form).enqueue().await?;
    ///
    /// let _dispatcher = stripe.keep_recovering(steadfast::dispatcher::PERIOD);
    /// let reply = charge.wait(Duration::from_secs(60)).await?;
    /// assert_eq!((reply.status().as_u16(), reply.key()), (200, Some("order-42/charge")));
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// The dispatcher brings the call to its one outcome, as it does with a [sent](Call::send) call after its caller
    /// has gone: with the client's own policy, at recovery's rate. A deadline of the call is for the recording alone.
    /// A [ladder](Call::backoff) or [timeouts](Call::timeout) of its own would be forgotten, and so would the
    /// [mark not to retry](Call::inbound) of an incoming request: they are mistakes. No gate is asked: what cannot be sent now is sent later. The vendor's replay
    /// window begins with the first send, however late that is.
    ///
    /// The client's first one [registers](crate::Client::register) the terms of its account, or is refused where
    /// another service has registered others: the process that delivers would send its own secret.
    ///
    /// The same key is the same operation. If it is on record already, it stays as it is, and the handle is for it. A
    /// call without a key gets one.
    ///
    /// As durable as the client's store: with [`Memory`](crate::store::Memory), a crash forgets what was accepted.
    ///
    /// # Errors
    ///
    /// As [`send`](Call::send), of what came before the first send: a mistake in the call, a key of another request, a
    /// store that failed. Also how the operation ended, if it is on record as refused or dead. An error of the store has
    /// effect unknown if the operation may be on record all the same.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future may leave the operation recorded. Enqueueing the same key again tells.
    pub async fn enqueue(self) -> Result<Enqueued, Error> {
        let engine = Arc::clone(&self.prepared.engine);
        let enqueued = self.record().await;
        telemetry::accepted(engine.vendor.name(), enqueued.as_ref().map(Enqueued::is_new));
        enqueued
    }

    async fn record(mut self) -> Result<Enqueued, Error> {
        let engine = Arc::clone(&self.prepared.engine);
        let span = telemetry::call_span(&**engine.vendor, &self.prepared.request);
        let (now, wall) = (engine.clock.now(), engine.wall());
        let due = self.prepared.due.map_or(wall, |due| due.time(wall).max(wall));
        if let Err(mistake) = check_is_on_record(&self.prepared.work) {
            self.note(mistake);
        }
        self.check_parts(false);
        let mut prepared = self.prepared;
        prepared.check()?;
        let key = prepared.take_key()?;
        let enqueued =
            engine.enqueue(prepared.request, &prepared.work, key, due, now).instrument(span).await?;
        Ok(Enqueued::new(engine, enqueued))
    }
}

/// Refuses options that only an enqueued call can have.
pub(super) fn check_is_sent_now(has_time: bool, work: &Work) -> Result<(), Error> {
    if has_time {
        return Err(Error::invalid(
            Input::Other("at"),
            "a time to send at, or a wait, needs enqueue() and not send()",
        ));
    }
    if work.sequence.is_some() {
        let problem = "a sequence needs enqueue() and not send(); wait() then gives the reply";
        return Err(Error::invalid(Input::Sequence, problem));
    }
    Ok(())
}

/// Refuses options that no record keeps, so that the process that delivers it would not know them.
pub(super) fn check_is_on_record(work: &Work) -> Result<(), Error> {
    if work.overrides.is_some() {
        let problem = "an enqueued call is delivered by its client's policy; give this one to a client of its own, and \
                       enqueue through that";
        return Err(Error::invalid(Input::Policy, problem));
    }
    if !work.retries_allowed {
        let problem = "the incoming request forbids retries, and an enqueued call is retried; leave inbound() out, or \
                       send() it";
        return Err(Error::invalid(Input::Inbound, problem));
    }
    Ok(())
}
