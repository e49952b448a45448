//! The word of the records on what became of the operations, held against what the vendors' ledgers say.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Effect;
use steadfast::operation::OperationId;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::Store;
use steadfast::testkit::fakes::Ledger;

use crate::shop::key;
use crate::vendors::{STEPS, VENDORS, vendor_of};
use crate::{Problem, count};

const PAGE: usize = 200;

/// One operation on record, with the log of its attempts.
pub struct Outcome {
    pub record: Record,
    attempts: usize,
    in_attempts: Duration,
}

/// The totals of one vendor.
#[derive(Default)]
struct Row {
    operations: usize,
    attempts: usize,
    effects: usize,
    /// Wire keys with more than one effect.
    duplicates: usize,
    /// Operations whose record does not match the ledger: a success without its effect or with another reply
    /// than the vendor's, a *none* with one. Those that never came to rest, that were not asked for or that are
    /// missing. And effects that no operation answers for.
    lost: usize,
    succeeded: usize,
    /// Of those, found by a lookup and not by another send.
    looked_up: usize,
    dead_letters: usize,
    /// Of those, the ones that may have taken effect, as far as the record knows.
    unknown: usize,
    /// Of those, the ones that did.
    unknown_applied: usize,
    /// From the first claim to the end, less the attempts. The time until a dead worker's lease ran out is in it.
    waited: Duration,
}

pub struct Report {
    rows: [Row; 3],
}

/// Reads every operation that is on record.
pub async fn outcomes(store: &impl Store) -> Result<Vec<Outcome>, Problem> {
    let (mut outcomes, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&Filter::default(), after.as_deref(), PAGE).await?;
        for row in &page.rows {
            let record = store.get(&row.id).await?.ok_or("an operation that was listed is gone")?;
            let log = store.evidence(&row.id).await?;
            let in_attempts = log.iter().map(|report| report.latency).sum();
            outcomes.push(Outcome { record, attempts: log.len(), in_attempts });
        }
        after = page.next;
        if after.is_none() {
            return Ok(outcomes);
        }
    }
}

/// The ledger of the vendor that the operation is for.
pub fn ledger_of<'a>(id: &OperationId, ledgers: &'a [Ledger; 3]) -> Option<&'a Ledger> {
    ledgers.get(vendor_of(id.scope.vendor_path())?)
}

impl Report {
    /// Takes each of the orders from step to step, as the shop did. After a success there must be a record of
    /// the next step, and after any other end there must be none.
    pub fn new(orders: usize, outcomes: &[Outcome], ledgers: &[Ledger; 3]) -> Report {
        let mut by_name: HashMap<(usize, String), &Outcome> = HashMap::new();
        let mut rows: [Row; 3] = std::array::from_fn(|vendor| Row::of(&ledgers[vendor]));
        for outcome in outcomes {
            if let Some(vendor) = vendor_of(outcome.record.id.scope.vendor_path()) {
                by_name.insert((vendor, outcome.record.id.key.as_str().to_owned()), outcome);
            }
        }
        let mut answered_for = [0; 3];
        for order in 0..orders {
            for vendor in 0..VENDORS.len() {
                let Some(outcome) = by_name.remove(&(vendor, key(order, STEPS[vendor]))) else {
                    rows[vendor].lost += 1;
                    break;
                };
                answered_for[vendor] += rows[vendor].judge(outcome, &ledgers[vendor]);
                if !matches!(outcome.record.state, State::Succeeded { .. }) {
                    break;
                }
            }
        }
        for (vendor, _) in by_name.into_keys() {
            rows[vendor].lost += 1;
        }
        for (row, answered_for) in rows.iter_mut().zip(answered_for) {
            row.lost += row.effects.saturating_sub(answered_for);
        }
        Report { rows }
    }

    pub fn keeps_the_promise(&self) -> bool {
        self.rows.iter().all(|row| row.duplicates == 0 && row.lost == 0)
    }

    pub fn duplicates(&self) -> usize {
        self.rows.iter().map(|row| row.duplicates).sum()
    }

    pub fn lost(&self) -> usize {
        self.rows.iter().map(|row| row.lost).sum()
    }

    pub fn table(&self) -> String {
        let [stripe, bigcommerce, postmark] = VENDORS;
        let mut text = format!("{:<12} {stripe:>7} {bigcommerce:>12} {postmark:>9}", "");
        let mut line = |name: &str, number: fn(&Row) -> usize, meaning: &str| {
            let [stripe, bigcommerce, postmark] = self.rows.each_ref().map(number);
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{name:<12} {stripe:>7} {bigcommerce:>12} {postmark:>9}   {meaning}");
        };
        line("operations", |row| row.operations, "on record, one for each step");
        line("attempts", |row| row.attempts, "on record, with retries");
        line("effects", |row| row.effects, "what the vendor says it did");
        line("  duplicates", |row| row.duplicates, "operations with a second effect");
        line("  lost", |row| row.lost, "record and vendor disagree");
        line("found", |row| row.looked_up, "by lookup: the answer was lost");
        line("dead letters", |row| row.dead_letters, "the record says why");
        text
    }

    /// Why there are fewer effects than operations although nothing is lost. `None` where something is.
    pub fn balance(&self) -> Option<String> {
        let sum = |number: fn(&Row) -> usize| self.rows.iter().map(number).sum::<usize>();
        let (effects, operations) = (sum(|row| row.effects), sum(|row| row.operations));
        let (letters, applied) = (sum(|row| row.dead_letters), sum(|row| row.unknown_applied));
        if !self.keeps_the_promise() {
            return None;
        }
        let letters = match (letters, applied) {
            (0, _) => "no dead letter".to_owned(),
            (_, 0) => format!("{}, none of which took effect:", count(letters, "dead letter")),
            _ => format!("{}, of which {applied} took effect:", count(letters, "dead letter")),
        };
        Some(format!("{effects} effects for {operations} operations; {letters}"))
    }

    pub fn json(&self, seed: u64) -> Value {
        let mut object = json!({"seed": seed});
        for (vendor, row) in VENDORS.iter().zip(&self.rows) {
            object[*vendor] = json!({
                "operations": row.operations,
                "attempts": row.attempts,
                "retries": row.retries(),
                "effects": row.effects,
                "duplicates": row.duplicates,
                "lost": row.lost,
                "looked_up": row.looked_up,
                "unknown": row.unknown,
                "dead_letters": row.dead_letters,
                "waited_ms": u64::try_from(row.waited.as_millis()).unwrap_or(u64::MAX),
            });
        }
        object
    }
}

impl Row {
    fn of(ledger: &Ledger) -> Row {
        Row { effects: ledger.count(), duplicates: ledger.duplicates().len(), ..Row::default() }
    }

    /// Counts an operation, and gives how many effects it answers for.
    fn judge(&mut self, outcome: &Outcome, ledger: &Ledger) -> usize {
        let record = &outcome.record;
        let effects = ledger.effects_for(&record.wire_key);
        self.operations += 1;
        self.attempts += outcome.attempts;
        self.waited += record.updated_at.since(record.claimed_at).saturating_sub(outcome.in_attempts);
        let is_true = match &record.state {
            State::Succeeded { answer, reconciled } => {
                self.succeeded += 1;
                self.looked_up += usize::from(*reconciled);
                let body = String::from_utf8_lossy(&answer.body);
                effects.first().is_some_and(|effect| body.contains(&effect.id))
            }
            State::Refused { .. } => effects.is_empty(),
            State::Dead { .. } => {
                self.dead_letters += 1;
                let unknown = record.effect == Effect::Unknown;
                self.unknown += usize::from(unknown);
                self.unknown_applied += usize::from(unknown && !effects.is_empty());
                unknown || effects.is_empty()
            }
            // It never came to rest.
            _ => false,
        };
        self.lost += usize::from(!is_true);
        effects.len()
    }

    fn retries(&self) -> usize {
        self.attempts.saturating_sub(self.operations)
    }
}
