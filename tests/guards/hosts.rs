//! Hosts whose clocks differ.

use crate::apart::{Apart, order_recovered_by_another};
use crate::wait;

fn is_found_once(apart: Apart) -> bool {
    let came = wait(order_recovered_by_another(apart));
    (came.orders, came.found) == (1, true)
}

pub fn a_host_four_minutes_ahead_does_not_look_too_early() -> bool {
    is_found_once(Apart { recoverer: 240, ..Apart::default() })
}

pub fn a_host_three_days_ahead_does_not_look_too_early() -> bool {
    is_found_once(Apart { recoverer: 3 * 86_400, ..Apart::default() })
}

pub fn a_host_minutes_ahead_is_doubted_beside_one_that_is_days_ahead() -> bool {
    is_found_once(Apart { recoverer: 1_200, third: Some(2 * 86_400), ..Apart::default() })
}

pub fn a_clock_that_is_set_back_in_a_call_ends_no_settle_time() -> bool {
    is_found_once(Apart { set_by: -3_600, ..Apart::default() })
}

/// Its clock is doubted for an hour, and it lets go of the operation in between.
pub fn whoever_takes_it_again_finds_it_within_minutes() -> bool {
    is_found_once(Apart { recoverer: 3 * 86_400, ..Apart::default() })
}
