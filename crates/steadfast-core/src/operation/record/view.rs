//! The list view of operations: without requests and answers, so a page of a list is always small.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::act::Resolved;
use super::{Place, Record, State};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input, Reason, Refusal};
use crate::guard::Guard;
use crate::operation::record::RecordExt;
use crate::operation::{Key, OperationId, Scope};

/// State of an operation in one word: lists and counts are grouped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// A process holds it.
    InProgress,
    /// The operation waits for its next attempt.
    Scheduled,
    /// The operation took effect once.
    Succeeded,
    /// The vendor refused it.
    Refused,
    /// A dead letter that needs an operator.
    Dead,
    /// A dead letter that is resolved.
    Resolved,
}

impl Phase {
    /// Every phase, in the order of an operation's life.
    pub const ALL: [Phase; 6] =
        [Phase::InProgress, Phase::Scheduled, Phase::Succeeded, Phase::Refused, Phase::Dead, Phase::Resolved];

    /// The phase's name in lists, filters and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::InProgress => "in_progress",
            Phase::Scheduled => "scheduled",
            Phase::Succeeded => "succeeded",
            Phase::Refused => "refused",
            Phase::Dead => "dead",
            Phase::Resolved => "resolved",
        }
    }
}

/// True if what a server has of an operation stays as it is. A server that takes no claims is believed of such a record
/// alone: a standby lags behind, so that neither nothing nor what is open is the last word there.
pub fn is_final(found: Option<&Record>) -> bool {
    let is_settled = found.is_some_and(|record| match &record.state {
        State::Succeeded { .. } => true,
        State::Refused { refusal, .. } => record.effect == Effect::None && *refusal != Refusal::Unauthorized,
        State::InProgress { .. } | State::Scheduled { .. } | State::Dead { .. } => false,
    });
    Guard::StandbyKnowsLess.or(is_settled, true)
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Phase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Phase, Error> {
        let phase = Phase::ALL.into_iter().find(|phase| phase.name() == text);
        let problem = "not a phase; one of in_progress, scheduled, succeeded, refused, dead, resolved";
        phase.ok_or_else(|| Error::invalid(Input::Other("phase"), problem))
    }
}

/// Row of a list of operations.
///
/// ```
#[doc = include_str!("../../docs/setup/dead_letters.md")]
/// use steadfast::Reason;
/// use steadfast::operation::record::Filter;
///
/// let page = letters.list(&Filter::default(), None, 20).await?;
/// let letter = &page.rows[0];
/// assert_eq!(letter.id.key.as_str(), "order-41/receipt");
/// assert_eq!((letter.code, letter.reason), (Some("UNKNOWN.effect"), Some(Reason::Unknown)));
#[doc = include_str!("../../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Its name.
    pub id: OperationId,
    /// The key that the vendor sees.
    pub wire_key: String,
    /// Phase of the operation.
    pub phase: Phase,
    /// Reason of the dead letter; `None` if it is none.
    pub reason: Option<Reason>,
    /// The [`code`](crate::Error::code) of the error that its caller was given, if it is a dead letter that
    /// `DeadLetters` listed or showed. A store gives `None`: the code depends on the
    /// log of attempts, which no list of a store reads.
    pub code: Option<&'static str>,
    /// Its resolution, if it is resolved.
    pub resolved: Option<Resolved>,
    /// Effect of all attempts, as far as it is known.
    pub effect: Effect,
    /// The status of the answer on record, if there is one.
    pub status: Option<u16>,
    /// Steps of the ladder that were made since the operation was recorded or last redriven: see
    /// [`Record::attempts`](super::Record::attempts).
    pub attempts: u32,
    /// Fence that an [`Act`](super::Act) on exactly this state names.
    pub fence: u64,
    /// Time of the first claim, or of a later start over: see [`Record::claimed_at`](super::Record::claimed_at). A
    /// redrive of an operation without effect is such a start.
    pub claimed_at: Timestamp,
    /// The last transition.
    pub updated_at: Timestamp,
    /// End of the lease, time of the next attempt, or expiry of the record; `None` for a dead letter.
    pub until: Option<Timestamp>,
    /// Its place in a sequence, if it is in one. [`Place::behind`] is there only while it waits for its turn.
    pub sequence: Option<Place>,
}

/// The filter of a list: operations that match every part that is given.
///
/// `DeadLetters` take it too. It then selects dead letters, and without phases those
/// that are not resolved.
///
/// ```
#[doc = include_str!("../../docs/setup/dead_letters.md")]
/// use std::time::Duration;
/// use steadfast::Effect;
/// use steadfast::operation::record::{Filter, Phase};
///
/// let hour = Duration::from_secs(3600);
/// let may_have_happened = Filter {
///     vendor: Some("postmark".to_owned()),
///     effect: Some(Effect::Unknown),
///     ..Filter::default()
/// };
/// let of_this_hour = may_have_happened.younger_than(hour, letters.now());
/// assert_eq!(letters.list(&of_this_hour, None, 20).await?.rows.len(), 1);
///
/// // Those that are resolved, too.
/// let all = Filter { phases: vec![Phase::Dead, Phase::Resolved], ..Filter::default() };
/// assert_eq!(letters.list(&all, None, 20).await?.rows.len(), 2);
#[doc = include_str!("../../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// [`Scope::vendor_path`], such as `prod/stripe`. `DeadLetters` also take the name alone, such as `stripe`, if all
    /// their letters of that name are of one namespace.
    pub vendor: Option<String>,
    /// [`Scope::account_path`], such as `prod/stripe/live`; operations of an account that is reached through it match
    /// too.
    pub account: Option<String>,
    /// Scope of the operation.
    pub scope: Option<Scope>,
    /// Key, in any scope.
    pub key: Option<Key>,
    /// Text that the key begins with.
    pub key_prefix: Option<String>,
    /// [`Record::wire_key`] of the operation. No store needs an index for it, which every call would pay for: a list by
    /// it alone may read every record once.
    pub wire_key: Option<String>,
    /// Phases, of which the operation is in one. If it is empty, a store gives those in any, and `DeadLetters` give
    /// those in [`Dead`](Phase::Dead). They also take [`Resolved`](Phase::Resolved), and refuse the others.
    pub phases: Vec<Phase>,
    /// Dead for this reason.
    pub reason: Option<Reason>,
    /// [Code](Summary::code) of the operation. Only `DeadLetters` know it, and they apply this part themselves: a store
    /// refuses it.
    pub code: Option<String>,
    /// Effect of the operation.
    pub effect: Option<Effect>,
    /// HTTP status of the answer on record.
    pub status: Option<u16>,
    /// Last moved at this time or later.
    pub updated_from: Option<Timestamp>,
    /// Last moved before this time. With the time at which an operator began, the filter is frozen: what
    /// moves afterwards no longer matches.
    pub updated_before: Option<Timestamp>,
    /// Scheduled, with no other before it in its sequence, and due before this time. With the time in the store, these
    /// are overdue.
    pub due_before: Option<Timestamp>,
    /// Name of the sequence, of any account.
    pub sequence: Option<String>,
    /// True for dead letters alone that [hold](Record::holds_sequence) their sequence.
    pub holds_sequence: bool,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows of the page, oldest first: at most as many as were asked for.
    pub rows: Vec<T>,
    /// Start of the next page: a text that only the store which gave it can read. `None` if this is the last.
    pub next: Option<String>,
}

/// Count of the operations of one vendor in one phase, and the age of the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The [`Scope::vendor_path`].
    pub vendor: String,
    /// The phase.
    pub phase: Phase,
    /// Number of operations.
    pub count: u64,
    /// The earliest last transition among them.
    pub oldest: Timestamp,
}

impl Summary {
    /// Returns true if the operation was tried and is due later than any wait that is believed, a day: an operator
    /// should look at it. An operation that its caller wanted late (`Call::after`) has not been tried, and is not late.
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.phase == Phase::Scheduled
            && self.attempts > 0
            && self.until.is_some_and(|until| until.since(now) > LATE)
    }
}

/// A day, and the spread of the calls that were asked to wait.
pub const LATE: Duration = Duration::from_secs(24 * 60 * 60 + 60);

impl Record {
    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::InProgress { .. } => Phase::InProgress,
            State::Scheduled { .. } => Phase::Scheduled,
            State::Succeeded { .. } => Phase::Succeeded,
            State::Refused { .. } => Phase::Refused,
            State::Dead { .. } if self.resolved.is_some() => Phase::Resolved,
            State::Dead { .. } => Phase::Dead,
        }
    }

    /// Returns the time at which the state ends by itself: its lease, its schedule or its retention. `None` for an
    /// unresolved dead letter.
    pub fn until(&self) -> Option<Timestamp> {
        match self.state {
            State::InProgress { lease_until: at } | State::Scheduled { at } => Some(at),
            _ => self.expires_at(),
        }
    }

    /// Returns the operation's row in a list.
    pub fn summary(&self) -> Summary {
        let (reason, answer) = match &self.state {
            State::InProgress { .. } | State::Scheduled { .. } => (None, None),
            State::Succeeded { answer, .. } | State::Refused { answer, .. } => (None, Some(answer)),
            State::Dead { reason, answer } => (Some(*reason), answer.as_ref()),
        };
        Summary {
            id: self.id.clone(),
            wire_key: self.wire_key.clone(),
            phase: self.phase(),
            reason,
            code: None,
            resolved: self.resolved.clone(),
            effect: self.effect_known_to_others(),
            status: answer.map(|answer| answer.status.as_u16()),
            attempts: self.attempts,
            fence: self.fence,
            claimed_at: self.claimed_at,
            updated_at: self.updated_at,
            until: self.until(),
            sequence: self.sequence.as_deref().map(|place| Place {
                behind: self.waits_for().map(|ahead| Box::new(ahead.clone())),
                ..place.clone()
            }),
        }
    }
}

impl Summary {
    /// Whether it is a dead letter for which others of its sequence wait.
    pub fn holds_sequence(&self) -> bool {
        let skipped = |place: &Place| place.sequence.skips_dead_letters();
        self.phase == Phase::Dead && self.sequence.as_ref().is_some_and(|place| !skipped(place))
    }
}

impl Filter {
    /// Selects operations that last moved at least `age` ago. `now` is the time in the store: `DeadLetters::now`. It
    /// sets [`updated_before`](Filter::updated_before), unless that is earlier already.
    #[must_use]
    pub fn older_than(mut self, age: Duration, now: Timestamp) -> Filter {
        let bound = after_age(age, now);
        self.updated_before = Some(self.updated_before.map_or(bound, |before| before.min(bound)));
        self
    }

    /// Selects operations that last moved less than `age` ago. It sets [`updated_from`](Filter::updated_from), unless
    /// that is later already.
    #[must_use]
    pub fn younger_than(mut self, age: Duration, now: Timestamp) -> Filter {
        let bound = after_age(age, now);
        self.updated_from = Some(self.updated_from.map_or(bound, |from| from.max(bound)));
        self
    }

    /// Whether the operation is of the list.
    pub fn matches(&self, summary: &Summary) -> bool {
        let Filter {
            vendor,
            account,
            scope,
            key,
            key_prefix,
            wire_key,
            phases,
            reason,
            code,
            effect,
            status,
            updated_from,
            updated_before,
            due_before,
            sequence,
            holds_sequence,
        } = self;
        let is_due = |before: &Timestamp| {
            let waits = summary.sequence.as_ref().is_some_and(|place| place.behind.is_some());
            summary.phase == Phase::Scheduled && !waits && summary.until.is_some_and(|due| due < *before)
        };
        let place = summary.sequence.as_ref();
        let id = &summary.id;
        vendor.as_deref().is_none_or(|vendor| vendor == id.scope.vendor_path())
            && account.as_deref().is_none_or(|account| id.scope.is_reached_by(account))
            && scope.as_ref().is_none_or(|scope| *scope == id.scope)
            && key.as_ref().is_none_or(|key| *key == id.key)
            && key_prefix.as_deref().is_none_or(|prefix| id.key.as_str().starts_with(prefix))
            && wire_key.as_ref().is_none_or(|wire_key| *wire_key == summary.wire_key)
            && (phases.is_empty() || phases.contains(&summary.phase))
            && reason.is_none_or(|reason| Some(reason) == summary.reason)
            && (code.is_none() || code.as_deref() == summary.code)
            && effect.is_none_or(|effect| effect == summary.effect)
            && status.is_none_or(|status| Some(status) == summary.status)
            && updated_from.is_none_or(|from| summary.updated_at >= from)
            && updated_before.is_none_or(|before| summary.updated_at < before)
            && due_before.as_ref().is_none_or(is_due)
            && sequence.as_deref().is_none_or(|name| place.is_some_and(|place| place.sequence.name() == name))
            && (!holds_sequence || summary.holds_sequence())
    }
}

/// The first time at which something is younger than `age`. An age is inclusive in `older_than` and exclusive in
/// `younger_than`; the bounds are the other way round, so add one millisecond.
fn after_age(age: Duration, now: Timestamp) -> Timestamp {
    now.minus(age).plus(Duration::from_millis(1))
}
