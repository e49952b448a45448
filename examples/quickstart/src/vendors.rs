//! The outside world: fakes of three vendors that misbehave, in the process that is never killed. Their
//! ledgers are the truth that everything is held against in the end.

use std::time::Duration;

use http::Method;
use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, FaultPlan, WaitForm};

use crate::shop::{CHARGE, CREATE, MAIL, TEMPLATE_ROUTE};

pub const ORDERS: usize = 200;

/// Who does which step of an order, in this sequence.
pub const VENDORS: [&str; 3] = ["stripe", "bigcommerce", "postmark"];
pub const STEPS: [&str; 3] = [CHARGE, CREATE, MAIL];

/// The vendor's place in [`VENDORS`], by its name with or without the namespace.
pub fn vendor_of(path: &str) -> Option<usize> {
    let name = path.rsplit('/').next()?;
    VENDORS.iter().position(|vendor| *vendor == name)
}

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

/// How long Postmark's fake needs until a search shows a new mail. The service waits twice as long before it
/// searches: the delay of the real Postmark is not known, so here too a search that finds nothing proves nothing.
const INDEX_LAG: Duration = Duration::from_millis(100);

const SEARCH_TIME: Duration = Duration::from_millis(20);

/// The number of calls that a store on the Pro plan may make in 30 s; the whole run fits in.
const BIGCOMMERCE_QUOTA: u32 = 450;

pub struct Vendors {
    stripe: StripeFake,
    bigcommerce: BigCommerceFake,
    postmark: PostmarkFake,
}

impl Vendors {
    /// Postmark takes no message that is made from a template until it is [mended](Vendors::mend): a fault that
    /// outlasts every retry.
    ///
    /// Its search is slow and does not fail. One that fails tells as little as one that finds nothing, and after
    /// three of them a receipt whose answer was lost would be sent a second time. `OnUnknown::Resend` accepts that;
    /// this example is there to show what is promised.
    pub async fn open(seed: u64) -> Vendors {
        let plan =
            |vendor: u64| FaultPlan::seeded(seed.wrapping_mul(3).wrapping_add(vendor), FAULT_RATE, FAULTS);
        let postmark = plan(2);
        postmark.whenever(TEMPLATE_ROUTE, Method::POST, Fault::TooManyRequests(WaitForm::None)).whenever(
            "/messages/outbound",
            Method::GET,
            Fault::SlowBody(SEARCH_TIME),
        );
        Vendors {
            stripe: StripeFake::builder().plan(plan(0)).start().await,
            bigcommerce: BigCommerceFake::builder().plan(plan(1)).quota(BIGCOMMERCE_QUOTA).start().await,
            postmark: PostmarkFake::builder().plan(postmark).search_lag(INDEX_LAG).start().await,
        }
    }

    /// In the order of [`VENDORS`], as are the ledgers.
    pub fn urls(&self) -> [String; 3] {
        [self.stripe.url(), self.bigcommerce.url(), self.postmark.url()]
    }

    /// The ledgers of what really took effect.
    pub fn ledgers(&self) -> [Ledger; 3] {
        [self.stripe.ledger(), self.bigcommerce.ledger(), self.postmark.ledger()]
    }

    /// Nothing goes wrong at Postmark from now on.
    pub fn mend(&self) {
        self.postmark.plan().clear();
    }
}
