//! The vendors of a schedule, and a process's clients of them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::policy::{Backoff, Timeouts};
use steadfast::testkit::fakes::{BigCommerceFake, Effect, InProcess, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{SeededRandom, TestClock};
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Marker, Postmark, Stripe};
use steadfast::{Call, Client, Policy};

use crate::guards::VendorWithout;
use crate::keyed;
use crate::network::{Network, SETTLE_TIME};
use crate::plan::{Kind, Schedule, ms, secs};
use crate::process::{Life, ProcessClock};
use crate::shared_store::SharedStore;
use crate::world::World;

pub const ATTEMPT: Duration = secs(1);
pub const LEASE_MARGIN: Duration = ms(500);
const TOTAL: Duration = secs(20);
/// How long what took effect stays out of lookups.
const LAG: Duration = ms(500);
const DAY: Duration = secs(24 * 3600);
/// What the adapters are told of a vendor's window of a day: less, because our wall clock may be off twice.
const WINDOW: Duration = DAY.saturating_sub(ms(3 * Schedule::WALL_OFF_MAX_MS));

/// One of the vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Stripe,
    BigCommerce,
    Postmark,
    Keyed,
    Bare,
}

/// All vendors, on one clock that is never off.
pub struct Vendors {
    stripe: StripeFake,
    bigcommerce: BigCommerceFake,
    postmark: PostmarkFake,
    /// Behind the two that are configuration.
    keyed: StripeFake,
    bare: BigCommerceFake,
}

impl Kind {
    pub fn vendor(self) -> Name {
        match self {
            Kind::Intent | Kind::Declined | Kind::Product => Name::Stripe,
            Kind::Order | Kind::Brand => Name::BigCommerce,
            Kind::Email => Name::Postmark,
            Kind::Keyed => Name::Keyed,
            Kind::Bare => Name::Bare,
        }
    }

    /// The call of the operation with this number.
    pub fn call(self, client: &Client, number: usize) -> Call {
        let amount = (1000 + number).to_string();
        let charge = |card| {
            [("amount", amount.as_str()), ("currency", "usd"), ("payment_method", card), ("confirm", "true")]
        };
        let call = match self {
            Kind::Intent => client.post("/v1/payment_intents").form(&charge("pm_card_visa")),
            Kind::Declined => client.post("/v1/payment_intents").form(&charge("pm_card_chargeDeclined")),
            Kind::Product => client.post("/v1/quotes").form(&[("description", &amount)]),
            Kind::Order => client.post("/v2/orders").json(&json!({
                "status_id": 0, "products": [{"product_id": number, "quantity": 1}]
            })),
            Kind::Brand => client.post("/v3/catalog/brands").json(&json!({"name": brand(number)})),
            Kind::Email => client.post("/email").json(&json!({
                "From": "shop@example.com", "To": "ann@example.com", "Subject": amount, "TextBody": "Thank you."
            })),
            Kind::Keyed => client.post("/v1/payment_intents").form(&charge("pm_card_visa")),
            Kind::Bare => client.post(&bare(number)).json(&json!({ "tracking_number": amount })),
        };
        call.key(key(number))
    }

    /// Whether an effect in the ledger is that of the operation with this number and wire key.
    pub fn caused(self, effect: &Effect, number: usize, wire_key: &str) -> bool {
        match self {
            Kind::Brand => effect.wire_key.as_deref() == Some(&brand(number)),
            Kind::Bare => effect.path.ends_with(&bare(number)),
            // Its beginning, so that the effects of an operation that is sent under several keys are counted too.
            _ => effect.wire_key.as_deref().is_some_and(|key| key.starts_with(wire_key)),
        }
    }
}

pub fn key(number: usize) -> String {
    format!("order-{number}")
}

fn brand(number: usize) -> String {
    format!("Brand {number}")
}

/// Its number is in the path, since nothing else of it is in the ledger.
fn bare(number: usize) -> String {
    format!("/v2/orders/{number}/shipments")
}

impl Vendors {
    pub fn new(clock: &TestClock) -> Vendors {
        let exact = Arc::new(Exact(clock.clone()));
        let stripe = || StripeFake::builder().test_clock(clock).clock(exact.clone());
        Vendors {
            stripe: stripe().in_process(),
            bigcommerce: BigCommerceFake::builder()
                .test_clock(clock)
                .clock(exact.clone())
                .apply_after(LAG)
                .in_process(),
            postmark: PostmarkFake::builder()
                .test_clock(clock)
                .clock(exact.clone())
                .search_lag(LAG)
                .in_process(),
            keyed: stripe().in_process(),
            bare: BigCommerceFake::builder().test_clock(clock).clock(exact.clone()).in_process(),
        }
    }

    pub fn ledgers(&self) -> [Ledger; 5] {
        [
            self.stripe.ledger(),
            self.bigcommerce.ledger(),
            self.postmark.ledger(),
            self.keyed.ledger(),
            self.bare.ledger(),
        ]
    }

    fn transport(&self, name: Name) -> InProcess {
        match name {
            Name::Stripe => self.stripe.transport(),
            Name::BigCommerce => self.bigcommerce.transport(),
            Name::Postmark => self.postmark.transport(),
            Name::Keyed => self.keyed.transport(),
            Name::Bare => self.bare.transport(),
        }
    }

    /// The adapter, without the guard.
    fn adapter(&self, name: Name, world: &World) -> VendorWithout {
        let (guard, sends) = (world.guard, &world.sends);
        match name {
            Name::Stripe => {
                let stripe = Stripe::new("sk_test_1").base_url(self.stripe.url()).settle_time(SETTLE_TIME);
                VendorWithout::new(guard, stripe.replay_window(WINDOW), sends)
            }
            Name::BigCommerce => {
                let store = BigCommerce::new("abc123", "token").base_url(self.bigcommerce.url());
                VendorWithout::new(guard, store.settle_time(SETTLE_TIME), sends)
            }
            Name::Postmark => {
                let postmark = Postmark::new("token").base_url(self.postmark.url());
                VendorWithout::new(guard, postmark.settle_time(SETTLE_TIME), sends)
            }
            Name::Keyed => VendorWithout::new(guard, Keyed::new(KEYED.clone(), "sk_test_2"), sends),
            Name::Bare => VendorWithout::new(guard, Keyed::new(BARE.clone(), "sk_test_3"), sends),
        }
    }

    /// A process's client of a vendor: a new one for each of its lives.
    pub fn client(&self, name: Name, life: &Arc<Life>) -> Client {
        let world = &life.world;
        let chance = world.draw.below(u64::MAX);
        Client::builder(self.adapter(name, world))
            .policy(policy(world.schedule.guarded_load))
            .transport(Network { life: life.clone(), fake: self.transport(name) })
            .clock(ProcessClock(life.clone()))
            .random(SeededRandom::new(chance))
            .store(SharedStore { life: life.clone(), inner: world.store.clone() })
            .namespace("simulation")
            .build()
            .expect("a client")
    }
}

fn policy(guarded_load: bool) -> Policy {
    let policy = Policy::background()
        .backoff(Backoff::ladder([ms(200), ms(600), secs(2)]))
        .timeout(Timeouts::new(ATTEMPT, ATTEMPT, TOTAL))
        .retention(7 * DAY)
        .lease_margin(LEASE_MARGIN)
        .look_ups_max(2);
    if guarded_load { policy } else { policy.without_budget().without_breaker() }
}

/// A clock that is never off: the vendors'.
#[derive(Debug)]
struct Exact(TestClock);

impl Clock for Exact {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        exact_wall(&self.0)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
}

/// What the wall clock would say if nobody had set it.
pub fn exact_wall(clock: &TestClock) -> Timestamp {
    TestClock::START.plus(ms(clock.now().as_nanos() / 1_000_000))
}

/// The shipments of a store: neither a key nor a lookup.
static BARE: LazyLock<KeyedConfig> = LazyLock::new(|| {
    let mut config = keyed::BARE.clone();
    config.base_url += "/stores/bare";
    if let Some(auth) = &mut config.auth {
        (auth.header, auth.prefix) = ("X-Auth-Token".to_owned(), String::new());
    }
    config
});

/// Ours ends before the vendor's does, and what it says of a key that is in use is known.
static KEYED: LazyLock<KeyedConfig> = LazyLock::new(|| {
    let mut in_use = Marker::default();
    in_use.json = Some(("/error/code".to_owned(), "idempotency_key_in_use".to_owned()));
    let mut config = keyed::KEYED.clone();
    config.window = Some(secs(23 * 3_600));
    config.in_progress = vec![in_use];
    config
});
