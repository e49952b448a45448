//! Stops calling a vendor that fails, and finds out when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::as_nanos;
use super::backoff::draw;
use super::gates::{Outcome, Refusal};
use super::ratio::Ratio;
use super::window::Window;
use crate::clock::Instant;
use crate::error::Gate;
use crate::guard::Guard;
use crate::random::Random;

pub(crate) mod answered;
pub(crate) mod change;
pub(crate) mod config;
pub(crate) mod permit;
pub(crate) mod row;
pub(crate) mod state;

pub use config::BreakerConfig;
pub(super) use permit::Detached;
pub use permit::Permit;
pub use state::{BreakerState, Mode};

use answered::Answered;
use change::Change;
use permit::Kind;
use row::Row;

/// The run-time state of a circuit breaker.
pub struct Breaker {
    config: BreakerConfig,
    random: Arc<dyn Random>,
    /// Name of the vendor, for the log. Empty for a breaker that stands alone.
    vendor: Arc<str>,
    /// Route of the circuit; `None` for the circuit of all routes.
    route: Option<Box<str>>,
    /// Time at which it was opened, in nanoseconds; 0 while it is closed.
    since: AtomicU64,
    mode: AtomicU8,
    /// Generation and state in one word, so that one load reads both.
    word: AtomicU64,
    open_until: AtomicU64,
    answered: Answered,
    would_be_refusals: AtomicU64,
    in_a_row: AtomicU32,
    failure_share: Option<Ratio>,
    slow_share: Option<Ratio>,
    calls: Window,
    failures: Window,
    slow: Window,
    rounds: Mutex<Rounds>,
    /// A round with both ends shows that some are answered well: see [`mix`](Breaker::mix).
    is_of_route: bool,
}

/// Kind of a probe: one of a route that has not failed while the circuit is open has a place of its own, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untried {
    No,
    Yes,
}

/// Probing, round by round, and who failed before.
#[derive(Debug, Default)]
struct Rounds {
    /// Valid while `in_a_row` is not 0: a success writes that and no more.
    row: Row,
    /// Rounds that failed since the circuit was last closed.
    failed: u32,
    /// Probes under way in this round.
    under_way: u32,
    /// Probes of this round that succeeded.
    succeeded: u32,
    /// Probes under way, of whichever round: those of an earlier one that hang are still at the vendor.
    at_once: u32,
    /// Rounds in a row that had both ends: each next one is twice as large.
    mixed: u32,
}

impl Breaker {
    /// A closed circuit. `random` spreads the open times. Figures that validation refuses are brought to the
    /// nearest that works.
    pub fn new(config: BreakerConfig, random: Arc<dyn Random>) -> Breaker {
        Breaker {
            random,
            vendor: Arc::default(),
            route: None,
            since: AtomicU64::new(0),
            mode: AtomicU8::new(Mode::Normal as u8),
            word: AtomicU64::new(CLOSED),
            open_until: AtomicU64::new(0),
            answered: Answered::default(),
            would_be_refusals: AtomicU64::new(0),
            in_a_row: AtomicU32::new(0),
            failure_share: config.failure_rate.map(Ratio::new),
            slow_share: config.slow_call.map(|slow| Ratio::new(slow.rate)),
            calls: Window::new(config.window),
            failures: Window::new(config.window),
            slow: Window::new(config.window),
            rounds: Mutex::default(),
            is_of_route: false,
            config,
        }
    }

    /// Names the vendor in what this breaker logs.
    pub(super) fn of_vendor(mut self, vendor: Arc<str>) -> Breaker {
        self.vendor = vendor;
        self
    }

    /// Asks for leave for one call at `now`. Dropping the permit gives it back and counts nothing.
    ///
    /// # Errors
    ///
    /// A refusal with the end of the open time; while probes are under way, a guess of one
    /// [`open_base`](BreakerConfig::open_base) from now; none while forced open.
    #[inline]
    pub fn admit(&self, now: Instant) -> Result<Permit<'_>, Refusal> {
        if self.mode.load(Ordering::Relaxed) != Mode::Normal as u8 {
            return self.admit_by_mode(now);
        }
        let word = self.word.load(Ordering::Acquire);
        match word & STATE {
            CLOSED => Ok(Permit::new(self, word, Kind::Counted)),
            OPEN if self.is_early(now) => Err(self.refusal()),
            _ => self.admit_probe(now, Untried::No),
        }
    }

    /// Returns the mode: whether the breaker decides, or an operator.
    pub fn mode(&self) -> Mode {
        let mode = self.mode.load(Ordering::Relaxed);
        [Mode::ForcedOpen, Mode::ForcedClosed, Mode::ObserveOnly]
            .into_iter()
            .find(|candidate| *candidate as u8 == mode)
            .unwrap_or_default()
    }

    /// Sets who decides. The state of the circuit is kept, and is what counts on the return to normal.
    pub fn set_mode(&self, mode: Mode) {
        let before = self.mode.swap(mode as u8, Ordering::Relaxed);
        if before != mode as u8 {
            tracing::warn!(steadfast.vendor = &*self.vendor, ?mode, "circuit breaker mode set");
        }
    }

    /// The state of the circuit at `now`, whatever the mode.
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.word.load(Ordering::Acquire) & STATE {
            CLOSED => BreakerState::Closed,
            OPEN => match Instant::from_nanos(self.open_until.load(Ordering::Relaxed)) {
                until if now < until => BreakerState::Open { left: until.since(now) },
                _ => BreakerState::HalfOpen,
            },
            _ => BreakerState::HalfOpen,
        }
    }

    /// Returns the number of calls that [`Mode::ObserveOnly`] admitted and that would have been refused.
    pub fn would_be_refusals(&self) -> u64 {
        self.would_be_refusals.load(Ordering::Relaxed)
    }

    #[cold]
    fn admit_by_mode(&self, now: Instant) -> Result<Permit<'_>, Refusal> {
        let word = self.word.load(Ordering::Acquire);
        let uncounted = Permit::new(self, word, Kind::Uncounted);
        match self.mode() {
            Mode::ForcedOpen => Err(Refusal::new(Gate::Breaker, None)),
            Mode::ForcedClosed => Ok(uncounted),
            Mode::ObserveOnly | Mode::Normal if word & STATE == CLOSED => {
                Ok(Permit::new(self, word, Kind::Counted))
            }
            Mode::ObserveOnly => Ok(self.admit_probe(now, Untried::No).unwrap_or_else(|_| {
                self.would_be_refusals.fetch_add(1, Ordering::Relaxed);
                uncounted
            })),
            // An operator gave control back between two loads.
            Mode::Normal => self.admit_probe(now, Untried::No),
        }
    }

    /// Whether the open time is not over.
    #[inline]
    fn is_early(&self, now: Instant) -> bool {
        now.as_nanos() < self.open_until.load(Ordering::Relaxed)
    }

    fn refusal(&self) -> Refusal {
        let until = Instant::from_nanos(self.open_until.load(Ordering::Relaxed));
        Refusal::new(Gate::Breaker, Some(until))
    }

    /// The circuit is open or half-open, or was a moment ago.
    #[cold]
    fn admit_probe(&self, now: Instant, untried: Untried) -> Result<Permit<'_>, Refusal> {
        let mut rounds = self.rounds.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        let mut change = None;
        let most = Guard::ProbesLimited.or(self.probes(&rounds), u32::MAX).saturating_add(untried as u32);
        let is_room = Guard::ProbesAtOnce.is_out() || rounds.at_once < most;
        match word & STATE {
            CLOSED => return Ok(Permit::new(self, word, Kind::Counted)),
            OPEN if self.is_early(now) && (untried == Untried::No || !is_room) => return Err(self.refusal()),
            OPEN => {
                rounds.under_way = 0;
                rounds.succeeded = 0;
                word = self.begin(HALF_OPEN);
                change = Some(Change::HalfOpened);
            }
            _ => {}
        }
        let answer = if rounds.under_way + rounds.succeeded < most && is_room {
            rounds.under_way += 1;
            rounds.at_once += 1;
            Ok(Permit::new(self, word, Kind::Probe))
        } else {
            Err(Refusal::new(Gate::Breaker, Some(now.plus(self.config.open_base))))
        };
        drop(rounds);
        self.log(change);
        answer
    }

    /// A call that was admitted while the circuit was closed has ended.
    #[inline]
    fn record(&self, word: u64, call: Option<u64>, outcome: Outcome, latency: Duration, now: Instant) {
        if outcome == Outcome::Neutral {
            return;
        }
        self.answered.note(outcome, now);
        let slow = self.is_slow(latency);
        if outcome == Outcome::Failure || slow {
            return self.record_bad(word, call, outcome, slow, now);
        }
        // A success can only make opening less likely, so that it needs no lock: at worst one that raced with a
        // change of state is counted for the generation after.
        if self.word.load(Ordering::Relaxed) == word {
            self.calls.add(now, 1);
            if self.in_a_row.load(Ordering::Relaxed) != 0 {
                self.in_a_row.store(0, Ordering::Relaxed);
            }
        }
    }

    #[cold]
    fn record_bad(&self, word: u64, call: Option<u64>, outcome: Outcome, slow: bool, now: Instant) {
        let mut rounds = self.rounds.lock();
        if Guard::Generation.keeps(self.word.load(Ordering::Relaxed) != word) {
            return;
        }
        if outcome == Outcome::Failure {
            if self.in_a_row.load(Ordering::Relaxed) == 0 {
                rounds.row.clear();
            }
            if Guard::OneOperationOnce.keeps(!rounds.row.is_first_of(call)) {
                return;
            }
        }
        self.calls.add(now, 1);
        if outcome == Outcome::Failure {
            self.failures.add(now, 1);
            self.in_a_row.fetch_add(1, Ordering::Relaxed);
        } else {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        if slow {
            self.slow.add(now, 1);
        }
        if let Some(why) = self.why_open(now) {
            let change = self.open(&rounds, why, now);
            drop(rounds);
            self.log(Some(change));
        }
    }

    fn is_slow(&self, latency: Duration) -> bool {
        self.config.slow_call.is_some_and(|slow| latency > slow.over)
    }

    fn why_open(&self, now: Instant) -> Option<&'static str> {
        let in_a_row = u64::from(self.in_a_row.load(Ordering::Relaxed));
        if self.config.consecutive_failures.is_some_and(|most| in_a_row >= u64::from(most.max(1))) {
            return Some("consecutive failures");
        }
        let calls = self.calls.sum(now);
        if calls < u64::from(self.config.minimum_calls.max(1)) {
            return None;
        }
        let reached = |counted: &Window, share: Option<Ratio>| {
            share.is_some_and(|share| share.is_reached_by(counted.sum(now), calls))
        };
        if reached(&self.failures, self.failure_share) {
            return Some("failure rate");
        }
        reached(&self.slow, self.slow_share).then_some("slow calls")
    }

    /// A probe has ended.
    #[cold]
    fn judge(&self, word: u64, outcome: Outcome, latency: Duration, now: Instant) {
        self.answered.note(outcome, now);
        let mut rounds = self.rounds.lock();
        rounds.at_once = rounds.at_once.saturating_sub(1);
        let present = self.word.load(Ordering::Relaxed);
        if present != word {
            if self.is_of_route && outcome == Outcome::Success && present == next(word, OPEN) {
                self.mix(&mut rounds, now);
            }
            return;
        }
        rounds.under_way = rounds.under_way.saturating_sub(1);
        let change = match outcome {
            Outcome::Neutral => return,
            // A vendor that answers, but slowly, is not back: closing would only open again.
            Outcome::Success if !self.is_slow(latency) => {
                rounds.succeeded += 1;
                if rounds.succeeded < self.probes(&rounds) {
                    return;
                }
                self.close(&mut rounds)
            }
            Outcome::Success | Outcome::Failure => {
                if self.is_of_route && rounds.succeeded > 0 {
                    (rounds.failed, rounds.mixed) = (0, rounds.mixed.saturating_add(1));
                } else {
                    (rounds.failed, rounds.mixed) = (rounds.failed.saturating_add(1), 0);
                }
                self.open(&rounds, "failed probe", now)
            }
        };
        drop(rounds);
        self.log(Some(change));
    }

    /// A probe was cancelled.
    #[cold]
    fn give_back(&self, word: u64) {
        let mut rounds = self.rounds.lock();
        rounds.at_once = rounds.at_once.saturating_sub(1);
        if self.word.load(Ordering::Relaxed) == word {
            rounds.under_way = rounds.under_way.saturating_sub(1);
        }
    }

    fn open(&self, rounds: &Rounds, why: &'static str, now: Instant) -> Change {
        let base = as_nanos(self.config.open_base);
        let doubled = base.saturating_mul(2u64.saturating_pow(rounds.failed));
        let step = doubled.min(as_nanos(self.config.open_cap));
        let open = Duration::from_nanos(draw(step - step / 5, step, self.random.unit()));
        self.open_until.store(now.plus(open).as_nanos(), Ordering::Relaxed);
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        self.begin(OPEN);
        Change::Opened { why, open }
    }

    fn close(&self, rounds: &mut Rounds) -> Change {
        self.clear(rounds);
        self.since.store(0, Ordering::Relaxed);
        self.begin(CLOSED);
        Change::Closed
    }

    fn clear(&self, rounds: &mut Rounds) {
        rounds.row.clear();
        (rounds.failed, rounds.under_way, rounds.succeeded, rounds.mixed) = (0, 0, 0, 0);
        self.calls.clear();
        self.failures.clear();
        self.slow.clear();
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// Begins a new generation in `state`, and returns its word. Only under the lock.
    fn begin(&self, state: u64) -> u64 {
        let word = next(self.word.load(Ordering::Relaxed), state);
        self.word.store(word, Ordering::Release);
        word
    }

    /// Returns the time at which a call last ended with an answer, whatever the state.
    pub fn answered_at(&self) -> Instant {
        self.answered.at()
    }

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

    /// Returns the number of probes of a round. Where some are answered well and others fail, it is not the route that
    /// fails, and each operation has to be tried once: so the rounds grow.
    fn probes(&self, rounds: &Rounds) -> u32 {
        self.config.probes.max(1).saturating_mul(1 << rounds.mixed.min(GROWN_MAX))
    }

    /// A probe of the round that has just failed was answered well: the open time is the first one again.
    fn mix(&self, rounds: &mut Rounds, now: Instant) {
        if rounds.failed > 0 {
            (rounds.failed, rounds.mixed) = (0, rounds.mixed.saturating_add(1));
            let until = now.plus(self.config.open_base).as_nanos();
            self.open_until.fetch_min(until, Ordering::Relaxed);
        }
    }

    /// Admits a call of a route that has not failed. It is not refused for failures of other routes: one at a time is a
    /// probe beside those of the round, and begins the round if that is not due.
    #[cold]
    pub fn admit_untried(&self, now: Instant) -> Result<Permit<'_>, Refusal> {
        if self.mode() == Mode::Normal { self.admit_probe(now, Untried::Yes) } else { self.admit(now) }
    }

    /// Returns the number of probes that may go at `now`: none while it is closed, or open.
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

    /// Returns the time since which it has not been closed.
    pub fn since(&self) -> Option<Instant> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then(|| Instant::from_nanos(since))
    }

    fn log(&self, change: Option<Change>) {
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

/// The word of the generation after this one.
const fn next(word: u64, state: u64) -> u64 {
    (word >> STATE_BITS).wrapping_add(1) << STATE_BITS | state
}

const STATE_BITS: u32 = 2;
const STATE: u64 = 0b11;
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;

/// A round of probes is at most eight times as large as the first.
const GROWN_MAX: u32 = 3;

#[cfg(test)]
mod tests;
