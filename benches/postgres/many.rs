//! Ten dispatchers at one backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steadfast::dispatcher::Dispatcher;
use tokio::runtime::Runtime;

use crate::load::{self, Ledger};
use crate::{bench, open};
use support::server::Server;

/// Each with connections of its own, as ten processes have.
const DISPATCHERS: usize = 10;

pub fn ten_dispatchers(server: &Server, runtime: &Runtime) {
    let jobs = if bench::is_quick() { 5_000 } else { 100_000 };
    println!("{DISPATCHERS} dispatchers on {jobs} due operations");
    let ledgers: Vec<Arc<Ledger>> = (0..DISPATCHERS).map(|_| Ledger::new(jobs)).collect();
    let clients: Vec<_> =
        ledgers.iter().map(|ledger| load::client(&open(server, "many"), 64, ledger)).collect();
    let took = runtime.block_on(async {
        let next = Arc::new(AtomicUsize::new(0));
        let callers = (0..256).map(|caller| {
            let (client, next) = (clients[caller % DISPATCHERS].clone(), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return;
                    }
                    load::enqueue(&client, number, "many").await;
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("no panic");
        }
        let began = Instant::now();
        let dispatchers: Vec<_> = clients.iter().map(|client| Dispatcher::over([client]).start()).collect();
        let sent = || ledgers.iter().map(|ledger| ledger.sent_between(1, u64::MAX)).sum::<usize>();
        while sent() < jobs && began.elapsed() < Duration::from_secs(120) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed();
        for dispatcher in dispatchers {
            dispatcher.stop(Duration::from_secs(30)).await;
        }
        took
    });
    let each: Vec<usize> = ledgers.iter().map(|ledger| ledger.sent_between(1, u64::MAX)).collect();
    let again: u64 = ledgers.iter().map(|ledger| ledger.lost_doubled_again().2).sum();
    let (all, least) = (each.iter().sum::<usize>(), each.iter().min().copied().unwrap_or_default());
    let mean = all as f64 / DISPATCHERS as f64;
    println!(
        "sent {all} (each once: {})  {:.0}/s  least ÷ mean {:.2}  target 0.5  {each:?}",
        all == jobs && again == 0,
        all as f64 / took.as_secs_f64(),
        least as f64 / mean
    );
}
