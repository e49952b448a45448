//! Clocks that differ, words that are out of date because of them, and a vendor's wish that came during a write.

use std::time::Duration;

use steadfast::{Disposition, Effect};

use support::acme::Acme;
use support::apart::{Apart, order_recovered_by_another, order_recovered_on_a_server};
use support::meanwhile::{ASKED, Wrote, asked_meanwhile, told_late};
use support::rig::{plain, secs};

/// Finding D5.
#[tokio::test]
async fn a_recoverer_whose_clock_is_off_waits_the_settle_time_out() {
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

/// The wait of the recoverer is the settle time, and never longer because of a clock.
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

const HOUR: i64 = 3_600;

/// D5: Seeds 1687157 and 1453973: of three clocks one was minutes off from its start, and one was hours ahead. The store
/// believed the nearer of the two that it doubted. By that clock the settle time of another host's send was over at once.
#[tokio::test]
async fn a_clock_that_is_minutes_off_is_no_less_doubted_because_another_is_hours_ahead() {
    let apart = Apart::default();
    for apart in [
        Apart { recoverer: 445, third: Some(43 * HOUR), ..apart },
        Apart { recoverer: 1_200, third: Some(2 * HOUR), ..apart },
        Apart { recoverer: 26 * HOUR, third: Some(72 * HOUR), ..apart },
        Apart { recoverer: -641, recoverer_set_by: 21 * HOUR, third: Some(0), ..apart },
        Apart { recoverer: -641, recoverer_set_by: 21 * HOUR, third: Some(400), ..apart },
        Apart { caller: -641, recoverer: 0, third: Some(43 * HOUR), ..apart },
        // Each is within five minutes of the next.
        Apart { recoverer: 580, third: Some(290), ..apart },
        Apart { recoverer: 290, third: Some(580), ..apart },
        Apart { caller: -290, recoverer: 0, third: Some(290), ..apart },
    ] {
        let came = order_recovered_by_another(apart).await;
        assert_eq!((came.orders, came.found), (1, true), "{apart:?}");
    }
}

/// D7: Seed 1323005: a host with an old secret wrote the refusal down and stood still for 48 s. By then another had sent the
/// operation, and the caller was told that it had no effect. A dead letter that was redriven meanwhile is the same.
#[tokio::test]
async fn none_is_not_said_of_what_ended_and_somebody_else_may_have_sent_since() {
    for (what, next) in [(Wrote::Refusal, Disposition::Ended), (Wrote::Burial, Disposition::AwaitsOperator)] {
        for (stands_still, is_sent, effect) in [
            (secs(48), true, Effect::Unknown),
            (secs(48), false, Effect::None),
            (Duration::ZERO, false, Effect::None),
        ] {
            let told = told_late((Acme::new(), plain()), what, stands_still, is_sent).await;
            assert_eq!(
                (told.is_refused(), told.is_dead_letter()),
                (what == Wrote::Refusal, what == Wrote::Burial)
            );
            assert_eq!((told.effect(), told.disposition()), (effect, next), "{told}");
        }
    }
}

/// A10: Seed 1009589: the gates let a send through, and its lease was renewed. Meanwhile another call of the process was told
/// to leave the vendor alone. Behind a claim it is the same.
#[tokio::test]
async fn a_wish_that_comes_while_a_call_writes_holds_its_send_back() {
    for (what, sent_before) in [(Wrote::Claim, 0), (Wrote::Renewal, 1)] {
        let (asked_at, sent) = asked_meanwhile((Acme::new(), plain()), what).await;
        assert_eq!(sent.len(), 2, "{what:?}: {sent:?}");
        assert_eq!(sent.iter().filter(|at| **at < asked_at).count(), sent_before, "{what:?}: {sent:?}");
        let next = sent[sent_before].since(asked_at);
        assert!((ASKED..ASKED + secs(2)).contains(&next), "{what:?}: {next:?} after it asked");
    }
}
