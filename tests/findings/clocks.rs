//! Clocks that differ.

use crate::apart::{Apart, Came, order_recovered_by_another};

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
        assert_eq!(came, Came { orders: 1, found: true }, "{apart:?}");
    }
}
