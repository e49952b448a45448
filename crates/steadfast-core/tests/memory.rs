//! The store in memory passes the contract of every store.

use std::sync::Arc;

use steadfast_core::store::{Memory, Store};
use steadfast_testkit::contract;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    contract::check_all(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
}
