//! The log of an operation's attempts as text: JSON, each report with a line feed behind it, so that one more is written
//! by appending.

use crate::attempt::AttemptReport;
use crate::error::Effect;
use crate::store::{StoreError, StoreErrorKind};
use crate::vendor::Verdict;

pub(super) fn lines(reports: &[AttemptReport]) -> Result<String, StoreError> {
    let mut lines = Vec::with_capacity(ROOM * reports.len());
    let unwritable = |error| StoreError::with_source("a report of an attempt cannot be written", error);
    for report in reports {
        // JSON has no line feed of its own: those in its texts are escaped.
        serde_json::to_writer(&mut lines, report).map_err(unwritable)?;
        lines.push(b'\n');
    }
    String::from_utf8(lines).map_err(|error| StoreError::with_source("a report is not text", error))
}

pub(super) fn read(lines: &str) -> Result<Vec<AttemptReport>, StoreError> {
    let report = |line| {
        let read = serde_json::from_str(line).map_err(|error| {
            let problem = "a stored report of an attempt cannot be read";
            StoreError::with_source(problem, error).of_kind(StoreErrorKind::Corrupt)
        });
        read.map(|mut report: AttemptReport| {
            // 0.1 wrote what was known before the attempt.
            if report.verdict == Verdict::DONE {
                report.effect = Effect::Applied;
            }
            report
        })
    };
    lines.lines().map(report).collect()
}

/// More than a report usually takes, so that one allocation does.
const ROOM: usize = 192;
