//! The status that the dispatchers of an account share with each other, and with operators, in the store.

use serde::{Deserialize, Serialize};

/// Status of one dispatcher. A later release may have more fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PeerStatus {
    /// Whether it delivers, or waits for a gate.
    pub delivers: bool,
    pub live_per_second: f64,
    /// Age of its rate's last fall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_ms: Option<u64>,
    /// Whether that was because the vendor asked for less.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub too_much: bool,
    /// Time that is left of the vendor's pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// Number of its operations that came to an end in a second lately.
    pub gone_per_second: f64,
    /// The gates that are closed for it. For operators alone: each process has its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shut: Vec<Shut>,
}

/// A gate that is closed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Shut {
    /// Its name.
    pub gate: String,
    /// Route of the gate; `None` if it is the whole account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Time for which it has been closed, as far as this dispatcher knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Time until it may let something through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}
