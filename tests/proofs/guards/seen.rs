//! The breaches that the run of `tests/proofs/world.rs` sees of a guard that is out: hosts, clocks, networks and
//! vendors as they are, seeded.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use steadfast::guard::Guard;

use crate::world::audit::Kind;
use crate::world::course::run;
use support::cores;
use support::run::{Stopwatch, number, print};

/// The breach that shows without the guard, and the first seed known to show it. The search begins there.
const SEEN: [(Guard, Kind, u64); 28] = [
    (Guard::Fence, Kind::SettledByEarlierLife, 3898),
    (Guard::LivesApart, Kind::SettledByEarlierLife, 3898),
    (Guard::LapsedIsUnknown, Kind::SecondEffect, 3),
    (Guard::UnknownIsParked, Kind::SecondEffect, 48),
    (Guard::SettleTime, Kind::SecondEffectAfterBigCommerceLookup, 72),
    (Guard::SettleOnce, Kind::NeverLookedUp, 2),
    (Guard::FailedLookup, Kind::DeadOnFailedLookups, 158),
    (Guard::LookupsOverRuns, Kind::NeverLookedUp, 2),
    (Guard::EffectFromRecord, Kind::NoneToldByGate, 48),
    (Guard::AccountInScope, Kind::SentByOtherAccount, 79),
    (Guard::DeadlineIsNeutral, Kind::CircuitOpenedByCallers, 36),
    (Guard::LiveApart, Kind::StarvedByAnother, 178),
    (Guard::DeclinesAlone, Kind::RefusedThoughApplied, 871),
    (Guard::MarkInWindow, Kind::RefusedThoughApplied, 1440),
    (Guard::OnlyInWindow, Kind::RefusedThoughApplied, 1849),
    (Guard::OwnAnswer, Kind::RefusedThoughApplied, 311),
    (Guard::SequenceOrder, Kind::SequenceOutOfOrder, 3),
    (Guard::DeadLetterHoldsSequence, Kind::SequenceOutOfOrder, 7),
    (Guard::RetryHoldsSequence, Kind::SequenceOutOfOrder, 15),
    (Guard::NotBeforeDue, Kind::TakenBeforeItsTime, 3),
    (Guard::TakenInTurn, Kind::StarvedByAnother, 4),
    (Guard::RouteHasCircuit, Kind::CircuitOpenedByOneOperation, 137),
    (Guard::BelievedTime, Kind::SecondEffectOfALateRow, 128),
    (Guard::RowComparedAsWritten, Kind::SecondEffectOfALateRow, 555),
    (Guard::RowSparesRecord, Kind::SecondEffectOfALateRow, 555),
    (Guard::RowIsToldOf, Kind::NoneToldOfARow, 125),
    (Guard::RowBecameRecord, Kind::NoneToldWithoutTime, 7_943_086),
    (Guard::LastRequestAwaited, Kind::SecondEffectAfterEdit, 7_588_709),
];

/// How many schedules a guard's absence may stay unseen.
const SCHEDULES_MAX: u64 = 600;

/// The schedule shows the breach without the guard, and with it does not.
fn shows(guard: Guard, kind: Kind, seed: u64) -> bool {
    let is_shown = || run(seed, false).breaches.contains_key(&kind);
    guard.without(is_shown) && !is_shown()
}

#[test]
fn the_world_sees_what_is_missing() {
    let unseen = Mutex::new(Vec::new());
    cores::on_all(&SEEN, |&(guard, kind, from)| {
        let stopwatch = Stopwatch::start();
        let seen = (0..SCHEDULES_MAX).find(|after| shows(guard, kind, from + after));
        let Some(after) = seen else {
            return unseen.lock().push(format!("{guard:?}: {kind:?}, from seed {from}"));
        };
        let ms = 60_000.0 / stopwatch.a_minute(1);
        print(&format!("{guard:?} | {kind:?} | seed {} | {} schedules, {ms:.0} ms", from + after, after + 1));
    });
    let unseen = unseen.into_inner();
    assert!(unseen.is_empty(), "{SCHEDULES_MAX} schedules of each show nothing:\n{}", unseen.join("\n"));
}

#[test]
#[ignore = "a search, for a guard that is new or a world that has changed: minutes"]
fn what_the_world_sees() {
    let first = number("STEADFAST_GUARDS_FIRST").unwrap_or(0);
    let seeds = first..first + number("STEADFAST_GUARDS_SEARCH").unwrap_or(SCHEDULES_MAX);
    let only = std::env::var("STEADFAST_GUARDS_ONLY").unwrap_or_default();
    let is_wanted =
        |guard: &&Guard| only.is_empty() || only.split(',').any(|name| name == format!("{guard:?}"));
    let intact: Vec<_> = seeds.map(|seed| (seed, run(seed, false).breaches)).collect();
    for guard in Guard::ALL.iter().filter(is_wanted) {
        let mut seen: BTreeMap<Kind, (u64, u32)> = BTreeMap::new();
        for (seed, with) in &intact {
            let without = guard.without(|| run(*seed, false).breaches);
            for kind in without.into_keys().filter(|kind| !with.contains_key(kind)) {
                seen.entry(kind).or_insert((*seed, 0)).1 += 1;
            }
        }
        print(&format!("{guard:?}: (first seed, schedules) {seen:?}"));
    }
}
