//! The ground floor of [steadfast](https://docs.rs/steadfast): what an operation is, what may happen to it, and the traits
//! of those who carry that out.
//!
//! Services name `steadfast` alone, which shows all of this under its own paths. This crate is for the authors of a store,
//! a vendor's adapter or a transport: it is small, and has neither a client nor a database.
//!
//! - [`vendor::Vendor`]: the rules of a vendor. [`transport::Transport`]: one exchange with it.
//! - [`store::Store`] over [`operation::record`], the state machine.
//! - [`policy`]: when a request may be sent, and how often.
//! - [`clock::Clock`] and [`Random`]: time and chance.
//!
//! The items in the module `internal` are for the crates of this workspace alone, and have no stable form.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod attempt;
pub mod clock;
mod decision;
mod effect;
mod error;
#[cfg(feature = "_guards")]
#[doc(hidden)]
pub mod guard;
#[cfg(not(feature = "_guards"))]
mod guard;
#[doc(hidden)]
pub mod internal;
pub mod operation;
pub mod outbox;
pub mod policy;
mod random;
mod request;
pub mod store;
mod suggest;
#[cfg(any(test, feature = "testkit"))]
mod test_clock;
pub mod transport;
pub mod vendor;
mod visible;

pub use attempt::AttemptReport;
pub use effect::Effect;
pub use error::{Disposition, Error, Gate, Input, Mistake, Obstacle, Reason, Refusal};
pub use operation::sequence::Sequence;
pub use operation::unknown::OnUnknown;
pub use policy::in_flight::InFlight;
pub use policy::whole::Policy;
pub use random::Random;

/// A boxed future: what the traits give that a transport, a clock or a driver of transactions implements. The same type
/// as `futures::future::BoxFuture`.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The crate `http`: methods, statuses and headers in this crate's signatures are its types.
pub use http;
/// The crate `url`: URLs in this crate's signatures are its type.
pub use url;
