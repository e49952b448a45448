//! Holders of operations on record.

use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Claim, Phase, State, Takeover};
use steadfast_core::store::Store;

use super::takers::asking;
use super::{LEASE, NOW, claim, claim_at, get, id, take, transition_at, write};

/// Checks that the holder of a claim or a takeover is on record. An enqueued operation has none until it is
/// taken. After a release the last holder stays on record.
pub async fn check_holders(store: &dyn Store) {
    let later = NOW.plus(LEASE);
    let scope = "test/holders//POST /x";
    for (key, account) in [("any", None), ("one", Some("test/holders/"))] {
        let (held, enqueued) = (id(scope, &format!("held {key}")), id(scope, &format!("enqueued {key}")));
        take(store, Claim { holder: Some("a/1".into()), ..claim_at(&held, NOW) }).await;
        let for_later = Claim { holder: Some("a/1".into()), due: Some(later), ..claim_at(&enqueued, NOW) };
        claim(store, for_later).await;
        assert_eq!(holders(store, [&held, &enqueued]).await, [Some("a/1".to_owned()), None], "{key}");
        for (phase, id) in [(Phase::InProgress, &held), (Phase::Scheduled, &enqueued)] {
            let (account, holder) = (account.map(str::to_owned), Some("b/2".into()));
            let ask = Takeover { account, holder, ..asking(phase, later) };
            let taken = store.take(ask).await.expect("the store works");
            let taken: Vec<_> = taken.iter().map(|record| (&record.id, record.holder.as_deref())).collect();
            assert_eq!(taken, [(id, Some("b/2"))], "{key}: as it is given to the taker");
            assert_eq!(holders(store, [id]).await, [Some("b/2".to_owned())], "{key}: and on record");
            let let_go = transition_at(2, later, State::Scheduled { at: later.plus(LEASE * 9) });
            write(store, id, let_go).await.expect("the holder may write");
            assert_eq!(holders(store, [id]).await, [Some("b/2".to_owned())], "{key}: the last one");
        }
    }
    let lapsed = id(scope, "lapsed");
    take(store, Claim { holder: Some("a/1".into()), ..claim_at(&lapsed, NOW) }).await;
    let over = take(store, Claim { holder: Some("c/3".into()), ..claim_at(&lapsed, later) }).await;
    assert_eq!((over.fence, over.holder.as_deref()), (2, Some("c/3")));
    assert_eq!(holders(store, [&lapsed]).await, [Some("c/3".to_owned())], "a claim takes it over");
    take(store, Claim { holder: None, ..claim_at(&lapsed, later.plus(LEASE)) }).await;
    assert_eq!(holders(store, [&lapsed]).await, [None], "by one that does not say who it is");
}

async fn holders<const N: usize>(store: &dyn Store, ids: [&OperationId; N]) -> Vec<Option<String>> {
    let mut holders = Vec::new();
    for id in ids {
        let record = get(store, id).await.expect("it is on record");
        holders.push(record.holder.as_deref().map(str::to_owned));
    }
    holders
}
