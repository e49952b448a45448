//! Reasons for which an operation cannot be started over.

use crate::clock::Timestamp;

/// Reason for which an operation cannot be started over under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// No record of the operation exists: it was never recorded, or its record has expired. Its own key may be sent.
    Absent,
    /// The operation is in progress or scheduled, or is carried on under another account's name.
    Open {
        /// The end of the lease, or when the next attempt is due; `None` if that is on another record.
        until: Option<Timestamp>,
    },
    /// The operation took effect.
    Succeeded,
    /// The operation may have taken effect: a person has to find out first.
    EffectUnknown,
    /// Its credentials were refused, which frees its own key.
    KeyIsFree,
    /// A person resolved the operation as something else than not applied, or another key has taken its place. Then it
    /// may have taken effect under that key.
    Resolved,
}
