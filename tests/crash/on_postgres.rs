//! Kills at random of two dispatchers on one Postgres, and of the server: the hosts' walls are five minutes apart, and
//! the server's clock, by which all goes, says something else again.
//!
//! The server is killed as a crash kills it, with whatever was under way, and comes back a moment later; or all of its
//! backends are killed, as by a failover. A third of the orders is enqueued, and delivered by whichever dispatcher comes
//! first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steadfast::store::{Postgres, Store};
use steadfast::testkit::SeededRandom;

use crate::audit::Report;
use crate::clock::MovedClock;
use crate::file;
use crate::plan::{self, Plan};
use crate::random_run::Run;
use crate::vendors::{FAULTS, Vendors};
use support::server::Server;

/// Five minutes apart.
const WALLS_OFF_MS: [i64; 2] = [-150_000, 150_000];
const SERVER_OFF_MS: i64 = 90_000;
/// A disturbance of the server for so many kills.
const DISTURBED_EVERY: usize = 4;
/// At some moment after the kill before, and down for so long, on the machine.
const DISTURBED_AFTER_MAX_MS: u64 = 200;
const DOWN_MAX_MS: u64 = 400;
/// Far longer than a server takes to start.
const OPENS_MAX: Duration = Duration::from_secs(25);
/// The time that a call waits for a connection by default, in the run's time.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// `None` if the machine has no Postgres.
pub async fn run(plan: &Plan) -> Option<Report> {
    let server = Arc::new(Server::start(&[])?);
    let time = plan::server_time();
    let schema = if plan.seed.is_multiple_of(2) { "calls" } else { SEALED };
    let (place, clock) = (server.url(schema), MovedClock::off_by(time, 0));
    // Whoever opens it first makes it. Its time is then the run's.
    drop(open(&place, &clock));
    let now = time.as_sql(SERVER_OFF_MS);
    server.sql(&format!(
        "CREATE OR REPLACE FUNCTION {schema}.store_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE \
         AS $$ {now} $$"
    ));
    let vendors = Vendors::start_at_pace(time, plan.seed, FAULTS, plan.orders).await;
    let disturbed = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let (own, counts) = (Arc::clone(&server), Arc::clone(&disturbed));
    let disturb = move |chance| {
        let (server, counts) = (Arc::clone(&own), Arc::clone(&counts));
        tokio::task::spawn_blocking(move || disturb(&server, chance, &counts))
    };
    let mut run = Run {
        plan,
        vendors,
        place,
        walls_off_ms: WALLS_OFF_MS,
        disturb: Some((DISTURBED_EVERY, Box::new(disturb))),
        killed: 0,
        stopped: 0,
    };
    let random = SeededRandom::new(plan.seed);
    run.kill_at_random(&random).await;
    let mut promises = Report::new(plan.seed, 0, 0);
    let store = open(&run.place, &clock);
    promises.judge_promises(&*store, &run.heard()).await;
    run.come_to_rest(&random).await;
    let (mut report, mut effects, mut heard) = run.report().await;
    report.add(promises);
    report.judge_store(&*store, plan.keys().collect(), &mut effects, &mut heard).await;
    report.judge_rest(effects);
    let [crashes, failovers] = disturbed.each_ref().map(|count| count.load(Ordering::Relaxed));
    eprintln!(
        "the server killed {crashes} times, all of its backends {failovers} times, {} promised",
        report.promised
    );
    assert!(crashes > 0 && failovers > 0, "the server had no trouble, so nothing was shown");
    Some(report)
}

/// As often as it takes: the server may be down.
pub fn open(url: &str, clock: &MovedClock) -> Arc<dyn Store> {
    let since = Instant::now();
    loop {
        let builder = Postgres::builder(url).expect("a URL of the rig").clock(clock.clone());
        let builder = builder.wait(clock.time().on_machine(WAIT_MAX));
        #[cfg(feature = "seal")]
        let builder = if url.contains(SEALED) { builder.seal(file::keys()) } else { builder };
        match builder.open() {
            Ok(store) => return Arc::new(store),
            Err(error) if since.elapsed() > OPENS_MAX => panic!("it does not open: {error:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The two in turn.
fn disturb(server: &Server, chance: u64, counts: &[AtomicUsize; 2]) {
    std::thread::sleep(Duration::from_millis(chance % DISTURBED_AFTER_MAX_MS));
    let [crashes, failovers] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let is_failover = failovers < crashes;
    if is_failover {
        server.kill_backends();
    } else {
        server.crash();
        std::thread::sleep(Duration::from_millis((chance >> 16) % DOWN_MAX_MS));
        server.start_again();
    }
    counts[usize::from(is_failover)].fetch_add(1, Ordering::Relaxed);
}

/// In every other run requests and answers are sealed.
const SEALED: &str = "sealed_calls";
