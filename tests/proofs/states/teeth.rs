//! Guards taken out one at a time: the search must miss each, or it would not miss it in the crate either. With the
//! guard in, it finds nothing within the same bounds.
//!
//! Each is a rule of the state machine, the store or the vendor's side, bent where the search hands it over. The engine
//! has no switches for this: what is taken out of it by hand shows in the search by itself, which runs the engine as it is.

use std::time::Duration;

use crate::states::audit::Breach;
use crate::states::bounds::{Bounds, UNTIL_SETTLED, left};
use crate::states::model::Search;
use crate::states::shelf::Guard;
use crate::states::steps::{Action, Comes};
use crate::states::vendor::Kind;

#[test]
fn an_effect_that_is_not_unknown_after_a_lapse_is_missed() {
    Bounds::new(Kind::Neither, left(1, 0, 1), 5)
        .break_only(Breach::SecondEffect, |search| search.without = Some(Guard::UnknownAfterLapse));
}

/// Who was refused and then stood still says so, while another sends.
#[test]
fn a_write_under_a_fence_that_has_moved_is_missed() {
    let mut search = Search::new(Kind::LooksUp, false, left(1, 0, 2), 20, vec![[0, 0]]);
    let refused = [Action::Call(0, None), Action::Arrive { flight: 0, refused: true }];
    // A lookup asks twice: also for orders that were archived.
    let answer = Action::Hear(1, Comes::Answer, None);
    let sent_by_another = [answer, answer, Action::Arrive { flight: 1, refused: false }];
    let way = || {
        let looked_up = [Action::Recover(1, None); UNTIL_SETTLED].into_iter().chain(sent_by_another);
        refused.into_iter().chain(looked_up).chain([Action::Hear(0, Comes::Answer, None)])
    };
    assert_eq!(search.walk(way()).breach, None);
    search.without = Some(Guard::Fence);
    assert_eq!(search.walk(way()).breach, Some(Breach::NoneTold));
}

/// A store that was idle until the record expired doubts the time for an hour, so that there are two purges.
#[test]
fn a_fence_that_begins_anew_after_a_purge_is_missed() {
    Bounds::new(Kind::Neither, left(2, 0, 0), 7)
        .break_only(Breach::FenceWentBack, |search| search.without = Some(Guard::FenceAfterPurge));
}

#[test]
fn a_redrive_by_force_that_sends_more_than_once_is_missed() {
    Bounds::new(Kind::Neither, left(1, 1, 0), 9)
        .break_only(Breach::SecondEffect, |search| search.without = Some(Guard::OneMoreSend));
}

#[test]
fn a_window_that_is_shorter_than_the_vendor_says_is_missed() {
    Bounds::new(Kind::Replays, left(1, 0, 1), 5)
        .break_only(Breach::SecondEffect, |search| search.rules.window = Duration::from_secs(10));
}

/// Nothing needs to go wrong: the attempt runs out of time while the vendor executes it. A lookup is two requests.
#[test]
fn an_index_that_lags_beyond_the_settle_time_is_missed() {
    Bounds::new(Kind::LooksUp, left(1, 0, 0), 8)
        .break_only(Breach::SecondEffect, |search| search.rules.lag = Duration::from_secs(40));
}

/// With a fault to spend, the search is shorter and another word is untrue: the second send meets no connection, so that
/// the caller is told of no effect while the first send is still on its way.
#[test]
fn a_request_that_arrives_after_the_settle_time_is_missed() {
    let late = |search: &mut Search| search.rules.late = Duration::from_secs(120);
    Bounds::new(Kind::LooksUp, left(1, 0, 0), 8).break_only(Breach::SecondEffect, late);
    Bounds::new(Kind::LooksUp, left(1, 0, 1), 7).break_only(Breach::NoneTold, late);
}
