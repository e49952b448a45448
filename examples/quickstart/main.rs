//! 200 orders through three vendors that misbehave: charge (Stripe) → order (BigCommerce) → receipt
//! (Postmark).
//!
//! ```sh
//! cargo run --release --example quickstart                 # a table
//! cargo run --release --example quickstart -- --json       # the same as one JSON object on the last line
//! cargo run --release --example quickstart -- --seed 7     # other faults
//! ```
//!
//! The vendors are the fakes of the testkit, on loopback, and everything goes over real sockets in real time.
//! Each answers about one request in six with a fault: a connection dropped before or after the effect, a
//! truncated body, a 500 before or after, a 429. Their ledgers know what really took effect, and the report
//! holds every operation's end against them.

mod report;
mod shop;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use report::{Progress, Report};
use shop::Shop;

const ORDERS: usize = 200;
const WORKERS: usize = 16;

pub(crate) struct Arguments {
    pub(crate) json: bool,
    pub(crate) seed: u64,
}

impl Arguments {
    fn parse() -> Result<Arguments, String> {
        let mut arguments = Arguments { json: false, seed: 1 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => arguments.json = true,
                "--seed" => {
                    let text = words.next().ok_or("--seed needs a number")?;
                    arguments.seed =
                        text.parse().map_err(|_| format!("--seed needs a number, not {text:?}"))?;
                }
                other => return Err(format!("unknown argument {other:?}; there are --json and --seed N")),
            }
        }
        Ok(arguments)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(arguments) => arguments,
        Err(problem) => {
            complain(&problem);
            return ExitCode::from(2);
        }
    };
    match run(arguments).await {
        Ok(report) if report.keeps_the_promise() => ExitCode::SUCCESS,
        Ok(_) => {
            complain("the promise is broken: see `duplicates` and `lost`");
            ExitCode::FAILURE
        }
        Err(problem) => {
            complain(&problem.to_string());
            ExitCode::FAILURE
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report, steadfast::Error> {
    let progress = Arc::new(Progress::default());
    let shop = Arc::new(Shop::open(arguments.seed, Arc::clone(&progress)).await?);
    let watcher = tokio::spawn(watch(Arc::clone(&progress)));

    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let shop = Arc::clone(&shop);
        workers.spawn(async move {
            let mut outcomes = Vec::new();
            for order in (worker..ORDERS).step_by(WORKERS) {
                shop.take(order, &mut outcomes).await;
            }
            outcomes
        });
    }
    let outcomes: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    watcher.abort();

    let report = Report::new(&outcomes, &shop.ledgers());
    show(&progress.line(ORDERS));
    show("\n");
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the output, not the verdict.
    let _ = if arguments.json {
        writeln!(out, "{}", report.json(arguments.seed))
    } else {
        write!(out, "{}", report.table(arguments.seed))
    };
    Ok(report)
}

/// Shows how far the orders are, on stderr: one line that is rewritten on a terminal, a line every two
/// seconds elsewhere.
async fn watch(progress: Arc<Progress>) {
    let terminal = std::io::stderr().is_terminal();
    let (pace, end) =
        if terminal { (Duration::from_millis(100), "\r") } else { (Duration::from_secs(2), "\n") };
    let mut ticks = tokio::time::interval(pace);
    loop {
        ticks.tick().await;
        show(&progress.line(ORDERS));
        show(end);
    }
}

fn show(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn complain(problem: &str) {
    show(&format!("quickstart: {problem}\n"));
}
