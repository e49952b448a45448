//! Secrets that version 0.1 stored: taken out of the records, then out of the file.

use std::io::{self, Write};

use serde_json::{Value, json};
use steadfast::dead_letter::{Change, Outcome};

use super::arguments::ScrubArguments;
use super::failure::{DONE, Failure};
use super::output::Output;
use super::place::Place;
use super::print::wrapped;

pub(crate) async fn scrub(
    place: &Place,
    arguments: ScrubArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let ScrubArguments { header, rows_only, yes, signature } = arguments;
    let how = if yes { signature.name_and_reason()? } else { Change::by("").dry_run() };
    let headers: Vec<&str> = header.iter().map(String::as_str).collect();
    let (letters, store) = place.open_both()?;
    let scrubbed = letters.scrub(&headers, &how).await?;
    let wiped = match store.upkeep() {
        Some(upkeep) if yes && !rows_only => {
            upkeep.wipe().await.map_err(Failure::Upkeep)?;
            true
        }
        _ => false,
    };
    let mut answer = json!(scrubbed);
    if let Value::Object(members) = &mut answer {
        members.insert("wiped".to_owned(), json!(wiped));
    }
    output.put(DONE, &answer, |_, out| print_scrubbed(&scrubbed, wiped, out))
}

fn print_scrubbed(scrubbed: &Outcome, wiped: bool, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let Outcome { matched, done: count, headers, .. } = scrubbed;
    writeln!(out, "{}", wrapped(&format!("looked for: {}", headers.join(", ")), ""))?;
    if scrubbed.dry_run {
        writeln!(out, "{matched} operations hold one of these")?;
        return writeln!(out, "nothing was changed; to remove them: --yes, with --why REASON");
    }
    writeln!(out, "{matched} operations held one of these; removed from {count}")?;
    if wiped {
        writeln!(out, "the store was written anew, without what was removed")
    } else {
        writeln!(out, "the store still holds what was removed: run it without --rows-only")
    }
}
