//! When a send of unknown effect has ended for certain, where this process did not make it.
//!
//! The settle time counts from there. The record says when the send ended, by the clock of the host that wrote it.
//! Two clocks that the store believes may differ by [`TWO_CLOCKS_DIFFER_MAX`], so the time since then counts less
//! that. A host whose clock the store doubts, or whose clock was set ahead while it ran, counts nothing by the
//! record. Beside the record stands our own measure: what we took over has ended when the longest exchange is over,
//! counted from the first time that we held it.
//!
//! The one that is over first counts. The measure goes on, whether or not another process holds the operation, until
//! it is sent again. Else hosts that take it one after the other would all wait, and none would ever look.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Record};

use super::look_up::LOOK_UP_GAP_MAX;
use super::{Engine, limit};

/// The last send of unknown effect of an operation that this process holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// By when it has ended.
    ended: Moment,
    taken: Instant,
    /// For how long the effect was unknown by then, for certain.
    unknown_for: Duration,
    /// For how long this process had known of the operation by then.
    known_for: Duration,
}

impl Settling {
    /// Of a record that was taken a moment ago; `None` if its effect is known. `believed` is what time it was in the
    /// store.
    fn of(record: &Record, taken: Instant, believed: Option<Timestamp>) -> Option<Settling> {
        let since = record.unknown_since?;
        let wall = record.updated_at;
        let longest = taken.plus(since.since(wall).max(record.attempt_max));
        let mut settling = Settling {
            ended: Moment::of(longest),
            taken,
            unknown_for: Duration::ZERO,
            known_for: Duration::ZERO,
        };
        let is_doubted =
            |believed: &Timestamp| Guard::DoubtedClock.keeps(wall > believed.plus(CLOCKS_DIFFER_MAX));
        if let Some(believed) = believed.filter(|believed| !is_doubted(believed)) {
            let latest = since.plus(Guard::ClocksDiffer.keeps(TWO_CLOCKS_DIFFER_MAX));
            let by_record = Moment::of(taken.plus(latest.since(wall))).minus(wall.since(latest));
            settling.ended = settling.ended.min(by_record);
            settling.unknown_for = wall.min(believed).since(since);
        }
        Some(settling)
    }

    /// For how long this process has known of the operation.
    pub(super) fn known_for(self, now: Instant) -> Duration {
        self.known_for.saturating_add(now.since(self.taken))
    }

    /// When a settle time of this length is over.
    pub(super) fn over_at(self, settle: Duration) -> Instant {
        self.ended.plus(settle)
    }

    pub(super) const fn ended(self) -> Moment {
        self.ended
    }

    /// For how long the effect has been unknown. What passed since the take is on our own monotonic clock.
    pub(super) fn unknown_for(self, now: Instant) -> Duration {
        self.unknown_for.saturating_add(now.since(self.taken))
    }
}

impl Engine {
    /// As much as is known of the settle time of a record that was taken a moment ago.
    pub(super) async fn settling(&self, record: &Record, deadline: Instant) -> Option<Settling> {
        record.unknown_since?;
        let read = limit::within(&*self.clock, deadline, self.store.believed(record.updated_at)).await;
        let now = self.clock.now();
        let believed = read.and_then(Result::ok);
        let is_set_ahead = Guard::SetAhead.keeps(self.began.was_set_ahead(record.updated_at, now));
        let believed = believed.filter(|_| !is_set_ahead);
        let settling = Settling::of(record, now, believed)?;
        Some(self.let_go.taken(record, settling))
    }
}

/// The operations of unknown effect that this process holds or has let go of.
#[derive(Debug, Default)]
pub(crate) struct LetGo {
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

impl LetGo {
    /// What is known of an operation that was taken just now, by what this process measured since it first held it.
    fn taken(&self, record: &Record, mut settling: Settling) -> Settling {
        let now = settling.taken;
        let noted = self.operations.lock().get(&record.id).copied();
        if let Some(noted) = noted {
            settling.known_for = now.since(noted.first);
        }
        if let Some(ours) = Guard::OwnMeasure.keeps(noted.filter(|noted| noted.send == send(record))) {
            settling.ended = settling.ended.min(ours.ended);
            // No more of the time in which nobody came for it than what two lookups that failed are apart.
            settling.unknown_for = ours.unknown_for.saturating_add(now.since(ours.at).min(LOOK_UP_GAP_MAX));
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

    /// What is known of the last send of an operation that this process lets go of.
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

/// A point on our own monotonic clock, which may lie before its origin: the process may be younger than the send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i128);

impl Moment {
    pub(super) const fn of(at: Instant) -> Moment {
        Moment(at.as_nanos() as i128)
    }

    const fn minus(self, time: Duration) -> Moment {
        Moment(self.0 - time.as_nanos() as i128)
    }

    /// The origin, if it is not after that.
    fn plus(self, time: Duration) -> Instant {
        let nanos = self.0.saturating_add(time.as_nanos() as i128).max(0);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A store believes a clock that is by [`CLOCKS_DIFFER_MAX`] from the time that it believes. So the writer may have
/// been that far behind it, and the reader that far ahead.
const TWO_CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(2 * CLOCKS_DIFFER_MAX.as_secs());

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
    fn what_another_sent_has_ended_when_the_record_says_so_for_certain_or_the_longest_exchange_is_over() {
        let right = Some(wall(10_000));
        for (unknown_since, believed, over_after) in [
            // The last holder's lease has just run out.
            (10_030, right, 30 + 60),
            (10_000, right, 30 + 60),
            // An hour ago by the record.
            (6_400, right, 0),
            // Eleven minutes ago: one of them for certain.
            (9_340, right, 0),
            (9_360, right, 20),
            (9_390, right, 50),
            (9_420, right, 60 + 20),
            (9_429, right, 60 + 29),
            (9_440, right, 60 + 30),
            // The store doubts the taker's clock, or did not answer.
            (6_400, Some(wall(9_699)), 60 + 30),
            (6_400, Some(wall(9_700)), 0),
            (6_400, None, 60 + 30),
        ] {
            let settling = Settling::of(&taken("k", unknown_since), at(5), believed).expect("it is unknown");
            let over = settling.over_at(SETTLE);
            let expected = if over_after == 0 { Instant::ORIGIN } else { at(5 + over_after) };
            assert!(over == expected || (over_after == 0 && over <= at(5)), "{unknown_since}: {over:?}");
        }
    }

    #[test]
    fn it_is_unknown_for_as_long_as_a_believed_clock_says() {
        // Within what clocks may differ by, the earlier of the two counts.
        for (believed, unknown_for) in
            [(Some(10_000), 3_600), (Some(9_800), 3_400), (Some(10_200), 3_600), (Some(9_000), 0), (None, 0)]
        {
            let believed = believed.map(wall);
            let settling = Settling::of(&taken("k", 6_400), at(5), believed).expect("it is unknown");
            assert_eq!(settling.unknown_for(at(7)).as_secs(), unknown_for + 2);
        }
    }

    #[test]
    fn our_own_measure_goes_on_until_it_is_sent_again() {
        let let_go = LetGo::default();
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
        let let_go = LetGo::default();
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
