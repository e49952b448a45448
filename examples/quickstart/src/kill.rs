//! The state that the kill met, and what became of it.

use serde_json::{Value, json};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Filter, Phase, State, Summary};
use steadfast::store::{Sqlite, Store as _};
use steadfast::testkit::fakes::Ledger;

use crate::report::{Outcome, ledger_of};
use crate::{Problem, count};

/// More than can be under way at once.
const PAGE: usize = 100;

/// The file as the dead worker left it.
pub struct Kill {
    after_orders: usize,
    /// The operations that it held in its hands.
    under_way: Vec<OperationId>,
    /// Of those, how many had taken effect: the answer, if any, died with the worker.
    applied: usize,
    /// The number of operations that it had postponed.
    scheduled: usize,
}

/// The fate of the operations under way.
#[derive(Default)]
pub struct Aftermath {
    succeeded: usize,
    /// Of those, found by a lookup and not by another send.
    looked_up: usize,
    dead_letters: usize,
    /// Refused, or still not at rest.
    other: usize,
}

impl Kill {
    /// Surveys the file while no process runs on it.
    pub async fn survey(after_orders: usize, store: &Sqlite, ledgers: &[Ledger; 3]) -> Result<Kill, Problem> {
        let under_way = in_phase(store, Phase::InProgress).await?;
        let took_effect = |summary: &&Summary| {
            ledger_of(&summary.id, ledgers)
                .is_some_and(|ledger| !ledger.effects_for(&summary.wire_key).is_empty())
        };
        Ok(Kill {
            after_orders,
            applied: under_way.iter().filter(took_effect).count(),
            under_way: under_way.into_iter().map(|summary| summary.id).collect(),
            scheduled: in_phase(store, Phase::Scheduled).await?.len(),
        })
    }

    pub fn text(&self) -> String {
        let under_way = count(self.under_way.len(), "call");
        format!("killed with SIGKILL: {under_way} under way, {} had taken effect, unrecorded", self.applied)
    }

    pub fn aftermath(&self, outcomes: &[Outcome]) -> Aftermath {
        let mut aftermath = Aftermath::default();
        for id in &self.under_way {
            let ended = outcomes.iter().find(|outcome| outcome.record.id == *id);
            let tally = match ended.map(|outcome| &outcome.record.state) {
                Some(State::Succeeded { reconciled, .. }) => {
                    aftermath.looked_up += usize::from(*reconciled);
                    &mut aftermath.succeeded
                }
                Some(State::Dead { .. }) => &mut aftermath.dead_letters,
                _ => &mut aftermath.other,
            };
            *tally += 1;
        }
        aftermath
    }

    pub fn json(&self, aftermath: &Aftermath) -> Value {
        json!({
            "after_orders": self.after_orders,
            "under_way": self.under_way.len(),
            "applied_unrecorded": self.applied,
            "scheduled": self.scheduled,
            "succeeded": aftermath.succeeded,
            "looked_up": aftermath.looked_up,
            "dead_letters": aftermath.dead_letters,
            "other": aftermath.other,
        })
    }
}

impl Aftermath {
    pub fn text(&self) -> String {
        let Aftermath { succeeded, looked_up, dead_letters, other } = self;
        let dead_letters = count(*dead_letters, "dead letter");
        let other = if *other == 0 { String::new() } else { format!(", {other} OTHERS") };
        format!(
            "of those under way, {succeeded} succeeded ({looked_up} found by a lookup), {dead_letters}{other}"
        )
    }
}

async fn in_phase(store: &Sqlite, phase: Phase) -> Result<Vec<Summary>, Problem> {
    let filter = Filter { phases: vec![phase], ..Filter::default() };
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&filter, after.as_deref(), PAGE).await?;
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}
