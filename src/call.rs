//! The builder of one call. It works like reqwest's builder, and keeps the first mistake for [`Call::send`] to
//! report.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tracing::Instrument;

use steadfast_core::transport::Request;
use steadfast_core::{Error, InFlight, OnUnknown};

use crate::engine::Engine;
use crate::inbound::Inbound;
use crate::prepared::{Prepared, check, generated_key, in_context};
use crate::reply::Reply;
use crate::telemetry;

mod body;
mod enqueue;
mod enqueue_in;
mod headers;
mod multipart;
mod of_http;
mod overrides;
mod pages;
mod path;
mod recorded;
mod redirects;
mod stream;

pub use multipart::Multipart;
pub use pages::Pages;
pub use stream::StreamedReply;

/// A call under construction. It does nothing until [`send`](Call::send) or [`enqueue`](Call::enqueue).
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use std::time::Duration;
///
/// let reply = stripe
///     .post("/v1/payment_intents")
///     .key("order-42/charge")
///     .form(&[("amount", "1000"), ("currency", "usd")])
///     .header("Stripe-Account", "acct_1")
///     .deadline(Duration::from_secs(20))
///     .redact(["receipt_email"])
///     .send()
///     .await?;
/// assert_eq!(reply.key(), Some("order-42/charge"));
///
/// // The first mistake in a call is the error of send(), and nothing is sent.
/// let error = stripe.get("v1/charges").send().await.unwrap_err();
/// assert_eq!(error.code(), "VALIDATION.path");
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[must_use = "a call does nothing until send() or enqueue() is awaited"]
pub struct Call {
    prepared: Prepared,
    /// Number of redirects that are followed.
    redirects: u32,
}

impl Call {
    pub(crate) fn new(engine: Arc<Engine>, method: Method, path: &str) -> Call {
        Call { prepared: Prepared::new(engine, method, path), redirects: 0 }
    }

    /// Names the operation, such as `order-42/charge`: 1 to 255 printable ASCII characters.
    ///
    /// The same key on the same route and account is the same operation, however often and from wherever it is sent.
    /// It stays so until its record expires: 7 days after it settled by default, see [`retention`](Call::retention).
    /// Derive the key from what the effect belongs to, never from the clock or a counter of attempts.
    pub fn key(mut self, key: impl Into<String>) -> Call {
        self.prepared.key(key);
        self
    }

    /// Starts over the operation with this key, on the same route and account, under this call's own key.
    ///
    /// ```
    #[doc = include_str!("docs/setup/stripe.md")]
    /// # fake.plan().next_n(steadfast::testkit::Fault::TooManyRequests(steadfast::testkit::WaitForm::None), 5);
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let charge = stripe.post("/v1/charges").key("order-42/charge").form(&form);
    /// assert!(charge.send().await.unwrap_err().is_dead_letter());
    ///
    /// let form = [("amount", "900"), ("currency", "usd")];
    /// let again = stripe.post("/v1/charges").key("order-42/charge-2").supersedes("order-42/charge");
    /// assert_eq!(again.form(&form).send().await?.status(), 200);
    #[doc = include_str!("docs/setup/end.md")]
    /// ```
    ///
    /// The old operation must provably have had no effect. The vendor refused it, or it is a dead letter with effect
    /// `none` or one that was resolved as not applied; it may have been cancelled. The first claim of the new key
    /// closes the old operation in the same transaction. It can then not be redriven, edited or reopened, and no
    /// third key can start it over: the effect is not sought twice. If the new one fails too, the next try starts
    /// over *its* key.
    ///
    /// In every other case nothing is sent, and the error [says why](Error::is_predecessor_in_the_way). The old
    /// operation is in progress or scheduled, succeeded or may have, or is not on record. Or another key has taken
    /// its place. Or its credentials were refused: then send its own key again.
    pub fn supersedes(mut self, key: impl Into<String>) -> Call {
        self.prepared.supersedes(key);
        self
    }

    /// Limits the caller's wait for an answer, from [`send`](Call::send) on: the `timeout` of reqwest. The policy's
    /// total timeout stays in force if it is shorter.
    ///
    /// When it passes while the operation is still retryable, the call ends with
    /// [`is_deadline`](Error::is_deadline) and the operation stays recorded as scheduled.
    pub fn deadline(mut self, deadline: Duration) -> Call {
        self.prepared.work.deadline =
            Some(self.prepared.work.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self
    }

    /// Sets the choice for an effect that stays unknown: neither a resend nor a lookup can settle it. Default: the
    /// route's choice, else [`OnUnknown::ByMethod`]. A choice counts for every method with an effect: a PUT with
    /// [`OnUnknown::Park`] is not repeated.
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Call {
        self.prepared.work.on_unknown = on_unknown;
        self
    }

    /// Sets the policy for a key that another call holds, such as one of the same key that was sent a moment ago.
    /// Default: that of the [policy](crate::Policy::in_flight), which is [`InFlight::Refuse`] unless changed.
    pub fn in_flight(mut self, in_flight: InFlight) -> Call {
        self.prepared.work.in_flight = in_flight;
        self
    }

    /// The retention: how long the record is kept, and the reply replayed, once the operation is settled. Default:
    /// what the client says for its [route](crate::ClientBuilder::retention), else its
    /// [policy's](crate::Policy::retention), 7 days by default.
    ///
    /// The retention of the first claim stays on record: a later call of the same key changes nothing. The retention
    /// must be at least the vendor's replay window plus the longest time that this call takes. Less is a mistake that
    /// [`send`](Call::send) reports. It means nothing for a call without a key.
    pub fn retention(mut self, retention: Duration) -> Call {
        self.prepared.work.retention = Some(retention);
        self
    }

    /// Never shows the values of fields with these names to an operator, also with `--bodies`. They are hidden in the
    /// bodies of request and reply (JSON at any depth, and forms), among the headers and in the query. Upper and
    /// lower case are the same; several calls add up, and to what the [client](crate::ClientBuilder::redact) names.
    ///
    /// The values are stored and sent all the same. The names are stored with the first claim: a later call of
    /// the same key changes nothing. At most [`COUNT_MAX`](crate::operation::RedactedFields::COUNT_MAX) names of at most
    /// [`NAME_BYTES_MAX`](crate::operation::RedactedFields::NAME_BYTES_MAX) bytes; more is a mistake
    /// that [`send`](Call::send) reports.
    pub fn redact<T: Into<String>>(mut self, fields: impl IntoIterator<Item = T>) -> Call {
        self.prepared.redact(fields);
        self
    }

    /// Takes the deadline and the do-not-retry mark of the incoming request that this call is made for.
    ///
    /// Its caller waits from the moment it sent that request, whatever is done for it. So the time runs on before
    /// [`send`](Call::send), from one page of a [list](Call::pages) to the next, and while a body is
    /// [streamed](Call::stream).
    pub fn inbound(mut self, inbound: &Inbound) -> Call {
        self.prepared.work.retries_allowed &= inbound.retries_allowed();
        if let Some(remaining) = inbound.remaining() {
            let until = self.prepared.engine.clock.now().plus(remaining);
            self.prepared.work.until =
                Some(self.prepared.work.until.map_or(until, |earlier| earlier.min(until)));
        }
        self
    }

    /// Sends the caller's deadline to the vendor, in `X-Request-Timeout`, and passes the do-not-retry mark of
    /// [`inbound`](Call::inbound) on in `X-Do-Not-Retry`. For your own services: a vendor that does not know the header
    /// ignores it.
    pub fn pass_deadline_on(mut self) -> Call {
        self.prepared.work.pass_deadline_on = true;
        self
    }

    /// Sends, retries where that is safe, and gives the one outcome.
    ///
    /// # Errors
    ///
    /// See [`Error`]: every error says whether the call may have taken effect.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future releases every permit. An operation that was dropped in mid-flight stays recorded
    /// as in progress until its lease runs out; sending its key again then carries on with it. A call that only
    /// [waits](InFlight::Wait) for another one leaves nothing behind.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async fn holds its arguments twice; with it, and with a larger reply, a GET took 6 % longer (`benches/call.rs`)"
    )]
    pub fn send(mut self) -> impl Future<Output = Result<Reply, Error>> + Send {
        async move {
            self.check_parts(true);
            let mut result = {
                // Borrowed from here on down: moving a request from future to future costs more than most gates.
                let Call { prepared, redirects } = &mut self;
                let Prepared { engine, request, work, due, mistake, .. } = prepared;
                let engine = &**engine;
                let span = telemetry::call_span(&**engine.vendor, request);
                let started = engine.clock.now();
                let carried = pin!(async {
                    if let Err(needs_enqueue) = enqueue::check_is_sent_now(due.is_some(), work) {
                        mistake.get_or_insert(needs_enqueue);
                    }
                    check(mistake, request, work, engine)?;
                    if work.key.is_none()
                        && !engine.vendor.is_idempotent(request)
                        && !request.method.is_safe()
                    {
                        let key = generated_key(engine);
                        work.key = Some(key.map_err(|mistake| in_context(mistake, engine, request, work))?);
                    }
                    if *redirects > 0 {
                        return Box::pin(redirects::follow(engine, request, work, started, *redirects)).await;
                    }
                    engine.call(request, work, started).await
                });
                // Pinned first: `instrument` would move the whole future otherwise. Where nobody listens, there is no span to
                // be in.
                let result =
                    if span.is_disabled() { carried.await } else { carried.instrument(span.clone()).await };
                let labels = (engine.vendor.name(), &engine.meters);
                telemetry::ended(&span, labels, &result, &*engine.clock, started);
                result
            };
            if let Ok(reply) = &mut result {
                // Moved, and not cloned: all calls share the count, and to move that cost a GET 7 % (`benches/call.rs`).
                let Prepared { engine, request: Request { method, url, .. }, .. } = self.prepared;
                reply.sent_by(engine, method, url);
            }
            result
        }
    }

    /// Notes mistakes that only the whole call shows: a parameter of the path without a value, redirects of a call that
    /// has an effect.
    fn check_parts(&mut self, is_sent: bool) {
        self.prepared.check_is_filled();
        self.check_may_follow(is_sent);
    }

    fn note(&mut self, mistake: Error) {
        self.prepared.note(mistake);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("vendor", &self.prepared.engine.vendor.name())
            .field("request", &self.prepared.request)
            .field("key", &self.prepared.work.key)
            .field("mistake", &self.prepared.mistake)
            .finish()
    }
}
