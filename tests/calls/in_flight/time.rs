//! When a call is told to come back whose key another call holds.

use steadfast::clock::{Clock as _, Timestamp};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::{Disposition, Effect, Error, Gate};

use super::{held, rig};
use support::rig::{Rig, ms, plain, secs, until};

async fn refused(rig: &Rig) -> (Option<Timestamp>, Error) {
    let told = rig.charge().send().await.expect_err("held");
    assert!(told.is_in_progress(), "{told}");
    (told.retry_at().map(Timestamp::from), told)
}

/// Finding A23.
#[tokio::test]
async fn the_time_to_come_back_is_the_holders_expected_end() {
    let rig = rig(ScriptedTransport::new(), plain());
    rig.answers(|network| network.status(200).after(ms(200), &rig.clock).hang());
    let other = rig.client.post("/charges").key("order-41").send().await;
    assert_eq!(other.expect("the first answer").status(), 200);
    let began = rig.clock.wall();
    let holder = held(&rig, rig.charge()).await;
    let at = |wait| Some(began.plus(wait));
    // An answer took 200 ms. The estimate from one sample is three times that.
    let (retry_at, told) = refused(&rig).await;
    assert_eq!(retry_at, at(ms(600)));
    // Somebody else may take the operation at the end of the lease, and not before.
    let word = (told.effect(), told.disposition());
    assert_eq!(word, (Effect::Unknown, Disposition::Continues { at: at(secs(60)) }));
    rig.clock.advance(ms(599));
    assert_eq!(refused(&rig).await.0, at(ms(600)));
    // It is late: by the end of its longest attempt it has ended.
    rig.clock.advance(ms(1));
    assert_eq!(refused(&rig).await.0, at(secs(30)));
    holder.abort();
    // It did not end: the next moment is the end of its lease.
    rig.clock.advance(secs(30));
    assert_eq!(refused(&rig).await.0, at(secs(60)));
}

/// Finding A23.
#[tokio::test]
async fn before_any_answer_it_is_the_end_of_the_longest_attempt() {
    let rig = rig(ScriptedTransport::new().hang(), plain());
    let holder = held(&rig, rig.charge()).await;
    assert_eq!(refused(&rig).await.0, Some(TestClock::START.plus(secs(30))));
    holder.abort();
}

/// Finding A23.
#[tokio::test]
async fn a_later_attempt_is_counted_from_its_own_beginning() {
    let network = ScriptedTransport::new().fail(steadfast::transport::SendErrorKind::Reset).hang();
    let rig = rig(network, plain());
    let holder = held(&rig, rig.charge()).await;
    until(|| rig.network.requests().len() >= 2).await;
    // After half a second of the ladder.
    assert_eq!(refused(&rig).await.0, Some(TestClock::START.plus(ms(500) + secs(30))));
    holder.abort();
}

/// Earlier than that, a caller that comes back would only be told that the key is in progress.
#[tokio::test]
async fn a_gate_that_refuses_names_no_time_before_the_holders_end() {
    let rig = rig(ScriptedTransport::new().hang(), plain());
    let holder = held(&rig, rig.charge()).await;
    for (pause, at) in [(secs(5), secs(30)), (secs(45), secs(45))] {
        rig.client.pause_for(pause);
        let told = rig.charge().send().await.expect_err("it is asked to wait");
        assert_eq!(told.gate(), Some(Gate::Pause), "{told}");
        assert_eq!(told.retry_at().map(Timestamp::from), Some(TestClock::START.plus(at)), "{told}");
    }
    holder.abort();
}
