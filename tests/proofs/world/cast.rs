//! Who plays the vendors of a schedule: the ones that it was drawn with, or others in their places. Drawn from a stream of
//! its own, so that it does not change what the others draw.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::world::allowed::DAY;
use crate::world::extras::Connections;
use crate::world::plan::{Caller, Operation, Operator, Schedule, Trouble};
use crate::world::queue::Queued;
use crate::world::vendors::Kind;
use support::by_key::VENDORS;
use support::draw::{Draw, ms, secs};

impl Schedule {
    /// How long after the schedule all keys are forgotten.
    pub fn forgotten_after(&self) -> Duration {
        let windows = self.operations.iter().filter_map(|operation| operation.kind.vendor().window());
        windows.max().unwrap_or_default().max(DAY) + secs(3600)
    }

    /// Whether it is measured by how soon it is done, at vendors without troubles.
    fn is_timed(&self) -> bool {
        let has_tenants = self.queue.as_ref().is_some_and(|queue| queue.what == Queued::Tenants);
        self.is_backlog || self.dispatcher || has_tenants
    }

    /// All operations of a kind get the same other kind, so that a sequence stays with one vendor.
    pub fn with_cast(mut self, draw: &Draw) -> Schedule {
        let has = |kind: Kind| self.operations.iter().any(|operation| operation.kind == kind);
        let has_pair = has(Kind::OtherIntent);
        let in_line = self.operations.iter().any(|operation| operation.line.is_some());
        let preset = Kind::Preset(VENDORS[draw.index(VENDORS.len())].0);
        let drawn = draw.below(12);
        // A dispatcher of a backlog is measured by what it takes.
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
            (8 | 9, Kind::Order) => Kind::Parcel,
            (10 | 11, Kind::Order) => Kind::Line,
            (6..=9, Kind::Keyed) => preset,
            (6..=9, Kind::Bare) if !in_line => preset,
            _ => kind,
        };
        for operation in &mut self.operations {
            operation.kind = recast(operation.kind);
        }
        let has_key = |operation: &Operation| {
            matches!(
                operation.kind,
                Kind::V2 | Kind::Preset(_) | Kind::Created | Kind::Payment | Kind::LivePayment
            )
        };
        if self.operations.iter().any(has_key) && !self.is_timed() && draw.one_in(2) {
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

    /// A call that a schedule is measured by is not held up on its own side. A rate limit counts starts, and what
    /// waits in a connection leaves later.
    pub fn with_connections(mut self, draw: &Draw) -> Schedule {
        if !self.is_timed() && self.rate.is_none() {
            self.extras.connections = match draw.below(16) {
                0 => Connections::Queue,
                1 => Connections::Swallow,
                _ => Connections::Good,
            };
        }
        self
    }

    /// A thing that is asked for is declined today, also long after the keys are forgotten: a person has it sent again
    /// then.
    pub fn with_declines(mut self, draw: &Draw) -> Schedule {
        use Trouble::{AnswerHangs, AnswerLost, DeclineLost, Declined, Late};
        if self.is_timed() || !draw.one_in(12) {
            return self;
        }
        let keeps = [Duration::ZERO, secs(20), secs(600), DAY * 60][draw.index(4)];
        self.extras.keeps = Some((keeps, draw.one_in(2)));
        self.weather.percent = [60, 90][draw.index(2)];
        let some = |of: [Trouble; 4]| (0..2 + draw.below(3)).map(|_| of[draw.index(4)]).collect();
        if draw.one_in(3) {
            self.weather.troubles = some([AnswerLost, Declined, DeclineLost, Late]);
        } else {
            self.weather.troubles = some([AnswerLost, AnswerLost, AnswerHangs, Late]);
            self.extras.late_troubles = some([Declined, DeclineLost, DeclineLost, AnswerLost]);
            self.extras.late_rounds = 1 + draw.index(3) as u32;
            self.operator = [Operator::Forces, Operator::RedrivesNextDay][draw.index(2)];
        }
        let mut kinds = self.operations.iter().map(|operation| operation.kind);
        let preset = kinds.find(|kind| matches!(kind, Kind::Preset(_)));
        let preset = preset.unwrap_or(Kind::Preset(VENDORS[draw.index(VENDORS.len())].0));
        // Of Stripe's, a route that has no list to look at.
        let callers = vec![Caller::once(draw.within(secs(0)..secs(20)), None)];
        for kind in [Kind::Product, preset, Kind::Product, preset] {
            let (resends, callers) = (draw.one_in(2), callers.clone());
            self.operations.push(Operation { kind, resends, line: None, callers });
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
