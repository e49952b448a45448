//! Clocks that differ.

use std::time::Duration;

use support::apart::{Apart, order_recovered_by_another, order_recovered_on_a_server};

#[tokio::test]
async fn d5_a_recoverer_whose_clock_is_off_waits_the_settle_time_out() {
    for (caller, recoverer, set_by) in [
        (0, 0, 0),
        (0, 20, 0),
        (0, 240, 0),
        (0, 3_600, 0),
        (0, 3 * 86_400, 0),
        (0, -30, 0),
        (-3_600, 0, 0),
        (-3 * 86_400, 0, 0),
        (3_600, 0, 0),
        (3 * 86_400, 0, 0),
        (3_600, -3_600, 0),
        (0, 0, 61),
        (0, 0, -61),
        (0, 0, -3_600),
        (0, 0, 3_600),
        (0, 240, -3 * 86_400),
        (0, 240, 3 * 86_400),
    ] {
        let apart = Apart { caller, recoverer, set_by, ..Apart::default() };
        let came = order_recovered_by_another(apart).await;
        assert_eq!((came.orders, came.found), (1, true), "{apart:?}");
    }
}

/// What the recoverer waits is the settle time, and never longer because of a clock.
#[tokio::test]
async fn on_a_server_with_a_clock_of_its_own_no_hosts_clock_makes_a_difference() {
    let right = order_recovered_on_a_server(Apart::default(), 0).await;
    assert_eq!((right.orders, right.found), (1, true));
    assert!(right.after < Duration::from_secs(120), "{right:?}");
    for (caller, recoverer, set_by) in [
        (0, 20, 0),
        (0, 3_600, 0),
        (0, -3_600, 0),
        (-3 * 86_400, 3 * 86_400, 0),
        (3 * 86_400, 0, -3 * 86_400),
        (0, 0, 3_600),
        (300, -300, 61),
    ] {
        for server in [0, -86_400, 600] {
            let apart = Apart { caller, recoverer, set_by, ..Apart::default() };
            assert_eq!(order_recovered_on_a_server(apart, server).await, right, "{apart:?} {server}");
        }
    }
}

/// Its own clocks may have stood still: a server's time tells it.
#[tokio::test]
async fn a_host_that_slept_before_its_second_attempt_charges_once() {
    assert_eq!(support::meanwhile::charges_over_a_sleep().await, 1);
}
