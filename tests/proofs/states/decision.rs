//! The decision itself, without a runtime: every way through `next_step` that a small world allows.
//!
//! [`world`] has a vendor of each kind, a record that the crate's own functions move, and time; [`steps`] carries a step
//! out in each way that the world can answer it. A crash ends a run, and another one takes the operation over. A step that is
//! not as it should be costs a trouble, of which a way has few: so that the space is finite, and searched to its end.
//! There is no limit of depth, and a way that comes to where it was before is a breach like any other.
//!
//! `STEADFAST_DECISION_TROUBLES=n` allows more troubles on one way.

mod steps;
mod world;

use std::collections::{HashMap, HashSet};

use steadfast_core::internal::guard::Guard;

use crate::states::decision::world::{Begins, KINDS, Kind, World};
use support::cores;
use support::run::{Stopwatch, number, print};

/// As many as a few seconds allow.
const TROUBLES: u8 = 2;

/// Steps of one way, of all runs together. No way is as long.
const ENDS_WITHIN: usize = 200;

#[test]
fn every_way_through_the_decision_keeps_the_promise() {
    let troubles = number("STEADFAST_DECISION_TROUBLES").unwrap_or(TROUBLES.into()) as u8;
    let stopwatch = Stopwatch::start();
    let all: Vec<World> = worlds(troubles).collect();
    let (mut states, mut depth) = (0, 0);
    for (world, (search, story)) in all.iter().zip(cores::on_all(&all, search)) {
        assert!(story.is_none(), "{:?}:\n{}", world.setup, story.unwrap_or_default());
        print(&format!("{:?}: {} states, {} steps deep", world.setup, search.seen.len(), search.deepest));
        (states, depth) = (states + search.seen.len(), depth.max(search.deepest));
    }
    let seconds = 60.0 / stopwatch.a_minute(1);
    print(&format!("{troubles} troubles: {states} states, {depth} steps deep, {seconds:.1} s"));
}

/// Rules of the decision and of the record below it: each is taken out, and with so many troubles the search then finds a
/// breach, at this vendor.
///
/// Four that stand in the decision do not show. Without `PutOffIsNotUsed` an accepted repeat is lost, and nothing is done
/// twice. `FailedLookup` and `LookupKeepsLease` say how often and under which lease it is looked up, which breaks no
/// promise by itself. `LookupInLog` needs four troubles, which take minutes.
const RULES: [(Guard, Kind, Begins, u8); 22] = [
    (Guard::LapsedIsUnknown, Kind::LooksUp, Begins::Claimed, 1),
    (Guard::UnknownIsParked, Kind::Neither, Begins::Claimed, 1),
    (Guard::ResendCounted, Kind::Neither, Begins::Claimed, 1),
    (Guard::SettleTime, Kind::LooksUp, Begins::Claimed, 1),
    (Guard::SettleOnce, Kind::LooksUp, Begins::Enqueued, 1),
    (Guard::RenewBeforeSend, Kind::Replays, Begins::Enqueued, 1),
    (Guard::FreshByBothClocks, Kind::Replays, Begins::Enqueued, 1),
    (Guard::OwnSecret, Kind::Replays, Begins::Enqueued, 1),
    (Guard::CredentialsHold, Kind::Replays, Begins::Enqueued, 1),
    (Guard::RetryPays, Kind::Replays, Begins::Claimed, 1),
    (Guard::TakeoverPays, Kind::Replays, Begins::Claimed, 2),
    (Guard::SpeaksFor, Kind::Replays, Begins::Claimed, 2),
    (Guard::OwnDuplicate, Kind::Replays, Begins::Claimed, 2),
    (Guard::AskedAgain, Kind::Replays, Begins::Claimed, 2),
    (Guard::LookupsOverRuns, Kind::LooksUp, Begins::Claimed, 2),
    (Guard::FreedLongAgo, Kind::Replays, Begins::Enqueued, 2),
    (Guard::NeverEarly, Kind::Replays, Begins::Claimed, 2),
    (Guard::PauseAskedAgain, Kind::Replays, Begins::Claimed, 2),
    (Guard::Fence, Kind::Replays, Begins::Enqueued, 2),
    (Guard::LongestAttempt, Kind::ReplaysAndLooksUp, Begins::Claimed, 2),
    (Guard::MissWithinAnHour, Kind::LooksUp, Begins::Claimed, 3),
    (Guard::WindowSlack, Kind::Replays, Begins::Claimed, 3),
];

#[test]
fn each_rule_that_is_taken_out_shows() {
    let missed = cores::on_all(&RULES, |(guard, kind, begins, troubles)| {
        let is_asked = |world: &World| (world.setup.kind, world.setup.begins) == (*kind, *begins);
        guard.without(|| worlds(*troubles).filter(is_asked).any(|world| search(&world).1.is_some()))
    });
    let unnoticed: Vec<_> = RULES.iter().zip(missed).filter(|(_, missed)| !missed).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

/// Every vendor, with and without a second effect accepted, and each way in which an operation begins.
fn worlds(troubles: u8) -> impl Iterator<Item = World> {
    let begins = [Begins::Claimed, Begins::Enqueued, Begins::Plain];
    let each = KINDS.into_iter().flat_map(move |kind| begins.map(|begins| (kind, begins)));
    let each = each.flat_map(|(kind, begins)| [(kind, begins, false), (kind, begins, true)]);
    let differs = |(kind, _, resends): &(Kind, Begins, bool)| !(*resends && *kind == Kind::Idempotent);
    each.filter(differs).map(move |(kind, begins, resends)| World::new(kind, begins, resends, troubles))
}

/// The states that were seen, and the story of a breach.
fn search(world: &World) -> (Exploration, Option<String>) {
    let mut search = Exploration::default();
    let story = search.explore(world, 0).err().map(|mut story| {
        story.reverse();
        story.join("\n")
    });
    (search, story)
}

#[derive(Default)]
struct Exploration {
    /// Each state, and the most troubles that were left in it.
    seen: HashMap<u64, u8>,
    path: HashSet<(u64, u8)>,
    deepest: usize,
}

impl Exploration {
    /// Goes every way on from here, depth first. The story of a breach is told from its end.
    fn explore(&mut self, world: &World, depth: usize) -> Result<(), Vec<String>> {
        let here = (world.digest(), world.troubles);
        if self.seen.get(&here.0).is_some_and(|left| *left >= here.1) {
            let goes_round = self.path.contains(&here);
            return if goes_round { Err(vec!["it goes round".to_owned()]) } else { Ok(()) };
        }
        if depth > ENDS_WITHIN {
            return Err(vec!["it does not end".to_owned()]);
        }
        self.seen.insert(here.0, here.1);
        world.check().map_err(|breach| vec![breach.to_owned()])?;
        self.path.insert(here);
        self.deepest = self.deepest.max(depth);
        for (way, next) in world.ways() {
            let further = match next {
                Ok(next) => self.explore(&next, depth + 1),
                Err(breach) => Err(vec![breach.to_owned()]),
            };
            further.map_err(|mut story| {
                story.push(format!("{}: {way}", world.doing()));
                story
            })?;
        }
        self.path.remove(&here);
        Ok(())
    }
}
