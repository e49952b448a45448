//! Telling other processes what this one delivers for: see [`peers`](crate::dispatcher::peers).

use super::{Delivery, Turn};
use crate::dispatcher::peers::confer;

impl Delivery {
    /// Whether a client has something to deliver.
    pub(super) fn is_there(&self, nth: usize, turn: &Turn) -> bool {
        turn.wants() || self.under_way.of(nth) > 0
    }

    /// Tells other processes what this one delivers for, when it is time to, and hears them.
    pub(super) async fn tell_others(&mut self) {
        let there: Vec<bool> =
            self.members.iter().enumerate().map(|(nth, turn)| self.is_there(nth, turn)).collect();
        for (nth, turn) in self.members.iter_mut().enumerate() {
            turn.member.gone = self.under_way.gone_of(nth);
        }
        let members = self.members.iter_mut().zip(there).filter_map(|(turn, is_there)| {
            let is_news = if is_there { turn.member.is_to_tell() } else { turn.member.peers.is_told() };
            is_news.then_some((&mut turn.member, is_there))
        });
        confer(&self.engine, members).await;
    }

    /// Tells other processes that it delivers no more.
    pub(super) async fn leave(&mut self) {
        let told = self.members.iter_mut().filter(|turn| turn.member.peers.is_told());
        confer(&self.engine, told.map(|turn| (&mut turn.member, false))).await;
    }
}
