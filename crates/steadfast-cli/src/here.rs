//! The store's place, and an operator's answer about it.

use std::io::{self, Write};

use serde_json::{Value, json};

use steadfast::store::{self, Here, Said, StoreErrorKind};

use crate::arguments::HereArguments;
use crate::failure::{DONE, Failure, HELD_BACK};
use crate::output::Output;
use crate::place::StorePlace;
use crate::text::{plain, wrapped};

pub(crate) async fn here(
    place: &StorePlace,
    arguments: &HereArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let HereArguments { moved, copy, will_move, signature } = arguments;
    let declared = match (moved, copy, will_move) {
        (true, ..) => Some(Said::Moved),
        (_, true, _) => Some(Said::Copy),
        (.., true) => Some(Said::WillMove),
        _ => None,
    };
    let signed = declared.map(|_| signature.name_and_reason()).transpose()?;
    let (by, why) = signed.as_ref().map_or(("", ""), |signed| (&*signed.by, &*signed.why));
    let (letters, store) = place.open_both()?;
    let here = store::here(&*store, declared, (by, why), letters.now()).await;
    let here = here.map_err(|error| match error.kind() {
        StoreErrorKind::Invalid => Failure::Arguments(error.to_string()),
        _ => Failure::Upkeep(error),
    })?;
    let code = if here.displaced.is_some() { HELD_BACK } else { DONE };
    output.put(code, &answer(&here), |_, out| print(&here, declared, out))
}

fn answer(here: &Here) -> Value {
    json!({
        "displaced": here.displaced,
        "noted": here.noted,
        "found": here.found,
        "moves_until_ms": here.moves_until.map(|until| until.as_millis()),
        "operations": here.operations,
        "rows": here.rows,
    })
}

fn print(here: &Here, declared: Option<Said>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let mut line = |text: &str| writeln!(out, "{}", wrapped(text, ""));
    if let Some(why) = &here.displaced {
        line(&format!("the store takes nothing: {}", plain(why)))?;
        return line("if it was moved here: steadfast here --moved; if it is a copy: steadfast here --copy");
    }
    if declared == Some(Said::Copy) {
        let (operations, rows) = (here.operations, here.rows);
        line(&format!("{operations} operations and {rows} rows of the outbox were left to the original"))?;
    }
    match &here.noted {
        Some(noted) => line(&format!("the store is at home: {}", plain(noted)))?,
        None => line("the store is in use; here, a copy of it cannot be told from the original")?,
    }
    match here.moves_until {
        Some(until) => line(&format!("one move is announced, until {until}")),
        None => Ok(()),
    }
}
