//! Effect of a call at the vendor: none, unknown or applied.

use std::fmt;

/// Effect of a call at the vendor, as far as it is known.
///
/// ```
/// use steadfast::vendor::Stripe;
/// use steadfast::{Client, Effect, Error};
///
/// /// What the page says to the customer who pressed "pay".
/// fn told(error: &Error) -> &'static str {
///     match error.effect() {
///         Effect::None => "You were not charged.",
///         Effect::Applied => "You were charged.",
///         Effect::Unknown => "We will tell you by e-mail whether it went through.",
///     }
/// }
///
/// // Refused at start-up: nothing was sent.
/// let error = Client::builder(Stripe::new("")).build().unwrap_err();
/// assert_eq!(told(&error), "You were not charged.");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Provably not applied.
    None,
    /// May have been applied.
    Unknown,
    /// Applied: the vendor said so, or a lookup found it. An error with this effect is about something else than
    /// the call: its reply cannot be read, or the store failed once the answer was in hand.
    ///
    /// In the second case the [disposition](crate::Error::disposition) is [`Continues`](crate::Disposition::Continues)
    /// all the same. The effect is the vendor's answer; the disposition is the record, where the operation is still in
    /// progress. Recovery finds that effect by the vendor's key or a lookup, and settles the record.
    Applied,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effect::None => "none",
            Effect::Unknown => "unknown",
            Effect::Applied => "applied",
        })
    }
}
