//! Who plays the vendors of a schedule: the ones that it was drawn with, or others in their places. Drawn from a stream of
//! its own, so that it does not change what the others draw.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::allowed::DAY;
use crate::by_key::VENDORS;
use crate::draw::{Draw, ms, secs};
use crate::plan::{Operation, Schedule, Trouble};
use crate::vendors::Kind;

impl Schedule {
    /// How long after the schedule all keys are forgotten.
    pub fn forgotten_after(&self) -> Duration {
        let windows = self.operations.iter().filter_map(|operation| operation.kind.vendor().window());
        windows.max().unwrap_or_default().max(DAY) + secs(3600)
    }

    /// All operations of a kind get the same other kind, so that a sequence stays with one vendor.
    pub fn with_cast(mut self, draw: &Draw) -> Schedule {
        let has = |kind: Kind| self.operations.iter().any(|operation| operation.kind == kind);
        let has_pair = has(Kind::OtherIntent);
        let in_line = self.operations.iter().any(|operation| operation.line.is_some());
        let preset = Kind::Preset(VENDORS[draw.index(VENDORS.len())].0);
        let drawn = draw.below(12);
        // Whoever dispatches a backlog is measured by what it takes.
        if self.is_backlog || self.dispatcher {
            return self;
        }
        let recast = |kind: Kind| match (drawn, kind) {
            (0..=3, Kind::Intent) if !has_pair => Kind::Created,
            (4 | 5, Kind::Intent) => Kind::Payment,
            (4 | 5, Kind::OtherIntent) => Kind::LivePayment,
            (4 | 5, Kind::Declined) => Kind::Unpaid,
            (4 | 5, Kind::Product) => Kind::Cancellation,
            (6 | 7, Kind::Intent | Kind::Declined | Kind::Product) if !has_pair => Kind::V2,
            (6..=9, Kind::Keyed) => preset,
            (6..=9, Kind::Bare) if !in_line => preset,
            _ => kind,
        };
        for operation in &mut self.operations {
            operation.kind = recast(operation.kind);
        }
        let has_key =
            |operation: &Operation| matches!(operation.kind, Kind::V2 | Kind::Preset(_) | Kind::Created);
        if self.operations.iter().any(has_key) && draw.one_in(2) {
            // A no of today's beside a request that is still on its way.
            self.weather.troubles = vec![Trouble::Late, Trouble::KeyInUse, Trouble::Late];
            self.weather.percent = 90;
            for caller in self.operations.iter_mut().flat_map(|operation| &mut operation.callers) {
                caller.deadline = Some(draw.within(ms(300)..secs(9)));
                caller.persists = true;
            }
        }
        self
    }
}

/// How many of these schedules call each vendor.
pub fn tally(seeds: Range<u64>) -> BTreeMap<String, u32> {
    let mut tally = BTreeMap::new();
    for seed in seeds {
        let operations = Schedule::of(seed).operations;
        let kinds: BTreeSet<String> =
            operations.iter().map(|operation| format!("{:?}", operation.kind)).collect();
        for kind in kinds {
            *tally.entry(kind).or_default() += 1;
        }
    }
    tally
}
