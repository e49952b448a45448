//! The fakes with a client of each, and what a test asks of how an operation ended.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::testkit::TestClock;
use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use steadfast::{Call, Client, Effect, Error, Obtained, Reason, Reply};

use support::promise;
use support::rig;
pub use support::rig::{ms, plain, secs};
pub use support::tap::Tap;

/// One process's client of a fake, over real sockets.
pub type Rig = rig::Rig<Tap>;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    Reply(Obtained),
    Refused,
    Dead(Reason, Effect),
    Other,
}

pub const FRESH: Ending = Ending::Reply(Obtained::Fresh);
pub const REPLAYED: Ending = Ending::Reply(Obtained::Replayed);
pub const RECONCILED: Ending = Ending::Reply(Obtained::Reconciled);
pub const NEVER_HAPPENED: Ending = Ending::Dead(Reason::Exhausted, Effect::None);
pub const NOBODY_KNOWS: Ending = Ending::Dead(Reason::Unknown, Effect::Unknown);

pub fn ending(outcome: &Result<Reply, Error>) -> Ending {
    match outcome {
        Ok(reply) => Ending::Reply(reply.obtained()),
        Err(error) if error.is_refused() => Ending::Refused,
        Err(error) => error.reason().map_or(Ending::Other, |reason| Ending::Dead(reason, error.effect())),
    }
}

pub fn wire_key(outcome: &Result<Reply, Error>) -> String {
    let key = match outcome {
        Ok(reply) => reply.wire_key(),
        Err(error) => error.wire_key(),
    };
    key.expect("a keyed call has a wire key").to_owned()
}

/// The promise: how many effects an outcome allows. Gives how many there were.
pub fn promise_holds(outcome: &Result<Reply, Error>, ledger: &Ledger, what: &str) -> usize {
    let effects = ledger.effects_for(&wire_key(outcome)).len();
    let untrue = promise::untrue(promise::told(outcome), effects, 0);
    assert_eq!(untrue, None, "{what}: {effects} effects, {outcome:?}");
    assert_eq!(ledger.duplicates(), Vec::<String>::new(), "{what}");
    effects
}

pub async fn stripe() -> (Rig, StripeFake) {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).start().await;
    (Rig::over_sockets(stripe_at(&fake), &clock), fake)
}

pub fn stripe_at(fake: &StripeFake) -> Stripe {
    Stripe::new("sk_test_123").base_url(fake.url())
}

pub fn charge(client: &Client, key: &str) -> Call {
    client.post("/v1/payment_intents").key(key).form(&[("amount", "1000"), ("currency", "usd")])
}

pub async fn postmark() -> (Rig, PostmarkFake) {
    postmark_lagging(Duration::ZERO).await
}

pub async fn postmark_lagging(lag: Duration) -> (Rig, PostmarkFake) {
    let clock = TestClock::auto();
    let fake = PostmarkFake::builder().test_clock(&clock).search_lag(lag).start().await;
    (Rig::over_sockets(postmark_at(&fake), &clock), fake)
}

pub fn postmark_at(fake: &PostmarkFake) -> Postmark {
    Postmark::new("server-token").base_url(fake.url())
}

pub fn message(to: &str) -> Value {
    json!({"From": "shop@example.com", "To": to, "Subject": "Receipt", "TextBody": "Thank you"})
}

pub fn receipt(client: &Client, key: &str) -> Call {
    client.post("/email").key(key).json(&message("joe@example.com"))
}

pub async fn bigcommerce() -> (Rig, BigCommerceFake) {
    bigcommerce_lagging(Duration::ZERO).await
}

pub async fn bigcommerce_lagging(lag: Duration) -> (Rig, BigCommerceFake) {
    let clock = TestClock::auto();
    let fake = BigCommerceFake::builder()
        .customer(7)
        .customer(8)
        .test_clock(&clock)
        .apply_after(lag)
        .order(100)
        .product(7)
        .cart("cart-1")
        .start()
        .await;
    (Rig::over_sockets(bigcommerce_at(&fake), &clock), fake)
}

pub fn bigcommerce_at(fake: &BigCommerceFake) -> BigCommerce {
    BigCommerce::new("abc123", "access-token").base_url(fake.url())
}

pub fn order(client: &Client, key: &str) -> Call {
    let mug = json!({"name": "Mug", "quantity": 1, "price_inc_tax": 10, "price_ex_tax": 9});
    let body = json!({"customer_id": 7, "billing_address": {"zip": "12345"}, "products": [mug]});
    client.post("/v2/orders").key(key).json(&body)
}
