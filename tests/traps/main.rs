//! The promise, end to end: a real client and a real adapter against the fakes over real sockets, with faults
//! injected, judged by what the vendor's ledger says happened.
//!
//! [`traps`] has a test for each trap that other clients of these vendors fell into; [`pitfalls`] for each that other
//! resilience libraries did. [`stripe`], [`postmark`] and [`bigcommerce`] have one for each documented fact that engine
//! and adapter keep together; [`faults`] has every fault against every vendor.

mod bigcommerce;
mod bigcommerce_batches;
mod bigcommerce_resources;
#[path = "../hosts/commands.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod commands;
mod faults;
mod pitfalls;
mod postmark;
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../hosts/promise.rs"]
mod promise;
#[path = "../hosts/rig.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod rig;
mod stripe;
mod traps;
mod vendors;
