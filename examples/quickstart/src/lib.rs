//! 200 orders through three vendors that misbehave: charge (Stripe) → order (BigCommerce) → mail (Postmark), by a
//! service that is killed half-way and started again.
//!
//! ```sh
//! cargo run -p quickstart                      # a table and a verdict
//! cargo run -p quickstart -- --json            # the same as one JSON object on the last line
//! cargo run -p quickstart -- --seed 7          # other faults
//! cargo run -p quickstart -- --keep kept       # leaves the store, to try the command line on
//! ```
//!
//! The vendors are the fakes of the testkit, on loopback, and everything goes over real sockets in real time.
//! Each answers about one request in six with a fault: a connection dropped before or after the effect, a
//! truncated body, a 500 before or after, a 429.
//!
//! The service is a process of its own (this program once more). It enqueues its calls, which puts them on record in an
//! SQLite file, and a dispatcher in it sends them. When about half of the orders are through it is killed with SIGKILL,
//! in the middle of whatever it does. A second one on the same file takes all orders again under the same keys. An
//! operation that had ended answers from the record; one that was under way is taken over once its lease has run out.
//! In the end the operations on record are held against the vendors' ledgers, which know what really took effect, and
//! one dead letter is redriven.
//!
//! Begin with `shop.rs`, which is what a service looks like; `letters.rs` is what its operators do.

pub mod arguments;
pub mod directory;
pub mod kill;
pub mod letters;
pub mod output;
pub mod progress;
pub mod report;
pub mod shop;
pub mod story;
pub mod vendors;
pub mod watch;
pub mod worker;

use std::sync::Arc;
use std::time::Duration;

use steadfast::store::Sqlite;

use crate::arguments::Arguments;
use crate::directory::Directory;
use crate::kill::Kill;
use crate::output::{print, show};
use crate::progress::Progress;
use crate::report::Report;
use crate::story::Story;
use crate::vendors::{ORDERS, Vendors};
use crate::watch::watch;
use crate::worker::{Service, Worker};

pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// How often to look for what sends no notice.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs it, prints what came of it, and says whether all is well.
pub async fn run(arguments: &Arguments, directory: Directory) -> Result<bool, Problem> {
    let Arguments { seed, json, keep } = arguments;
    show(&format!("{ORDERS} orders through three vendors that misbehave, seed {seed}\n"));
    let vendors = Vendors::open(*seed).await;
    let ledgers = vendors.ledgers();
    let service = Service { file: directory.file(), urls: vendors.urls() };

    let (store, _) = service.open()?;
    let mut first = Worker::start(&service)?;
    let half = half_way(*seed);
    let seen = watch(&mut first, &store, |progress| progress.orders() >= half).await?;
    first.kill()?;
    let kill = Kill::survey(seen.orders(), &store, &ledgers).await?;
    close(store).await;
    show(&format!(
        "{}\na new process on the same file takes all orders again, under the same keys\n",
        kill.text()
    ));

    let mut second = Worker::start(&service)?;
    // The service runs; this is its operator beside it.
    let (store, shop) = service.open()?;
    watch(&mut second, &store, Progress::is_complete).await?;
    let letters = letters::letters(&store, &shop);
    let found = letters::find(&letters).await?;
    vendors.mend();
    let redriven = letters::redrive(&letters, &store, &ledgers[2]).await?;
    second.stop().await?;

    let outcomes = report::outcomes(&store).await?;
    let report = Report::new(ORDERS, &outcomes, &ledgers);
    let aftermath = kill.aftermath(&outcomes);
    let left = letters::find(&letters).await?;
    drop((letters, shop));
    close(store).await;
    let story = Story { report, kill, aftermath, found, left, redriven };
    let kept = keep.is_some().then(|| directory.file());
    print(&if *json { story.json(*seed).to_string() } else { story.text(kept.as_deref()) });
    directory.close()?;
    Ok(story.is_well())
}

/// Shuts the file, so that nothing of it moves while its directory is removed.
async fn close(store: Arc<Sqlite>) {
    // Every other holder of it is gone.
    if let Some(store) = Arc::into_inner(store) {
        store.close().await;
    }
}

/// After how many orders the worker is killed.
fn half_way(seed: u64) -> usize {
    ORDERS / 2 - 10 + (seed % 21) as usize
}

/// `1 call`, `2 calls`.
fn count(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
