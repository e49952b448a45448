//! One function for each command: call the library, print, return the exit code.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::json;

use steadfast::Vendors;
use steadfast::dead_letter::{Change, DeadLetterError, Outcome};
use steadfast::operation::Key;

use crate::arguments::{
    Arguments, Command, DeadLettersCommand, EditArguments, RedriveArguments, ShowArguments, ViewArguments,
};
use crate::failure::{DONE, Failure, HELD_BACK};
use crate::named::{absent_vendor, find_recorded};
use crate::output::Output;
use crate::place::StorePlace;
use crate::signature::Signature;
use crate::{
    copying, dispatch, export, fakes, here, manual, many, migrate, outbox, print, rename, reseal, status,
    terms,
};

pub(crate) async fn run(arguments: Arguments, mut output: Output<'_>) -> Result<u8, Failure> {
    let output = &mut output;
    let place = StorePlace::named_by(arguments.store, arguments.vendors);
    match arguments.command {
        Command::Check { file } => check(&place, file.as_ref().or(place.vendors.as_ref()), output),
        Command::Completions { shell } => {
            let script = String::from_utf8_lossy(&manual::completions(shell)).into_owned();
            output.put(DONE, &json!({ "shell": shell.to_string(), "script": script }), |_, out| {
                out.write_all(script.as_bytes())
            })
        }
        Command::Man { out } => man(out.as_deref(), output),
        Command::Dispatch(arguments) => dispatch::dispatch(&place, arguments, output).await,
        Command::Fakes(arguments) => fakes::fakes(arguments, output).await,
        Command::Status => status::status(&place, output).await,
        Command::List(arguments) => status::list(&place, arguments, output).await,
        Command::Stats => rename::stats(&place, output).await,
        Command::Outbox(arguments) => outbox::rejected(&place, arguments, output).await,
        Command::Cancel(arguments) => many::cancel(&place, &arguments, output).await,
        Command::Adopt(arguments) => rename::adopt(&place, arguments, output).await,
        Command::Reseal(arguments) => reseal::reseal(&place, arguments, output).await,
        Command::Migrate(arguments) => migrate::migrate(&place, &arguments, output),
        Command::Copy(arguments) => copying::copy(arguments, output).await,
        Command::Here(arguments) => here::here(&place, &arguments, output).await,
        Command::Terms(arguments) => terms::terms(&place, arguments, output).await,
        Command::Show(arguments) => show(&place, &arguments, output).await,
        Command::DeadLetters(command) => dead_letters(&place, command, output).await,
    }
}

async fn dead_letters(
    place: &StorePlace,
    command: DeadLettersCommand,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    match command {
        DeadLettersCommand::List { select, group: true, .. } => {
            let letters = place.open()?;
            let groups = letters.groups(&select.filter(letters.now())).await?;
            if groups.is_empty() {
                absent_vendor(&letters, select.vendor(), output).await?;
            }
            let rejected = letters.rejected_rows().await?;
            output.put(DONE, &json!({ "groups": groups, "rejected_rows": rejected }), |_, out| {
                print::groups(&groups, out)?;
                outbox::beside_letters(rejected, out)
            })
        }
        DeadLettersCommand::List { select, limit, after, .. } => {
            let (letters, limit) = (place.open()?, usize::from(limit));
            let page = letters.list(&select.filter(letters.now()), after.as_deref(), limit).await?;
            if page.rows.is_empty() {
                absent_vendor(&letters, select.vendor(), output).await?;
            }
            let next = page.next.as_deref();
            let rejected = letters.rejected_rows().await?;
            let result = json!({ "letters": page.rows, "next": next, "rejected_rows": rejected });
            output.put(DONE, &result, |_, out| {
                print::letters(&page.rows, next, out)?;
                outbox::beside_letters(rejected, out)
            })
        }
        DeadLettersCommand::Show(arguments) => show(place, &arguments, output).await,
        DeadLettersCommand::Redrive(arguments) => redrive(place, &arguments, output).await,
        DeadLettersCommand::Resolve(arguments) => many::resolve(place, arguments, output).await,
        DeadLettersCommand::Edit(arguments) => edit(place, arguments, output).await,
        DeadLettersCommand::Export { select, view, signature, output: path } => {
            let how = opening(&view, &signature)?;
            let what = export::Export { select, redact: view.redact, how };
            export::export(place, &what, path.as_deref(), output).await
        }
        DeadLettersCommand::Purge { signer } => {
            let by = signer.name()?;
            let removed = place.open()?.purge(by).await?;
            output.put(DONE, &json!({ "removed": removed }), |_, out| print::removed(removed, out))
        }
    }
}

fn check(place: &StorePlace, file: Option<&PathBuf>, output: &mut Output<'_>) -> Result<u8, Failure> {
    let Some(file) = file else {
        let problem = "which vendors file? Name it: steadfast check FILE, or set STEADFAST_VENDORS";
        return Err(Failure::Arguments(problem.to_owned()));
    };
    let vendors = Vendors::from_file(file).map_err(Failure::Vendors)?;
    let (file, names) = (file.display().to_string(), vendors.names().collect::<Vec<_>>());
    let mut warnings = vendors.warnings();
    warnings.extend(place.warnings(&vendors));
    let result = json!({ "file": file, "vendors": names, "warnings": warnings });
    output.put(DONE, &result, |_, out| print::checked(&file, &names, &warnings, out))
}

fn man(directory: Option<&Path>, output: &mut Output<'_>) -> Result<u8, Failure> {
    let Some(directory) = directory else {
        let page = manual::page()?;
        let text = String::from_utf8_lossy(&page);
        return output.put(DONE, &json!({ "page": text }), |_, out| out.write_all(&page));
    };
    let written = manual::write_pages(directory);
    let written = written.map_err(|error| Failure::File(directory.to_owned(), error))?;
    let files: Vec<String> = written.iter().map(|file| file.display().to_string()).collect();
    output.put(DONE, &json!({ "files": files }), |_, out| print::files(&files, out))
}

async fn show(place: &StorePlace, arguments: &ShowArguments, output: &mut Output<'_>) -> Result<u8, Failure> {
    let how = opening(&arguments.view, &arguments.signature)?;
    let letters = place.open()?.redact(&arguments.view.redact);
    let name = &arguments.operation.name;
    let rows = letters.queued(name).await?;
    let id = match letters.find(name).await {
        // A store that was opened at another place does not report that there is no operation beside the rows.
        Err(DeadLetterError::Absent(_) | DeadLetterError::Store { .. }) if !rows.is_empty() => {
            return output.put(DONE, &json!({ "queued": rows }), |_, out| outbox::queued(&rows, out));
        }
        found => found?,
    };
    let shown = match how {
        Some(how) => letters.open(&id, &how).await?,
        None => letters.show(&id).await?,
    };
    let mut result = json!(shown);
    result["queued"] = json!(rows);
    output.put(DONE, &result, |_, out| {
        print::shown(&shown, &letters, out)?;
        outbox::queued(&rows, out)
    })
}

async fn redrive(
    place: &StorePlace,
    arguments: &RedriveArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let named = !arguments.operations.is_empty();
    let filtered = arguments.all || !arguments.select.is_empty();
    many::check_one(named, filtered)?;
    let dry_run = arguments.dry_run || (filtered && !arguments.yes);
    let signature = &arguments.signature;
    let mut how = match (dry_run, arguments.force || arguments.overwrite) {
        (true, _) => Change::by("").dry_run(),
        (false, true) => signature.name_and_reason()?,
        (false, false) => signature.name()?,
    };
    (how.force, how.overwrite) = (arguments.force, arguments.overwrite);
    let letters = place.open()?;
    let mut ids = Vec::new();
    for name in &arguments.operations {
        ids.push(find_recorded(&letters, name).await?);
    }
    let redriven = if named {
        letters.redrive(&ids, &how).await?
    } else {
        letters.redrive_all(&arguments.select.filter(letters.now()), &how).await?
    };
    if redriven.matched == 0 {
        absent_vendor(&letters, arguments.select.vendor(), output).await?;
    }
    let code = if redriven.held_back > 0 { HELD_BACK } else { DONE };
    output
        .put(code, &redriven, |redriven, out| print::redriven(redriven, &to_do_it(arguments, redriven), out))
}

/// Returns the arguments that do the redrive after its dry run.
fn to_do_it(arguments: &RedriveArguments, redriven: &Outcome) -> String {
    let needs_why = arguments.force || arguments.overwrite;
    let of = many::DryRunArguments {
        dry_run: arguments.dry_run,
        is_frozen: arguments.select.is_frozen(),
        needs_why,
    };
    of.to_do_it(&arguments.signature, redriven)
}

async fn edit(place: &StorePlace, arguments: EditArguments, output: &mut Output<'_>) -> Result<u8, Failure> {
    let key = Key::new(arguments.key).map_err(|error| Failure::Arguments(format!("--key: {error}")))?;
    let mut how = arguments.signature.name_and_reason()?;
    how.force = arguments.force;
    let path = arguments.body;
    let body = read(&path).map_err(|error| Failure::Input(path, error))?;
    let letters = place.open()?;
    let id = find_recorded(&letters, &arguments.operation.name).await?;
    let new = letters.edit(&id, key, body, &how).await?;
    let mut old = letters.show(&id).await?.summary;
    // An operation has the same members in the answer to each command that changes one.
    old.code = None;
    let new = letters.show(&new).await?.summary;
    output.put(DONE, &json!({ "old": old, "new": new }), |_, out| print::edited(&old, &new, out))
}

/// Returns name and reason for showing bodies; `None` if they were not asked for.
fn opening(arguments: &ViewArguments, signature: &Signature) -> Result<Option<Change>, Failure> {
    arguments.bodies.then(|| signature.name_and_reason()).transpose()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path);
    }
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    Ok(body)
}
