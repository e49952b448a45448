//! The events that happen by themselves: what is due by the clock takes place before the next request is answered.
//!
//! Only what Stripe documents with a time of its own, and what needs no second party. A payout is paid on its
//! `arrival_date`, a top-up succeeds on its `expected_availability_date`, a line of the balance is available from its
//! `available_on` (<https://docs.stripe.com/api/payouts/object>, <https://docs.stripe.com/api/topups/object>,
//! <https://docs.stripe.com/api/balance_transactions/object>). Subscriptions and their invoices have `actions/cycles.rs`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::actions::cycles;
use super::desk::Desk;

/// The objects that are to be looked at, and when. Their fate meanwhile is seen then.
#[derive(Debug, Default)]
pub(super) struct Due(BTreeSet<Entry>);

/// Seconds, then the order in which they were made: an id has its number in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) id: String,
    pub(super) resource: &'static str,
    pub(super) account: String,
}

impl Due {
    /// Notes an object that waits for its time.
    pub(super) fn note(&mut self, account: &str, resource: &str, object: &Value, now: u64) {
        let Some((resource, at)) = waits(resource, object, now) else { return };
        let id = object["id"].as_str().unwrap_or_default().to_owned();
        self.0.insert(Entry { at, id, resource, account: account.to_owned() });
    }

    /// The next that is due now.
    pub(super) fn next(&mut self, now: u64) -> Option<Entry> {
        if self.0.first()?.at > now { None } else { self.0.pop_first() }
    }
}

/// Changes an object to what it becomes, and tells the event of it, once its time has come.
pub(super) fn come(desk: &mut Desk<'_>, resource: &str, id: &str) {
    let Some(mut object) = desk.objects.get(desk.account, resource, id) else { return };
    match resource {
        "subscriptions" => cycles::come(desk, object),
        "invoices" => cycles::invoice_come(desk, object),
        _ => {
            let Some((_, at, (status, what))) = becomes(resource, &object) else { return };
            if at <= desk.now {
                object["status"] = Value::from(status);
                desk.put(resource, &object);
                desk.tell(what, &object);
            }
        }
    }
}

/// Until when an object waits.
fn waits(resource: &str, object: &Value, now: u64) -> Option<(&'static str, u64)> {
    match resource {
        "subscriptions" => cycles::next(object, now).map(|at| ("subscriptions", at)),
        "invoices" => cycles::invoice_next(object, now).map(|at| ("invoices", at)),
        _ => becomes(resource, object).map(|(resource, at, _)| (resource, at)),
    }
}

/// Until when an object waits, its status from then on, and what is told of that.
fn becomes(resource: &str, object: &Value) -> Option<(&'static str, u64, (&'static str, &'static str))> {
    let status = object["status"].as_str()?;
    let (resource, at, becomes) = match (resource, status) {
        // Nothing is told of a line.
        ("balance_transactions", "pending") => ("balance_transactions", "available_on", ("available", "")),
        ("payouts", "pending") => ("payouts", "arrival_date", ("paid", "paid")),
        ("topups", "pending") => ("topups", "expected_availability_date", ("succeeded", "succeeded")),
        _ => return None,
    };
    Some((resource, object[at].as_u64()?, becomes))
}
