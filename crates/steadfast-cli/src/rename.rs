//! Renamed accounts: operations without a client, and their adoption.

use std::io::{self, Write};

use serde_json::{Value, json};

use steadfast::dead_letter::{Change, Outcome, Stats, Unreached};

use crate::arguments::AdoptArguments;
use crate::failure::{DONE, Failure, HELD_BACK};
use crate::output::Output;
use crate::place::StorePlace;
use crate::text::plain;
use crate::{outbox, print};

/// Prints the counts and, with a vendors file, the operations that none of its clients delivers.
pub(crate) async fn stats(place: &StorePlace, output: &mut Output<'_>) -> Result<u8, Failure> {
    let letters = place.open()?;
    let (stats, unreached): (Stats, Vec<Unreached>) = (letters.stats().await?, letters.unreached().await?);
    let mut answer = json!(stats);
    if let Value::Object(members) = &mut answer {
        members.insert("unreached".to_owned(), json!(unreached));
    }
    output.put(DONE, &answer, |_, out| {
        print::stats(&stats, out)?;
        outbox::counts(&stats, out)?;
        for group in &unreached {
            let Unreached { account, phase, count, .. } = group;
            let (phase, account) = (phase.name(), plain(account));
            writeln!(out, "{count:>8}  {phase:<12} {account}: no client delivers them")?;
        }
        Ok(())
    })
}

pub(crate) async fn adopt(
    place: &StorePlace,
    arguments: AdoptArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let AdoptArguments { from, to, yes, signature } = arguments;
    if place.vendors.is_none() {
        let problem = "which vendors file? Name one that has the new name with --vendors PATH, or set STEADFAST_VENDORS";
        return Err(Failure::Arguments(problem.to_owned()));
    }
    let how = if yes { signature.name_and_reason()? } else { Change::by("").dry_run() };
    let adopted = place.open()?.adopt(&from, &to, &how).await?;
    let code = if adopted.held_back > 0 { HELD_BACK } else { DONE };
    output.put(code, &adopted, print_adopted)
}

fn print_adopted(adopted: &Outcome, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let Outcome { matched, done: count, held_back, .. } = adopted;
    if adopted.dry_run {
        writeln!(out, "{matched} matched; {count} would be adopted, {held_back} held back")?;
        writeln!(out, "nothing was changed; to do it: --yes, with --why REASON")?;
    } else {
        writeln!(out, "{matched} matched; {count} adopted, {held_back} held back")?;
    }
    print::held_back(adopted, out)
}
