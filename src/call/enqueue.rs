//! A call that is recorded now and sent by a dispatcher.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::Instrument;

use super::{Call, check, generated_key, in_context};
use crate::clock::Timestamp;
use crate::enqueued::Enqueued;
use crate::error::Error;
use crate::telemetry;

/// When a dispatcher may send a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    At(Timestamp),
    After(Duration),
}

impl Due {
    /// The time that is meant, where it is `wall` now.
    pub(super) fn time(self, wall: Timestamp) -> Timestamp {
        match self {
            Due::At(time) => time,
            Due::After(wait) => wall.plus(wait),
        }
    }
}

impl Call {
    /// [Enqueues](Call::enqueue) it for `time`: it is not sent before, by the wall clocks of the hosts. A time that has
    /// passed is now. Of several, also with [`after`](Call::after), the last one counts.
    ///
    /// Default: now. It is a mistake in a call that is [sent](Call::send).
    pub fn at(mut self, time: impl Into<SystemTime>) -> Call {
        self.due = Some(Due::At(Timestamp::from(time.into())));
        self
    }

    /// [Enqueues](Call::enqueue) it for a time that is `wait` after it is enqueued. Otherwise as [`at`](Call::at).
    pub fn after(mut self, wait: Duration) -> Call {
        self.due = Some(Due::After(wait));
        self
    }

    /// Records the call durably, and returns before anything is sent. A dispatcher sends it: see
    /// [`Client::keep_recovering`](crate::Client::keep_recovering), in this process or another one on the same store.
    /// One in this process begins at once, if it is due. Where none runs, nothing is sent.
    ///
    /// What is accepted is carried through to its one outcome, as a [sent](Call::send) call is after its caller has gone:
    /// with the client's own policy, at recovery's rate. Ladder, timeouts, deadline and the mark not to retry of the call
    /// itself are for the recording alone. No gate is asked: what cannot be sent now is sent later. The vendor's replay
    /// window begins with the first send, however long that is after this.
    ///
    /// The same key is the same operation: one that is on record already stays as it is, and is what the handle is for.
    /// A call without a key is given one.
    ///
    /// As durable as the client's store: with [`Memory`](crate::store::Memory), a crash forgets what was accepted.
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
    /// # Errors
    ///
    /// As [`send`](Call::send), of what came before the first send: a mistake in the call, a key of another request, a
    /// store that failed. Also how the operation ended, if it is on record as refused or dead. An error of the store has
    /// effect unknown if the operation may be on record all the same.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future may leave the operation recorded. Enqueueing the same key again tells.
    pub async fn enqueue(mut self) -> Result<Enqueued, Error> {
        let engine = Arc::clone(&self.client.engine);
        let span = telemetry::call_span(&**engine.vendor, &self.request);
        let (now, wall) = (engine.clock.now(), engine.wall());
        let due = self.due.map_or(wall, |due| due.time(wall).max(wall));
        check(&mut self.mistake, &self.request, &self.work, &engine)?;
        let Call { client, request, mut work, .. } = self;
        let key = match work.key.take() {
            Some(key) => key,
            None => {
                generated_key(&client).map_err(|mistake| in_context(mistake, &engine, &request, &work))?
            }
        };
        let enqueued = engine.enqueue(request, &work, key, due, now).instrument(span).await?;
        Ok(Enqueued::new(client, enqueued))
    }
}
