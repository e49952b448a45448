//! Guards taken out one at a time: the search must miss each, or it would not miss it in the crate either.
//!
//! Each is a rule of the state machine, the store or the vendor's side, bent where the search hands it over. The engine
//! has no switches for this: what is taken out of it by hand shows in the search by itself, which runs the engine as it is.

use std::time::Duration;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::audit::{BREACHES, Breach};
use crate::model::Search;
use crate::shelf::Guard;
use crate::state::Left;
use crate::story;
use crate::vendor::Kind;

/// The first promise that breaks, with right clocks, where `bend` has taken something out.
fn missed(kind: Kind, left: Left, depth: usize, bend: impl FnOnce(&mut Search)) -> (Breach, String) {
    let mut search = Search::new(kind, false, left, depth, vec![[0, 0]]);
    search.sets_clocks = false;
    bend(&mut search);
    let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).threads(1).spawn_bfs().join();
    let found = BREACHES.into_iter().find_map(|breach| Some((breach, checker.discovery(breach.name())?)));
    let (breach, path) =
        found.unwrap_or_else(|| panic!("not missed in {} states", checker.unique_state_count()));
    (breach, story::of(path))
}

const fn left(calls: u8, operators: u8, faults: u8) -> Left {
    Left { calls, operators, faults }
}

#[test]
fn an_effect_that_is_not_unknown_after_a_lapse_is_missed() {
    let (breach, story) =
        missed(Kind::Neither, left(1, 0, 1), 6, |search| search.without = Some(Guard::UnknownAfterLapse));
    assert_eq!(breach, Breach::SecondEffect, "{story}");
}

/// Who was refused and then stood still says so, while another sends.
#[test]
fn a_write_under_a_fence_that_has_moved_is_missed() {
    let (breach, story) =
        missed(Kind::LooksUp, left(1, 0, 2), 7, |search| search.without = Some(Guard::Fence));
    assert_eq!(breach, Breach::NoneTold, "{story}");
}

#[test]
fn a_fence_that_begins_anew_after_a_purge_is_missed() {
    let (breach, story) =
        missed(Kind::Neither, left(2, 0, 0), 6, |search| search.without = Some(Guard::FenceAfterPurge));
    assert_eq!(breach, Breach::FenceWentBack, "{story}");
}

#[test]
fn a_redrive_by_force_that_sends_more_than_once_is_missed() {
    let (breach, story) =
        missed(Kind::Neither, left(1, 1, 2), 9, |search| search.without = Some(Guard::OneMoreSend));
    assert_eq!(breach, Breach::SecondEffect, "{story}");
}

#[test]
fn a_window_that_is_shorter_than_the_vendor_says_is_missed() {
    let (breach, story) = missed(Kind::Replays, left(1, 0, 1), 6, |search| {
        search.rules.window = Duration::from_secs(10);
    });
    assert_eq!(breach, Breach::SecondEffect, "{story}");
}

#[test]
fn an_index_that_lags_beyond_the_settle_time_is_missed() {
    let (breach, story) = missed(Kind::LooksUp, left(1, 0, 1), 8, |search| {
        search.rules.lag = Duration::from_secs(40);
    });
    assert_ne!(breach, Breach::Stuck, "{story}");
}

#[test]
fn a_request_that_arrives_after_the_settle_time_is_missed() {
    let (breach, story) = missed(Kind::LooksUp, left(1, 0, 1), 8, |search| {
        search.rules.late = Duration::from_secs(120);
    });
    assert_ne!(breach, Breach::Stuck, "{story}");
}

/// A dead holder's request may be on its way for as long as its longest exchange beyond its lease.
#[test]
fn a_settle_time_that_begins_with_the_lapse_is_missed() {
    let (breach, story) = missed(Kind::LooksUp, left(1, 0, 2), 7, |search| {
        search.without = Some(Guard::LongestExchange);
        search.rules.late = Duration::from_secs(65);
        search.rules.lag = Duration::ZERO;
    });
    assert_ne!(breach, Breach::Stuck, "{story}");
}
