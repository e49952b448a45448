//! Recovery: who shares its rate, and what it holds against an operation.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use support::acme::Acme;

use steadfast::clock::Clock as _;
use steadfast::operation::record::{Filter, Phase, Record, Takeover};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::{Client, Policy, dispatcher};
use steadfast_core::store::delivery::{Beat, Heartbeat};

use crate::guards::wait;

fn client(clock: &TestClock, store: &Arc<Memory>, transport: ScriptedTransport) -> Client {
    Client::builder(Acme::replaying(Duration::from_secs(86_400)))
        .policy(Policy::background())
        .transport(transport)
        .clock(clock.clone())
        .random(FixedRandom::at(0.5))
        .store(Arc::clone(store))
        .namespace("test")
        .build()
        .expect("a client")
}

pub fn two_that_deliver_have_half_of_the_rate_each() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let client = client(&clock, &store, ScriptedTransport::new());
    let rate = || client.gates().recovery().per_second(clock.now());
    let alone = rate();
    let beat = Beat {
        account: "test/acme/main".to_owned(),
        dispatcher: "another".to_owned(),
        says: Some(r#"{"delivers":true}"#.to_owned()),
    };
    let heartbeat = Heartbeat { now: clock.wall(), lasts: Duration::from_secs(5), beats: vec![beat] };
    wait(async {
        store.delivery().expect("it has").heartbeat(&heartbeat).await.expect("a store");
        client.recover(1).await.expect("a store");
    });
    rate() == alone / 2.0
}

pub fn an_outage_that_one_operation_meets_alone_does_not_bury_it() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let client = client(&clock, &store, ScriptedTransport::new().always_fail(SendErrorKind::Reset));
    wait(async {
        client.post("/charges").key("k").enqueue().await.expect("recorded");
        for _ in 0..120 {
            client.recover(1).await.expect("a store");
            clock.advance(dispatcher::PERIOD);
        }
        store.list(&Filter::default(), None, 1).await.expect("a store").rows[0].phase != Phase::Dead
    })
}

/// A store that gives what is due to whoever asks, whosever it is.
#[derive(Debug)]
struct Careless(Arc<Memory>);

#[async_trait]
impl Wrapper for Careless {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.0.take(Takeover { account: None, ..take }).await
    }
}

pub fn what_is_of_another_account_is_not_sent() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let network = ScriptedTransport::new().status(200);
    let ours = client(&clock, &store, ScriptedTransport::new());
    let other = Client::builder(Acme::new().account("other")).transport(network.clone()).clock(clock);
    let other = other.store(Careless(store)).namespace("test").build().expect("a client");
    wait(async {
        ours.post("/charges").key("k").enqueue().await.expect("recorded");
        assert_eq!(other.recover(1).await.expect("a store").taken, 1);
    });
    network.requests().is_empty()
}

pub fn refused_credentials_end_nothing_that_waits() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let refused = Answer::new(StatusCode::UNAUTHORIZED, HeaderMap::new(), "{}");
    let client = client(&clock, &store, ScriptedTransport::new().always(refused));
    wait(async {
        client.post("/charges").key("k").enqueue().await.expect("recorded");
        for _ in 0..20 {
            client.recover(1).await.expect("a store");
            clock.advance(dispatcher::PERIOD);
        }
        store.list(&Filter::default(), None, 1).await.expect("a store").rows[0].phase == Phase::Scheduled
    })
}
