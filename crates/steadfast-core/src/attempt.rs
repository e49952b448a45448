//! The evidence of one attempt.

use std::time::Duration;

use serde::de::value::{self, StringDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::clock::Timestamp;
use crate::effect::Effect;

pub(crate) mod failure;

use failure::SendErrorKind;

/// The outcome of one attempt, and the adapter's verdict. It holds no secret and no body.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// # use steadfast::testkit::{Fault, WaitForm};
/// # fake.plan().next_n(Fault::TooManyRequests(WaitForm::None), 5);
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let error = stripe.post("/v1/charges").key("order-42").form(&form).send().await.unwrap_err();
///
/// // Five times too many requests, and the ladder is spent.
/// let (first, last) = (&error.attempts()[0], &error.attempts()[4]);
/// assert_eq!((first.number, first.status, first.verdict.as_str()), (1, Some(429), "retry"));
/// assert!(first.wait.is_some() && last.wait.is_none());
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptReport {
    /// 1 for the operation's first attempt. A lookup has the number of the attempt before it, 0 if there was none
    /// since the redrive. An attempt of recovery that failed while the vendor's circuit was not closed does not
    /// count: the next attempt has the same number.
    pub number: u32,
    /// Time at which the attempt was sent, by the sender's wall clock.
    #[serde(with = "millis")]
    pub started_at: Timestamp,
    /// Time from sending to the end of the answer, or to the failure.
    pub latency: Duration,
    /// The answer's status, if an answer came.
    pub status: Option<u16>,
    /// Kind of the failure, if no whole answer came. `None`, too, for a way that a later release knows and this one
    /// does not.
    #[serde(default, deserialize_with = "known_kind", skip_serializing_if = "Option::is_none")]
    pub failure_kind: Option<SendErrorKind>,
    /// The failure in words, for people, with its causes. `None` if a whole answer came.
    pub failure: Option<String>,
    /// The adapter's verdict: `done`, `refused`, `unauthorized` if that was our credentials, `retry` or `unknown`. For
    /// a lookup it is `lookup`, and `effect` is the lookup's finding: `applied`, `none`, or `unknown` if it could not
    /// tell.
    pub verdict: String,
    /// Effect of this attempt, as far as its outcome shows it.
    pub effect: Effect,
    /// The wait that was decided on after it, if another attempt followed or was scheduled.
    pub wait: Option<Duration>,
}

/// A report of which only this is known. The rest is nothing until it is set.
pub fn report(number: u32, started_at: Timestamp, verdict: &str, effect: Effect) -> AttemptReport {
    AttemptReport {
        number,
        started_at,
        latency: Duration::ZERO,
        status: None,
        failure_kind: None,
        failure: None,
        verdict: verdict.to_owned(),
        effect,
        wait: None,
    }
}

impl AttemptReport {
    /// Whether it is the line of a lookup: nothing was asked for, and nothing took effect by it.
    pub fn is_lookup(&self) -> bool {
        self.verdict == LOOKUP
    }
}

/// The verdict of a lookup's line.
pub const LOOKUP: &str = "lookup";

/// A time as milliseconds since the Unix epoch.
pub mod millis {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::clock::Timestamp;

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.as_millis())
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(deserializer).map(Timestamp::from_millis)
    }
}

/// Reads how sending failed. A kind that a later release wrote is passed over: the words beside it say the same.
fn known_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SendErrorKind>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| SendErrorKind::deserialize(StringDeserializer::<value::Error>::new(name)).ok()))
}
