//! The behaviour that the fake can be told to change. A builder's method and its field have one name, and so has the
//! plan file of `steadfast fakes`.

use std::time::Duration;

use serde::Deserialize;

use super::super::builder::Written;

/// Each is told of at the builder's method of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in super::super) struct AdyenSettings {
    /// How long a key is in use.
    #[serde(with = "humantime_serde")]
    pub(in super::super) busy_for: Duration,
    /// Whether a key is refused that comes with another request.
    pub(in super::super) refuse_reused_keys: bool,
    /// Whether a key stays free whose request was invalid.
    pub(in super::super) forget_invalid_requests: bool,
    /// Whether only a request captures a payment.
    pub(in super::super) manual_capture: bool,
    /// Whether a payment may be captured in parts.
    pub(in super::super) multiple_partial_captures: bool,
}

impl Written for AdyenSettings {}
