//! The parts that a run consists of, all of them from the seed.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::Time;

/// The steps of an order, and the vendors. The first three do one step each; see [`vendor_of`] for the others.
pub const STEPS: [&str; 3] = ["charge", "create", "receipt"];
pub const VENDORS: [&str; 5] = ["stripe", "bigcommerce", "postmark", "adyen", "increase"];

/// Who does a step of an order. Every second charge is Stripe's, one in four is Adyen's, and one in four is that of a
/// vendor by configuration.
pub const fn vendor_of(step: usize, order: usize) -> usize {
    match (step, order % 4) {
        (0, 3) => ADYEN,
        (0, 2) => INCREASE,
        _ => step,
    }
}

pub const ADYEN: usize = 3;
pub const INCREASE: usize = 4;

/// Every tenth charge is declined and every fifteenth address bounces: a no is to stay without an effect.
pub const DECLINED_EVERY: usize = 10;
pub const BOUNCES_EVERY: usize = 15;

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
        let operations = number("STEADFAST_CRASH_OPS").map_or(SHORT, |count: u64| count as usize);
        let orders = operations.div_ceil(STEPS.len()).max(1);
        let seed = number("STEADFAST_CRASH_SEED").unwrap_or_else(clock);
        Plan { seed, orders, kills: (operations / 20).max(40) }
    }

    /// For drivers on a server: fewer by default, since all that they do goes through one more process. A kill for every
    /// 36 operations, and at least 16.
    #[cfg(feature = "postgres")]
    pub fn on_server() -> Plan {
        let is_short = std::env::var_os("STEADFAST_CRASH_OPS").is_none();
        let plan = Plan::from_environment();
        let orders = if is_short { ORDERS_ON_SERVER } else { plan.orders };
        Plan { orders, kills: (orders * STEPS.len() / 36).max(16), ..plan }
    }

    pub fn operations(&self) -> usize {
        self.orders * STEPS.len()
    }

    /// The keys that the store must know in the end.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        (0..self.orders).flat_map(|order| STEPS.map(|step| key(order, step)))
    }
}

/// Operations, unless it is said.
const SHORT: usize = 600;

/// Whether all is met, however long it takes.
pub fn is_long() -> bool {
    std::env::var_os("STEADFAST_LONG").is_some()
}

/// The shipped preset and the adapters' own settle times, all of them faster by one factor. With it the longest
/// exchange takes 600 ms and a lease 1.2 s: more, and a run is too long to be run; less, and what a busy machine takes
/// for a request of its own is more than any vendor's lag.
pub fn shipped_time() -> Time {
    Time::faster_by(50)
}

#[cfg(feature = "postgres")]
const ORDERS_ON_SERVER: usize = 60;

/// Between the two: a server and its clients are more processes on the same machine.
#[cfg(feature = "postgres")]
pub fn server_time() -> Time {
    Time::faster_by(30)
}

/// The same for few operations, where a second of the run's must be more than what a busy machine takes.
pub fn slower_time() -> Time {
    Time::faster_by(15)
}

pub fn key(order: usize, step: &str) -> String {
    format!("order-{order}/{step}")
}

pub fn address(order: usize) -> String {
    format!("customer-{order}@example.com")
}
