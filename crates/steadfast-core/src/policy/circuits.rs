//! The circuits of routes, below the account's.
//!
//! One route may fail while the vendor is well: it is down for itself, or its requests are of a kind that it never
//! takes. Were that taken for the vendor's health, thirty of them would keep thousands waiting that could be sent. So
//! each route that fails has a circuit of its own, and failures at an open one have no bearing on the account.
//!
//! **Which of the two opens.** Five failures on one route look alike whether the route is down or the vendor. If another
//! route was answered well within a minute, the route's circuit opens. Else the account's does, as it does for failures in a
//! row of several routes that have worked, or once all that is tried fails on two open routes.
//!
//! A route that was not answered well within the hour is no witness. While another one was answered well within a
//! minute, its failures are its own alone. Operations of a kind that the vendor never takes may be of five such routes,
//! and come before all others. While the account's circuit is open those of routes are forgotten: there are none to
//! tell apart.
//!
//! **Closing the account's circuit.** Its probes go to several routes if operations of several wait. Where one is
//! answered well and another of the same round fails, the vendor is back: the account's circuit closes, and those of
//! the routes that failed open. A call to a route that has not failed since it was answered last is a probe at once, in
//! a place of its own. So failures of some routes refuse no others, and a vendor that is down has one request more of
//! each route.
//!
//! **Within a route**, the same is done by operation. One that failed before and fails again says nothing new if another was
//! answered well after its first failure, and others are: it is neutral. A round of probes with both ends opens the circuit
//! for its first time again, and the next round is larger.
//!
//! **Bounds.** Only routes that fail are known, and no more than [`ROUTES_MAX`]. Ids are recognised by their form.
//! Where [`SIBLINGS_MAX`] routes differ in one segment alone, that segment is an id, and they are one route from then
//! on. A client whose calls all succeed pays a load for this, and once a second a hash of the route.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::breaker::{Breaker, BreakerConfig, Detached, Mode, Permit};
use super::gates::{Outcome, Refusal};
use crate::clock::Instant;
use crate::guard::Guard;
use crate::operation::RouteName;
use crate::random::Random;

pub(crate) mod answered;

use answered::Answered;

/// The circuits of one client's routes.
#[derive(Debug)]
pub struct Circuits {
    config: BreakerConfig,
    random: Arc<dyn Random>,
    vendor: Arc<str>,
    /// True if a route has failed of late.
    any: AtomicBool,
    /// Time from which the next good answer's route is noted, in nanoseconds.
    note_at: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Circuits of routes; the one that failed last is the last.
    circuits: Vec<Arc<Circuit>>,
    answered: Answered,
    /// The routes on which probes of the account failed, of the round with this word.
    spoilt: (u64, Vec<RouteName>),
    /// The word of the last round of the account's probes that one was answered well in.
    good_round: u64,
}

/// The circuit of one route.
#[derive(Debug)]
pub struct Circuit {
    pub name: RouteName,
    breaker: Breaker,
    /// Time of the last good answer, in nanoseconds.
    answered: AtomicU64,
    failed: Mutex<Failed>,
}

/// The operations of a route that failed, and when each did first.
#[derive(Debug, Default)]
struct Failed {
    /// Time of the last failure.
    at: Instant,
    first: HashMap<u64, Instant>,
    order: VecDeque<u64>,
    /// Time of the good answer since which `in_a_row` counts.
    answered: Instant,
    in_a_row: u32,
}

/// A place of a route's circuit, for an attempt that is under way.
#[derive(Debug)]
pub struct RoutePermit {
    circuit: Arc<Circuit>,
    held: Option<Detached>,
}

/// A route whose circuit is not closed.
#[derive(Clone, Debug)]
pub struct OpenRoute {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub name: RouteName,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub since: Instant,
    /// Number of probes that may go now.
    pub places: u32,
}

/// Evidence about the vendor as a whole, in the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    Something,
    /// The end concerns its route or its operation alone.
    Nothing,
    /// As `Nothing`; and the evidence so far that was taken for the vendor's is of routes alone, or over.
    OnlyOfRoutes,
}

/// End of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub call: Option<u64>,
    pub outcome: Outcome,
    pub latency: Duration,
    pub now: Instant,
}

impl Circuits {
    pub(super) fn new(config: BreakerConfig, random: Arc<dyn Random>) -> Circuits {
        Circuits {
            config,
            random,
            vendor: Arc::default(),
            any: AtomicBool::new(false),
            note_at: AtomicU64::new(0),
            table: Mutex::default(),
        }
    }

    pub(super) fn of_vendor(mut self, vendor: Arc<str>) -> Circuits {
        self.vendor = vendor;
        self
    }

    /// Whether a route has failed of late. Only then is anything asked about one.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether the next good answer's route is to be noted.
    #[inline]
    pub(super) fn is_to_note(&self, now: Instant) -> bool {
        self.any() || now.as_nanos() >= self.note_at.load(Ordering::Relaxed)
    }

    /// Asks the circuit of a route for leave, if the route has one.
    pub(super) fn admit(&self, route: &str, now: Instant) -> Result<Option<RoutePermit>, Refusal> {
        if !self.any() {
            return Ok(None);
        }
        let Some(circuit) = self.table.lock().find(route) else { return Ok(None) };
        let held = circuit.breaker.admit(now)?.detach();
        Ok(Some(RoutePermit { circuit, held: Some(held) }))
    }

    /// Settles an attempt on a route, and returns its evidence about the vendor.
    pub(super) fn settle(
        &self,
        account: (&Breaker, Permit<'_>),
        of_route: Option<RoutePermit>,
        route: &str,
        ended: Ended,
    ) -> Evidence {
        match ended.outcome {
            Outcome::Neutral => {
                settle_both(account.1, of_route, ended);
                Evidence::Something
            }
            Outcome::Success => self.succeeded(account, of_route, route, ended),
            Outcome::Failure => self.failed(account, of_route, route, ended),
        }
    }

    fn succeeded(
        &self,
        (breaker, permit): (&Breaker, Permit<'_>),
        of_route: Option<RoutePermit>,
        route: &str,
        ended: Ended,
    ) -> Evidence {
        self.note_answered(route, ended.now);
        if of_route.as_ref().is_some_and(RoutePermit::is_probe) {
            drop(permit);
            of_route.into_iter().for_each(|of_route| of_route.settle(ended));
            return Evidence::Something;
        }
        let (is_probe, word) = (permit.is_probe(), permit.word());
        settle_both(permit, of_route, ended);
        if is_probe {
            self.table.lock().good_round = word;
            let early = self.close_early(breaker, word, ended.now);
            return if breaker.is_closed() { Evidence::OnlyOfRoutes } else { early };
        }
        Evidence::Something
    }

    /// Closes the account's circuit if a probe was answered well and others of its round failed: the routes of these
    /// are what fails.
    fn close_early(&self, breaker: &Breaker, word: u64, now: Instant) -> Evidence {
        let mut table = self.table.lock();
        let has_both = table.good_round == word && table.spoilt.0 == word && !table.spoilt.1.is_empty();
        if !has_both {
            return Evidence::Something;
        }
        let spoilt = std::mem::take(&mut table.spoilt.1);
        let tripped: Vec<_> = spoilt.iter().map(|name| self.circuit_of(&mut table, name.as_str())).collect();
        drop(table);
        breaker.close_early();
        for circuit in tripped {
            circuit.breaker.trip("failed probe", now);
        }
        Evidence::OnlyOfRoutes
    }

    fn failed(
        &self,
        (breaker, permit): (&Breaker, Permit<'_>),
        of_route: Option<RoutePermit>,
        route: &str,
        ended: Ended,
    ) -> Evidence {
        let mut table = self.table.lock();
        let circuit = self.circuit_of(&mut table, route);
        if circuit.has_failed_alone(ended.call, ended.now) {
            drop(table);
            settle_both(permit, of_route, Ended { outcome: Outcome::Neutral, ..ended });
            return Evidence::Nothing;
        }
        if permit.is_probe() {
            let word = permit.word();
            if table.spoilt.0 != word {
                table.spoilt = (word, Vec::new());
            }
            if table.spoilt.1.len() < ROUTES_MAX {
                table.spoilt.1.push(circuit.name.clone());
            }
            drop((table, of_route));
            permit.settle_for(ended.call, ended.outcome, ended.latency, ended.now);
            return self.close_early(breaker, word, ended.now);
        }
        if !breaker.is_closed() {
            drop((table, of_route));
            permit.settle_for(ended.call, ended.outcome, ended.latency, ended.now);
            return Evidence::Something;
        }
        let hash = hash_of(route);
        let others_are_well = table.answered.others_are_well(hash, ended.now);
        let has_worked = table.answered.has_worked(hash, ended.now);
        // Nothing is logged under the lock: a subscriber may call back.
        drop(table);
        let is_probe = of_route.as_ref().is_some_and(RoutePermit::is_probe);
        match of_route {
            Some(of_route) if is_probe => of_route.settle(ended),
            _ => circuit.fail(ended),
        }
        let is_alone = others_are_well && (is_probe || !has_worked);
        let is_open = !circuit.breaker.is_closed();
        let all_fail = is_open && !is_alone && self.table.lock().all_fail(&circuit, breaker.answered_at());
        if is_open && others_are_well && !all_fail && !is_probe {
            // What it met says nothing of the account from here on, nor what led to it.
            drop(permit);
            breaker.forget();
            return Evidence::OnlyOfRoutes;
        }
        if is_alone || (is_probe && !all_fail) {
            return Evidence::Nothing;
        }
        permit.settle_for(ended.call, ended.outcome, ended.latency, ended.now);
        if all_fail {
            breaker.trip("all routes fail", ended.now);
        }
        if !breaker.is_closed() {
            self.forget();
        }
        Evidence::Something
    }

    /// The routes whose circuits are not closed.
    pub fn open(&self, now: Instant) -> Vec<OpenRoute> {
        if !self.any() {
            return Vec::new();
        }
        let table = self.table.lock();
        let open = table.circuits.iter().filter(|circuit| !circuit.breaker.is_closed());
        open.map(|circuit| OpenRoute {
            name: circuit.name.clone(),
            since: circuit.breaker.since().unwrap_or(now),
            places: circuit.breaker.places(now),
        })
        .collect()
    }

    /// Whether the circuit of this route is not closed.
    pub fn is_open(&self, route: &str) -> bool {
        self.any() && self.table.lock().find(route).is_some_and(|circuit| !circuit.breaker.is_closed())
    }

    /// Whether this route has not failed since it was answered last, while others have. Not where that many fail that not
    /// all of them are known.
    pub(super) fn is_untried(&self, route: &str) -> bool {
        let table = self.table.lock();
        let is_known = !table.circuits.is_empty() && table.circuits.len() < ROUTES_MAX;
        is_known && table.find(route).is_none_or(|circuit| circuit.is_answered())
    }

    /// The routes that have failed since they were answered last.
    pub fn failing(&self) -> Vec<RouteName> {
        let table = self.table.lock();
        let failing = table.circuits.iter().filter(|circuit| !circuit.is_answered());
        failing.map(|circuit| circuit.name.clone()).collect()
    }

    /// The account's circuit is open, and covers those of all routes.
    fn forget(&self) {
        let circuits = self.table.lock().circuits.clone();
        for circuit in circuits {
            circuit.breaker.forget();
        }
    }

    fn note_answered(&self, route: &str, now: Instant) {
        let mut table = self.table.lock();
        let hash = hash_of(route);
        let note_at = now.plus(NOTED_EVERY.mul_f64(0.5 + self.random.unit()));
        self.note_at.store(note_at.as_nanos(), Ordering::Relaxed);
        table.answered.note(hash, now);
        if let Some(circuit) = table.find(route) {
            circuit.answered.store(now.as_nanos(), Ordering::Relaxed);
        }
        if self.any() && table.circuits.iter().all(|circuit| circuit.is_forgotten(now)) {
            table.circuits.clear();
            self.any.store(false, Ordering::Relaxed);
        }
    }

    /// The circuit of a route, which has failed.
    fn circuit_of(&self, table: &mut Table, route: &str) -> Arc<Circuit> {
        self.any.store(true, Ordering::Relaxed);
        if let Some(circuit) = table.find(route) {
            return circuit;
        }
        let name = table.folded(RouteName::of(route));
        if table.circuits.len() >= ROUTES_MAX {
            let oldest = table.circuits.iter().position(|circuit| circuit.breaker.is_closed()).unwrap_or(0);
            table.circuits.remove(oldest);
        }
        let (random, named) = (Arc::clone(&self.random), (&self.vendor, name.as_str()));
        let breaker = Breaker::of_route(self.config, random, named);
        let circuit =
            Arc::new(Circuit { name, breaker, answered: AtomicU64::new(0), failed: Mutex::default() });
        table.circuits.push(Arc::clone(&circuit));
        circuit
    }
}

impl Table {
    fn find(&self, route: &str) -> Option<Arc<Circuit>> {
        self.circuits.iter().find(|circuit| circuit.name.is_of(route)).cloned()
    }

    /// The name of a new route: one for all, where it has many siblings. Theirs are forgotten.
    fn folded(&mut self, name: RouteName) -> RouteName {
        let folds: Vec<RouteName> =
            self.circuits.iter().filter_map(|circuit| circuit.name.folded_with(&name)).collect();
        let has_many = |fold: &&RouteName| folds.iter().filter(|other| other == fold).count() >= SIBLINGS_MAX;
        let Some(fold) = folds.iter().find(has_many) else { return name };
        self.circuits.retain(|circuit| circuit.name.folded_with(&name).as_ref() != Some(fold));
        fold.clone()
    }

    /// Whether another circuit is open too, and nothing was answered since it opened.
    fn all_fail(&self, own: &Arc<Circuit>, answered_at: Instant) -> bool {
        self.circuits.iter().any(|circuit| {
            !Arc::ptr_eq(circuit, own) && circuit.breaker.since().is_some_and(|since| answered_at <= since)
        })
    }
}

impl Circuit {
    /// An attempt has failed that was no probe.
    fn fail(self: &Arc<Circuit>, ended: Ended) {
        if let Ok(held) = self.breaker.admit(ended.now).map(Permit::detach) {
            RoutePermit { circuit: Arc::clone(self), held: Some(held) }.settle(ended);
        }
    }

    /// Whether this call failed before, another one of the route was answered well after that, and not too many of its kind
    /// have failed since the last answer. Notes that it failed.
    fn has_failed_alone(&self, call: Option<u64>, now: Instant) -> bool {
        let answered = Instant::from_nanos(self.answered.load(Ordering::Relaxed));
        let mut failed = self.failed.lock();
        let first = failed.note(call, now);
        if failed.answered != answered {
            (failed.answered, failed.in_a_row) = (answered, 0);
        }
        let is_well = |first: Instant| answered > first && now.since(answered) < WELL_FOR;
        let is_alone = first.is_some_and(is_well) && failed.in_a_row < IN_A_ROW_MAX;
        failed.in_a_row += u32::from(is_alone);
        Guard::FailedBeforeIsNeutral.keeps(is_alone)
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        let last = self.failed.lock().at;
        self.breaker.is_closed() && now.since(last) >= REMEMBERED
    }

    /// Whether it was answered well since it failed last.
    fn is_answered(&self) -> bool {
        Instant::from_nanos(self.answered.load(Ordering::Relaxed)) > self.failed.lock().at
    }
}

impl Failed {
    /// Notes a failure; returns the time of the operation's first one, if it failed before and is remembered.
    fn note(&mut self, call: Option<u64>, now: Instant) -> Option<Instant> {
        self.at = now;
        let call = call?;
        if let Some(first) = self.first.get(&call) {
            return Some(*first);
        }
        self.first.insert(call, now);
        self.order.push_back(call);
        if self.order.len() > FAILED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.first.remove(&oldest);
        }
        None
    }
}

impl RoutePermit {
    pub(super) fn is_probe(&self) -> bool {
        self.held.is_some_and(Detached::is_probe)
    }

    pub(super) fn settle(mut self, ended: Ended) {
        if let Some(held) = self.held.take() {
            let permit = Permit::attached(&self.circuit.breaker, held);
            permit.settle_for(ended.call, ended.outcome, ended.latency, ended.now);
        }
    }
}

impl Drop for RoutePermit {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            drop(Permit::attached(&self.circuit.breaker, held));
        }
    }
}

/// Whether an operator has left the breaker to itself: else its routes decide nothing either.
pub(super) fn decide(breaker: &Breaker) -> bool {
    Guard::RouteHasCircuit.keeps(breaker.mode() == Mode::Normal)
}

fn settle_both(account: Permit<'_>, of_route: Option<RoutePermit>, ended: Ended) {
    account.settle_for(ended.call, ended.outcome, ended.latency, ended.now);
    of_route.into_iter().for_each(|of_route| of_route.settle(ended));
}

/// Returns the same number for all ids of a route.
fn hash_of(route: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for segment in RouteName::segments(route) {
        segment.hash(&mut hasher);
    }
    hasher.finish()
}

/// Most routes that are known to fail. More than a client of one vendor uses, but for ids that look like words.
const ROUTES_MAX: usize = 64;

/// More siblings than an API's paths have that all fail while the vendor is well.
const SIBLINGS_MAX: usize = 8;

/// Time for which a good answer of another route shows that the vendor is well.
const WELL_FOR: Duration = Duration::from_secs(60);

/// Time for which a route that failed, or was answered, is known.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// Interval at which the route of a good answer is noted while no route fails, half of it earlier or later. If calls go
/// to their routes in turn, the same one would otherwise be noted each time.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// Number of failures in a row, of operations that failed before, that are no evidence until others of the route are
/// answered. Three times a window's least calls: where good ones are as rare as that, a vendor that is down looks the
/// same.
const IN_A_ROW_MAX: u32 = 128;

/// Most failed operations that are remembered of a route.
const FAILED_MAX: usize = 4_096;

#[cfg(test)]
mod tests;
