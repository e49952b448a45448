//! The end of an operation whose account's credentials stay refused: see [`policy::credentials`](crate::policy).

use std::sync::Arc;

use steadfast_core::Error;
use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::{Observed, TakenOperation};
use steadfast_core::operation::record::Record;

use super::hold::Hold;
use super::run::Run;
use super::{Engine, Work, driver};
use crate::reply::Reply;

impl Engine {
    /// Ends a taken operation that has waited for its account's credentials for too long.
    pub(crate) async fn give_up(&self, record: Record, lease_until: Instant) -> Result<Reply, Error> {
        let work = Work::background(record.on_unknown);
        let request = Arc::clone(&record.request);
        let started = self.clock.now();
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        let hold = Hold::new(self, record, lease_until);
        let mut run = Run::new(self, &work, &request, Some(hold), started, deadline);
        let taken =
            TakenOperation { is_ours: true, is_addressed: true, is_given_up: true, has_lookup: false };
        driver::drive(&mut run, Observed::Taken(taken)).await
    }
}
