//! Finding out what became of an operation whose answer was lost.
//!
//! A look-up is believed only after the vendor's settle time, counted from the end of the last attempt that
//! may have taken effect: an index lags, and a request that timed out here may still be executing there. It
//! goes through the same gates as every call.

use std::time::Duration;

use super::run::Run;
use super::waits::spread_over;
use crate::answer::Answer;
use crate::clock::Instant;
use crate::error::{Error, Step};
use crate::request::Request;
use crate::telemetry;
use crate::vendor::{Attempt, Finding, Subject};

/// What the look-ups came to.
pub(super) enum Looked {
    /// The effect, in the shape of the lost answer.
    Found(Answer),
    /// Provably none.
    Absent,
    /// Nobody can tell.
    CannotTell,
}

impl Run<'_> {
    /// Whether this vendor has a look-up for the operation.
    pub(super) fn has_look_up(&self) -> bool {
        self.first_question().is_some()
    }

    /// Waits out the settle time and looks the effect up, a few times if the vendor cannot tell at first.
    ///
    /// # Errors
    ///
    /// When time runs out first; the operation is scheduled and the look-up comes first when it is resumed.
    pub(super) async fn look_up(&mut self) -> Result<Looked, Error> {
        let Some(question) = self.first_question() else { return Ok(Looked::CannotTell) };
        let settle = self.engine.vendor.settle_time();
        let mut at = self.settled_at(settle);
        for _ in 0..self.engine.policy.look_ups_max {
            let asked = self.left_alone_until.since(self.engine.clock.now());
            if !asked.is_zero() {
                let spread = spread_over(asked, self.engine.random.unit());
                at = at.max(self.left_alone_until.plus(spread));
            }
            if at >= self.deadline || self.is_over_the_cap(asked) {
                if self.is_past_keeping() {
                    return Ok(Looked::CannotTell);
                }
                if at >= self.deadline {
                    return Err(self.out_of_time(at, Step::LookUp).await);
                }
                let kind = self.dependency();
                return Err(self.postpone(at, kind).await);
            }
            self.sleep_until(at).await?;
            let looked = self.ask(question.clone()).await?;
            telemetry::looked_up(self.whose(), looked.name());
            match looked {
                Looked::CannotTell => at = self.engine.clock.now().plus(settle.max(LOOK_UP_GAP_MIN)),
                answered => return Ok(answered),
            }
        }
        Ok(Looked::CannotTell)
    }

    /// When the settle time is over. It counts once, from the last send that may have taken effect, whoever sent it:
    /// on our own clock if we did, else from what is on record.
    fn settled_at(&self, settle: Duration) -> Instant {
        let clock = &self.engine.clock;
        let on_record = self.hold.as_ref().and_then(|hold| hold.record.unknown_since);
        match (self.unknown_since, on_record) {
            (Some(ours), _) => ours.plus(settle),
            (None, Some(theirs)) => clock.now().plus(theirs.plus(settle).since(clock.wall())),
            (None, None) => clock.now().plus(settle),
        }
    }

    /// Whether its effect has been unknown for longer than a settled one would be kept. Look-ups that never come to an answer
    /// are postponed from call to call until then, and no longer: every operation ends in one state.
    fn is_past_keeping(&self) -> bool {
        let on_record = self.hold.as_ref().and_then(|hold| hold.record.unknown_since);
        on_record.is_some_and(|since| self.engine.clock.wall().since(since) >= self.engine.policy.record.keep)
    }

    /// One look-up, all its pages. A failure on the way is never taken for an absence.
    async fn ask(&mut self, mut question: Request) -> Result<Looked, Error> {
        for _ in 0..PAGES_MAX {
            let mut admission = self.admit_again().await?;
            let admitted = admission.admitted_at();
            self.keep_lease(self.timeout.attempt).await?;
            let begun = self.engine.clock.now();
            admission.begin(begun);
            let exchanged = self.exchange(question.clone(), admitted, begun).await;
            self.account(admission, &exchanged);
            let judged_at = self.engine.clock.wall();
            let attempt = Attempt::new(&question, false, exchanged.outcome.as_ref(), judged_at);
            let verdict = self.engine.vendor.classify(&attempt);
            self.heed(&verdict, &exchanged.outcome, exchanged.ended);
            let Ok(answer) = exchanged.outcome else { return Ok(Looked::CannotTell) };
            let Some(subject) = self.subject() else { return Ok(Looked::CannotTell) };
            if answer.cut {
                return Ok(Looked::CannotTell);
            }
            match self.engine.vendor.read_look_up(&subject, &question, &answer) {
                Finding::Found(answer) => return Ok(Looked::Found(answer)),
                Finding::Absent => return Ok(Looked::Absent),
                Finding::CannotTell => return Ok(Looked::CannotTell),
                Finding::Next(next) => question = next,
            }
        }
        Ok(Looked::CannotTell)
    }

    fn first_question(&self) -> Option<Request> {
        self.engine.vendor.look_up(&self.subject()?)
    }

    fn subject(&self) -> Option<Subject<'_>> {
        let record = &self.hold.as_ref()?.record;
        let subject = Subject::new(&record.request, &record.wire_key, record.claimed_at);
        Some(subject.with_vendor_clock(record.vendor_clock_ms))
    }
}

impl Looked {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Looked::Found(_) => "found",
            Looked::Absent => "absent",
            Looked::CannotTell => "cannot_tell",
        }
    }
}

/// A bound on pages, should an adapter never stop asking for the next.
const PAGES_MAX: usize = 50;

/// Between two look-ups where the vendor needs no settle time.
const LOOK_UP_GAP_MIN: Duration = Duration::from_secs(1);
