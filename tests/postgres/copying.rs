//! Copies from and to Postgres, and a closed store that stays closed against concurrent writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::calls::{self, LEASE, claim_of, held, id, settle, step};
use support::in_memory;
use support::server::{self, ASLEEP, Server, soon};
use tokio::task::JoinSet;

use steadfast::Sequence;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, State, Takeover, Transition};
use steadfast::store::{self, CopyError, Copying, Memory, Postgres, SealKeys, Sqlite, Store, StoreErrorKind};
use steadfast::testkit::contract;
use steadfast_core::store::maintenance::{Stage, Standing};

use super::driven::{Driven, fresh_schema};
use super::outbox::connection;

async fn driven(server: &Server, keys: Option<SealKeys>) -> Arc<dyn Store> {
    let schema = fresh_schema("copied");
    let builder = Postgres::builder(&server.url(&schema)).expect("a URL of the rig");
    let builder = keys.into_iter().fold(builder, store::PostgresBuilder::seal);
    Arc::new(Driven::open(builder, &server.url(&schema), &schema).await)
}

fn open(server: &Server, schema: &str) -> Arc<Postgres> {
    let builder = Postgres::builder(&server.url(schema)).expect("a URL of the rig");
    Arc::new(tokio::task::block_in_place(|| builder.open()).expect("the store opens"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_are_copied_from_postgres_to_postgres() {
    let Some(server) = server::shared() else { return };
    contract::check_maintenance(async || driven(server, None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_are_copied_from_a_file_to_postgres_and_back() {
    let Some(server) = server::shared() else { return };
    let directory = in_memory::directory();
    let files = AtomicUsize::new(0);
    let file = || -> Arc<dyn Store> {
        let name = format!("{}.db", files.fetch_add(1, Ordering::Relaxed));
        Arc::new(Sqlite::open(directory.path().join(name)).expect("opens"))
    };
    contract::check_copy(file(), driven(server, None).await).await;
    contract::check_copy(driven(server, None).await, file()).await;
    let (one, two) = (SealKeys::new([1; 32]), SealKeys::new([2; 32]));
    contract::check_copy(file(), driven(server, Some(one.clone())).await).await;
    contract::check_copy(driven(server, Some(one)).await, driven(server, Some(two)).await).await;
    contract::check_copy(Arc::new(Memory::new()), driven(server, None).await).await;
}

fn leaving() -> Standing {
    Standing { stage: Stage::Leaving, copy: "1".to_owned(), other: "the new store".to_owned() }
}

/// Claimants in two processes, and a third process that closes the store in their midst: an operation that
/// began is on record by then, and none begins after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_begins_once_a_store_is_closed() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("closing");
    let stores = [open(server, &schema), open(server, &schema)];
    let claimants = (0..16).map(|claimant| {
        let store = Arc::clone(&stores[claimant % 2]);
        tokio::spawn(async move {
            let mut begun = 0;
            loop {
                let key = id(&format!("order-{claimant}-{begun}"));
                match store.claim(claim_of(&*store, &key)).await {
                    Ok(Claimed::Fresh(_)) => begun += 1,
                    Ok(result) => panic!("{result:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), StoreErrorKind::Closed, "{error:?}");
                        assert!(error.to_string().contains("the new store"), "{error}");
                        return begun;
                    }
                }
            }
        })
    });
    let claimants: Vec<_> = claimants.collect();
    let count = || server.sql(&format!("SELECT count(*) FROM {schema}.operation"));
    soon(|| if count().parse::<u32>().is_ok_and(|count| count > 50) { Ok(()) } else { Err("not yet") });
    let keep = stores[1].maintenance().expect("it has");
    let there = keep.stand(&Standing::default(), &leaving()).await.expect("the store works");
    assert_eq!(there, leaving());
    let at_the_close = count();
    let mut begun = 0;
    for claimant in claimants {
        begun += claimant.await.expect("no panic");
    }
    assert_eq!((count(), begun.to_string()), (at_the_close.clone(), at_the_close));
    // A holder may still settle its operation.
    let left = stores[0].get(&id("order-0-0")).await.expect("it is read").expect("it is there");
    settle(&*stores[0], &left).await;
    keep.stand(&leaving(), &Standing::default()).await.expect("the store works");
    held(&*stores[0], claim_of(&*stores[0], &id("again"))).await;
}

/// Somebody's own transaction has added a row and stays open: whoever closes the store waits for it.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn a_store_is_not_closed_before_what_is_under_way_is_over() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("closing");
    let store = open(server, &schema);
    held(&*store, claim_of(&*store, &id("template"))).await;
    let add = add_row(&schema, "open");
    let transaction = format!("BEGIN; {add}; SELECT pg_sleep(2.5); COMMIT");
    let open = tokio::task::spawn_blocking(move || server.sql(&transaction));
    server.until_one_waits(ASLEEP, &schema);
    let keep = store.maintenance().expect("it has");
    keep.stand(&Standing::default(), &leaving()).await.expect("the store works");
    assert_eq!(server.sql(&format!("SELECT count(*) FROM {schema}.operation")), "2", "it was waited for");
    open.await.expect("no panic");
    let refused =
        server.sql_as("postgres", "postgres", &format!("BEGIN; {}; COMMIT", add_row(&schema, "late")));
    let refused = refused.expect_err("the store is closed");
    assert!(refused.contains("the store is closed"), "{refused}");
}

/// The closing process waits for a call in a caller's own transaction, and counts it; or the call is refused.
/// In an outbox that no dispatcher reads, it would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closing_a_store_counts_or_refuses_an_open_transactions_call() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("closing");
    let store = open(server, &schema);
    let put = |key| format!("SELECT {schema}.enqueue('acme', 'POST', '/v1/x', '{key}')");
    let rows = || server.sql(&format!("SELECT count(*) FROM {schema}.outbox"));
    let shop = connection(server, &schema).await;
    shop.batch_execute(&format!("BEGIN; {}", put("open"))).await.expect("it is written");
    let closing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.maintenance().expect("it has").stand(&Standing::default(), &leaving()).await }
    });
    let waits =
        format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{schema}.outbox'::regclass");
    soon(|| if server.sql(&waits) == "0" { Err("nobody waits") } else { Ok(()) });
    shop.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(closing.await.expect("no panic").expect("the store works"), leaving());
    assert_eq!(rows(), "1");
    // A transaction that began before.
    let keep = store.maintenance().expect("it has");
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        keep.stand(&leaving(), &Standing::default()).await.expect("the store works");
        let begin = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT stage FROM {schema}.store_state");
        shop.batch_execute(&begin).await.expect("begins");
        keep.stand(&Standing::default(), &leaving()).await.expect("the store works");
        let refused = shop.batch_execute(&put("late")).await;
        assert!(refused.is_err(), "{isolation}");
        shop.batch_execute("ROLLBACK").await.expect("rolls back");
        // At every isolation, an open store takes it.
        keep.stand(&leaving(), &Standing::default()).await.expect("the store works");
        let whole = format!("BEGIN ISOLATION LEVEL {isolation}; {}; COMMIT", put(isolation));
        shop.batch_execute(&whole).await.expect("it is written");
        keep.stand(&Standing::default(), &leaving()).await.expect("the store works");
    }
    assert_eq!(rows(), "4");
}

/// Returns statements that add a copy of the row `template`, as a service's own transaction may.
fn add_row(schema: &str, key: &str) -> String {
    format!(
        "CREATE TEMP TABLE o AS SELECT * FROM {schema}.operation WHERE key = 'template'; UPDATE o SET key = '{key}'; \
         CREATE TEMP TABLE r AS SELECT * FROM {schema}.request WHERE key = 'template'; \
         UPDATE r SET key = '{key}', number = number + 1000; \
         INSERT INTO {schema}.operation SELECT * FROM o; INSERT INTO {schema}.request SELECT * FROM r"
    )
}

/// A call that a caller's transaction puts into the outbox stays in no store that is closed: whoever closes it waits for the
/// transaction and finds the row, or the transaction fails, also where it reads from a snapshot of long ago.
#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
pub async fn no_call_is_left_in_the_outbox_of_a_store_that_is_closed() {
    let Some(server) = server::shared() else { return };
    let isolations = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    let cases = isolations.into_iter().flat_map(|isolation| [(isolation, true), (isolation, false)]);
    // They wait for the server: all of them at once.
    let cases = cases.map(|(isolation, is_put_before)| async move {
        let schema = fresh_schema("closing");
        let store = open(server, &schema);
        let put = format!("SELECT {schema}.enqueue('acme', 'POST', '/x', 'order-42')");
        let (before, after) = if is_put_before { (&*put, "SELECT 1") } else { ("SELECT 1", &*put) };
        let transaction = format!(
            "BEGIN ISOLATION LEVEL {isolation}; SELECT purged_fence FROM {schema}.store_state; {before}; SELECT pg_sleep(2.5); \
             {after}; COMMIT"
        );
        let open = tokio::task::spawn_blocking(move || server.sql_as("postgres", "postgres", &transaction));
        server.until_one_waits(ASLEEP, &schema);
        let copied =
            store::copy(&*store, &Memory::new(), &Copying::new("the old store", "the new one")).await;
        let committed = open.await.expect("no panic");
        let case = format!("{isolation}, put before: {is_put_before}; {committed:?}; {copied:?}");
        let rows = server.sql(&format!("SELECT count(*) FROM {schema}.outbox"));
        if is_put_before {
            assert!(matches!(copied, Err(CopyError::Outbox { rows: 1, rejected: 0 })), "{case}");
            let head = store.maintenance().expect("it has").head().await.expect("the store works");
            assert_eq!((committed.is_ok(), &*rows, head.standing.stage), (true, "1", Stage::Open), "{case}");
        } else {
            assert!(copied.is_ok(), "{case}");
            assert_eq!((committed.is_err(), &*rows), (true, "0"), "{case}");
        }
    });
    cases.collect::<JoinSet<()>>().join_all().await;
}

/// A transaction that reads from one snapshot does not see a fence that was purged since. It must not begin below it.
#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
pub async fn no_life_begins_below_a_purged_fence_in_a_transaction_of_one_snapshot() {
    let Some(server) = server::shared() else { return };
    let cases = ["REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"].map(|isolation| async move {
        let schema = fresh_schema("snapshot");
        let store = open(server, &schema);
        held(&*store, claim_of(&*store, &id("template"))).await;
        let add = add_row(&schema, "again");
        let transaction = format!(
            "BEGIN ISOLATION LEVEL {isolation}; SELECT purged_fence FROM {schema}.store_state; SELECT pg_sleep(2.5); {add}; COMMIT"
        );
        let open = tokio::task::spawn_blocking(move || server.sql_as("postgres", "postgres", &transaction));
        server.until_one_waits(ASLEEP, &schema);
        server.sql(&format!("UPDATE {schema}.store_state SET purged_fence = 7"));
        let ended = open.await.expect("no panic");
        assert!(ended.is_err(), "{isolation}: {ended:?}");
        assert_eq!(server.sql(&format!("SELECT count(*) FROM {schema}.operation")), "1", "{isolation}");
    });
    cases.into_iter().collect::<JoinSet<()>>().join_all().await;
}

/// A service of the role `app` adds rows in its own transaction at any isolation.
#[test]
fn an_app_adds_rows_in_a_transaction_of_one_snapshot() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("snapshot");
    let builder = Postgres::builder(&server.url(&schema)).expect("a URL");
    builder.apply_migrations(true).expect("made, with roles");
    server.sql(&format!("CREATE ROLE {schema}_as_app LOGIN; GRANT {schema}_app TO {schema}_as_app"));
    let store = super::opened(&server.url(&schema)).expect("it opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { held(&store, claim_of(&store, &id("template"))).await });
    let transaction = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {}; COMMIT", add_row(&schema, "mine"));
    server.sql_as(&format!("{schema}_as_app"), "postgres", &transaction).expect("it may");
}

/// The terms of an account are those of the first of many processes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_concurrent_registrations_is_the_first() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("terms");
    let stores = [open(server, &schema), open(server, &schema)];
    let registering = (0..16).map(|nth| {
        let store = Arc::clone(&stores[nth % 2]);
        tokio::spawn(async move {
            store.register("prod/acme/a", Some(&nth.to_string())).await.expect("the store works")
        })
    });
    let (mut first, mut result) = (0, std::collections::BTreeSet::new());
    for registering in registering.collect::<Vec<_>>() {
        match registering.await.expect("no panic") {
            None => first += 1,
            Some(terms) => {
                result.insert(terms);
            }
        }
    }
    assert_eq!((first, result.len()), (1, 1));
    let head = stores[0].maintenance().expect("it has").head().await.expect("the store works");
    assert_eq!(head.accounts.into_values().collect::<Vec<_>>(), result.into_iter().collect::<Vec<_>>());
}

/// Between two answers a store uses its own monotonic clock; stored times are the server's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stored_times_are_the_servers() {
    let Some(server) = server::shared() else { return };
    let skewed = steadfast::testkit::TestClock::new();
    let builder = Postgres::builder(&server.url(&fresh_schema("clock"))).expect("a URL of the rig");
    let by_test = builder.clone().clock(skewed.clone()).open().expect("it opens");
    let by_machine = builder.open().expect("it opens");
    let far = Timestamp::from_millis(1);
    let before = by_machine.believed(far).await.expect("the store works");
    std::thread::sleep(Duration::from_millis(300));
    assert!(by_machine.time(far).since(before) >= Duration::from_millis(250), "it does not stand still");
    let claim = Claim { now: far, ..claim_of(&by_machine, &id("order-1")) };
    let record = held(&by_machine, claim).await;
    assert!(record.claimed_at >= before, "on record at the server's time");
    let shown = by_test.time(far);
    skewed.advance(Duration::from_secs(3_600));
    assert_eq!(by_test.time(far), shown.plus(Duration::from_secs(3_600)), "it goes on as its clock does");
    let now = by_test.believed(far).await.expect("the store works");
    assert!(now < shown.plus(Duration::from_secs(60)), "the server's own time is another");
    // The same holds for a take, and for the time of an operation of a sequence.
    let due = claim_of(&by_machine, &id("order-2"));
    let (due, sequence) = (Some(due.now), Some(Sequence::new("s")));
    held(&by_machine, Claim { due, sequence, ..claim_of(&by_machine, &id("order-2")) }).await;
    let take = Takeover { now: far, account: None, ..calls::due(&by_machine, 10) };
    let taken = by_machine.take(take).await.expect("the store works").pop().expect("it is due by the server");
    assert!(taken.until() > Some(before.plus(LEASE)), "{taken:?}");
    let later = step(&by_machine, &taken, State::Scheduled { at: far.plus(LEASE) });
    let later = by_machine.transition(&taken, Transition { now: far, ..later }).await;
    let later = later.expect("the store works").expect("its holder may write");
    assert!(later.until() > Some(before.plus(LEASE)), "{later:?}");
}
