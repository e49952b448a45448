//! Output of an answer: to people as text, to programs as one JSON object of one shape, whatever the command.
//!
//! The shape is described by `examples/command-line.schema.json`. It goes to the standard output also when a
//! command fails, so a program reads one stream and finds one object there. The message for people is on the
//! standard error as always. The exit code is in the object because a pipe loses it.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;
use serde_json::Value;

use steadfast::dead_letter::visible;

use crate::failure::Failure;
use crate::text::{plain, wrapped};

pub(crate) struct Output<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub json: bool,
    pub command: &'static str,
}

/// The answer for a program.
#[derive(Serialize)]
pub(crate) struct Answer<'a, T> {
    /// Raised when a member is renamed or removed. New members leave it as it is.
    format: u8,
    /// The command as it was typed; null if it could not be parsed.
    command: Option<&'a str>,
    exit_code: u8,
    /// The result; null if the command failed.
    result: Option<T>,
    /// The error; null if the command succeeded.
    error: Option<Value>,
}

impl Output<'_> {
    /// Prints the command's one answer, and returns its exit code.
    pub(crate) fn put<T: Serialize>(
        &mut self,
        code: u8,
        result: &T,
        print: impl FnOnce(&T, &mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<u8, Failure> {
        if self.json {
            let command = Some(self.command);
            Answer { format: FORMAT, command, exit_code: code, result: Some(result), error: None }
                .write(self.out)?;
        } else {
            print(result, self.out)?;
        }
        Ok(code)
    }
}

impl<'a> Answer<'a, Value> {
    /// Returns the answer for a failure.
    pub(crate) fn failed(command: Option<&'a str>, failure: &Failure) -> Answer<'a, Value> {
        let exit_code = failure.exit_code();
        Answer { format: FORMAT, command, exit_code, result: None, error: Some(failure.to_json()) }
    }
}

impl<T: Serialize> Answer<'_, T> {
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", visible(&serde_json::to_string(self)?))
    }
}

/// Prints a problem on the standard error: on one line, unless it is a terminal.
pub(crate) fn print_problem(problem: &str) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let lines: Vec<_> = problem.lines().map(plain).collect();
    let problem = lines.join("\n");
    if out.is_terminal() { writeln!(out, "{}", wrapped(&problem, "")) } else { writeln!(out, "{problem}") }
}

const FORMAT: u8 = 1;
