//! What a million schedules of `tests/proofs/world.rs` still showed: clocks that are minutes apart, words that are out of date, and
//! a vendor's wish that came during a write.

use std::time::Duration;

use steadfast::{Disposition, Effect};

use support::acme::Acme;
use support::apart::{Apart, order_recovered_by_another};
use support::meanwhile::{ASKED, Wrote, asked_meanwhile, told_late};
use support::rig::{plain, secs};

const HOUR: i64 = 3_600;

/// Seeds 1687157 and 1453973: of three clocks one was minutes off from its start, and one was hours ahead. The store
/// believed the nearer of the two that it doubted. By that clock the settle time of another host's send was over at once.
#[tokio::test]
async fn d5_a_clock_that_is_minutes_off_is_no_less_doubted_because_another_is_hours_ahead() {
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

/// Seed 1323005: a host with an old secret wrote the refusal down and stood still for 48 s. By then another had sent the
/// operation, and the caller was told that it had no effect. A dead letter that was redriven meanwhile is the same.
#[tokio::test]
async fn d7_none_is_not_said_of_what_ended_and_somebody_else_may_have_sent_since() {
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

/// Seed 1009589: the gates let a send through, and its lease was renewed. Meanwhile another call of the process was told
/// to leave the vendor alone. Behind a claim it is the same.
#[tokio::test]
async fn a10_a_wish_that_comes_while_a_call_writes_holds_its_send_back() {
    for (what, sent_before) in [(Wrote::Claim, 0), (Wrote::Renewal, 1)] {
        let (asked_at, sent) = asked_meanwhile((Acme::new(), plain()), what).await;
        assert_eq!(sent.len(), 2, "{what:?}: {sent:?}");
        assert_eq!(sent.iter().filter(|at| **at < asked_at).count(), sent_before, "{what:?}: {sent:?}");
        let next = sent[sent_before].since(asked_at);
        assert!((ASKED..ASKED + secs(2)).contains(&next), "{what:?}: {next:?} after it asked");
    }
}
