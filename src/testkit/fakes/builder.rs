//! The one builder of all fakes: what each can be given. What only one vendor has is set by methods beside that fake.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::bigcommerce::Batches;
use super::serve::Setup;
use super::{ConflictType, SecondFilter};
use crate::clock::Clock;
use crate::testkit::{FaultPlan, TestClock};

/// Settings of the fake `F`, such as [`StripeFake`](super::StripeFake).
///
/// ```
/// use steadfast::testkit::fakes::{FakeBuilder, PostmarkFake};
/// use steadfast::testkit::{Fault, FaultPlan};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let plan = FaultPlan::new();
/// plan.next(Fault::DropAfterApply);
/// let builder: FakeBuilder<PostmarkFake> = PostmarkFake::builder().plan(plan);
/// let fake = builder.listen(0).await?; // Or a port that another process knows.
/// assert_eq!(fake.plan().pending(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct FakeBuilder<F> {
    pub(super) setup: Setup,
    pub(super) settings: Settings,
    fake: PhantomData<fn() -> F>,
}

/// What one vendor alone has.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Stripe's.
    pub(super) conflict_type: ConflictType,
    pub(super) ignores_form_order: bool,
    pub(super) compares_versions: bool,
    /// Stripe's and Adyen's.
    pub(super) busy: Duration,
    /// Adyen's.
    pub(super) refuses_reused_keys: bool,
    pub(super) captures_in_parts: bool,
    pub(super) forgets_invalid: bool,
    /// Postmark's.
    pub(super) keeps_message_ids: bool,
    pub(super) search_lag: Duration,
    pub(super) second_filter: SecondFilter,
    pub(super) token: Option<String>,
    /// BigCommerce's.
    pub(super) apply_after: Duration,
    pub(super) refund_pending: Duration,
    pub(super) drops_refund_reasons: bool,
    pub(super) orders_answer_ok: bool,
    pub(super) refunded_amount_stays: bool,
    pub(super) batches: Batches,
    pub(super) quota: Option<u32>,
    pub(super) orders: BTreeSet<u64>,
    pub(super) products: BTreeSet<u64>,
    pub(super) carts: BTreeSet<String>,
}

impl<F> FakeBuilder<F> {
    pub(super) fn new() -> FakeBuilder<F> {
        FakeBuilder { setup: Setup::default(), settings: Settings::default(), fake: PhantomData }
    }

    /// The clock by which things are dated, show in lookups and expire. Default: the system's.
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

    /// Also appends each effect to this file, one JSON object a line, before its answer leaves the fake: for a
    /// judge in another process, with [`Ledger::read`](super::Ledger::read). The file is made if there is none, and is
    /// not synced. A fake that cannot write it panics instead of answering. Default: none.
    pub fn ledger_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.ledger_file = Some(path.into());
        self
    }
}

impl<F> Clone for FakeBuilder<F> {
    fn clone(&self) -> Self {
        FakeBuilder { setup: self.setup.clone(), settings: self.settings.clone(), fake: PhantomData }
    }
}

impl<F> fmt::Debug for FakeBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeBuilder")
            .field("setup", &self.setup)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
