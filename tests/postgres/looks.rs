//! Looks of an idle dispatcher: one narrow question, and not too often.

use std::sync::Arc;
use std::time::Duration;

use support::calls::{claim_of, held, id, named, settle, step};
use support::pooler::Pooler;
use support::server::{self, Server, soon};

use steadfast::Client;
use steadfast::clock::Timestamp;
use steadfast::dispatcher::Dispatcher;
use steadfast::operation::record::{Claim, State};
use steadfast::store::{Postgres, Store};
use steadfast::testkit::ScriptedTransport;
use steadfast_core::store::delivery::{Delivery, Look, Sight, Waiting};

use super::driven::fresh_schema;
use super::outbox::connection;
use super::stripe;

fn open(server: &Server, schema: &str) -> Arc<Postgres> {
    let builder = Postgres::builder(&server.url(schema)).expect("a URL of the rig");
    Arc::new(builder.open().expect("the store opens"))
}

async fn look(store: &Postgres, accounts: &[&str]) -> Sight {
    let now = store.time(Timestamp::default());
    let accounts = accounts.iter().map(|account| (*account).to_owned()).collect();
    let look = Look { now, until: now.plus(Duration::from_secs(1)), accounts, outbox: Vec::new() };
    store.look(&look).await.expect("the store works")
}

/// In order and each account for itself, also none and the same one twice; by the server's clock, whatever the
/// look's time is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_look_returns_each_account_in_order() {
    let Some(server) = server::shared() else { return };
    let store = open(server, &fresh_schema("looks"));
    let claim = claim_of(&*store, &id("due"));
    held(&*store, Claim { due: Some(claim.now), ..claim }).await;
    let claim = claim_of(&*store, &named("test/races/later/POST /x", "later"));
    held(&*store, Claim { due: Some(claim.now.plus(Duration::from_secs(600))), ..claim }).await;
    let record = held(&*store, Claim { keep: Duration::ZERO, ..claim_of(&*store, &id("done")) }).await;
    settle(&*store, &record).await;
    let asked = ["test/races/nobody", "test/races/a", "test/races/later", "test/races/a"];
    for _ in 0..3 {
        let seen = look(&store, &asked).await;
        let due: Vec<bool> = seen.waiting.iter().map(|waiting| waiting.due.is_some()).collect();
        assert_eq!(due, [false, true, false, true], "{seen:?}");
        assert!(seen.expired && seen.waiting.iter().all(|waiting| !waiting.lapsed), "{seen:?}");
    }
    assert_eq!(look(&store, &[]).await.waiting, []);
    // A host that is years behind.
    let now = Timestamp::from_millis(1_000);
    let look = Look {
        now,
        until: now.plus(Duration::from_secs(1)),
        accounts: vec![asked[1].to_owned()],
        outbox: Vec::new(),
    };
    let seen = store.look(&look).await.expect("the store works");
    assert!(seen.waiting[0].due.is_some_and(|due| due > now.plus(Duration::from_secs(3_600))), "{seen:?}");
}

/// A row that commits long after it was due lies below what was already seen. It is found a few seconds later.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn a_look_finds_what_commits_long_after_it_was_due() {
    let Some(server) = server::shared() else { return };
    let store = open(server, &fresh_schema("looks"));
    assert_eq!(look(&store, &["test/races/a"]).await.waiting, [Waiting::default()]);
    let claim = claim_of(&*store, &id("late"));
    held(&*store, Claim { due: Some(claim.now.minus(Duration::from_secs(3_600))), ..claim }).await;
    let began = std::time::Instant::now();
    while look(&store, &["test/races/a"]).await.waiting[0].due.is_none() {
        assert!(began.elapsed() < Duration::from_secs(30), "nobody looks there");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A renewed lease may look expired. A take then finds nothing, and no later look does either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_renewed_lease_is_read_once() {
    let Some(server) = server::shared() else { return };
    let store = open(server, &fresh_schema("looks"));
    let claim = Claim { lease: Duration::from_millis(1), ..claim_of(&*store, &id("held")) };
    let record = held(&*store, claim).await;
    let renew = step(&*store, &record, State::InProgress { lease_until: record.updated_at });
    store.transition(&record, renew).await.expect("the store works").expect("it is held");
    assert!(look(&store, &["test/races/a"]).await.waiting[0].lapsed, "the index does not know yet");
    let take = support::calls::due(&*store, 10);
    let take = steadfast::operation::record::Takeover {
        phase: steadfast::operation::record::Phase::InProgress,
        ..take
    };
    assert_eq!(store.take(take).await.expect("the store works"), []);
    assert!(!look(&store, &["test/races/a"]).await.waiting[0].lapsed);
}

/// Enqueues in one process an operation that another one delivers, within so long.
async fn enqueue(store: Arc<dyn Store>, network: &ScriptedTransport, limit: Duration) {
    let client = stripe(store, network);
    let charge = client.post("/v1/charges").key("order-1").form(&[("amount", "1000")]);
    charge.enqueue().await.expect("it is recorded");
    let began = std::time::Instant::now();
    while network.requests().is_empty() {
        assert!(began.elapsed() < limit, "nobody delivers it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of sessions that listen for this schema.
fn listeners(server: &Server, schema: &str) -> String {
    server.sql(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"steadfast_{schema}\"%'"
    ))
}

/// A process whose dispatcher looks once an hour, and listens.
fn listening(server: &Server, schema: &str, network: &ScriptedTransport) -> (Client, Dispatcher) {
    let client = stripe(open(server, schema), network);
    let dispatcher = Dispatcher::over([&client]).period(Duration::from_secs(3_600)).start();
    soon(|| if listeners(server, schema) == "1" { Ok(()) } else { Err("nobody listens") });
    (client, dispatcher)
}

/// The dispatcher looks once an hour: a notification wakes it when another process enqueues.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_notification_wakes_another_processs_dispatcher() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("heard");
    let network = ScriptedTransport::new().status(200);
    let _dispatching = listening(server, &schema, &network);
    enqueue(open(server, &schema), &network, Duration::from_secs(20)).await;
}

/// A listening connection that is cut is reopened.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_listener_reconnects_after_its_connection_was_cut() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("heard");
    let network = ScriptedTransport::new().status(200);
    let _dispatching = listening(server, &schema, &network);
    server.sql(&format!(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"steadfast_{schema}\"%'"
    ));
    soon(|| if listeners(server, &schema) == "1" { Ok(()) } else { Err("nobody listens again") });
    enqueue(open(server, &schema), &network, Duration::from_secs(20)).await;
}

/// An operation that plain SQL enqueues is notified at its commit, and not before; also for a role that has
/// nothing but the function.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plain_sql_notifies_dispatchers() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("heard");
    let network = ScriptedTransport::new().status(200).status(200).status(200).status(200);
    let (dispatching, _dispatcher) = listening(server, &schema, &network);
    let put = |key: &str| {
        format!(
            "SELECT {schema}.enqueue_text('stripe', 'POST', '/v1/charges', '{key}', 'amount=1000', \
             'application/x-www-form-urlencoded', account => 'test')"
        )
    };
    for (nth, how) in
        [put("a"), format!("BEGIN; {}; SELECT pg_sleep(0.3); COMMIT", put("b"))].iter().enumerate()
    {
        server.sql(how);
        let began = std::time::Instant::now();
        while network.requests().len() <= nth {
            assert!(began.elapsed() < Duration::from_secs(20), "nobody delivers {how}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // An operation that is due much later is not notified, and the next one does not count as notified.
    server.sql(&format!(
        "{}; {}",
        put("later").replace("'test')", "'test', after => '1 hour')"),
        put("behind")
    ));
    soon(|| if network.requests().len() == 3 { Ok(()) } else { Err("nobody delivers it") });
    // A caller with two-phase commits, or a server without NOTIFY, switches it off.
    server.sql(&format!("SET steadfast.notify = 'off'; {}", put("c")));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(network.requests().len(), 3, "nobody was told");
    dispatching.wake();
    soon(|| if network.requests().len() == 4 { Ok(()) } else { Err("not yet") });
}

/// Behind a pooler in transaction mode, and where it is not to be used, nobody listens: what is enqueued is found by
/// looking.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn behind_a_pooler_what_another_process_enqueues_is_found_by_looking() {
    let Some(server) = server::shared() else { return };
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    let schema = fresh_schema("looked");
    for url in [pooler.url(&schema), format!("{}&portable=on", server.url(&schema))] {
        let store: Arc<dyn Store> = Arc::new(super::opened(&url).expect("it opens"));
        let network = ScriptedTransport::new().status(200);
        let dispatching = stripe(store, &network);
        let dispatcher = Dispatcher::over([&dispatching]).period(Duration::from_millis(500)).start();
        // Longer than a process that may listen needs to begin.
        for _ in 0..20 {
            assert_eq!(listeners(server, &schema), "0", "{url}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        enqueue(open(server, &schema), &network, Duration::from_secs(20)).await;
        drop(dispatcher);
        server.sql(&format!(
            "DELETE FROM {schema}.operation; DELETE FROM {schema}.request; DELETE FROM {schema}.outcome"
        ));
    }
}

/// A store with so many rows of a phase, each with this end, on a server of its own: its counters are those of
/// its statements alone. `None` if the machine has no Postgres.
async fn filled(phase: &str, until: &str, rows: u32) -> Option<(Server, String, Arc<Postgres>)> {
    let server = Server::start(&[])?;
    let schema = fresh_schema("looks");
    let store = open(&server, &schema);
    held(&*store, claim_of(&*store, &id("template"))).await;
    server.sql(&format!(
        "CREATE TEMP TABLE o AS SELECT * FROM {schema}.operation; \
         INSERT INTO {schema}.operation SELECT (jsonb_populate_record(o, jsonb_build_object('key', 'order-' || nth, \
         'phase', {phase}, 'until_ms', {until}, 'wake_ms', {until}))).* FROM o, generate_series(1, {rows}) AS nth; \
         ANALYZE {schema}.operation"
    ));
    Some((server, schema, store))
}

/// Returns the server's counters of some of a schema's indexes.
fn counted(server: &Server, schema: &str, count: &str, of: &str) -> i64 {
    let sql = format!("SELECT {count} FROM pg_stat_user_indexes WHERE schemaname = '{schema}' AND {of}");
    server.sql(&sql).parse().expect("a number")
}

/// Of a backlog that is not due yet, and of all that has ended, a look reads nothing.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn a_look_reads_what_it_tells_of_and_no_more() {
    let Some((server, schema, store)) = filled("2", "until_ms - 400000", 20_000).await else { return };
    look(&store, &["test/races/a"]).await;
    let read = || counted(&server, &schema, "sum(idx_tup_read)", "relname = 'operation'");
    let before = read();
    // A session reports its reads at most once a second: the last looks are for that.
    for round in 0..3 {
        for _ in 0..10 {
            look(&store, &["test/races/a", "test/races/b"]).await;
        }
        if round < 2 {
            std::thread::sleep(Duration::from_millis(1_200));
        }
    }
    let after = read();
    assert!(after - before < 2_000, "{} entries of the index were read", after - before);
}

/// Under an old snapshot no vacuum removes the entries of what was purged: the next purge begins behind them.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn a_purge_goes_on_where_the_last_one_ended() {
    let Some((server, schema, store)) = filled("3", "1000 + nth", 2_100).await else { return };
    let report = connection(&server, &schema).await;
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {schema}.operation");
    report.batch_execute(&begin).await.expect("begins");
    let read = || counted(&server, &schema, "idx_tup_read", "indexrelname = 'operation_ended'");
    let (before, now) = (read(), store.time(Timestamp::default()));
    for round in 0..3 {
        for _ in 0..[98, 1, 1][round] {
            assert_eq!(store.purge(now, 20).await.expect("the store works"), 20);
        }
        // A session reports its reads at most once a second: the last purges are for that.
        std::thread::sleep(Duration::from_millis(1_200));
    }
    let after = read();
    // From the beginning each time it would be 100,000.
    assert!(after - before < 20_000, "{} entries of the index were read", after - before);
    report.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(store.purge(now, 1_000).await.expect("the store works"), 100);
}

/// Statistics that know of nothing in progress make the index of what is open look empty. Under an old snapshot it holds an
/// entry of all that was ever open: whoever settles by it reads them all.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn what_is_settled_is_found_by_its_name() {
    let Some((server, schema, store)) = filled("3", "1000 + nth", 20_000).await else { return };
    server.sql(&format!(
        "UPDATE {schema}.operation SET phase = 3 WHERE key = 'template'; ANALYZE {schema}.operation"
    ));
    let scans = || counted(&server, &schema, "idx_scan", "indexrelname = 'operation_open'");
    let before = scans();
    for nth in 0..20 {
        let key = format!("settled-{nth}");
        let record = held(&*store, claim_of(&*store, &named("test/races/a/POST /x", &key))).await;
        settle(&*store, &record).await;
    }
    // A session reports its reads at most once a second: the last one is for that.
    std::thread::sleep(Duration::from_millis(1_200));
    let record = held(&*store, claim_of(&*store, &id("last"))).await;
    settle(&*store, &record).await;
    // Reads of an earlier look in another session may be counted late.
    let scanned = scans() - before;
    assert!(scanned < 10, "the index of what is open was read {scanned} times for 21 operations");
}
