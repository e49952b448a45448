//! The contract suite on Postgres: once as a dispatcher's role, which may do less than a superuser, and once sealed and
//! through a pooler in transaction mode. Sealing changes what is in a row, and a pooler on which connection a statement
//! comes: neither hides the other. With `STEADFAST_LONG` each of them runs alone as well.

use std::sync::Arc;

use steadfast::operation::OperationId;
use steadfast::store::{Postgres, SealKeys, Store};
use steadfast::testkit::contract;

use super::driven::{Driven, fresh_schema};
use super::is_long;
use super::roles;
use support::pooler::Pooler;
use support::server::{self, Server};

/// Holds a store on `server`, asked at `url`, to the contract.
async fn check(server: &Server, url: impl Fn(&str) -> String, keys: Option<SealKeys>) {
    let fresh = async || {
        let schema = fresh_schema("contract");
        let mut builder = Postgres::builder(&url(&schema)).expect("a URL of the rig");
        if let Some(keys) = keys.clone() {
            builder = builder.seal(keys);
        }
        Arc::new(Driven::open(builder, &server.url(&schema), &schema).await) as Arc<dyn Store>
    };
    contract::check_store(&fresh).await;
    contract::check_delivery(&fresh).await;
    contract::check_outbox(&fresh).await;
}

async fn plain(server: &Server) {
    check(server, |schema| server.url(schema), None).await;
}

async fn of_a_dispatcher(server: &'static Server) {
    let fresh = async || roles::fresh(server, "dispatcher", None).await;
    contract::check_store(&fresh).await;
    contract::check_delivery(&fresh).await;
}

async fn sealed(server: &Server) {
    check(server, |schema| server.url(schema), Some(SealKeys::new([7; 32]))).await;
}

async fn pooled(server: &Server, keys: Option<SealKeys>) {
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    check(server, |schema| pooler.url(schema), keys).await;
}

/// Each form in a thread of its name: they wait for the server more than they work.
#[test]
fn each_form_of_postgres_keeps_the_contract() {
    let Some(server) = server::shared() else { return };
    std::thread::scope(|scope| {
        let others: &[&str] = if is_long() { &["plain", "sealed", "pooled"] } else { &[] };
        for form in ["dispatcher", "sealed and pooled"].iter().chain(others).copied() {
            let run = move || {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(4).enable_all().build().expect("a runtime");
                match form {
                    "dispatcher" => runtime.block_on(Box::pin(of_a_dispatcher(server))),
                    "sealed" => runtime.block_on(Box::pin(sealed(server))),
                    "pooled" => runtime.block_on(Box::pin(pooled(server, None))),
                    "plain" => runtime.block_on(Box::pin(plain(server))),
                    _ => runtime.block_on(Box::pin(pooled(server, Some(SealKeys::new([7; 32]))))),
                }
            };
            std::thread::Builder::new().name(form.to_owned()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

/// A way to open the records of one schema.
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
async fn what_a_process_cannot_read_on_postgres_it_leaves_alone() {
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
