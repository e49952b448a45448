//! Leave for one call, as a guard.

use std::mem;
use std::time::Duration;

use super::Breaker;
use crate::clock::Instant;
use crate::guard::Guard;
use crate::policy::gates::Outcome;

/// Leave for one call. Dropped without [`settle`](Permit::settle) it was cancelled: its place among the probes
/// is free again, and nothing is counted.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once is a cancelled call"]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    /// Generation and state of the circuit at admission.
    word: u64,
    kind: Kind,
}

/// A permit without its circuit.
#[derive(Clone, Copy, Debug)]
pub struct Detached {
    word: u64,
    kind: Kind,
}

impl Detached {
    pub fn is_probe(self) -> bool {
        self.kind == Kind::Probe
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Admitted by a closed circuit.
    Counted,
    /// A place of a half-open circuit.
    Probe,
    /// Admitted by an operator's word, or settled.
    Uncounted,
}

impl<'a> Permit<'a> {
    #[inline]
    pub(super) fn new(breaker: &'a Breaker, word: u64, kind: Kind) -> Permit<'a> {
        Permit { breaker, word, kind }
    }

    /// Whether it holds one of the places of a half-open circuit.
    pub fn is_probe(&self) -> bool {
        self.kind == Kind::Probe
    }

    /// Generation and state of the circuit at admission.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// Separates the permit from its circuit, for a circuit that is shared: see [`attached`](Permit::attached).
    pub fn detach(mut self) -> Detached {
        Detached { word: self.word, kind: mem::replace(&mut self.kind, Kind::Uncounted) }
    }

    /// The permit that was [detached](Permit::detach) from this circuit.
    pub fn attached(breaker: &'a Breaker, detached: Detached) -> Permit<'a> {
        Permit { breaker, word: detached.word, kind: detached.kind }
    }

    /// A permit that was [lent](Permit::lend).
    pub fn counted(breaker: &'a Breaker, word: u64) -> Permit<'a> {
        Permit::new(breaker, word, Kind::Counted)
    }

    /// Returns the word that names the permit of a call that goes on after its answer's head has come; `None` if it no
    /// longer counts. A probe is judged now.
    pub fn lend(mut self, latency: Duration, now: Instant) -> Option<u64> {
        match mem::replace(&mut self.kind, Kind::Uncounted) {
            Kind::Counted => Some(self.word),
            Kind::Probe => {
                self.breaker.judge(self.word, Outcome::Success, latency, now);
                None
            }
            Kind::Uncounted => None,
        }
    }

    /// Says how the call went, how long it took, and when it ended. A permit of an older generation is ignored.
    ///
    /// The call counts as another one than all before it. For one that is sent more than once there is
    /// [`settle_attempt_of`](Permit::settle_attempt_of).
    #[cfg(any(test, feature = "testkit"))]
    #[inline]
    pub fn settle(self, outcome: Outcome, latency: Duration, now: Instant) {
        self.settle_for(None, outcome, latency, now);
    }

    /// Settles an attempt of `call`, a number that all attempts of one call share. Its failures count once until the
    /// vendor succeeds again.
    #[cfg(any(test, feature = "testkit"))]
    #[inline]
    pub fn settle_attempt_of(self, call: u64, outcome: Outcome, latency: Duration, now: Instant) {
        self.settle_for(Some(call), outcome, latency, now);
    }

    #[inline]
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn settle_for(mut self, call: Option<u64>, outcome: Outcome, latency: Duration, now: Instant) {
        match mem::replace(&mut self.kind, Kind::Uncounted) {
            Kind::Counted => self.breaker.record(self.word, call, outcome, latency, now),
            Kind::Probe => self.breaker.judge(self.word, outcome, latency, now),
            Kind::Uncounted => {}
        }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.kind == Kind::Probe && Guard::ProbeGivenBack.holds() {
            self.breaker.give_back(self.word);
        }
    }
}

#[cfg(test)]
impl Permit<'_> {
    /// Whether this holds a place among the probes of the round that `word` names.
    pub(super) fn is_probe_of(&self, word: u64) -> bool {
        self.kind == Kind::Probe && self.word == word
    }
}
