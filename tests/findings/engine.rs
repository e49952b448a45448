//! Findings about the engine: what callers are told.

mod answers;
mod applied;
mod store;
mod told;
pub mod trouble;

use std::sync::Arc;
use std::time::Duration;

use steadfast::policy::Jitter;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::{Call, Client, Policy};

#[path = "../engine/vendor.rs"]
#[allow(dead_code, reason = "shared with the engine's own tests, which use the rest of it")]
pub mod vendor;

use vendor::Acme;

/// A client on a scripted transport and a clock that jumps.
pub struct Bench {
    pub client: Client,
    pub transport: ScriptedTransport,
    pub clock: TestClock,
    pub store: Arc<dyn Store>,
}

impl Bench {
    pub fn new(vendor: Acme, transport: ScriptedTransport) -> Bench {
        Bench::with(vendor, transport, plain(), Arc::new(Memory::new()))
    }

    pub fn with(vendor: Acme, transport: ScriptedTransport, policy: Policy, store: Arc<dyn Store>) -> Bench {
        let clock = TestClock::auto();
        let client = Client::builder(vendor)
            .policy(policy)
            .transport(transport.clone())
            .clock(clock.clone())
            .random(FixedRandom::at(0.0))
            .store(Arc::clone(&store))
            .namespace("test")
            .build()
            .expect("a client");
        Bench { client, transport, clock, store }
    }

    pub fn charge(&self) -> Call {
        self.client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 4711}))
    }
}

/// The ladder without jitter, and none of the gates.
pub fn plain() -> Policy {
    let mut ladder = Policy::background().backoff;
    ladder.jitter = Jitter::None;
    Policy::background().backoff(ladder).without_budget().without_breaker()
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
