//! Stores, which record the operations: the [`Store`] trait and its backends.
//!
//! The trait is small for its implementors. A backend carries out the decisions of
//! [`operation::record`](crate::operation::record) atomically, and durably before it returns if it is a durable one.
//! It adds no semantics of its own. So the methods are few and general: one [`take`](Store::take) for every takeover,
//! one [`act`](Store::act) for every operator's action. With a method for each, every backend would repeat the state
//! machine, and every new action would break every backend. No method that a call needs has a default, so that a
//! backend cannot forget one. A store around another one is a [`Wrapper`], and implements only what it changes.

mod url;

#[cfg(feature = "seal")]
#[doc(inline)]
pub use steadfast_core::store::SealKeys;
#[doc(inline)]
pub use steadfast_core::store::{
    Copied, CopyError, Copying, End, Here, Memory, OutboxTally, Queued, Rejected, Resealed, Said, Store,
    StoreError, StoreErrorKind, Wrapper, copy, give_up_copy, here, reseal,
};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use steadfast_postgres::{Postgres, PostgresBuilder};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use steadfast_sqlite::{Sqlite, SqliteBuilder};
pub(crate) use url::EXAMPLE;
pub use url::{StoreUrl, open};
