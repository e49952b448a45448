//! The promise, operation by operation: what the records say against what the vendors did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use steadfast::Effect;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::Store;
use steadfast::testkit::fakes;

use crate::file;
use crate::plan::VENDORS;
use crate::truth;
use crate::words::AllHeard;
use support::promise::{self, Untrue};

const PAGE: usize = 200;

#[derive(Default)]
pub struct Report {
    seed: u64,
    operations: usize,
    pub kills: usize,
    faults: u64,
    /// Requests that were as late as a connection can carry them.
    pub late: u64,
    effects: usize,
    succeeded: usize,
    reconciled: usize,
    refused: usize,
    dead_without_effect: usize,
    /// By vendor.
    of_vendor: [usize; VENDORS.len()],
    unknown: [usize; VENDORS.len()],
    /// Of those, how many ended with an answer on record: an error that the vendor stores, and repeats for its key.
    unknown_answered: [usize; VENDORS.len()],
    /// Of the unknown, how many had taken effect.
    unknown_with_effect: usize,
    duplicates: usize,
    lost: usize,
    /// The number of words that callers were told.
    words: usize,
    /// Of those, how many are not so.
    untrue: usize,
    /// Operations of which callers were told that they are on record, before anybody asked for them again.
    pub promised: usize,
    /// Operations that somebody carried on whose holder had died or let go.
    pub taken_over: usize,
    /// Each breach of the promise, in words.
    pub broken: Vec<String>,
}

pub type Effects = BTreeMap<String, Vec<fakes::Effect>>;

impl Report {
    pub fn new(seed: u64, kills: usize, faults: u64) -> Report {
        Report { seed, kills, faults, ..Report::default() }
    }

    pub fn add(&mut self, other: Report) {
        self.operations += other.operations;
        self.kills += other.kills;
        self.faults += other.faults;
        self.late += other.late;
        self.effects += other.effects;
        self.succeeded += other.succeeded;
        self.reconciled += other.reconciled;
        self.refused += other.refused;
        self.dead_without_effect += other.dead_without_effect;
        for vendor in 0..VENDORS.len() {
            self.of_vendor[vendor] += other.of_vendor[vendor];
            self.unknown[vendor] += other.unknown[vendor];
            self.unknown_answered[vendor] += other.unknown_answered[vendor];
        }
        self.unknown_with_effect += other.unknown_with_effect;
        self.duplicates += other.duplicates;
        self.lost += other.lost;
        self.words += other.words;
        self.untrue += other.untrue;
        self.promised += other.promised;
        self.taken_over += other.taken_over;
        self.broken.extend(other.broken);
    }

    /// Judges all operations of a file. The effects that are judged are taken out of `effects`.
    pub async fn judge_file(
        &mut self,
        path: &str,
        missing: BTreeSet<String>,
        effects: &mut Effects,
        heard: &mut AllHeard,
    ) {
        let store = file::open(path);
        self.judge_store(&store, missing, effects, heard).await;
        store.close().await;
    }

    /// The same of a store that is open.
    pub async fn judge_store(
        &mut self,
        store: &dyn Store,
        mut missing: BTreeSet<String>,
        effects: &mut Effects,
        heard: &mut AllHeard,
    ) {
        let mut after = None;
        loop {
            let page = store.list(&Filter::default(), after.as_deref(), PAGE).await.expect("a page");
            for row in &page.rows {
                let record = store.get(&row.id).await.expect("works").expect("a row that is listed");
                if !missing.remove(record.id.key.as_str()) {
                    self.broken.push(format!("{}: nobody asked for it", record.id));
                }
                let took_effect = effects.remove(&record.wire_key).unwrap_or_default();
                self.judge(&record, &took_effect);
                let heard = heard.take(record.id.key.as_str());
                let untrue = truth::untrue(&heard, &record, &took_effect);
                self.words += heard.told.len();
                self.untrue += untrue.len();
                self.broken.extend(untrue);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for key in missing {
            self.lost += 1;
            self.broken.push(format!("{key}: no record of it"));
        }
    }

    /// Before anybody asks again: whatever callers were told is on record is there.
    #[cfg(feature = "postgres")]
    pub async fn judge_promises(&mut self, store: &dyn Store, heard: &AllHeard) {
        let mut promised: BTreeSet<&str> = heard.promised().collect();
        self.promised += promised.len();
        let mut after = None;
        loop {
            let page = store.list(&Filter::default(), after.as_deref(), PAGE).await.expect("a page");
            for row in &page.rows {
                promised.remove(row.id.key.as_str());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.lost += promised.len();
        self.broken.extend(promised.iter().map(|key| format!("{key}: promised, and no record of it")));
    }

    /// No effect may be left over once all files are judged.
    pub fn judge_rest(&mut self, effects: Effects) {
        for (key, orphans) in effects {
            self.broken.push(format!("{} effects under {key}, which no operation has", orphans.len()));
        }
    }

    fn judge(&mut self, record: &Record, effects: &[fakes::Effect]) {
        let vendor = VENDORS.iter().position(|vendor| record.id.scope.vendor_path().ends_with(vendor));
        let vendor = vendor.expect("one of them");
        self.operations += 1;
        self.of_vendor[vendor] += 1;
        self.effects += effects.len();
        self.taken_over += usize::from(record.fence > 1);
        self.duplicates += usize::from(effects.len() > 1);
        match &record.state {
            State::Succeeded { reconciled, answer } => {
                self.succeeded += 1;
                self.reconciled += usize::from(*reconciled);
                let body = String::from_utf8_lossy(&answer.body);
                if effects.first().is_some_and(|effect| !body.contains(&effect.id)) {
                    self.broken.push(format!("{}: the stored reply is not the vendor's: {body}", record.id));
                }
            }
            State::Refused { .. } => self.refused += 1,
            State::Dead { .. } if record.effect == Effect::None => self.dead_without_effect += 1,
            State::Dead { answer, .. } => {
                self.unknown[vendor] += 1;
                self.unknown_answered[vendor] += usize::from(answer.is_some());
                self.unknown_with_effect += effects.len();
            }
            _ => {}
        }
        let Some(word) = promise::recorded(record) else {
            self.lost += 1;
            self.broken.push(format!("{}: never came to rest, {}", record.id, record.state.name()));
            return;
        };
        if let Some(untrue) = promise::untrue(word, effects.len(), 0) {
            self.lost += usize::from(untrue == Untrue::NoEffect);
            let state = (record.state.name(), record.effect, record.attempts, record.fence);
            self.broken.push(format!("{}: {untrue:?}, {state:?}: {effects:?}", record.id));
        }
    }

    /// Checks the things that every run ends with.
    pub fn must_hold(&self) {
        assert!(self.broken.is_empty(), "STEADFAST_CRASH_SEED={}:\n{}", self.seed, self.broken.join("\n"));
        assert_eq!((self.duplicates, self.lost, self.untrue), (0, 0, 0));
        assert!(self.words > 0, "nobody was told anything, so nothing was shown");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, operations, kills, faults, late, effects, .. } = self;
        let Report { duplicates, lost, words, untrue, unknown, unknown_answered, .. } = self;
        writeln!(
            f,
            "operations {operations}, kills {kills}, faults {faults}, late {late}, duplicates {duplicates}, \
             lost {lost}, untrue words {untrue} of {words}, unknown {} ({}), seed {seed}",
            unknown.iter().sum::<usize>(),
            VENDORS
                .iter()
                .zip(unknown.iter().zip(unknown_answered).zip(self.of_vendor))
                .map(|(name, ((count, answered), all))| format!(
                    "{name} {count} of {all} ({answered} answered)"
                ))
                .collect::<Vec<_>>()
                .join(", "),
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
