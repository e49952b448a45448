//! Resealing of all operations with the current key.

use std::io::{self, Write};

use serde_json::{Value, json};

use steadfast::operation::OperationId;
use steadfast::store::{self, Resealed, StoreError};

use crate::arguments::ResealArguments;
use crate::failure::{DONE, Failure, HELD_BACK};
use crate::output::Output;
use crate::place::StorePlace;
use crate::text::{plain, wrapped};

pub(crate) async fn reseal(
    place: &StorePlace,
    arguments: ResealArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let ResealArguments { dry_run, wipe } = arguments;
    let (_, store) = place.open_both()?;
    let resealed = store::reseal(&*store, dry_run).await.map_err(Failure::Upkeep)?;
    let wiped = match store.sealing() {
        Some(sealing) if wipe => {
            sealing.wipe().await.map_err(Failure::Upkeep)?;
            true
        }
        _ => false,
    };
    let left = if dry_run { resealed.unreadable } else { resealed.remaining };
    let code = if left > 0 { HELD_BACK } else { DONE };
    output.put(code, &answer(&resealed, wiped), |_, out| print(&resealed, wiped, out))
}

fn answer(resealed: &Resealed, wiped: bool) -> Value {
    let why = |(id, why): &(OperationId, StoreError)| {
        let problem = why.to_string();
        json!({ "operation": id.to_string(), "scope": id.scope, "key": id.key, "problem": problem })
    };
    json!({
        "dry_run": resealed.dry_run,
        "matched": resealed.matched,
        "resealed": resealed.resealed,
        "remaining": resealed.remaining,
        "unreadable": resealed.unreadable,
        "why_unreadable": resealed.why_unreadable.iter().map(why).collect::<Vec<_>>(),
        "wiped": wiped,
    })
}

fn print(resealed: &Resealed, wiped: bool, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let Resealed { matched, resealed: count, remaining, unreadable, .. } = resealed;
    if resealed.dry_run {
        writeln!(out, "{matched} operations are not sealed with the current key")?;
        writeln!(out, "nothing was changed; to seal them: without --dry-run")?;
    } else {
        writeln!(out, "{matched} operations were not sealed with the current key; {count} now are")?;
        match remaining - unreadable {
            0 if *remaining == 0 => writeln!(out, "no operation on record needs an older key")?,
            0 => {}
            behind => {
                let what = format!(
                    "{behind} were written meanwhile without the current key: give it to every process of the service, \
                     and run this again"
                );
                writeln!(out, "{}", wrapped(&what, ""))?;
            }
        }
    }
    if *unreadable > 0 {
        writeln!(out, "{unreadable} cannot be read, and stay unchanged:")?;
    }
    for (id, why) in &resealed.why_unreadable {
        writeln!(out, "unreadable: {}", plain(&id.to_string()))?;
        writeln!(out, "{}", wrapped(&why.to_string(), "    "))?;
    }
    match (wiped, *count > 0) {
        (true, _) => writeln!(out, "the store was rewritten, without the old bytes"),
        (false, true) => {
            writeln!(out, "the store's free space may still hold the old bytes: --wipe rewrites the store")
        }
        (false, false) => Ok(()),
    }
}
