//! A small search for one question: what breaks first within these bounds, if anything does.

use std::sync::{Arc, Once};

use parking_lot::Mutex;
use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::states::audit::{BREACHES, Breach};
use crate::states::model::Search;
use crate::states::state::Left;
use crate::states::story;
use crate::states::vendor::Kind;

/// How far, and from where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub kind: Kind,
    pub left: Left,
    pub depth: usize,
    /// The time that the hosts' clocks are off by. They are not set on the way.
    pub clocks: [i64; 2],
}

/// A broken promise, whether the clocks were apart, and the way there.
pub struct Broken {
    pub breach: Breach,
    pub clocks_apart: bool,
    pub story: String,
}

impl Bounds {
    pub const fn new(kind: Kind, left: Left, depth: usize) -> Bounds {
        Bounds { kind, left, depth, clocks: [0, 0] }
    }

    pub const fn clocks(self, clocks: [i64; 2]) -> Bounds {
        Bounds { clocks, ..self }
    }

    /// The first broken promise once `bend` has changed something.
    pub fn broken(self, bend: impl FnOnce(&mut Search)) -> Option<Broken> {
        let mut search = Search::new(self.kind, false, self.left, self.depth, vec![self.clocks]);
        search.sets_clocks = false;
        bend(&mut search);
        let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).threads(1).spawn_bfs().join();
        let all = BREACHES.into_iter().flat_map(|breach| [(breach, false), (breach, true)]);
        all.into_iter().find_map(|(breach, clocks_apart)| {
            let path = checker.discovery(breach.name(clocks_apart))?;
            Some(Broken { breach, clocks_apart, story: story::of(path) })
        })
    }

    /// Nothing breaks as it is, and this does once `bend` has changed something.
    #[track_caller]
    pub fn break_only(self, breach: Breach, bend: impl FnOnce(&mut Search)) {
        self.hold();
        let broken = self.broken(bend).unwrap_or_else(|| panic!("{breach:?} is not missed: {self:?}"));
        assert_eq!(broken.breach, breach, "{}", broken.story);
    }

    /// Nothing breaks as it is. Tests with the same bounds search them once.
    #[track_caller]
    pub fn hold(self) {
        static HELD: Mutex<Vec<(Bounds, Arc<Once>)>> = Mutex::new(Vec::new());
        let once = {
            let mut held = HELD.lock();
            let known = held.iter().find(|(bounds, _)| *bounds == self).map(|(_, once)| Arc::clone(once));
            known.unwrap_or_else(|| {
                let once = Arc::new(Once::new());
                held.push((self, Arc::clone(&once)));
                once
            })
        };
        once.call_once(|| self.hold_with(|_| {}));
    }

    #[track_caller]
    pub fn hold_with(self, bend: impl FnOnce(&mut Search)) {
        if let Some(broken) = self.broken(bend) {
            panic!("{:?}: {self:?}\n{}", broken.breach, broken.story);
        }
    }
}

/// How often a host that remembers nothing takes a send of unknown effect until the record alone says that its settle time
/// is over: that lasts eleven minutes, in steps of one, because a store that was idle for longer than five would doubt the
/// host's clock.
pub const UNTIL_SETTLED: usize = 12;

pub const fn left(calls: u8, operators: u8, faults: u8) -> Left {
    Left { calls, operators, faults }
}
