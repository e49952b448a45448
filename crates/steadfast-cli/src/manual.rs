//! Manual pages and completions, made from the definition of the arguments, and the tables that help and manual share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::arguments::Arguments;
use super::failure::{ABSENT, DONE, FILES, HELD_BACK, STORE, USAGE, VENDORS};

/// What follows the root command's long help.
pub(crate) fn after_help() -> String {
    let table = |rows: &[(String, &str)]| {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        rows.iter().map(|(name, what)| format!("  {name:width$}  {what}\n")).collect::<String>()
    };
    let environment = ENVIRONMENT.map(|(name, what)| (name.to_owned(), what));
    format!("Exit codes:\n{}\nEnvironment:\n{}", table(&exit_codes()), table(&environment))
        .trim_end()
        .to_owned()
}

/// The completions of `shell`, to be sourced by it.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut script);
    script
}

/// The page of the whole program.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    render(&built())
}

/// Writes a page for each command into a directory, which is made if it is not there. Gives the files.
pub(crate) fn write_pages(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    let mut files = Vec::new();
    write_page(&built(), directory, &mut files)?;
    Ok(files)
}

fn write_page(command: &Command, directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let file = directory.join(Man::new(command.clone()).get_filename());
    fs::write(&file, render(command)?)?;
    files.push(file);
    command.get_subcommands().try_for_each(|command| write_page(command, directory, files))
}

/// The definition with what every command has in each of them.
fn built() -> Command {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    command
}

/// clap's sections, and in place of its one for all that follows the help, those that a manual has for it.
fn render(command: &Command) -> io::Result<Vec<u8>> {
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    let (man, mut page) = (Man::new(command.clone()).source(source).manual(NAME), Vec::new());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::default();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, what) in exit_codes() {
        roff.control("TP", []).text([bold(code)]).text([roman(what)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, what) in ENVIRONMENT {
        roff.control("TP", []).text([bold(name)]).text([roman(what)]);
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

fn exit_codes() -> Vec<(String, &'static str)> {
    EXIT_CODES.into_iter().map(|(code, what)| (code.to_string(), what)).collect()
}

const NAME: &str = "steadfast";

/// An empty list is an answer and no failure; that a named operation is not there is told from all else.
const EXIT_CODES: [(u8, &str); 7] = [
    (DONE, "done; also when nothing matched"),
    (HELD_BACK, "something was refused or held back"),
    (USAGE, "the arguments: unknown, missing, or a key of several operations"),
    (STORE, "the store: absent, unreachable, locked, full, damaged, sealed, a copy, another program's"),
    (VENDORS, "the vendors file: absent or wrong"),
    (FILES, "another file, the output or an address: it cannot be read, written or listened on"),
    (ABSENT, "there is no such operation"),
];

const ENVIRONMENT: [(&str, &str); 5] = [
    ("STEADFAST_STORE", "the store, unless --store is given; without both, the vendors file's"),
    ("STEADFAST_VENDORS", "the vendors file, unless --vendors is given"),
    ("STEADFAST_SEAL_KEYS", "the keys of a sealed store, unless the vendors file names the store"),
    ("STEADFAST_BY", "who does it, unless --by is given"),
    ("USER, LOGNAME", "who does it, unless --by or STEADFAST_BY is given"),
];
