//! Starting over: a dead letter that provably had no effect, or an operation that the vendor refused, gives way to an
//! operation under another key.
//!
//! The claim of the new key closes the old letter in the same transaction. Without that, the letter stays open beside
//! the new operation, an operator redrives it, and the effect comes twice. For the same reason the claim is refused
//! as long as anything under the old key may still take effect, or may have.
//!
//! An operation that the vendor refused cannot be redriven. It is noted there all the same which key took its place. A
//! second call that starts it over under yet another key is refused, as it is for a letter.

use super::{Action, AuditEntry, Record, Resolution, Resolved, State};
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Obstacle, Refusal};
use crate::guard::Guard;
use crate::operation::Key;

/// Closes the predecessor that a claim under `successor` names: returns the record and the entry to write, or `None` if
/// there is nothing to close. A store writes both in the transaction of the claim.
///
/// `now` is the claim's time, from which the retention of the closed record counts. `believed` is the store's time
/// ([`Notes::now`](super::Notes::now)), by which the predecessor has expired or not: one clock alone may be days ahead.
///
/// # Errors
///
/// Returns the obstacle to a first claim, reported as [`Claimed::InTheWay`](super::Claimed::InTheWay). If a record with
/// the same key exists, that result takes precedence.
pub fn supersede(
    predecessor: Option<&Record>,
    successor: &Key,
    (now, believed): (Timestamp, Timestamp),
) -> Result<Option<(Record, AuditEntry)>, (Obstacle, Effect)> {
    let Some(old) = predecessor.filter(|record| !record.has_expired(believed)) else {
        return Err((Obstacle::Absent, Effect::None));
    };
    if old.id.key == *successor {
        return Ok(None);
    }
    let refuse = |obstacle, effect| Err((obstacle, effect));
    let had_no_effect = match &old.state {
        State::InProgress { lease_until } => {
            return refuse(Obstacle::Open { until: Some(*lease_until) }, Effect::Unknown);
        }
        State::Scheduled { at } => return refuse(Obstacle::Open { until: Some(*at) }, old.effect),
        State::Succeeded { .. } => return refuse(Obstacle::Succeeded, Effect::Applied),
        State::Refused { .. } if old.effect != Effect::None => {
            return refuse(Obstacle::EffectUnknown, old.effect);
        }
        State::Refused { refusal: Refusal::Unauthorized, .. } => {
            return refuse(Obstacle::KeyIsFree, Effect::None);
        }
        // The wire key follows from the name: what has it at the vendor is of an earlier life of this very operation, of which
        // no record is left.
        State::Refused { refusal: Refusal::KeyReused, .. } => {
            return refuse(Obstacle::EffectUnknown, Effect::Unknown);
        }
        State::Refused { .. } => true,
        State::Dead { .. } => old.effect == Effect::None,
    };
    match old.resolved.as_ref().map(|resolved| &resolved.resolution) {
        Some(Resolution::Superseded { key } | Resolution::Replaced { key }) if key == successor => Ok(None),
        Some(Resolution::NotApplied) => Ok(Some(closed(old, successor, now))),
        Some(Resolution::Cancelled) if had_no_effect || Guard::CancelledUnknown.is_out() => {
            Ok(Some(closed(old, successor, now)))
        }
        // Also if the letter itself had no effect: it may have come under that key.
        Some(Resolution::Superseded { .. } | Resolution::Replaced { .. }) => {
            refuse(Obstacle::Resolved, Effect::Unknown)
        }
        Some(Resolution::Adopted { .. }) => refuse(Obstacle::Open { until: None }, Effect::Unknown),
        // The original may carry it out at any time.
        Some(Resolution::Disowned) => refuse(Obstacle::Resolved, Effect::Unknown),
        Some(Resolution::Applied { .. }) => refuse(Obstacle::Resolved, Effect::Applied),
        Some(_) => refuse(Obstacle::Resolved, old.effect),
        None if had_no_effect => Ok(Guard::StartOverCloses.keeps(Some(closed(old, successor, now)))),
        None => refuse(Obstacle::EffectUnknown, old.effect),
    }
}

/// Returns the predecessor as it is closed, and its audit entry. Its retention begins at `now`: a note that is
/// forgotten before its successor is would be of no use.
fn closed(old: &Record, successor: &Key, now: Timestamp) -> (Record, AuditEntry) {
    let resolution = Resolution::Superseded { key: successor.clone() };
    let (by, why) = (BY_SERVICE.to_owned(), WHY.to_owned());
    let resolved =
        Some(Resolved { resolution: resolution.clone(), by: by.clone(), why: why.clone(), at: now });
    let record = Record { resolved, updated_at: old.ended_at(now), ..old.clone() };
    let (action, before, after) = (Action::Resolve(resolution), old.phase(), record.phase());
    (record, AuditEntry { id: old.id.clone(), action, by, why, at: now, before, after })
}

/// Author, on the audit record, of an act of a service itself: no person.
pub const BY_SERVICE: &str = "the service";

const WHY: &str = "its call named this operation as the one that it starts over";
