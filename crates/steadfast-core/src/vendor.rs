//! The rules of a vendor: what it really does with a repeated request, as data and pure functions.
//!
//! [`Vendor`] is for the author of an adapter. It does no I/O and keeps no state. It says how a request is stamped
//! and authorised, for how long the vendor replays a key, what an attempt's outcome means, and how an effect can be
//! looked up. The engine does the rest.
//!
//! The adapters are `Stripe`, `Postmark`, `BigCommerce` and `Adyen`. `Keyed` is for every vendor whose idempotency is
//! a key in a header or a body field: it is configuration and no code.
//!
//! # An adapter of one's own
//!
//! It is a name, a [`BaseUrl`], a [`Credential`], and the [`KeyPlace`] where the key goes. All else has a default that
//! errs on the safe side. Verdicts follow HTTP and the form of the answer ([`rules`]), nothing is replayed, and nothing
//! can be looked up: a POST whose answer is lost ends as *unknown*.
//!
//! ```
//! use steadfast::Error;
//! use steadfast::http::header::AUTHORIZATION;
//! use steadfast::operation::WireKey;
//! use steadfast::transport::Request;
//! use steadfast::url::Url;
//! use steadfast::vendor::{BaseUrl, Credential, KeyPlace, Vendor};
//!
//! #[derive(Debug)]
//! struct Parcels {
//!     base: BaseUrl,
//!     token: Credential,
//! }
//!
//! impl Vendor for Parcels {
//!     fn name(&self) -> &str {
//!         "parcels"
//!     }
//!     fn base_url(&self) -> &Url {
//!         self.base.url()
//!     }
//!     fn check(&self) -> Result<(), Error> {
//!         self.token.check()?;
//!         self.base.check()
//!     }
//!     fn authorize(&self, request: &mut Request) {
//!         self.token.put(AUTHORIZATION, &mut request.headers);
//!     }
//!     fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
//!         let key = wire_key.to_string();
//!         KeyPlace::Body("reference".to_owned()).put(&key, request)?;
//!         Ok(key)
//!     }
//! }
//!
//! let parcels = Parcels {
//!     base: BaseUrl::new("https://api.parcels.example"),
//!     token: Credential::new("Token ", "a-token"),
//! };
//! parcels.check()?;
//! # #[cfg(feature = "testkit")]
//! assert_eq!(steadfast::testkit::conformance::vendor(&parcels).breaches(), []);
//! # Ok::<(), Error>(())
//! ```
//!
//! Where the vendor documents that it replays a key, say so in [`Vendor::replay_window`]. Where an effect can be found
//! by the key, add [`Vendor::lookup`], [`Vendor::read_lookup`] and [`Vendor::settle_time`]. Compare a hit with the
//! [request](Subject::request): the key alone does not distinguish it from another service's. Ask for what was archived
//! too, and say so in [`Vendor::lists_deleted`]. Where a PUT or a DELETE must not be repeated, say so in
//! [`Vendor::is_idempotent`]. Where the vendor's own failures have a mark, check it in [`Vendor::is_own`]. Where
//! requests carry what no reader should be shown, such as a card's number, name the fields in [`Vendor::redacted`]. The
//! suite `testkit::conformance` puts the adapter through every status, failure, replay and wait, and names the rule
//! that it breaks.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use easy_ext::ext;
use http::{HeaderMap, HeaderName, Method};
use url::Url;

use crate::answer::Answer;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Error, Refusal};
use crate::guard::Guard;
use crate::operation::{RedactedFields, WireKey};
use crate::request::Request;
use crate::transport::SendError;
use crate::vendor::times::CLOCK_SKEW;

pub(crate) mod account;
pub(crate) mod base;
pub(crate) mod body;
pub(crate) mod credential;
pub(crate) mod date;
pub(crate) mod key_place;
pub(crate) mod pages;
pub mod rules;
pub(crate) mod secret;
pub(crate) mod shown;
pub(crate) mod specimen;
pub(crate) mod times;
pub mod wait;

pub use base::BaseUrl;
pub use credential::Credential;
pub use key_place::KeyPlace;
pub use shown::is_plain;

/// A vendor's rules.
///
/// All methods are pure and quick; none may panic on any answer, however malformed.
pub trait Vendor: fmt::Debug + Send + Sync + 'static {
    /// The vendor's name in scopes, logs and metrics, such as `stripe`. It must never change: wire keys are
    /// derived from it.
    fn name(&self) -> &str;

    /// The URL that paths of calls are appended to. It may have a path of its own.
    fn base_url(&self) -> &Url;

    /// Returns the part of a call's path that names the operation: all of it, unless an adapter decides otherwise.
    ///
    /// The same key on another path is another operation, and a second effect. So an adapter leaves out what may change
    /// while the effect stays the same, such as the version of an API where the vendor's versions do the same. It
    /// leaves out nothing that distinguishes two effects, such as the version where each has routes of its own. A
    /// request goes to its whole path, and a resend to the path on record.
    ///
    /// It must never change: wire keys are derived from it.
    fn operation_path<'a>(&self, path: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(path)
    }

    /// Refuses an adapter that cannot work as it was built. It cannot with a secret that is empty or cannot be a
    /// header's value, or with a store or a base URL that is impossible. Adapters are built without a `Result`; the
    /// client's builder asks here, once, before anything is sent.
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
    /// An adapter adds the ids of its vendor that are long and no secret, such as a charge's. It never adds an id
    /// that opens something to its reader: a cart's, a session's, a token.
    fn may_show(&self, segment: &str) -> bool {
        is_plain(segment)
    }

    /// The account that keys are unique in, from the adapter's configuration and the call's headers
    /// (Stripe's `Stripe-Account`). It must not change when a secret is rotated. Default: `default`, which is right for
    /// a vendor with one account.
    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        let _ = headers;
        Cow::Borrowed("default")
    }

    /// Stamps an operation's wire key into its request, once, before the claim. The result is stored and
    /// resent byte for byte. Gives the key in the form that this vendor sees. [`KeyPlace::put`] does it for a header and
    /// for a member of a JSON body.
    ///
    /// # Errors
    ///
    /// A validation error if the request leaves no room for the key; nothing is sent or recorded.
    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error>;

    /// Adds secrets and fixed headers. Called at each send, on a copy that is never stored or logged. A secret's value is
    /// marked as sensitive, as a [`Credential`] does.
    fn authorize(&self, request: &mut Request);

    /// The headers that carry this vendor's secrets: a call that gives one is refused, because its headers are stored.
    /// `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, `X-Auth-Token` and `X-Api-Key` are refused
    /// everywhere. Asked once, when a client is built. Default: what [`authorize`](Vendor::authorize) adds with a
    /// value that it marks as [sensitive](http::HeaderValue::set_sensitive).
    fn secret_headers(&self) -> Vec<HeaderName> {
        let mut request = Request::new(Method::GET, self.base_url().clone());
        self.authorize(&mut request);
        let is_secret =
            |(name, value): (&HeaderName, &http::HeaderValue)| value.is_sensitive().then(|| name.clone());
        request.headers.iter().filter_map(is_secret).collect()
    }

    /// The fields whose values are never shown of this vendor's operations, such as a card's number. They come beside
    /// those that the client and a call name (`Call::redact`). Asked once, when a client is built.
    /// Default: none.
    fn redacted(&self) -> RedactedFields {
        RedactedFields::NONE
    }

    /// Whether a repeat of this request leaves what the request itself left, so that an unknown outcome is sent again.
    /// Default: what HTTP says of the method, PUT and DELETE ([`is_idempotent`]).
    ///
    /// An adapter says no where the vendor executes a repeat, such as a PUT that adds a row.
    fn is_idempotent(&self, request: &Request) -> bool {
        is_idempotent(&request.method)
    }

    /// The replay window: for how long, from the first send, the vendor answers a resend of this stamped request from
    /// its own record. `None`: it executes it again. Default: `None`, for every request.
    ///
    /// A window that the vendor does not document is a second effect. A request without a key has none:
    /// [`KeyPlace::is_in`].
    fn replay_window(&self, request: &Request) -> Option<Duration> {
        let _ = request;
        None
    }

    /// A path below the base URL to which a POST takes the key, such as `/payments`, where the vendor takes it on some routes
    /// alone. Services that share a store compare their adapters' windows there
    /// (`Client::register`). Asked when a client is built or registers. Default: `/`, which is right
    /// where every POST takes the key, or none does.
    fn keyed_path(&self) -> Cow<'_, str> {
        Cow::Borrowed("/")
    }

    /// Whether the vendor itself wrote this answer. The default of [`classify`](Vendor::classify) asks. A failure that a
    /// proxy wrote proves nothing: the vendor may have executed the request before. So may it where a proxy stands in
    /// for a success.
    ///
    /// Default: by the answer's form ([`rules::is_own`]). A proxy that answers in JSON passes for the vendor then.
    /// Where the vendor's own failures have a mark, such as a request's id among the headers, ask for that.
    fn is_own(&self, answer: &Answer) -> bool {
        rules::is_own(answer)
    }

    /// Classifies an attempt's outcome. Default: [`rules::verdict`].
    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        rules::verdict(self, attempt)
    }

    /// The settle time: how long after an unknown outcome a lookup may be believed. It is the index lag plus the
    /// longest processing time. It counts from when the request can no longer arrive: see
    /// [`queue_max`](crate::transport::Transport::queue_max). Default: zero, which is right without a lookup.
    fn settle_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether this adapter's lookup for what `request` makes also shows what was archived or deleted since. Also true
    /// where nothing of its kind can be. Default: no, and [`Finding::Absent`] is believed only within an hour of the send.
    fn lists_deleted(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// The first request of a lookup for the effect of `subject`, if this vendor has one for it. The engine
    /// authorises and sends it. Default: `None`, and what became of an unknown outcome is left to a person.
    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        let _ = subject;
        None
    }

    /// Reads the answer to a lookup request. `asked` is the request it answers. Default: [`Finding::CannotTell`].
    ///
    /// A lookup that failed, or answered with anything but what a working lookup answers, is [`Finding::Unanswered`]:
    /// never [`Finding::Absent`]. A list that was filtered by the key and shows another's object was not filtered: its
    /// being without ours is no proof. A hit is [`Finding::Found`] only if it is the object that was sent, in all that
    /// distinguishes two, such as amount, currency, customer and recipient. An object that differs may be another's, or
    /// was changed since, and is [`Finding::CannotTell`]. Leave out the fields that the vendor itself writes in another
    /// form. An object [older](Subject::is_older) than the operation is not its effect; if only its time excludes it,
    /// the finding is [`Finding::CannotTell`]. An answer that was [cut](Answer::cut) never comes here: to the engine,
    /// that lookup failed.
    fn read_lookup(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        let _ = (subject, asked, answer);
        Finding::CannotTell
    }

    /// Returns the page after the one that `answer` shows, for `Call::pages`; `None` if that is the last. `asked` is
    /// the request that it answers, after the redirects that were followed. Default: the `Link` header with
    /// `rel="next"` (RFC 8288); without one it is the last page.
    ///
    /// A URL at another host is never asked, nor one that was asked before.
    ///
    /// # Errors
    ///
    /// The reason for which the answer does not show it, such as a proxy's page or half a list. It must not contain
    /// values of the answer, because errors are logged. *Last* is returned only where the answer shows it: a list that
    /// ends early looks complete.
    fn next_page(
        &self,
        asked: &Request,
        answer: &Answer,
    ) -> Result<Option<Url>, Box<dyn std::error::Error + Send + Sync>> {
        pages::by_link(asked, answer)
    }
}

/// Outcome of one attempt, with the facts that an adapter judges it by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The request as it was stamped.
    pub request: &'a Request,
    /// Whether the request belongs to an operation with a wire key.
    pub keyed: bool,
    /// Effect of the earlier attempts of the same operation.
    pub effect_before: Effect,
    /// Whether the vendor's [replay window](Vendor::replay_window) was still open when this attempt ended. Only then
    /// does it promise to have answered from its record, had an earlier attempt taken effect.
    pub in_window: bool,
    /// The answer, or the reason why none came.
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
        Attempt { request, keyed, effect_before: Effect::None, in_window: false, outcome, now }
    }

    /// Sets the effect of the earlier attempts.
    #[must_use]
    pub fn after(mut self, effect: Effect) -> Self {
        self.effect_before = effect;
        self
    }

    /// Sets whether the vendor's replay window is open. For [`Attempt::new`] it is over.
    #[must_use]
    pub fn in_window(mut self, open: bool) -> Self {
        self.in_window = open;
        self
    }
}

/// Verdict of an adapter on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The vendor did it, now or earlier under the same key.
    Done {
        /// True if the vendor marked this as the answer to an earlier request.
        replayed: bool,
    },
    /// The vendor itself gave a definite no to this attempt. It is never retried, unless an earlier attempt may have
    /// taken effect and the no does not speak for it.
    ///
    /// An answer that is not provably the vendor's own is no refusal, whatever its status: a proxy may have written
    /// it after the vendor executed the request. It is [`Retry`](Verdict::Retry) with an unknown effect.
    Refused {
        /// Kind of the refusal.
        refusal: Refusal,
        /// Attempts that it is a no to.
        speaks_for: SpeaksFor,
    },
    /// The vendor refuses for now. Another attempt may help.
    Retry {
        /// Effect that this attempt may have had.
        effect: Effect,
        /// The pause that the vendor asked for, counted from its answer.
        not_before: Option<Duration>,
    },
    /// The attempt may have taken effect, and sending it again cannot tell or help.
    Unknown,
}

impl Verdict {
    pub(crate) const DONE: &'static str = "done";

    /// The verdict's name in logs and evidence.
    pub const fn name(&self) -> &'static str {
        match self {
            Verdict::Done { .. } => Verdict::DONE,
            Verdict::Refused { .. } => "refused",
            Verdict::Retry { .. } => "retry",
            Verdict::Unknown => "unknown",
        }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(VerdictExt)]
impl Verdict {
    /// Limits the wait to one that is [believed](wait::believed).
    pub fn believed(self) -> Verdict {
        match self {
            Verdict::Retry { effect, not_before } => {
                Verdict::Retry { effect, not_before: not_before.map(wait::believed) }
            }
            other => other,
        }
    }
}

/// Attempts of an operation that a refusal is a no to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpeaksFor {
    /// The attempt that it answers. The effect of an earlier one stays as unknown as it was.
    ThisAttempt,
    /// Every earlier one too. Right only [in the vendor's replay window](Attempt::in_window), and only where the vendor
    /// marks the answer as a replay, or documents that it keeps this no under the key. An earlier request may still be on
    /// its way: it must find the no, and not be executed.
    EarlierToo,
}

/// The operation that a lookup asks about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The request as it was stamped and stored.
    pub request: &'a Request,
    /// The key as the vendor saw it.
    pub wire_key: &'a str,
    /// Time at which the operation was first claimed, by the claiming host's clock: it took effect no earlier.
    pub claimed_at: Timestamp,
    /// The vendor's clock less the claiming host's at that time, in milliseconds; `None` if it is not known. It is not
    /// what the two clocks differ by now: a clock may have been set since.
    pub vendor_clock_ms: Option<i64>,
}

impl<'a> Subject<'a> {
    /// The subject of a lookup.
    pub fn new(request: &'a Request, wire_key: &'a str, claimed_at: Timestamp) -> Self {
        Subject { request, wire_key, claimed_at, vendor_clock_ms: None }
    }

    /// Sets the time of the vendor's clock that was known at the first claim.
    #[must_use]
    pub fn with_vendor_clock(mut self, ms: Option<i64>) -> Self {
        self.vendor_clock_ms = ms;
        self
    }

    /// The first claim on the vendor's clock, as far as that is known.
    fn by_vendors_clock(&self) -> Option<Timestamp> {
        let offset = self.vendor_clock_ms?;
        let by = Duration::from_millis(offset.unsigned_abs());
        Some(if offset < 0 { self.claimed_at.minus(by) } else { self.claimed_at.plus(by) })
    }

    /// Whether what the vendor dates so is from before the operation, such as from its key's previous life. `None` if
    /// it may be either: it is older by one clock, and whether that was ahead of the other is not known.
    ///
    /// Clocks that differ by up to five minutes are allowed for. The wire key is the same in every life of a key, so
    /// that a lookup by it finds what an earlier life has left.
    pub fn is_older(&self, at: Timestamp) -> Option<bool> {
        let is_before = |claim: Timestamp| Guard::NothingOlder.keeps(at < claim.minus(CLOCK_SKEW));
        match (is_before(self.claimed_at), self.by_vendors_clock().map(is_before)) {
            (false, None | Some(false)) => Some(false),
            (true, Some(older)) => Some(older),
            (true, None) | (false, Some(true)) => None,
        }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(SubjectExt)]
impl<'a> Subject<'a> {
    /// The earliest that the first claim can have been. A vendor's `Date` is not believed where it says later: if a
    /// machine between us and the vendor had written it, the search would begin after what it looks for.
    pub fn claimed_there(&self) -> Timestamp {
        self.by_vendors_clock().map_or(self.claimed_at, |there| there.min(self.claimed_at))
    }

    /// Whether what the vendor dates so, in whole seconds, is from before the first claim, by its own clock as far as that
    /// is known. Unlike [`is_older`](Subject::is_older) it allows for no difference of clocks.
    pub fn is_before(&self, at: Timestamp) -> bool {
        at.plus(DATED_WITHIN) < self.by_vendors_clock().unwrap_or(self.claimed_at)
    }
}

/// Finding of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The operation took effect; the answer is the vendor's object, in the shape of the answer that was lost.
    Found(Answer),
    /// The operation provably did not take effect. More than an hour after the send this is taken for
    /// [`CannotTell`](Finding::CannotTell), unless [deleted objects are listed too](Vendor::lists_deleted).
    Absent,
    /// The vendor answered, and its answer says neither. It counts as an answer: after a few, the operation is
    /// *unknown*.
    CannotTell,
    /// No answer of the vendor's to this question: a proxy wrote a page, or a list was asked for and none came. The
    /// lookup counts as failed, and is made again, for a day.
    Unanswered,
    /// The lookup goes on: its next page.
    Next(Request),
}

/// A vendor's dates are cut to the second, and so is what is known of its clock.
const DATED_WITHIN: Duration = Duration::from_secs(2);

/// Whether HTTP itself makes a repeat harmless (RFC 9110, section 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent()
}
