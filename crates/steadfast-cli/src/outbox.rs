//! Rows of the outbox: calls from callers' own transactions that are no operations yet.

use std::io::{self, Write};

use serde_json::json;

use steadfast::dead_letter::Stats;
use steadfast::operation::record::Page;
use steadfast::store::{OutboxTally, Queued, Rejected};

use crate::arguments::OutboxArguments;
use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::StorePlace;
use crate::text::{plain, whole_seconds, wrapped};

/// Lists rows that cannot become operations.
pub(crate) async fn rejected(
    place: &StorePlace,
    arguments: OutboxArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let OutboxArguments { limit, after } = arguments;
    let letters = place.open()?;
    let page = letters.rejected(after.as_deref(), usize::from(limit)).await?;
    let next = page.next.as_deref();
    output.put(DONE, &json!({ "rejected": page.rows, "next": next }), |_, out| print(&page, out))
}

fn print(page: &Page<Rejected>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    if page.rows.is_empty() {
        writeln!(out, "no row of the outbox was rejected")?;
    }
    for Rejected { number, namespace, vendor, account, method, key, at, why, holds } in &page.rows {
        let name = [namespace, vendor, account, method].map(|part| plain(part)).join("/");
        writeln!(out, "{number}  {name} key {}", plain(key))?;
        writeln!(out, "    rejected at {at}")?;
        if let Some(sequence) = holds {
            writeln!(out, "    holds sequence {}", plain(sequence))?;
        }
        writeln!(out, "{}", wrapped(&plain(why.trim_start()), "    "))?;
    }
    match &page.next {
        Some(next) => writeln!(out, "more: --after {}", next.as_str()),
        None => Ok(()),
    }
}

/// Prints the rows of a key: calls that no dispatcher has recorded.
pub(crate) fn queued(rows: &[Queued], out: &mut (dyn Write + Send)) -> io::Result<()> {
    for Queued { number, id, enqueued_at, due, sequence, rejected, .. } in rows {
        let stands = if rejected.is_some() { "rejected" } else { "not on record yet" };
        writeln!(out, "in the outbox: row {number}, {stands}: {}", plain(&id.to_string()))?;
        writeln!(out, "    enqueued at {enqueued_at}")?;
        if let Some(due) = due {
            writeln!(out, "    due at {due}")?;
        }
        if let Some(sequence) = sequence {
            writeln!(out, "    in sequence {}", plain(sequence))?;
        }
        if let Some(why) = rejected {
            writeln!(out, "{}", wrapped(&plain(why), "    "))?;
        }
    }
    Ok(())
}

pub(crate) fn removed(rows: &[Queued], dry_run: bool, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let would = if dry_run { "would be " } else { "" };
    for Queued { number, id, .. } in rows {
        writeln!(out, "{would}removed from the outbox: row {number}: {}", plain(&id.to_string()))?;
    }
    Ok(())
}

/// Prints below a list of dead letters that there are rejected rows too: an operator would not look for them.
pub(crate) fn beside_letters(rejected: u64, out: &mut (dyn Write + Send)) -> io::Result<()> {
    if rejected == 0 {
        return Ok(());
    }
    let (rows, are) = if rejected == 1 { ("row", "is") } else { ("rows", "are") };
    let text = format!(
        "{rejected} {rows} of the outbox {are} rejected, which is no dead letter: steadfast outbox says why"
    );
    writeln!(out, "{}", wrapped(&text, ""))
}

fn account_path(group: &OutboxTally) -> String {
    format!("{}/{}/{}", group.namespace, group.vendor, group.account)
}

/// Prints lines for the outbox, among the counts of operations.
pub(crate) fn counts(stats: &Stats, out: &mut (dyn Write + Send)) -> io::Result<()> {
    for group in &stats.outbox {
        let account = [&group.namespace, &group.vendor, &group.account].map(|part| plain(part)).join("/");
        if let Some(oldest) = group.oldest {
            let oldest = whole_seconds(stats.now, oldest);
            let is_admitted = !stats.unadmitted.contains(&account_path(group));
            let note = if is_admitted { "" } else { ": no client admits them" };
            writeln!(out, "{:>8}  {:<12} {account}, oldest {oldest}{note}", group.waiting, "in outbox")?;
        }
        if group.rejected > 0 {
            let what = "not sent: steadfast outbox says why";
            writeln!(out, "{:>8}  {:<12} {account}, {what}", group.rejected, "rejected")?;
        }
    }
    Ok(())
}
