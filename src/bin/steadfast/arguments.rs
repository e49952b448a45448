//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::selection::Select;

/// Looks after the operations that a service recorded: dead letters above all.
#[derive(Parser, Debug)]
#[command(name = "steadfast", version, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// The service's store, an SQLite file
    #[arg(long, global = true, env = "STEADFAST_STORE", value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// The vendors file, for the vendors' rules; no secret is needed and nothing is sent
    #[arg(long, global = true, env = "STEADFAST_VENDORS", value_name = "PATH")]
    pub vendors: Option<PathBuf>,
    /// Prints JSON, on one line; errors too
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// What failed, was not refused, and waits for a person
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// Counts operations by vendor and phase, with the age of the oldest
    Stats,
    /// Checks a vendors file, without any secret
    Check {
        /// The file
        file: PathBuf,
    },
    /// Shows one operation, whatever became of it
    Show(ShowArguments),
}

#[derive(Subcommand, Debug)]
pub(crate) enum DeadLettersCommand {
    /// Lists dead letters, oldest first
    List {
        /// Counts them by failure instead
        #[arg(long, conflicts_with_all = ["after", "limit"])]
        group: bool,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Goes on after a page: what that page printed as next
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        #[command(flatten)]
        select: Select,
    },
    /// Shows one: request, reply, every attempt, what was done to it
    Show(ShowArguments),
    /// Makes dead letters due again; the running service sends them
    #[command(after_help = REDRIVE_HELP)]
    Redrive(RedriveArguments),
    /// Says what became of one
    Resolve(ResolveArguments),
    /// Sends another body instead, under a new key
    Edit(EditArguments),
    /// Writes them as JSON lines
    Export {
        #[command(flatten)]
        view: ViewArguments,
        /// Into this new file instead of the terminal
        #[arg(long, value_name = "PATH")]
        output: Option<PathBuf>,
        #[command(flatten)]
        select: Select,
    },
    /// Removes records whose time is over; never an unresolved dead letter
    Purge {
        #[command(flatten)]
        signer: Signer,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The operation: its key, or its whole name as lists print it
    pub operation: String,
    #[command(flatten)]
    pub view: ViewArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// Shows bodies and the values of headers; this goes on the audit record
    #[arg(long, requires = "why")]
    pub bodies: bool,
    /// Never shows the values of the fields of this name; may be given several times
    #[arg(long, value_name = "FIELD")]
    pub redact: Vec<String>,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct Signature {
    #[command(flatten)]
    pub signer: Signer,
    /// Why
    #[arg(long, value_name = "REASON")]
    pub why: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Signer {
    /// Who does it
    #[arg(
        long,
        env = "USER",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub by: String,
}

#[derive(Args, Debug)]
pub(crate) struct RedriveArguments {
    /// The operations: their keys, or their whole names
    pub operations: Vec<String>,
    /// All dead letters
    #[arg(long)]
    pub all: bool,
    /// Only counts
    #[arg(long)]
    pub dry_run: bool,
    /// Redrives what a filter matches; without it a filter is a dry run
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Also what may have taken effect and nothing can tell: risks a second effect
    #[arg(long, requires = "why")]
    pub force: bool,
    #[command(flatten)]
    pub signature: Signature,
    #[command(flatten)]
    pub select: Select,
}

#[derive(Args, Debug)]
pub(crate) struct ResolveArguments {
    /// The operation: its key, or its whole name
    pub operation: String,
    #[command(flatten)]
    pub word: Word,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Word {
    /// It took effect, and this is the vendor's name for it
    #[arg(long, value_name = "VENDOR_ID")]
    pub applied: Option<String>,
    /// It did not take effect
    #[arg(long)]
    pub not_applied: bool,
    /// It took effect and was undone
    #[arg(long)]
    pub compensated: bool,
    /// Takes an earlier word back
    #[arg(long)]
    pub reopen: bool,
}

#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    /// The operation: its key, or its whole name
    pub operation: String,
    /// The new operation's key
    #[arg(long)]
    pub key: String,
    /// A file with the new body, or - for what comes in
    #[arg(long, value_name = "PATH")]
    pub body: PathBuf,
    /// Although the old one may have taken effect: risks a second effect
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub signature: Signature,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  nothing matched, or something was refused or held back
  2  arguments or seal keys that make no sense
  3  the store: absent, locked, full, damaged, sealed, of another program
  4  the vendors file is wrong
  5  a file cannot be read or written

A store that the service seals is read with the service's keys, in STEADFAST_SEAL_KEYS.";

const REDRIVE_HELP: &str = "\
Name operations, or a filter, or --all. A filter is a dry run until --yes is given. The dry run prints the time at \
which it was frozen; --before with that time takes the same letters and none that died later.

What may have taken effect is only redriven where the vendor's rules (--vendors) make that safe.";
