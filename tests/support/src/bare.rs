//! A store without any capability, as a stranger's first one is.

use steadfast_core::store::delivery::Delivery;
use steadfast_core::store::maintenance::Maintenance;
use steadfast_core::store::{Memory, Store, Wrapper};

/// The store in memory, without what it has beside [`Store`].
#[derive(Debug, Default)]
pub struct Bare(Memory);

impl Wrapper for Bare {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn name(&self) -> &str {
        "Bare"
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        None
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        None
    }
}
