//! What to do when nobody can tell whether an operation took effect.
//!
//! The honest end is a dead letter: a second charge cannot be taken back. But some e-mails are better sent
//! twice than never, and only the caller knows which.

use serde::{Deserialize, Serialize};

/// What to do with an operation whose outcome is unknown, where the vendor neither replays its key nor can
/// say by a look-up what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnUnknown {
    /// Stop, and leave a dead letter with effect unknown. The default.
    #[default]
    Park,
    /// Send again, and accept that the effect may happen twice.
    Resend,
}
