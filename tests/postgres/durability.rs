//! Durability of a commit: by settings that are overridden, and by those that can only be checked.

use std::sync::Arc;

use steadfast::clock::Timestamp;
use steadfast::store::{Postgres, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::driven::fresh_schema;
use super::opened;
use support::calls::{claim_of, held, id, settle};
use support::server::{self, Server, soon};

/// An acknowledged commit survives a crash of the server, also where its settings were changed while it ran.
#[test]
fn a_crash_loses_no_commit_although_synchronous_commit_is_off() {
    // Nothing is written out in the background while the test runs.
    let Some(server) = Server::start(&["wal_writer_delay = 10000ms", "fsync = on"]) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = opened(&server.url("shop")).expect("it opens");
    server.sql("CREATE TABLE public.others (number int)");
    server.sql("ALTER DATABASE postgres SET synchronous_commit = off");
    server.sql("ALTER SYSTEM SET synchronous_commit = off");
    server.sql("SELECT pg_reload_conf()");
    server.kill_backends();
    let outbox = "SELECT shop.enqueue_text('stripe', 'POST', '/v1/charges', 'order-1', 'amount=1', \
                  'application/x-www-form-urlencoded', account => 'test')";
    runtime.block_on(async {
        soon(|| {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(store.believed(Timestamp::default()))
            })
        });
        let settled = held(&store, claim_of(&store, &id("settled"))).await;
        settle(&store, &settled).await;
    });
    crash(&server);
    assert_eq!(phases(&server), "3", "a settlement");
    runtime.block_on(async {
        soon(|| {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(store.believed(Timestamp::default()))
            })
        });
        held(&store, claim_of(&store, &id("claimed"))).await;
    });
    crash(&server);
    assert_eq!(phases(&server), "1,3", "a claim");
    server.sql(outbox);
    crash(&server);
    assert_eq!(server.sql("SELECT count(*) FROM shop.outbox"), "1", "a row");
    // The test can distinguish: other writes are lost.
    server.sql("INSERT INTO public.others VALUES (1)");
    crash(&server);
    assert_eq!(server.sql("SELECT count(*) FROM public.others"), "0", "this server forgets");
}

fn crash(server: &Server) {
    server.crash();
    server.start_again();
}

fn phases(server: &Server) -> String {
    server.sql("SELECT string_agg(phase::text, ',' ORDER BY phase) FROM shop.operation")
}

/// An explicit setting of what a commit waits for stays: a client that insisted on more would hang where a
/// standby is gone.
#[test]
fn only_off_is_overridden_and_only_in_the_stores_writes() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("commits");
    drop(opened(&server.url(&schema)).expect("it opens"));
    for (table, change) in [
        ("operation", "DELETE FROM {schema}.operation"),
        ("outbox", "DELETE FROM {schema}.outbox"),
        ("store_state", "UPDATE {schema}.store_state SET purged_fence = purged_fence"),
    ] {
        for (set, then) in [
            ("off", "on"),
            ("local", "local"),
            ("on", "on"),
            ("remote_write", "remote_write"),
            ("remote_apply", "remote_apply"),
        ] {
            let change = change.replace("{schema}", &schema);
            let session = format!(
                "SET synchronous_commit = {set}; BEGIN; {change}; SHOW synchronous_commit; COMMIT; SHOW synchronous_commit"
            );
            let text = server.sql(&session);
            assert_eq!(text.lines().collect::<Vec<_>>(), [then, set], "{table}, {set}");
        }
    }
}

thread_local! {
    static WARNED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the warnings that name `fsync`.
struct Warnings;

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" && format!("{value:?}").contains("fsync") {
            WARNED.set(WARNED.get() + 1);
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Warnings);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A test's database without `fsync` works, with one warning; also one whose settings change while it runs.
#[test]
fn a_server_that_may_lose_commits_is_warned_of_once() {
    // For all threads: with one of its own alone, another thread that warns first is asked for the interest of
    // all.
    tracing::subscriber::set_global_default(Warnings).expect("the only subscriber");
    let Some(server) = Server::start(&["fsync = on", "full_page_writes = on"]) else { return };
    let open =
        |more: &str| -> Arc<Postgres> { Arc::new(opened(&(server.url("shop") + more)).expect("it opens")) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ask = |store: &Arc<Postgres>| {
        for _ in 0..3 {
            runtime.block_on(store.believed(Timestamp::default())).expect("the store works");
        }
        WARNED.take()
    };
    let warning = |store: &Arc<Postgres>| store.maintenance().and_then(|maintenance| maintenance.warning());
    let (store, silent) = (open(""), open("&durability=elsewhere"));
    assert_eq!(ask(&store), 0, "nothing is wrong");
    for setting in ["fsync", "full_page_writes"] {
        let store = open("");
        let set = |value: &str| {
            server.sql(&format!("ALTER SYSTEM SET {setting} = {value}"));
            server.sql("SELECT pg_reload_conf()");
            soon(|| if server.sql(&format!("SHOW {setting}")) == value { Ok(()) } else { Err("not yet") });
        };
        set("off");
        assert_eq!(ask(&store), 1, "{setting}");
        assert_eq!(ask(&store), 0, "once");
        assert!(
            warning(&store).is_some_and(|warning| warning.contains(setting)),
            "as `steadfast check` says"
        );
        assert_eq!(warning(&silent), None);
        assert_eq!(ask(&silent), 0, "who says that the disk is no matter is not told");
        runtime.block_on(async {
            held(&*store, claim_of(&*store, &id(setting))).await;
        });
        set("on");
        ask(&store);
        assert_eq!(warning(&store), None);
    }
}
