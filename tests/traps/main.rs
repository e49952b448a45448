//! The promise, end to end: a real client and a real adapter against the fakes over real sockets, with faults
//! injected, judged by what the vendor's ledger says happened.
//!
//! [`traps`] has a test for each trap that other clients of these vendors fell into; [`stripe`], [`postmark`]
//! and [`bigcommerce`] one for each documented fact that engine and adapter keep together; [`faults`] every
//! fault against every vendor.

mod bigcommerce;
mod bigcommerce_resources;
mod faults;
mod postmark;
mod rig;
mod stripe;
mod traps;
