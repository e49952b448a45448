//! What went wrong, in the exit codes that the help promises.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};
use steadfast::dead_letter::DeadLetterError;
use steadfast::store::{StoreError, StoreErrorKind};

pub(crate) enum Failure {
    /// Arguments that make no sense together.
    Usage(clap::Error),
    /// There is no file where the store should be.
    NoStore(PathBuf),
    /// The variable with the seal keys.
    SealKeys(steadfast::Error),
    /// The store does not open.
    Store(StoreError),
    /// The library's word.
    Letters(DeadLetterError),
    /// The vendors file.
    Vendors(steadfast::Error),
    /// A file that was to be read.
    Input(PathBuf, io::Error),
    /// A file that was to be written, or the terminal.
    Output(io::Error),
}

/// Done.
pub(crate) const DONE: u8 = 0;
/// Nothing matched, or something was refused.
pub(crate) const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const STORE: u8 = 3;
const VENDORS: u8 = 4;
const FILES: u8 = 5;

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::SealKeys(_) => USAGE,
            Failure::NoStore(_) | Failure::Store(_) => STORE,
            Failure::Letters(DeadLetterError::Store { .. }) => STORE,
            Failure::Letters(DeadLetterError::Output(_)) => FILES,
            Failure::Letters(DeadLetterError::Invalid(_)) => USAGE,
            Failure::Letters(_) => REFUSED,
            Failure::Vendors(_) => VENDORS,
            Failure::Input(..) | Failure::Output(_) => FILES,
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Failure::Output(error) | Failure::Letters(DeadLetterError::Output(error)) => {
                error.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }

    /// All layers, from what was tried to what stood in the way.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Usage(error) => error.to_string(),
            Failure::NoStore(path) => format!(
                "there is no store at {}; name the service's file with --store or STEADFAST_STORE",
                path.display()
            ),
            Failure::SealKeys(error) => chain(error),
            Failure::Store(error) if error.kind() == StoreErrorKind::Sealed => {
                format!(
                    "the store does not open: {}; give the service's keys in STEADFAST_SEAL_KEYS",
                    chain(error)
                )
            }
            Failure::Store(error) => format!("the store does not open: {}", chain(error)),
            Failure::Letters(error) => chain(error),
            Failure::Vendors(error) => chain(error),
            Failure::Input(path, error) => format!("{} cannot be read: {error}", path.display()),
            Failure::Output(error) => format!("the output could not be written: {error}"),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let code = match self {
            Failure::Letters(DeadLetterError::Refused { why, .. }) => why.code(),
            Failure::Letters(DeadLetterError::Absent(_)) => "absent",
            Failure::Letters(DeadLetterError::Ambiguous(_)) => "ambiguous",
            _ => match self.exit_code() {
                USAGE => "usage",
                STORE => "store",
                VENDORS => "vendors",
                _ => "files",
            },
        };
        json!({ "error": { "code": code, "problem": self.text() } })
    }
}

impl From<DeadLetterError> for Failure {
    fn from(error: DeadLetterError) -> Failure {
        Failure::Letters(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(error)
    }
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
