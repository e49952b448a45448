//! Findings about what a call is told whose key another call holds, and about a store in trouble.

mod outcomes;
mod time;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Instant;
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Store};
use steadfast::testkit::ScriptedTransport;
use steadfast::{Call, Error, InFlight, Policy, Reply};
use tokio::task::JoinHandle;

use crate::engine::trouble::{Trouble, Troubled};
use crate::engine::vendor::Acme;
use crate::engine::{Bench, plain, secs};

fn bench(transport: ScriptedTransport, policy: Policy) -> Bench {
    Bench::with(replaying(), transport, policy, Arc::new(Memory::new()))
}

/// Another process on the same store, at the same time.
fn another_process(bench: &Bench, transport: ScriptedTransport) -> Bench {
    let other = steadfast::Client::builder(replaying())
        .policy(plain())
        .transport(transport.clone())
        .clock(bench.clock.clone())
        .random(steadfast::testkit::FixedRandom::at(0.0))
        .store(Arc::clone(&bench.store))
        .namespace("test")
        .build()
        .expect("a client");
    Bench { client: other, transport, clock: bench.clock.clone(), store: Arc::clone(&bench.store) }
}

/// What the network does next.
fn script(bench: &Bench, steps: impl FnOnce(ScriptedTransport) -> ScriptedTransport) {
    drop(steps(bench.transport.clone()));
}

fn replaying() -> Acme {
    Acme::replaying(secs(86_400))
}

fn waiting(bench: &Bench) -> Call {
    bench.charge().in_flight(InFlight::Wait)
}

/// Sends the charge, and comes back once it is on its way to the vendor.
async fn held(bench: &Bench, call: Call) -> JoinHandle<Result<Reply, Error>> {
    let sent = bench.transport.requests().len();
    let holder = tokio::spawn(call.send());
    while bench.transport.requests().len() == sent {
        tokio::task::yield_now().await;
    }
    holder
}

fn no_ladder() -> Policy {
    plain().backoff(Backoff::none())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn after(time: Duration) -> Instant {
    Instant::ORIGIN.plus(time)
}

fn troubled(transport: ScriptedTransport, policy: Policy) -> (Arc<Troubled>, Bench) {
    let store = Arc::new(Troubled::default());
    let bench = Bench::with(replaying(), transport, policy, Arc::clone(&store) as Arc<dyn Store>);
    (store, bench)
}

fn one_of_each() -> [Trouble; 3] {
    [Trouble::Fail, Trouble::FailAfter, Trouble::Full]
}
