//! How soon a call is begun where nothing else happens, and what a dispatcher costs that has nothing to do.

use std::fs;
use std::time::{Duration, Instant};

use steadfast::BoxFuture;
use steadfast::Client;
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::bench::{self, Nowhere};
use crate::{deliver, load, open};
use support::server::Server;

pub fn accepted_to_started(server: &Server, runtime: &Runtime) {
    let (own, theirs) = if bench::is_quick() { (20, 20) } else { (1_000, 200) };
    let (told, starts) = mpsc::unbounded_channel();
    let client = load::client_by(&open(server, "start"), 64, Noted(told));
    // Idle again, and not in step with whatever the dispatcher does at its times.
    let took = runtime.block_on(waits((&client, &client), starts, own, (5_000, 25_000)));
    print("in one process", &took, "5 ms, 20 ms");
    // Stores of their own have connections of their own, and tell each other what two processes do.
    let (told, starts) = mpsc::unbounded_channel();
    let there = load::client_by(&open(server, "across"), 64, Noted(told));
    let (unheard, _) = mpsc::unbounded_channel();
    let here = load::client_by(&open(server, "across"), 64, Noted(unheard));
    let took = runtime.block_on(waits((&here, &there), starts, theirs, (60_000, 200_000)));
    print("across processes", &took, "25 ms, -");
}

fn print(what: &str, waits: &[Duration], target: &str) {
    let at = |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)];
    let calls = waits.len();
    println!(
        "accepted to started, {what}, {calls} calls: p50 {:.1?}  p99 {:.1?}  target {target}",
        at(50),
        at(99)
    );
}

async fn waits(
    (here, there): (&Client, &Client),
    mut starts: mpsc::UnboundedReceiver<Instant>,
    calls: usize,
    (shortest_us, longest_us): (u64, u64),
) -> Vec<Duration> {
    let _dispatcher = Dispatcher::over([there]).period(PERIOD).start();
    // It is to listen by then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut waits = Vec::with_capacity(calls);
    for number in 0..calls {
        deliver::enqueue(here, format!("start-{number}")).await;
        let accepted = Instant::now();
        let started: Instant = starts.recv().await.expect("it is sent");
        waits.push(started.saturating_duration_since(accepted));
        let pause = shortest_us + rand::random::<u64>() % (longest_us - shortest_us);
        tokio::time::sleep(Duration::from_micros(pause)).await;
    }
    waits.sort_unstable();
    waits
}

/// Statements that the server logs, and the time of all threads of this process.
pub fn idle(server: &Server, runtime: &Runtime) {
    let seconds = load::seconds("IDLE_S", 30);
    let (told, _starts) = mpsc::unbounded_channel();
    let client = load::client_by(&open(server, "idle"), 64, Noted(told));
    let log = |what| {
        server.sql(&format!("ALTER SYSTEM SET log_statement = '{what}'"));
        server.sql("SELECT pg_reload_conf()");
    };
    // Nothing is logged as a statement but what a client asks; a question without a text is, too.
    let count = || {
        server
            .log()
            .lines()
            .filter(|line| line.contains("LOG:  statement:") || line.contains("LOG:  execute "))
            .count()
    };
    log("all");
    let (statements, used) = runtime.block_on(async {
        let _dispatcher = Dispatcher::over([&client]).period(PERIOD).start();
        // Whatever it does at first.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (count_before, used_before) = (count(), used());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        (count() - count_before, used() - used_before)
    });
    log("none");
    println!(
        "idle for {seconds} s: {:.2} queries/s  target 1, {:.2} % of a core  target 1",
        statements as f64 / seconds as f64,
        used.as_secs_f64() / seconds as f64 * 100.0
    );
}

/// The processor's time of this process so far, in steps of 10 ms.
fn used() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // From the third on: `utime` and `stime` are the 14th and the 15th.
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

#[derive(Debug)]
struct Noted(mpsc::UnboundedSender<Instant>);

impl Transport for Noted {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let _ = self.0.send(Instant::now());
        Nowhere.send(request, limits)
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}
