//! The one error of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, SystemTime};

use easy_ext::ext;

use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::mistake::MistakeExt;

pub(crate) mod context;
pub(crate) mod invalid;
pub(crate) mod mistake;
pub(crate) mod obstacle;
pub(crate) mod words;

pub(crate) use context::Context;
pub use invalid::Input;
pub(crate) use invalid::{Field, Invalid, field};
pub use mistake::Mistake;
pub use obstacle::Obstacle;

/// Fate of a call's operation without its caller.
///
/// ```
/// use steadfast::{Disposition, Error};
///
/// /// What the service does about a call that did not work out.
/// fn next(error: &Error) -> &'static str {
///     match error.disposition() {
///         Disposition::Ended => "decide: try again under the same key, or give up",
///         Disposition::Continues { .. } => "wait: it is carried out without us",
///         Disposition::AwaitsOperator => "show it to a person",
///     }
/// }
/// # let error = steadfast::Client::builder(steadfast::vendor::Stripe::new("")).build().unwrap_err();
/// # assert!(next(&error).starts_with("decide"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The operation has come to its end, or was never recorded: it will not be retried automatically.
    Ended,
    /// The operation is on record and goes on without its caller: another call holds it, or a client of its account
    /// that recovers carries on with it. It is also given where the store could not tell: then the operation may be on
    /// record or not.
    Continues {
        /// Earliest time of the next attempt; `None` if it is not known.
        at: Option<Timestamp>,
    },
    /// The operation is a dead letter: a person has to redrive or resolve it.
    AwaitsOperator,
}

/// The gates that may refuse a call before it is sent, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gate {
    /// An operator switched the vendor off.
    KillSwitch,
    /// The vendor asked for a pause (`Retry-After` and its like).
    Pause,
    /// The circuit breaker is open, or half-open with every probe taken.
    Breaker,
    /// The concurrency limit: no more attempts may be under way.
    Concurrency,
    /// The rate limit has no room.
    Rate,
    /// The retry budget is spent: the first attempt was made, another is not allowed.
    Budget,
    /// The vendor refuses the account's credentials, and its operations wait. Only what has no caller is held by it.
    Credentials,
}

impl Gate {
    /// The gate's name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Gate::KillSwitch => "kill_switch",
            Gate::Pause => "pause",
            Gate::Breaker => "breaker",
            Gate::Concurrency => "concurrency",
            Gate::Rate => "rate",
            Gate::Budget => "budget",
            Gate::Credentials => "credentials",
        }
    }
}

/// Reason for which an operation ended as a dead letter: it failed, and not because the vendor refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The ladder of retries is spent.
    Exhausted,
    /// The vendor's replay window closed before an answer came.
    Expired,
    /// The outcome is unknown and neither a resend nor a lookup can settle it.
    Unknown,
    /// A person closed it before it came to an end.
    Closed,
    /// Another host than that of the client which was to send it is on record. Nothing was sent there, and no secret;
    /// earlier attempts may have been.
    Elsewhere,
    /// The vendor refused its credentials where no caller waited: on its route alone, or for as long as records are kept.
    Credentials,
}

impl Reason {
    /// The reason's name in lists, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Expired => "expired",
            Reason::Unknown => "unknown",
            Reason::Closed => "closed",
            Reason::Elsewhere => "elsewhere",
            Reason::Credentials => "credentials",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kind of a definite no of a vendor, or of its adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The request is not acceptable as it stands: validation, a declined card, a missing resource.
    Rejected,
    /// The credentials are. Nothing was tried on the merits, so the same key may be sent again.
    Unauthorized,
    /// The vendor already holds a resource with this natural key, and it is not ours. The error's
    /// [`answer`](Error::answer) is the vendor's own no, with all that it says of that resource; the resource itself is
    /// not fetched.
    Duplicate,
    /// The vendor knows this key with another request.
    KeyReused,
}

/// A boxed source of an error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A call, a policy or a configuration that did not work out.
///
/// [`Error`] is opaque over a private kind, so that a new way to fail is not a breaking change. Callers ask it
/// questions. There are predicates (`is_refused`, `is_circuit_open`, …), [`Error::effect`] for whether the call may
/// have happened, [`Error::retry_at`] for when to come back, [`Error::attempts`] for what each attempt met, and
/// [`Error::code`] for a stable text to alert and group on.
///
/// `Display` says one layer: whose call it was (vendor, method, path, key), what happened, the effect, and what to
/// do next. The chain of [`source`](std::error::Error::source)s says why. Log both at once with `{error:#}`. Neither
/// ever contains a secret, a query or a body; of the path, what could be a token is left out
/// ([`Vendor::may_show`](crate::vendor::Vendor::may_show)).
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// # fake.plan().next(steadfast::testkit::Fault::HangAfterApply);
/// use std::time::Duration;
/// use steadfast::Effect;
///
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let charge = stripe.post("/v1/payment_intents").key("order-42/charge").form(&form);
/// let error = charge.deadline(Duration::from_secs(5)).send().await.unwrap_err();
///
/// // No answer came in time. The charge may have been made: send the same key again.
/// assert!(error.is_deadline());
/// assert_eq!((error.effect(), error.code()), (Effect::Unknown, "DEPENDENCY.timeout"));
/// assert!(error.retry_at().is_some());
/// assert_eq!(error.attempts().len(), 1);
#[doc = include_str!("docs/setup/end.md")]
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    effect: Effect,
    retry_at: Option<Timestamp>,
    /// Unless it follows from the kind.
    disposition: Option<Disposition>,
    attempts: Vec<AttemptReport>,
    waited: Duration,
    answer: Option<Answer>,
    context: Context,
    source: Option<BoxError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "for the crates of this workspace alone")]
pub enum Kind {
    /// Input that is refused before anything is sent.
    Invalid(Box<Invalid>),
    /// The vendors file, or seal keys: what is wrong, in the order of the lines, and whether there is more of it.
    Config { mistakes: Vec<Mistake>, more: bool },
    /// The reply is not what the caller asked to read it as.
    ReplyNotJson,
    /// The reply cannot be read: its encoding is not undone, or it is not what the caller reads by its own means.
    ReplyUnreadable,
    /// The reply went on beyond the limit.
    ReplyTooLarge { limit_bytes: usize },
    /// The body of a streamed reply ended before it was whole, after so many bytes.
    ReplyBroken { bytes: u64, how: Broken },
    /// A refusal by the vendor.
    Refused { refusal: Refusal, status: u16 },
    /// The key belongs to an operation with another fingerprint.
    KeyReused { held: String, offered: String },
    /// The key's operation is under way elsewhere, or waits for its next attempt.
    InProgress,
    /// A refusal by one of our own gates.
    Gate(Gate),
    /// Time ran out while the call was still retryable, or was not enough for the step that comes `next`.
    Deadline { budget: Duration, next: Option<Step> },
    /// An unkeyed call failed for good; a keyed call failed in this attempt.
    Dependency { timeout: bool, rate_limited: bool },
    /// The operation is a dead letter.
    DeadLetter { reason: Reason, timeout: bool, rate_limited: bool },
    /// The store failed.
    Store { doing: &'static str },
    /// The holder of the operation was fenced out: another process has taken it over.
    Fenced,
    /// The row of the outbox that asks for it cannot become an operation.
    RowRejected { why: String },
    /// The operation that this one starts over stands in the way.
    InTheWay { predecessor: String, obstacle: Obstacle },
}

/// Way in which a streamed reply ended before it was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The connection broke, or the vendor ended it.
    Lost,
    /// No more of the reply came in this time.
    Silent(Duration),
    /// The time that its call gave it was over.
    Deadline(Duration),
}

/// Next step of a call that ran out of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "for the crates of this workspace alone")]
pub enum Step {
    Attempt,
    Lookup,
}

impl Error {
    /// Returns the effect of the call at the vendor, as far as it is known. For a keyed call it is never better than
    /// the record: [`Effect::None`] is given only where it is proven.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Returns the fate of the operation without its caller, as on record: it has ended, it goes on, or it waits for a
    /// person. A call that a gate refused before anything was recorded has [ended](Disposition::Ended).
    pub fn disposition(&self) -> Disposition {
        self.0.disposition.unwrap_or(match self.0.kind {
            Kind::DeadLetter { .. } | Kind::RowRejected { .. } => Disposition::AwaitsOperator,
            Kind::InProgress => Disposition::Continues { at: self.0.retry_at },
            // What may be on record goes on as if it were.
            Kind::Store { .. } | Kind::Fenced if self.0.effect != Effect::None => {
                Disposition::Continues { at: self.0.retry_at }
            }
            Kind::InTheWay { obstacle: Obstacle::Open { until }, .. } => Disposition::Continues { at: until },
            Kind::InTheWay { obstacle: Obstacle::EffectUnknown, .. } => Disposition::AwaitsOperator,
            _ => Disposition::Ended,
        })
    }

    /// Returns the time at which a retry makes sense, where it is known: an open circuit's end, a vendor's pause, the
    /// next rung of the ladder.
    ///
    /// For a key that [another call holds](Error::is_in_progress): when that call is expected to have ended. That is
    /// after as long as this client's keyed calls have taken lately (the estimate of RFC 6298, section 2). Once that is
    /// over, or before any was answered, it is the end of the holder's longest attempt, and at last the end of its
    /// lease.
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.0.retry_at.map(SystemTime::from)
    }

    /// Returns the report of each attempt of this call, oldest first. Empty if nothing was sent.
    pub fn attempts(&self) -> &[AttemptReport] {
        &self.0.attempts
    }

    /// Returns the total wait of this call: backoff, the vendor's pauses, our own gates, settle times.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// The vendor's last answer, where there was one. Its body may hold personal data; it is not in `Debug`.
    pub fn answer(&self) -> Option<&Answer> {
        self.0.answer.as_ref()
    }

    /// The vendor's last answer itself, for a caller that gives it on: a refusal is an answer to a typed client. `None`
    /// where [`answer`](Error::answer) is.
    pub fn into_answer(self) -> Option<Answer> {
        self.0.answer
    }

    /// The status of the vendor's last answer, where there was one.
    pub fn status(&self) -> Option<http::StatusCode> {
        self.answer().map(|answer| answer.status)
    }

    /// The vendor's name, for an error of a call or of a client. The adapter's own: `stripe`.
    pub fn vendor(&self) -> Option<&str> {
        self.0.context.vendor.as_deref()
    }

    /// The method of the call.
    pub fn method(&self) -> Option<&http::Method> {
        self.0.context.method.as_ref()
    }

    /// The path of the call as it may be shown: below the adapter's base URL, without the query, and with
    /// `[redacted]` for each segment that the adapter [may not show](crate::vendor::Vendor::may_show).
    pub fn path(&self) -> Option<&str> {
        self.0.context.path.as_deref()
    }

    /// The caller's key, or the one generated for a POST without.
    pub fn key(&self) -> Option<&str> {
        self.0.context.key.as_deref()
    }

    /// The key the vendor saw, where one was sent.
    pub fn wire_key(&self) -> Option<&str> {
        self.0.context.wire_key.as_deref()
    }

    /// The operation's scope, `{namespace}/{vendor}/{account}/{METHOD} {route}`, for a keyed call. It names the
    /// operation's record, so that its route is the path with the segments that [`path`](Error::path) leaves out.
    pub fn operation(&self) -> Option<&str> {
        self.0.context.operation.as_deref()
    }

    /// Whether something in the call, the policy or the configuration was refused before anything was sent.
    pub fn is_validation(&self) -> bool {
        matches!(self.0.kind, Kind::Invalid(_) | Kind::Config { .. })
    }

    /// Returns the mistakes in the vendors file, in the order of its lines; empty if the error is about something else.
    /// At most 20: a file with more of them is checked again when these are mended.
    pub fn mistakes(&self) -> &[Mistake] {
        match &self.0.kind {
            Kind::Config { mistakes, .. } => mistakes,
            _ => &[],
        }
    }

    /// Returns true for a definite no of the vendor. Its words are in [`answer`](Error::answer).
    pub fn is_refused(&self) -> bool {
        matches!(self.0.kind, Kind::Refused { .. })
    }

    /// Whether the key already belongs to another request, here or at the vendor. Nothing was done for this one. If the
    /// key is on record here, [`effect`](Error::effect) and [`disposition`](Error::disposition) are those of the request
    /// that has it.
    pub fn is_key_reused(&self) -> bool {
        matches!(self.0.kind, Kind::KeyReused { .. } | Kind::Refused { refusal: Refusal::KeyReused, .. })
    }

    /// Whether the operation is under way elsewhere or waits for its next attempt; see
    /// [`retry_at`](Error::retry_at). A call can [wait](crate::InFlight::Wait) for the outcome instead.
    pub fn is_in_progress(&self) -> bool {
        matches!(self.0.kind, Kind::InProgress)
    }

    /// Whether the operation that this one was to start over stands in the way: it is still
    /// open, took effect, or may have. Nothing was sent. [`effect`](Error::effect) and
    /// [`disposition`](Error::disposition) are those of that operation.
    pub fn is_predecessor_in_the_way(&self) -> bool {
        matches!(self.0.kind, Kind::InTheWay { .. })
    }

    /// Whether the circuit breaker refused.
    pub fn is_circuit_open(&self) -> bool {
        matches!(self.0.kind, Kind::Gate(Gate::Breaker))
    }

    /// Whether a rate stood in the way: our own limit, a pause the vendor asked for, or its 429.
    pub fn is_rate_limited(&self) -> bool {
        match self.0.kind {
            Kind::Gate(gate) => matches!(gate, Gate::Pause | Gate::Rate),
            Kind::Dependency { rate_limited, .. } | Kind::DeadLetter { rate_limited, .. } => rate_limited,
            _ => false,
        }
    }

    /// The gate of ours that refused, if one did.
    pub fn gate(&self) -> Option<Gate> {
        match self.0.kind {
            Kind::Gate(gate) => Some(gate),
            _ => None,
        }
    }

    /// Whether time ran out while the call was still retryable. The operation of a keyed call that was claimed is recorded
    /// as scheduled; send the same key again to carry on. One whose deadline had passed before the claim records nothing
    /// itself. Its [disposition](Error::disposition) is that of what is on record, and [`Ended`](Disposition::Ended) if
    /// nothing is.
    pub fn is_deadline(&self) -> bool {
        matches!(self.0.kind, Kind::Deadline { .. } | Kind::ReplyBroken { how: Broken::Deadline(_), .. })
    }

    /// Whether the last attempt, or the call as a whole, timed out.
    pub fn is_timeout(&self) -> bool {
        match self.0.kind {
            Kind::Deadline { .. } => true,
            Kind::ReplyBroken { how, .. } => how != Broken::Lost,
            Kind::Dependency { timeout, .. } | Kind::DeadLetter { timeout, .. } => timeout,
            _ => false,
        }
    }

    /// Whether the operation is a dead letter: it failed, not by a refusal, and waits for a person or a
    /// redrive.
    pub fn is_dead_letter(&self) -> bool {
        matches!(self.0.kind, Kind::DeadLetter { .. })
    }

    /// Returns the reason for which the operation is a dead letter; `None` if it is none.
    pub fn reason(&self) -> Option<Reason> {
        match self.0.kind {
            Kind::DeadLetter { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Returns true if the store failed, not the vendor. With [`Effect::Unknown`] the vendor may have answered; with
    /// [`Effect::Applied`] it did, and its answer is in [`answer`](Error::answer). The operation is recovered from its
    /// record, never by a blind resend.
    ///
    /// A claim that failed, or that the store did not answer in time, may be on record although nothing was sent. Then
    /// the operation is carried out without its caller, after [`retry_at`](Error::retry_at): the effect is unknown. The
    /// claim is not withdrawn, since nothing on record tells this call's claim from another's of the same key. Send the
    /// same key again; never take this error for a no.
    pub fn is_store(&self) -> bool {
        matches!(self.0.kind, Kind::Store { .. } | Kind::Fenced)
    }

    /// Returns true if the body of a streamed reply ended before it was whole: the connection broke, the vendor fell
    /// silent, or the call's time was over. The part that was read is no whole reply.
    pub fn is_broken_reply(&self) -> bool {
        matches!(self.0.kind, Kind::ReplyBroken { .. })
    }

    /// Whether the vendor answered, but not with what the caller asked to read.
    pub fn is_unreadable_reply(&self) -> bool {
        matches!(self.0.kind, Kind::ReplyNotJson | Kind::ReplyUnreadable | Kind::ReplyTooLarge { .. })
    }

    /// A stable text for this kind of error, to alert and group on.
    pub fn code(&self) -> &'static str {
        match &self.0.kind {
            Kind::Invalid(invalid) => invalid.input.code(),
            Kind::Config { .. } => "VALIDATION.config",
            Kind::ReplyNotJson => "VALIDATION.reply_not_json",
            Kind::ReplyUnreadable => "VALIDATION.reply_unreadable",
            Kind::ReplyTooLarge { .. } => "VALIDATION.reply_too_large",
            Kind::ReplyBroken { how: Broken::Lost, .. } => "DEPENDENCY.unavailable",
            Kind::ReplyBroken { .. } => "DEPENDENCY.timeout",
            Kind::Refused { refusal, status } => refusal_code(*refusal, *status),
            Kind::KeyReused { .. } => "CONFLICT.idempotency.payload_mismatch",
            Kind::InProgress => "CONFLICT.idempotency.in_progress",
            Kind::Gate(Gate::Pause | Gate::Rate | Gate::Concurrency) => "RATE_LIMIT.exceeded",
            Kind::Gate(_) => "DEPENDENCY.unavailable",
            Kind::Deadline { .. } => "DEPENDENCY.timeout",
            Kind::Store { .. } => "TRANSIENT.store",
            Kind::Fenced => "TRANSIENT.fenced",
            Kind::InTheWay { .. } => "CONFLICT.idempotency.predecessor",
            Kind::RowRejected { .. } => "CONFLICT.outbox.rejected",
            Kind::DeadLetter { .. } if self.0.effect == Effect::Unknown => "UNKNOWN.effect",
            Kind::Dependency { timeout, rate_limited } | Kind::DeadLetter { timeout, rate_limited, .. } => {
                match (rate_limited, timeout) {
                    (true, _) => "RATE_LIMIT.exceeded",
                    (false, true) => "DEPENDENCY.timeout",
                    (false, false) => "DEPENDENCY.unavailable",
                }
            }
        }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(ErrorExt)]
#[allow(clippy::new_ret_no_self, reason = "an extension of one type")]
impl Error {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_waited(mut self, waited: Duration) -> Error {
        self.0.waited = waited;
        self
    }

    /// Clones an error about a mistake in the input, for another call that has it too.
    pub fn again(&self) -> Error {
        Error::new(self.0.kind.clone(), self.0.effect)
    }

    /// Names the vendor, where nothing more is known.
    pub fn at_vendor(self, name: &str) -> Error {
        self.with_context(Context::of_vendor(name))
    }

    /// Attaches a cause, if there is one. A cause that is attached already stays: it is the nearer one.
    pub fn with_cause(mut self, cause: Option<impl Into<BoxError>>) -> Error {
        if self.0.source.is_none() {
            self.0.source = cause.map(Into::into);
        }
        self
    }

    /// Something that is wrong with a file as a whole, or with an environment variable.
    pub fn config(file: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::mistaken(vec![Mistake::new(file, None, problem)], false)
    }

    /// Sets the disposition, where it is another than that of the error's kind.
    pub fn with_disposition(mut self, disposition: Disposition) -> Error {
        self.0.disposition = Some(disposition);
        self
    }

    /// Whether another process took the operation while this call held it.
    pub fn is_fenced(&self) -> bool {
        matches!(self.0.kind, Kind::Fenced)
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// All that is wrong with a file; `more` says that there is more of it than this.
    pub fn mistaken(mistakes: Vec<Mistake>, more: bool) -> Error {
        Error::new(Kind::Config { mistakes, more }, Effect::None)
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn new(kind: Kind, effect: Effect) -> Error {
        Error(Box::new(Inner {
            kind,
            effect,
            retry_at: None,
            disposition: None,
            attempts: Vec::new(),
            waited: Duration::ZERO,
            answer: None,
            context: Context::default(),
            source: None,
        }))
    }

    /// Moves a time to retry at to no earlier than `at`. An error without one stays without one: its end is up to a
    /// person.
    pub fn not_before(mut self, at: Timestamp) -> Error {
        self.0.retry_at = self.0.retry_at.map(|earlier| earlier.max(at));
        self
    }

    /// Sets the effect.
    pub fn with_effect(mut self, effect: Effect) -> Error {
        self.0.effect = effect;
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn refused_by(gate: Gate, retry_at: Option<Timestamp>, effect: Effect) -> Error {
        Error::new(Kind::Gate(gate), effect).with_retry_at(retry_at)
    }

    /// Marks a dead letter as one whose last attempt had no answer in time.
    pub fn timed_out(mut self) -> Error {
        if let Kind::DeadLetter { timeout, .. } = &mut self.0.kind {
            *timeout = true;
        }
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_answer(mut self, answer: Option<Answer>) -> Error {
        self.0.answer = answer;
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_attempts(mut self, attempts: Vec<AttemptReport>) -> Error {
        self.0.attempts = attempts;
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_context(mut self, context: Context) -> Error {
        self.0.context = context;
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_retry_at(mut self, at: Option<Timestamp>) -> Error {
        self.0.retry_at = at;
        self
    }

    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Error {
        self.0.source = Some(source.into());
        self
    }
}

fn refusal_code(refusal: Refusal, status: u16) -> &'static str {
    match (refusal, status) {
        (Refusal::KeyReused, _) => "CONFLICT.idempotency.payload_mismatch",
        (Refusal::Duplicate, _) => "PROVIDER.duplicate",
        (Refusal::Unauthorized, 403) => "AUTH.forbidden",
        (Refusal::Unauthorized, _) => "AUTH.unauthorized",
        (Refusal::Rejected, _) => "VALIDATION.refused",
    }
}

impl fmt::Debug for Error {
    /// The code and the whole chain in one line: what a `main` that returns the error prints. `{:#?}` shows every field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "{} {self:#}", self.code());
        }
        f.debug_struct("Error")
            .field("code", &self.code())
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("retry_at", &self.0.retry_at)
            .field("disposition", &self.disposition())
            .field("attempts", &self.0.attempts)
            .field("answer", &self.0.answer)
            .field("context", &self.0.context)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_says_one_layer_and_the_chain_the_rest() {
        let error = Error::new(Kind::Store { doing: "settle" }, Effect::Unknown)
            .with_source(std::io::Error::other("disk full"));
        assert_eq!(error.to_string(), "the store failed to settle; effect unknown; it may go on without you");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("disk full"));
        let whole = "the store failed to settle; effect unknown; it may go on without you: disk full";
        assert_eq!(format!("{error:#}"), whole);
    }

    #[test]
    fn a_timeout_is_visible_through_every_kind_that_can_hold_one() {
        let lost = |timeout| Kind::Dependency { timeout, rate_limited: false };
        let dead = |timeout| Kind::DeadLetter { reason: Reason::Exhausted, timeout, rate_limited: false };
        let deadline = Kind::Deadline { budget: Duration::from_secs(1), next: None };
        for (kind, expected) in [
            (lost(true), true),
            (lost(false), false),
            (dead(true), true),
            (dead(false), false),
            (deadline, true),
        ] {
            assert_eq!(Error::new(kind, Effect::None).is_timeout(), expected);
        }
    }

    #[test]
    fn a_deadline_that_had_passed_is_in_the_text() {
        let spent = Error::new(Kind::Deadline { budget: Duration::ZERO, next: None }, Effect::None);
        let text = "the deadline had passed before anything was sent; effect none; give the call more time";
        assert_eq!(spent.to_string(), text);
        assert!(spent.is_deadline());
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
