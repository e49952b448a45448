//! The promise, end to end: a real client and a real adapter against the fakes over real sockets, with faults
//! injected, judged by what the vendor's ledger says happened.
//!
//! [`common`] has a test for each trap that other clients of these vendors fell into; [`pitfalls`] for each that other
//! resilience libraries did. [`stripe`], [`postmark`] and [`bigcommerce`] have one for each documented fact that engine
//! and adapter keep together; [`faults`] has every fault against every vendor.

mod bigcommerce;
mod bigcommerce_batches;
mod bigcommerce_resources;
mod common;
mod faults;
mod pitfalls;
mod postmark;
mod stripe;
mod vendors;
