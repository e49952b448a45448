//! The answer to a call whose key another call holds, also by a store in trouble.

mod outcomes;
mod time;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Instant;
use steadfast::policy::Backoff;
use steadfast::testkit::{FixedRandom, ScriptedTransport};
use steadfast::{Call, Error, InFlight, Policy, Reply};
use tokio::task::JoinHandle;

use support::acme::Acme;
use support::rig::{Rig, plain, secs, until};
use support::trouble::{Trouble, Troubled};

fn rig(network: ScriptedTransport, policy: Policy) -> Rig {
    Rig::of(replaying()).network(network).policy(policy).random(FixedRandom::at(0.0)).build()
}

fn replaying() -> Acme {
    Acme::replaying(secs(86_400))
}

fn waiting(rig: &Rig) -> Call {
    rig.charge().in_flight(InFlight::Wait)
}

/// Sends the charge, and comes back once it is on its way to the vendor.
async fn held(rig: &Rig, call: Call) -> JoinHandle<Result<Reply, Error>> {
    let sent = rig.network.requests().len();
    let holder = tokio::spawn(call.send());
    until(|| rig.network.requests().len() > sent).await;
    holder
}

fn no_ladder() -> Policy {
    plain().backoff(Backoff::none())
}

fn after(time: Duration) -> Instant {
    Instant::ORIGIN.plus(time)
}

fn troubled(transport: ScriptedTransport, policy: Policy) -> (Arc<Troubled>, Rig) {
    let store = Arc::new(Troubled::default());
    let rig = Rig::of(replaying()).network(transport).policy(policy).store(Arc::clone(&store)).build();
    (store, rig)
}

fn one_of_each() -> [Trouble; 3] {
    [Trouble::Fail, Trouble::FailAfter, Trouble::Full]
}
