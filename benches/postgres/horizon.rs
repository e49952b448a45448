//! A transaction that holds the horizon of vacuum: what is delivered beside it, and how late.

use std::sync::Arc;
use std::time::Duration;

use steadfast::dispatcher::Dispatcher;
use tokio::runtime::Runtime;

use crate::load::{self, Ledger, RATE};
use crate::open;
use support::server::Server;

/// Delivery before, and in the last stretch of a `REPEATABLE READ` transaction that is held for `HORIZON_S` seconds.
pub fn held(server: &Server, runtime: &Runtime) {
    let (stretch, hold) = (load::seconds("HORIZON_BEFORE_S", 15), load::seconds("HORIZON_S", 60));
    println!("pinned horizon: {RATE} enqueues/s, a REPEATABLE READ transaction held for {hold} s");
    let store = open(server, "horizon");
    let calls = RATE * (2 + stretch + hold) as usize;
    let ledger = Ledger::new(calls);
    let client = load::client(&store, 64, &ledger);
    let (before, during) = runtime.block_on(async {
        let dispatcher = Dispatcher::over([&client]).start();
        let enqueued = load::steadily(&client, &ledger, calls, "horizon");
        let seconds = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        seconds(2).await;
        let from = ledger.now();
        seconds(stretch).await;
        let to = ledger.now();
        let (holder, driver) =
            tokio_postgres::connect(&url(server), tokio_postgres::NoTls).await.expect("connects");
        let driver = tokio::spawn(driver);
        let held = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM horizon.operation";
        holder.batch_execute(held).await.expect("it holds");
        seconds(hold.saturating_sub(stretch)).await;
        let last = ledger.now();
        seconds(stretch.min(hold)).await;
        let end = ledger.now();
        holder.batch_execute("ROLLBACK").await.expect("it held to the end");
        driver.abort();
        enqueued.await.expect("no panic");
        load::until_all_are_sent(&ledger).await;
        assert_eq!(dispatcher.stop(Duration::from_secs(30)).await, 0);
        (of(&ledger, from, to), of(&ledger, last, end))
    });
    let (lost, doubled, _) = ledger.lost_doubled_again();
    let ((rate, p50, p99), (rate_held, p50_held, p99_held)) = (before, during);
    println!("before {rate:>6.0}/s  p50 {p50:.1?}  p99 {p99:.1?}");
    println!("held   {rate_held:>6.0}/s  p50 {p50_held:.1?}  p99 {p99_held:.1?}");
    println!(
        "rate {:.2}  target 0.9  p99 × {:.2}  target 2  lost {lost}  doubled {doubled}",
        rate_held / rate,
        p99_held.as_secs_f64() / p99.as_secs_f64()
    );
}

/// Delivered a second, and how late, in a stretch of time.
fn of(ledger: &Arc<Ledger>, from: u64, to: u64) -> (f64, Duration, Duration) {
    let rate = ledger.sent_between(from, to) as f64 * 1e6 / (to - from) as f64;
    let waits = ledger.waits(from, to);
    (rate, load::at(&waits, 50), load::at(&waits, 99))
}

/// For a connection that is no store's.
pub fn url(server: &Server) -> String {
    format!("host={} port={} user=postgres dbname=postgres", server.directory().display(), server.port())
}
