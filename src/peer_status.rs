//! What the dispatchers of an account tell each other, and operators, in the store.

use serde::{Deserialize, Serialize};

/// What one dispatcher tells the others. A later release may say more.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PeerStatus {
    /// Whether it delivers, or waits for a gate.
    pub delivers: bool,
    pub live_per_second: f64,
    /// How long ago its rate last fell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_ms: Option<u64>,
    /// Whether that was because the vendor asked for less.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub too_much: bool,
    /// How much longer the vendor asked to be left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// How many of its operations came to an end in a second lately.
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
    /// For which route, if not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// How long it has been, as far as this dispatcher knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// In how long it may let something through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}
