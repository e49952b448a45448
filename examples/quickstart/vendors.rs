//! The outside world: fakes of three vendors that misbehave, in the process that is never killed. Their
//! ledgers are the truth that everything is held against in the end.

use std::time::Duration;

use http::Method;
use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, FaultPlan, WaitForm};

use super::shop::TEMPLATE_ROUTE;

/// The faults that each vendor draws from, at the rate below.
const FAULTS: &[Fault] = &[
    Fault::DropBeforeRead,
    Fault::DropAfterApply,
    Fault::Reset,
    Fault::ResetAfterApply,
    Fault::TruncatedBody,
    Fault::Error500Before,
    Fault::Error500After,
    Fault::Html,
    Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(300))),
    Fault::KeyInUse,
];
const FAULT_RATE: f64 = 0.16;

/// How long the fakes need until a look-up shows a new effect.
const INDEX_LAG: Duration = Duration::from_millis(100);

/// What a store on the Pro plan may call in 30 s; the whole run fits in.
const BIGCOMMERCE_QUOTA: u32 = 450;

pub(crate) struct Vendors {
    stripe: StripeFake,
    bigcommerce: BigCommerceFake,
    postmark: PostmarkFake,
}

impl Vendors {
    /// Postmark takes no message that is made from a template until it is [mended](Vendors::mend): a fault that
    /// outlasts every retry.
    pub(crate) async fn open(seed: u64) -> Vendors {
        let plan =
            |vendor: u64| FaultPlan::seeded(seed.wrapping_mul(3).wrapping_add(vendor), FAULT_RATE, FAULTS);
        let throttled = plan(2);
        throttled.whenever(TEMPLATE_ROUTE, Method::POST, Fault::TooManyRequests(WaitForm::None));
        Vendors {
            stripe: StripeFake::builder().plan(plan(0)).start().await,
            bigcommerce: BigCommerceFake::builder().plan(plan(1)).quota(BIGCOMMERCE_QUOTA).start().await,
            postmark: PostmarkFake::builder().plan(throttled).search_lag(INDEX_LAG).start().await,
        }
    }

    /// In the order of [`VENDORS`](super::shop::VENDORS), as are the ledgers.
    pub(crate) fn urls(&self) -> [String; 3] {
        [self.stripe.url(), self.bigcommerce.url(), self.postmark.url()]
    }

    /// What really took effect.
    pub(crate) fn ledgers(&self) -> [Ledger; 3] {
        [self.stripe.ledger(), self.bigcommerce.ledger(), self.postmark.ledger()]
    }

    /// Nothing goes wrong at Postmark from now on.
    pub(crate) fn mend(&self) {
        self.postmark.plan().clear();
    }
}
