//! The arguments that can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Problem;

pub const HELP: &str = "\
200 orders through fakes of three vendors that misbehave, by a service that is
killed half-way and started again. Takes about fifteen seconds.

Usage: cargo run -p quickstart -- [OPTIONS]

  --seed N    draws other faults; 1 if it is not given
  --json      prints the result as one JSON object, on the last line
  --keep DIR  leaves the service's store in DIR, to try the command line on
  --help      prints this

Exit codes: 0 all is well, 1 it is not, 2 the arguments make no sense.";

/// Not a problem: what was asked for instead of a run.
pub enum Asked {
    Run(Arguments),
    Help,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub json: bool,
    pub seed: u64,
    pub keep: Option<PathBuf>,
}

impl Asked {
    /// Reads `--name value` and `--name=value`.
    pub fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Asked, Problem> {
        let mut arguments = Arguments { json: false, seed: 1, keep: None };
        while let Some(word) = words.next() {
            let (name, given) = split(&word);
            let mut value = |needs: &str| {
                let value = given.clone().or_else(|| words.next()).filter(|value| !value.is_empty());
                value.ok_or_else(|| format!("{} needs {needs}", name.display()))
            };
            match name.to_str() {
                Some("--json") if given.is_none() => arguments.json = true,
                Some("--help" | "-h") if given.is_none() => return Ok(Asked::Help),
                Some("--seed") => {
                    let word = value("a number")?;
                    let seed = word.to_str().and_then(|text| text.parse().ok());
                    arguments.seed = seed.ok_or_else(|| format!("--seed needs a number, not {word:?}"))?;
                }
                Some("--keep") => arguments.keep = Some(value("a folder")?.into()),
                _ => return Err(format!("unknown argument {word:?}; --help lists them").into()),
            }
        }
        Ok(Asked::Run(arguments))
    }
}

/// `--name=value` as its two parts. A word that is not UTF-8 has one: a path is then a word of its own.
fn split(word: &OsString) -> (OsString, Option<OsString>) {
    match word.to_str().and_then(|text| text.split_once('=')) {
        Some((name, value)) if name.starts_with("--") => (name.into(), Some(value.into())),
        _ => (word.clone(), None),
    }
}
