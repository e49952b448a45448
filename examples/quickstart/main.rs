//! 200 orders through three vendors that misbehave: charge (Stripe) → order (BigCommerce) → receipt
//! (Postmark), by a service that is killed half-way and started again.
//!
//! ```sh
//! cargo run --release --example quickstart                 # a table
//! cargo run --release --example quickstart -- --json       # the same as one JSON object on the last line
//! cargo run --release --example quickstart -- --seed 7     # other faults
//! ```
//!
//! The vendors are the fakes of the testkit, on loopback, and everything goes over real sockets in real time.
//! Each answers about one request in six with a fault: a connection dropped before or after the effect, a
//! truncated body, a 500 before or after, a 429.
//!
//! The service is a process of its own (this program once more) that records its calls in an SQLite file. When
//! about half of the orders are through it is killed with SIGKILL, in the middle of whatever it does. A second
//! one on the same file takes all orders again under the same keys: what had ended answers from the record,
//! what was under way is taken over once its lease has run out. In the end the operations on record are held
//! against the vendors' ledgers, which know what really took effect, and one dead letter is redriven.
//!
//! Begin with `shop.rs`, which is what a service looks like; `letters.rs` is what its operators do.

mod kill;
mod letters;
mod report;
mod shop;
mod vendors;
mod worker;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kill::{Aftermath, Kill};
use letters::{Found, Redriven};
use report::Report;
use shop::ORDERS;
use steadfast::store::Sqlite;
use vendors::Vendors;
use worker::{Progress, Service, Worker};

type Problem = Box<dyn std::error::Error + Send + Sync>;

struct Arguments {
    json: bool,
    seed: u64,
}

/// All that is shown in the end.
struct Story {
    report: Report,
    kill: Kill,
    aftermath: Aftermath,
    found: Found,
    redriven: Option<Redriven>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == worker::WORKER).is_some() {
        let ended = match Service::from_arguments(words) {
            Ok(service) => service.run().await,
            Err(problem) => Err(problem),
        };
        return exit_code(ended.map(|()| true));
    }
    let arguments = match Arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(problem) => {
            complain(&*problem);
            return ExitCode::from(2);
        }
    };
    // Whichever way this ends, what `run` holds is dropped: the worker is killed, the directory removed.
    tokio::select! {
        biased;
        code = interrupted() => ExitCode::from(code),
        ended = run(&arguments) => exit_code(ended.map(|story| story.show(&arguments))),
    }
}

async fn run(Arguments { seed, .. }: &Arguments) -> Result<Story, Problem> {
    let vendors = Vendors::open(*seed).await;
    let ledgers = vendors.ledgers();
    let directory = tempfile::tempdir()?;
    let service =
        Service { file: directory.path().join("vendor-calls.db"), urls: vendors.urls(), seed: *seed };

    let mut first = Worker::start(&service)?;
    let half = half_way(*seed);
    let seen = watch(&mut first, |progress| progress.orders >= half).await?;
    first.kill()?;
    let (store, _) = service.open()?;
    let kill = Kill::survey(seen.orders, &store, &ledgers).await?;
    close(store).await;
    show(&format!("{}\nthe same orders again, on the same file\n", kill.text()));

    let mut second = Worker::start(&service)?;
    watch(&mut second, Progress::is_complete).await?;

    // The service still runs; this is its operator beside it.
    let (store, shop) = service.open()?;
    let letters = letters::letters(&store, &shop);
    let found = letters::find(&letters).await?;
    vendors.mend();
    let redriven = letters::redrive(&letters, &store, &ledgers[2]).await?;
    second.stop().await?;

    let outcomes = report::outcomes(&store).await?;
    let report = Report::new(ORDERS, &outcomes, &ledgers);
    let aftermath = kill.aftermath(&outcomes);
    drop((letters, shop));
    close(store).await;
    directory.close()?;
    Ok(Story { report, kill, aftermath, found, redriven })
}

/// Shuts the file, so that nothing of it moves while its directory is removed.
async fn close(store: Arc<Sqlite>) {
    // What else held it is gone.
    if let Some(store) = Arc::into_inner(store) {
        store.close().await;
    }
}

/// After how many orders the worker is killed.
fn half_way(seed: u64) -> usize {
    ORDERS / 2 - 10 + (seed % 21) as usize
}

/// Shows how far the worker is, until that is far enough: on stderr, one line that is rewritten on a terminal,
/// a line every two seconds elsewhere.
async fn watch(worker: &mut Worker, is_enough: impl Fn(&Progress) -> bool) -> Result<Progress, Problem> {
    let terminal = std::io::stderr().is_terminal();
    let (pace, end) =
        if terminal { (Duration::from_millis(100), "\r") } else { (Duration::from_secs(2), "\n") };
    let mut ticks = tokio::time::interval(pace);
    let mut progress = Progress::default();
    while !is_enough(&progress) {
        tokio::select! {
            told = worker.progress() => progress = told?,
            _ = ticks.tick() => show(&format!("{}{end}", progress.line())),
        }
    }
    show(&format!("{}\n", progress.line()));
    Ok(progress)
}

/// Ends on Ctrl-C, or when the terminal goes or somebody asks for an end, with the exit code that shells give
/// for it. Without signals to hear, it never ends.
#[cfg(unix)]
async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = async |kind| match signal(kind) {
        Ok(mut signals) => _ = signals.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = heard(SignalKind::hangup()) => 129,
        () = heard(SignalKind::interrupt()) => 130,
        () = heard(SignalKind::terminate()) => 143,
    }
}

#[cfg(not(unix))]
async fn interrupted() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 130,
        Err(_) => std::future::pending().await,
    }
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Arguments, Problem> {
        let mut arguments = Arguments { json: false, seed: 1 };
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--json") => arguments.json = true,
                Some("--seed") => {
                    let word = words.next().ok_or("--seed needs a number")?;
                    let seed = word.to_str().and_then(|text| text.parse().ok());
                    arguments.seed = seed.ok_or_else(|| format!("--seed needs a number, not {word:?}"))?;
                }
                _ => return Err(format!("unknown argument {word:?}; there are --json and --seed N").into()),
            }
        }
        Ok(arguments)
    }
}

impl Story {
    /// Prints it, and says whether all went as promised.
    fn show(&self, arguments: &Arguments) -> bool {
        let text =
            if arguments.json { self.json(arguments.seed).to_string() } else { self.text(arguments.seed) };
        let mut out = std::io::stdout().lock();
        // A closed pipe ends the output, not the verdict.
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        if !self.report.keeps_the_promise() {
            show("quickstart: the promise is broken: see `duplicates` and `lost`\n");
        }
        let redriven = self.redriven.as_ref().is_some_and(Redriven::took_effect_once);
        if !redriven {
            show("quickstart: no dead letter was redriven to exactly one effect\n");
        }
        self.report.keeps_the_promise() && redriven
    }

    fn text(&self, seed: u64) -> String {
        let Story { report, kill, aftermath, found, redriven } = self;
        let redriven = redriven.as_ref().map_or_else(|| "redriven: none is safe".to_owned(), Redriven::text);
        let (table, kill, aftermath) = (report.table(seed), kill.text(), aftermath.text());
        format!("{table}\n\n{kill}\n{aftermath}\n\n{}\n{redriven}", found.text())
    }

    fn json(&self, seed: u64) -> serde_json::Value {
        let mut object = self.report.json(seed);
        object["kill"] = self.kill.json(&self.aftermath);
        object["dead_letters"] = self.found.json();
        object["redrive"] = self.redriven.as_ref().map(Redriven::json).into();
        object
    }
}

fn exit_code(ended: Result<bool, Problem>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            complain(&*problem);
            ExitCode::FAILURE
        }
    }
}

fn show(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Says what went wrong, with its causes.
fn complain(problem: &(dyn std::error::Error + 'static)) {
    let mut text = format!("quickstart: {problem}");
    let mut source = problem.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    show(&format!("{text}\n"));
}
