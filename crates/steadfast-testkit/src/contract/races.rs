//! Races of many callers: one wins.

use std::sync::Arc;

use steadfast_core::operation::record::{Claim, Claimed, Declined, Record, Transition};
use steadfast_core::store::Store;

use super::{LEASE, NOW, claim_at, get, id, succeed, take, transition_at};

/// Checks 64 claims of one operation at once: of a new one, and of one whose lease has expired. Claims of
/// different operations do not block each other.
///
/// Needs a tokio runtime; one with several threads finds more.
pub async fn check_claims_at_once(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let id = id("test/races//POST /x", &format!("claims {round}"));
        let result = all_claim(&store, vec![claim_at(&id, NOW); CALLERS]).await;
        let fresh = result.iter().filter(|result| matches!(result, Claimed::Fresh(_))).count();
        let end = NOW.plus(LEASE);
        let busy = result.iter().filter(|result| **result == Claimed::Busy { frees_at: end }).count();
        assert_eq!((fresh, busy), (1, CALLERS - 1), "claims of a new operation");

        let result = all_claim(&store, vec![claim_at(&id, end); CALLERS]).await;
        let taken = result.iter().filter(|result| matches!(result, Claimed::TakenOver(_))).count();
        let busy = result.iter().filter(|result| matches!(result, Claimed::Busy { .. })).count();
        assert_eq!((taken, busy), (1, CALLERS - 1), "claims after the lease");
        assert_eq!(get(&*store, &id).await.map(|record| record.fence), Some(2), "taken over once");
    }
    let apart = (0..CALLERS).map(|nth| claim_at(&id("test/races//POST /y", &nth.to_string()), NOW));
    let result = all_claim(&store, apart.collect()).await;
    assert!(
        result.iter().all(|result| matches!(result, Claimed::Fresh(_))),
        "different operations: {result:?}"
    );
}

/// Checks 64 settlements under one fence at once: the first counts, and the others are declined.
///
/// Needs a tokio runtime; one with several threads finds more.
pub async fn check_settlements_at_once(store: Arc<dyn Store>) {
    for round in 0..ROUNDS {
        let id = id("test/races//POST /z", &format!("settlements {round}"));
        let record = take(&*store, claim_at(&id, NOW)).await;
        let transitions = (0..CALLERS).map(|nth| {
            let mut transition = transition_at(record.fence, NOW, succeed());
            transition.attempts = nth as u32;
            transition
        });
        let result = all_write(&store, &record, transitions.collect()).await;
        let won: Vec<&Record> = result.iter().filter_map(|result| result.as_ref().ok()).collect();
        let settled = result.iter().filter(|result| **result == Err(Declined::Settled)).count();
        assert_eq!((won.len(), settled), (1, CALLERS - 1));
        assert_eq!(get(&*store, &id).await.as_ref(), won.first().copied(), "the winner's record is kept");
    }
}

async fn all_claim(store: &Arc<dyn Store>, claims: Vec<Claim>) -> Vec<Claimed> {
    let spawned = claims.into_iter().map(|claim| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(claim).await.expect("the store works") })
    });
    let mut result = Vec::new();
    for task in spawned.collect::<Vec<_>>() {
        result.push(task.await.expect("no panic"));
    }
    result
}

async fn all_write(
    store: &Arc<dyn Store>,
    held: &Record,
    transitions: Vec<Transition>,
) -> Vec<Result<Record, Declined>> {
    let spawned = transitions.into_iter().map(|transition| {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store.transition(&held, transition).await.expect("the store works") })
    });
    let mut result = Vec::new();
    for task in spawned.collect::<Vec<_>>() {
        result.push(task.await.expect("no panic"));
    }
    result
}

const CALLERS: usize = 64;

const ROUNDS: usize = 8;
