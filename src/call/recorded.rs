//! The record of a call's operation.

use std::sync::Arc;

use tracing::Instrument;

use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::operation::Key;
use steadfast_core::transport::Request;
use steadfast_core::{Error, Input};

use super::Call;
use crate::engine::Engine;
use crate::enqueued::Enqueued;
use crate::prepared::Prepared;
use crate::reply::Reply;
use crate::telemetry;

impl Call {
    /// Returns the reply on record of the call's operation; `None` without a record. It sends nothing and writes
    /// nothing.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// let charge = || stripe.post("/v1/payment_intents").key("order-42/charge");
    /// assert!(charge().recorded().await?.is_none());
    ///
    /// let sent = charge().form(&[("amount", "1000"), ("currency", "usd")]).send().await?;
    /// let recorded = charge().recorded().await?.expect("it is on record");
    /// assert_eq!(recorded.bytes(), sent.bytes());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// Method, path, [key](Call::key) and the headers that name an account are the operation's name. Anything else that the call
    /// has is not looked at: a body need not be given, and none is compared.
    ///
    /// It gives the reply of an operation that has succeeded. It gives `None` if nothing is on record: the operation was
    /// never claimed, or its [retention](Call::retention) is over.
    ///
    /// # Errors
    ///
    /// How the operation stands or has ended, if not with a success. [`is_in_progress`](Error::is_in_progress): it is
    /// under way or scheduled, and [`retry_at`](Error::retry_at) is when to ask again. So is a committed call of
    /// `enqueue_in` that no dispatcher has admitted yet.
    /// [`is_refused`](Error::is_refused), [`is_dead_letter`](Error::is_dead_letter): it has ended so. Each with the effect
    /// on record. [`is_store`](Error::is_store): the store did not answer in the call's time; effect unknown.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn recorded(self) -> Result<Option<Reply>, Error> {
        let (engine, request, key, deadline) = self.by_name()?;
        let span = telemetry::call_span(&**engine.vendor, &request);
        let looked = engine.recorded(&request, key, deadline).instrument(span).await?;
        Ok(looked.map(|mut reply| {
            reply.sent_by(engine, request.method, request.url);
            reply
        }))
    }

    /// The handle of the call's operation, to [wait](Enqueued::wait) for its end or to cancel it. It sends nothing and writes
    /// nothing.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// let charge = || stripe.post("/v1/payment_intents").key("order-42/charge");
    /// assert!(charge().handle().await?.is_none());
    ///
    /// charge().form(&[("amount", "1000"), ("currency", "usd")]).enqueue().await?;
    /// let handle = charge().handle().await?.expect("it is on record");
    /// handle.cancel("paid otherwise").await?;
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// As with [`recorded`](Call::recorded), no body is compared. So a version of the service that words a mail otherwise
    /// waits for the mail that the version before has enqueued. `None` if nothing is on record and no row of the
    /// [outbox](crate::outbox) waits.
    ///
    /// # Errors
    ///
    /// A mistake in the call. [`is_store`](Error::is_store): the store did not answer in the call's time.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn handle(self) -> Result<Option<Enqueued>, Error> {
        let (engine, request, key, deadline) = self.by_name()?;
        let span = telemetry::call_span(&**engine.vendor, &request);
        let found = engine.accepted(request, key, deadline).instrument(span).await?;
        Ok(found.map(|accepted| Enqueued::new(engine, accepted)))
    }

    /// Returns the name of the call's operation, and the time until which the store is asked.
    fn by_name(self) -> Result<(Arc<Engine>, Request, Key, Instant), Error> {
        let mut prepared = self.prepared;
        prepared.check_is_filled();
        if let Some(mistake) = prepared.mistake.take() {
            return Err(prepared.in_context(mistake));
        }
        let Some(key) = prepared.work.key.take() else {
            let mistake =
                Error::invalid(Input::Key, "a call without a key has nothing on record; name it with key()");
            return Err(prepared.in_context(mistake));
        };
        let Prepared { engine, request, work, .. } = prepared;
        let now = engine.clock.now();
        let deadline = now.plus(work.time_allowed(&engine.policy, now));
        Ok((engine, request, key, deadline))
    }
}
