//! Guards taken out one at a time: the search must miss each, or it would not miss it in the crate either. With the
//! guard in, it finds nothing within the same bounds.
//!
//! Each is a rule of the state machine, the store or the vendor's side, bent where the search hands it over. The engine
//! has no switches for this: what is taken out of it by hand shows in the search by itself, which runs the engine as it is.

use std::time::Duration;

use crate::audit::Breach;
use crate::bounds::{Bounds, left};
use crate::shelf::Guard;
use crate::vendor::Kind;

#[test]
fn an_effect_that_is_not_unknown_after_a_lapse_is_missed() {
    Bounds::new(Kind::Neither, left(1, 0, 1), 5)
        .break_only(Breach::SecondEffect, |search| search.without = Some(Guard::UnknownAfterLapse));
}

/// Who was refused and then stood still says so, while another sends.
#[test]
fn a_write_under_a_fence_that_has_moved_is_missed() {
    Bounds::new(Kind::LooksUp, left(1, 0, 2), 8)
        .break_only(Breach::NoneTold, |search| search.without = Some(Guard::Fence));
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

#[test]
fn an_index_that_lags_beyond_the_settle_time_is_missed() {
    Bounds::new(Kind::LooksUp, left(1, 0, 1), 7)
        .break_only(Breach::SecondEffect, |search| search.rules.lag = Duration::from_secs(40));
}

#[test]
fn a_request_that_arrives_after_the_settle_time_is_missed() {
    Bounds::new(Kind::LooksUp, left(1, 0, 1), 7)
        .break_only(Breach::SecondEffect, |search| search.rules.late = Duration::from_secs(120));
}
