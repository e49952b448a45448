//! The attempts and lookups of one call.

use std::mem;
use std::time::Duration;

use steadfast_core::AttemptReport;

/// The lines of one call, of which a part is on record.
#[derive(Debug, Default)]
pub(super) struct AttemptLog {
    lines: Vec<AttemptReport>,
    /// How many of them went with a write to the record.
    written: usize,
}

impl AttemptLog {
    /// Adds a line.
    pub(super) fn push(&mut self, line: AttemptReport) {
        // Most calls have one attempt, and `push` alone makes room for four.
        self.lines.reserve_exact(1);
        self.lines.push(line);
    }

    /// Notes the wait after the last attempt, unless it is noted.
    pub(super) fn note_wait(&mut self, wait: Duration) {
        if let Some(line) = self.lines.iter_mut().rev().find(|line| !line.is_look_up()) {
            line.wait.get_or_insert(wait);
        }
    }

    /// The lines that are not on record yet.
    pub(super) fn unwritten(&self) -> &[AttemptReport] {
        self.lines.get(self.written..).unwrap_or_default()
    }

    /// All lines are on record.
    pub(super) fn mark_written(&mut self) {
        self.written = self.lines.len();
    }

    /// The attempts. A caller's attempts are what it sent; lookups are on the operation's log.
    pub(super) fn take_attempts(&mut self) -> Vec<AttemptReport> {
        let mut lines = mem::take(&mut self.lines);
        lines.retain(|line| !line.is_look_up());
        lines
    }
}
