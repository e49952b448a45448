//! How far the orders are. It is read from the service's file, so that it goes on where a dead process stopped,
//! and an answer that is replayed from the record counts for nothing.

use steadfast::operation::record::{Phase, Tally};

use crate::vendors::{ORDERS, vendor_of};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps that succeeded, in the order of [`VENDORS`](super::vendors::VENDORS).
    succeeded: [u64; 3],
    /// Refused, or dead letters. The order goes no further.
    failed: u64,
    under_way: u64,
    postponed: u64,
}

impl Progress {
    pub fn new(tallies: &[Tally]) -> Progress {
        let mut progress = Progress::default();
        for Tally { vendor, phase, count, .. } in tallies {
            match (phase, vendor_of(vendor)) {
                (Phase::Succeeded, Some(vendor)) => progress.succeeded[vendor] += count,
                (Phase::InProgress, _) => progress.under_way += count,
                (Phase::Scheduled, _) => progress.postponed += count,
                _ => progress.failed += count,
            }
        }
        progress
    }

    /// Orders that went as far as they go.
    pub fn orders(&self) -> usize {
        let [.., mailed] = self.succeeded;
        usize::try_from(mailed + self.failed).unwrap_or(usize::MAX)
    }

    pub fn is_complete(&self) -> bool {
        self.orders() >= ORDERS
    }

    /// As wide whatever the numbers are, so that the next line covers it.
    pub fn line(&self) -> String {
        let Progress { succeeded: [charged, created, mailed], failed, under_way, postponed } = self;
        format!(
            "  {charged:>3} charged  {created:>3} ordered  {mailed:>3} mailed  {failed:>2} failed  \
             {under_way:>2} under way  {postponed:>2} postponed"
        )
    }
}
