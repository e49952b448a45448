//! The operator's view and actions: logs, metrics, dead letters, places and seals of stores.

mod letters;
mod place;
#[cfg(feature = "seal")]
mod sealed;
#[cfg(feature = "metrics")]
mod telemetry;
