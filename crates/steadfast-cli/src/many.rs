//! Commands on many operations at once, or on one: resolving dead letters, and cancelling.

use serde_json::json;

use steadfast::dead_letter::{Change, DeadLetterError, DeadLetters, Outcome};
use steadfast::operation::OperationId;
use steadfast::operation::record::Resolution;
use steadfast::store::Queued;

use crate::arguments::{CancelArguments, ManyArguments, ResolveArguments};
use crate::failure::{DONE, Failure, HELD_BACK};
use crate::named::{absent_vendor, find_recorded, find_whole};
use crate::output::Output;
use crate::place::StorePlace;
use crate::signature::Signature;
use crate::{outbox, print};

pub(crate) async fn resolve(
    place: &StorePlace,
    arguments: ResolveArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let ResolveArguments { many, resolution, select, signature } = arguments;
    check_one(!many.operations.is_empty(), many.all || !select.is_empty())?;
    let how = change(&many, &signature)?;
    let resolution = match (resolution.applied, resolution.not_applied, resolution.reopen) {
        (Some(vendor_id), ..) => Some(Resolution::Applied { vendor_id }),
        (_, true, _) => Some(Resolution::NotApplied),
        (.., true) => None,
        _ => Some(Resolution::Compensated),
    };
    let letters = place.open()?;
    let ids = ids(&many, &letters).await?;
    if let ([id], false) = (&ids[..], how.dry_run) {
        let summary = match resolution {
            Some(resolution) => letters.resolve(id, resolution, &how).await?,
            None => letters.reopen(id, &how).await?,
        };
        return output.put(DONE, &summary, print::resolved);
    }
    let outcome = if ids.is_empty() {
        let mut filter = select.filter(letters.now());
        if resolution.is_none() {
            filter.phases = vec![steadfast::operation::record::Phase::Resolved];
        }
        letters.resolve_all(&filter, resolution.as_ref(), &how).await?
    } else {
        letters.resolve_each(&ids, resolution.as_ref(), &how).await?
    };
    if outcome.matched == 0 {
        absent_vendor(&letters, select.vendor(), output).await?;
    }
    let done = if resolution.is_none() { "opened again" } else { "resolved" };
    let dry_run = DryRunArguments { dry_run: many.dry_run, is_frozen: select.is_frozen(), needs_why: true };
    put(&outcome, done, &dry_run.to_do_it(&signature, &outcome), output)
}

pub(crate) async fn cancel(
    place: &StorePlace,
    arguments: &CancelArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let CancelArguments { many, select, signature } = arguments;
    check_one(!many.operations.is_empty(), many.all || !select.is_empty())?;
    let how = change(many, signature)?;
    let letters = place.open()?;
    let (mut ids, mut removed) = (Vec::new(), Vec::new());
    for name in &many.operations {
        let gone = remove_rows(&letters, name, &how).await?;
        match find_whole(&letters, name).await {
            Ok(id) if gone.is_empty() => ids.push(id),
            // An ended operation is another call of the row's key.
            Ok(id) => match letters.cancel(&id, &how).await {
                Ok(_) | Err(DeadLetterError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Failure::Letters(DeadLetterError::Absent(_))) if !gone.is_empty() => {}
            Err(failure) => return Err(failure),
        }
        removed.extend(gone);
    }
    if !removed.is_empty() && ids.is_empty() {
        let answer = json!({ "dry_run": how.dry_run, "removed": removed });
        return output.put(DONE, &answer, |_, out| outbox::removed(&removed, how.dry_run, out));
    }
    if let ([id], true, false) = (&ids[..], removed.is_empty(), how.dry_run) {
        let summary = letters.cancel(id, &how).await?;
        return output.put(DONE, &summary, print::resolved);
    }
    let outcome = if many.operations.is_empty() {
        letters.cancel_all(&select.filter(letters.now()), &how).await?
    } else {
        letters.cancel_each(&ids, &how).await?
    };
    if outcome.matched == 0 && removed.is_empty() {
        absent_vendor(&letters, select.vendor(), output).await?;
    }
    let dry_run = DryRunArguments { dry_run: many.dry_run, is_frozen: select.is_frozen(), needs_why: true };
    let to_do_it = dry_run.to_do_it(signature, &outcome);
    let code = if outcome.held_back > 0 { HELD_BACK } else { DONE };
    let mut result = json!(outcome);
    result["removed"] = json!(removed);
    output.put(code, &result, |_, out| {
        outbox::removed(&removed, how.dry_run, out)?;
        print::changed(&outcome, "cancelled", &to_do_it, out)
    })
}

/// Removes the outbox rows of this name. A row that a dispatcher records meanwhile is an operation then.
async fn remove_rows(letters: &DeadLetters, name: &str, how: &Change) -> Result<Vec<Queued>, Failure> {
    let rows = letters.queued(name).await?;
    let mut ids: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
    ids.dedup();
    if ids.len() > 1 {
        return Err(DeadLetterError::Ambiguous(ids).into());
    }
    let mut removed = Vec::new();
    for row in rows {
        if letters.cancel_queued(&row, how).await? {
            removed.push(row);
        }
    }
    Ok(removed)
}

fn put(outcome: &Outcome, done: &str, to_do_it: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    let code = if outcome.held_back > 0 { HELD_BACK } else { DONE };
    output.put(code, &json!(outcome), |_, out| print::changed(outcome, done, to_do_it, out))
}

/// Checks that there are either names or a filter.
pub(crate) fn check_one(named: bool, filtered: bool) -> Result<(), Failure> {
    if named == filtered {
        return Err(Failure::Arguments("name either operations, or a filter, or --all".to_owned()));
    }
    Ok(())
}

fn change(many: &ManyArguments, signature: &Signature) -> Result<Change, Failure> {
    if many.dry_run || (many.operations.is_empty() && !many.yes) {
        return Ok(Change::by("").dry_run());
    }
    signature.name_and_reason()
}

async fn ids(many: &ManyArguments, letters: &DeadLetters) -> Result<Vec<OperationId>, Failure> {
    let mut ids = Vec::new();
    for name in &many.operations {
        ids.push(find_recorded(letters, name).await?);
    }
    Ok(ids)
}

/// The arguments of a command whose dry run prints how to do it.
pub(crate) struct DryRunArguments {
    pub dry_run: bool,
    pub is_frozen: bool,
    pub needs_why: bool,
}

impl DryRunArguments {
    /// Returns the arguments that do it. Asks for a missing reason or name already here, not only when the
    /// command is refused for it.
    pub(crate) fn to_do_it(&self, signature: &Signature, outcome: &Outcome) -> String {
        let mut more = Vec::new();
        if let Some(frozen_at) = outcome.frozen_at {
            more.push("--yes".to_owned());
            if !self.is_frozen {
                more.push(format!("--before {}", frozen_at.as_millis()));
            }
        }
        if self.needs_why && signature.why.is_none() {
            more.push("--why REASON".to_owned());
        }
        if signature.signer.name().is_err() {
            more.push("--by NAME".to_owned());
        }
        let more = more.join(" ");
        match (self.dry_run, more.is_empty()) {
            (false, _) => more,
            (true, true) => "without --dry-run".to_owned(),
            (true, false) => format!("{more} instead of --dry-run"),
        }
    }
}
