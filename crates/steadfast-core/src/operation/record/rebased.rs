//! A command on a store's own clock.
//!
//! Each time in a command counts from the command's `now`: the time in the store as far as the host could tell
//! ([`Store::time`](crate::store::Store::time)). A database server has a clock of its own, and several hosts write to
//! it. Such a store carries a command out at *its* now: it moves every time of the command by as much as the two
//! differ. So a lease is as long as its holder asked for, whatever clock the holder has, and however late the store's
//! last answer reached it.

use crate::clock::Timestamp;

/// Returns the time that is as far from `to` as `time` is from `from`.
pub(super) fn moved(time: Timestamp, from: Timestamp, to: Timestamp) -> Timestamp {
    // One of the two is nothing.
    to.plus(time.since(from)).minus(from.since(time))
}

#[cfg(test)]
mod tests {
    use super::super::{Claim, State, Transition};
    use super::*;
    use crate::effect::Effect;
    use crate::operation::OperationId;
    use crate::store::sample::claim_at;
    use crate::{operation::Key, operation::Scope};

    fn at(s: u64) -> Timestamp {
        Timestamp::from_millis(s * 1_000)
    }

    fn transition(to: State) -> Transition {
        Transition {
            fence: 1,
            now: at(1_000),
            attempts: 1,
            effect: Effect::Unknown,
            unknown_since: Some(at(990)),
            lookups: 0,
            resends_left: 0,
            to,
            reports: Vec::new(),
        }
    }

    #[test]
    fn every_time_of_a_command_stays_as_far_from_its_now_as_it_was() {
        // The server's clock is a day ahead of the host's, a minute behind it, and the same.
        for now in [87_400, 940, 1_000] {
            let by = |s: i64| at(u64::try_from(i64::try_from(now).expect("small") + s).expect("positive"));
            let renewed = transition(State::InProgress { lease_until: at(1_060) }).rebased(at(now));
            assert_eq!((renewed.now, renewed.unknown_since), (by(0), Some(by(-10))));
            assert_eq!(renewed.to, State::InProgress { lease_until: by(60) });
            let scheduled = transition(State::Scheduled { at: at(1_030) }).rebased(at(now));
            assert_eq!(scheduled.to, State::Scheduled { at: by(30) });

            let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new("k").expect("a key"));
            let claim = Claim { due: Some(at(4_600)), ..claim_at(&id, at(1_000)) }.rebased(at(now));
            assert_eq!((claim.now, claim.due), (by(0), Some(by(3_600))));
        }
    }
}
