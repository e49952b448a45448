//! Errors of actions on dead letters, by the operator's next step.

use steadfast_core::Error;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Forbidden;
use steadfast_core::store::StoreError;

/// An error of an action on a dead letter. `Display` says one layer, and the chain of sources the rest.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::{Change, DeadLetterError};
/// use steadfast::operation::record::Resolution;
///
/// let absent = letters.find("order-99/receipt").await.unwrap_err();
/// assert!(matches!(absent, DeadLetterError::Absent(_)));
///
/// // A word without a reason changes nothing.
/// let id = letters.find("order-41/receipt").await?;
/// let refused = letters.resolve(&id, Resolution::NotApplied, &Change::by("ada")).await.unwrap_err();
/// assert!(matches!(refused, DeadLetterError::Refused { why, .. } if why.code() == "unexplained"));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeadLetterError {
    /// The store failed.
    #[error("the store failed to {doing}")]
    Store {
        /// Step at which it failed.
        doing: &'static str,
        /// Failure of the store.
        source: StoreError,
    },
    /// The operation does not exist.
    #[error("there is no operation {0:?}")]
    Absent(String),
    /// The key is in several scopes: these, or the first of them.
    #[error("several operations have this key; name one of them whole: {}", names(.0))]
    Ambiguous(Vec<OperationId>),
    /// The action is not allowed, and nothing was changed.
    #[error("{id}: {why}")]
    Refused {
        /// The operation.
        id: Box<OperationId>,
        /// Reason of the refusal.
        why: Forbidden,
    },
    /// Input that makes no sense.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// The output could not be written.
    #[error("the output could not be written")]
    Output(#[from] std::io::Error),
}

impl DeadLetterError {
    pub(crate) fn store(doing: &'static str) -> impl Fn(StoreError) -> DeadLetterError {
        move |source| DeadLetterError::Store { doing, source }
    }

    pub(crate) fn refused(id: &OperationId, why: Forbidden) -> DeadLetterError {
        DeadLetterError::Refused { id: Box::new(id.clone()), why }
    }
}

fn names(ids: &[OperationId]) -> String {
    ids.iter().map(|id| format!("\n  {id}")).collect()
}
