//! Names that an operator types: an operation, or a vendor that may have none.

use std::collections::BTreeSet;

use steadfast::dead_letter::{DeadLetterError, DeadLetters};
use steadfast::operation::OperationId;

use crate::failure::Failure;
use crate::output::{Output, print_problem};
use crate::text::plain;

/// Returns the operation that a command is to change. A text that only contains its wire key, such as a line of
/// a log, is not enough: it may name two, and the other one may be meant.
pub(crate) async fn find_whole(letters: &DeadLetters, name: &str) -> Result<OperationId, Failure> {
    match letters.find_whole(name).await {
        Err(DeadLetterError::Absent(_)) => {
            let id = letters.find(name).await?;
            let problem = format!("{name:?} only contains the wire key of {id}; name that operation alone");
            Err(Failure::Arguments(problem))
        }
        found => Ok(found?),
    }
}

/// Form of [`find_whole`] for an operation that must be on record: the error names the row if it is still in
/// the outbox.
pub(crate) async fn find_recorded(letters: &DeadLetters, name: &str) -> Result<OperationId, Failure> {
    let found = find_whole(letters, name).await;
    if found.is_err()
        && let Some(row) = letters.queued(name).await?.first()
    {
        let number = row.number;
        let problem =
            format!("{name:?} is row {number} of the outbox, and not on record yet: see steadfast outbox");
        return Err(Failure::Arguments(problem));
    }
    found
}

/// Warns after a filter by vendor that matched nothing, if no operation at all is of this vendor: it may be a
/// typing mistake. Only for people: the count reads every record, and a script that asks each minute should not
/// pay for it.
pub(crate) async fn absent_vendor(
    letters: &DeadLetters,
    vendor: Option<&str>,
    output: &Output<'_>,
) -> Result<(), Failure> {
    let Some(vendor) = vendor.filter(|_| !output.json) else { return Ok(()) };
    let stats = letters.stats().await?;
    let paths: BTreeSet<&str> = stats.groups.iter().map(|group| group.vendor.as_str()).collect();
    let is_on_record = paths.iter().any(|path| *path == vendor || path.rsplit('/').next() == Some(vendor));
    if !is_on_record {
        print_problem(&nothing_of(vendor, &paths))?;
    }
    Ok(())
}

/// Returns the warning for a vendor without operations.
fn nothing_of(vendor: &str, on_record: &BTreeSet<&str>) -> String {
    let quoted = |name: &str| format!("`{}`", plain(name));
    let there_are = match on_record.len() {
        0 => "the store is empty".to_owned(),
        1 => format!("there is {}", on_record.iter().map(|name| quoted(name)).collect::<String>()),
        _ => {
            format!("there are {}", on_record.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
        }
    };
    format!("no operation of vendor {} is on record; {there_are}", quoted(vendor))
}
