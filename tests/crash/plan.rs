//! What a run consists of, all of it from the seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, FaultPlan, WaitForm};

/// The vendors and the step of an order that each one does.
pub const STEPS: [&str; 3] = ["charge", "create", "receipt"];

/// Every tenth charge is declined and every fifteenth address bounces: a no is to stay without an effect.
pub const DECLINED_EVERY: usize = 10;
pub const BOUNCES_EVERY: usize = 15;

/// How long the fakes need until a look-up shows a new effect.
const INDEX_LAG: Duration = Duration::from_millis(80);

const FAULT_RATE: f64 = 0.25;
const FAULTS: &[Fault] = &[
    Fault::DropBeforeRead,
    Fault::DropAfterApply,
    Fault::Reset,
    Fault::ResetAfterApply,
    Fault::Hang,
    Fault::HangAfterApply,
    Fault::SlowBody(Duration::from_millis(40)),
    Fault::TruncatedBody,
    Fault::Error500Before,
    Fault::Error500After,
    Fault::Stored500,
    Fault::Html,
    Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(40))),
    Fault::KeyInUse,
];

pub struct Plan {
    pub seed: u64,
    pub orders: usize,
    pub kills: usize,
}

impl Plan {
    /// At least 40 kills, and one for every twenty operations.
    pub fn from_environment() -> Plan {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
        let clock =
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64);
        let operations = number("STEADFAST_CRASH_OPS").map_or(2_000, |count: u64| count as usize);
        let orders = operations.div_ceil(STEPS.len()).max(1);
        let seed = number("STEADFAST_CRASH_SEED").unwrap_or_else(clock);
        Plan { seed, orders, kills: (operations / 20).max(40) }
    }

    pub fn operations(&self) -> usize {
        self.orders * STEPS.len()
    }

    /// The keys that the store must know in the end.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        (0..self.orders).flat_map(|order| STEPS.map(|step| key(order, step)))
    }
}

pub fn key(order: usize, step: &str) -> String {
    format!("order-{order}/{step}")
}

pub fn address(order: usize) -> String {
    format!("customer-{order}@example.com")
}

/// The vendors, as they are for the whole run.
pub struct Vendors {
    pub stripe: StripeFake,
    pub bigcommerce: BigCommerceFake,
    pub postmark: PostmarkFake,
}

impl Vendors {
    pub async fn open(plan: &Plan) -> Vendors {
        let faults =
            |vendor| FaultPlan::seeded(plan.seed.wrapping_mul(3).wrapping_add(vendor), FAULT_RATE, FAULTS);
        let stripe = StripeFake::builder().plan(faults(0)).start().await;
        let bigcommerce = BigCommerceFake::builder().plan(faults(1)).apply_after(INDEX_LAG).start().await;
        let postmark = PostmarkFake::builder().plan(faults(2)).search_lag(INDEX_LAG).start().await;
        for order in (0..plan.orders).step_by(BOUNCES_EVERY) {
            postmark.deactivate(&address(order));
        }
        Vendors { stripe, bigcommerce, postmark }
    }

    /// What really took effect, in the order of [`STEPS`].
    pub fn ledgers(&self) -> [Ledger; 3] {
        [self.stripe.ledger(), self.bigcommerce.ledger(), self.postmark.ledger()]
    }

    pub fn faults(&self) -> u64 {
        let plans = [self.stripe.plan(), self.bigcommerce.plan(), self.postmark.plan()];
        plans.iter().map(|plan| plan.injected_total()).sum()
    }

    pub fn urls(&self) -> String {
        [self.stripe.url(), self.bigcommerce.url(), self.postmark.url()].join(" ")
    }
}
