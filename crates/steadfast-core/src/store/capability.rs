//! Errors of a store that lacks a capability.

use super::maintenance::Maintenance;
use super::outbox::Outbox;
use super::sealing::Sealing;
use super::{Store, StoreError, StoreErrorKind};

/// The store's outbox.
///
/// # Errors
///
/// `Unsupported`: it has none.
pub fn outbox_of(store: &dyn Store) -> Result<&dyn Outbox, StoreError> {
    store.outbox().ok_or_else(|| lacks(store, "outbox"))
}

/// The store's sealing.
///
/// # Errors
///
/// `Unsupported`: it has none.
pub fn sealing_of(store: &dyn Store) -> Result<&dyn Sealing, StoreError> {
    store.sealing().ok_or_else(|| lacks(store, "sealing"))
}

/// The store's maintenance.
///
/// # Errors
///
/// `Unsupported`: it has none.
pub fn maintenance_of(store: &dyn Store) -> Result<&dyn Maintenance, StoreError> {
    store.maintenance().ok_or_else(|| lacks(store, "maintenance"))
}

fn lacks(store: &dyn Store, capability: &str) -> StoreError {
    let problem = format!("the store `{}` has no {capability}", store.name());
    StoreError::new(problem).of_kind(StoreErrorKind::Unsupported)
}
