//! Where operations are recorded: the [`Store`] trait and its backends.
//!
//! The trait is small for whoever implements one. A backend carries out the transitions of
//! [`operation::record`](crate::operation::record) atomically, and durably before it returns if it is a
//! durable one; it adds no semantics of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::error::BoxError;
use crate::operation::OperationId;
use crate::operation::record::{Claim, Claimed, Declined, Record, Transition};

#[cfg(any(test, feature = "testkit"))]
pub mod contract;
mod memory;

pub use memory::Memory;

/// Keeps the record of every keyed call.
///
/// # Cancellation safety
///
/// A dropped future may or may not have written; what it wrote is whole. The engine treats a dropped claim as
/// an operation in progress until its lease runs out.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Carries out [`record::claim`](crate::operation::record::claim). The unique `(scope, key)` is the
    /// arbiter: of any number of claims at once, at most one is told that it holds the operation.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; nothing was claimed, or it was and frees itself when the lease runs out.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Carries out [`Record::apply`] and gives the record as it now stands.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the inner `Declined` says that the transition changed nothing, and why.
    async fn transition(&self, id: &OperationId, transition: Transition) -> Result<Result<Record, Declined>, StoreError>;

    /// The record of an operation, if there is one.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError>;

    /// Removes at most `limit` records that expired at or before `now`, and says how many it removed. Dead
    /// letters and operations under way are never among them.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; some may have been removed.
    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }

    async fn transition(&self, id: &OperationId, transition: Transition) -> Result<Result<Record, Declined>, StoreError> {
        (**self).transition(id, transition).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        (**self).get(id).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        (**self).purge(now, limit).await
    }
}

/// A store that could not do what it was asked.
#[derive(Debug)]
pub struct StoreError {
    problem: String,
    source: Option<BoxError>,
}

impl StoreError {
    /// A failure, described for an operator.
    pub fn new(problem: impl Into<String>) -> StoreError {
        StoreError { problem: problem.into(), source: None }
    }

    /// A failure with its cause.
    pub fn with_source(problem: impl Into<String>, source: impl Into<BoxError>) -> StoreError {
        StoreError { problem: problem.into(), source: Some(source.into()) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
