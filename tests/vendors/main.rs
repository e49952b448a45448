//! Vendors: their adapters against the fakes, the vendors file, and what holds for every adapter.

mod adyen;
mod answers;
mod conformance;
mod fuzz;
mod keyed_vendors;
mod on_the_way;
mod sdk;
mod traps;
mod vendors_file;
