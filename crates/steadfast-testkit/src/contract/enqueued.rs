//! Claims without a holder: the operation is left to a dispatcher.

use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Claim, Claimed, Phase, State, Takeover};
use steadfast_core::store::Store;
use steadfast_core::{Effect, Refusal};

use super::{LEASE, NOW, claim, claim_at, get, id, refuse, succeed, take, transition_at, write};

/// Due time of the operation.
const LATER: Timestamp = Timestamp::from_millis(1_700_000_060_000);

/// Checks that an enqueued operation is on record as due, and has no holder. An operation that is on record
/// already does not change: it is not taken over, not even if it is due, and its time stays.
pub async fn check_enqueue(store: &dyn Store) {
    let new = id("test/enqueue//POST /x", "new");
    let left = |id: &OperationId| Claim { due: Some(LATER), ..claim_at(id, NOW) };
    let Claimed::Fresh(record) = claim(store, left(&new)).await else { panic!("it is the first") };
    assert_eq!((record.state.clone(), record.effect), (State::Scheduled { at: LATER }, Effect::None));
    assert_eq!(get(store, &new).await, Some(record.clone()));
    for due in [NOW, LATER, LATER.plus(LEASE)] {
        let again = Claim { due: Some(due), now: LATER, ..claim_at(&new, LATER) };
        assert_eq!(claim(store, again).await, Claimed::Busy { frees_at: LATER });
    }
    assert_eq!(get(store, &new).await, Some(record.clone()));

    let mut ask = Takeover {
        phase: Phase::Scheduled,
        account: Some("test/enqueue/".into()),
        now: LATER.minus(Duration::from_millis(1)),
        lease: LEASE,
        attempt_max: LEASE,
        vendor_clock_ms: Some(-7),
        holder: None,
        limit: 10,
        wanted: steadfast_core::operation::record::Wanted::default(),
    };
    assert_eq!(store.take(ask.clone()).await.expect("the store works"), [], "a millisecond early");
    ask.now = LATER;
    let taken = store.take(ask.clone()).await.expect("the store works").remove(0);
    let first_send = (taken.claimed_at, taken.vendor_clock_ms, taken.fence);
    assert_eq!(first_send, (LATER, Some(-7), record.fence + 1), "nothing was sent before");
    assert_eq!(get(store, &new).await, Some(taken.clone()));
    assert_eq!(claim(store, left(&new)).await, Claimed::Busy { frees_at: LATER.plus(LEASE) });
    let mut lets_go = transition_at(taken.fence, LATER, State::Scheduled { at: LATER });
    lets_go.attempts = 0;
    write(store, &new, lets_go).await.expect("the holder may write");
    ask.now = LATER.plus(LEASE);
    let again = store.take(ask).await.expect("the store works").remove(0);
    assert_eq!(again.claimed_at, LATER, "only the first taker knows that nothing was sent");

    for (key, to) in [("done", succeed()), ("refused", refuse(Refusal::Rejected))] {
        let id = id("test/enqueue//POST /x", key);
        let held = take(store, claim_at(&id, NOW)).await;
        write(store, &id, transition_at(held.fence, NOW, to)).await.expect("the holder may write");
        let settled = get(store, &id).await.expect("it is there");
        assert_eq!(claim(store, left(&id)).await, Claimed::Settled(settled));
    }
    let freed = id("test/enqueue//POST /x", "freed");
    let held = take(store, claim_at(&freed, NOW)).await;
    let refused = transition_at(held.fence, NOW, refuse(Refusal::Unauthorized));
    write(store, &freed, refused).await.expect("the holder may write");
    let Claimed::Freed(record) = claim(store, left(&freed)).await else { panic!("the key is free") };
    assert_eq!((record.state.clone(), record.fence), (State::Scheduled { at: LATER }, held.fence + 1));
    assert_eq!(get(store, &freed).await, Some(record));
}
