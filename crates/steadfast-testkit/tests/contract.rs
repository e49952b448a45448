//! The contract suite on a store that is not part of steadfast: through the public interface, on each form of a
//! store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::clock::Timestamp;
use steadfast_core::store::{self, Copying, Memory, Store, StoreErrorKind, Wrapper};
use steadfast_testkit::contract;
use support::bare::Bare;

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

/// A wrapper that only counts its calls.
#[derive(Debug, Default)]
struct Plain {
    store: Memory,
    calls: AtomicUsize,
}

impl Wrapper for Plain {
    fn inner(&self) -> &dyn Store {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.store
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrapper_keeps_the_contract_and_has_the_inner_stores_capabilities() {
    contract::check_all(async || Arc::new(Plain::default()) as Arc<dyn Store>).await;
    let plain = Arc::new(Plain::default());
    let shared: Arc<dyn Store> = plain.clone();
    let (before, maintenance) = (plain.calls.load(Ordering::Relaxed), shared.maintenance());
    assert!(maintenance.is_some(), "maintenance has a default, and must be passed on all the same");
    assert_eq!(plain.calls.load(Ordering::Relaxed), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_without_a_capability_keeps_the_rest_of_the_contract() {
    contract::check_all(async || Arc::new(Bare::default()) as Arc<dyn Store>).await;
}

#[tokio::test]
async fn the_error_names_the_capability_that_a_store_lacks() {
    let (bare, other) = (Bare::default(), Memory::new());
    let copied = store::copy(&bare, &other, &Copying::new("a", "b")).await.expect_err("it cannot");
    let source = std::error::Error::source(&copied).expect("the store's").to_string();
    assert_eq!(source, "the store `Bare` has no maintenance");
    let now = Timestamp::from_millis(1);
    let here = store::here(&bare, None, ("", ""), now).await.expect_err("it cannot");
    assert_eq!(here.to_string(), "the store `Bare` has no maintenance");
    for (store, name) in [(&bare as &dyn Store, "Bare"), (&other, "Memory")] {
        let error = store::reseal(store, true).await.expect_err("it cannot");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert_eq!(error.to_string(), format!("the store `{name}` has no sealing"));
    }
}
