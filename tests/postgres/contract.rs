//! The contract suite on Postgres: as a dispatcher's role, which may do less than a superuser, sealed, and through a pooler
//! in transaction mode. A role refuses, sealing changes what is in a row, and a pooler on which connection a statement
//! comes: none hides another. The outbox is written by others than a dispatcher, and checked as the superuser. With
//! `STEADFAST_LONG` each of them runs alone as well.

use std::sync::Arc;

use steadfast::operation::OperationId;
use steadfast::store::{Postgres, PostgresBuilder, SealKeys, Store};
use steadfast::testkit::contract;

use super::driven::{Driven, fresh_schema};
use super::is_long;
use super::roles;
use support::pooler::{DISPATCHES, Pooler};
use support::server::{self, Server};

/// Fresh stores on `server`, which are asked at `url`.
async fn fresh(server: &Server, url: impl Fn(&str) -> String, keys: &Option<SealKeys>) -> Arc<dyn Store> {
    let schema = fresh_schema("contract");
    let builder = Postgres::builder(&url(&schema)).expect("a URL of the rig");
    let builder = keys.iter().cloned().fold(builder, PostgresBuilder::seal);
    Arc::new(Driven::open(builder, &server.url(&schema), &schema).await)
}

/// Holds a store of a superuser to the contract.
async fn check(server: &Server, url: impl Fn(&str) -> String, keys: Option<SealKeys>) {
    let fresh = async || fresh(server, &url, &keys).await;
    contract::check_store(&fresh).await;
    contract::check_delivery(&fresh).await;
    contract::check_outbox(&fresh).await;
}

async fn of_a_dispatcher(server: &'static Server) {
    let fresh = async || roles::fresh(server, "dispatcher", None).await;
    contract::check_store(&fresh).await;
    contract::check_delivery(&fresh).await;
}

fn keys() -> SealKeys {
    SealKeys::new([7; 32])
}

/// All three at once. The pooler knows one login, which has the role in each schema: it keeps connections for each login.
async fn of_a_dispatcher_sealed_and_pooled(server: &'static Server) {
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    server.sql(&format!("CREATE ROLE {DISPATCHES} LOGIN"));
    let as_dispatcher = async || {
        let schema = fresh_schema("contract");
        let made = schema.clone();
        let make = move || roles::with_login(server, &made, "dispatcher", DISPATCHES);
        tokio::task::spawn_blocking(make).await.expect("no panic");
        let builder = Postgres::builder(&pooler.url_as(DISPATCHES, &schema)).expect("a URL of the rig");
        Arc::new(Driven::open(builder.seal(keys()), &server.url(&schema), &schema).await) as Arc<dyn Store>
    };
    contract::check_store(&as_dispatcher).await;
    contract::check_delivery(&as_dispatcher).await;
    let sealed = Some(keys());
    contract::check_outbox(async || fresh(server, |schema| pooler.url(schema), &sealed).await).await;
}

/// Runs each form in a thread of its name: they wait for the server more than they work.
#[test]
fn each_form_of_postgres_keeps_the_contract() {
    let Some(server) = server::shared() else { return };
    std::thread::scope(|scope| {
        let alone: &[&str] = if is_long() { &["plain", "dispatcher", "sealed", "pooled"] } else { &[] };
        for form in ["all at once"].iter().chain(alone).copied() {
            let run = move || {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(4).enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    match form {
                        "plain" => Box::pin(check(server, |schema| server.url(schema), None)).await,
                        "dispatcher" => Box::pin(of_a_dispatcher(server)).await,
                        "sealed" => Box::pin(check(server, |schema| server.url(schema), Some(keys()))).await,
                        "pooled" => {
                            let Some(pooler) = Pooler::start(server, &[]) else { return };
                            Box::pin(check(server, |schema| pooler.url(schema), None)).await;
                        }
                        _ => Box::pin(of_a_dispatcher_sealed_and_pooled(server)).await,
                    }
                });
            };
            std::thread::Builder::new().name(form.to_owned()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

/// Returns a way to open the records of one schema.
fn sealing(server: &'static Server, schema: String) -> contract::Open {
    Box::new(move |keys| {
        let mut builder = Postgres::builder(&server.url(&schema)).expect("a URL of the rig");
        if let Some(keys) = keys {
            builder = builder.seal(keys);
        }
        let url = server.url(&schema);
        let driven = Driven::open(builder, &url, &schema);
        let driven = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(driven));
        Arc::new(driven) as Arc<dyn Store>
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_leaves_unreadable_rows_on_postgres_alone() {
    let Some(server) = server::shared() else { return };
    contract::check_sealing(|| sealing(server, fresh_schema("sealing"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_in_the_clear_is_not_read_where_the_schema_is_sealed() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("sealing");
    let forge = async |id: &OperationId, request: Vec<u8>| {
        let request: String = request.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = format!("WHERE key = '{}' RETURNING 1", id.key.as_str());
        let forge = format!("UPDATE {schema}.request SET request = decode('{request}', 'hex') {place}");
        assert_eq!(server.sql(&forge), "1");
    };
    contract::check_record_in_the_clear(&sealing(server, schema.clone()), forge).await;
}
