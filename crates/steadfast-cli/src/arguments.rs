//! The command line's arguments. Options come in the same order in every command: its own, the filter of dead
//! letters, name and reason, and those of every command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::dispatch::DispatchArguments;
use crate::fakes::FakesArguments;
use crate::selection::Select;
use crate::signature::{Signature, Signer};
use crate::status::{ListArguments, SelectWaiting};

/// Manages the operations that a service recorded: dead letters above all.
///
/// It works on the service's store while the service runs. Only `dispatch` sends anything.
#[derive(Parser, Debug)]
#[command(name = "steadfast", version, disable_help_flag = true, disable_version_flag = true)]
#[command(after_help = "--help also lists the exit codes.", after_long_help = crate::help::after_help())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    /// The service's store, such as sqlite:vendor-calls.db or postgres://ada@db.internal/shop?schema=payments, or the
    /// path of its file [default: STEADFAST_STORE, else what the vendors file names]
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = ALWAYS, display_order = LAST)]
    pub store: Option<OsString>,
    /// The vendors file, for the vendors' rules and its store; no vendor's secret is needed [default: STEADFAST_VENDORS]
    #[arg(long, global = true, value_name = "PATH")]
    #[arg(help_heading = ALWAYS, display_order = LAST + 1)]
    pub vendors: Option<PathBuf>,
    /// Answers with one JSON object, also when it fails
    #[arg(long, global = true)]
    #[arg(help_heading = ALWAYS, display_order = LAST + 2)]
    pub json: bool,
    /// Prints help; --help prints more than -h
    #[arg(short, long, global = true, action = ArgAction::Help)]
    #[arg(help_heading = ALWAYS, display_order = LAST + 3)]
    help: Option<bool>,
    /// Prints the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    #[arg(help_heading = ALWAYS, display_order = LAST + 4)]
    version: Option<bool>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Shows in one screen what waits, why, since when, and when it will be delivered
    ///
    /// For each account it shows if the circuit is open, or if the account is held or paused, as its
    /// dispatchers report. It counts waiting operations, and shows the last answer of each route. It reads open
    /// operations alone, and is as fast with a million that have ended.
    Status,
    /// Lists operations that are scheduled or in progress, in the order of their claims
    List(ListArguments),
    /// Counts operations by vendor and phase
    Stats,
    /// Shows one operation, in any phase
    Show(ShowArguments),
    /// Lists calls from callers' own transactions that cannot be made, with the reason
    ///
    /// Each is shown by its number in the table steadfast_outbox; on Postgres the table is outbox, in the
    /// store's schema. Nothing of it was sent, and its key is free. To try it again, correct the row and set
    /// its columns rejected_at_ms and rejected to NULL; or delete it.
    Outbox(OutboxArguments),
    /// Ends an operation that waits for its next attempt, or that a dead process left
    ///
    /// It becomes a resolved dead letter; its effect stays as on record. The command is refused while a process
    /// holds the operation.
    ///
    /// Name operations, or a filter, or --all. A filter is a dry run until --yes is given, as with dead-letters
    /// redrive.
    Cancel(CancelArguments),
    /// Moves operations to a new name, after an account, a namespace or a vendor was renamed
    ///
    /// It is a dry run until --yes is given, and needs a vendors file that has the new name. Each operation
    /// keeps its wire key. It is held back if a process holds it, or if its new name is on record already. So
    /// is one that was sent to another address than the new name's client calls. The exit code is then 1.
    Adopt(AdoptArguments),
    /// Seals every operation with the current key, if an older key sealed it or none did
    ///
    /// The keys are those of the service, the current one first: STEADFAST_SEAL_KEYS, or those that the vendors
    /// file names. It works in small batches beside the running service. After an interruption, run it again.
    /// The exit code is 1 if some operations are still not sealed with the current key at the end.
    Reseal(ResealArguments),
    /// Creates or migrates the schema of a store on Postgres
    ///
    /// A service does so itself when it starts, if its role may. This is for a role that may, before the
    /// services of a new release start, and beside those of the old one. It is one transaction; of several at
    /// once, one does it and the others find it done. An SQLite file does not need it: the process that opens
    /// it migrates it.
    Migrate(MigrateArguments),
    /// Copies all records to another store, and closes the old one
    ///
    /// Stop the service first: from the beginning, no process can write to either store. While a process holds
    /// an operation in the old store, the copy is refused, and the exit code is 1. At the end every operation,
    /// its log and every entry of the audit record are compared; then the new store is open. A process that
    /// still uses the old one sends nothing, and its error names the new one.
    ///
    /// After an interruption, run it again. Both stores are opened with the keys in STEADFAST_SEAL_KEYS, and
    /// the new one is sealed with the first of them.
    Copy(CopyArguments),
    /// Shows the terms that clients have registered for their accounts, or removes them
    ///
    /// The terms are a client's base URL and other settings that all services of an account must share. A
    /// client registers them when it first recovers. A service whose client differs is refused. Before a
    /// deployment that changes them on purpose, --forget removes them; the next process to start registers its
    /// own.
    Terms(TermsArguments),
    /// Shows the store's place, or declares a store that was opened at another place moved or a copy
    ///
    /// A store knows the file, or the database and its schema, that its records are from. Opened at another
    /// place it may be a copy, whose original sends the same calls. So it takes no operations until this
    /// command declares it; settled operations are replayed all the same. Running services then continue by
    /// themselves.
    ///
    /// Without an option it shows the place. The exit code is 1 if the store takes no operations.
    Here(HereArguments),
    /// Delivers operations that services enqueued, in a process of its own
    ///
    /// It delivers due operations and those of dead processes, of all vendors of the vendors file, until
    /// SIGTERM or SIGINT. Then it takes no more, waits for the sends in flight, and releases the rest. Another
    /// process can take them over at once. The vendors' secrets must be set in the environment as for the
    /// service; the store must exist. Any number of these may run beside each other and beside the service.
    ///
    /// GET /health is 200 while it works and its store answers, else 503 with the reason. GET /metrics is for
    /// Prometheus.
    Dispatch(DispatchArguments),
    /// Runs fakes of vendors on fixed ports of 127.0.0.1, for tests in any language
    ///
    /// They keep the vendors' public contracts, count what took effect, and forget everything at the end, which is
    /// SIGTERM or SIGINT. A port of 0 is a free one; the addresses are printed when all of them answer. At each address
    /// the page /_fake shows the ledger and takes faults; for programs there are /_fake/ledger and /_fake/faults. A
    /// DELETE of /_fake/ledger empties it: the next test counts from zero, and the fake keeps its objects.
    ///
    /// A plan is a TOML file with a table for each vendor. In it, seed, rate and among are for faults by chance. A list
    /// [[stripe.fault]] has faults one by one: fault, method, path, times and always.
    ///
    /// It needs a build with the feature testkit: cargo install steadfast-cli --features testkit
    Fakes(FakesArguments),
    /// Lists, shows, redrives and resolves dead letters
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// Checks a vendors file, without any secret, and warns of the store if it is there
    Check {
        /// The file; without it, that of --vendors or STEADFAST_VENDORS
        file: Option<PathBuf>,
    },
    /// Prints completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Prints the manual page, or writes one for each command
    Man {
        /// Writes the pages of all commands into this directory
        #[arg(long, value_name = "DIRECTORY")]
        out: Option<PathBuf>,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum DeadLettersCommand {
    /// Lists dead letters, in the order in which they were recorded
    List {
        /// Counts them by failure instead
        #[arg(long, conflicts_with_all = ["after", "limit"])]
        group: bool,
        /// Maximum of results
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Continues after a page: the cursor that the page printed as next
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        #[command(flatten)]
        select: Select,
    },
    /// Shows one: request, reply, every attempt, and operators' actions
    Show(ShowArguments),
    /// Makes dead letters due again; the running service sends them
    ///
    /// Name operations, or a filter, or --all. A filter is a dry run until --yes is given. The dry run prints
    /// the time at which it was frozen; --before with that time takes the same letters and none that died
    /// later.
    ///
    /// A letter that may have taken effect is only redriven where the vendor's rules (--vendors) make that
    /// safe. The rest is held back, and the exit code is then 1; a filter that matches nothing is no error.
    Redrive(RedriveArguments),
    /// Records the outcome of dead letters
    ///
    /// Name operations, or a filter, or --all. A filter is a dry run until --yes is given. The dry run prints the time
    /// at which it was frozen; --before with that time takes the same letters and none that died later.
    Resolve(ResolveArguments),
    /// Sends another body instead, under a new key
    Edit(EditArguments),
    /// Writes them as JSON lines, each as `show --json` prints it
    Export {
        /// Into this new file instead of the terminal; --json needs it
        #[arg(long, value_name = "PATH")]
        output: Option<PathBuf>,
        #[command(flatten)]
        view: ViewArguments,
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        signature: Signature,
    },
    /// Removes expired records; never an unresolved dead letter
    Purge {
        #[command(flatten)]
        signer: Signer,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Operation {
    /// The operation: its key, the wire key from the vendor's dashboard, or its whole name
    ///
    /// A key or a whole name, as lists print it, is looked up in an index. A wire key (Stripe shows it as the
    /// idempotency key) has none: it is looked for among the dead letters, and then in every record. That takes
    /// about a second for a million records in memory, and longer if they come from the disk.
    #[arg(id = "operation", value_name = "OPERATION")]
    pub name: String,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    pub operation: Operation,
    #[command(flatten)]
    pub view: ViewArguments,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// Shows bodies and the values of headers; needs --by and --why
    #[arg(long)]
    pub bodies: bool,
    /// Never shows the values of the fields of this name; may be given several times
    #[arg(long, value_name = "FIELD")]
    pub redact: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RedriveArguments {
    /// The operations: keys, wire keys from the vendor's dashboard, or whole names
    #[arg(value_name = "OPERATION")]
    pub operations: Vec<String>,
    /// All dead letters
    #[arg(long)]
    pub all: bool,
    /// Redrives the matches of a filter; without it a filter is a dry run
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Only counts, and needs no name
    #[arg(long)]
    pub dry_run: bool,
    /// Also letters that may have taken effect: risks a second effect, and needs --why
    #[arg(long)]
    pub force: bool,
    /// Also a PUT, PATCH or DELETE without a condition: it overwrites later writes, and needs --why
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct ResolveArguments {
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub resolution: ResolutionArguments,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub signature: Signature,
}

/// Operations for a command on many, and its confirmation.
#[derive(Args, Debug)]
pub(crate) struct ManyArguments {
    /// The operations: keys, wire keys from the vendor's dashboard, or whole names
    #[arg(value_name = "OPERATION")]
    pub operations: Vec<String>,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Changes the matches of a filter; without it a filter is a dry run
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Only counts, and needs no name
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ResolutionArguments {
    /// It took effect, and this is the vendor's ID for it
    #[arg(long, value_name = "VENDOR_ID", value_parser = NonEmptyStringValueParser::new())]
    pub applied: Option<String>,
    /// It did not take effect
    #[arg(long)]
    pub not_applied: bool,
    /// It took effect and was undone
    #[arg(long)]
    pub compensated: bool,
    /// Takes back an earlier resolution
    #[arg(long)]
    pub reopen: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    pub many: ManyArguments,
    #[command(flatten)]
    pub select: SelectWaiting,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct AdoptArguments {
    /// The old name, NAMESPACE/VENDOR/ACCOUNT as a scope begins, such as default/stripe/live
    #[arg(long, value_name = "ACCOUNT_PATH")]
    pub from: String,
    /// The new name, such as prod/stripe/live
    #[arg(long, value_name = "ACCOUNT_PATH")]
    pub to: String,
    /// Does it; without it, only counts and needs neither name nor reason
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct OutboxArguments {
    /// Maximum of results
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Continues after a page: the cursor that the page printed as next
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ResealArguments {
    /// Only counts
    #[arg(long, conflicts_with = "wipe")]
    pub dry_run: bool,
    /// Then rewrites the store, because its free space may still hold the old bytes; calls wait meanwhile
    #[arg(long)]
    pub wipe: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArguments {
    /// Also creates the roles NAME_owner, NAME_app, NAME_dispatcher and NAME_reader, after the schema, and
    /// grants their rights; make each login a member of one
    #[arg(long)]
    pub roles: bool,
    /// Prints the statements for an empty database instead, and connects to nothing
    #[arg(long)]
    pub sql: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CopyArguments {
    /// The store that has the records, such as sqlite:vendor-calls.db, or the path of its file
    #[arg(long, value_name = "URL", value_hint = ValueHint::FilePath)]
    pub from: OsString,
    /// The new store; it is created if it does not exist
    #[arg(long, value_name = "URL", value_hint = ValueHint::FilePath, required_unless_present = "lost")]
    pub to: Option<OsString>,
    /// Waits for the holders of operations; the old store takes no new ones meanwhile
    #[arg(long)]
    pub wait: bool,
    /// Does not seal the new store
    #[arg(long)]
    pub unsealed: bool,
    /// Opens the old store again, if the copy is not complete; remove the new one then
    #[arg(long, conflicts_with_all = ["wait", "unsealed"])]
    pub give_up: bool,
    /// The new store is lost for good; with --give-up. Found again and used, it sends what the old one sends
    #[arg(long, requires = "give_up", conflicts_with = "to")]
    pub lost: bool,
}

#[derive(Args, Debug)]
pub(crate) struct HereArguments {
    /// It was moved here, and the original is gone: it continues
    #[arg(long, conflicts_with_all = ["copy", "will_move"])]
    pub moved: bool,
    /// It is a copy, and the original may still be used: its open operations are closed, because the original
    /// delivers them
    #[arg(long, conflicts_with = "will_move")]
    pub copy: bool,
    /// It will be moved within a day: the first other place where it is opened becomes its own
    #[arg(long)]
    pub will_move: bool,
    #[command(flatten)]
    pub signature: Signature,
}

#[derive(Args, Debug)]
pub(crate) struct TermsArguments {
    /// Removes the terms of this account, NAMESPACE/VENDOR/ACCOUNT, such as prod/stripe/live
    #[arg(long, value_name = "ACCOUNT_PATH")]
    pub forget: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    #[command(flatten)]
    pub operation: Operation,
    /// The new operation's key
    #[arg(long)]
    pub key: String,
    /// A file with the new body, or - for the standard input
    #[arg(long, value_name = "PATH")]
    pub body: PathBuf,
    /// Also if the old operation may have taken effect: risks a second effect
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub signature: Signature,
}

impl Command {
    /// Returns the command's name as it is typed, and as a JSON answer has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Status => "status",
            Command::List(_) => "list",
            Command::Stats => "stats",
            Command::Show(_) => "show",
            Command::Outbox(_) => "outbox",
            Command::Cancel(_) => "cancel",
            Command::Adopt(_) => "adopt",
            Command::Reseal(_) => "reseal",
            Command::Migrate(_) => "migrate",
            Command::Copy(_) => "copy",
            Command::Terms(_) => "terms",
            Command::Here(_) => "here",
            Command::Dispatch(_) => "dispatch",
            Command::Fakes(_) => "fakes",
            Command::Check { .. } => "check",
            Command::Completions { .. } => "completions",
            Command::Man { .. } => "man",
            Command::DeadLetters(command) => match command {
                DeadLettersCommand::List { .. } => "dead-letters list",
                DeadLettersCommand::Show(_) => "dead-letters show",
                DeadLettersCommand::Redrive(_) => "dead-letters redrive",
                DeadLettersCommand::Resolve(_) => "dead-letters resolve",
                DeadLettersCommand::Edit(_) => "dead-letters edit",
                DeadLettersCommand::Export { .. } => "dead-letters export",
                DeadLettersCommand::Purge { .. } => "dead-letters purge",
            },
        }
    }
}

/// Heading of the options of every command.
const ALWAYS: &str = "In every command";

/// Order after every command's own options, which clap would otherwise mix these with.
const LAST: usize = 1_000;
