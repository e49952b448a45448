//! What a vendor really does with a repeated request, as data and pure functions.
//!
//! [`Vendor`] is for whoever writes an adapter. It does no I/O and keeps no state: it says how a request is
//! stamped and authorised, for how long the vendor replays a key, what an attempt's outcome means, and how an
//! effect can be looked up. The engine does the rest.
//!
//! Adapters: [`Stripe`], [`Postmark`], [`BigCommerce`], and [`Keyed`] for every vendor whose idempotency is a
//! key in a header or a body field, which is configuration and no code.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Method};
use url::Url;

use crate::answer::Answer;
use crate::clock::Timestamp;
use crate::error::{Effect, Error, Refusal};
use crate::operation::WireKey;
use crate::request::Request;
use crate::transport::SendError;

mod bigcommerce;
mod body;
mod common;
mod keyed;
mod postmark;
mod shown;
mod stripe;
pub mod wait;

pub use bigcommerce::BigCommerce;
pub(crate) use bigcommerce::STORE_HASH_FOUND;
pub use keyed::{Auth, HeaderMarker, JsonMarker, KeyForm, KeyPlace, Keyed, KeyedConfig, Marker};
pub use postmark::Postmark;
pub use shown::is_plain;
pub(crate) use shown::{Adapter, ShownOperation, ShownPath};
pub use stripe::Stripe;

/// A vendor's rules.
///
/// All methods are pure and quick; none may panic on any answer, however malformed.
pub trait Vendor: fmt::Debug + Send + Sync + 'static {
    /// The vendor's name in scopes, logs and metrics, such as `stripe`. It must never change: wire keys are
    /// derived from it.
    fn name(&self) -> &str;

    /// The URL that paths of calls are appended to. It may have a path of its own.
    fn base_url(&self) -> &Url;

    /// Whether the adapter can work as it was built: a secret that is empty or cannot be a header's value, a
    /// store or a base URL that makes no sense. Adapters are built without a `Result`; whoever builds a client
    /// asks here, once, before anything is sent.
    ///
    /// # Errors
    ///
    /// A validation error that names the input.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a segment of a call's path may be shown in errors, spans and events. Default: if it
    /// [is plain](is_plain): words, a version, a number or a short id, as few tokens are.
    ///
    /// An adapter adds the ids of its vendor that are long and no secret, such as a charge's. It never adds what
    /// opens something to whoever has it: a cart's id, a session's, a token.
    fn may_show(&self, segment: &str) -> bool {
        is_plain(segment)
    }

    /// The account that keys are unique in, from the adapter's configuration and the call's headers
    /// (Stripe's `Stripe-Account`). It must not change when a secret is rotated.
    fn account(&self, headers: &HeaderMap) -> Cow<'_, str>;

    /// Stamps an operation's wire key into its request, once, before the claim. The result is stored and
    /// resent byte for byte. Gives the key in the form that this vendor sees.
    ///
    /// # Errors
    ///
    /// A validation error if the request leaves no room for the key; nothing is sent or recorded.
    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error>;

    /// Adds secrets and fixed headers. Called at each send, on a copy that is never stored or logged.
    fn authorize(&self, request: &mut Request);

    /// For how long, from the first send, the vendor answers a resend of this stamped request from its own
    /// record instead of executing it again. `None`: it executes again.
    fn replay_window(&self, request: &Request) -> Option<Duration>;

    /// What an attempt's outcome means.
    fn classify(&self, attempt: &Attempt<'_>) -> Verdict;

    /// How long after an unknown outcome a look-up may be believed: index lag plus longest processing time.
    fn settle_time(&self) -> Duration;

    /// The first request of a look-up for the effect of `subject`, if this vendor has one for it. The engine
    /// authorises and sends it.
    fn look_up(&self, subject: &Subject<'_>) -> Option<Request>;

    /// What the answer to a look-up request says. `asked` is the request it answers.
    ///
    /// A look-up that failed, or answered with anything but what a working look-up answers, is
    /// [`Finding::CannotTell`]: never [`Finding::Absent`].
    fn read_look_up(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding;
}

/// One attempt's outcome, with what an adapter needs to judge it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The request as it was stamped.
    pub request: &'a Request,
    /// Whether the request belongs to an operation with a wire key.
    pub keyed: bool,
    /// Whether an earlier attempt of the same operation may have taken effect.
    pub effect_before: Effect,
    /// The answer, or why none came.
    pub outcome: Result<&'a Answer, &'a SendError>,
    /// Wall time at the end of the attempt, for waits that are given as dates.
    pub now: Timestamp,
}

impl<'a> Attempt<'a> {
    /// The outcome of a first attempt.
    pub fn new(
        request: &'a Request,
        keyed: bool,
        outcome: Result<&'a Answer, &'a SendError>,
        now: Timestamp,
    ) -> Self {
        Attempt { request, keyed, effect_before: Effect::None, outcome, now }
    }

    /// The same outcome, after an earlier attempt that ended with `effect`.
    #[must_use]
    pub fn after(mut self, effect: Effect) -> Self {
        self.effect_before = effect;
        self
    }
}

/// What an adapter makes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The vendor did it, now or earlier under the same key.
    Done {
        /// Whether the vendor said that this is the answer to an earlier request.
        replayed: bool,
    },
    /// The vendor gave a definite no. Never retried.
    Refused(Refusal),
    /// Not now. Another attempt may help.
    Retry {
        /// Whether this attempt may have taken effect.
        effect: Effect,
        /// How long the vendor asked to be left alone, counted from its answer.
        not_before: Option<Duration>,
    },
    /// It may have taken effect, and sending it again cannot tell or help.
    Unknown,
}

impl Verdict {
    /// The verdict's name in logs and evidence.
    pub const fn name(&self) -> &'static str {
        match self {
            Verdict::Done { .. } => "done",
            Verdict::Refused(_) => "refused",
            Verdict::Retry { .. } => "retry",
            Verdict::Unknown => "unknown",
        }
    }
}

/// The operation that a look-up asks about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The request as it was stamped and stored.
    pub request: &'a Request,
    /// The key as the vendor saw it.
    pub wire_key: &'a str,
    /// When the operation was first claimed: it took effect no earlier.
    pub claimed_at: Timestamp,
}

impl<'a> Subject<'a> {
    /// The subject of a look-up.
    pub fn new(request: &'a Request, wire_key: &'a str, claimed_at: Timestamp) -> Self {
        Subject { request, wire_key, claimed_at }
    }
}

/// What a look-up's answer says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// It took effect; here is what the vendor holds, in the shape of the answer that was lost.
    Found(Answer),
    /// It provably did not take effect.
    Absent,
    /// The look-up says neither.
    CannotTell,
    /// The look-up goes on: its next page.
    Next(Request),
}

/// Whether HTTP itself makes a repeat harmless (RFC 9110, section 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent()
}
