//! What became of the operations, held against what the vendors' ledgers say.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Effect;
use steadfast::testkit::fakes::Ledger;

pub(crate) const VENDORS: [&str; 3] = ["stripe", "bigcommerce", "postmark"];

/// One operation's life, as its caller saw it.
pub(crate) struct Outcome {
    pub(crate) vendor: &'static str,
    pub(crate) end: End,
    pub(crate) attempts: u32,
    pub(crate) waited: Duration,
    pub(crate) wire_key: Option<String>,
}

pub(crate) enum End {
    Succeeded,
    Failed {
        effect: Effect,
        dead_letter: bool,
    },
    /// The example gave up waiting: nothing may ever end so.
    Open,
}

impl Outcome {
    pub(crate) fn begun(vendor: &'static str) -> Outcome {
        Outcome { vendor, end: End::Open, attempts: 0, waited: Duration::ZERO, wire_key: None }
    }
}

/// The totals of one vendor.
#[derive(Default)]
struct Row {
    operations: usize,
    attempts: u32,
    effects: usize,
    /// Wire keys with more than one effect.
    duplicates: usize,
    /// Operations whose end does not match the ledger: a success without effect, a *none* with one, an
    /// operation without an end, and effects that no operation answers for.
    lost: usize,
    unknown: usize,
    dead_letters: usize,
    waited: Duration,
}

pub(crate) struct Report {
    rows: Vec<(&'static str, Row)>,
}

impl Report {
    pub(crate) fn new(outcomes: &[Outcome], ledgers: &[Ledger; 3]) -> Report {
        let rows = VENDORS.into_iter().zip(ledgers).map(|(vendor, ledger)| {
            let own = outcomes.iter().filter(|outcome| outcome.vendor == vendor);
            (vendor, Row::new(own, ledger))
        });
        Report { rows: rows.collect() }
    }

    pub(crate) fn keeps_the_promise(&self) -> bool {
        self.rows.iter().all(|(_, row)| row.duplicates == 0 && row.lost == 0)
    }

    pub(crate) fn table(&self, seed: u64) -> String {
        let mut text = format!(
            "{:<12} {:>10} {:>8} {:>7} {:>7} {:>10} {:>4} {:>7} {:>12} {:>9}\n",
            "vendor",
            "operations",
            "attempts",
            "retries",
            "effects",
            "duplicates",
            "lost",
            "unknown",
            "dead letters",
            "waited"
        );
        for (vendor, row) in &self.rows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{vendor:<12} {:>10} {:>8} {:>7} {:>7} {:>10} {:>4} {:>7} {:>12} {:>8.1}s",
                row.operations,
                row.attempts,
                row.retries(),
                row.effects,
                row.duplicates,
                row.lost,
                row.unknown,
                row.dead_letters,
                row.waited.as_secs_f64()
            );
        }
        let _ = writeln!(text, "seed {seed}; `waited` adds up over all orders, of which many wait at once");
        text
    }

    pub(crate) fn json(&self, seed: u64) -> Value {
        let mut object = json!({"seed": seed});
        for (vendor, row) in &self.rows {
            object[*vendor] = json!({
                "operations": row.operations,
                "attempts": row.attempts,
                "retries": row.retries(),
                "effects": row.effects,
                "duplicates": row.duplicates,
                "lost": row.lost,
                "unknown": row.unknown,
                "dead_letters": row.dead_letters,
                "waited_ms": u64::try_from(row.waited.as_millis()).unwrap_or(u64::MAX),
            });
        }
        object
    }
}

impl Row {
    fn new<'a>(outcomes: impl Iterator<Item = &'a Outcome>, ledger: &Ledger) -> Row {
        let mut row =
            Row { effects: ledger.count(), duplicates: ledger.duplicates().len(), ..Row::default() };
        let mut answered_for = 0;
        for outcome in outcomes {
            let effects = outcome.wire_key.as_deref().map_or(0, |key| ledger.effects_for(key).len());
            answered_for += effects;
            row.operations += 1;
            row.attempts += outcome.attempts;
            row.waited += outcome.waited;
            match outcome.end {
                End::Succeeded => row.lost += usize::from(effects == 0),
                End::Failed { effect, dead_letter } => {
                    row.dead_letters += usize::from(dead_letter);
                    row.unknown += usize::from(effect == Effect::Unknown);
                    row.lost += usize::from(effect == Effect::None && effects > 0);
                }
                End::Open => row.lost += 1,
            }
        }
        row.lost += row.effects.saturating_sub(answered_for);
        row
    }

    fn retries(&self) -> u32 {
        self.attempts.saturating_sub(u32::try_from(self.operations).unwrap_or(u32::MAX))
    }
}

/// How far the run is.
#[derive(Default)]
pub(crate) struct Progress {
    succeeded: [AtomicUsize; 3],
    failed: [AtomicUsize; 3],
    postponed: [AtomicUsize; 3],
}

impl Progress {
    pub(crate) fn ended(&self, vendor: usize, outcome: &Outcome) {
        let tally = if matches!(outcome.end, End::Succeeded) { &self.succeeded } else { &self.failed };
        tally[vendor].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn postponed(&self, vendor: usize) {
        self.postponed[vendor].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn line(&self, orders: usize) -> String {
        let sum =
            |tally: &[AtomicUsize; 3]| tally.iter().map(|count| count.load(Ordering::Relaxed)).sum::<usize>();
        let [charged, created, sent] =
            std::array::from_fn(|vendor| self.succeeded[vendor].load(Ordering::Relaxed));
        format!(
            "charged {charged:>3}/{orders}  ordered {created:>3}/{orders}  receipts {sent:>3}/{orders}  \
             failed {:>2}  postponed {:>3}",
            sum(&self.failed),
            sum(&self.postponed)
        )
    }
}
