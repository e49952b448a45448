//! BigCommerce: no keys at all, a uniqueness rule here and there, and lookups by what the client wrote itself.
//!
//! The fake ignores `Idempotency-Key` on purpose: a repeat executes. Whether the second is refused depends on
//! the resource, and where the documentation is silent (two orders with one `external_order_id`) it is not.
//! A 504 executes first: the documentation advises to retry one and does not say what became of the write.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;

use self::machine::{Machine, State};
use self::quota::Quota;
use super::fixture::Fixtures;
use super::in_process::InProcess;
use super::ledger::Ledger;
use super::serve::{Served, Setup};
use crate::clock::Clock;
use crate::testkit::{FaultPlan, TestClock};

mod answers;
mod items;
mod keys;
mod machine;
mod quota;
mod writes;

pub use answers::BigCommerceAnswer;

/// A BigCommerce store that counts what was made in it.
///
/// ```
/// use serde_json::json;
/// use steadfast::Client;
/// use steadfast::testkit::{Fault, TestClock, fakes::BigCommerceFake};
/// use steadfast::vendor::BigCommerce;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// let clock = TestClock::auto();
/// let fake = BigCommerceFake::builder().test_clock(&clock).start().await;
/// fake.plan().next(Fault::DropAfterApply); // The order is made, and its answer lost.
///
/// // The code under test, with a client of the fake.
/// let vendor = BigCommerce::new("abc123", "a-token").base_url(fake.url());
/// let store = Client::builder(vendor).clock(clock).build()?;
/// store.post("/v2/orders").key("order-42").json(&json!({"customer_id": 7})).send().await?;
///
/// assert_eq!((fake.plan().pending(), fake.ledger().count()), (0, 1));
/// # Ok(())
/// # }
/// ```
///
/// | request | what happens | wire key in the ledger |
/// |---|---|---|
/// | `POST /v2/orders` | another order each time | `external_order_id` |
/// | `POST /v3/checkouts/{id}/orders` | another order each time | the cart's id |
/// | `POST /v3/catalog/products`, `/brands`, `/categories` | 409 for a second of that name (or `sku`) | `sku`, else `name` |
/// | `POST /v3/customers` | up to 10 at once; 422 for all if one e-mail exists | `email` |
/// | `POST /v3/pricelists`, `/v2/coupons` | 409 for a second of that name, or code | `name`, `code` |
/// | `POST /v3/orders/{id}/payment_actions/refunds` | another refund each time | the UUID in `reason`, else all of it |
/// | `POST /payments` | another payment each time | the payment access token |
/// | any other `POST` | another each time | none |
///
/// `GET` on the same paths lists and filters, or reads one by its id; `PUT …/{id}` and `DELETE …/{id}` change
/// and remove. All paths are below `/stores/{hash}` and need `X-Auth-Token`; payments need
/// `Authorization: PAT …`, as `POST /v3/payments/access_tokens` gives it.
#[derive(Debug)]
pub struct BigCommerceFake {
    served: Served,
    machine: Arc<Machine>,
}

impl BigCommerceFake {
    /// Starts one on the system's clock, without lag or quota, with nothing going wrong.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port.
    pub async fn start() -> BigCommerceFake {
        BigCommerceFake::builder().start().await
    }

    /// One with settings of its own.
    pub fn builder() -> BigCommerceFakeBuilder {
        BigCommerceFakeBuilder {
            setup: Setup::default(),
            apply_after: Duration::ZERO,
            refund_pending: Duration::ZERO,
            drops_refund_reasons: false,
            quota: None,
        }
    }

    /// The base URL, `http://127.0.0.1:{port}`, without `/stores/{hash}`.
    pub fn url(&self) -> String {
        self.served.url()
    }

    /// Reaches it without a socket, under the same plan and with the same ledger.
    pub fn transport(&self) -> InProcess {
        self.served.transport()
    }

    /// What goes wrong on the way.
    pub fn plan(&self) -> &FaultPlan {
        self.served.plan()
    }

    /// What took effect.
    pub fn ledger(&self) -> Ledger {
        self.machine.ledger.clone()
    }

    /// Answers the next authorised write with this instead. Several queue up.
    pub fn answer_next(&self, answer: BigCommerceAnswer) -> &BigCommerceFake {
        self.machine.state.lock().scripted.push_back(answer);
        self
    }

    /// How many held items requests were shown since this was last asked.
    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.machine.state.lock().items.take_shown()
    }
}

/// Settings of a [`BigCommerceFake`].
#[derive(Clone, Debug)]
#[must_use]
pub struct BigCommerceFakeBuilder {
    setup: Setup,
    apply_after: Duration,
    refund_pending: Duration,
    drops_refund_reasons: bool,
    quota: Option<u32>,
}

impl BigCommerceFakeBuilder {
    /// The clock by which things are dated and quotas renewed. Default: the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.setup.clock = clock;
        self
    }

    /// As [`clock`](Self::clock), and lets slow bodies and hanging answers take that clock's time too.
    pub fn test_clock(mut self, clock: &TestClock) -> Self {
        self.setup.clock = Arc::new(clock.clone());
        self.setup.pace = Some(clock.clone());
        self
    }

    /// What goes wrong on the way. Default: nothing.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.setup.plan = plan;
        self
    }

    /// How long a write takes to show in lookups, as if it were still under way. It is in the ledger, and
    /// refuses duplicates, at once: a client that looks up too early sees nothing and must not believe it.
    /// Default: zero.
    pub fn apply_after(mut self, lag: Duration) -> Self {
        self.apply_after = lag;
        self
    }

    /// How long a refund stays pending; a second one for the same order is refused with 422 meanwhile ("not
    /// yet supported", say the documents; status and words are composed). Default: zero, never refused.
    pub fn refund_pending(mut self, pending: Duration) -> Self {
        self.refund_pending = pending;
        self
    }

    /// Takes the reasons of a refund's items and does not show them again: that they are kept is not documented.
    /// Default: they are kept.
    pub fn drops_refund_reasons(mut self) -> Self {
        self.drops_refund_reasons = true;
        self
    }

    /// Requests allowed per 30 s, the store's window; further ones get a 429. Default: no limit.
    pub fn quota(mut self, requests: u32) -> Self {
        self.quota = Some(requests);
        self
    }

    /// Also appends each effect to this file, one JSON object a line, before its answer leaves the fake: for a
    /// judge in another process, with [`Ledger::read`]. The file is made if there is none, and is not synced.
    /// A fake that cannot write it panics instead of answering. Default: none.
    pub fn ledger_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.ledger_file = Some(path.into());
        self
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If the loopback interface has no free port, or the ledger's file cannot be opened.
    pub async fn start(self) -> BigCommerceFake {
        let machine = self.machine();
        let served = Served::start(machine.clone(), self.setup).await;
        BigCommerceFake { served, machine }
    }

    /// Makes it without any socket: it is reached by its [`transport`](BigCommerceFake::transport) alone. With a
    /// [`test_clock`](Self::test_clock) everything that it does is on virtual time.
    ///
    /// # Panics
    ///
    /// If the ledger's file cannot be opened.
    pub fn in_process(self) -> BigCommerceFake {
        let machine = self.machine();
        let served = Served::in_process(machine.clone(), self.setup, "bigcommerce");
        BigCommerceFake { served, machine }
    }

    fn machine(&self) -> Arc<Machine> {
        Arc::new(Machine {
            fixtures: &FIXTURES,
            clock: self.setup.clock.clone(),
            ledger: self.setup.ledger(),
            apply_after: self.apply_after,
            refund_pending: self.refund_pending,
            drops_refund_reasons: self.drops_refund_reasons,
            state: Mutex::new(State { quota: Quota::new(self.quota), ..State::default() }),
        })
    }
}

/// Read once: a test may make thousands of fakes.
static FIXTURES: LazyLock<Fixtures> =
    LazyLock::new(|| Fixtures::parse(include_str!("../fixtures/bigcommerce.json")));
