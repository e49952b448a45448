//! Vendor calls that take effect once.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attempt;
pub mod clock;
pub mod error;
pub mod operation;
pub mod policy;
pub mod random;
pub mod request;
pub mod store;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod transport;
pub mod vendor;
