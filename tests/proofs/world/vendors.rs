//! The vendors of a schedule, with the shipped adapters and presets as they are, and a host's clients of them.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::policy::RateConfig;
use steadfast::store::Store;
use steadfast::testkit::fakes::{AdyenFake, BigCommerceFake, InProcess, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, SeededRandom, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport as _};
use steadfast::vendor::{Adyen, BigCommerce, Keyed, Postmark, Stripe, Vendor};
use steadfast::{Call, Client, OnUnknown, Policy};

use crate::world::allowed::{DAY, WINDOW};
use crate::world::card::Card;
use crate::world::course::exact_wall;
use crate::world::facts::OPERATION;
use crate::world::network::Network;
use crate::world::plain::Plain;
use crate::world::plan::{Schedule, ms};
use crate::world::process::{Life, ProcessClock};
use crate::world::shared_store::SharedStore;
use crate::world::store::Renewing;
use support::adyen;
use support::by_key::{ByKey, Rules, STRIPE_V2, config_of, keyed_route};
use support::keyed::{BARE, KEYED};
use support::stripe_routes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Stripe,
    /// Another account, with the same store.
    StripeOther,
    BigCommerce,
    Postmark,
    Keyed,
    Bare,
    /// Stripe's second interface, with keys of its own.
    StripeV2,
    Adyen,
    /// Its live environment, with the same store.
    AdyenLive,
    /// One of the presets of the keyed adapter.
    Preset(&'static str),
}

/// The kind of an operation: what it asks of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stripe: replays its key for a day, and can be looked up.
    Intent,
    /// The request and the key of the operation before it, on another account of Stripe's.
    OtherIntent,
    /// Stripe: refused.
    Declined,
    /// Stripe, on a route that has no lookup.
    Product,
    /// BigCommerce: no key, looked up by the stamped one.
    Order,
    /// BigCommerce: an order whose id the caller chose, and gave to the one beside it too.
    Parcel,
    /// BigCommerce: a PUT that adds a product to an order, each time that it is sent.
    Line,
    /// BigCommerce: no key, a second one is refused by its name.
    Brand,
    /// BigCommerce: no key, looked up by the reason of an item.
    Refund,
    /// Postmark: no key, and a search.
    Email,
    /// A vendor by configuration that replays its key for a day.
    Keyed,
    /// A vendor by configuration with neither key nor lookup.
    Bare,
    Patch,
    Put,
    /// A later value for the entity of `Put`.
    PutAfter,
    Delete,
    /// No operation: it has no key.
    Get,
    /// Stripe, on another route that takes a stamp.
    Created,
    /// Stripe's second interface: replays what has succeeded for thirty days, and has no lookup.
    V2,
    /// Adyen: replays its key for a week, and has no lookup. Some are refused by their issuer, which is an answer.
    Payment,
    /// The request and the key of the operation before it, in the live environment.
    LivePayment,
    /// Adyen: refused.
    Unpaid,
    /// Adyen: another of its routes.
    Cancellation,
    /// A preset of the keyed adapter, as it is shipped.
    Preset(&'static str),
}

impl Name {
    /// As the adapter is shipped. Those that are configuration have no lookup to settle for.
    pub fn settle_time(self) -> Duration {
        match self {
            Name::BigCommerce => Vendor::settle_time(&BigCommerce::new("abc123", "token")),
            Name::Postmark => Vendor::settle_time(&Postmark::new("token")),
            _ => Vendor::settle_time(&Stripe::new("sk_test_1")),
        }
    }

    pub const fn is_stripe(self) -> bool {
        matches!(self, Name::Stripe | Name::StripeOther | Name::StripeV2)
    }

    /// Another account of a vendor's, with the same store.
    pub const fn is_other_account(self) -> bool {
        matches!(self, Name::StripeOther | Name::AdyenLive)
    }

    /// For how long a key is sent again after an unknown outcome: what the vendor documents. `None`: it is not.
    pub fn window(self) -> Option<Duration> {
        match self {
            Name::Stripe | Name::StripeOther | Name::Keyed => Some(WINDOW),
            Name::Preset("checkout" | "resend") => Some(WINDOW),
            Name::Preset("paypal") => Some(WINDOW / 4),
            Name::StripeV2 => Some(DAY * 30),
            Name::Adyen | Name::AdyenLive => Some(DAY * 7),
            Name::BigCommerce | Name::Postmark | Name::Bare | Name::Preset(_) => None,
        }
    }

    /// Whether such an answer says that it is one.
    pub fn marks_replays(self) -> bool {
        matches!(self, Name::Stripe | Name::StripeOther | Name::Keyed | Name::Preset("increase"))
    }

    /// Whether the vendor gives the first answer to a second request, counted on or not.
    pub fn replays(self) -> bool {
        self.window().is_some() || matches!(self, Name::Preset(name) if name != "gocardless")
    }
}

impl Kind {
    pub const fn vendor(self) -> Name {
        match self {
            Kind::Intent | Kind::Declined | Kind::Product => Name::Stripe,
            Kind::OtherIntent => Name::StripeOther,
            Kind::Order | Kind::Parcel | Kind::Line | Kind::Brand | Kind::Refund => Name::BigCommerce,
            Kind::Email => Name::Postmark,
            Kind::Keyed => Name::Keyed,
            Kind::Bare | Kind::Patch | Kind::Put | Kind::PutAfter | Kind::Delete | Kind::Get => Name::Bare,
            Kind::Created => Name::Stripe,
            Kind::V2 => Name::StripeV2,
            Kind::Payment | Kind::Unpaid | Kind::Cancellation => Name::Adyen,
            Kind::LivePayment => Name::AdyenLive,
            Kind::Preset(name) => Name::Preset(name),
        }
    }

    /// Whether a repeat is harmless by itself.
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Kind::Put | Kind::PutAfter | Kind::Delete | Kind::Get)
    }

    pub const fn has_lookup(self) -> bool {
        matches!(
            self,
            Kind::Intent
                | Kind::OtherIntent
                | Kind::Created
                | Kind::Declined
                | Kind::Order
                | Kind::Parcel
                | Kind::Brand
                | Kind::Refund
                | Kind::Email
        )
    }

    /// The number that the key of the operation with this number is called after: another account's operation has the
    /// key of the one before it.
    fn named(self, number: usize) -> usize {
        number - usize::from(matches!(self, Kind::OtherIntent | Kind::LivePayment))
    }

    /// The key of the operation with this number.
    pub fn key(self, number: usize) -> String {
        format!("order-{}", self.named(number))
    }

    /// The call of the operation with this number.
    pub fn call(self, client: &Client, number: usize) -> Call {
        let named = self.named(number);
        let amount = (1000 + named).to_string();
        let charge = |card| {
            [
                ("amount", amount.as_str()),
                ("currency", "usd"),
                ("payment_method", card),
                ("payment_method_types[]", "card"),
                ("confirm", "true"),
            ]
        };
        let plain = |method, path: &str| client.request(method, path).json(&json!({ "value": number }));
        let call = match self {
            Kind::Intent | Kind::OtherIntent => client.post("/v1/payment_intents").form(&charge("pm_card_visa")),
            Kind::Declined => client.post("/v1/payment_intents").form(&charge("pm_card_chargeDeclined")),
            Kind::Product => stripe_routes::create_unlisted(client, number),
            Kind::Order => client.post("/v2/orders").json(&json!({
                "status_id": 0, "billing_address": {"zip": "12345"}, "products": [{"product_id": number + 1, "quantity": 1}]
            })),
            Kind::Parcel => client.post("/v2/orders").json(&json!({
                "external_order_id": format!("parcel-{}", number / 2), "billing_address": {"zip": "12345"},
                "products": [{"product_id": 1, "quantity": number + 1}]
            })),
            Kind::Line => client.put("/v2/orders/100").json(&json!({
                "products": [{"name": format!("Line {number}"), "quantity": 1, "price_inc_tax": 1, "price_ex_tax": 1}]
            })),
            Kind::Brand => {
                client.post("/v3/catalog/brands").json(&json!({"name": format!("Brand {number}")}))
            }
            Kind::Refund => client.post("/v3/orders/100/payment_actions/refunds").json(&json!({
                "items": [{"item_type": "PRODUCT", "item_id": 1 + number % 50, "quantity": 1}],
                "payments": [{"provider_id": "custom", "amount": 10, "offline": true}]
            })),
            Kind::Email => client.post("/email").json(&json!({
                "From": "shop@example.com", "To": "ann@example.com", "Subject": amount, "TextBody": "Thank you."
            })),
            Kind::Preset(name) => plain(Method::POST, keyed_route(name)),
            Kind::Keyed | Kind::Bare => plain(Method::POST, "/v1/things"),
            Kind::Patch => plain(Method::PATCH, &format!("/v1/things/{number}")),
            Kind::Put | Kind::PutAfter => plain(Method::PUT, "/v1/things/shared"),
            Kind::Delete => client.delete(&format!("/v1/things/{number}")),
            Kind::Get => client.get("/v1/things/read"),
            Kind::Created => stripe_routes::create(client, number),
            Kind::V2 => plain(Method::POST, "/v2/core/things"),
            Kind::Payment | Kind::LivePayment => client.post("/v71/payments").json(&adyen::payment(named)),
            Kind::Unpaid => client.post("/v71/payments").json(&adyen::without_amount(number)),
            Kind::Cancellation => client.post("/v71/cancels").json(&adyen::cancellation(number)),
        };
        let call = call.header(OPERATION, number.to_string());
        if self == Kind::Get { call } else { call.key(self.key(number)) }
    }
}

/// All vendors, on a clock of their own.
pub struct Vendors {
    stripe: StripeFake,
    card: Arc<Card>,
    bigcommerce: BigCommerceFake,
    postmark: PostmarkFake,
    keyed: Arc<Plain>,
    bare: Arc<Plain>,
    v2: Arc<ByKey>,
    preset: Option<Arc<ByKey>>,
    /// The test environment, and the live one.
    adyen: Option<[AdyenFake; 2]>,
    clock: Arc<VendorClock>,
}

/// The mishap that comes between a request and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    Fault(Fault),
    /// It is declined, if the vendor has such a no.
    Decline,
}

/// One vendor, as requests reach it.
#[derive(Clone, Debug)]
pub enum Backend {
    Fake(InProcess, Ledger),
    /// With a card that may be declined at any time.
    Stripe(InProcess, Ledger, Arc<Card>),
    Plain(Arc<Plain>, Arc<VendorClock>),
    ByKey(Arc<ByKey>, Arc<VendorClock>),
}

impl Vendors {
    pub fn new(clock: &TestClock, schedule: &Schedule) -> Vendors {
        let own = Arc::new(VendorClock { clock: clock.clone(), off_ms: schedule.vendor_off_ms });
        let lag = |settle: Duration| settle * schedule.lag_percent / 100;
        let bigcommerce = BigCommerceFake::builder()
            .test_clock(clock)
            .clock(own.clone())
            .order(100)
            .apply_after(lag(Name::BigCommerce.settle_time()));
        let drops = schedule.extras.drops_reasons;
        let bigcommerce = if drops { bigcommerce.drops_refund_reasons() } else { bigcommerce };
        let mut names = schedule.operations.iter().map(|operation| operation.kind.vendor());
        let preset = names.clone().find_map(|name| match name {
            Name::Preset(name) => {
                let rules = Rules::of(name);
                let drawn = |(keeps, keeps_failures)| rules.unstated(keeps, keeps_failures);
                Some(Arc::new(ByKey::new(schedule.extras.keeps.map_or(rules, drawn))))
            }
            _ => None,
        });
        let adyen = || AdyenFake::builder().test_clock(clock).clock(own.clone()).in_process();
        let pays = names.any(|name| matches!(name, Name::Adyen | Name::AdyenLive));
        Vendors {
            adyen: pays.then(|| [adyen(), adyen()]),
            preset,
            v2: Arc::new(ByKey::new(STRIPE_V2)),
            card: Arc::new(Card::new(own.clone())),
            stripe: StripeFake::builder().test_clock(clock).clock(own.clone()).in_process(),
            bigcommerce: bigcommerce.in_process(),
            postmark: PostmarkFake::builder()
                .test_clock(clock)
                .clock(own.clone())
                .search_lag(lag(Name::Postmark.settle_time()))
                .in_process(),
            keyed: Arc::default(),
            bare: Arc::default(),
            clock: own,
        }
    }

    pub fn backend(&self, name: Name) -> Backend {
        match name {
            Name::Stripe | Name::StripeOther => {
                Backend::Stripe(self.stripe.transport(), self.stripe.ledger(), self.card.clone())
            }
            Name::BigCommerce => Backend::Fake(self.bigcommerce.transport(), self.bigcommerce.ledger()),
            Name::Postmark => Backend::Fake(self.postmark.transport(), self.postmark.ledger()),
            Name::Keyed => Backend::Plain(self.keyed.clone(), self.clock.clone()),
            Name::Bare => Backend::Plain(self.bare.clone(), self.clock.clone()),
            Name::StripeV2 => Backend::ByKey(self.v2.clone(), self.clock.clone()),
            Name::Preset(_) => {
                Backend::ByKey(self.preset.clone().expect("it was asked for"), self.clock.clone())
            }
            Name::Adyen | Name::AdyenLive => {
                let of_both = self.adyen.as_ref().expect("it was asked for");
                let fake = &of_both[usize::from(name == Name::AdyenLive)];
                Backend::Fake(fake.transport(), fake.ledger())
            }
        }
    }

    /// A host's client of a vendor: a new one for each of its lives.
    /// A client on the world's records, or on another store.
    pub fn client(
        &self,
        name: Name,
        life: &Arc<Life>,
        (incarnation, store): (u64, &Arc<dyn Store>),
    ) -> Client {
        let world = &life.world;
        let secret = secret(name, world.has_new_secrets());
        match name {
            Name::Stripe | Name::StripeOther => {
                let vendor = Stripe::new(secret).base_url(self.stripe.url());
                let version = VERSIONS[usize::from(incarnation % 2 == 1)];
                let vendor =
                    if world.schedule.extras.versions { vendor.api_version(version) } else { vendor };
                let vendor = if name == Name::StripeOther { vendor.account("acct_other") } else { vendor };
                self.client_with(vendor, name, life, (incarnation, store))
            }
            Name::BigCommerce => {
                let vendor = BigCommerce::new("abc123", secret).base_url(self.bigcommerce.url());
                self.client_with(vendor, name, life, (incarnation, store))
            }
            Name::Postmark => {
                let vendor = Postmark::new(secret).base_url(self.postmark.url());
                self.client_with(vendor, name, life, (incarnation, store))
            }
            Name::Keyed => {
                self.client_with(Keyed::new(KEYED.clone(), secret), name, life, (incarnation, store))
            }
            Name::Bare => {
                self.client_with(Keyed::new(BARE.clone(), secret), name, life, (incarnation, store))
            }
            Name::StripeV2 => {
                let version = VERSIONS[usize::from(world.schedule.extras.versions && incarnation % 2 == 1)];
                let vendor = Stripe::new(secret).base_url("https://v2.test").api_version(version);
                self.client_with(vendor.account("acct_v2"), name, life, (incarnation, store))
            }
            Name::Adyen => self.client_with(Adyen::new(secret), name, life, (incarnation, store)),
            // The one service says it by its prefix, and the other one by the whole URL.
            Name::AdyenLive if incarnation % 2 == 1 => {
                self.client_with(Adyen::new(secret).live("world"), name, life, (incarnation, store))
            }
            Name::AdyenLive => {
                self.client_with(Adyen::new(secret).base_url(ADYEN_LIVE), name, life, (incarnation, store))
            }
            Name::Preset(preset) => {
                self.client_with(Keyed::new(config_of(preset), secret), name, life, (incarnation, store))
            }
        }
    }

    fn client_with(
        &self,
        vendor: impl Vendor,
        name: Name,
        life: &Arc<Life>,
        (incarnation, store): (u64, &Arc<dyn Store>),
    ) -> Client {
        let world = &life.world;
        // A copy beside the store draws nothing from the world's chance.
        let is_a_copy = !Arc::ptr_eq(store, &world.store);
        let seed = if is_a_copy { incarnation } else { world.draw.below(u64::MAX) };
        Client::builder(vendor)
            .policy(policy(&world.schedule))
            .transport(Network { life: life.clone(), name, incarnation, backend: self.backend(name) })
            .clock(ProcessClock(life.clone()))
            .random(SeededRandom::new(seed))
            .store(Renewing { inner: SharedStore { life: life.clone(), inner: store.clone() }, incarnation })
            .namespace("world")
            .build()
            .expect("a client")
    }
}

/// Part of every secret that was given out before the rotation, and after it.
pub const SECRETS: [&str; 2] = ["secretbefore", "secretafter"];

const VERSIONS: [&str; 2] = ["2024-06-20", "2025-03-31.basil"];

const ADYEN_LIVE: &str = "https://world-checkout-live.adyenpayments.com/checkout";

fn secret(name: Name, is_new: bool) -> String {
    let prefix = if name.is_stripe() { "sk_test_" } else { "" };
    format!("{prefix}{}", SECRETS[usize::from(is_new)])
}

/// Where a vendor expects its secret.
pub fn secret_header(name: Name) -> &'static str {
    match name {
        Name::BigCommerce => "x-auth-token",
        Name::Postmark => "x-postmark-server-token",
        Name::Adyen | Name::AdyenLive => "x-api-key",
        Name::Preset("plaid") => "plaid-secret",
        _ => "authorization",
    }
}

/// A vendor's answer to a secret that it does not take any more, in its own words.
pub fn unauthorized(name: Name) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = match name {
        Name::Stripe | Name::StripeOther | Name::StripeV2 => {
            headers.insert("request-id", HeaderValue::from_static("req_401"));
            json!({"error": {"type": "invalid_request_error", "message": "Expired API Key provided"}})
        }
        Name::BigCommerce => json!({"status": 401, "title": "Unauthorized"}),
        Name::Postmark => json!({"ErrorCode": 10, "Message": "The Server Token is not valid."}),
        Name::Adyen | Name::AdyenLive => {
            json!({"status": 401, "errorCode": "000", "message": "Unauthorized", "errorType": "security"})
        }
        Name::Keyed | Name::Bare | Name::Preset(_) => json!({"message": "unauthorized"}),
    };
    Answer::new(StatusCode::UNAUTHORIZED, headers, body.to_string())
}

/// The preset as it is shipped.
pub fn policy(schedule: &Schedule) -> Policy {
    let policy = if schedule.interactive { Policy::interactive() } else { Policy::background() };
    match schedule.rate {
        Some(calls) => policy.rate(RateConfig::new(calls, Duration::from_secs(1))),
        None => policy,
    }
}

pub const fn on_unknown(resends: bool) -> OnUnknown {
    if resends { OnUnknown::Resend } else { OnUnknown::ByMethod }
}

impl Backend {
    /// Carries a request out at once, and says which effects that had.
    pub fn carry_out(
        &self,
        request: Request,
        mishap: Option<Mishap>,
    ) -> (Result<Answer, SendError>, Vec<String>) {
        let declines = mishap == Some(Mishap::Decline);
        let fault = match mishap {
            Some(Mishap::Fault(fault)) => Some(fault),
            Some(Mishap::Decline) if matches!(self, Backend::ByKey(..)) => Some(Fault::KeyInUse),
            Some(Mishap::Decline) | None => None,
        };
        match self {
            Backend::Stripe(fake, ledger, card) => {
                if let Some(no) = card.answer(&request, declines) {
                    return (Ok(no), Vec::new());
                }
                Backend::Fake(fake.clone(), ledger.clone()).carry_out(request, mishap)
            }
            Backend::Fake(fake, ledger) => {
                let before = ledger.count();
                if fault == Some(Fault::KeyInUse)
                    && let Some(no) = no_of_today(&request, ledger)
                {
                    return (Ok(no), Vec::new());
                }
                if let Some(fault) = fault {
                    fake.plan().next(fault);
                }
                let outcome = at_once(fake.send(request, Limits::new(1 << 20)));
                let new = ledger.effects().into_iter().skip(before).map(|effect| effect.id);
                (outcome, new.collect())
            }
            Backend::Plain(plain, clock) => {
                let before = plain.effects().len();
                let outcome = match fault {
                    Some(Fault::Error500Before | Fault::TooManyRequests(_)) => {
                        Err(SendError::new(SendErrorKind::Reset))
                    }
                    _ => Ok(plain.answer(&request, clock.wall(), fault == Some(Fault::Stored500))),
                };
                let outcome = if fault == Some(Fault::Error500After) {
                    Err(SendError::new(SendErrorKind::Reset))
                } else {
                    outcome
                };
                (outcome, plain.effects().split_off(before))
            }
            Backend::ByKey(vendor, clock) => {
                let before = vendor.count();
                let answer = vendor.answer(&request, clock.wall(), fault);
                let made = vendor.made().split_off(before);
                (Ok(answer), made)
            }
        }
    }

    /// Whether its own failures can be told from a proxy's that has JSON too.
    pub fn has_mark(&self) -> bool {
        match self {
            Backend::Fake(..) | Backend::Stripe(..) => true,
            Backend::Plain(..) => false,
            Backend::ByKey(vendor, _) => vendor.has_mark(),
        }
    }
}

/// The no of today to a request that may pass validation later, such as a charge of a customer who is not there yet:
/// it is kept under no key. For every other key; the others are told that their key is in use.
fn no_of_today(request: &Request, ledger: &Ledger) -> Option<Answer> {
    let key = request.headers.get("idempotency-key")?.to_str().ok()?;
    if key.bytes().next_back()? % 2 == 1 || !ledger.effects_for(key).is_empty() {
        return None;
    }
    let mut headers = HeaderMap::new();
    headers.insert("request-id", HeaderValue::from_static("req_today"));
    let stripe =
        json!({ "type": "invalid_request_error", "code": "resource_missing", "message": "No such customer" });
    let body = json!({
        "error": stripe, "status": 422, "errorCode": "14_030", "errorType": "validation", "message": "Not yet",
    });
    let status = if request.url.path().starts_with("/v1/") { 400 } else { 422 };
    Some(Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_string()))
}

/// A fake without a slow fault answers at the first poll.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("the fake waits"),
    }
}

/// The vendors' clock: off, and never stepped.
#[derive(Debug)]
pub struct VendorClock {
    clock: TestClock,
    off_ms: i64,
}

impl Clock for VendorClock {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        shifted(exact_wall(&self.clock), self.off_ms)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(at)
    }
}

pub fn shifted(at: Timestamp, by_ms: i64) -> Timestamp {
    let by = ms(by_ms.unsigned_abs());
    if by_ms < 0 { at.minus(by) } else { at.plus(by) }
}
