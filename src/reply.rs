//! What a successful call gives back.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::error::{Effect, Error, Kind};

/// How a reply was obtained.
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
    /// The answer was lost and the effect was found by a look-up. The body has the shape of the lost answer as
    /// far as the vendor's look-up shows it; the headers are the look-up's.
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
    key: Option<String>,
    wire_key: Option<String>,
}

impl Reply {
    pub(crate) fn new(answer: Answer, obtained: Obtained, attempts: u32) -> Reply {
        Reply { answer, obtained, attempts, waited: Duration::ZERO, key: None, wire_key: None }
    }

    pub(crate) fn after_waiting(mut self, waited: Duration) -> Reply {
        self.waited = waited;
        self
    }

    pub(crate) fn keyed(mut self, key: String, wire_key: String) -> Reply {
        self.key = Some(key);
        self.wire_key = Some(wire_key);
        self
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
    /// [`is_unreadable_reply`](Error::is_unreadable_reply) if it is not the JSON asked for. The call itself
    /// succeeded, so the effect is [`Effect::Unknown`] in the error's terms; the body stays readable here.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.answer.body).map_err(|source| {
            Error::new(Kind::ReplyNotJson, Effect::Unknown)
                .with_answer(Some(self.answer.clone()))
                .with_source(DescribedWithoutData::from(source))
        })
    }

    /// How the reply was obtained.
    pub fn obtained(&self) -> Obtained {
        self.obtained
    }

    /// How many times the operation was sent, over its whole life.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long this call waited in all: backoff, the vendor's pauses, our own gates, settle times.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The caller's key, or the one generated for a POST without. `None` for an unkeyed call.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The key that the vendor saw. `None` for an unkeyed call.
    pub fn wire_key(&self) -> Option<&str> {
        self.wire_key.as_deref()
    }

    /// The answer itself.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("answer", &self.answer)
            .field("obtained", &self.obtained)
            .field("attempts", &self.attempts)
            .field("waited", &self.waited)
            .field("key", &self.key)
            .field("wire_key", &self.wire_key)
            .finish()
    }
}

/// Where JSON went wrong, without the data: serde's own text can quote a value.
#[derive(Debug, thiserror::Error)]
#[error("{what} at line {line}, column {column}")]
struct DescribedWithoutData {
    what: &'static str,
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for DescribedWithoutData {
    fn from(error: serde_json::Error) -> DescribedWithoutData {
        use serde_json::error::Category;
        let what = match error.classify() {
            Category::Io => "unreadable",
            Category::Syntax => "not JSON",
            Category::Data => "JSON of another shape",
            Category::Eof => "JSON that ends too soon",
        };
        DescribedWithoutData { what, line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_not_json_names_the_place_and_never_quotes_the_body() {
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), r#"{"amount":"4242424242424242"}"#);
        let reply = Reply::new(answer, Obtained::Fresh, 1);
        #[derive(Debug, serde::Deserialize)]
        struct Amount {
            #[expect(dead_code, reason = "only its type matters")]
            amount: u64,
        }
        let error = reply.json::<Amount>().expect_err("a string is no number");
        assert!(error.is_unreadable_reply());
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("JSON of another shape"), "{shown}");
        assert!(!shown.contains("4242"), "{shown}");
    }
}
