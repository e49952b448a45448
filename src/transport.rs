//! The transport that carries requests to the vendor: the [`Transport`] trait, and its types.
//!
//! The trait is small for implementors (a scripted one for tests is in [`testkit`]). [`Http`] over reqwest is the one
//! that service code uses.
//!
#![cfg_attr(feature = "testkit", doc = "[`testkit`]: crate::testkit")]
#![cfg_attr(not(feature = "testkit"), doc = "[`testkit`]: crate#features")]

mod failure;
mod http_client;
#[cfg(feature = "gzip")]
mod packed;
mod pools;
#[cfg(feature = "tower")]
mod tower;
mod watched_body;

pub use http_client::Http;
#[doc(inline)]
pub use steadfast_core::transport::{
    Answer, Limits, Request, SendError, SendErrorKind, StreamedAnswer, Transport,
};
#[cfg(feature = "tower")]
pub use tower::{over_tower, over_tower_that_queues};
