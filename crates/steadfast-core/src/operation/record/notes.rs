//! Notes of a store beside its records, and the time in a store that several clocks write to.
//!
//! A record that has expired licenses a second effect. So no single clock may say that it has. A host whose clock is
//! days ahead would take what was settled a minute ago for last week's. One command alone cannot show whether a clock
//! is ahead or the store was not used for days. The next commands show it. On a store that was idle all later commands
//! agree; beside a clock that is ahead, those of the other hosts do not.
//!
//! A database server's clock is one of these: it may be ahead for a moment, and so may that of a server which takes
//! over. Its store on Postgres has these rules in a function of its schema, and a test holds the two together.
//!
//! So a time that is far ahead of the last one is doubted at first. It is believed once [an hour](DOUBTED_FOR) has
//! passed in which no command came from an earlier time. The earlier of two clocks is always believed at once. Both
//! errors that remain keep records too long. After an idle time a store expires nothing for an hour. Beside a clock
//! that is behind it keeps records for longer by as much.
//!
//! A second time that is far ahead of a doubted one is that of another clock, or of another idle time. The nearer of
//! the two is still not believed: what is believed is an hour before it. So a service that is used once a day goes on
//! to expire its records. And a clock that is wrong by minutes is no less doubted because another is wrong by days.
//! The price: where a host that is hours ahead goes on after an idle time, a right clock is doubted for as long as
//! that host does. Then records expire an hour late, and a settle time ends by each process's own measure alone.
//!
//! This does not detect hosts that are alone in a store for an hour, with a clock that is ahead. Nor does it detect two
//! hosts that use a store one after the other, with clocks that are ahead by different times. Nor a record that a clock
//! settled which was behind by more than the retention: by all other clocks its time is over, once the doubt is.

use std::time::Duration;

use easy_ext::ext;
use serde::{Deserialize, Serialize};

use super::CLOCKS_DIFFER_MAX;
use crate::clock::Timestamp;
use crate::guard::Guard;

/// Notes of a store beside its records, as durable as those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notes {
    /// The highest fence of any record that was removed, 0 if none was. A new key starts above it, because the store no
    /// longer knows which of them had this name: the holder of a life that was purged must find another fence.
    pub purged: u64,
    /// The time that the store believes; `None` before the first command.
    pub believed: Option<Timestamp>,
    /// The first and the last of the times that are doubted, if the last command came from one.
    pub doubted: Option<(Timestamp, Timestamp)>,
}

impl Notes {
    /// Takes in the time of a command: of each claim, each take and each purge, before it is carried out. Says whether
    /// it must be written down: what is not is less than a minute of time that is believed anyway.
    pub fn saw(&mut self, now: Timestamp) -> bool {
        let Some(believed) = self.believed else {
            self.believed = Some(now);
            return true;
        };
        if now.plus(CLOCKS_DIFFER_MAX) < believed {
            (self.believed, self.doubted) = (Some(now), None);
            return true;
        }
        if now <= believed.plus(CLOCKS_DIFFER_MAX) {
            self.believed = Some(believed.max(now));
            let contradicts = self.doubted.take().is_some();
            return contradicts || now.since(believed) >= WRITTEN_EVERY;
        }
        let Some((from, last)) = self.doubted else {
            self.doubted = Some((now, now));
            return true;
        };
        if now.plus(CLOCKS_DIFFER_MAX) < last {
            // Another clock, and the earlier one.
            self.doubted = Some((now, now));
        } else if now > last.plus(DOUBTED_FOR) {
            // Another clock, or an idle time. No command has seen the earlier of the two for an hour either.
            let nearer = last.minus(Guard::NearerOfTwo.keeps(DOUBTED_FOR));
            (self.believed, self.doubted) = (Some(believed.max(nearer)), Some((now, now)));
        } else if now >= from.plus(DOUBTED_FOR) {
            (self.believed, self.doubted) = (Some(now), None);
        } else {
            self.doubted = Some((from, last.max(now)));
            return now.since(last) >= WRITTEN_EVERY;
        }
        true
    }

    /// Returns the time by which a record must have expired for a command from `now`.
    pub fn now(&self, now: Timestamp) -> Timestamp {
        Guard::BelievedTime.keeps(self.believed).map_or(now, |believed| believed.min(now))
    }
}

/// Methods that only the crates of this workspace call.
#[ext(NotesExt)]
impl Notes {
    /// Returns the notes for the claim of a row of the outbox that was written at `written`. A record whose time was
    /// not over by then answers the row, however late a dispatcher comes to it.
    pub fn of_row(self, written: Timestamp) -> Notes {
        let by_then = self.believed.map_or(written, |believed| believed.min(written));
        Notes { believed: Guard::RowComparedAsWritten.or(Some(by_then), self.believed), ..self }
    }
}

/// Longer than a service in use is without a command on any of its hosts; short beside any retention.
pub const DOUBTED_FOR: Duration = Duration::from_secs(3600);

/// Far below [`CLOCKS_DIFFER_MAX`], so that what is not written down does not make a time doubtful.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60;

    /// A store that has seen these minutes, and what it then believes at the last of them.
    fn after(minutes: &[u64]) -> u64 {
        let at = |minute: u64| Timestamp::from_millis(minute * 60_000);
        let mut notes = Notes::default();
        for minute in minutes {
            notes.saw(at(*minute));
        }
        notes.now(at(minutes[minutes.len() - 1])).as_millis() / 60_000
    }

    #[test]
    fn a_time_far_ahead_is_believed_after_an_hour_without_another() {
        let day = 24 * HOUR;
        for (seen, believed) in [
            // One host, in use: its clock, to the minute.
            (vec![0, 5, 10, 15], 15),
            // Idle for a week: the first hour is doubted.
            (vec![0, 7 * day], 0),
            (vec![0, 7 * day, 7 * day + 59], 0),
            (vec![0, 7 * day, 7 * day + 60], 7 * day + 60),
            // Once a day.
            (vec![0, day, 2 * day], day - HOUR),
            (vec![0, day, 2 * day, 3 * day], 2 * day - HOUR),
            // One clock is seven minutes ahead, and then another is by days.
            (vec![0, 7, 3 * day, 8], 0),
            (vec![0, 7, 3 * day, 8, 3 * day + 1, 9, 3 * day + 2, 10], 0),
            (vec![0, 7, 3 * day, 90, 3 * day + 83, 91], 90 - HOUR),
            // The one that is by days is gone for an hour.
            (vec![0, 7, 3 * day, 8, 67], 0),
            (vec![0, 7, 3 * day, 8, 68], 68),
            // Two hosts, of which one is three days ahead for hours. The other is doubted too where it comes seldom.
            (vec![0, 3 * day, 20, 3 * day + 40, 60, 3 * day + 120, 80, 3 * day + 140], 80 - HOUR),
            (vec![0, 3 * day, 20, 3 * day + 40, 24], 0),
            (vec![0, 3 * day, 4, 3 * day + 4, 8, 3 * day + 8, 12], 12),
            // It was alone for an hour, until the other came back.
            (vec![0, 3 * day, 3 * day + 60], 3 * day + 60),
            (vec![0, 3 * day, 3 * day + 60, 80], 80),
            (vec![0, 3 * day, 3 * day + 60, 80, 3 * day + 80], 80),
            // A clock that is behind holds the time back.
            (vec![3 * day, 0, 3 * day + 1], 0),
            // A doubted time that came from a step back again.
            (vec![0, 3 * day, 2 * day, 2 * day + 59], 0),
            (vec![0, 3 * day, 2 * day, 2 * day + 60], 2 * day + 60),
        ] {
            assert_eq!(after(&seen), believed, "{seen:?}");
        }
    }

    #[test]
    fn unwritten_notes_do_not_change_the_believed_time() {
        let at = Timestamp::from_millis;
        let (mut all, mut written) = (Notes::default(), Notes::default());
        for step in 0..10_000_u64 {
            let now = at(step * 7_000 + if step % 97 == 0 { 200_000_000 } else { 0 });
            all.saw(now);
            let mut next = written;
            let must = next.saw(now);
            let behind = all.now(now).since(next.now(now));
            assert!(behind < WRITTEN_EVERY && next.now(now) <= all.now(now), "step {step}: {behind:?}");
            if must {
                written = next;
            }
        }
    }
}
