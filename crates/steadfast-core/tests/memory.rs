//! The store in memory passes the contract of every store.

use std::sync::Arc;

use steadfast_core::store::{Memory, Store};
use steadfast_testkit::contract;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    contract::check_all(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
}

#[tokio::test]
async fn records_are_copied_from_and_to_memory() {
    let fresh = async || Arc::new(Memory::new()) as Arc<dyn Store>;
    contract::check_copying(fresh, fresh).await;
}

#[cfg(feature = "seal")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_over_sealed_records() {
    use steadfast_core::store::SealKeys;

    let keys = || SealKeys::new([1; 32]).with_older([2; 32]);
    contract::check_all(async || Arc::new(Memory::new().seal(keys())) as Arc<dyn Store>).await;
    let fresh = || {
        let memory = Memory::new();
        Box::new(move |keys| Arc::new(memory.beside(keys)) as Arc<dyn Store>) as contract::Open
    };
    contract::check_sealing(fresh).await;
}

#[cfg(feature = "seal")]
#[tokio::test]
async fn a_record_in_the_clear_is_not_read_where_the_store_is_sealed() {
    use steadfast_core::internal::testkit::forge;
    use steadfast_core::operation::OperationId;

    let memory = Arc::new(Memory::new());
    let records = Arc::clone(&memory);
    let open: contract::Open = Box::new(move |keys| Arc::new(memory.beside(keys)) as Arc<dyn Store>);
    let forge = async |id: &OperationId, request: Vec<u8>| forge(&records, id, request);
    contract::check_record_in_the_clear(&open, forge).await;
}
