//! What the server's own settings say of a commit that it has acknowledged.
//!
//! `synchronous_commit = off` is overridden where the store writes: see the migration. What follows can only be looked
//! at. It is at each opening and with each look for work, because a server may be told otherwise while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::connections::Connections;

/// Whether the server may lose what it has acknowledged, in SQL. Null settings are of a server that knows none.
pub(super) const FORGETS: &str = "coalesce(current_setting('fsync', true) = 'off' OR current_setting('full_page_writes', true) = 'off', false)";

/// Warns once. A test's database says so on purpose, and so do some that keep their data elsewhere.
#[derive(Debug, Default)]
pub(super) struct Durability {
    forgets: AtomicBool,
    was_warned: AtomicBool,
}

impl Durability {
    /// Called with what [`FORGETS`] says.
    pub(super) fn saw(&self, forgets: bool, connections: &Connections) {
        let forgets = forgets && !connections.is_durable_elsewhere();
        self.forgets.store(forgets, Ordering::Relaxed);
        if forgets && !self.was_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                store = %connections.place(),
                "the server may forget what it has acknowledged: after a crash of its host calls are sent again; set fsync \
                 and full_page_writes to on, or add durability=elsewhere to the URL"
            );
        }
    }

    /// The warning, as long as there is one.
    pub(super) fn warning(&self) -> Option<&'static str> {
        self.forgets.load(Ordering::Relaxed).then_some(WARNING)
    }
}

const WARNING: &str = "the server has fsync or full_page_writes off, and may forget what it has acknowledged";
