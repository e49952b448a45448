//! Outcomes that a store in trouble does not write down at once.

use steadfast::clock::Clock as _;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{AttemptReport, Call, Effect, Error, Policy, Reply};

use super::{Trouble, after, no_ladder, one_of_each, troubled};
use support::rig::{Rig, ms, plain, secs, until};

/// A way to end that is no success: what the network does, the policy, the call, and the state on record.
struct Ending {
    network: fn() -> ScriptedTransport,
    policy: fn() -> Policy,
    call: fn(Call) -> Call,
    is_on_record: fn(&State) -> bool,
}

const ENDINGS: [Ending; 3] = [
    Ending {
        network: || ScriptedTransport::new().status(402),
        policy: plain,
        call: |call| call,
        is_on_record: |state| matches!(state, State::Refused { .. }),
    },
    Ending {
        network: || ScriptedTransport::new().fail(SendErrorKind::Reset),
        policy: no_ladder,
        call: |call| call,
        is_on_record: |state| matches!(state, State::Dead { .. }),
    },
    Ending {
        network: || ScriptedTransport::new().status(503).header("retry-after", "3600"),
        policy: plain,
        call: |call| call.deadline(secs(60)),
        is_on_record: |state| matches!(state, State::Scheduled { .. }),
    },
];

async fn on_record(rig: &Rig) -> (Record, Vec<AttemptReport>) {
    let page = rig.store.list(&Filter::default(), None, 2).await.expect("a store");
    let id = &page.rows[0].id;
    let record = rig.store.get(id).await.expect("a store").expect("a record");
    (record, rig.store.evidence(id).await.expect("a store"))
}

/// Finding D11.
#[tokio::test]
async fn every_outcome_is_written_again_while_the_hold_lasts() {
    for (number, ending) in ENDINGS.iter().enumerate() {
        let (_, calm) = troubled((ending.network)(), (ending.policy)());
        let expected = (ending.call)(calm.charge()).send().await.expect_err("no success");
        for trouble in one_of_each() {
            let case = format!("{number}, {trouble:?}");
            let (store, rig) = troubled((ending.network)(), (ending.policy)());
            let begun = rig.clock.now();
            store.transitions(if trouble == Trouble::FailAfter { vec![trouble] } else { vec![trouble; 5] });
            let told = (ending.call)(rig.charge()).send().await.expect_err("no success");
            assert_eq!(
                (told.code(), told.effect(), told.attempts().len()),
                (expected.code(), expected.effect(), 1),
                "{case}: {told}"
            );
            let (record, log) = on_record(&rig).await;
            assert!((ending.is_on_record)(&record.state), "{case}: {:?}", record.state);
            assert_eq!(log.len(), 1, "{case}: what the attempt met is on the log once");
            assert_eq!(rig.network.requests().len(), 1, "{case}");
            let waited = rig.clock.now().since(begun);
            let expected =
                if trouble == Trouble::FailAfter { ms(50) } else { ms(50 + 100 + 200 + 400 + 800) };
            assert_eq!(waited, expected, "{case}");
        }
    }
}

/// Finding D11.
#[tokio::test]
async fn a_store_that_never_writes_is_given_up_at_the_end_of_the_calls_time() {
    let (store, rig) = troubled(ScriptedTransport::new().status(402), plain());
    store.transitions([Trouble::Fail; 1_000]);
    let told = rig.charge().deadline(secs(10)).send().await.expect_err("no record");
    assert_eq!((told.is_store(), told.effect()), (true, Effect::Unknown), "{told}");
    assert_eq!(told.answer().map(|answer| answer.status.as_u16()), Some(402));
    assert!(rig.clock.now() <= after(secs(10)), "{:?}", rig.clock.now());
    assert_eq!(rig.network.requests().len(), 1);
}

/// D11: The word of the vendor is in this process alone: it is written down after its call is over, as long as nobody
/// else may take the operation.
#[tokio::test]
async fn the_vendors_word_is_written_down_without_its_call_while_the_lease_lasts() {
    for (status, is_on_record) in [
        (200, (|state| matches!(state, State::Succeeded { .. })) as fn(&State) -> bool),
        (402, |state| matches!(state, State::Refused { .. })),
    ] {
        let (store, rig) = troubled(ScriptedTransport::new().status(status), plain());
        // At 0, 50, 150, 350 and 750 ms by the call, and for some seconds after it.
        store.transitions([Trouble::Fail; 8]);
        let told = until_told(&rig, rig.charge().deadline(secs(1))).await.expect_err("no record");
        assert!(told.is_store(), "{told}");
        let record = loop {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let (record, log) = on_record(&rig).await;
            if is_on_record(&record.state) {
                assert_eq!(log.len(), 1, "what the attempt met is on the log once");
                break record;
            }
            assert!(rig.clock.now() < after(secs(60)), "{:?}", record.state);
            rig.clock.advance(ms(10));
        };
        let took = record.updated_at.since(record.claimed_at);
        assert!(
            took > secs(1),
            "{took:?}: after the call's time, because the store was in trouble until then"
        );
        assert_eq!(rig.network.requests().len(), 1);
    }
}

/// Finding D11.
#[tokio::test]
async fn an_outcome_that_is_written_but_not_answered_is_the_calls() {
    let (store, rig) = troubled(ScriptedTransport::new().status(402), plain());
    store.transitions([Trouble::HangAfter]);
    let told = until_told(&rig, rig.charge().deadline(secs(1))).await.expect_err("refused");
    assert!(told.is_refused(), "{told}");
    assert_eq!((told.effect(), told.attempts().len()), (Effect::None, 1));
}

/// Finding D11.
#[tokio::test]
async fn a_store_that_hangs_holds_no_permit_beyond_the_calls_time() {
    let one_at_a_time = || plain().concurrency(1);
    // While the outcome is written.
    let (store, rig) = troubled(ScriptedTransport::new().status(200).status(200), one_at_a_time());
    store.transitions([Trouble::Hang]);
    let charge = tokio::spawn(rig.charge().send());
    until(|| !rig.network.requests().is_empty()).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!charge.is_finished(), "the outcome is not on record");
    assert_eq!(rig.client.get("/charges").send().await.expect("no permit is held").status(), 200);
    charge.abort();

    // While it is claimed, and while the lease is renewed for a resend: until the deadline at most.
    for (claims, transitions) in [(vec![Trouble::Hang], vec![]), (vec![], vec![Trouble::None, Trouble::Hang])]
    {
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200).status(200);
        let network = if claims.is_empty() { network } else { ScriptedTransport::new().status(200) };
        let (store, rig) = troubled(network, one_at_a_time());
        store.claims(claims);
        store.transitions(transitions);
        let told = until_told(&rig, rig.charge().deadline(secs(2))).await.expect_err("no record");
        assert!(told.is_store(), "{told}");
        assert!(rig.clock.now() < after(secs(3)), "{:?}", rig.clock.now());
        assert_eq!(rig.client.attempts_under_way(), Some(0));
        rig.client.get("/charges").send().await.expect("no permit is held");
    }
}

/// Moves time on until the call has an answer: a store that hangs moves no clock.
async fn until_told(rig: &Rig, call: Call) -> Result<Reply, Error> {
    let told = tokio::spawn(call.send());
    while !told.is_finished() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        rig.clock.advance(ms(10));
    }
    told.await.expect("no panic")
}
