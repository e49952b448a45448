//! The contract suite as a stranger's store runs it: through the public interface, on each form of a store.

use std::sync::Arc;

use steadfast::store::{Memory, Store, contract};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_the_contract() {
    contract::check_all(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shared_memory_keeps_the_contract() {
    contract::check_all(async || Arc::new(Arc::new(Memory::new())) as Arc<dyn Store>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shared_store_of_unknown_type_keeps_the_contract() {
    let fresh = async || {
        let store: Arc<dyn Store> = Arc::new(Memory::with_capacity(10_000));
        Arc::new(store) as Arc<dyn Store>
    };
    contract::check_all(fresh).await;
}
