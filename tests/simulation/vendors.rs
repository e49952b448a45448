//! The vendors of a schedule, and a process's clients of them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::policy::{Backoff, Timeouts};
use steadfast::testkit::fakes::{
    AdyenFake, BigCommerceFake, Effect, InProcess, Ledger, PostmarkFake, StripeFake,
};
use steadfast::testkit::{Fault, SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport as _};
use steadfast::vendor::{Adyen, BigCommerce, Keyed, KeyedConfig, Postmark, Stripe};
use steadfast::{Call, Client, Policy};

use crate::adyen;
use crate::by_key::{self, ByKey, Made, Rules, STRIPE_V2};
use crate::guards::VendorWithout;
use crate::keyed;
use crate::network::{Network, SETTLE_TIME};
use crate::plan::{Kind, Schedule, ms, secs};
use crate::process::{Life, ProcessClock};
use crate::shared_store::SharedStore;
use crate::stripe_routes;
use crate::world::World;

pub const ATTEMPT: Duration = secs(1);
pub const LEASE_MARGIN: Duration = ms(500);
const TOTAL: Duration = secs(20);
/// How long what took effect stays out of lookups.
const LAG: Duration = ms(500);
const DAY: Duration = secs(24 * 3600);
/// What the adapters are told of a vendor's window of a day: less, because our wall clock may be off twice.
const WINDOW: Duration = DAY.saturating_sub(WALLS_OFF);
const WALLS_OFF: Duration = ms(3 * Schedule::WALL_OFF_MAX_MS);

/// One of the vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Stripe,
    BigCommerce,
    Postmark,
    Keyed,
    Bare,
    StripeV2,
    Adyen,
    Preset(&'static str),
}

/// All vendors, on one clock that is never off.
pub struct Vendors {
    stripe: StripeFake,
    bigcommerce: BigCommerceFake,
    postmark: PostmarkFake,
    /// Behind the two that are configuration.
    keyed: StripeFake,
    bare: BigCommerceFake,
    adyen: Option<AdyenFake>,
    v2: Arc<ByKey>,
    preset: Option<Arc<ByKey>>,
    clock: TestClock,
}

/// One vendor, as requests reach it.
#[derive(Clone, Debug)]
pub enum Backend {
    Fake(InProcess),
    ByKey(Arc<ByKey>, TestClock),
}

impl Kind {
    pub fn vendor(self) -> Name {
        match self {
            Kind::Intent | Kind::Declined | Kind::Product | Kind::Created => Name::Stripe,
            Kind::Order | Kind::Brand => Name::BigCommerce,
            Kind::Email => Name::Postmark,
            Kind::Keyed => Name::Keyed,
            Kind::Bare => Name::Bare,
            Kind::V2 => Name::StripeV2,
            Kind::Payment | Kind::Unpaid => Name::Adyen,
            Kind::Preset(name) => Name::Preset(name),
        }
    }

    /// The call of the operation with this number.
    pub fn call(self, client: &Client, number: usize) -> Call {
        let amount = (1000 + number).to_string();
        let charge = |card| {
            [
                ("amount", amount.as_str()),
                ("currency", "usd"),
                ("payment_method", card),
                ("payment_method_types[]", "card"),
                ("confirm", "true"),
            ]
        };
        let call = match self {
            Kind::Intent => client.post("/v1/payment_intents").form(&charge("pm_card_visa")),
            Kind::Declined => client.post("/v1/payment_intents").form(&charge("pm_card_chargeDeclined")),
            Kind::Product => stripe_routes::create_unlisted(client, number),
            Kind::Order => client.post("/v2/orders").json(&json!({
                "status_id": 0, "billing_address": {"zip": "12345"}, "products": [{"product_id": number + 1, "quantity": 1}]
            })),
            Kind::Brand => client.post("/v3/catalog/brands").json(&json!({"name": brand(number)})),
            Kind::Email => client.post("/email").json(&json!({
                "From": "shop@example.com", "To": "ann@example.com", "Subject": amount, "TextBody": "Thank you."
            })),
            Kind::Keyed => client.post("/v1/payment_intents").form(&charge("pm_card_visa")),
            Kind::Bare => client.post(&bare(number)).json(&json!({
                "line_items": [{"product_id": 1, "quantity": 1, "list_price": 1000 + number}]
            })),
            Kind::Created => stripe_routes::create(client, number),
            Kind::V2 => client.post("/v2/core/things").json(&json!({ "value": number })),
            Kind::Payment => client.post("/v71/payments").json(&adyen::payment(number)),
            Kind::Unpaid => client.post("/v71/payments").json(&adyen::without_amount(number)),
            Kind::Preset(name) => client.post(by_key::keyed_route(name)).json(&json!({ "value": number })),
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

fn cart(number: usize) -> String {
    format!("cart-{number}")
}

/// Its number is in the path, since nothing else of it is in the ledger.
fn bare(number: usize) -> String {
    format!("/v3/carts/{}/items", cart(number))
}

impl Vendors {
    pub fn new(clock: &TestClock, schedule: &Schedule) -> Vendors {
        let exact = Arc::new(Exact(clock.clone()));
        let mut names = schedule.operations.iter().map(|operation| operation.kind.vendor());
        let preset = names.clone().find_map(|name| match name {
            Name::Preset(name) => Some(Arc::new(ByKey::new(Rules::of(name)))),
            _ => None,
        });
        let adyen = || AdyenFake::builder().test_clock(clock).clock(exact.clone()).in_process();
        let stripe = || StripeFake::builder().test_clock(clock).clock(exact.clone());
        let with_carts = (0..schedule.operations.len())
            .fold(BigCommerceFake::builder(), |builder, number| builder.cart(cart(number)));
        let with_carts = with_carts.test_clock(clock).clock(exact.clone());
        Vendors {
            adyen: names.any(|name| name == Name::Adyen).then(adyen),
            // Ours cannot be set to end before, as the others' are.
            v2: Arc::new(ByKey::new(STRIPE_V2.longer(WALLS_OFF))),
            preset,
            clock: clock.clone(),
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
            bare: with_carts.in_process(),
        }
    }

    /// All that took effect at any of them.
    pub fn effects(&self) -> Vec<Effect> {
        let ledgers = [
            self.stripe.ledger(),
            self.bigcommerce.ledger(),
            self.postmark.ledger(),
            self.keyed.ledger(),
            self.bare.ledger(),
        ];
        let adyen = self.adyen.as_ref().map(AdyenFake::ledger);
        let by_key = [Some(&self.v2), self.preset.as_ref()];
        let made: Vec<Made> = by_key.into_iter().flatten().flat_map(|by_key| by_key.made()).collect();
        let ledgers = ledgers.into_iter().chain(adyen);
        ledgers.flat_map(|ledger: Ledger| ledger.effects()).chain(made.iter().map(effect)).collect()
    }

    fn backend(&self, name: Name) -> Backend {
        let by_key = |vendor: &Arc<ByKey>| Backend::ByKey(vendor.clone(), self.clock.clone());
        match name {
            Name::Stripe => Backend::Fake(self.stripe.transport()),
            Name::BigCommerce => Backend::Fake(self.bigcommerce.transport()),
            Name::Postmark => Backend::Fake(self.postmark.transport()),
            Name::Keyed => Backend::Fake(self.keyed.transport()),
            Name::Bare => Backend::Fake(self.bare.transport()),
            Name::Adyen => Backend::Fake(self.adyen.as_ref().expect("it was asked for").transport()),
            Name::StripeV2 => by_key(&self.v2),
            Name::Preset(_) => by_key(self.preset.as_ref().expect("it was asked for")),
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
            Name::StripeV2 => {
                let stripe = Stripe::new("sk_test_4").base_url("https://v2.test").account("acct_v2");
                VendorWithout::new(guard, stripe.api_version("2025-03-31.preview"), sends)
            }
            Name::Adyen => {
                let url = self.adyen.as_ref().expect("it was asked for").url();
                let adyen = Adyen::new("a-key").base_url(url).replay_window(DAY * 7 - WALLS_OFF);
                VendorWithout::new(guard, adyen, sends)
            }
            Name::Preset(preset) => {
                VendorWithout::new(guard, Keyed::new(config_of(preset), "sk_test_5"), sends)
            }
        }
    }

    /// A process's client of a vendor: a new one for each of its lives.
    pub fn client(&self, name: Name, life: &Arc<Life>) -> Client {
        let world = &life.world;
        let chance = world.draw.below(u64::MAX);
        Client::builder(self.adapter(name, world))
            .policy(policy(world.schedule.guarded_load))
            .transport(Network { life: life.clone(), backend: self.backend(name) })
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

impl Backend {
    /// What becomes of a request that has arrived and meets this fault.
    pub async fn carry_out(
        &self,
        request: Request,
        limits: Limits,
        fault: Option<Fault>,
    ) -> Result<Answer, SendError> {
        let (vendor, clock) = match self {
            Backend::Fake(fake) => {
                if let Some(fault) = fault {
                    // Met by this very request: it is the next that the fake sees.
                    fake.plan().next(fault);
                }
                return fake.send(request, limits).await;
            }
            Backend::ByKey(vendor, clock) => (vendor, clock),
        };
        limits.nothing_sent();
        if !limits.begin_sending() {
            return Err(SendError::new(SendErrorKind::Connect));
        }
        match fault {
            Some(Fault::DropBeforeRead | Fault::Reset) => return Err(SendError::new(SendErrorKind::Reset)),
            Some(Fault::Hang) => return hang(clock).await,
            Some(Fault::Html) => return Ok(page()),
            _ => {}
        }
        let answer = vendor.answer(&request, exact_wall(clock), fault);
        match fault {
            Some(Fault::DropAfterApply | Fault::ResetAfterApply) => {
                return Err(SendError::new(SendErrorKind::Reset));
            }
            Some(Fault::HangAfterApply) => return hang(clock).await,
            Some(Fault::TruncatedBody) => return Err(SendError::new(SendErrorKind::Truncated)),
            Some(Fault::SlowBody(pause)) => clock.latency(pause).await,
            _ => {}
        }
        Ok(answer)
    }
}

async fn hang<T>(clock: &TestClock) -> T {
    clock.latency(Duration::MAX).await;
    std::future::pending().await
}

/// Of a gateway, which has passed nothing on.
fn page() -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/html"));
    Answer::new(StatusCode::BAD_GATEWAY, headers, "<html><body>Bad gateway</body></html>")
}

/// As the fakes' ledgers have it.
fn effect(made: &Made) -> Effect {
    let (at, account) = (made.at.as_millis(), "account");
    let effect = json!({
        "wire_key": made.key, "account": account, "method": "POST", "path": made.path, "id": made.id, "part": 0, "at": at,
    });
    serde_json::from_value(effect).expect("an effect")
}

/// The preset, with what it leaves to whoever names it, and a window that ends before the vendor's does.
fn config_of(preset: &str) -> KeyedConfig {
    let mut config = by_key::config_of(preset);
    config.window = config.window.map(|window| window - WALLS_OFF);
    config
}

/// The shipments of a store: neither a key nor a lookup.
static BARE: LazyLock<KeyedConfig> = LazyLock::new(|| {
    let mut config = keyed::BARE.clone().auth("X-Auth-Token", "");
    config.base_url += "/stores/bare";
    config
});

/// Ours ends before the vendor's does, and what it says of a key that is in use is known.
static KEYED: LazyLock<KeyedConfig> = LazyLock::new(|| {
    let mut config = json!(*keyed::KEYED);
    config["window"] = json!("23h");
    config["in_progress"] = json!([{"json": {"pointer": "/error/code", "value": "idempotency_key_in_use"}}]);
    serde_json::from_value(config).expect("a vendor")
});
