//! The promises, held against the vendor's ledger in every state.

use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::operation::record::CLOCKS_DIFFER_MAX;
use steadfast::{Disposition, Effect};

use crate::states::host::Told;
use crate::states::state::{End, Life, State};
use crate::states::vendor::wall;
use support::promise::{self, Untrue};

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// More effects in one life of the key than one, and than somebody chose to risk.
    SecondEffect,
    /// On record it succeeded, and the vendor has no effect of this life.
    SucceededWithoutEffect,
    /// On record it failed without an effect; the vendor has one, or may yet.
    FailedWithEffect,
    /// A fence that was lower than an earlier one.
    FenceWentBack,
    /// A caller was told that it took effect, and it did not.
    AppliedTold,
    /// A caller was told of no effect, where there was one or one was on its way.
    NoneTold,
    /// A caller was told that it ended without effect; later it had one.
    NonePromised,
    /// A caller was told that it has ended, and it has not.
    EndTold,
    /// An operation that had succeeded on record stands otherwise.
    SuccessTakenBack,
    /// A new life began before the time of the one before was over.
    KeyForgotten,
    /// A caller was told of no effect, by a host that took the time of the one that there was for over.
    NoneToldOfAKeyForgotten,
    /// Nothing that a host does brings it to rest any more.
    Stuck,
}

pub const BREACHES: [Breach; 12] = [
    Breach::SecondEffect,
    Breach::SucceededWithoutEffect,
    Breach::FailedWithEffect,
    Breach::FenceWentBack,
    Breach::AppliedTold,
    Breach::NoneTold,
    Breach::NonePromised,
    Breach::EndTold,
    Breach::SuccessTakenBack,
    Breach::KeyForgotten,
    Breach::NoneToldOfAKeyForgotten,
    Breach::Stuck,
];

impl Breach {
    /// The promise, in a world whose clocks differ by no more than the crate allows for, or by more.
    pub const fn name(self, clocks_apart: bool) -> &'static str {
        macro_rules! names {
            ($($kind:ident: $name:literal,)*) => {
                match (self, clocks_apart) {
                    $((Breach::$kind, false) => $name,
                    (Breach::$kind, true) => concat!($name, ", with clocks apart"),)*
                }
            };
        }
        names! {
            SecondEffect: "one effect in each life",
            SucceededWithoutEffect: "what succeeded has its effect",
            FailedWithEffect: "what failed without effect has none and will have none",
            FenceWentBack: "a fence never goes back",
            AppliedTold: "who is told of an effect has one",
            NoneTold: "who is told of no effect has none",
            NonePromised: "who is told that it ended without effect will have none",
            EndTold: "who is told that it ended is told so rightly",
            SuccessTakenBack: "what has succeeded stays so",
            KeyForgotten: "a key is remembered for as long as it is kept",
            NoneToldOfAKeyForgotten: "nobody is told of no effect of a key that is remembered",
            Stuck: "every operation comes to rest",
        }
    }
}

/// Notes what follows from each change of the record for the lives of the key.
pub fn note_record(state: &mut State, was_empty: bool, resends: bool) {
    let Some(record) = state.record.clone() else { return };
    if record.fence < state.fence_max + u64::from(was_empty) {
        state.breach.get_or_insert(Breach::FenceWentBack);
    }
    state.fence_max = state.fence_max.max(record.fence);
    let (end, now_ms) = (End::of(&record), state.now_ms);
    if let Some(life) = state.life_mut(record.first_fence) {
        if life.end == End::Succeeded && end != End::Succeeded {
            state.breach.get_or_insert(Breach::SuccessTakenBack);
        } else if life.end != end {
            (life.end, life.ended_ms) = (end, now_ms);
        }
        return;
    }
    if is_kept(state, record.keep) {
        state.breach.get_or_insert(Breach::KeyForgotten);
    }
    state.lives.push(Life {
        first_fence: record.first_fence,
        accepted: usize::from(resends),
        end,
        ended_ms: now_ms,
        none_promised: false,
    });
}

/// Whether a success is to be remembered still. A dead letter that a person closed may go: it was looked at.
fn is_kept(state: &State, keep: Duration) -> bool {
    state.lives.last().is_some_and(|life| {
        let over_ms = life.ended_ms + millis(keep.saturating_sub(CLOCKS_DIFFER_MAX));
        life.end == End::Succeeded && state.now_ms < over_ms
    })
}

/// Holds all lives against the ledger.
pub fn audit(state: &State) -> Option<Breach> {
    for life in &state.lives {
        let effects = state.effects(life.first_fence);
        match promise::untrue(life.end.word(), effects, life.accepted) {
            Some(Untrue::SecondEffect) => return Some(Breach::SecondEffect),
            Some(Untrue::NoEffect) => return Some(Breach::SucceededWithoutEffect),
            Some(Untrue::EffectDenied) => return Some(Breach::FailedWithEffect),
            None if life.end == End::FailedNone && may_arrive(state, life.first_fence) => {
                return Some(Breach::FailedWithEffect);
            }
            None => {}
        }
        if life.none_promised && effects > 0 {
            return Some(Breach::NonePromised);
        }
    }
    None
}

/// Whether a request of this life is on its way that would be executed.
fn may_arrive(state: &State, life: u64) -> bool {
    // At a vendor that replays, a request that follows another is answered from its record.
    let answered = state.replays && state.ledger.iter().any(|entry| entry.life == life);
    state.is_under_way(life) && !answered
}

/// Holds what a caller was told against the ledger, at the moment when it is told.
pub fn hear(state: &mut State, host: usize, life: Option<u64>, told: Told) {
    let own = wall(state.now_ms, state.hosts[host].off_ms);
    let record = state.record.as_deref();
    // Who holds nothing is told of what is on record, as far as the host's clock says that it is.
    let forgotten = record.filter(|record| life.is_none() && record.has_expired(own));
    if let Some(forgotten) = forgotten {
        if told.effect == Effect::None && is_kept(state, forgotten.keep) {
            state.breach.get_or_insert(Breach::NoneToldOfAKeyForgotten);
        }
        return;
    }
    let life = life.or_else(|| record.map(|record| record.first_fence));
    let Some(life) = life else { return };
    let effects = state.effects(life);
    let has_ended = told.disposition == Disposition::Ended;
    // Of too many the life's own audit tells.
    let breach = match promise::untrue_but_for_count(told.effect, effects) {
        Some(Untrue::NoEffect) => Some(Breach::AppliedTold),
        Some(Untrue::EffectDenied) => Some(Breach::NoneTold),
        _ if told.effect == Effect::None && may_arrive(state, life) => Some(Breach::NoneTold),
        _ if has_ended && !told.is_reply && told.effect != Effect::Applied && is_open(state, life) => {
            Some(Breach::EndTold)
        }
        _ => None,
    };
    if let Some(breach) = breach {
        state.breach.get_or_insert(breach);
    }
    if told.effect == Effect::None
        && has_ended
        && let Some(life) = state.life_mut(life)
    {
        life.none_promised = true;
    }
}

fn is_open(state: &State, life: u64) -> bool {
    state.is_open() && state.record.as_ref().is_some_and(|record| record.first_fence == life)
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time from one of the store's moments on this host's clock until now, the other way round: when, in true time,
/// a host's clock shows `at`.
pub fn true_ms(at: Timestamp, host_off_ms: i64) -> u64 {
    let zero = wall(0, host_off_ms);
    millis(at.since(zero))
}
