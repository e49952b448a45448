//! Who plays the vendors of a schedule: the ones that it was drawn with, or others in their places. Drawn from a stream of
//! its own, so that it does not change what the others draw.

use crate::by_key::VENDORS;
use crate::plan::{Draw, Kind, Schedule};

impl Schedule {
    pub fn with_cast(mut self, draw: &Draw) -> Schedule {
        let preset = Kind::Preset(VENDORS[draw.index(VENDORS.len())].0);
        let drawn = draw.below(9);
        let recast = |kind: Kind| match (drawn, kind) {
            (0, Kind::Intent) => Kind::Created,
            (1 | 2, Kind::Intent | Kind::Product | Kind::Bare) => Kind::Payment,
            (1 | 2, Kind::Declined) => Kind::Unpaid,
            (3, Kind::Intent | Kind::Declined | Kind::Product | Kind::Bare) => Kind::V2,
            (3..=5, Kind::Keyed | Kind::Bare) => preset,
            (4, Kind::Intent) => preset,
            _ => kind,
        };
        for operation in &mut self.operations {
            operation.kind = recast(operation.kind);
        }
        self
    }
}
