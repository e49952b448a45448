//! Every fault against every vendor: how the operation ends, and that the vendor's ledger agrees.

use http::Method;
use steadfast::Call;
use steadfast::testkit::fakes::Ledger;
use steadfast::testkit::{Fault, FaultPlan, WaitForm};

use super::vendors::{
    Ending, FRESH, NEVER_HAPPENED, NOBODY_KNOWS, RECONCILED, REPLAYED, Rig, bigcommerce, charge, ending, ms,
    order, postmark, promise_holds, receipt, secs, stripe,
};

/// A fault that befalls an operation's first send, and how it then ends at Stripe, Postmark and BigCommerce.
fn table() -> Vec<(Fault, [Ending; 3])> {
    let not_applied = [FRESH, NOBODY_KNOWS, FRESH];
    let applied = [REPLAYED, RECONCILED, RECONCILED];
    let never_left = [FRESH, FRESH, FRESH];
    vec![
        (Fault::DropBeforeRead, not_applied),
        (Fault::DropAfterApply, applied),
        (Fault::Reset, not_applied),
        (Fault::ResetAfterApply, applied),
        (Fault::Hang, not_applied),
        (Fault::HangAfterApply, applied),
        (Fault::SlowBody(secs(5)), never_left),
        (Fault::SlowBody(secs(45)), applied),
        (Fault::TruncatedBody, applied),
        (Fault::Error500Before, not_applied),
        (Fault::Error500After, applied),
        // Stripe will not change its answer under this key, and its list proves that nothing was created.
        (Fault::Stored500, [NEVER_HAPPENED, NOBODY_KNOWS, FRESH]),
        (Fault::Html, not_applied),
        (Fault::TooManyRequests(WaitForm::None), never_left),
        (Fault::TooManyRequests(WaitForm::Seconds(7)), never_left),
        (Fault::TooManyRequests(WaitForm::HttpDate(secs(7))), never_left),
        (Fault::TooManyRequests(WaitForm::VendorForm(ms(7_500))), never_left),
        // The other two have no keys to be in use.
        (Fault::KeyInUse, never_left),
    ]
}

/// A vendor as the table sees it.
struct Side<'a> {
    rig: &'a Rig,
    plan: &'a FaultPlan,
    ledger: Ledger,
    call: fn(&steadfast::Client, &str) -> Call,
}

impl Side<'_> {
    /// One operation under the plan as it stands; the plan is clear afterwards.
    async fn operate(&self, key: &str) -> (Ending, usize) {
        let outcome = self.rig.at_rest(|| (self.call)(&self.rig.client, key)).await;
        let effects = promise_holds(&outcome, &self.ledger, key);
        self.plan.clear();
        // At rest means at rest: the same key sends nothing more.
        let posts = self.rig.posts();
        let again = (self.call)(&self.rig.client, key).send().await;
        assert_eq!(again.is_ok(), outcome.is_ok(), "{key}");
        assert_eq!(self.rig.posts(), posts, "{key}");
        (ending(&outcome), effects)
    }

    async fn each_fault_once(&self, column: usize) {
        for (fault, endings) in table() {
            self.plan.when("/", Method::POST, fault);
            let what = format!("{fault:?} once");
            let (ended, effects) = self.operate(&what).await;
            assert_eq!(ended, endings[column], "{what}");
            assert_eq!(effects, usize::from(matches!(ended, Ending::Reply(_))), "{what}");
        }
    }

    /// For as long as the operation lives, its lookups well or failing too.
    async fn each_fault_for_ever(&self) {
        for (fault, _) in table() {
            for lookups_fail in [false, true] {
                self.plan.whenever("/", Method::POST, fault);
                if lookups_fail {
                    self.plan.whenever("/", Method::GET, Fault::Error500Before);
                }
                self.operate(&format!("{fault:?} for ever, lookups fail: {lookups_fail}")).await;
            }
        }
    }

    /// Any fault on any request, the lookups among them.
    async fn faults_by_seed(&self) {
        let all: Vec<Fault> = table().into_iter().map(|(fault, _)| fault).collect();
        for seed in 0..60 {
            let chosen = FaultPlan::seeded(seed, 0.6, &all);
            for _ in 0..4 {
                if let Some(fault) = chosen.decide(&Method::POST, "/") {
                    self.plan.next(fault);
                }
            }
            self.operate(&format!("seed {seed}")).await;
        }
    }
}

#[tokio::test]
async fn every_fault_at_stripe_keeps_the_promise() {
    let (rig, fake) = stripe().await;
    let side = Side { rig: &rig, plan: fake.plan(), ledger: fake.ledger(), call: charge };
    side.each_fault_once(0).await;
    side.each_fault_for_ever().await;
    side.faults_by_seed().await;
}

#[tokio::test]
async fn every_fault_at_postmark_keeps_the_promise() {
    let (rig, fake) = postmark().await;
    let side = Side { rig: &rig, plan: fake.plan(), ledger: fake.ledger(), call: receipt };
    side.each_fault_once(1).await;
    side.each_fault_for_ever().await;
    side.faults_by_seed().await;
}

#[tokio::test]
async fn every_fault_at_bigcommerce_keeps_the_promise() {
    let (rig, fake) = bigcommerce().await;
    let side = Side { rig: &rig, plan: fake.plan(), ledger: fake.ledger(), call: order };
    side.each_fault_once(2).await;
    side.each_fault_for_ever().await;
    side.faults_by_seed().await;
}
