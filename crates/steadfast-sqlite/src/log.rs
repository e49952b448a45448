//! Checkpoints of the WAL: when they run, and on which thread.
//!
//! By default SQLite runs the checkpoint within the commit that made the log long, and every caller waits. At
//! random names, as callers' keys may be, nearly each write is to a page of its own, and to copy the pages
//! takes as long as to write them. So another connection runs checkpoints beside the writer, and the writer
//! copies only the rest. The log can begin anew only when all of it is copied, which is never so while the
//! writer writes.

use std::cell::Cell;

use rusqlite::Connection;

use steadfast_core::store::StoreError;

use super::failure::ErrorContext;
use super::lane::WeakLane;

/// State of the log of the writer's connection, on the writer's thread.
pub(super) struct Log {
    checkpointer: WeakLane,
    /// Length of the log at the last checkpoint, in pages.
    checkpointed: u32,
}

impl Log {
    /// Creates the state. `checkpointer` is the queue of a connection that [`checkpoint`] may run on.
    pub(super) fn new(checkpointer: WeakLane) -> Log {
        Log { checkpointer, checkpointed: 0 }
    }

    /// Starts a checkpoint if one is due. Call it after each group, when its callers have their replies.
    pub(super) fn after_group(&mut self, connection: &Connection) {
        let pages = PAGES.get();
        if pages < self.checkpointed {
            // The log began anew.
            self.checkpointed = 0;
        }
        if pages >= WRITER_PAGES {
            // A failure affects no commit: all is on disk. The next group tries again.
            let _ = checkpoint(connection);
            self.checkpointed = pages;
        } else if pages - self.checkpointed >= CHECKPOINT_PAGES {
            self.checkpointer.offer(checkpoint);
            self.checkpointed = pages;
        }
    }
}

/// Reports the log's length at each commit of the writer's connection, in place of SQLite's own checkpoint.
pub(super) fn watch(connection: &Connection) {
    connection.wal_hook(Some(|_, pages| {
        PAGES.set(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }));
}

/// Checkpoints the log, up to the pages that a reader needs.
pub(super) fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    let doing = "checkpoint the log";
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)").while_doing(doing)?;
    statement.query_row([], |_| Ok(())).while_doing(doing)
}

thread_local! {
    /// Length of the log in pages after the last commit of this thread, which owns one connection. `rusqlite`
    /// takes no closure for a hook.
    static PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Pages by which the log grows before the next checkpoint. With fewer, the same pages are copied again, and
/// disk and processor are taken from the calls beside it.
const CHECKPOINT_PAGES: u32 = 4_096;

/// Pages at which the writer copies the rest: 64 MiB. At half of it, 64 calls at once under names that lie
/// anywhere among a million take up to a quarter longer. At a quarter of it a purge's neighbours wait four
/// times as long. A longer log makes a restart and each read slower. It makes lone calls slower too until it
/// has once had its full length, since each sync of a file that grows also writes its length.
const WRITER_PAGES: u32 = 16_384;
