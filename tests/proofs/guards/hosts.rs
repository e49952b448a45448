//! Hosts whose clocks differ.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::operation::record::{Record, Takeover};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::fakes::{InProcess, StripeFake};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::Stripe;
use steadfast::{BoxFuture, Client, Effect};

use crate::guards::life::{BURIED, lapsed, says};
use crate::guards::wait;
use support::acme::Acme;
use support::apart::{Apart, order_recovered_by_another, order_recovered_on_a_server};

fn is_found_once(apart: Apart) -> bool {
    let came = wait(order_recovered_by_another(apart));
    (came.orders, came.found) == (1, true)
}

pub fn a_host_four_minutes_ahead_does_not_look_too_early() -> bool {
    is_found_once(Apart { recoverer: 240, ..Apart::default() })
}

pub fn a_host_three_days_ahead_does_not_look_too_early() -> bool {
    is_found_once(Apart { recoverer: 3 * 86_400, ..Apart::default() })
}

pub fn a_host_minutes_ahead_is_doubted_beside_one_that_is_days_ahead() -> bool {
    is_found_once(Apart { recoverer: 1_200, third: Some(2 * 86_400), ..Apart::default() })
}

pub fn a_servers_clock_that_is_set_ahead_ends_no_settle_time() -> bool {
    let apart = Apart { server_set_by: 1_500, server_is_believed: true, ..Apart::default() };
    let came = wait(order_recovered_on_a_server(apart, 0));
    (came.orders, came.found) == (1, true)
}

pub fn a_clock_that_is_set_back_in_a_call_ends_no_settle_time() -> bool {
    is_found_once(Apart { set_by: -3_600, ..Apart::default() })
}

/// Its clock is doubted for an hour, and it lets go of the operation in between.
pub fn whoever_takes_it_again_finds_it_within_minutes() -> bool {
    is_found_once(Apart { recoverer: 3 * 86_400, ..Apart::default() })
}

/// The way of a host that sleeps for longer than Stripe keeps a key, as it connects for its second attempt. The answer to
/// the first one was lost.
#[derive(Debug)]
struct Asleep {
    vendor: InProcess,
    clock: TestClock,
    posts: AtomicU32,
}

impl Transport for Asleep {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let nth = if request.method.is_safe() { 0 } else { 1 + self.posts.fetch_add(1, Ordering::Relaxed) };
        Box::pin(async move {
            if nth == 2 {
                self.clock.jump_wall(Duration::from_secs(25 * 3600));
            }
            let told = self.vendor.send(request, limits).await;
            if nth == 1 { Err(SendError::new(SendErrorKind::Timeout)) } else { told }
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

pub fn a_host_that_slept_while_it_connected_sends_nothing() -> bool {
    wait(async {
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        let posts = AtomicU32::new(0);
        let network = Asleep { vendor: fake.transport(), clock: clock.clone(), posts };
        let client = Client::builder(Stripe::new("sk_test_1").base_url(fake.url()));
        let client = client.transport(network).clock(clock.clone()).build().expect("a client");
        let charge = client.post("/v1/charges").key("k").form(&[("amount", "1000"), ("currency", "usd")]);
        let found = charge.send().await.is_ok();
        found && fake.ledger().count() == 1
    })
}

/// The store of a host that sleeps for an hour as a take is answered. Meanwhile another host takes the operation, and ends
/// it without an effect.
#[derive(Debug)]
struct SleptOver {
    store: Memory,
    clock: TestClock,
}

#[async_trait]
impl Wrapper for SleptOver {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let taken = self.store.take(take).await?;
        if !taken.is_empty() {
            self.clock.jump_wall(Duration::from_secs(3_600));
            let now = self.clock.wall().as_millis() / 1_000;
            for record in self.store.take(lapsed(now)).await? {
                let ends = says(record.fence, now, Effect::None, BURIED);
                self.store.transition(&record, ends).await?.expect("it holds it");
            }
        }
        Ok(taken)
    }
}

pub fn a_host_that_slept_over_its_take_asks_again() -> bool {
    wait(async {
        let (clock, network) = (TestClock::auto(), ScriptedTransport::new().status(200));
        let client = Client::builder(Acme::new()).transport(network.clone()).clock(clock.clone());
        let client = client.store(SleptOver { store: Memory::new(), clock }).build().expect("a client");
        client.post("/charges").key("k").json(&json!({})).enqueue().await.expect("recorded");
        assert_eq!(client.recover(1).await.expect("the store works").taken, 1);
        network.requests().is_empty()
    })
}
