//! The policy for a call whose key another call holds.
//!
//! A caller who sends a key a second time, while the first call is under way, wants to know how that call ends. The
//! default refuses at once: a wait that the caller did not ask for ties up a request handler for as long as the
//! vendor is slow.

use serde::{Deserialize, Serialize};

/// Policy for a call whose key another call holds.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use steadfast::InFlight;
///
/// // The user pressed "pay" twice. Both calls get the one reply; one charge is made.
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let charge = || stripe.post("/v1/charges").key("order-42").form(&form).in_flight(InFlight::Wait);
/// let (first, second) = tokio::join!(charge().send(), charge().send());
/// assert_eq!(first?.bytes(), second?.bytes());
/// assert_eq!(fake.ledger().count(), 1);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InFlight {
    /// Ends at once with [`is_in_progress`](crate::Error::is_in_progress). The default.
    #[default]
    Refuse,
    /// Waits for the outcome, until the call's deadline at most, and gives the recorded reply, refusal or dead
    /// letter.
    ///
    /// A holder that shares this call's `Client`, or a clone of it, wakes the call at once. Of any
    /// other holder it reads the record: first after 25 to 50 ms, then at intervals that double up to 0.5 to 1 s.
    ///
    /// If the holder postpones the operation to a time before the deadline, or its lease runs out, the call carries
    /// on with the operation itself. If the operation is postponed to a later time, the call ends at once as with
    /// [`Refuse`](InFlight::Refuse). It ends in the same way when its deadline comes first.
    ///
    /// A call may lose the operation while it sends, to a process that found its lease over. It then waits for the
    /// new holder likewise, and gives that one's success. In any other case it ends as with
    /// [`Refuse`](InFlight::Refuse): code `TRANSIENT.fenced`, effect unknown. The new holder need not know what this
    /// call sent.
    Wait,
}
