//! Hosts whose clocks differ.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadfast::testkit::TestClock;
use steadfast::testkit::fakes::{InProcess, StripeFake};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::Stripe;
use steadfast::{BoxFuture, Client};

use crate::apart::{Apart, order_recovered_by_another};
use crate::wait;

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
