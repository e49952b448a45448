//! The operations of unknown effect that this process let go of, and how long they have been unknown by its own clock.
//!
//! The measure goes on, whether or not another process holds the operation, until it is sent again. Else hosts that take it
//! one after the other would all wait, and none would ever look. See
//! [`Settling`](steadfast_core::internal::decision::Settling).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::{LOOKUP_GAP_MAX, Moment, Settling};
use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Record;

/// The operations of unknown effect that this process holds or has let go of.
#[derive(Debug, Default)]
pub(crate) struct ReleasedLeases {
    /// How many are noted, so that a call whose effect was never unknown takes no lock.
    count: AtomicUsize,
    operations: Mutex<HashMap<OperationId, Noted>>,
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    /// Which send: no other one was made while both are as they were.
    send: (Option<Timestamp>, u32),
    ended: Moment,
    /// For how long its effect was unknown at that time, without the time in which no process held it.
    unknown_for: Duration,
    at: Instant,
    /// When this process first knew of the operation.
    first: Instant,
}

impl ReleasedLeases {
    /// The settle time of an operation that was taken just now, by this process's own measure since it first held it.
    pub(super) fn taken(&self, record: &Record, mut settling: Settling) -> Settling {
        let now = settling.taken;
        let noted = self.operations.lock().get(&record.id).copied();
        if let Some(noted) = noted {
            settling.known_for = now.since(noted.first);
        }
        if let Some(ours) = Guard::OwnMeasure.keeps(noted.filter(|noted| noted.send == send(record))) {
            settling.ended = settling.ended.min(ours.ended);
            // No more of the time in which nobody came for it than what two lookups that failed are apart.
            settling.unknown_for = ours.unknown_for.saturating_add(now.since(ours.at).min(LOOKUP_GAP_MAX));
        }
        self.note(record, settling.ended, settling.unknown_for, now);
        settling
    }

    /// It has come to its end.
    pub(super) fn forget(&self, id: &OperationId) {
        if self.count.load(Ordering::SeqCst) > 0 {
            let mut operations = self.operations.lock();
            operations.remove(id);
            self.count.store(operations.len(), Ordering::SeqCst);
        }
    }

    /// Notes the last send of an operation that this process lets go of.
    pub(super) fn note(&self, record: &Record, ended: Moment, unknown_for: Duration, now: Instant) {
        let mut operations = self.operations.lock();
        if operations.len() >= NOTED_MAX && !operations.contains_key(&record.id) {
            // By then the record's own times say enough.
            operations.retain(|_, noted| now.since(noted.at) < NOTED_FOR);
            if operations.len() >= NOTED_MAX {
                return;
            }
        }
        let first = operations.get(&record.id).map_or(now, |noted| noted.first);
        operations
            .insert(record.id.clone(), Noted { send: send(record), ended, unknown_for, at: now, first });
        self.count.store(operations.len(), Ordering::SeqCst);
    }
}

fn send(record: &Record) -> (Option<Timestamp>, u32) {
    (record.unknown_since, record.attempts)
}

/// A few MiB. A process that lets go of more within the hour counts by the record's times.
const NOTED_MAX: usize = 10_000;

/// Far above a settle time and what clocks may differ by.
const NOTED_FOR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::internal::ext::RecordExt;
    use steadfast_core::internal::testkit::claim_at;
    use steadfast_core::operation::record::Claim;
    use steadfast_core::operation::{Key, Scope};

    const ATTEMPT: Duration = Duration::from_secs(30);
    const SETTLE: Duration = Duration::from_secs(60);

    fn wall(at_s: u64) -> Timestamp {
        Timestamp::from_millis(at_s * 1_000)
    }

    fn at(at_s: u64) -> Instant {
        Instant::ORIGIN.plus(Duration::from_secs(at_s))
    }

    /// Taken at 10,000 s by the taker's wall clock.
    fn taken(key: &str, unknown_since_s: u64) -> Record {
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new(key).expect("a key"));
        let claim = claim_at(&id, wall(10_000));
        let mut record =
            Record::first(Claim { lease: ATTEMPT, keep: ATTEMPT, attempt_max: ATTEMPT, ..claim });
        record.unknown_since = Some(wall(unknown_since_s));
        record
    }

    #[test]
    fn our_own_measure_goes_on_until_it_is_sent_again() {
        let let_go = ReleasedLeases::default();
        let ended = |record: &Record, at_s: u64, now_s: u64| {
            let (ended, taken) = (Moment::of(at(at_s)), at(now_s));
            let settling = Settling { ended, taken, unknown_for: Duration::ZERO, known_for: Duration::ZERO };
            let Settling { ended, unknown_for, known_for, .. } = let_go.taken(record, settling);
            (ended.plus(Duration::ZERO), unknown_for.as_secs(), known_for.as_secs())
        };
        let record = taken("k", 9_990);
        assert_eq!(ended(&record, 40, 10), (at(40), 0, 0));
        assert_eq!(ended(&record, 90, 60), (at(40), 50, 50), "from the first time on");
        assert_eq!(ended(&record, 20, 60), (at(20), 50, 50), "or earlier");
        assert_eq!(ended(&taken("other", 9_990), 90, 60), (at(90), 0, 0));
        for sent_again in [taken("k", 9_991), Record { attempts: 1, ..record.clone() }] {
            assert_eq!(ended(&sent_again, 200, 70), (at(200), 0, 60));
        }
        // Of the day in which nobody came for it, an hour.
        assert_eq!(ended(&record, 200, 100), (at(200), 0, 90));
        assert_eq!(ended(&record, 200, 86_500), (at(200), 3_600, 86_490));
        let_go.forget(&record.id);
        assert_eq!(ended(&record, 300, 86_500), (at(300), 0, 0));
    }

    #[test]
    fn what_is_noted_is_bounded_and_the_oldest_gives_way() {
        let let_go = ReleasedLeases::default();
        let note = |key: &str, now: Instant| let_go.note(&taken(key, 9_990), Moment::of(now), SETTLE, now);
        let noted = |key: &str| let_go.operations.lock().contains_key(&taken(key, 9_990).id);
        (0..NOTED_MAX).for_each(|nth| note(&nth.to_string(), at(10)));
        note("more", at(20));
        assert!(!noted("more"), "full");
        let later = at(10).plus(NOTED_FOR);
        note("later", later);
        assert!(noted("later") && !noted("0"));
    }
}
