//! Failures, with the exit codes that the help lists.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use steadfast::dead_letter::DeadLetterError;
use steadfast::store::{CopyError, StoreError, StoreErrorKind};

pub(crate) enum Failure {
    /// Arguments that cannot be parsed.
    Usage(clap::Error),
    /// Arguments that can be parsed, but are too few or contradict each other.
    Arguments(String),
    /// The variable with the seal keys is invalid.
    SealKeys(steadfast::Error),
    /// The store does not open.
    Store(StoreError),
    /// The store is open, but could not be sealed or rewritten.
    Upkeep(StoreError),
    /// Records were not copied.
    Copy(CopyError),
    /// The store that the vendors file names, or its seal keys.
    NamedStore(steadfast::Error),
    /// An error of the library.
    Letters(DeadLetterError),
    /// The vendors file is invalid.
    Vendors(steadfast::Error),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The port of a fake cannot be listened on.
    #[cfg(feature = "testkit")]
    FakePort(&'static str, u16, io::Error),
    /// The file with the faults is invalid.
    #[cfg(feature = "testkit")]
    FaultPlan(PathBuf, toml::de::Error),
    /// The signals' handlers cannot be installed.
    Signals(io::Error),
    /// A file cannot be read.
    Input(PathBuf, io::Error),
    /// A file or a directory cannot be written.
    File(PathBuf, io::Error),
    /// The terminal, or the program that reads our output, cannot be written to.
    Output(io::Error),
}

/// Done, also if there was nothing to do: an empty list is an answer.
pub(crate) const DONE: u8 = 0;
/// An operation was refused or held back.
pub(crate) const HELD_BACK: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const STORE: u8 = 3;
pub(crate) const VENDORS: u8 = 4;
pub(crate) const FILES: u8 = 5;
/// A code of its own: a script that checks if an operation is on record must not take another failure for *no*.
pub(crate) const ABSENT: u8 = 6;

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Arguments(_) | Failure::SealKeys(_) => USAGE,
            Failure::Store(_) | Failure::Upkeep(_) | Failure::Copy(CopyError::Store { .. }) => STORE,
            Failure::Copy(CopyError::SameStore) => USAGE,
            Failure::Copy(_) => HELD_BACK,
            Failure::NamedStore(error) if store_kind(error).is_some() => STORE,
            Failure::NamedStore(_) => USAGE,
            // The cursor of --after is invalid.
            Failure::Letters(DeadLetterError::Store { source, .. })
                if source.kind() == StoreErrorKind::Invalid =>
            {
                USAGE
            }
            Failure::Letters(DeadLetterError::Store { .. }) => STORE,
            Failure::Letters(DeadLetterError::Output(_)) => FILES,
            Failure::Letters(DeadLetterError::Invalid(_) | DeadLetterError::Ambiguous(_)) => USAGE,
            Failure::Letters(DeadLetterError::Absent(_)) => ABSENT,
            Failure::Letters(_) => HELD_BACK,
            Failure::Vendors(_) => VENDORS,
            Failure::Listen(..) | Failure::Signals(_) => FILES,
            #[cfg(feature = "testkit")]
            Failure::FakePort(..) | Failure::FaultPlan(..) => FILES,
            Failure::Input(..) | Failure::File(..) | Failure::Output(_) => FILES,
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

    /// Returns true if a store does not exist.
    pub(crate) fn is_absent_store(&self) -> bool {
        let kind = match self {
            Failure::Store(error) => Some(error.kind()),
            Failure::NamedStore(error) => store_kind(error),
            _ => None,
        };
        kind == Some(StoreErrorKind::Absent)
    }

    /// Returns all layers: what failed, why, and what to do.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Usage(error) => error.to_string().trim_start_matches("error: ").trim_end().to_owned(),
            Failure::Arguments(problem) => problem.clone(),
            Failure::NamedStore(error) if store_kind(error) == Some(StoreErrorKind::Absent) => {
                format!("{error:#}; a service that starts with this file creates it, if it may")
            }
            Failure::SealKeys(error) | Failure::NamedStore(error) | Failure::Vendors(error) => {
                format!("{error:#}")
            }
            Failure::Store(error) => match error.kind() {
                StoreErrorKind::Absent => format!(
                    "no such store: {}; name the service's store with --store or in STEADFAST_STORE",
                    chain(error)
                ),
                StoreErrorKind::Sealed => format!(
                    "the store does not open: {}; give the service's keys in STEADFAST_SEAL_KEYS",
                    chain(error)
                ),
                _ => format!("the store does not open: {}", chain(error)),
            },
            Failure::Upkeep(error) if error.kind() == StoreErrorKind::Sealed => format!(
                "{}; give the service's keys in STEADFAST_SEAL_KEYS, or name their variable in the vendors file",
                chain(error)
            ),
            Failure::Upkeep(error) => chain(error),
            Failure::Copy(error @ CopyError::Held { .. }) => {
                format!("{}, or let --wait do so", chain(error))
            }
            Failure::Copy(error @ CopyError::Elsewhere { .. }) => format!("{} with --give-up", chain(error)),
            Failure::Copy(error) => chain(error),
            Failure::Letters(error @ DeadLetterError::Absent(_)) => format!(
                "{}; it was never recorded in this store, or its record was removed when its time was over",
                chain(error)
            ),
            Failure::Letters(error) => chain(error),
            Failure::Listen(address, error) => {
                format!("{address} cannot be listened on: {error}; name another address with --listen")
            }
            #[cfg(feature = "testkit")]
            Failure::FakePort(vendor, port, error) => {
                format!("127.0.0.1:{port} cannot be listened on: {error}; name another port with --{vendor}")
            }
            #[cfg(feature = "testkit")]
            Failure::FaultPlan(path, error) => {
                format!("{} is not a plan of faults: {}", path.display(), error.to_string().trim_end())
            }
            Failure::Signals(error) => format!("cannot install signal handlers: {error}"),
            Failure::Input(path, error) => format!("{} cannot be read: {error}", path.display()),
            Failure::File(path, error) if error.kind() == io::ErrorKind::AlreadyExists => {
                format!("{} exists already and is not overwritten; name a new file", path.display())
            }
            Failure::File(path, error) => format!("{} cannot be written: {error}", path.display()),
            Failure::Output(error) => format!("the output could not be written: {error}"),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let code = match self {
            Failure::Letters(DeadLetterError::Refused { why, .. }) => why.code(),
            Failure::Letters(DeadLetterError::Ambiguous(_)) => "ambiguous",
            _ => match self.exit_code() {
                USAGE => "usage",
                STORE => "store",
                VENDORS => "vendors",
                FILES => "files",
                ABSENT => "absent",
                _ => "refused",
            },
        };
        json!({ "code": code, "problem": self.text() })
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

/// Returns the kind of error of the store that a vendors file names; `None` if the file itself is wrong.
fn store_kind(error: &steadfast::Error) -> Option<StoreErrorKind> {
    error.source()?.downcast_ref::<StoreError>().map(StoreError::kind)
}

/// Returns all layers of an error.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
