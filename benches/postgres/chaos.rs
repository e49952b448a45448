//! The effect of an event at the server or at a dispatcher on delivery: its rate after the event, divided by that
//! before.

use std::sync::Arc;
use std::time::Duration;

use steadfast::dispatcher::Dispatcher;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::load::{self, Ledger, RATE};
use crate::{horizon, open};
use support::server::Server;

/// Each on a schema of its own. The server is this part's own: it is stopped and started.
pub fn events(runtime: &Runtime) {
    let Some(server) = Server::start(crate::SETTINGS) else { return };
    println!(
        "chaos: {RATE} enqueues/s, two dispatchers; delivered a second 20 s to 30 s after ÷ before the event"
    );
    for (event, name, target) in [
        (Event::Restart, "restart", 1.0),
        (Event::Backends, "backends", 1.0),
        (Event::Pool, "pool", 0.95),
        (Event::Killed, "killed", 0.95),
        (Event::KilledAgain, "again", 0.9),
    ] {
        let (ratio, (lost, doubled, again)) = runtime.block_on(ratio(&server, event, name));
        println!(
            "{:<34} {ratio:.2}  target {target}  lost {lost}  doubled {doubled}  asked for again {again}",
            event.text()
        );
    }
}

#[derive(Clone, Copy)]
enum Event {
    Restart,
    Backends,
    Pool,
    Killed,
    KilledAgain,
}

impl Event {
    fn text(self) -> &'static str {
        match self {
            Event::Restart => "server restarted",
            Event::Backends => "all its backends killed",
            Event::Pool => "no connection free for 10 s",
            Event::Killed => "one of two dispatchers killed",
            Event::KilledAgain => "one killed each second for 10 s",
        }
    }
}

async fn ratio(server: &Server, event: Event, name: &'static str) -> (f64, (usize, u64, u64)) {
    let [warm, before, pause, after] = [2, 10, 20, 10].map(|seconds| load::seconds("", seconds));
    let calls = RATE * (warm + before + pause + after) as usize;
    let ledger = Ledger::new(calls);
    // As three processes have it: one enqueues, two deliver.
    let own = || load::client(&open(server, name), 64, &ledger);
    let (caller, first, second) = (own(), own(), own());
    let staying = Dispatcher::over([&first]).start();
    let mut killed = Some(Dispatcher::over([&second]).start());
    let enqueued = load::steadily(&caller, &ledger, calls, name);
    let seconds = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    seconds(warm).await;
    let from = ledger.now();
    seconds(before).await;
    let to = ledger.now();
    let event_at = tokio::time::Instant::now();
    match event {
        Event::Restart => tokio::task::block_in_place(|| {
            server.crash();
            server.start_again();
        }),
        Event::Backends => tokio::task::block_in_place(|| server.kill_backends()),
        Event::Pool => no_connection_free(server, Duration::from_secs(pause / 2)).await,
        // Its tasks end where they are, and its leases run out.
        Event::Killed => drop(killed.take()),
        Event::KilledAgain => {
            for _ in 0..pause / 2 {
                drop(killed.replace(Dispatcher::over([&own()]).start()));
                seconds(1).await;
            }
        }
    }
    tokio::time::sleep_until(event_at + Duration::from_secs(pause)).await;
    let again_from = ledger.now();
    seconds(after).await;
    let again_to = ledger.now();
    enqueued.await.expect("no panic");
    load::until_all_are_sent(&ledger).await;
    staying.stop(Duration::from_secs(30)).await;
    if let Some(other) = killed {
        other.stop(Duration::from_secs(30)).await;
    }
    let rate = |from, to| ledger.sent_between(from, to) as f64 / (to - from) as f64;
    (rate(again_from, again_to) / rate(from, to), ledger.lost_doubled_again())
}

/// Whoever is connected is thrown out, and finds no place for so long: strangers have them all.
async fn no_connection_free(server: &Server, time: Duration) {
    tokio::task::block_in_place(|| server.kill_backends());
    let until = tokio::time::Instant::now() + time;
    let mut strangers = Vec::new();
    // As long as it is not full, and again where a store was faster.
    while tokio::time::Instant::now() < until {
        match tokio_postgres::connect(&horizon::url(server), NoTls).await {
            Ok((client, driver)) => strangers.push((Arc::new(client), tokio::spawn(driver))),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    strangers.iter().for_each(|(_, driver)| driver.abort());
}
