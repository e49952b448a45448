//! A client of a dispatcher: decides how many of its operations may be taken now, and takes them.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::operation::record::Phase;
use steadfast_core::{Error, Gate};

use super::peers::Peers;
use super::places::Places;
use super::under_way::UnderWay;
use super::wants::Taking;
use crate::client::Client;
use crate::engine::SLEEP_MAX;

#[derive(Debug)]
pub(super) struct Member {
    pub client: Client,
    /// The path of its account.
    pub account: String,
    pub places: Arc<Places>,
    /// Hint at the work that there may be to take.
    pub has: Has,
    /// Other dispatchers of the account.
    pub peers: Peers,
    /// Number of its operations that have come to an end so far.
    pub gone: u32,
    /// True if due operations are taken first this time: neither kind is to wait until there is none left of the other.
    due_first: bool,
    /// True if the next probe is the newest of the due operations, false if it is the oldest. The first is the newest:
    /// the oldest were sent before the circuit opened.
    pub newest_first: bool,
    /// Number of takes while some failed, wrapping.
    pub takes: u32,
    /// Time to take again operations that were left out: the next probe of them is due.
    pub again_at: Option<Instant>,
    /// Time from which an operation of a route that has not failed is taken while the circuit is open. `None`: never.
    pub untried_at: Option<Instant>,
    /// True if the next take is one of these.
    is_untried: bool,
}

/// Pending hint: may report false positives; a false negative lasts until the next look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Has {
    pub due: bool,
    pub lapsed: bool,
}

impl Has {
    pub(super) const BOTH: Has = Has { due: true, lapsed: true };

    pub(super) const fn any(self) -> bool {
        self.due || self.lapsed
    }

    pub(super) fn of(&mut self, phase: Phase) -> &mut bool {
        if phase == Phase::Scheduled { &mut self.due } else { &mut self.lapsed }
    }
}

/// Time at which there may be more to take. Times are by the client's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This time, which is soon.
    At(Instant),
    /// The end of one of those under way.
    Place,
    /// A gate is closed, until this time if it knows.
    Closed(Option<Instant>),
}

impl Member {
    pub(super) fn new(client: &Client, places: Arc<Places>) -> Member {
        let account = client.engine.account_path();
        Member {
            client: client.clone(),
            account,
            places,
            has: Has::default(),
            peers: Peers::new(&*client.engine.store),
            gone: 0,
            due_first: false,
            newest_first: true,
            takes: 0,
            again_at: None,
            untried_at: Some(Instant::ORIGIN),
            is_untried: false,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.client.engine.clock.now()
    }

    /// Returns the number that may be taken now, with `carried` under way: places, starts and open gates allow so many.
    pub(super) fn room(&mut self, carried: usize) -> Result<usize, Next> {
        let next = match self.room_of_gates(carried) {
            Err(next) if next != Next::Place => next,
            room => return room,
        };
        let now = self.now();
        let has_room = self.client.engine.gates.has_room_for_untried(now);
        match (next, self.untried_at.filter(|_| has_room)) {
            (_, Some(untried_at)) if untried_at <= now => {
                self.is_untried = true;
                Ok(1)
            }
            (Next::At(at), Some(untried_at)) => Err(Next::At(at.min(untried_at))),
            (Next::Closed(_), Some(untried_at)) => Err(Next::At(untried_at)),
            _ => Err(next),
        }
    }

    fn room_of_gates(&self, carried: usize) -> Result<usize, Next> {
        let (engine, recovery) = (&self.client.engine, self.client.engine.gates.recovery());
        let places = recovery.at_once().saturating_sub(carried).min(self.places.free());
        if places == 0 {
            return Err(Next::Place);
        }
        let now = engine.clock.now();
        // Processes that were started together are not to take together.
        let starts =
            recovery.ready(now).map_err(|at| Next::At(at.plus(GAP.mul_f64(engine.random.unit()))))?;
        let room = engine.gates.room_for_recovery(now).map_err(|refusal| {
            if matches!(refusal.gate, Gate::Breaker | Gate::Pause) {
                recovery.restart(now);
            }
            match refusal.gate {
                Gate::Concurrency => Next::At(engine.ask_again_at(refusal, now).unwrap_or(now)),
                _ => match engine.ask_again_at(refusal, now) {
                    Some(at) if at <= now.plus(SLEEP_MAX) => Next::At(at),
                    later => Next::Closed(later),
                },
            }
        })?;
        Ok(places.min(starts).min(room).min(self.peers.room(now)))
    }

    /// Whether at least half of the places that it may have are free, with `carried` under way.
    pub(super) fn has_half(&self, carried: usize) -> bool {
        let own = self.client.engine.gates.recovery().at_once();
        let most = own.min(self.places.at_once());
        own.saturating_sub(carried).min(self.places.free()) >= most.div_ceil(2)
    }

    /// Takes at most `limit` of what there may be, half of each kind if there is as much, and begins to carry it on as
    /// number `member` of those under way. Gives how many.
    ///
    /// # Errors
    ///
    /// The store's; what was taken before it failed is carried on.
    pub(super) async fn take(
        &mut self,
        limit: usize,
        under_way: &mut UnderWay,
        member: usize,
    ) -> Result<usize, Error> {
        let mut held = self.places.hold(limit);
        let limit = held.len();
        let (first, second) = if self.due_first {
            (Phase::Scheduled, Phase::InProgress)
        } else {
            (Phase::InProgress, Phase::Scheduled)
        };
        self.due_first = !self.due_first;
        let half = if self.has == Has::BOTH { limit.div_ceil(2) } else { limit };
        let is_untried = std::mem::take(&mut self.is_untried);
        let mut taking = Taking { member: self, places: &mut held, under_way, nth: member };
        if is_untried {
            return taking.take_untried_route(limit).await;
        }
        let mut taken = taking.take_of(first, half).await?;
        taken += taking.take_of(second, limit - taken).await?;
        taken += taking.take_of(first, limit - taken).await?;
        Ok(taken)
    }

    /// Returns true if it is time for a heartbeat.
    pub(super) fn is_to_tell(&self) -> bool {
        self.peers.due_in(self.now()).is_some_and(|wait| wait.is_zero())
    }

    /// Returns the time until operations that were left out may be probed again, if some were.
    pub(super) fn again_in(&self) -> Option<Duration> {
        self.again_at.map(|at: Instant| at.since(self.now()))
    }
}

/// Pause between two takes, and their spread: at many short operations at once, each that ends would be a take of one.
pub(super) const GAP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests;
