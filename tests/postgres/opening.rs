//! Obstacles to opening a store: each with its kind, and with advice.

use std::time::{Duration, Instant};

use steadfast::clock::Timestamp;
use steadfast::store::{Postgres, Store as _, StoreErrorKind};
use steadfast::testkit::TestClock;

use super::driven::fresh_schema;
use super::{error_text, opened, refused};
use support::server::{self, Server, free_port};

#[test]
fn a_store_opens_and_opens_again() {
    let Some(server) = server::shared() else { return };
    for _ in 0..2 {
        opened(&server.url("opening")).expect("it opens");
    }
    assert_eq!(server.sql("SELECT count(*) FROM opening.steadfast_migration"), "1");
}

#[tokio::test]
async fn a_store_opens_inside_a_runtime() {
    let Some(server) = server::shared() else { return };
    opened(&server.url("inside")).expect("it opens");
}

#[test]
fn a_dropped_store_ends_its_connections() {
    let Some(server) = server::shared() else { return };
    let mut url = server.url("dropped");
    url.push_str("&application_name=dropped");
    let count = || server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dropped'");
    let store = opened(&url).expect("it opens");
    assert_ne!(count(), "0");
    drop(store);
    server::soon(|| if count() == "0" { Ok(()) } else { Err("connections stay") });
}

#[test]
fn an_address_without_a_server_is_unreachable_after_the_wait() {
    let since = Instant::now();
    let url = format!("postgres://shop:hunter2@127.0.0.1:{}/shop?sslmode=disable", free_port());
    let text = refused(&url, StoreErrorKind::Unreachable);
    assert!(
        text.contains("check host and port") && text.contains("refused") && !text.contains("hunter2"),
        "{text}"
    );
    assert!(since.elapsed() >= Duration::from_secs(1), "a server that restarts is waited for");
    assert!(since.elapsed() < Duration::from_secs(60), "but not for ever");
}

#[test]
fn a_wrong_password_is_denied_at_once_and_never_shown() {
    let Some(server) = Server::start(&[]) else { return };
    server.sql("CREATE ROLE shop LOGIN PASSWORD 'right'");
    let hba = "local all postgres trust\nlocal all all scram-sha-256\n";
    std::fs::write(server.directory().join("data/pg_hba.conf"), hba).expect("written");
    server.sql("SELECT pg_reload_conf()");
    let url = |password: &str| server.url_as(&format!("shop{password}"), "postgres", "shop");
    let since = Instant::now();
    let refused = |url: &str| {
        let builder = Postgres::builder(url).expect("a URL").wait(Duration::from_secs(60));
        error_text(&builder.open().expect_err("it must not open"), StoreErrorKind::Denied)
    };
    let text = refused(&url(":hunter2"));
    assert!(text.contains("check name and password") && !text.contains("hunter2"), "{text}");
    let text = refused(&url(""));
    assert!(text.contains("set PGPASSWORD"), "{text}");
    assert!(since.elapsed() < Duration::from_secs(50), "waiting does not help, so nobody waits");
    server.sql("GRANT CREATE ON DATABASE postgres TO shop");
    let store = opened(&url(":right")).expect("it opens");
    assert!(!format!("{store:?}").contains("right"), "{store:?}");
    let builder = Postgres::builder(&url(":right")).expect("a URL");
    assert!(!format!("{builder:?}").contains("right"), "{builder:?}");
}

#[test]
fn a_missing_user_or_database_is_named() {
    let Some(server) = server::shared() else { return };
    refused(&server.url_as("nobody_here", "postgres", "x"), StoreErrorKind::Denied);
    let text = refused(&server.url_as("postgres", "nowhere", "x"), StoreErrorKind::Absent);
    assert!(text.contains("create the database"), "{text}");
}

#[test]
fn a_server_that_may_only_be_read_is_read_only() {
    let Some(server) = Server::start(&["default_transaction_read_only = on"]) else { return };
    let text = refused(&server.url("shop"), StoreErrorKind::ReadOnly);
    assert!(text.contains("name the primary"), "{text}");
    // With target_session_attrs=read-write it finds no host.
    let mut url = server.url("shop");
    url.push_str("&target_session_attrs=read-write");
    refused(&url, StoreErrorKind::Unreachable);
}

#[test]
fn a_server_without_a_free_connection_is_busy() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE ROLE crowded LOGIN CONNECTION LIMIT 2; GRANT CREATE ON DATABASE postgres TO crowded");
    let url = server.url_as("crowded", "postgres", "crowded");
    let store = Postgres::builder(&url).expect("a URL").connections(1, 1).open().expect("two are free");
    let text = refused(&url, StoreErrorKind::Busy);
    assert!(text.contains("raise the server's or the pooler's limit"), "{text}");
    drop(store);
}

#[test]
fn a_store_waits_for_a_server_that_crashed() {
    let Some(server) = Server::start(&[]) else { return };
    server.crash();
    std::thread::scope(|scope| {
        let url = server.url("shop");
        let opening =
            scope.spawn(move || Postgres::builder(&url).expect("a URL").wait(Duration::from_secs(20)).open());
        std::thread::sleep(Duration::from_millis(300));
        server.start_again();
        opening.join().expect("no panic").expect("it opens once the server is back");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_given_clock_measures_the_time_between_two_answers() {
    let Some(server) = server::shared() else { return };
    let clock = TestClock::new();
    let builder = Postgres::builder(&server.url(&fresh_schema("clock"))).expect("a URL of the rig");
    let store = builder.clock(clock.clone()).open().expect("it opens");
    let opened = store.time(Timestamp::default());
    let hour = Duration::from_secs(3_600);
    clock.advance(hour);
    assert_eq!(store.time(Timestamp::default()), opened.plus(hour));
}
