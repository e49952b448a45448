//! The loop, on a scripted transport and a clock that jumps: every wait is exact and nothing really sleeps.

mod cancellation;
mod deadlines;
mod enqueue;
mod gates;
mod late_reply;
mod operations;
mod overtaken;
mod recovery;
mod unknown;
mod vendor;
mod waits;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use steadfast::policy::{Backoff, Jitter};
use steadfast::store::Memory;
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::{Call, Client, Policy, Random};

use vendor::Acme;

/// Everything a test looks at.
pub struct Bench {
    pub client: Client,
    pub transport: ScriptedTransport,
    pub clock: TestClock,
    pub store: Arc<Memory>,
}

impl Bench {
    pub fn new(vendor: Acme, transport: ScriptedTransport) -> Bench {
        Bench::with(vendor, transport, plain())
    }

    pub fn with(vendor: Acme, transport: ScriptedTransport, policy: Policy) -> Bench {
        Bench::random(vendor, transport, policy, FixedRandom::at(0.5))
    }

    pub fn random(vendor: Acme, transport: ScriptedTransport, policy: Policy, random: impl Random) -> Bench {
        let clock = TestClock::auto();
        let store = Arc::new(Memory::new());
        let client = Bench::client(vendor, &transport, policy, random, &clock, &store);
        Bench { client, transport, clock, store }
    }

    /// Another process on the same store: its own gates, the same clock.
    pub fn another_process(&self, vendor: Acme, transport: ScriptedTransport) -> Bench {
        self.another_process_with(vendor, transport, plain())
    }

    pub fn another_process_with(&self, vendor: Acme, transport: ScriptedTransport, policy: Policy) -> Bench {
        let client =
            Bench::client(vendor, &transport, policy, FixedRandom::at(0.5), &self.clock, &self.store);
        Bench { client, transport, clock: self.clock.clone(), store: Arc::clone(&self.store) }
    }

    fn client(
        vendor: Acme,
        transport: &ScriptedTransport,
        policy: Policy,
        random: impl Random,
        clock: &TestClock,
        store: &Arc<Memory>,
    ) -> Client {
        Client::builder(vendor)
            .policy(policy)
            .transport(transport.clone())
            .clock(clock.clone())
            .random(random)
            .store(Arc::clone(store))
            .namespace("test")
            .build()
            .expect("a client")
    }

    pub fn charge(&self) -> Call {
        self.client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 4711}))
    }

    /// How often the charge itself was sent, lookups aside.
    pub fn charges_sent(&self) -> usize {
        self.transport.requests().iter().filter(|request| request.url.path() == "/charges").count()
    }

    pub fn look_ups_sent(&self) -> usize {
        self.transport.requests().iter().filter(|request| request.url.path() == "/search").count()
    }
}

/// The ladder without jitter and with room for every retry, so that a test sees the engine's own arithmetic.
pub fn plain() -> Policy {
    let mut ladder = Policy::background().backoff;
    ladder.jitter = Jitter::None;
    Policy::background().backoff(ladder).without_budget().without_breaker()
}

pub fn one_retry() -> Policy {
    let mut backoff = Backoff::ladder([Duration::from_millis(500)]);
    backoff.jitter = Jitter::None;
    plain().backoff(backoff)
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
