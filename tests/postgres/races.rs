//! Several processes on one database: one winner, no fence that goes back, and no caller that fails because of
//! another's row.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::operation::record::{Claim, Claimed, State};
use steadfast::store::{Postgres, Store, StoreErrorKind};
use tokio::task::JoinHandle;

use super::driven::fresh_schema;
use support::calls::{KEEP, claim_of, due, held, id, named, settle, step, succeed};
use support::server::{self, ASLEEP, Server, soon};

/// Two stores on one schema, as two processes have them.
fn two(server: &Server, schema: &str) -> [Arc<Postgres>; 2] {
    let open = |_| {
        let builder = Postgres::builder(&server.url(schema)).expect("a URL of the rig");
        Arc::new(builder.open().expect("the store opens"))
    };
    [0, 1].map(open)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_64_claimants_in_two_processes_holds_the_operation() {
    let Some(server) = server::shared() else { return };
    let stores = two(server, &fresh_schema("races"));
    for round in 0..20 {
        let id = id(&format!("order-{round}"));
        let claims = (0..64).map(|nth| {
            let store = Arc::clone(&stores[nth % 2]);
            let claim = claim_of(&*store, &id);
            tokio::spawn(async move { store.claim(claim).await.expect("the store works") })
        });
        let (mut fresh, mut busy) = (0, 0);
        for result in claims.collect::<Vec<_>>() {
            match result.await.expect("no panic") {
                Claimed::Fresh(record) => {
                    assert_eq!(stores[0].get(&id).await.expect("the store works"), Some(record));
                    fresh += 1;
                }
                Claimed::Busy { .. } => busy += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((fresh, busy), (1, 63));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn takers_in_two_processes_take_each_operation_once() {
    let Some(server) = server::shared() else { return };
    let stores = two(server, &fresh_schema("races"));
    for nth in 0..200 {
        let claim = claim_of(&*stores[0], &id(&format!("order-{nth}")));
        held(&*stores[0], Claim { due: Some(claim.now), ..claim }).await;
    }
    let takers = (0..8).map(|nth| {
        let store = Arc::clone(&stores[nth % 2]);
        tokio::spawn(async move {
            let mut all = Vec::new();
            // A process that finds nothing may have come while others held the rest.
            for _ in 0..50 {
                let given = store.take(due(&*store, 7)).await.expect("the store works");
                all.extend(given.into_iter().map(|record| (record.id, record.fence)));
            }
            all
        })
    });
    let mut given = Vec::new();
    for taker in takers.collect::<Vec<_>>() {
        given.extend(taker.await.expect("no panic"));
    }
    assert!(given.iter().all(|(_, fence)| *fence == 2), "taken once");
    let count = given.len();
    given.sort();
    given.dedup();
    assert_eq!((count, given.len()), (200, 200));
}

/// The claim reads the highest purged fence, then waits for the purge that is removing its key, and then finds
/// the key free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_is_purged_while_it_is_claimed_starts_above_its_old_fence() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("races");
    let [store, _] = two(server, &schema);
    let id = id("order-42");
    let first = held(&*store, claim_of(&*store, &id)).await;
    settle(&*store, &first).await;
    server.sql(&format!("UPDATE {schema}.operation SET fence = 7"));
    let purge = format!(
        "BEGIN; UPDATE {schema}.store_state SET purged_fence = 7; DELETE FROM {schema}.operation; DELETE FROM {schema}.request; \
         DELETE FROM {schema}.outcome; SELECT pg_sleep(1.5); COMMIT"
    );
    let url = server.url(&schema);
    let purger = tokio::task::spawn_blocking(move || {
        let Some(server) = server::shared() else { return };
        assert!(url.contains("schema="));
        server.sql(&purge);
    });
    server.until_one_waits(ASLEEP, &schema);
    let claiming = {
        let (store, claim) = (Arc::clone(&store), claim_of(&*store, &id));
        tokio::spawn(async move { store.claim(claim).await })
    };
    server.until_one_waits("wait_event_type = 'Lock'", &schema);
    let result = claiming.await.expect("no panic").expect("the store works");
    purger.await.expect("no panic");
    let Claimed::Fresh(record) = result else { panic!("{result:?}") };
    assert_eq!((record.fence, record.first_fence), (8, 8));
    assert_eq!(store.get(&id).await.expect("the store works"), Some(record));
}

/// Purges and claims of the same keys, as fast as they can: a life's fence is above all earlier ones of its
/// key.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_fence_goes_back_under_concurrent_purges_and_claims() {
    let Some(server) = server::shared() else { return };
    let stores = two(server, &fresh_schema("races"));
    let purger = Arc::clone(&stores[1]);
    let purging = tokio::spawn(async move {
        loop {
            purger.purge(purger.time(Default::default()), 10).await.expect("the store works");
        }
    });
    let callers = (0..8).map(|caller| {
        let store = Arc::clone(&stores[caller % 2]);
        tokio::spawn(async move {
            let id = id(&format!("order-{}", caller / 2));
            let mut highest = 0;
            for _ in 0..60 {
                let claim = Claim { keep: Duration::ZERO, ..claim_of(&*store, &id) };
                let result = match store.claim(claim).await {
                    // The purge was faster each time, and nothing is written.
                    Err(error) if error.kind() == StoreErrorKind::Locked => continue,
                    result => result.expect("the store works"),
                };
                // The other caller of this key.
                let (Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record)) = result
                else {
                    continue;
                };
                assert!(record.fence > highest, "fence {} after {highest}", record.fence);
                highest = record.fence;
                settle(&*store, &record).await;
            }
            highest
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        assert!(caller.await.expect("no panic") > 1, "several lives");
    }
    purging.abort();
}

/// A name that no index takes, among good ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_the_server_refuses_fails_alone() {
    let Some(server) = server::shared() else { return };
    let [store, _] = two(server, &fresh_schema("races"));
    // Does not compress, and is longer than a third of a page.
    let random: String =
        (0..6_000_u64).map(|nth| char::from(b'a' + ((nth * nth * 2_654_435_761) >> 7) as u8 % 26)).collect();
    let bad =
        [named(&format!("test/races/a/POST /{random}"), "long"), named("test/races/a/POST /nul\0", "nul")];
    let calls = (0..100).map(|nth| {
        let store = Arc::clone(&store);
        let id = bad.get(nth / 7 % 9).filter(|_| nth % 7 == 0).cloned();
        let (is_bad, id) = (id.is_some(), id.unwrap_or_else(|| support::calls::id(&format!("order-{nth}"))));
        tokio::spawn(async move {
            let result = store.claim(claim_of(&*store, &id)).await;
            match result {
                Ok(Claimed::Fresh(record)) if !is_bad => {
                    settle(&*store, &record).await;
                }
                Err(error) if is_bad => assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error:?}"),
                result => panic!("{id}: {result:?}"),
            }
            usize::from(is_bad)
        })
    });
    let mut refused = 0;
    for call in calls.collect::<Vec<_>>() {
        refused += call.await.expect("no panic");
    }
    assert!((2..20).contains(&refused), "{refused}");
    assert_eq!(store.tally().await.expect("the store works")[0].count, 100 - refused as u64);
}

/// Another transaction has enqueued an operation and stays open. A claim of the same key waits for it, and no
/// other claim does.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_in_an_open_transaction_blocks_its_own_claim_alone() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("races");
    let [store, _] = two(server, &schema);
    held(&*store, claim_of(&*store, &id("template"))).await;
    let open = format!(
        "BEGIN; CREATE TEMP TABLE o AS SELECT * FROM {schema}.operation; UPDATE o SET key = 'open'; \
         CREATE TEMP TABLE r AS SELECT * FROM {schema}.request; UPDATE r SET key = 'open', number = 1000; \
         INSERT INTO {schema}.operation SELECT * FROM o; INSERT INTO {schema}.request SELECT * FROM r; \
         SELECT pg_sleep(3); COMMIT"
    );
    let transaction = tokio::task::spawn_blocking(move || server::shared().map(|server| server.sql(&open)));
    server.until_one_waits(ASLEEP, &schema);
    let began = std::time::Instant::now();
    let calls = (0..64).map(|nth| {
        let store = Arc::clone(&store);
        let id = if nth == 20 { id("open") } else { id(&format!("order-{nth}")) };
        tokio::spawn(async move {
            let result = store.claim(claim_of(&*store, &id)).await.expect("the store works");
            (nth, matches!(result, Claimed::Fresh(_)), began.elapsed())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (nth, is_fresh, after) = call.await.expect("no panic");
        assert_eq!(is_fresh, nth != 20);
        let limit = Duration::from_secs(2);
        assert_eq!(after > limit, nth == 20, "{nth} after {after:?}");
    }
    transaction.await.expect("no panic");
}

/// A lease that is renewed again and again writes to no index, and is not taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_renewal_stays_on_its_page() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("races");
    let [store, _] = two(server, &schema);
    let mut record = held(&*store, claim_of(&*store, &id("order-42"))).await;
    for _ in 0..20 {
        let renew = step(&*store, &record, State::InProgress { lease_until: record.updated_at });
        record = store.transition(&record, renew).await.expect("the store works").expect("it is held");
    }
    // A session reports its work at most once a second, and by itself after ten: the reads are for that.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    for _ in 0..16 {
        assert!(store.get(&record.id).await.expect("the store works").is_some());
    }
    let hot = soon(|| {
        let sql = format!(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND relname = 'operation'"
        );
        let result = server.sql(&sql);
        if result.starts_with("20|") { Ok(result) } else { Err(result) }
    });
    assert_eq!(hot, "20|20");
}

/// Recovery beside a million others is bounded by its limit; expired records are removed in batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_purge_removes_all_three_rows_of_expired_operations_and_no_others() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("races");
    let [store, _] = two(server, &schema);
    let count = |table: &str| server.sql(&format!("SELECT count(*) FROM {schema}.{table}"));
    for nth in 0..1_200 {
        let id = id(&format!("order-{nth}"));
        let keep = if nth % 100 == 0 { KEEP } else { Duration::ZERO };
        let record = held(&*store, Claim { keep, ..claim_of(&*store, &id) }).await;
        store.transition(&record, step(&*store, &record, succeed())).await.expect("works").expect("held");
    }
    assert_eq!(store.purge(store.time(Default::default()), 700).await.expect("works"), 700);
    assert_eq!(store.purge(store.time(Default::default()), 10_000).await.expect("works"), 488);
    assert_eq!(["operation", "request", "outcome"].map(count), ["12", "12", "12"]);
}

/// A taker remembers up to where it has looked. A row that appears before that, because its transaction was long, is
/// found by the look at everything.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn what_commits_long_after_it_was_due_is_taken_a_few_seconds_later() {
    let Some(server) = server::shared() else { return };
    let [store, other] = two(server, &fresh_schema("races"));
    for nth in 0..3 {
        let claim = claim_of(&*other, &id(&format!("order-{nth}")));
        held(&*other, Claim { due: Some(claim.now), ..claim }).await;
        assert_eq!(store.take(due(&*store, 10)).await.expect("the store works").len(), 1);
    }
    let claim = claim_of(&*other, &id("late"));
    held(&*other, Claim { due: Some(claim.now.minus(Duration::from_secs(3_600))), ..claim }).await;
    let began = std::time::Instant::now();
    while store.take(due(&*store, 10)).await.expect("the store works").is_empty() {
        // Every 5 s, or less often so that the scans take a fiftieth of the time: on a busy machine, longer.
        assert!(began.elapsed() < Duration::from_secs(90), "nobody looks there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Connections break all the time. An acknowledged write is on record, and a lost one is distinguished from a
/// failed one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_acknowledged_while_connections_break_are_on_record() {
    // A server of its own: the others' connections would break too.
    let Some(server) = Server::start(&[]) else { return };
    let [store, _] = two(&server, &fresh_schema("races"));
    let all_lost = Arc::new(AtomicUsize::new(0));
    let callers = (0..32).map(|caller| {
        let (store, all_lost) = (Arc::clone(&store), Arc::clone(&all_lost));
        tokio::spawn(async move {
            let mut settled = Vec::new();
            for nth in 0..100 {
                let id = id(&format!("order-{caller}-{nth}"));
                let result = match store.claim(claim_of(&*store, &id)).await {
                    Ok(Claimed::Fresh(record)) => {
                        let done = step(&*store, &record, succeed());
                        store.transition(&record, done).await.map(|result| result.expect("it is held"))
                    }
                    Ok(result) => panic!("{result:?}"),
                    Err(error) => Err(error),
                };
                match result {
                    Ok(record) => settled.push(record),
                    Err(error) => {
                        let kinds = [StoreErrorKind::Lost, StoreErrorKind::Unreachable, StoreErrorKind::Busy];
                        assert!(kinds.contains(&error.kind()), "{error:?}");
                        all_lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            settled
        })
    });
    let callers: Vec<_> = callers.collect();
    // Five times, and on until a caller got an error: most broken connections cost a caller nothing.
    let mut kills = 0;
    while kills < 5 || all_lost.load(Ordering::Relaxed) == 0 && !callers.iter().all(JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.kill_backends();
        kills += 1;
    }
    for caller in callers {
        for record in caller.await.expect("no panic") {
            let id = record.id.clone();
            let mut found = store.get(&id).await;
            // A read may be the first to use one of the killed connections.
            while found.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Lost) {
                found = store.get(&id).await;
            }
            assert_eq!(found.expect("the store works"), Some(record));
        }
    }
    let all_lost = all_lost.load(Ordering::Relaxed);
    assert!((1..1_600).contains(&all_lost), "{all_lost} of 3,200 were lost");
}
