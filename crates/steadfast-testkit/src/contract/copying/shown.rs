//! The visible contents of a store, and its refusals when it is closed.

use steadfast_core::operation::record::{Act, Action, AuditEntry, Filter, Record, Summary, Tally};
use steadfast_core::store::delivery::Look;
use steadfast_core::store::maintenance::{Restore, Row, Stage};
use steadfast_core::store::{Store, StoreErrorKind};

use super::super::{claim_at, succeed, transition_at};
use super::{LATER, lapsed, maintenance_of, name};

/// Checks that each write is refused, and that its error names the other store.
pub(super) async fn assert_closed(store: &dyn Store, other: &str) {
    let holder = name("left");
    let held = store.get(&holder).await.expect("it is read all the same");
    let act =
        Act { action: Action::Note, by: "ada".to_owned(), why: "a look".to_owned(), now: LATER, fence: None };
    let mut refused = vec![
        store.claim(claim_at(&name("new"), LATER)).await.map(drop),
        store.take(lapsed(LATER)).await.map(drop),
        store.purge(LATER, 1).await.map(drop),
        store.register("prod/acme/new", Some("terms")).await.map(drop),
    ];
    let look = Look { now: LATER, until: LATER, accounts: Vec::new(), outbox: Vec::new() };
    if let Some(delivery) = store.delivery() {
        refused.push(delivery.look(&look).await.map(drop));
    }
    if let Some(held) = held {
        refused.push(store.act(&holder, act).await.map(drop));
        let done = transition_at(held.fence, LATER, succeed());
        refused.push(store.transition(&held, done).await.map(drop));
        refused.push(store.append_evidence(&holder, Vec::new()).await.map(drop));
        let again = Restore { rows: vec![Row { record: held, evidence: Vec::new() }], ..Restore::default() };
        if maintenance_of(store).head().await.expect("the store works").standing.stage != Stage::Arriving {
            let error = maintenance_of(store).restore(again).await.expect_err("nothing arrives here");
            assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
        }
    }
    for (nth, ended) in refused.into_iter().enumerate() {
        let error = ended.expect_err("the store is closed");
        assert_eq!(error.kind(), StoreErrorKind::Closed, "{nth}: {error}");
        assert!(error.to_string().contains(other), "{nth}: {error}");
    }
}

/// All that a store returns.
#[derive(Debug, PartialEq)]
pub(super) struct Contents {
    listed: Vec<Summary>,
    pub rows: Vec<Row>,
    audit: Vec<AuditEntry>,
    /// Number of operations of each vendor and phase.
    tally: Vec<Tally>,
}

impl Contents {
    pub(super) async fn of(store: &dyn Store) -> Contents {
        let listed = store.list(&Filter::default(), None, 1_000).await.expect("the store works").rows;
        let mut rows = Vec::new();
        for summary in &listed {
            let record: Record = store.get(&summary.id).await.expect("the store works").expect("a record");
            let evidence = store.evidence(&summary.id).await.expect("the store works");
            rows.push(Row { record, evidence });
        }
        let audit = store.audit(None, None, 1_000).await.expect("the store works").rows;
        let mut tally = store.tally().await.expect("the store works");
        tally.sort_unstable_by_key(|group| (group.vendor.clone(), group.phase.name()));
        Contents { listed, rows, audit, tally }
    }
}
