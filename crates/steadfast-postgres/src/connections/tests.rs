//! Connections under trouble, on a private server: each is cut, killed, blocked or exhausted for real.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "what is waited for is another process")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use steadfast_core::clock::{Clock, Instant, SystemClock};

use super::*;

use support::pooler::Pooler;
use support::server::{Server, soon};

const SHORT: Limits = Limits {
    lines: 1,
    exclusive: 2,
    statement_max: Duration::from_millis(300),
    wait_max: Duration::from_millis(500),
};

fn connections(url: &str, limits: Limits) -> Connections {
    Connections::new(Address::parse(url).expect("a URL"), limits, None).expect("a thread")
}

/// Runs a statement on a line.
async fn ask(connections: &Connections, statement: &'static str) -> Result<i32, StoreError> {
    let lines = connections.clone();
    connections
        .run(async move {
            let client = lines.get().await?;
            let row = client.query_typed_one(statement, &[]).await.map_err(|error| failure("ask", error))?;
            row.try_get(0).map_err(|error| failure("ask", error))
        })
        .await
}

fn kind(answer: Result<i32, StoreError>) -> StoreErrorKind {
    answer.expect_err("it fails").kind()
}

/// Waits until a statement of another connection is in flight at the server.
fn until_under_way(server: &Server, what: &str) {
    let count =
        format!("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '{what}%' AND state = 'active'");
    soon(|| if server.sql(&count) == "0" { Err("not under way") } else { Ok(()) });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_loses_its_statements_and_is_replaced() {
    let Some(server) = Server::start(&[]) else { return };
    let connections =
        connections(&server.url("x"), Limits { statement_max: Duration::from_secs(60), ..SHORT });
    assert_eq!(ask(&connections, "SELECT 1").await.expect("an answer"), 1);
    for _ in 0..3 {
        let asking = connections.clone();
        let waits = tokio::spawn(async move { ask(&asking, "SELECT 2 FROM pg_sleep(60)").await });
        until_under_way(&server, "SELECT 2");
        server.kill_backends();
        assert_eq!(kind(waits.await.expect("no panic")), StoreErrorKind::Lost);
        // Another connection that was killed may not have noticed yet.
        let mut answer = ask(&connections, "SELECT 3").await;
        while answer.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Lost) {
            answer = ask(&connections, "SELECT 3").await;
        }
        assert_eq!(answer.expect("a new connection"), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_callers_wait_for_a_restart_and_give_up_on_a_server_that_stays_down() {
    let Some(server) = Server::start(&[]) else { return };
    let patient = connections(&server.url("x"), Limits { wait_max: Duration::from_secs(20), ..SHORT });
    let hasty = connections(&server.url("x"), SHORT);
    for connections in [&patient, &hasty] {
        ask(connections, "SELECT 1").await.expect("an answer");
    }
    server.crash();
    // A statement on a connection that has not noticed is lost, and not unreachable.
    let has_noticed = |connections: &Connections| connections.0.lines[0].current().is_none();
    soon(|| if has_noticed(&patient) && has_noticed(&hasty) { Ok(()) } else { Err("not noticed") });
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let connections = patient.clone();
            tokio::spawn(async move { ask(&connections, "SELECT 1").await })
        })
        .collect();
    let clock = SystemClock::new();
    let all = (0..20).map(|_| {
        let connections = hasty.clone();
        async move { kind(ask(&connections, "SELECT 1").await) }
    });
    for kind_of_error in all.collect::<tokio::task::JoinSet<_>>().join_all().await {
        assert_eq!(kind_of_error, StoreErrorKind::Unreachable);
    }
    let waited = clock.now().since(Instant::ORIGIN);
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    server.start_again();
    for waits in waiting {
        assert_eq!(waits.await.expect("no panic").expect("the server is back"), 1);
    }
    soon(|| server.sql_as("postgres", "postgres", "SELECT 1"));
    // It gets the error at once, while it waits before its next try.
    let mut answer = ask(&hasty, "SELECT 1").await;
    while answer.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Unreachable)
        && clock.now().since(Instant::ORIGIN) < Duration::from_secs(120)
    {
        clock.sleep_until(clock.now().plus(Duration::from_millis(10))).await;
        answer = ask(&hasty, "SELECT 1").await;
    }
    answer.expect("the server is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_statement_is_cancelled_and_later_ones_are_answered() {
    let Some(server) = Server::start(&[]) else { return };
    let connections = connections(&server.url("x"), SHORT);
    let clock = SystemClock::new();
    let slow = ask(&connections, "SELECT 1 FROM pg_sleep(60)");
    let behind = ask(&connections, "SELECT 2");
    let (slow, behind) = tokio::join!(slow, behind);
    assert_eq!(kind(slow), StoreErrorKind::TimedOut);
    assert_eq!(behind.expect("answered"), 2);
    assert!(
        clock.now().since(Instant::ORIGIN) < Duration::from_secs(5),
        "{:?}",
        clock.now().since(Instant::ORIGIN)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_to_a_stopped_server_is_cut_and_reopened() {
    let Some(server) = Server::start(&[]) else { return };
    let connections = connections(&server.url("x"), SHORT);
    let backend = ask(&connections, "SELECT pg_backend_pid()").await.expect("an answer");
    let stopped = Stopped::new(backend);
    let clock = SystemClock::new();
    assert_eq!(kind(ask(&connections, "SELECT 1").await), StoreErrorKind::Lost);
    assert!(
        clock.now().since(Instant::ORIGIN) < Duration::from_secs(10),
        "{:?}",
        clock.now().since(Instant::ORIGIN)
    );
    let other = ask(&connections, "SELECT pg_backend_pid()").await.expect("a new connection");
    assert_ne!(other, backend);
    drop(stopped);
}

/// A host without power does not answer, and neither does a commit that waits for a standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_on_a_stopped_server_releases_its_connection() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE public.row (number integer)");
    let connections = connections(&server.url("x"), Limits { exclusive: 1, ..SHORT });
    let clock = SystemClock::new();
    for is_begun in [false, true] {
        let mut own = connections.exclusive().await.expect("a connection");
        own.begin().await.expect("begun");
        let row = own.query_typed_one("SELECT pg_backend_pid()", &[]).await.expect("a row");
        let stopped = Stopped::new(row.get(0));
        if is_begun {
            assert_eq!(own.commit().await.expect_err("no answer").kind(), StoreErrorKind::Lost);
        }
        // Its rollback is not answered either.
        drop(own);
        write(&connections, 1).await.expect("there is another connection");
        drop(stopped);
    }
    let took = clock.now().since(Instant::ORIGIN);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A process that is stopped until this is dropped.
struct Stopped(rustix::process::Pid);

impl Stopped {
    fn new(process: i32) -> Stopped {
        let process = rustix::process::Pid::from_raw(process).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::STOP).expect("stopped");
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_blocks_no_other() {
    let Some(server) = Server::start(&[]) else { return };
    let connections =
        connections(&server.url("x"), Limits { statement_max: Duration::from_secs(60), ..SHORT });
    ask(&connections, "SELECT 1").await.expect("an answer");
    for _ in 0..5 {
        let lines = connections.clone();
        let long = connections.run(async move {
            let client = lines.get().await?;
            let rows =
                client.query_typed("SELECT repeat('x', 1000) FROM generate_series(1, 20000)", &[]).await;
            rows.map(|rows| rows.len()).map_err(|error| failure("ask", error))
        });
        let gone = tokio::time::timeout(Duration::from_millis(1), long).await;
        drop(gone);
    }
    assert_eq!(ask(&connections, "SELECT 2").await.expect("answered"), 2);
}

/// Writes a row in a transaction, and leaves it open.
async fn write(connections: &Connections, number: i32) -> Result<Exclusive, StoreError> {
    let mut own = connections.exclusive().await?;
    own.begin().await?;
    let sql = "INSERT INTO public.row VALUES ($1)";
    own.execute_typed(sql, &[(&number, Type::INT4)]).await.map_err(|error| failure("write", error))?;
    Ok(own)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_transaction_is_rolled_back_unless_it_was_committed() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE public.row (number integer)");
    let connections = connections(&server.url("x"), SHORT);
    for number in 1..=20 {
        let mut own = write(&connections, number).await.expect("written");
        if number % 2 == 0 {
            own.commit().await.expect("committed");
        }
    }
    assert_eq!(
        ask(&connections, "SELECT count(*)::int FROM public.row WHERE number % 2 = 0").await.expect("rows"),
        10
    );
    assert_eq!(ask(&connections, "SELECT count(*)::int FROM public.row").await.expect("rows"), 10);
    let open = "SELECT count(*)::int FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    // The last transaction that was dropped is rolled back on its own connection, while another is used.
    let undone = async { while ask(&connections, open).await.expect("a count") > 0 {} };
    tokio::time::timeout(Duration::from_secs(30), undone).await.expect("every transaction is over");
    let made = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'steadfast'";
    assert!(ask(&connections, made).await.expect("a count") <= 3, "connections are used again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_a_free_connection_waits_and_then_gets_busy() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE public.row (number integer)");
    let connections = connections(&server.url("x"), SHORT);
    let held = [write(&connections, 1).await.expect("free"), write(&connections, 2).await.expect("free")];
    let error = write(&connections, 3).await.err().expect("both are in use");
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(error.to_string().starts_with("all 2 connections of the store were in use for 500ms"), "{error}");
    drop(held);
    write(&connections, 4).await.expect("free again").commit().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_limits_each_statement_of_a_transaction() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE public.row (number integer)");
    let connections = connections(&server.url("x"), SHORT);
    let own = write(&connections, 1).await.expect("written");
    let slow = own.batch_execute("SELECT pg_sleep(60)").await.expect_err("too long");
    assert_eq!(failure("wait", slow).kind(), StoreErrorKind::TimedOut);
    drop(own);
    assert_eq!(ask(&connections, "SELECT count(*)::int FROM public.row").await.expect("a count"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_lost_and_not_failed() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql(
        "CREATE TABLE public.row (number integer); \
         CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON public.row DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION public.dawdle()",
    );
    let connections =
        connections(&server.url("x"), Limits { statement_max: Duration::from_secs(60), ..SHORT });
    let mut own = write(&connections, 1).await.expect("written");
    let commits = tokio::spawn(async move { own.commit().await });
    until_under_way(&server, "COMMIT");
    server.crash();
    let error = commits.await.expect("no panic").expect_err("no answer");
    assert_eq!(error.kind(), StoreErrorKind::Lost, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_session_keeps_no_state_of_the_store() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE TABLE public.row (number integer)");
    let Some(pooler) = Pooler::start(&server, &["default_pool_size = 2"]) else { return };
    let limits = Limits {
        lines: 2,
        exclusive: 4,
        statement_max: Duration::from_secs(5),
        wait_max: Duration::from_secs(20),
    };
    let connections = connections(&pooler.url("x"), limits);
    let mut working = Vec::new();
    for number in 0..200 {
        let connections = connections.clone();
        working.push(tokio::spawn(async move {
            if number % 4 == 0 {
                let mut own = write(&connections, number).await?;
                own.commit().await?;
                return Ok(1);
            }
            ask(
                &connections,
                "WITH added AS (INSERT INTO public.row VALUES (1) RETURNING 1) SELECT 1 FROM added",
            )
            .await
        }));
    }
    for work in working {
        assert_eq!(work.await.expect("no panic").expect("done"), 1);
    }
    assert_eq!(ask(&connections, "SELECT count(*)::int FROM public.row").await.expect("a count"), 200);
    // Each session that the pooler has, more than once.
    for _ in 0..8 {
        let set = "SELECT count(*)::int FROM pg_prepared_statements WHERE name <> ''";
        assert_eq!(ask(&connections, set).await.expect("a count"), 0);
        let limit = "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'";
        assert_eq!(ask(&connections, limit).await.expect("a setting"), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pooler_is_busy_and_one_without_a_server_is_unreachable() {
    let Some(server) = Server::start(&[]) else { return };
    let settings = ["default_pool_size = 1", "query_wait_timeout = 1", "server_login_retry = 1"];
    let Some(pooler) = Pooler::start(&server, &settings) else { return };
    let limits = Limits { statement_max: Duration::from_secs(30), ..SHORT };
    let (one, other) = (connections(&pooler.url("x"), limits), connections(&pooler.url("x"), limits));
    ask(&other, "SELECT 1").await.expect("an answer");
    let mut holds = one.exclusive().await.expect("a connection");
    holds.begin().await.expect("begun");
    assert_eq!(kind(ask(&other, "SELECT 1").await), StoreErrorKind::Busy);
    drop(holds);
    server.crash();
    let kind_of_error = kind(ask(&other, "SELECT 1").await);
    assert!(
        matches!(kind_of_error, StoreErrorKind::Unreachable | StoreErrorKind::Lost | StoreErrorKind::Busy),
        "{kind_of_error:?}"
    );
    server.start_again();
    let clock = SystemClock::new();
    while ask(&other, "SELECT 1").await.is_err() {
        assert!(
            clock.now().since(Instant::ORIGIN) < Duration::from_secs(20),
            "the pooler's server is back, and the store is not"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_caller_gets_the_servers_refusal() {
    let Some(server) = Server::start(&[]) else { return };
    let connections = connections(&server.url("x"), SHORT);
    for (statement, expected) in [
        ("SELECT 1 FROM nowhere.operation", StoreErrorKind::Absent),
        ("SELECT absent FROM pg_class", StoreErrorKind::Older),
        ("SELECT 1 / 0", StoreErrorKind::Invalid),
        ("SELECT 1 +", StoreErrorKind::Other),
    ] {
        assert_eq!(kind(ask(&connections, statement).await), expected, "{statement}");
    }
    let error = ask(&connections, "SELECT 1 FROM nowhere.operation").await.expect_err("absent");
    assert!(Arc::new(error).to_string().contains("run `steadfast migrate`"));
}
