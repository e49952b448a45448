//! The last heartbeats of the dispatchers.

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::{Phase, Record};
use crate::store::backlog::queues;
use crate::store::delivery::{Backlog, Heartbeat, Peer};

/// Text of a dispatcher's heartbeat, its time, and the time until which it counts.
pub(super) struct StoredHeartbeat {
    says: String,
    at: Timestamp,
    until: Timestamp,
}

impl StoredHeartbeat {
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
        let counts = |heartbeat: &StoredHeartbeat| {
            heartbeat.until > now && heartbeat.at <= now.plus(heartbeat.until.since(heartbeat.at))
        };
        let peers = self
            .heartbeats
            .iter()
            .filter(|(_, heartbeat)| counts(heartbeat))
            .map(|(name, heartbeat)| heartbeat.of(name, now));
        Backlog { queues: queues(summaries, now), peers: peers.collect() }
    }

    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Vec<Peer> {
        let Heartbeat { now, lasts, beats } = heartbeat;
        self.heartbeats.retain(|_, heartbeat| heartbeat.until > *now && heartbeat.at <= now.plus(*lasts));
        for beat in beats {
            let name = (beat.account.clone(), beat.dispatcher.clone());
            match &beat.says {
                Some(says) => {
                    let heartbeat = StoredHeartbeat { says: says.clone(), at: *now, until: now.plus(*lasts) };
                    self.heartbeats.insert(name, heartbeat);
                }
                None => drop(self.heartbeats.remove(&name)),
            }
        }
        let includes = |account: &str| beats.iter().any(|beat| beat.account == account);
        let peers = self.heartbeats.iter().filter(|((account, _), _)| includes(account));
        peers.map(|(name, heartbeat)| heartbeat.of(name, *now)).collect()
    }
}
