//! One process's client, and everything that a test looks at beside it.

use std::sync::Arc;
use std::time::Duration;

use steadfast::operation::record::{Filter, Record};
use steadfast::policy::Jitter;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::Transport;
use steadfast::vendor::Vendor;
use steadfast::{Call, Client, ClientBuilder, Policy, Random};

pub struct Rig<N = ScriptedTransport> {
    pub client: Client,
    pub network: N,
    pub clock: TestClock,
    pub store: Arc<dyn Store>,
}

impl Rig {
    /// The defaults where a test says nothing: [`plain`], a network that it scripts later, a clock that jumps over
    /// every wait, records in memory, and the middle of every chance.
    pub fn of(vendor: impl Vendor) -> Setup {
        let builder = Client::builder(vendor).policy(plain()).random(FixedRandom::at(0.5));
        Setup {
            builder,
            network: ScriptedTransport::new(),
            clock: TestClock::auto(),
            store: Arc::new(Memory::new()),
        }
    }

    pub fn new(vendor: impl Vendor, network: ScriptedTransport) -> Rig {
        Rig::of(vendor).network(network).build()
    }

    pub fn with(vendor: impl Vendor, network: ScriptedTransport, policy: Policy) -> Rig {
        Rig::of(vendor).network(network).policy(policy).build()
    }

    /// How often the charge itself was sent, lookups aside.
    pub fn charges_sent(&self) -> usize {
        self.network.requests().iter().filter(|request| request.url.path() == "/charges").count()
    }

    pub fn lookups_sent(&self) -> usize {
        self.network.requests().iter().filter(|request| request.url.path() == "/search").count()
    }

    /// The next answers, in their order.
    pub fn answers(&self, script: impl FnOnce(ScriptedTransport) -> ScriptedTransport) {
        drop(script(self.network.clone()));
    }
}

impl<N> Rig<N> {
    /// Another process on the same store, at the same time. Its gates and its network are its own.
    pub fn another_process<M: Transport + Clone>(&self, vendor: impl Vendor, network: M) -> Rig<M> {
        self.beside(vendor).network(network).build()
    }

    /// The same, where more than the network differs.
    pub fn beside(&self, vendor: impl Vendor) -> Setup {
        Rig::of(vendor).clock(&self.clock).store(Arc::clone(&self.store))
    }

    pub fn charge(&self) -> Call {
        self.client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 4711}))
    }

    pub async fn records(&self) -> usize {
        self.store.list(&Filter::default(), None, 100).await.expect("a store").rows.len()
    }

    /// The only record of this key.
    pub async fn record(&self, key: &str) -> Record {
        record(&*self.store, key).await
    }
}

/// A rig that is being set up.
pub struct Setup<N = ScriptedTransport> {
    builder: ClientBuilder,
    network: N,
    clock: TestClock,
    store: Arc<dyn Store>,
}

impl<N: Transport + Clone> Setup<N> {
    pub fn policy(self, policy: Policy) -> Self {
        Setup { builder: self.builder.policy(policy), ..self }
    }

    pub fn random(self, random: impl Random) -> Self {
        Setup { builder: self.builder.random(random), ..self }
    }

    pub fn namespace(self, name: &str) -> Self {
        Setup { builder: self.builder.namespace(name), ..self }
    }

    pub fn clock(self, clock: &TestClock) -> Self {
        Setup { clock: clock.clone(), ..self }
    }

    pub fn network<M>(self, network: M) -> Setup<M> {
        Setup { builder: self.builder, network, clock: self.clock, store: self.store }
    }

    pub fn store(self, store: impl Store) -> Self {
        Setup { store: Arc::new(store), ..self }
    }

    pub fn build(self) -> Rig<N> {
        let Setup { builder, network, clock, store } = self;
        let builder = builder.transport(network.clone()).clock(clock.clone()).store(Arc::clone(&store));
        Rig { client: builder.build().expect("a client"), network, clock, store }
    }

    /// The client alone, for a test that has the rest.
    pub fn client(self) -> Client {
        self.build().client
    }
}

/// The ladder without jitter and with room for every retry: a test sees the engine's own arithmetic.
pub fn plain() -> Policy {
    let ladder = Policy::background().backoff.jitter(Jitter::None);
    Policy::background().backoff(ladder).without_budget().without_breaker()
}

/// The only record of this key.
pub async fn record(store: &dyn Store, key: &str) -> Record {
    let page = store.list(&Filter::default(), None, 100).await.expect("a store");
    let mut rows = page.rows.iter().filter(|row| row.id.key.as_str() == key);
    let (Some(row), None) = (rows.next(), rows.next()) else { panic!("not one record of {key}") };
    store.get(&row.id).await.expect("a store").expect("a record")
}

/// Lets the other tasks of the test run until then.
pub async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
