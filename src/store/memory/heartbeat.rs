//! The last words of the dispatchers.

use super::Inner;
use crate::clock::Timestamp;
use crate::store::{Heartbeat, Peer};

/// What a dispatcher said, when, and until when it counts.
pub(super) struct Word {
    says: String,
    at: Timestamp,
    until: Timestamp,
}

impl Inner {
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
        peers
            .map(|((account, dispatcher), word)| Peer {
                account: account.clone(),
                dispatcher: dispatcher.clone(),
                says: word.says.clone(),
                ago: now.since(word.at),
            })
            .collect()
    }
}
