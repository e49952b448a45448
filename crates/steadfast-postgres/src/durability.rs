//! Durability of an acknowledged commit, by the server's settings.
//!
//! The store overrides `synchronous_commit = off` where it writes: see the migration. The other settings can
//! only be read. They are read at each opening and with each look for work, because a server's settings may
//! change while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::connections::Connections;

/// SQL that is true if the server may lose acknowledged commits. A server that does not know a setting returns
/// null for it.
pub(super) const MAY_LOSE_COMMITS: &str = "coalesce(current_setting('fsync', true) = 'off' OR current_setting('full_page_writes', true) = 'off', false)";

/// The durability warning, logged once. A test's database has these settings on purpose, and so have some that
/// keep their data elsewhere.
#[derive(Debug, Default)]
pub(super) struct Durability {
    may_lose_commits: AtomicBool,
    was_warned: AtomicBool,
}

impl Durability {
    /// Records the result of [`MAY_LOSE_COMMITS`].
    pub(super) fn record(&self, may_lose_commits: bool, connections: &Connections) {
        let may_lose_commits = may_lose_commits && !connections.is_durable_elsewhere();
        self.may_lose_commits.store(may_lose_commits, Ordering::Relaxed);
        if may_lose_commits && !self.was_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                store = %connections.place(),
                "the server may lose acknowledged commits: after a crash of its host calls are sent again; set fsync \
                 and full_page_writes to on, or add durability=elsewhere to the URL"
            );
        }
    }

    /// Returns the warning while the server's settings call for one.
    pub(super) fn warning(&self) -> Option<&'static str> {
        self.may_lose_commits.load(Ordering::Relaxed).then_some(WARNING)
    }
}

const WARNING: &str = "the server has fsync or full_page_writes off, and may lose acknowledged commits";
