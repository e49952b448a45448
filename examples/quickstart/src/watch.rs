//! Waiting for the worker, and showing how far it is.

use std::io::IsTerminal as _;
use std::time::Duration;

use steadfast::store::{Sqlite, Store as _};
use tokio::time::{Instant, interval};

use crate::output::show;
use crate::progress::Progress;
use crate::worker::Worker;
use crate::{LOOK_EVERY, Problem};

/// How often a line of progress is written where it cannot be rewritten.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Generous: a run takes about fifteen seconds, and the machine may be busy.
const RUN_MAX: Duration = Duration::from_secs(180);

/// Shows how far the worker is, until that is far enough: on stderr, one line that is rewritten on a terminal,
/// a line every two seconds elsewhere.
pub async fn watch(
    worker: &mut Worker,
    store: &Sqlite,
    is_enough: impl Fn(&Progress) -> bool,
) -> Result<Progress, Problem> {
    let on_terminal = std::io::stderr().is_terminal();
    let began = Instant::now();
    let (mut looks, mut next_line) = (interval(LOOK_EVERY), began);
    loop {
        looks.tick().await;
        worker.runs()?;
        let progress = Progress::new(&store.tally().await?);
        if is_enough(&progress) {
            show(&format!("{}\n", progress.line()));
            return Ok(progress);
        }
        if began.elapsed() > RUN_MAX {
            let (line, seconds) = (progress.line(), RUN_MAX.as_secs());
            return Err(format!("the orders did not come to rest in {seconds} s:{line}").into());
        }
        if on_terminal {
            show(&format!("{}\r", progress.line()));
        } else if Instant::now() >= next_line {
            show(&format!("{}\n", progress.line()));
            next_line += LINE_EVERY;
        }
    }
}
