//! `steadfast`: the operator's command line. It parses, calls the library and prints; what a command means is
//! said and tested in [`steadfast::dead_letter`].
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod failure;
mod print;
mod selection;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::Failure;

fn main() -> ExitCode {
    let (as_json, result) = match Arguments::try_parse() {
        Ok(arguments) => (arguments.json, run(arguments)),
        // What was typed cannot be read, but which form the answer is wanted in can.
        Err(error) => (std::env::args_os().any(|argument| argument == "--json"), Err(Failure::Usage(error))),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Usage(error)) if !as_json || error.exit_code() == 0 => error.exit(),
        // Whoever reads us has seen enough, as in `steadfast … | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let line = if as_json {
                failure.to_json().to_string()
            } else {
                format!("steadfast: {}", failure.text())
            };
            // There is nowhere left to say that this failed.
            let _ = writeln!(io::stderr().lock(), "{line}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut out = io::BufWriter::new(io::stdout());
    let code = runtime.block_on(commands::run(arguments, &mut out))?;
    out.flush()?;
    Ok(ExitCode::from(code))
}
