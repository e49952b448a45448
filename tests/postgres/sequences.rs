//! Sequences over several processes, and their rows in the tables.

use std::sync::Arc;
use std::time::Duration;

use steadfast::operation::OperationId;
use steadfast::operation::record::{Act, Action, Claim, Claimed, Phase, Record, Resolution, State};
use steadfast::store::{Postgres, Store};
use steadfast::{Reason, Sequence};

use super::driven::fresh_schema;
use super::roles::{url, with_roles};
use support::calls::{claim_of, due, held, id, settle, step};
use support::server::{self, ASLEEP, Server};

fn open(server: &Server, schema: &str) -> Arc<Postgres> {
    let builder = Postgres::builder(&server.url(schema)).expect("a URL of the rig");
    Arc::new(builder.open().expect("the store opens"))
}

/// Enqueues into the sequence `s`.
async fn enter(store: &dyn Store, id: &OperationId) -> Record {
    let claim = claim_of(store, id);
    let claim = Claim { due: Some(claim.now), sequence: Some(Sequence::new("s")), ..claim };
    held(store, claim).await
}

async fn take(store: &dyn Store) -> Vec<Record> {
    store.take(due(store, 10)).await.expect("the store works")
}

/// Two processes postpone, redrive and enqueue as fast as they can: never are two operations of a sequence in
/// flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_most_one_operation_of_a_sequence_is_in_flight() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("lines");
    let stores = [open(server, &schema), open(server, &schema)];
    for nth in 0..20 {
        enter(&*stores[0], &id(&format!("order-{nth:02}"))).await;
    }
    let (under_way, ended) =
        (Arc::new(parking_lot::Mutex::new(None)), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let takers = (0..6).map(|nth| {
        let store = Arc::clone(&stores[nth % 2]);
        let (under_way, ended) = (Arc::clone(&under_way), Arc::clone(&ended));
        tokio::spawn(async move {
            while ended.lock().len() < 20 {
                for record in take(&*store).await {
                    let before = under_way.lock().replace(record.id.clone());
                    assert_eq!(before, None, "beside {}", record.id);
                    tokio::task::yield_now().await;
                    assert_eq!(under_way.lock().take(), Some(record.id.clone()));
                    if record.fence < 4 {
                        // Another attempt.
                        let at = store.time(Default::default());
                        let later = step(&*store, &record, State::Scheduled { at });
                        store.transition(&record, later).await.expect("works").expect("held");
                    } else {
                        ended.lock().push(record.id.key.as_str().to_owned());
                        settle(&*store, &record).await;
                    }
                }
            }
        })
    });
    let takers: Vec<_> = takers.collect();
    for taker in takers {
        taker.await.expect("no panic");
    }
    let expected: Vec<String> = (0..20).map(|nth| format!("order-{nth:02}")).collect();
    assert_eq!(*ended.lock(), expected);
}

/// An operator redrives the earlier letter while a taker has locked the next one: its transaction is open, and
/// no other sees its changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn passing_the_turn_waits_for_an_uncommitted_take() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("lines");
    let store = open(server, &schema);
    let (first, next) = (id("first"), id("next"));
    enter(&*store, &first).await;
    enter(&*store, &next).await;
    let act = |action| Act {
        action,
        by: "ada".into(),
        why: "a test".into(),
        now: store.time(Default::default()),
        fence: None,
    };
    let taken = take(&*store).await;
    let bury = State::Dead { reason: Reason::Exhausted, answer: None };
    let buried = step(&*store, &taken[0], bury);
    store.transition(&taken[0], buried).await.expect("works").expect("held");
    assert_eq!(take(&*store).await, [], "held");
    let resolve = act(Action::Resolve(Resolution::NotApplied));
    store.act(&first, resolve).await.expect("works").expect("it is dead");
    let open = format!(
        "BEGIN; UPDATE {schema}.operation SET phase = 1, fence = fence + 1, until_ms = until_ms + 600000, \
         wake_ms = until_ms + 600000 WHERE key = 'next' AND wake_ms IS NOT NULL; SELECT pg_sleep(1.5); COMMIT"
    );
    let taker = tokio::task::spawn_blocking(move || server::shared().map(|server| server.sql(&open)));
    server.until_one_waits(ASLEEP, &schema);
    let redriven =
        store.act(&first, act(Action::Redrive { forced: false })).await.expect("works").expect("may");
    assert_eq!(redriven.phase(), Phase::Scheduled);
    taker.await.expect("no panic");
    let first = store.get(&first).await.expect("works").expect("on record");
    assert_eq!(first.waits_for().map(|ahead| &ahead.id), Some(&next), "one at a time");
    assert_eq!(take(&*store).await, [], "next is under way");
    let sent = store.get(&next).await.expect("works").expect("on record");
    let later = step(&*store, &sent, State::Scheduled { at: store.time(Default::default()) });
    store.transition(&sent, later).await.expect("works").expect("held");
    let keys = |taken: Vec<Record>| taken.into_iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!(keys(take(&*store).await), [first.id], "before the one that waits for its retry");
}

/// An ended operation leaves no row, and a waiting one is in no index of due operations.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_ended_sequence_leaves_no_rows_and_waiting_operations_are_not_read() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("lines");
    let store = open(server, &schema);
    let line: Vec<OperationId> = (0..5).map(|nth| id(&format!("order-{nth}"))).collect();
    for id in &line {
        let claim = claim_of(&*store, id);
        let (due, sequence) = (Some(claim.now), Some(Sequence::new("s")));
        held(&*store, Claim { due, sequence, keep: Duration::ZERO, ..claim }).await;
    }
    let waiting = format!("SELECT count(*) FROM {schema}.operation WHERE wake_ms IS NULL");
    assert_eq!(server.sql(&waiting), "4");
    for left in ["3", "2", "1", "0", "0"] {
        let taken = take(&*store).await;
        assert_eq!(taken.len(), 1);
        let done = step(&*store, &taken[0], support::calls::succeed());
        store.transition(&taken[0], done).await.expect("works").expect("held");
        assert_eq!(server.sql(&waiting), left);
    }
    let purged = store.purge(store.time(Default::default()), 10).await.expect("works");
    assert_eq!((purged, server.sql(&format!("SELECT count(*) FROM {schema}.sequenced"))), (5, "0".into()));
}

/// The role of a service enqueues and settles, and may use a key again, in a sequence or outside of any.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_app_enqueues_into_a_sequence_and_removes_nothing() {
    let Some(server) = server::shared() else { return };
    let schema = with_roles(server, "lines");
    let builder = Postgres::builder(&url(server, &schema, "app")).expect("a URL");
    let store = builder.open().expect("it opens");
    for (life, sequence) in [Some("s"), None, Some("t"), Some("s")].into_iter().enumerate() {
        let claim = claim_of(&store, &id("order-42"));
        let (due, sequence) = (Some(claim.now), sequence.map(Sequence::new));
        let claim = Claim { due, sequence: sequence.clone(), keep: Duration::ZERO, ..claim };
        let result = store.claim(claim).await.expect("it may");
        let Claimed::Fresh(record) = result else { panic!("life {life}: {result:?}") };
        assert_eq!(record.sequence.as_ref().map(|place| place.sequence.clone()), sequence);
        assert_eq!(store.get(&record.id).await.expect("it may"), Some(record));
        let taken = take(&store).await;
        let done = step(&store, &taken[0], support::calls::succeed());
        store.transition(&taken[0], done).await.expect("works").expect("held");
        // It has expired once the clock has moved on.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
