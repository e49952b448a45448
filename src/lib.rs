//! Vendor calls that take effect once.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attempt;
mod call;
mod client;
pub mod clock;
pub mod config;
mod engine;
pub mod error;
pub mod inbound;
pub mod operation;
pub mod policy;
pub mod random;
pub mod reply;
pub mod request;
pub mod store;
mod telemetry;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod transport;
pub mod vendor;

pub use call::Call;
pub use client::{Client, ClientBuilder};
pub use error::{Effect, Error};
pub use policy::{CallPolicy, OnUnknown, Policy};
pub use reply::{Obtained, Reply};
