//! The contract suite as a stranger's store runs it: through the public interface, on each form of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::store::{Memory, Store, Wrapper};
use steadfast_testkit::contract;

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

/// Does nothing otherwise.
#[derive(Debug, Default)]
struct Plain {
    store: Memory,
    asked: AtomicUsize,
}

impl Wrapper for Plain {
    fn inner(&self) -> &dyn Store {
        self.asked.fetch_add(1, Ordering::Relaxed);
        &self.store
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_around_another_keeps_the_contract_and_does_what_that_one_can() {
    contract::check_all(async || Arc::new(Plain::default()) as Arc<dyn Store>).await;
    let plain = Arc::new(Plain::default());
    let shared: Arc<dyn Store> = plain.clone();
    let (before, upkeep) = (plain.asked.load(Ordering::Relaxed), shared.upkeep());
    assert!(upkeep.is_some(), "upkeep has a default, and must be passed on all the same");
    assert_eq!(plain.asked.load(Ordering::Relaxed), before + 1);
}
