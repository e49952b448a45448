//! The caller's choice for an operation whose effect stays unknown.
//!
//! The honest end is a dead letter: a second charge cannot be taken back. But some e-mails are better sent
//! twice than never, and only the caller knows which.

use serde::{Deserialize, Serialize};

/// Choice for an operation whose outcome is unknown, where the vendor neither replays its key nor has a lookup that can
/// tell what happened.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use steadfast::testkit::{Fault, TestClock, fakes::PostmarkFake};
/// # let (clock, day) = (TestClock::auto(), std::time::Duration::from_secs(86_400));
/// # let fake = PostmarkFake::builder().test_clock(&clock).search_lag(day).in_process();
/// # let postmark = steadfast::Client::builder(steadfast::vendor::Postmark::new("a-server-token"))
/// #     .transport(fake.transport())
/// #     .clock(clock)
/// #     .build()?;
/// # fake.plan().next(Fault::DropAfterApply);
/// use serde_json::json;
/// use steadfast::OnUnknown;
///
/// // The answer is lost, and the message is not found. Better sent twice than never.
/// let code = json!({"From": "me@example.com", "To": "ann@example.com", "TextBody": "42"});
/// let call = postmark.post("/email").key("login-7/code").json(&code);
/// let reply = call.on_unknown(OnUnknown::Resend).send().await?;
/// assert_eq!(reply.attempts(), 2);
/// assert_eq!(fake.ledger().count(), 2, "Postmark accepted both");
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnUnknown {
    /// Sends again where the vendor lets the method be repeated: GET, PUT and DELETE, unless the adapter says
    /// otherwise. All else stops as with [`Park`](OnUnknown::Park). The default; in a vendors file it is left out.
    #[default]
    #[serde(skip_deserializing)]
    ByMethod,
    /// Stop, and leave a dead letter with effect unknown, also where the method may be repeated. A method that only
    /// reads has no effect, and is repeated all the same.
    Park,
    /// Send once more, and accept that the effect may happen twice. It is once for an operation, in all processes: if that
    /// outcome is unknown too, it is a dead letter. A redrive by force allows one more.
    Resend,
}
