//! The gates between a call and the wire, in one place and one order.
//!
//! Kill switch, vendor pause, circuit breaker, concurrency limit, rate limit: each refuses with a value that says
//! when to come back, and never sleeps. The order is from "nothing may go" to "not just now". The rate limit is last
//! because its spacing behind a short burst is the only thing that cannot be given back.
//!
//! [`Admission`] holds what the gates gave. Dropping it, by cancellation or by a panic, gives everything back
//! and counts nothing: a call that was never finished says nothing about the vendor. Counting at completion
//! instead of holding a guard is how other breakers admit too many and wedge for ever.
//!
//! Nothing here allocates after construction but a note for each reply that is streamed, and the size of the state does
//! not depend on the number of other calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Policy;
use super::breaker::{Breaker, BreakerState, Mode, Permit};
use super::budget::Budget;
use super::circuits::{Circuits, Ended, Evidence, RoutePermit, decide};
use super::concurrency::{Concurrency, Place};
use super::credentials::Credentials;
use super::pause::Pause;
use super::rate::{Rate, Start};
use super::recovery::{Part, Recovery};
use super::turns::{Turns, Waiting};
use crate::attempt::failure::SendErrorKind;
use crate::clock::{Clock, Instant};
use crate::error::Gate;
use crate::guard::Guard;
use crate::random::Random;

pub(crate) mod lent;

use lent::Lent;

/// A gate's no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Gate that refused.
    pub gate: Gate,
    /// Time to come back, where the gate knows it: the end of a pause or of an open circuit, the next room in the rate.
    /// `None` for a kill switch, a forced-open circuit and a full house.
    pub retry_at: Option<Instant>,
}

impl Refusal {
    pub(super) fn new(gate: Gate, retry_at: Option<Instant>) -> Refusal {
        Refusal { gate, retry_at }
    }
}

/// Evidence of an attempt about the vendor's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The vendor answered, be it with a refusal (4xx): it is alive.
    Success,
    /// The vendor did not answer usefully: 5xx, a timeout, a connection that broke.
    Failure,
    /// No evidence either way. A 429 is feedback on our load, for the pause and the limits; an attempt that its caller
    /// cut short, or that was never built, is our own doing.
    Neutral,
}

impl Outcome {
    /// Returns the outcome of an exchange without an answer, which its caller may have cut short.
    pub fn of_failure(failure: SendErrorKind, cut_short: bool) -> Outcome {
        match failure {
            // Ours: it was never built, or went elsewhere by a transport that follows redirects.
            SendErrorKind::Request | SendErrorKind::Local | SendErrorKind::Redirected => Outcome::Neutral,
            // As a 429: feedback on load, or a server that restarts gracefully.
            SendErrorKind::NotProcessed => Outcome::Neutral,
            _ if Guard::DeadlineIsNeutral.keeps(cut_short) => Outcome::Neutral,
            SendErrorKind::Dns
            | SendErrorKind::Connect
            | SendErrorKind::Tls
            | SendErrorKind::Timeout
            | SendErrorKind::Reset
            | SendErrorKind::Truncated => Outcome::Failure,
        }
    }
}

/// An operator's switch: while it is engaged nothing is sent.
#[derive(Debug, Default)]
pub(super) struct KillSwitch {
    engaged: AtomicBool,
    vendor: Arc<str>,
}

impl KillSwitch {
    /// Stops all calls from now on. Attempts under way go on.
    fn engage(&self) {
        if !self.engaged.swap(true, Ordering::Relaxed) {
            tracing::warn!(steadfast.vendor = &*self.vendor, "kill switch engaged");
        }
    }

    /// Lets calls through again.
    fn release(&self) {
        if self.engaged.swap(false, Ordering::Relaxed) {
            tracing::info!(steadfast.vendor = &*self.vendor, "kill switch released");
        }
    }

    /// Whether calls are stopped.
    #[inline]
    fn is_engaged(&self) -> bool {
        self.engaged.load(Ordering::Relaxed)
    }
}

/// The run-time state of one client's gates. Shared by all its calls. Operators reach it through the client, in
/// `client/gates.rs`.
#[derive(Debug)]
pub struct Gates {
    kill_switch: KillSwitch,
    pause: Pause,
    breaker: Option<Breaker>,
    circuits: Option<Circuits>,
    concurrency: Option<Concurrency>,
    rate: Option<(Rate, Turns)>,
    budget: Option<Budget>,
    recovery: Recovery,
    credentials: Credentials,
}

impl Gates {
    /// Open gates, as `policy` has them. The clock is read once, for the start of the rate limit; after that
    /// time enters by parameter, and must come from the same clock.
    #[allow(clippy::needless_pass_by_value, reason = "shared parts are handed over alike")]
    pub fn new(policy: &Policy, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Gates {
        Gates {
            kill_switch: KillSwitch::default(),
            pause: Pause::new(policy.pause_max),
            circuits: policy.breaker.map(|config| Circuits::new(config, Arc::clone(&random))),
            breaker: policy.breaker.map(|config| Breaker::new(config, random)),
            concurrency: policy.concurrency.map(Concurrency::new),
            rate: policy
                .rate
                .as_ref()
                .map(|config| (Rate::new(config, clock.now()), Turns::new(config, policy.recovery.share))),
            budget: policy.budget.as_ref().map(Budget::new),
            recovery: Recovery::new(&policy.recovery, policy.rate.as_ref(), policy.concurrency, clock.now()),
            credentials: Credentials::default(),
        }
    }

    /// Names the vendor in what these gates log.
    pub fn of_vendor(mut self, name: &str) -> Gates {
        self.kill_switch.vendor = name.into();
        self.breaker = self.breaker.map(|breaker| breaker.of_vendor(Arc::clone(&self.kill_switch.vendor)));
        self.circuits =
            self.circuits.map(|circuits| circuits.of_vendor(Arc::clone(&self.kill_switch.vendor)));
        self
    }

    /// Asks every gate in turn whether an attempt may go at `now`.
    ///
    /// # Errors
    ///
    /// The first gate that refused. The permits of earlier gates are given back.
    #[cfg(any(test, feature = "testkit"))]
    #[inline]
    pub fn admit(&self, now: Instant) -> Result<Admission<'_>, Refusal> {
        self.admit_to(None, now)
    }

    /// Asks every gate as [`admit`](Gates::admit) does, for an attempt on this method and path.
    ///
    /// # Errors
    ///
    /// As [`admit`](Gates::admit).
    #[inline]
    pub fn admit_to(&self, route: Option<&str>, now: Instant) -> Result<Admission<'_>, Refusal> {
        self.admit_if(route, now, |rate, turns| turns.admit_live(rate, now))
    }

    /// Asks every gate as [`admit`](Gates::admit) does, for an attempt of recovery. It has a share of the rate limit,
    /// and leaves the rest to live calls where they want it.
    ///
    /// # Errors
    ///
    /// As [`admit`](Gates::admit).
    #[cfg(any(test, feature = "testkit"))]
    pub fn admit_recovered(&self, now: Instant) -> Result<Admission<'_>, Refusal> {
        self.admit_recovered_to(None, now)
    }

    /// Asks every gate as [`admit_recovered`](Gates::admit_recovered) does, for an attempt on this method and path.
    ///
    /// # Errors
    ///
    /// As [`admit`](Gates::admit).
    pub fn admit_recovered_to(&self, route: Option<&str>, now: Instant) -> Result<Admission<'_>, Refusal> {
        self.admit_if(route, now, |rate, turns| turns.admit_recovered(rate, now))
    }

    #[inline]
    fn admit_if<'a>(
        &'a self,
        route: Option<&str>,
        now: Instant,
        in_turn: impl FnOnce(&'a Rate, &'a Turns) -> Result<Start<'a>, Instant>,
    ) -> Result<Admission<'a>, Refusal> {
        self.check_held(now)?;
        let permit = match &self.breaker {
            Some(breaker) => Some(breaker.admit(now).or_else(|refusal| {
                let is_untried = route.is_some_and(|route| self.is_untried(route));
                if is_untried { breaker.admit_untried(now) } else { Err(refusal) }
            })?),
            None => None,
        };
        let of_route = match (&self.breaker, &self.circuits, route) {
            (Some(breaker), Some(circuits), Some(route)) if decide(breaker) => circuits.admit(route, now)?,
            _ => None,
        };
        let place = match &self.concurrency {
            Some(concurrency) => {
                let place = concurrency.enter().or_else(|| self.enter_for_unread(concurrency, now));
                Some(place.ok_or_else(|| Refusal::new(Gate::Concurrency, None))?)
            }
            None => None,
        };
        let start = match &self.rate {
            Some((rate, turns)) => {
                Some(in_turn(rate, turns).map_err(|at| Refusal::new(Gate::Rate, Some(at)))?)
            }
            None => None,
        };
        Ok(Admission { gates: self, permit, of_route, place, start, admitted_at: now })
    }

    /// Whether a route has not failed, while others have.
    #[cold]
    fn is_untried(&self, route: &str) -> bool {
        self.circuits().is_some_and(|circuits| circuits.is_untried(route))
    }

    /// Takes a place of the streamed replies that are not read.
    #[cold]
    fn enter_for_unread<'a>(&self, concurrency: &'a Concurrency, now: Instant) -> Option<Place<'a>> {
        let count = concurrency.take_from_unread(now);
        if count > 0 {
            let vendor = &*self.kill_switch.vendor;
            tracing::warn!(
                steadfast.vendor = vendor,
                steadfast.count = count,
                "streamed replies are not read, and other calls take their places"
            );
        }
        // Also where another call was first to take them: it needed one.
        concurrency.enter()
    }

    /// Returns the number of recovered attempts that could start at `now`, without taking anything.
    ///
    /// # Errors
    ///
    /// The first gate that is closed.
    pub fn room_for_recovery(&self, now: Instant) -> Result<usize, Refusal> {
        self.check_held(now)?;
        let probes = match &self.breaker {
            Some(breaker) if is_probing(breaker, now)? => match breaker.places(now) as usize {
                0 => return Err(Refusal::new(Gate::Breaker, Some(now.plus(PROBES_AGAIN)))),
                places => places,
            },
            _ => usize::MAX,
        };
        Ok(self.room_in_limits(now)?.min(probes))
    }

    /// Whether one of a route that has not failed may go at `now`, though the account's circuit is not closed.
    pub fn has_room_for_untried(&self, now: Instant) -> bool {
        let is_open = self.breaker.as_ref().is_some_and(|breaker| !breaker.is_closed());
        is_open
            && self.circuits().is_some_and(Circuits::any)
            && self.check_held(now).is_ok()
            && self.room_in_limits(now).is_ok()
    }

    #[inline]
    fn check_held(&self, now: Instant) -> Result<(), Refusal> {
        if self.kill_switch.is_engaged() {
            return Err(Refusal::new(Gate::KillSwitch, None));
        }
        self.pause.check(now).map_err(|until| Refusal::new(Gate::Pause, Some(until)))
    }

    fn room_in_limits(&self, now: Instant) -> Result<usize, Refusal> {
        let places =
            self.concurrency.as_ref().map_or(usize::MAX, |concurrency| concurrency.room(now) as usize);
        if places == 0 {
            return Err(Refusal::new(Gate::Concurrency, None));
        }
        let starts = match &self.rate {
            Some((rate, turns)) => {
                turns.check_part(now).map_err(|at| Refusal::new(Gate::Rate, Some(at)))?;
                // Without room one may go and wait for its turn, or it would never have one.
                turns.room_for_recovery(rate, now).max(1) as usize
            }
            None => usize::MAX,
        };
        Ok(places.min(starts))
    }

    /// Whether the account's circuit lets probes through alone.
    pub fn probes(&self, now: Instant) -> bool {
        self.breaker.as_ref().is_some_and(|breaker| is_probing(breaker, now) == Ok(true))
    }

    /// Whether to be admitted takes nothing from the rate limit that is not given back unless the attempt starts.
    pub fn lend_room(&self) -> bool {
        self.rate.as_ref().is_none_or(|(rate, turns)| turns.is_free() && rate.lends_room())
    }

    /// Says that a recovered attempt waits for its turn in the rate limit, until the guard is dropped. `None` where it
    /// waits for nothing that a live call could take from it.
    pub fn wait_for_turn(&self, now: Instant) -> Option<Waiting<'_>> {
        let (_, turns) = self.rate.as_ref()?;
        turns.check_part(now).is_ok().then(|| turns.wait())
    }

    /// Recovery is shared with the dispatchers of other processes.
    pub fn divide(&self, part: &Part, now: Instant) {
        let part = if Guard::RecoveryShared.holds() { part } else { &Part::WHOLE };
        self.recovery.divide(part.dispatchers, now);
        if let Some((_, turns)) = &self.rate {
            turns.divide(part);
        }
    }

    /// Returns the number of live attempts that have started so far, wrapping, if the policy has a rate limit.
    pub fn live_started(&self) -> Option<u32> {
        self.rate.as_ref().map(|(rate, turns)| turns.live_started(rate))
    }

    /// Stops all calls from now on. Attempts under way go on.
    pub fn engage_kill_switch(&self) {
        self.kill_switch.engage();
    }

    /// Lets calls through again.
    pub fn release_kill_switch(&self) {
        self.kill_switch.release();
    }

    /// Whether calls are stopped.
    pub fn kill_switch_is_engaged(&self) -> bool {
        self.kill_switch.is_engaged()
    }

    /// Holds every call back for `wait` from `now`, cut to the configured most. Never shortens a pause.
    pub fn hold(&self, now: Instant, wait: Duration) {
        self.pause.hold_until(now, wait);
    }

    /// The end of the vendor's pause, if there is one at `now`.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.until(now)
    }

    /// Ends the vendor's pause. For an operator who knows better than the vendor's header.
    pub fn clear_pause(&self) {
        self.pause.clear();
    }

    /// The state of the circuit at `now`, whatever the breaker's mode. `None` if the policy has no breaker.
    pub fn breaker_state(&self, now: Instant) -> Option<BreakerState> {
        self.breaker.as_ref().map(|breaker| breaker.state(now))
    }

    /// Returns the breaker's mode. `None` if the policy has none.
    pub fn breaker_mode(&self) -> Option<Mode> {
        self.breaker.as_ref().map(Breaker::mode)
    }

    /// Sets who decides for the breaker. The state of the circuit is kept, and is what counts on the return to normal.
    /// Does nothing if the policy has no breaker.
    pub fn set_breaker_mode(&self, mode: Mode) {
        if let Some(breaker) = &self.breaker {
            breaker.set_mode(mode);
        }
    }

    /// Returns the number of calls that the breaker admitted by [`Mode::ObserveOnly`] and would have refused.
    pub fn would_be_refusals(&self) -> u64 {
        self.breaker.as_ref().map_or(0, Breaker::would_be_refusals)
    }

    /// Returns the rate of recovery.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The accounts whose credentials the vendor refused.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The retry budget, if the policy has one.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// The vendor's pause.
    pub fn pause(&self) -> &Pause {
        &self.pause
    }

    /// The circuits of routes, if the policy has a breaker that decides.
    pub fn circuits(&self) -> Option<&Circuits> {
        self.circuits.as_ref().filter(|_| self.breaker.as_ref().is_some_and(decide))
    }

    /// The circuit breaker, if the policy has one.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.breaker.as_ref()
    }

    /// Returns the number of attempts under way, if the policy limits them. A streamed reply is one until its body has
    /// ended, or until another call has taken its place because it is not read.
    pub fn under_way(&self) -> Option<u32> {
        self.concurrency.as_ref().map(Concurrency::under_way)
    }

    /// The caller of a streamed reply asks for more.
    pub fn is_read(&self, lent: &Lent, now: Instant) {
        if let Some((concurrency, streamed)) = self.concurrency.as_ref().zip(lent.place.as_ref()) {
            concurrency.is_read(streamed, now);
        }
    }

    /// Takes back what was lent. `call` is the number of a call that failed before: its failures count once.
    #[allow(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub fn take_back(&self, lent: Lent, outcome: Outcome, call: Option<u64>, now: Instant) {
        if let (Some(breaker), Some(word)) = (&self.breaker, lent.counted) {
            Permit::counted(breaker, word).settle_for(call, outcome, lent.latency, now);
        }
        if let Some((concurrency, streamed)) = self.concurrency.as_ref().zip(lent.place) {
            concurrency.has_ended(&streamed);
        }
    }
}

/// Leave for one attempt. Dropped without [`settle`](Admission::settle), everything is given back and nothing
/// is counted, but for the start of an attempt that [began](Admission::begin).
#[derive(Debug)]
#[must_use = "an admission that is dropped at once is a cancelled attempt"]
pub struct Admission<'a> {
    gates: &'a Gates,
    permit: Option<Permit<'a>>,
    of_route: Option<RoutePermit>,
    place: Option<Place<'a>>,
    start: Option<Start<'a>>,
    admitted_at: Instant,
}

impl Admission<'_> {
    /// Whether it is a probe: its outcome decides whether an open circuit, of the vendor or of a route, closes.
    pub fn is_probe(&self) -> bool {
        let is_of_route = self.of_route.as_ref().is_some_and(RoutePermit::is_probe);
        is_of_route || self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Returns the time at which the gates admitted the attempt, or at which it [began](Admission::begin).
    pub fn admitted_at(&self) -> Instant {
        self.admitted_at
    }

    /// The attempt starts at `now`, right before its first byte may leave: what came between, such as a claim in the
    /// store, is not the vendor's latency. From here on it has used its room in the rate, also if it is cancelled.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.admitted_at = now;
        if let Some(start) = &mut self.start {
            start.begin(now);
        }
    }

    /// Says how the attempt went, at `now`. Its latency is the time since it was admitted or [began](Admission::begin).
    ///
    /// It counts as the only attempt of its call. For a call that is sent more than once there is
    /// [`settle_attempt_of`](Admission::settle_attempt_of).
    #[inline]
    pub fn settle(self, outcome: Outcome, now: Instant) {
        self.settle_for(None, outcome, now);
    }

    /// Settles an attempt of `call`, a number that all attempts of one call share. The breaker counts its failures once
    /// until the vendor succeeds again.
    #[cfg(any(test, feature = "testkit"))]
    #[inline]
    pub fn settle_attempt_of(self, call: u64, outcome: Outcome, now: Instant) {
        self.settle_for(Some(call), outcome, now);
    }

    /// Whether the route of an attempt with this outcome is asked for at its [end](Admission::settle_to).
    #[inline]
    pub fn asks_for_route(&self, outcome: Outcome, now: Instant) -> bool {
        let Some(circuits) = self.gates.circuits().filter(|_| self.permit.is_some()) else {
            return false;
        };
        match outcome {
            Outcome::Success => circuits.is_to_note(now),
            Outcome::Failure => true,
            Outcome::Neutral => false,
        }
    }

    /// Settles as [`settle_attempt_of`](Admission::settle_attempt_of) does, for an attempt on this method and path.
    /// Returns true if its end is evidence about the vendor, and not about its route or itself alone.
    pub fn settle_to(mut self, route: &str, call: Option<u64>, outcome: Outcome, now: Instant) -> bool {
        let both = self.gates.breaker.as_ref().zip(self.gates.circuits());
        let (Some((breaker, circuits)), Some(permit)) = (both, self.permit.take()) else {
            self.settle_for(call, outcome, now);
            return true;
        };
        if let Some(start) = &mut self.start {
            start.begin(self.admitted_at);
        }
        let ended = Ended { call, outcome, latency: now.since(self.admitted_at), now };
        let evidence = circuits.settle((breaker, permit), self.of_route.take(), route, ended);
        if evidence == Evidence::OnlyOfRoutes {
            self.gates.recovery.resume(now);
        }
        evidence == Evidence::Something
    }

    #[inline]
    fn settle_for(mut self, call: Option<u64>, outcome: Outcome, now: Instant) {
        if let Some(start) = &mut self.start {
            start.begin(self.admitted_at);
        }
        if let Some(permit) = self.permit {
            permit.settle_for(call, outcome, now.since(self.admitted_at), now);
        }
    }

    /// Notes what this admission holds, at `now`, when the answer's head has come. A body that is left for `idle` counts
    /// as not read.
    pub fn lend(self, now: Instant, idle: Duration) -> Lent {
        let latency = now.since(self.admitted_at);
        if let Some(of_route) = self.of_route.filter(RoutePermit::is_probe) {
            of_route.settle(Ended { call: None, outcome: Outcome::Success, latency, now });
        }
        let counted = self.permit.and_then(|permit| permit.lend(latency, now));
        Lent { counted, place: self.place.and_then(|place| place.lend(now, idle)), latency }
    }
}

/// Pause until a probe that is under way may have ended.
const PROBES_AGAIN: Duration = Duration::from_millis(250);

/// Whether the circuit lets probes through alone.
fn is_probing(breaker: &Breaker, now: Instant) -> Result<bool, Refusal> {
    match (breaker.mode(), breaker.state(now)) {
        (Mode::ForcedOpen, _) => Err(Refusal::new(Gate::Breaker, None)),
        (Mode::Normal, BreakerState::Open { left }) => Err(Refusal::new(Gate::Breaker, Some(now.plus(left)))),
        (Mode::Normal, BreakerState::HalfOpen) => Ok(true),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests;
