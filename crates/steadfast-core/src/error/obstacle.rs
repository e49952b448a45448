//! Why an operation cannot be started over.

use crate::clock::Timestamp;

/// Why an operation cannot be started over under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing is on record of it: it was never recorded, or its record has expired. Its own key may be sent.
    Absent,
    /// It is in progress or scheduled, or it is carried on under another account's name.
    Open {
        /// The end of the lease, or when the next attempt is due; `None` if that is on another record.
        until: Option<Timestamp>,
    },
    /// It took effect.
    Succeeded,
    /// It may have taken effect: a person has to find out first.
    EffectUnknown,
    /// Its credentials were refused, which frees its own key.
    KeyIsFree,
    /// A person said something else of it than that it was not applied, or another key has taken its place. Then it may
    /// have taken effect under that one.
    Resolved,
}
