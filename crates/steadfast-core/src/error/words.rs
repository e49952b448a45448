//! The text of an error: whose call it was, what happened, whether it may have taken effect, and what to do next.
//!
//! It is one line in that order, for an operator who was woken by it. The cause is the text of the next layer.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::StatusCode;

use super::{Broken, Disposition, Effect, Error, Gate, Kind, Mistake, Obstacle, Reason, Refusal, Step};
use crate::attempt::failure::SendErrorKind;
use crate::clock::Timestamp;

impl fmt::Display for Error {
    /// Writes this layer in one line. `{:#}` adds every source behind a colon: what a log wants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A mistake in a file begins with its place, which terminals and editors follow.
        let has_place = matches!(self.0.kind, Kind::Config { .. });
        if !has_place && !self.0.context.is_empty() {
            write!(f, "{}: ", self.0.context)?;
        }
        self.say_what_happened(f)?;
        match self.0.kind {
            _ if self.is_validation() && self.0.effect == Effect::None => {}
            Kind::Invalid(_) => write!(f, "; the effect on record is {}", self.0.effect)?,
            Kind::KeyReused { .. } => write!(f, "; its effect is {}", self.0.effect)?,
            _ => write!(f, "; effect {}", self.0.effect)?,
        }
        if let Some(on) = self.what_goes_on() {
            write!(f, "; {on}")?;
        }
        if let Some(next) = self.what_next() {
            write!(f, "; {next}")?;
        }
        if f.alternate() {
            write!(f, "{}", Sources(self.source()))?;
        }
        Ok(())
    }
}

/// An error and every source behind it, on one line.
pub struct Chain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, Sources(self.0.source()))
    }
}

struct Sources<'a>(Option<&'a (dyn StdError + 'static)>);

impl fmt::Display for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = self.0;
        while let Some(layer) = next {
            write!(f, ": {layer}")?;
            next = layer.source();
        }
        Ok(())
    }
}

impl Error {
    fn say_what_happened(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Invalid(invalid) => write!(f, "{invalid}"),
            Kind::Config { mistakes, more } => write_lines(f, mistakes, *more),
            Kind::ReplyNotJson => f.write_str("the reply is not the JSON that was asked for"),
            Kind::ReplyUnreadable => f.write_str("the reply cannot be read"),
            Kind::ReplyTooLarge { limit_bytes } => {
                write!(f, "the reply is over the limit of {limit_bytes} bytes and was cut there")
            }
            Kind::ReplyBroken { bytes, how } => say_how_it_broke(f, *bytes, how),
            Kind::Refused { refusal: Refusal::Rejected, status: status @ 300..=399 } => {
                write!(
                    f,
                    "the vendor answered with a redirect, {}, and none is followed",
                    status_in_words(*status)
                )
            }
            Kind::Refused { refusal, status } => {
                write!(f, "{} with status {}", refusal_in_words(*refusal), status_in_words(*status))
            }
            Kind::KeyReused { .. } => {
                f.write_str("nothing was sent, as the key already belongs to another request")
            }
            Kind::InProgress => {
                f.write_str("the operation is in progress elsewhere or waits for its next attempt")
            }
            Kind::Gate(gate) => {
                f.write_str(gate_in_words(*gate))?;
                self.say_last_answer(f)
            }
            Kind::Deadline { budget, .. } if budget.is_zero() => {
                f.write_str("the deadline had passed before anything was sent")
            }
            Kind::Deadline { budget, next } => {
                match next {
                    None => write!(f, "the call's {budget:?} ran out before a final answer")?,
                    Some(Step::Attempt) => {
                        write!(f, "the next attempt would exceed the call's {budget:?} deadline")?;
                    }
                    Some(Step::Lookup) => {
                        write!(f, "the lookup would exceed the call's {budget:?} deadline")?;
                    }
                }
                self.say_last_answer(f)
            }
            Kind::Dependency { .. } => {
                match self.0.attempts.len() {
                    0 => f.write_str("no good answer from the vendor")?,
                    1 => f.write_str("no good answer from the vendor in 1 attempt")?,
                    several => write!(f, "no good answer from the vendor in {several} attempts")?,
                }
                self.say_last_answer(f)
            }
            Kind::DeadLetter { reason, .. } => {
                write!(f, "dead letter ({reason}): {}", reason_in_words(*reason))?;
                self.say_last_answer(f)
            }
            Kind::Store { doing } => write!(f, "the store failed to {doing}"),
            Kind::RowRejected { why } => {
                write!(f, "its row of the outbox was rejected, and nothing was sent for it: {why}")
            }
            Kind::Fenced => f.write_str("another process has taken the operation over"),
            Kind::InTheWay { predecessor, obstacle } => {
                write!(f, "key {predecessor} cannot be started over: {}", obstacle_in_words(*obstacle))
            }
        }
    }

    fn say_last_answer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.status() {
            return write!(f, " (last answer: {})", status_in_words(status.as_u16()));
        }
        // A person looks for the fault here, and not at the vendor.
        let last = self.0.attempts.last().filter(|last| last.failure_kind == Some(SendErrorKind::Local));
        match last.and_then(|last| last.failure.as_deref()) {
            Some(lacks) => write!(f, ": {lacks}"),
            None => Ok(()),
        }
    }

    /// Returns the fate of a keyed call's operation without its caller, where the rest of the text does not show it.
    fn what_goes_on(&self) -> Option<&'static str> {
        match (self.disposition(), &self.0.kind) {
            // The store may have it on record, or not.
            (Disposition::Continues { .. }, Kind::Store { .. }) if self.0.effect == Effect::Unknown => {
                Some("it may go on without you")
            }
            (Disposition::Continues { .. }, Kind::KeyReused { .. } | Kind::InTheWay { .. }) => {
                Some("that operation goes on without you")
            }
            (Disposition::Continues { .. }, Kind::Invalid(_)) => {
                Some("the operation that has its key may go on without you")
            }
            (Disposition::Continues { .. }, _) => Some("it goes on without you"),
            (Disposition::Ended, Kind::Gate(_) | Kind::Deadline { .. }) if self.0.context.key.is_some() => {
                Some("it will not be retried automatically")
            }
            _ => None,
        }
    }

    /// Returns the reader's next step, where there is one. A mistake in the input names its own remedy.
    fn what_next(&self) -> Option<Cow<'static, str>> {
        let is_keyed = self.0.context.key.is_some();
        let again = if is_keyed { "send the same key again" } else { "try again" };
        if self.is_store() && self.0.effect == Effect::Applied {
            return Some("the vendor's reply is in answer(); never send it under a new key".into());
        }
        if let Some(at) = self.0.retry_at {
            return Some(format!("{again} after {}", to_whole_seconds(at)).into());
        }
        let next = match &self.0.kind {
            Kind::Invalid(_)
            | Kind::Config { .. }
            | Kind::Dependency { .. }
            | Kind::InProgress
            | Kind::InTheWay { .. } => return None,
            Kind::ReplyNotJson | Kind::ReplyUnreadable => "its body is in answer()",
            Kind::ReplyBroken { .. } => "ask for it again",
            Kind::ReplyTooLarge { .. } => "raise limits.reply_bytes_max for the next call",
            Kind::Refused { refusal: Refusal::Rejected, status: 300..=399 } => {
                "check the base URL and the path"
            }
            Kind::Refused { refusal: Refusal::Rejected, .. } => "the vendor's reason is in answer()",
            Kind::Refused { refusal: Refusal::Unauthorized, status } => {
                let check = if *status == 403 { "check what the secret may do" } else { "check the secret" };
                return Some(format!("{check}, then {again}").into());
            }
            Kind::Refused { refusal: Refusal::Duplicate, .. } => "look at the one that the vendor holds",
            Kind::Refused { refusal: Refusal::KeyReused, .. } | Kind::KeyReused { .. } => {
                "the same effect must be sent as it was first sent; only another effect takes another key"
            }
            Kind::Gate(Gate::KillSwitch) => "an operator has to release the switch",
            Kind::Gate(Gate::Breaker) => "an operator has to set the breaker back to normal",
            Kind::Gate(_) => return Some(format!("{again} in a moment").into()),
            Kind::Deadline { .. } => "give the call more time",
            // A person took it back: there is nothing to redrive.
            Kind::DeadLetter { reason: Reason::Closed, .. } if self.0.effect == Effect::None => {
                "if it is wanted after all, send it under a new key"
            }
            Kind::DeadLetter { reason: Reason::Closed, .. } => {
                "find out at the vendor whether it took effect"
            }
            Kind::DeadLetter { .. } if self.0.effect == Effect::None => "redrive it once the cause is gone",
            Kind::DeadLetter { .. } => "find out at the vendor, then resolve or redrive it",
            Kind::RowRejected { .. } => "an operator mends the row and puts it back, or removes it",
            Kind::Store { doing: ADMIT_ROW } => "the dispatcher tries again",
            Kind::Store { .. } | Kind::Fenced if is_keyed => "send the same key again, never a new one",
            Kind::Store { .. } | Kind::Fenced => return None,
        };
        Some(next.into())
    }
}

/// Step of a dispatcher at which a store can fail: there is no caller who could send a key again.
pub const ADMIT_ROW: &str = "admit a row of the outbox";

fn say_how_it_broke(f: &mut fmt::Formatter<'_>, bytes: u64, how: &Broken) -> fmt::Result {
    match how {
        Broken::Lost => write!(f, "the reply broke off after {bytes} bytes"),
        Broken::Silent(idle) => write!(f, "no more of the reply came in {idle:?}, after {bytes} bytes"),
        Broken::Deadline(budget) => {
            write!(f, "the call's {budget:?} ran out after {bytes} bytes of the reply")
        }
    }
}

fn refusal_in_words(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Rejected => "the vendor refused the request",
        Refusal::Unauthorized => "the vendor refused our credentials",
        Refusal::Duplicate => "the vendor already holds such a resource, and refused another",
        Refusal::KeyReused => "the vendor knows this key with another request, and refused",
    }
}

fn gate_in_words(gate: Gate) -> &'static str {
    match gate {
        Gate::KillSwitch => "our kill switch holds all calls to this vendor",
        Gate::Pause => "the vendor asked for a pause",
        Gate::Breaker => "the circuit is open",
        Gate::Concurrency => "the concurrency limit is reached",
        Gate::Rate => "the rate limit is reached",
        Gate::Budget => "the retry budget is spent",
        Gate::Credentials => "the vendor refuses the account's credentials",
    }
}

fn obstacle_in_words(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Absent => "it is not on record; send that key itself",
        Obstacle::Open { .. } => "it has not ended and may still take effect",
        Obstacle::Succeeded => "it took effect; send that key itself for its reply",
        Obstacle::EffectUnknown => "it may have taken effect; a person has to find out and resolve it first",
        Obstacle::KeyIsFree => "its credentials were refused, which frees it; send that key itself",
        Obstacle::Resolved => {
            "a person has closed it, or another key has taken its place; if that one failed, start that one over"
        }
    }
}

fn reason_in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Exhausted => "no retry is left",
        Reason::Expired => "the vendor's replay window closed before an answer came",
        Reason::Closed => "it was closed before it came to an end",
        Reason::Elsewhere => {
            "it was recorded for another host than this client's base URL, and no secret goes there"
        }
        Reason::Credentials => "the vendor refused our credentials where no caller waited",
        Reason::Unknown => "neither a resend nor a lookup can settle the outcome",
    }
}

/// A time is shown to the second. Rounded down, it would send its reader back too early.
fn to_whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_ceil(1000).saturating_mul(1000))
}

/// `503 Service Unavailable`; the number alone where HTTP has no words for it.
fn status_in_words(status: u16) -> String {
    let words = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    match words {
        Some(words) => format!("{status} {words}"),
        None => status.to_string(),
    }
}

/// Writes one mistake on one line. Several are a line each, with nothing around them: each line can be found, followed
/// as a link and read by itself, in a terminal and in a log.
fn write_lines(f: &mut fmt::Formatter<'_>, mistakes: &[Mistake], more: bool) -> fmt::Result {
    for (index, mistake) in mistakes.iter().enumerate() {
        let end = if index == 0 { "" } else { "\n" };
        write!(f, "{end}{mistake}")?;
    }
    match mistakes.last() {
        Some(last) if more => {
            write!(f, "\n{}: there are more mistakes; mend these and check again", last.file())
        }
        _ => Ok(()),
    }
}
