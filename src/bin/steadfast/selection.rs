//! The filter that several commands share.

use std::time::Duration;

use clap::Args;
use steadfast::clock::Timestamp;
use steadfast::dead_letter::Selection;
use steadfast::error::{Effect, Reason};
use steadfast::operation::Scope;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Which dead letters (all parts must match)")]
pub(crate) struct Select {
    /// Of this vendor, such as `stripe`, or `prod/stripe` where several namespaces share the store
    #[arg(long)]
    vendor: Option<String>,
    /// In this scope: NAMESPACE/VENDOR/ACCOUNT/METHOD ROUTE
    #[arg(long)]
    scope: Option<String>,
    /// With this wire key, as `show` prints it
    #[arg(long, value_name = "WIRE_KEY")]
    wire_key: Option<String>,
    /// Dead for this reason: exhausted, expired or unknown
    #[arg(long, value_parser = reason)]
    reason: Option<Reason>,
    /// Of this effect: none or unknown
    #[arg(long, value_parser = effect)]
    effect: Option<Effect>,
    /// Whose last answer had this HTTP status
    #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999))]
    status: Option<u16>,
    /// Whose error had this code, such as UNKNOWN.effect
    #[arg(long)]
    code: Option<String>,
    /// That last moved at least so long ago, such as 30m or 2days
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// That last moved less than so long ago
    #[arg(long, value_name = "AGE", value_parser = age)]
    younger_than: Option<Duration>,
    /// That last moved before this time, in milliseconds since 1970: what a dry run printed as frozen
    #[arg(long, value_name = "MILLISECONDS")]
    before: Option<u64>,
    /// Those, too, that have been resolved
    #[arg(long)]
    resolved_too: bool,
}

impl Select {
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            vendor: self.vendor.clone(),
            scope: self.scope.clone().map(Scope::from_stored),
            wire_key: self.wire_key.clone(),
            reason: self.reason,
            effect: self.effect,
            status: self.status,
            code: self.code.clone(),
            older_than: self.older_than,
            younger_than: self.younger_than,
            before: self.before.map(Timestamp::from_millis),
            resolved_too: self.resolved_too,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.selection() == Selection::default()
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    [Reason::Exhausted, Reason::Expired, Reason::Unknown]
        .into_iter()
        .find(|reason| reason.to_string() == text)
        .ok_or_else(|| "it is exhausted, expired or unknown".to_owned())
}

fn effect(text: &str) -> Result<Effect, String> {
    [Effect::None, Effect::Unknown]
        .into_iter()
        .find(|effect| effect.to_string() == text)
        .ok_or_else(|| "it is none or unknown".to_owned())
}

fn age(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text)
        .map_err(|error| format!("{error}; an age has a unit, such as 90s, 30m, 12h or 2days"))
}
