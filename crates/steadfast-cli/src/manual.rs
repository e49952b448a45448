//! Manual pages and completions, generated from the definition of the arguments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::Arguments;
use crate::help::{ENVIRONMENT, exit_codes};

/// Returns the completions of `shell`, to be sourced by it.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut script);
    script
}

/// Returns the page of the whole program.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    render(&built())
}

/// Writes a page for each command into a directory, which is created if it is missing. Returns the files.
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

/// Returns the definition, with the options of every command in each of them.
fn built() -> Command {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Renders a page: clap's sections, but with the manual's own sections in place of clap's one after the help.
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

const NAME: &str = "steadfast";
