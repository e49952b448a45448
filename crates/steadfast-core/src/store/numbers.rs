//! Numbers in columns: times, fences, states, and places in lists. The same numbers in every database.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::time::Duration;

use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Reason, Refusal};
use crate::operation::OnUnknown;
use crate::operation::record::Phase;

/// Converts to `i64` milliseconds, saturating.
pub fn to_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

pub fn to_fence(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}

pub fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms.max(0) as u64)
}

/// Converts to `i64` milliseconds, saturating.
pub fn duration_ms(duration: Duration) -> i64 {
    to_ms(Timestamp::default().plus(duration))
}

pub fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

pub fn phase_number(phase: Phase) -> i64 {
    place(&Phase::ALL, &phase).map_or(0, |place| place + 1)
}

pub fn phase(number: i64) -> Option<Phase> {
    at(&Phase::ALL, number - 1)
}

pub fn reason_number(reason: Reason) -> Option<i64> {
    place(&REASONS, &reason)
}

pub fn reason(detail: Option<i64>) -> Option<Reason> {
    detail.and_then(|number| at(&REASONS, number))
}

pub fn refusal(detail: Option<i64>) -> Option<Refusal> {
    detail.and_then(|number| at(&REFUSALS, number))
}

pub fn choice_number(choice: OnUnknown) -> i64 {
    place(&CHOICES, &choice).unwrap_or_default()
}

/// Returns the choice of a number; a number that no release wrote is the default.
pub fn choice(number: i64) -> OnUnknown {
    at(&CHOICES, number).unwrap_or_default()
}

pub fn place<T: PartialEq>(all: &[T], one: &T) -> Option<i64> {
    all.iter().position(|other| other == one).and_then(|place| i64::try_from(place).ok())
}

pub fn at<T: Copy>(all: &[T], place: i64) -> Option<T> {
    all.get(usize::try_from(place).ok()?).copied()
}

pub const fn effect_number(effect: Effect) -> i64 {
    match effect {
        Effect::None => 0,
        Effect::Unknown => 1,
        Effect::Applied => 2,
    }
}

/// Returns the effect of a row's number. A number that no release wrote is `Unknown`.
pub fn effect(number: i64) -> Effect {
    match number {
        0 => Effect::None,
        2 => Effect::Applied,
        _ => Effect::Unknown,
    }
}

/// The numbers of a column are places in this list: it only ever grows at its end.
pub const REASONS: [Reason; 6] = [
    Reason::Exhausted,
    Reason::Expired,
    Reason::Unknown,
    Reason::Closed,
    Reason::Elsewhere,
    Reason::Credentials,
];

/// Choices by their numbers; the rule is that of [`REASONS`].
const CHOICES: [OnUnknown; 3] = [OnUnknown::ByMethod, OnUnknown::Resend, OnUnknown::Park];

/// Refusals by their numbers; the rule is that of [`REASONS`].
pub const REFUSALS: [Refusal; 4] =
    [Refusal::Rejected, Refusal::Unauthorized, Refusal::Duplicate, Refusal::KeyReused];
