//! `steadfast`: the operator's command line. It parses, calls the library and prints; the meaning of a command
//! is documented and tested in [`steadfast::dead_letter`] and [`steadfast::dispatcher`].
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod copying;
mod dispatch;
mod export;
mod failure;
mod fakes;
mod help;
mod here;
mod history;
mod manual;
mod many;
mod migrate;
mod named;
mod outbox;
mod output;
mod place;
mod print;
mod rename;
mod reseal;
mod selection;
mod signals;
mod signature;
mod status;
mod terms;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::Failure;
use output::{Answer, Output, print_problem};

fn main() -> ExitCode {
    let (json, command, result) = match Arguments::try_parse() {
        Ok(arguments) => {
            let (json, command) = (arguments.json, arguments.command.name());
            (json, Some(command), run(arguments))
        }
        // Help and version.
        Err(help) if help.exit_code() == 0 => help.exit(),
        // The arguments cannot be parsed, but the form of the answer is known.
        Err(error) => {
            (std::env::args_os().any(|argument| argument == "--json"), None, Err(Failure::Usage(error)))
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        // The reader has closed the pipe, as in `steadfast … | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // If these writes fail, no output is left to report it.
            if json {
                let _ = Answer::failed(command, &failure).write(&mut io::stdout().lock());
            }
            let _ = match &failure {
                Failure::Usage(error) => error.print(),
                other => print_problem(&format!("steadfast: {}", other.text())),
            };
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut out = io::BufWriter::new(io::stdout());
    let output = Output { out: &mut out, json: arguments.json, command: arguments.command.name() };
    let code = runtime.block_on(commands::run(arguments, output))?;
    out.flush()?;
    Ok(code)
}
