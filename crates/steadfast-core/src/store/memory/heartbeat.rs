//! The last heartbeats of the dispatchers.

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::{Phase, Record};
use crate::store::backlog::queues;
use crate::store::delivery::{Backlog, Heartbeat, Peer};

/// Text of a dispatcher's heartbeat, its time, and the time until which it counts.
pub(super) struct Word {
    says: String,
    at: Timestamp,
    until: Timestamp,
}

impl Word {
    fn of(&self, (account, dispatcher): &(String, String), now: Timestamp) -> Peer {
        let (account, dispatcher, says) = (account.clone(), dispatcher.clone(), self.says.clone());
        Peer { account, dispatcher, says, ago: now.since(self.at) }
    }
}

impl Inner {
    /// Returns the backlog, and the heartbeats that count at `now`.
    pub(super) fn backlog(&self, now: Timestamp) -> Backlog {
        let is_open =
            |record: &&Record| matches!(record.phase(), Phase::InProgress | Phase::Scheduled | Phase::Dead);
        let open = self.rows.values().map(|row| &row.record).filter(is_open);
        let summaries = open.map(|record| match record.sequence {
            Some(_) => self.placed(record.clone()).summary(),
            None => record.summary(),
        });
        let counts = |word: &Word| word.until > now && word.at <= now.plus(word.until.since(word.at));
        let peers = self.words.iter().filter(|(_, word)| counts(word)).map(|(name, word)| word.of(name, now));
        Backlog { queues: queues(summaries, now), peers: peers.collect() }
    }

    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Vec<Peer> {
        let Heartbeat { now, lasts, beats } = heartbeat;
        self.words.retain(|_, word| word.until > *now && word.at <= now.plus(*lasts));
        for beat in beats {
            let name = (beat.account.clone(), beat.dispatcher.clone());
            match &beat.says {
                Some(says) => {
                    let word = Word { says: says.clone(), at: *now, until: now.plus(*lasts) };
                    self.words.insert(name, word);
                }
                None => drop(self.words.remove(&name)),
            }
        }
        let asked = |account: &str| beats.iter().any(|beat| beat.account == account);
        let peers = self.words.iter().filter(|((account, _), _)| asked(account));
        peers.map(|(name, word)| word.of(name, *now)).collect()
    }
}
