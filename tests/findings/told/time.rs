//! When a call is told to come back whose key another call holds.

use steadfast::clock::{Clock as _, Timestamp};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::{Disposition, Effect, Error};

use super::{bench, held, ms, plain, script, secs};

async fn refused(bench: &super::Bench) -> (Option<Timestamp>, Error) {
    let told = bench.charge().send().await.expect_err("held");
    assert!(told.is_in_progress(), "{told}");
    (told.retry_at().map(Timestamp::from), told)
}

#[tokio::test]
async fn a23_the_time_to_come_back_is_the_holders_expected_end() {
    let bench = bench(ScriptedTransport::new(), plain());
    script(&bench, |network| network.status(200).after(ms(200), &bench.clock).hang());
    let other = bench.client.post("/charges").key("order-41").send().await;
    assert_eq!(other.expect("the first answer").status(), 200);
    let began = bench.clock.wall();
    let holder = held(&bench, bench.charge()).await;
    let at = |wait| Some(began.plus(wait));
    // An answer took 200 ms. The estimate from one sample is three times that.
    let (retry_at, told) = refused(&bench).await;
    assert_eq!(retry_at, at(ms(600)));
    // Somebody else may take the operation at the end of the lease, and not before.
    let word = (told.effect(), told.disposition());
    assert_eq!(word, (Effect::Unknown, Disposition::Continues { at: at(secs(60)) }));
    bench.clock.advance(ms(599));
    assert_eq!(refused(&bench).await.0, at(ms(600)));
    // It is late: by the end of its longest attempt it has ended.
    bench.clock.advance(ms(1));
    assert_eq!(refused(&bench).await.0, at(secs(30)));
    holder.abort();
    // It did not end: the next moment is the end of its lease.
    bench.clock.advance(secs(30));
    assert_eq!(refused(&bench).await.0, at(secs(60)));
}

#[tokio::test]
async fn a23_before_any_answer_it_is_the_end_of_the_longest_attempt() {
    let bench = bench(ScriptedTransport::new().hang(), plain());
    let holder = held(&bench, bench.charge()).await;
    assert_eq!(refused(&bench).await.0, Some(TestClock::START.plus(secs(30))));
    holder.abort();
}

#[tokio::test]
async fn a23_a_later_attempt_is_counted_from_its_own_beginning() {
    let network = ScriptedTransport::new().fail(steadfast::transport::SendErrorKind::Reset).hang();
    let bench = bench(network, plain());
    let holder = held(&bench, bench.charge()).await;
    while bench.transport.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    // After half a second of the ladder.
    assert_eq!(refused(&bench).await.0, Some(TestClock::START.plus(ms(500) + secs(30))));
    holder.abort();
}
