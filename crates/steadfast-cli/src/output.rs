//! Where an answer goes: to people as text, to programs as one JSON object of one shape, whatever the command.
//!
//! The shape is described by `examples/command-line.schema.json`. It goes to the standard output also when a command
//! fails, so a program reads one stream and finds one object there. The sentence for people is on the standard error
//! as ever. The exit code is in it because a pipe loses it.

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

/// What a program gets.
#[derive(Serialize)]
pub(crate) struct Answer<'a, T> {
    /// Moves when a member is renamed or goes. New members leave it as it is.
    format: u8,
    /// As it was typed; null if that could not be read.
    command: Option<&'a str>,
    exit_code: u8,
    /// Null if it failed.
    result: Option<T>,
    /// Null if it did not.
    error: Option<Value>,
}

impl Output<'_> {
    /// Gives the command's one answer, and the code that it ends with.
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
    /// What a program gets of a failure.
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

/// Says on the standard error what went wrong: on one line, unless a person looks at it.
pub(crate) fn say(problem: &str) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let lines: Vec<_> = problem.lines().map(plain).collect();
    let problem = lines.join("\n");
    if out.is_terminal() { writeln!(out, "{}", wrapped(&problem, "")) } else { writeln!(out, "{problem}") }
}

const FORMAT: u8 = 1;
