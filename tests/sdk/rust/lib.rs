//! The vendors' client libraries for Rust, pinned, through their ordinary flows and through faults: each with its own
//! HTTP stack, against a fake that listens. Their carriers over steadfast are in `examples/carriers`.

use steadfast::testkit::FaultPlan;
use steadfast::testkit::fakes::Ledger;

/// Nothing took effect twice under one key, and every fault was met.
///
/// # Panics
///
/// If it did, or one was not.
pub fn judge(ledger: &Ledger, plan: &FaultPlan) {
    assert_eq!(ledger.duplicates(), Vec::<String>::new());
    assert_eq!(plan.pending(), 0, "a fault that no request met");
}
