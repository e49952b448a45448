//! The promise, as one verdict: what is said of an operation, on record or to a caller, against what its vendor did.
//!
//! Every proof that counts effects judges by it. The knowledge of a proof beside that, such as when an effect took
//! place, and the name that it gives a word that is not so, are its own.

use steadfast::operation::record::{Record, State};
use steadfast::{Effect, Error, Reply};

/// How a word is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untrue {
    /// More effects than one, and than somebody chose to risk.
    SecondEffect,
    /// It is said to have taken effect, and did not.
    NoEffect,
    /// It is said to have had no effect, and has one.
    EffectDenied,
}

/// The fault in a word about an operation of so many effects. `accepted` are second effects that somebody chose to
/// risk. That it is not known is true of none and of one.
pub fn untrue(word: Effect, effects: usize, accepted: usize) -> Option<Untrue> {
    match word {
        _ if effects > 1 + accepted => Some(Untrue::SecondEffect),
        Effect::Applied if effects == 0 => Some(Untrue::NoEffect),
        Effect::None if effects > 0 => Some(Untrue::EffectDenied),
        _ => None,
    }
}

/// The same, where it is for another rule to say how many are too many.
pub fn untrue_but_for_count(word: Effect, effects: usize) -> Option<Untrue> {
    untrue(word, effects, effects)
}

/// The word of a record at rest; `None` if it is still under way.
pub fn recorded(record: &Record) -> Option<Effect> {
    match record.state {
        State::Succeeded { .. } => Some(Effect::Applied),
        State::Refused { .. } => Some(Effect::None),
        State::Dead { .. } => Some(record.effect),
        _ => None,
    }
}

/// The word that a caller was told.
pub fn told(told: &Result<Reply, Error>) -> Effect {
    told.as_ref().map_or_else(|error| error.effect(), |_| Effect::Applied)
}
