//! The contract suite on Postgres, sealed, and through a pooler in transaction mode. What is not sealed and without a pooler
//! runs as a dispatcher's role, in `roles`, which may do less than a superuser. With `STEADFAST_LONG` every combination
//! runs.

use std::sync::Arc;

use steadfast::store::{Postgres, SealKeys, Store};
use steadfast::testkit::contract;

use super::driven::{Driven, fresh_schema};
use super::is_long;
use super::pooler::Pooler;
use super::server::{self, Server};

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
    contract::check_server_timed(fresh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_superusers_postgres_keeps_the_contract() {
    if !is_long() {
        return;
    }
    let Some(server) = server::shared() else { return };
    check(server, |schema| server.url(schema), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sealed_postgres_keeps_the_contract() {
    let Some(server) = server::shared() else { return };
    let keys = SealKeys::new([7; 32]);
    check(server, |schema| server.url(schema), Some(keys)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_behind_a_pooler_keeps_the_contract() {
    let Some(server) = server::shared() else { return };
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    check(server, |schema| pooler.url(schema), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sealed_postgres_behind_a_pooler_keeps_the_contract() {
    if !is_long() {
        return;
    }
    let Some(server) = server::shared() else { return };
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    check(server, |schema| pooler.url(schema), Some(SealKeys::new([7; 32]))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_process_cannot_read_on_postgres_it_leaves_alone() {
    let Some(server) = server::shared() else { return };
    contract::check_sealing(|| {
        let schema = fresh_schema("sealing");
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
    })
    .await;
}
