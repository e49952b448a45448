//! What a circuit of a route does otherwise, and what the circuits below an account do to the account's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Breaker, CLOSED, Change, OPEN, Permit, Rounds, STATE, Untried};
use crate::clock::Instant;
use crate::policy::breaker::{BreakerConfig, Mode};
use crate::policy::gates::Refusal;
use crate::random::Random;

impl Breaker {
    /// The circuit of one route.
    pub fn of_route(
        config: BreakerConfig,
        random: Arc<dyn Random>,
        (vendor, route): (&Arc<str>, &str),
    ) -> Breaker {
        let mut breaker = Breaker::new(config, random).of_vendor(Arc::clone(vendor));
        (breaker.is_of_route, breaker.route) = (true, Some(route.into()));
        breaker
    }

    /// How many probes a round has. Where some are answered well and others fail, it is not the route that fails, and each
    /// operation has to be tried once: so the rounds grow.
    pub(super) fn probes(&self, rounds: &Rounds) -> u32 {
        self.config.probes.max(1).saturating_mul(1 << rounds.mixed.min(GROWN_MAX))
    }

    /// A probe of the round that has just failed was answered well: the open time is the first one again.
    pub(super) fn mix(&self, rounds: &mut Rounds, now: Instant) {
        if rounds.failed > 0 {
            (rounds.failed, rounds.mixed) = (0, rounds.mixed.saturating_add(1));
            let until = now.plus(self.config.open_base).as_nanos();
            self.open_until.fetch_min(until, Ordering::Relaxed);
        }
    }

    /// As [`admit`](Breaker::admit), of a route that has not failed. It is not refused for what other routes meet: one at a
    /// time is a probe beside those of the round, and begins the round if that is not due.
    #[cold]
    pub fn admit_untried(&self, now: Instant) -> Result<Permit<'_>, Refusal> {
        if self.mode() == Mode::Normal { self.admit_probe(now, Untried::Yes) } else { self.admit(now) }
    }

    /// How many probes may go at `now`: none while it is closed, or open.
    pub fn places(&self, now: Instant) -> u32 {
        let rounds = self.rounds.lock();
        let most = self.probes(&rounds);
        match self.word.load(Ordering::Relaxed) & STATE {
            CLOSED => 0,
            OPEN if self.is_early(now) => 0,
            OPEN => most.saturating_sub(rounds.at_once),
            _ => most.saturating_sub((rounds.under_way + rounds.succeeded).max(rounds.at_once)),
        }
    }

    /// Since when it has not been closed.
    pub fn since(&self) -> Option<Instant> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then(|| Instant::from_nanos(since))
    }

    pub(super) fn log(&self, change: Option<Change>) {
        Change::log(change, &self.vendor, self.route.as_deref());
    }

    #[inline]
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == CLOSED
    }

    /// Opens a closed circuit for what is known of other circuits.
    pub fn trip(&self, why: &'static str, now: Instant) {
        let rounds = self.rounds.lock();
        if self.is_closed() {
            let change = self.open(&rounds, why, now);
            drop(rounds);
            self.log(Some(change));
        }
    }

    /// Forgets what was counted, as if it had just been closed.
    pub fn forget(&self) {
        let mut rounds = self.rounds.lock();
        if self.is_closed() {
            self.clear(&mut rounds);
        } else {
            self.close(&mut rounds);
        }
    }

    /// Closes a circuit that is not closed, for what is known of others.
    pub fn close_early(&self) {
        let mut rounds = self.rounds.lock();
        let change = (!self.is_closed()).then(|| self.close(&mut rounds));
        drop(rounds);
        self.log(change);
    }
}

/// A round is at most eight times as large as the first.
const GROWN_MAX: u32 = 3;
