//! `testkit::conformance` on the adapters of this crate, on the example, and on adapters that are wrong on purpose.

#[path = "../../examples/custom_vendor.rs"]
#[allow(dead_code, reason = "the example's own main")]
mod custom_vendor;
mod good;
mod minimal;
mod teeth;
