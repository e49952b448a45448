//! The reply of a successful call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

use steadfast_core::internal::error::{Context, Kind, Origin};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::operation::Key;
use steadfast_core::transport::Answer;
use steadfast_core::{Effect, Error};

mod unreadable;

/// Source of a reply.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use steadfast::Obtained;
///
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let charge = || stripe.post("/v1/payment_intents").key("order-42/charge").form(&form);
///
/// assert_eq!(charge().send().await?.obtained(), Obtained::Fresh);
/// // The same key again: no second charge, and the first one's reply.
/// assert_eq!(charge().send().await?.obtained(), Obtained::Replayed);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Obtained {
    /// The vendor answered this call.
    Fresh,
    /// The answer to an earlier send of the same operation, from our record or from the vendor's. It is not a
    /// second event.
    Replayed,
    /// The answer was lost and the effect was found by a lookup. The body has the shape of the lost answer as
    /// far as the vendor's lookup shows it; the headers are the lookup's.
    Reconciled,
}

/// A vendor's answer to a call that took effect.
///
/// `Debug` shows neither headers' values nor the body.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use steadfast::Obtained;
///
/// #[derive(serde::Deserialize)]
/// struct PaymentIntent {
///     amount: u64,
/// }
///
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let reply = stripe.post("/v1/payment_intents").key("order-42/charge").form(&form).send().await?;
///
/// let intent: PaymentIntent = reply.json()?;
/// assert_eq!(intent.amount, 1000);
/// assert_eq!((reply.status().as_u16(), reply.attempts()), (200, 1));
/// assert_eq!(reply.obtained(), Obtained::Fresh);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, PartialEq)]
pub struct Reply {
    answer: Answer,
    obtained: Obtained,
    attempts: u32,
    waited: Duration,
    /// Apart, as only a keyed call has it: a reply is moved through every layer.
    operation: Option<Box<Named>>,
    call: Option<Call>,
}

/// Name of the operation whose outcome it is.
#[derive(Clone, Debug, PartialEq)]
struct Named {
    key: Key,
    wire_key: String,
}

/// Call that it answers, kept as it was so that a reply that is read costs nothing for one that is not. It keeps the
/// call's client, and with it the store, open.
#[derive(Clone, Debug)]
struct Call {
    origin: Arc<dyn Origin>,
    method: Method,
    /// URL as text, which is a quarter as large: a reply is moved through every layer.
    url: String,
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        (&self.method, &self.url) == (&other.method, &other.url)
    }
}

impl Reply {
    pub(crate) fn new(answer: Answer, obtained: Obtained, attempts: u32) -> Reply {
        Reply { answer, obtained, attempts, waited: Duration::ZERO, operation: None, call: None }
    }

    pub(crate) fn with_waited(mut self, waited: Duration) -> Reply {
        self.waited = waited;
        self
    }

    /// Names the operation. In place, as [`sent_by`](Reply::sent_by): a reply is large.
    pub(crate) fn name(&mut self, key: Key, wire_key: String) {
        self.operation = Some(Box::new(Named { key, wire_key }));
    }

    /// Says which call it answers.
    pub(crate) fn sent_by(&mut self, origin: Arc<dyn Origin>, method: Method, url: Url) {
        self.call = Some(Call { origin, method, url: url.into() });
    }

    /// The URL that was answered, after redirects.
    pub(crate) fn url(&self) -> Option<Url> {
        self.call.as_ref().and_then(|call| call.url.parse().ok())
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.answer.status
    }

    /// The headers, as received.
    pub fn headers(&self) -> &HeaderMap {
        &self.answer.headers
    }

    /// The body, as received. Cheap to clone.
    pub fn bytes(&self) -> &Bytes {
        &self.answer.body
    }

    /// The body as text, with what is not UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.answer.body)
    }

    /// The body as JSON.
    ///
    /// # Errors
    ///
    /// [`is_unreadable_reply`](Error::is_unreadable_reply) if it is not the JSON asked for. Its source names the field,
    /// what was expected of it, line and column, and nothing of the data: no value, and no name that the type does
    /// not have. The call itself succeeded, so the effect is [`Effect::Applied`]; the body stays readable here.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        unreadable::read(&self.answer.body).map_err(|why| self.failed(Kind::ReplyNotJson, why))
    }

    /// The error for a reply that its caller could not read, by whatever means of its own: another parser, a typed
    /// client. `why` is its source.
    ///
    /// ```
    #[doc = include_str!("docs/setup/stripe.md")]
    /// use steadfast::Effect;
    ///
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let reply = stripe.post("/v1/charges").key("order-42").form(&form).send().await?;
    /// let error = reply.text().parse::<u64>().map_err(|why| reply.unreadable(why)).unwrap_err();
    ///
    /// // The call itself succeeded.
    /// assert!(error.is_unreadable_reply());
    /// assert_eq!((error.effect(), error.key()), (Effect::Applied, Some("order-42")));
    #[doc = include_str!("docs/setup/end.md")]
    /// ```
    ///
    /// [`is_unreadable_reply`](Error::is_unreadable_reply) is true of it, and its effect is [`Effect::Applied`]. It is
    /// never a reason to send the call again. `why` must not contain the reply's data, because errors are logged.
    pub fn unreadable(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.failed(Kind::ReplyUnreadable, why)
    }

    fn failed(&self, kind: Kind, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let call = self.call.as_ref();
        let call = call.and_then(|call| Some(call.origin.context(&call.method, &call.url.parse().ok()?)));
        let call = call.unwrap_or_default();
        let [key, wire_key] = [self.key(), self.wire_key()].map(|text| text.map(str::to_owned));
        Error::new(kind, Effect::Applied)
            .with_answer(Some(self.answer.clone()))
            .with_source(why)
            .with_context(Context { key, wire_key, ..call })
    }

    /// Returns the source of the reply.
    pub fn obtained(&self) -> Obtained {
        self.obtained
    }

    /// Returns the number of times that the operation was sent, over its whole life.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the total wait of this call: backoff, the vendor's pauses, our own gates, settle times.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The caller's key, or the one generated for a POST without. `None` for an unkeyed call.
    pub fn key(&self) -> Option<&str> {
        self.operation.as_ref().map(|named| named.key.as_str())
    }

    /// The key that the vendor saw. `None` for an unkeyed call.
    pub fn wire_key(&self) -> Option<&str> {
        self.operation.as_ref().map(|named| named.wire_key.as_str())
    }

    /// The answer itself.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

/// The answer, for what takes responses of the crate `http`. How it was [obtained](Obtained) is among its extensions.
impl From<Reply> for http::Response<Bytes> {
    fn from(reply: Reply) -> http::Response<Bytes> {
        let mut response = http::Response::from(reply.answer);
        response.extensions_mut().insert(reply.obtained);
        response
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("answer", &self.answer)
            .field("obtained", &self.obtained)
            .field("attempts", &self.attempts)
            .field("waited", &self.waited)
            .field("key", &self.key())
            .field("wire_key", &self.wire_key())
            .finish()
    }
}
