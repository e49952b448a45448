//! The behaviour that the fake can be told to change. A builder's method and its field have one name, and so has the
//! plan file of `steadfast fakes`.

use std::time::Duration;

use serde::Deserialize;

use super::super::builder::Written;
use super::SecondFilter;

/// Each is told of at the builder's method of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in super::super) struct PostmarkSettings {
    /// How long a message stays out of the search.
    #[serde(with = "humantime_serde")]
    pub(in super::super) search_lag: Duration,
    /// The answer that a second `metadata_` filter meets.
    pub(in super::super) second_filter: SecondFilter,
    /// Whether a message may keep its `Message-ID`.
    pub(in super::super) keep_message_ids: bool,
    /// The only valid server token.
    pub(in super::super) token: Option<String>,
    /// The only valid account token.
    pub(in super::super) account_token: Option<String>,
    /// Whether the owner of an address confirms it at once.
    pub(in super::super) confirm_senders: bool,
    /// Whether the DNS of every domain has its records.
    pub(in super::super) dns_records_published: bool,
    /// Whether servers may be deleted.
    pub(in super::super) delete_servers: bool,
}

impl Written for PostmarkSettings {}
