//! The facts that tell two states of the search apart, as one number.
//!
//! A field that is left out here makes the search take two states for one, and go on from one of them alone. So the
//! test below holds this file to the record as the crate has it: a new field is named here, or said to be the same in
//! every state.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, Record, State as OnRecord, Takeover, Transition};
use steadfast::transport::SendErrorKind;

use crate::states::host::{Heard, Wake};
use crate::states::shelf::Stored;

pub fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The facts that tell two records of one operation apart, as one number.
pub fn digest_of(record: &Record) -> u64 {
    let (at, word, reconciled) = match &record.state {
        OnRecord::InProgress { lease_until: at } | OnRecord::Scheduled { at } => (Some(*at), 0, false),
        OnRecord::Succeeded { reconciled, .. } => (None, 0, *reconciled),
        OnRecord::Refused { refusal, .. } => (None, 1 + *refusal as u8, false),
        OnRecord::Dead { reason, .. } => (None, 1 + *reason as u8, false),
    };
    digest(&(
        (discriminant(&record.state), at, word, reconciled),
        (record.fence, record.first_fence, record.attempts, record.effect as u8),
        (record.unknown_since, record.lookups, record.resends_left, record.attempt_max),
        (record.vendor_clock_ms, record.claimed_at, record.updated_at, record.keep, record.on_unknown),
        record.resolved.as_ref().map(|resolved| (discriminant(&resolved.resolution), resolved.at)),
        (&record.predecessor, &record.first_scope),
    ))
}

/// The digest of a run that has heard this beside what it heard before.
pub fn digest_on(before: u64, heard: &[Heard]) -> u64 {
    heard.iter().fold(before, |before, heard| match heard {
        Heard::Woken(Wake { now_ms, wall, answer }) => {
            let failed =
                answer.as_ref().and_then(|answer| answer.as_ref().err()).map(discriminant::<SendErrorKind>);
            let answer = answer.as_ref().and_then(|answer| answer.as_ref().ok());
            let answer = answer.map(|answer| (answer.status.as_u16(), &answer.body));
            digest(&(before, now_ms, wall, failed, answer))
        }
        Heard::Store { asked, stored } => digest(&(before, asked, digest_of_stored(stored))),
    })
}

fn digest_of_stored(stored: &Stored) -> u64 {
    match stored {
        Stored::Claimed(Ok(claimed)) => {
            let (record, frees_at) = match claimed {
                Claimed::Fresh(record)
                | Claimed::TakenOver(record)
                | Claimed::Freed(record)
                | Claimed::Settled(record) => (Some(digest_of(record)), None),
                Claimed::Busy { frees_at } => (None, Some(*frees_at)),
                Claimed::Mismatch { .. } | Claimed::InTheWay { .. } => (None, None),
            };
            digest(&(1, discriminant(claimed), record, frees_at))
        }
        Stored::Claimed(Err(trouble)) => digest(&(2, trouble)),
        Stored::Moved(Ok(Ok(record))) => digest(&(3, digest_of(record))),
        Stored::Moved(Ok(Err(declined))) => digest(&(4, discriminant(declined))),
        Stored::Moved(Err(trouble)) => digest(&(5, trouble)),
        Stored::Taken(records) => digest(&(6, records.iter().map(digest_of).collect::<Vec<_>>())),
        Stored::Got(record) => digest(&(7, record.as_ref().map(digest_of))),
        Stored::Believed(believed) => digest(&(8, believed)),
    }
}

/// A question that a host asked of the store. It asks the same again when it is run again.
pub trait Question {
    fn digest(&self) -> u64;
}

impl Question for Claim {
    fn digest(&self) -> u64 {
        let Claim { fingerprint, now, lease, keep, attempt_max, vendor_clock_ms, .. } = self;
        digest(&(1, fingerprint, now, lease, keep, attempt_max, vendor_clock_ms))
    }
}

impl Question for Transition {
    fn digest(&self) -> u64 {
        let Transition { fence, now, attempts, effect, unknown_since, lookups, resends_left, to, .. } = self;
        let to = discriminant(to);
        digest(&(2, fence, now, attempts, *effect as u8, unknown_since, lookups, resends_left, to))
    }
}

impl Question for Takeover {
    fn digest(&self) -> u64 {
        let Takeover { phase, account, now, lease, attempt_max, vendor_clock_ms, holder: _, limit, wanted } =
            self;
        let wanted = format!("{wanted:?}");
        digest(&(3, *phase as u8, account, now, lease, attempt_max, vendor_clock_ms, (limit, wanted)))
    }
}

/// A look at the record.
pub struct Get;

impl Question for Get {
    fn digest(&self) -> u64 {
        4
    }
}

/// Which time the store believes, for a clock that says this.
pub struct Believed(pub Timestamp);

impl Question for Believed {
    fn digest(&self) -> u64 {
        digest(&(5, self.0))
    }
}

#[cfg(test)]
mod tests {
    use stateright::Model as _;
    use steadfast::Effect;
    use steadfast::operation::{Key, Scope};

    use super::*;
    use crate::states::LEFT;
    use crate::states::model::Search;
    use crate::states::steps::Action;
    use crate::states::vendor::{Kind, wall};

    type Change = (&'static str, fn(&mut Record));

    const CHANGES: [Change; 17] = [
        ("state", |record| record.state = OnRecord::Scheduled { at: wall(1, 0) }),
        ("fence", |record| record.fence += 1),
        ("first_fence", |record| record.first_fence += 1),
        ("attempts", |record| record.attempts += 1),
        ("effect", |record| record.effect = Effect::Unknown),
        ("unknown_since", |record| record.unknown_since = Some(wall(1, 0))),
        ("lookups", |record| record.lookups += 1),
        ("resends_left", |record| record.resends_left += 1),
        ("attempt_max", |record| record.attempt_max *= 2),
        ("vendor_clock_ms", |record| record.vendor_clock_ms = Some(1)),
        ("claimed_at", |record| record.claimed_at = wall(1, 0)),
        ("updated_at", |record| record.updated_at = wall(1, 0)),
        ("keep", |record| record.keep *= 2),
        ("on_unknown", |record| record.on_unknown = steadfast::OnUnknown::Resend),
        ("resolved", |record| {
            record.resolved = Some(steadfast::operation::record::Resolved {
                resolution: steadfast::operation::record::Resolution::NotApplied,
                by: "ada".to_owned(),
                why: "looked into it".to_owned(),
                at: wall(1, 0),
            });
        }),
        ("predecessor", |record| record.predecessor = Key::new("order-41").ok()),
        ("first_scope", |record| {
            record.first_scope = Some(Scope::new("old", "keyed", "", &http::Method::POST, "/v1/things"));
        }),
    ];

    /// One operation, one request, one client: nobody edits, adopts or redacts in the search.
    // An operation in a sequence is enqueued, which the search does not do.
    // All hosts of the search are one process.
    const SAME_IN_EVERY_STATE: [&str; 7] =
        ["id", "fingerprint", "wire_key", "request", "redact", "sequence", "holder"];

    #[test]
    fn every_field_of_a_record_that_differs_between_states_is_in_its_digest() {
        let search = Search::new(Kind::Replays, false, LEFT, 1, vec![[0, 0]]);
        let first = search.init_states().remove(0);
        let called = search.next_state(&first, Action::Call(0, None)).expect("a call writes");
        let record = called.record.expect("a claim is on record");
        for (field, change) in CHANGES {
            let mut changed = Record::clone(&record);
            change(&mut changed);
            assert_ne!(digest_of(&changed), digest_of(&record), "{field}");
        }
        let source = include_str!("../../../crates/steadfast-core/src/operation/record.rs");
        let body = source.split_once("pub struct Record {").expect("the record").1;
        let body = body.split_once("\n}").expect("its end").0;
        let fields = body.lines().filter_map(|line| line.strip_prefix("    pub ")?.split(':').next());
        let known: Vec<&str> = CHANGES.iter().map(|(field, _)| *field).chain(SAME_IN_EVERY_STATE).collect();
        let unknown: Vec<&str> = fields.filter(|field| !known.contains(field)).collect();
        assert!(unknown.is_empty(), "the search does not know of {unknown:?}");
    }
}
