//! The promise, operation by operation: what the records say against what the vendors did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use steadfast::Effect;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::{Sqlite, Store as _};
use steadfast::testkit::fakes;

use crate::harness::Run;
use crate::plan::Plan;

const PAGE: usize = 200;

#[derive(Default)]
pub struct Report {
    seed: u64,
    operations: usize,
    kills: usize,
    faults: u64,
    effects: usize,
    succeeded: usize,
    reconciled: usize,
    refused: usize,
    dead_without_effect: usize,
    unknown: usize,
    /// Of those, how many had taken effect.
    unknown_with_effect: usize,
    duplicates: usize,
    lost: usize,
    /// Operations that somebody carried on whose holder had died or let go.
    pub taken_over: usize,
    /// Each breach of the promise, in words.
    pub broken: Vec<String>,
}

pub async fn audit(plan: &Plan, run: &Run) -> Report {
    let ledgers = run.vendors.ledgers();
    let mut effects: BTreeMap<String, Vec<fakes::Effect>> = BTreeMap::new();
    let mut report =
        Report { seed: plan.seed, kills: run.killed, faults: run.vendors.faults(), ..Report::default() };
    for effect in ledgers.iter().flat_map(|ledger| ledger.effects()) {
        report.effects += 1;
        match effect.wire_key.clone() {
            Some(key) => effects.entry(key).or_default().push(effect),
            None => report.broken.push(format!("an effect without a key: {effect:?}")),
        }
    }
    let mut missing: BTreeSet<String> = plan.keys().collect();
    for record in records(&run.file).await {
        report.operations += 1;
        if !missing.remove(record.id.key.as_str()) {
            report.broken.push(format!("{}: nobody asked for it", record.id));
        }
        let took_effect = effects.remove(&record.wire_key).unwrap_or_default();
        report.judge(&record, &took_effect);
    }
    for key in missing {
        report.lost += 1;
        report.broken.push(format!("{key}: no record of it"));
    }
    for (key, orphans) in effects {
        report.broken.push(format!("{} effects under {key}, which no operation has", orphans.len()));
    }
    report
}

impl Report {
    fn judge(&mut self, record: &Record, effects: &[fakes::Effect]) {
        self.taken_over += usize::from(record.fence > 1);
        self.duplicates += usize::from(effects.len() > 1);
        let (most, least) = match &record.state {
            State::Succeeded { reconciled, answer } => {
                self.succeeded += 1;
                self.reconciled += usize::from(*reconciled);
                let body = String::from_utf8_lossy(&answer.body);
                if effects.first().is_some_and(|effect| !body.contains(&effect.id)) {
                    self.broken.push(format!("{}: the stored reply is not the vendor's: {body}", record.id));
                }
                (1, 1)
            }
            State::Refused { .. } => {
                self.refused += 1;
                (0, 0)
            }
            State::Dead { .. } if record.effect == Effect::None => {
                self.dead_without_effect += 1;
                (0, 0)
            }
            State::Dead { .. } => {
                self.unknown += 1;
                self.unknown_with_effect += effects.len();
                (1, 0)
            }
            _ => {
                self.lost += 1;
                self.broken.push(format!("{}: never came to rest, {}", record.id, record.state.name()));
                return;
            }
        };
        if !(least..=most).contains(&effects.len()) {
            self.lost += usize::from(effects.len() < least);
            let state = (record.state.name(), record.effect, record.attempts, record.fence);
            self.broken.push(format!("{}: {} effects, {state:?}: {effects:?}", record.id, effects.len()));
        }
    }
}

async fn records(file: &str) -> Vec<Record> {
    let store = Sqlite::open(file).expect("the file opens");
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&Filter::default(), after.as_ref(), PAGE).await.expect("a page");
        for row in &page.rows {
            records.push(store.get(&row.id).await.expect("works").expect("a row that is listed"));
        }
        after = page.next;
        if after.is_none() {
            return records;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, operations, kills, faults, effects, duplicates, lost, unknown, .. } = self;
        writeln!(
            f,
            "operations {operations}, kills {kills}, faults {faults}, duplicates {duplicates}, lost {lost}, \
             unknown {unknown}, seed {seed}"
        )?;
        write!(
            f,
            "succeeded {} (looked up {}), refused {}, dead without effect {}, unknown with an effect {}, \
             taken over {}, effects {effects}",
            self.succeeded,
            self.reconciled,
            self.refused,
            self.dead_without_effect,
            self.unknown_with_effect,
            self.taken_over,
        )
    }
}
