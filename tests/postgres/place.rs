//! A store in a database knows its place: a copied database sends nothing until an operator declares it, and
//! routine operations need no declaration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast::outbox::tokio_postgres::{self, NoTls};
use steadfast::store::{self, Here, Postgres, Said, Store, StoreErrorKind};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast::{Client, Effect};

use super::{opened, stripe};
use support::server::{self, Server};

/// A database of the test's own.
fn database() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("place_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

struct Shop {
    store: Arc<Postgres>,
    client: Client,
    network: ScriptedTransport,
}

impl Shop {
    fn open(server: &Server, database: &str, options: &str) -> Shop {
        let url = format!("{}{options}", server.url_as("postgres", database, "calls"));
        let store = Arc::new(tokio::task::block_in_place(|| opened(&url)).expect("opens"));
        let answer = Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{\"id\":\"ch_1\"}");
        let network = ScriptedTransport::new().always(answer);
        Shop { client: stripe(store.clone(), &network), store, network }
    }

    async fn enqueues(&self, calls: usize) {
        for nth in 0..calls {
            let call = self.client.post("/v1/charges").key(format!("order-{nth}"));
            call.form(&[("amount", "1000")]).enqueue().await.expect("is on record");
        }
    }

    async fn delivers(&self) -> usize {
        while self.client.recover(100).await.expect("the store is open").taken > 0 {}
        self.network.requests().len()
    }

    async fn declare(&self, declared: Option<Said>) -> Here {
        let now = self.store.time(Default::default());
        store::here(&*self.store, declared, ("ada", "ticket 7"), now).await.expect("the store works")
    }

    async fn assert_displaced(&self, what: &str) {
        let why = self.declare(None).await.displaced.expect("it is a copy");
        assert!(why.contains(what), "{why}");
        let error = self.client.recover(100).await.expect_err("it takes nothing");
        assert!(error.is_store() && format!("{error:#}").contains("steadfast here"), "{error:#}");
        let call = self.client.post("/v1/charges").key("new").form(&[("amount", "1")]);
        let error = call.send().await.expect_err("perhaps the original has it");
        assert_eq!((error.is_store(), error.effect()), (true, Effect::Unknown), "{error:#}");
        let id = self.client.post("/v1/charges").key("never").recorded().await;
        assert_eq!(id.expect_err("who knows").effect(), Effect::Unknown);
        assert_eq!(self.network.requests().len(), 0);
    }
}

/// Copies the database as staging is refreshed from production.
fn copied(server: &Server, from: &str) -> String {
    let copy = database();
    server::soon(|| {
        server.sql_as("postgres", "postgres", &format!("CREATE DATABASE {copy} TEMPLATE {from}"))
    });
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copied_database_sends_nothing_and_leaves_open_operations_to_the_original() {
    let Some(server) = server::shared() else { return };
    for options in ["", "&portable=on"] {
        let original = database();
        server.sql(&format!("CREATE DATABASE {original}"));
        let shop = Shop::open(server, &original, options);
        shop.enqueues(10).await;
        drop(shop);
        server
            .sql_as(
                "postgres",
                &original,
                "SELECT calls.enqueue('stripe', 'POST', '/v1/charges', 'row-1', NULL, 'test')",
            )
            .expect("a row");
        let copy = copied(server, &original);
        let staging = Shop::open(server, &copy, options);
        staging.assert_displaced("the database (oid) is another one").await;
        let enqueue = "SELECT calls.enqueue('stripe', 'POST', '/v1/charges', 'row-2', NULL, 'test')";
        let declared =
            server.sql_as("postgres", &copy, enqueue).expect_err("it would be left to the original");
        assert!(declared.contains("see steadfast here"), "{declared}");
        let declared = staging.declare(Some(Said::Copy)).await;
        assert_eq!((declared.operations, declared.rows, declared.displaced), (10, 1, None));
        assert_eq!(staging.delivers().await, 0);
        let call = staging.client.post("/v1/charges").key("order-0").form(&[("amount", "1000")]);
        let error = call.send().await.expect_err("it is the original's");
        assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown), "{error:#}");
        assert_eq!(staging.delivers().await, 0);
        assert_eq!(Shop::open(server, &copy, options).delivers().await, 0);
        assert_eq!(Shop::open(server, &original, options).delivers().await, 11);
    }
}

/// A store in which nothing but a row waits; and a row whose transaction is open at the declaration.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_leaves_the_rows_of_its_outbox_to_the_original() {
    let Some(server) = server::shared() else { return };
    let original = database();
    server.sql(&format!("CREATE DATABASE {original}"));
    drop(Shop::open(server, &original, ""));
    let put =
        |key: &str| format!("SELECT calls.enqueue('stripe', 'POST', '/v1/charges', '{key}', NULL, 'test')");
    server.sql_as("postgres", &original, &put("row-1")).expect("a row");
    let copy = copied(server, &original);
    let url = server.url_as("postgres", &copy, "calls");
    let (plain, _) = url.split_once("&schema=").expect("a URL of the rig");
    let (writer, connection) = tokio_postgres::connect(plain, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    writer.batch_execute(&format!("BEGIN; {}", put("row-2"))).await.expect("it is written");
    let staging = Shop::open(server, &copy, "");
    staging.assert_displaced("the database (oid) is another one").await;
    let staging = Arc::new(staging);
    let other = Arc::clone(&staging);
    let declared = tokio::spawn(async move { other.declare(Some(Said::Copy)).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'calls.outbox'::regclass";
    server::soon(|| match server.sql_as("postgres", &copy, waits)?.as_str() {
        "0" if !declared.is_finished() => Err("nobody waits".to_owned()),
        _ => Ok(()),
    });
    writer.batch_execute("COMMIT").await.expect("commits");
    let declared = declared.await.expect("no panic");
    assert_eq!((declared.operations, declared.rows, declared.displaced), (0, 2, None));
    assert_eq!(staging.delivers().await, 0);
    assert_eq!(Shop::open(server, &original, "").delivers().await, 1);
}

/// A logical restore changes the oid: the records are in a schema that was created for them.
const RESTORED: &str = "ALTER SCHEMA calls RENAME TO old; CREATE SCHEMA calls; DO $$ DECLARE what text; BEGIN \
     FOR what IN SELECT format('ALTER TABLE old.%I SET SCHEMA calls', relname) FROM pg_class \
     WHERE relnamespace = 'old'::regnamespace AND relkind = 'r' LOOP EXECUTE what; END LOOP; \
     FOR what IN SELECT format('ALTER FUNCTION %s SET SCHEMA calls', oid::regprocedure) FROM pg_proc \
     WHERE pronamespace = 'old'::regnamespace LOOP EXECUTE what; END LOOP; END $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restored_schema_continues_once_it_is_declared_moved() {
    let Some(server) = server::shared() else { return };
    let original = database();
    server.sql(&format!("CREATE DATABASE {original}"));
    let shop = Shop::open(server, &original, "");
    shop.enqueues(3).await;
    drop(shop);
    let copy = copied(server, &original);
    let staging = Shop::open(server, &copy, "");
    staging.declare(Some(Said::Moved)).await;
    drop(staging);
    server::soon(|| server.sql_as("postgres", &copy, RESTORED));
    let restored = Shop::open(server, &copy, "");
    restored.assert_displaced("the schema (oid) is another one").await;
    assert_eq!(restored.declare(Some(Said::Moved)).await.displaced, None);
    assert_eq!(restored.delivers().await, 3);
}

/// Staging is refreshed from production while its own service runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_schema_that_is_replaced_under_a_running_service_sends_nothing() {
    let Some(server) = server::shared() else { return };
    let own = database();
    server.sql(&format!("CREATE DATABASE {own}"));
    let staging = Shop::open(server, &own, "");
    staging.enqueues(3).await;
    server::soon(|| server.sql_as("postgres", &own, RESTORED));
    staging.client.recover(100).await.expect_err("nothing is taken there");
    staging.assert_displaced("the schema (oid) is another one").await;
    assert_eq!(staging.network.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_announced_move_passes() {
    let Some(server) = server::shared() else { return };
    let original = database();
    server.sql(&format!("CREATE DATABASE {original}"));
    let shop = Shop::open(server, &original, "");
    shop.enqueues(3).await;
    shop.declare(Some(Said::WillMove)).await;
    drop(shop);
    let moved = copied(server, &original);
    assert_eq!(Shop::open(server, &moved, "").delivers().await, 3);
    let again = copied(server, &moved);
    Shop::open(server, &again, "").assert_displaced("the database (oid) is another one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn routine_operations_need_no_declaration() {
    let Some(server) = Server::start(&[]) else { return };
    let template = database();
    server.sql(&format!("CREATE DATABASE {template}"));
    // It was opened, and has no records.
    drop(Shop::open(&server, &template, ""));
    let mut name = copied(&server, &template);
    let service = Shop::open(&server, &name, "");
    service.enqueues(1).await;
    let (mut delivered, mut service) = (0, Some(service));
    for routine in ["a crash", "connections end", "VACUUM FULL", "a rename", "another role", "portable"] {
        match routine {
            "a crash" => {
                server.crash();
                server.start_again();
            }
            "connections end" => server.kill_backends(),
            "VACUUM FULL" => drop(server.sql_as("postgres", &name, "VACUUM FULL").expect("works")),
            "a rename" => {
                drop(service.take());
                let new = database();
                let rename = format!("ALTER DATABASE {name} RENAME TO {new}");
                server::soon(|| server.sql_as("postgres", "postgres", &rename));
                name = new;
            }
            "another role" => drop(server.sql("CREATE ROLE other SUPERUSER LOGIN")),
            _ => {}
        }
        let options = if routine == "portable" { "&portable=on" } else { "" };
        let shop = Shop::open(&server, &name, options);
        assert_eq!(shop.declare(None).await.displaced, None, "{routine}");
        delivered += shop.delivers().await;
        if let Some(service) = &service {
            // The first one may find that its connection has ended.
            let _ = service.client.recover(10).await;
            let result = service.client.recover(10).await.map_err(|error| format!("{error:#}"));
            assert!(!format!("{result:?}").contains("steadfast here"), "{routine}: {result:?}");
        }
        let call = shop.client.post("/v1/charges").key(routine.replace(' ', "-"));
        call.form(&[("amount", "1")]).send().await.expect(routine);
    }
    assert_eq!(delivered, 1);
}

/// A service's own connections: after they ended, the server behind the name is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_connection_compares_the_place() {
    let Some(server) = server::shared() else { return };
    let original = database();
    server.sql(&format!("CREATE DATABASE {original}"));
    let shop = Shop::open(server, &original, "");
    shop.enqueues(2).await;
    let end = |name: &str| {
        server.sql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        ))
    };
    // The copy takes the original's name.
    let copy = database();
    server::soon(|| {
        end(&original);
        server.sql_as("postgres", "postgres", &format!("CREATE DATABASE {copy} TEMPLATE {original}"))
    });
    let old = database();
    server::soon(|| {
        end(&original);
        server.sql_as("postgres", "postgres", &format!("ALTER DATABASE {original} RENAME TO {old}"))
    });
    server.sql(&format!("ALTER DATABASE {copy} RENAME TO {original}"));
    server::soon(|| {
        let result = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(
                shop.store.claim(support::calls::claim_of(&*shop.store, &support::calls::id("new"))),
            )
        });
        match result {
            Err(error) if error.kind() == StoreErrorKind::Displaced => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(claimed) => panic!("{claimed:?}"),
        }
    });
    assert_eq!(shop.network.requests().len(), 0);
}
