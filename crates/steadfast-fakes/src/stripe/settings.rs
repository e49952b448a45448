//! The behaviour that the fake can be told to change. A builder's method and its field have one name, and so has the
//! plan file of `steadfast fakes`.

use std::time::Duration;

use serde::Deserialize;

use super::super::builder::Written;
use super::ConflictType;

/// Each is told of at the builder's method of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in super::super) struct StripeSettings {
    /// The `type` of a 409.
    pub(in super::super) conflict_type: ConflictType,
    /// How long a key is in use.
    #[serde(with = "humantime_serde")]
    pub(in super::super) busy_for: Duration,
    /// Whether two orders of one form are the same parameters.
    pub(in super::super) ignore_form_order: bool,
    /// Whether another version is another request.
    pub(in super::super) compare_versions: bool,
}

impl Written for StripeSettings {}
