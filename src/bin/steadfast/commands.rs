//! One function to a command: call the library, print, say how it went.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use clap::CommandFactory;
use clap::error::ErrorKind;
use serde::Serialize;
use steadfast::config::Vendors;
use steadfast::dead_letter::{DeadLetters, Edit, Redrive, Selection, Signed, View, Which};
use steadfast::operation::Key;
use steadfast::operation::record::{Cursor, Resolution};
use steadfast::store::{SealKeys, Sqlite};

use super::arguments::{
    Arguments, Command, DeadLettersCommand, EditArguments, RedriveArguments, ResolveArguments, ShowArguments,
    Signature, ViewArguments,
};
use super::failure::{DONE, Failure, REFUSED};
use super::print;

/// Where a command's result goes, and how.
pub(crate) struct Output<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub json: bool,
}

pub(crate) async fn run(arguments: Arguments, out: &mut (dyn Write + Send)) -> Result<u8, Failure> {
    let mut output = Output { out, json: arguments.json };
    if let Command::Check { file } = &arguments.command {
        return check(file, &mut output);
    }
    let letters = open(&arguments)?;
    match arguments.command {
        Command::Check { .. } => Ok(DONE),
        Command::Stats => {
            let stats = letters.stats().await?;
            output.put(&stats, print::stats)?;
            Ok(DONE)
        }
        Command::Show(show) | Command::DeadLetters(DeadLettersCommand::Show(show)) => {
            self::show(&letters, &show, &mut output).await
        }
        Command::DeadLetters(command) => dead_letters(&letters, command, &mut output).await,
    }
}

async fn dead_letters(
    letters: &DeadLetters,
    command: DeadLettersCommand,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    match command {
        DeadLettersCommand::List { select, group: true, .. } => {
            let groups = letters.groups(&select.selection()).await?;
            output.put(&groups, print::groups)?;
            Ok(if groups.is_empty() { REFUSED } else { DONE })
        }
        DeadLettersCommand::List { select, limit, after, .. } => {
            list(letters, &select.selection(), usize::from(limit), after, output).await
        }
        DeadLettersCommand::Show(arguments) => show(letters, &arguments, output).await,
        DeadLettersCommand::Redrive(arguments) => redrive(letters, &arguments, output).await,
        DeadLettersCommand::Resolve(arguments) => resolve(letters, arguments, output).await,
        DeadLettersCommand::Edit(arguments) => edit(letters, arguments, output).await,
        DeadLettersCommand::Export { select, view, output: path } => {
            export(letters, &select.selection(), &view, path.as_deref(), output).await
        }
        DeadLettersCommand::Purge { signer } => {
            let removed = letters.purge(signer.by).await?;
            output.put(&serde_json::json!({ "removed": removed }), print::fields)?;
            Ok(DONE)
        }
    }
}

fn open(arguments: &Arguments) -> Result<DeadLetters, Failure> {
    let Some(path) = &arguments.store else {
        let problem = "which store? Name the service's file with --store PATH or in STEADFAST_STORE\n";
        return Err(usage(ErrorKind::MissingRequiredArgument, problem));
    };
    // Opening makes a file where there is none: right for a service, wrong for a typing mistake.
    if fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(Failure::NoStore(path.clone()));
    }
    let vendors = arguments.vendors.as_ref().map(Vendors::from_file).transpose().map_err(Failure::Vendors)?;
    let rules = vendors.map(|vendors| vendors.rules()).transpose().map_err(Failure::Vendors)?;
    let mut store = Sqlite::builder(path);
    if std::env::var_os(SEAL_KEYS).is_some() {
        store = store.seal(SealKeys::from_env(SEAL_KEYS).map_err(Failure::SealKeys)?);
    }
    let store = store.open().map_err(Failure::Store)?;
    let letters = DeadLetters::new(Arc::new(store));
    Ok(rules.iter().flatten().fold(letters, |letters, client| letters.with_client(client)))
}

fn check(file: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    let vendors = Vendors::from_file(file).map_err(Failure::Vendors)?;
    let names: Vec<&str> = vendors.names().collect();
    output.put(&serde_json::json!({ "good": true, "vendors": names }), print::fields)?;
    Ok(DONE)
}

async fn list(
    letters: &DeadLetters,
    selection: &Selection,
    limit: usize,
    after: Option<String>,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let page = letters.list(selection, after.map(Cursor::new).as_ref(), limit).await?;
    let next = page.next.as_ref().map(Cursor::as_str);
    let form = serde_json::json!({ "letters": page.rows, "next": next });
    output.put(&form, |_, out| print::letters(&page.rows, next, out))?;
    Ok(if page.rows.is_empty() { REFUSED } else { DONE })
}

async fn show(
    letters: &DeadLetters,
    arguments: &ShowArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let id = letters.find(&arguments.operation).await?;
    let shown = letters.show(&id, &view(&arguments.view)).await?;
    output.put(&shown, print::shown)?;
    Ok(DONE)
}

async fn redrive(
    letters: &DeadLetters,
    arguments: &RedriveArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let named = !arguments.operations.is_empty();
    let filtered = arguments.all || !arguments.select.is_empty();
    if named == filtered {
        let problem = "name either operations, or a filter, or --all\n";
        return Err(usage(ErrorKind::MissingRequiredArgument, problem));
    }
    let signed = signed(&arguments.signature);
    let mut how = Redrive::by(signed.by).because(signed.why);
    how.force = arguments.force;
    how.rehearsal = arguments.dry_run || (filtered && !arguments.yes);
    let mut ids = Vec::new();
    for name in &arguments.operations {
        ids.push(letters.find(name).await?);
    }
    let selection = arguments.select.selection();
    let which = if named { Which::These(&ids) } else { Which::Matching(&selection) };
    let redriven = letters.redrive(which, &how).await?;
    let rehearsal = how.rehearsal;
    output.put(&redriven, |redriven, out| print::redriven(redriven, rehearsal, out))?;
    Ok(if redriven.due == 0 || redriven.held_back > 0 { REFUSED } else { DONE })
}

async fn resolve(
    letters: &DeadLetters,
    arguments: ResolveArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let id = letters.find(&arguments.operation).await?;
    let signed = signed(&arguments.signature);
    let word = arguments.word;
    let resolution = match (word.applied, word.not_applied, word.reopen) {
        (Some(vendor_id), ..) => Some(Resolution::Applied { vendor_id }),
        (_, true, _) => Some(Resolution::NotApplied),
        (.., true) => None,
        _ => Some(Resolution::Compensated),
    };
    let summary = match resolution {
        Some(resolution) => letters.resolve(&id, resolution, &signed).await?,
        None => letters.reopen(&id, &signed).await?,
    };
    let phase = summary.phase.name();
    output.put(&serde_json::json!({ "operation": id.to_string(), "phase": phase }), print::fields)?;
    Ok(DONE)
}

async fn edit(
    letters: &DeadLetters,
    arguments: EditArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let key =
        Key::new(arguments.key).map_err(|error| usage(ErrorKind::ValueValidation, &format!("{error}\n")))?;
    let path = arguments.body;
    let body = read(&path).map_err(|error| Failure::Input(path, error))?;
    let id = letters.find(&arguments.operation).await?;
    let edit = Edit { key, body: body.into(), signed: signed(&arguments.signature), force: arguments.force };
    let edited = letters.edit(&id, &edit).await?;
    output.put(&edited, print::edited)?;
    Ok(DONE)
}

/// Lines are what an export is, with --json and without.
async fn export(
    letters: &DeadLetters,
    selection: &Selection,
    arguments: &ViewArguments,
    path: Option<&Path>,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let view = view(arguments);
    let written = match path {
        None => letters.export(selection, &view, output.out).await?,
        Some(path) => {
            let mut file = BufWriter::new(create(path)?);
            let written = letters.export(selection, &view, &mut file).await?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            output.put(&serde_json::json!({ "written": written }), print::fields)?;
            written
        }
    };
    Ok(if written == 0 { REFUSED } else { DONE })
}

impl Output<'_> {
    fn put<T: Serialize>(
        &mut self,
        value: &T,
        print: impl FnOnce(&T, &mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if !self.json {
            return Ok(print(value, self.out)?);
        }
        serde_json::to_writer(&mut *self.out, value).map_err(io::Error::from)?;
        Ok(writeln!(self.out)?)
    }
}

fn view(arguments: &ViewArguments) -> View {
    let view = if arguments.bodies { View::opened(signed(&arguments.signature)) } else { View::closed() };
    view.redact(arguments.redact.iter().cloned())
}

fn signed(signature: &Signature) -> Signed {
    Signed::new(&signature.signer.by, signature.why.clone().unwrap_or_default())
}

/// A new file, for nobody else to read: it may hold what the store keeps to itself.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path);
    }
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    Ok(body)
}

fn usage(kind: ErrorKind, problem: &str) -> Failure {
    Failure::Usage(Arguments::command().error(kind, problem))
}

/// Not an option of the command line, where every other process on the machine could read it.
const SEAL_KEYS: &str = "STEADFAST_SEAL_KEYS";
