//! The filter that several commands share.

use std::time::Duration;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser as Text, PossibleValuesParser, TypedValueParser};

use steadfast::clock::Timestamp;
use steadfast::operation::Scope;
use steadfast::operation::record::{Filter, Phase};
use steadfast::{Effect, Reason};

/// Options that narrow down both dead letters and waiting operations.
#[derive(Args, Clone, Debug)]
pub(crate) struct CommonFilter {
    /// Of this vendor, such as `stripe`, or `prod/stripe` where several namespaces share the store
    #[arg(long, value_parser = Text::new())]
    vendor: Option<String>,
    /// Of this account, such as `prod/stripe/live`
    #[arg(long, value_name = "ACCOUNT_PATH", value_parser = Text::new())]
    account: Option<String>,
    /// In this scope, such as `prod/stripe/live/POST /v1/refunds`
    #[arg(long, value_parser = Text::new())]
    scope: Option<String>,
    /// Whose key begins with this text
    #[arg(long, value_name = "TEXT", value_parser = Text::new())]
    key_prefix: Option<String>,
    /// In the sequence of this name, such as customer-7
    #[arg(long, value_name = "NAME", value_parser = Text::new())]
    sequence: Option<String>,
    /// Last changed at least so long ago, such as 30m or 2days
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Last changed before this time, in milliseconds since 1970: the time that a dry run printed as frozen
    #[arg(long, value_name = "MILLISECONDS")]
    before: Option<u64>,
}

impl CommonFilter {
    /// Returns the filter. Ages are relative to `now`, the time in the store, or to the frozen time: operations
    /// that have become old since are not matched.
    pub(crate) fn filter(&self, now: Timestamp) -> Filter {
        let now = self.counts_from(now);
        let filter = Filter {
            vendor: self.vendor.clone(),
            account: self.account.clone(),
            scope: self.scope.clone().map(Scope::from_stored),
            key_prefix: self.key_prefix.clone(),
            sequence: self.sequence.clone(),
            updated_before: self.before.map(Timestamp::from_millis),
            ..Filter::default()
        };
        match self.older_than {
            Some(age) => filter.older_than(age, now),
            None => filter,
        }
    }

    pub(crate) fn vendor(&self) -> Option<&str> {
        self.vendor.as_deref()
    }

    /// Returns the time that ages and due times are relative to.
    pub(crate) fn counts_from(&self, now: Timestamp) -> Timestamp {
        self.before.map_or(now, Timestamp::from_millis)
    }

    /// Returns true if the filter is one that a dry run has frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        self.before.is_some()
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Select {
    #[command(flatten, next_help_heading = HEADING)]
    common: CommonFilter,
    /// With this wire key, as `show` prints it
    #[arg(long, value_name = "WIRE_KEY", value_parser = Text::new(), help_heading = HEADING)]
    wire_key: Option<String>,
    /// Dead for this reason
    #[arg(long, value_parser = names(&REASONS).map(|name| named(&REASONS, &name)), help_heading = HEADING)]
    reason: Option<Reason>,
    /// Of this effect
    #[arg(long, value_parser = names(&EFFECTS).map(|name| named(&EFFECTS, &name)), help_heading = HEADING)]
    effect: Option<Effect>,
    /// Whose last answer had this HTTP status
    #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999), help_heading = HEADING)]
    status: Option<u16>,
    /// Whose error had this code, such as UNKNOWN.effect
    #[arg(long, value_parser = Text::new(), help_heading = HEADING)]
    code: Option<String>,
    /// Last changed less than so long ago
    #[arg(long, value_name = "AGE", value_parser = age, help_heading = HEADING)]
    younger_than: Option<Duration>,
    /// Also resolved ones
    #[arg(long, help_heading = HEADING)]
    resolved_too: bool,
}

impl Select {
    /// Returns the filter. Ages are relative to `now`, the time in the store.
    pub(crate) fn filter(&self, now: Timestamp) -> Filter {
        let mut filter = Filter {
            wire_key: self.wire_key.clone(),
            reason: self.reason,
            effect: self.effect,
            status: self.status,
            code: self.code.clone(),
            ..self.common.filter(now)
        };
        if self.resolved_too {
            filter.phases = vec![Phase::Dead, Phase::Resolved];
        }
        if let Some(age) = self.younger_than {
            filter = filter.younger_than(age, self.common.counts_from(now));
        }
        filter
    }

    pub(crate) fn vendor(&self) -> Option<&str> {
        self.common.vendor()
    }

    /// Returns true if the filter is one that a dry run has frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        self.common.is_frozen()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filter(Timestamp::default()) == Filter::default()
    }
}

fn names<T>(all: &[(&'static str, T)]) -> PossibleValuesParser {
    PossibleValuesParser::new(all.iter().map(|(name, _)| *name))
}

/// Returns the value of a name; the parser has checked it.
fn named<T: Copy>(all: &[(&str, T)], name: &str) -> T {
    all.iter().find(|(known, _)| *known == name).unwrap_or(&all[0]).1
}

pub(crate) fn age(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text)
        .map_err(|error| format!("{error}; an age has a unit, such as 90s, 30m, 12h or 2days"))
}

const HEADING: &str = "Which dead letters (all parts must match)";

const REASONS: [(&str, Reason); 6] = [
    (Reason::Exhausted.name(), Reason::Exhausted),
    (Reason::Expired.name(), Reason::Expired),
    (Reason::Unknown.name(), Reason::Unknown),
    (Reason::Closed.name(), Reason::Closed),
    (Reason::Elsewhere.name(), Reason::Elsewhere),
    (Reason::Credentials.name(), Reason::Credentials),
];

const EFFECTS: [(&str, Effect); 3] =
    [("none", Effect::None), ("unknown", Effect::Unknown), ("applied", Effect::Applied)];
