//! The log of an operation's attempts as text: JSON, each report with a line feed behind it, so that one more is written
//! by appending.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use crate::attempt::AttemptReport;
use crate::store::{StoreError, StoreErrorKind};

pub fn lines(reports: &[AttemptReport]) -> Result<String, StoreError> {
    let mut lines = Vec::with_capacity(ROOM * reports.len());
    let unwritable = |error| StoreError::with_source("a report of an attempt cannot be written", error);
    for report in reports {
        // JSON has no line feed of its own: those in its texts are escaped.
        serde_json::to_writer(&mut lines, report).map_err(unwritable)?;
        lines.push(b'\n');
    }
    String::from_utf8(lines).map_err(|error| StoreError::with_source("a report is not text", error))
}

pub fn read(lines: &str) -> Result<Vec<AttemptReport>, StoreError> {
    let report = |line| {
        serde_json::from_str(line).map_err(|error| {
            let problem = "a stored report of an attempt cannot be read";
            StoreError::with_source(problem, error).of_kind(StoreErrorKind::Corrupt)
        })
    };
    lines.lines().map(report).collect()
}

/// More than a report usually takes, so that one allocation does.
const ROOM: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SendErrorKind;

    #[test]
    fn a_report_has_its_failure_kind_whichever_release_wrote_it() {
        let report = |failure: &str| {
            format!(
                r#"{{"number":1,"started_at":5,"latency":{{"secs":1,"nanos":0}},"status":null,{failure},"verdict":"retry","effect":"unknown","wait":null}}"#
            )
        };
        for (failure, kind) in [
            (r#""failure":null"#, None),
            // Whatever the words are, and by a release after this one.
            (r#""failure_kind":"timeout","failure":"too late""#, Some(SendErrorKind::Timeout)),
            (r#""failure_kind":"reset","failure":"no answer in time""#, Some(SendErrorKind::Reset)),
            (r#""failure_kind":"melted","failure":"the wire melted""#, None),
        ] {
            let read = read(&report(failure)).expect("read");
            assert_eq!(read[0].failure_kind, kind, "{failure}");
            let again = super::read(&lines(&read).expect("written")).expect("read");
            assert_eq!(again, read, "{failure}");
        }
    }
}
