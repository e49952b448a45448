//! Finding out what became of an operation whose answer was lost.
//!
//! A lookup is believed only after the vendor's settle time, counted from the end of the last attempt that may have
//! taken effect. An index lags, and a request that timed out here may still be executing there. It goes through the
//! same gates as every call.
//!
//! A lookup that failed is not a lookup. It is tried again on the ladder, and once the call's time is over by
//! recovery. Those that were answered are counted, over all runs.

use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, HeaderValue};

use steadfast_core::clock::Instant;
use steadfast_core::internal::attempt::{LOOK_UP, report};
use steadfast_core::internal::error::Chain;
use steadfast_core::internal::ext::VerdictExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::Admission;
use steadfast_core::transport::{Answer, Request, SendError, SendErrorKind};
use steadfast_core::vendor::{Attempt, Finding, Subject, Verdict};
use steadfast_core::{Effect, Error};

use super::credentials::RefusedAs;
use super::phase::{Phase, Run};
use super::settling::Settling;
use crate::telemetry;

/// What the lookups came to.
pub(super) enum Looked {
    /// The effect, in the shape of the lost answer.
    Found(Answer),
    /// Provably none.
    Absent,
    /// The lookup cannot tell.
    CannotTell,
}

impl<'a> Run<'a> {
    /// Whether this vendor has a lookup for the operation.
    pub(super) fn has_look_up(&self) -> bool {
        self.first_question().is_some()
    }

    /// The earliest that a lookup counts, and that the vendor wants to be asked.
    pub(super) fn look_up_at(&self) -> Instant {
        self.settled_at().max(self.left_alone_until.unwrap_or_default())
    }

    /// Waits out the settle time and looks the effect up, as often as the policy allows if the vendor cannot tell.
    /// `Err` holds when to look it up where this call cannot wait for that.
    pub(super) async fn looked_up(&mut self) -> Result<Result<Looked, Instant>, Error> {
        let Some(question) = self.first_question() else { return Ok(Ok(Looked::CannotTell)) };
        let look_ups_max = self.engine.policy.look_ups_max;
        let mut look_ups = self.phase.look_ups();
        let mut failures = Failures::default();
        let mut at = self.settled_at();
        while look_ups < look_ups_max {
            let asked = self.asked();
            if !asked.is_zero() {
                at = self.not_early(at, self.engine.random.unit());
            }
            if at >= self.deadline || self.is_over_the_cap(asked) || self.is_too_long_to_sleep(at) {
                if self.is_past_keeping() {
                    return Ok(Ok(Looked::CannotTell));
                }
                return Ok(Err(if failures.count > 0 { at.max(self.much_later()) } else { at }));
            }
            self.sleep_until(at).await?;
            let begun = self.engine.clock.now();
            let (looked, met) = self.ask(question.clone()).await?;
            self.report_look_up(looked.as_ref(), met, begun);
            telemetry::looked_up(self.whose(), looked.as_ref().map_or("failed", Looked::name));
            match looked {
                None if Guard::FailedLookUp.holds() => {
                    if self.is_ended_by_an_outage() {
                        return Ok(Ok(Looked::CannotTell));
                    }
                    at = self.after_failed_look_up(&mut failures);
                }
                None | Some(Looked::CannotTell) => {
                    look_ups = look_ups.saturating_add(1);
                    self.count_look_up();
                    failures = Failures::default();
                    let gap = self.engine.vendor.settle_time().max(LOOK_UP_GAP_MIN);
                    at = self.engine.clock.now().plus(gap);
                }
                Some(answered) => {
                    self.count_look_up();
                    return Ok(Ok(answered));
                }
            }
        }
        Ok(Ok(Looked::CannotTell))
    }

    /// When the settle time is over. It counts once, from the last send that may have taken effect, also if another
    /// process sent it.
    fn settled_at(&self) -> Instant {
        let settle = Guard::SettleTime.keeps(self.engine.vendor.settle_time());
        match (self.phase, self.settling()) {
            (Phase::Unknown { since: Some(ours), .. }, _) => ours.plus(settle),
            (_, Some(theirs)) if Guard::SettleOnce.holds() => theirs.over_at(settle),
            _ => self.engine.clock.now().plus(settle),
        }
    }

    fn settling(&self) -> Option<Settling> {
        self.hold.as_ref()?.settling
    }

    /// For how long the effect has been unknown: since this run's own last such send, or an earlier one.
    pub(super) fn unknown_for(&self) -> Duration {
        let now = self.engine.clock.now();
        match self.phase {
            Phase::Unknown { since: Some(ours), .. } => now.since(ours),
            _ => self.settling().map_or(Duration::ZERO, |settling| settling.unknown_for(now)),
        }
    }

    /// True once the effect has been unknown for a day, or for the retention. Lookups that keep failing are postponed
    /// until then. After that the operation becomes a dead letter: every operation ends in one state, and an operator
    /// is told within a day.
    ///
    /// No lookup failed while no process held the operation. So a process that has just found it tries for an hour
    /// first, unless the operation is older than the retention.
    pub(super) fn is_past_keeping(&self) -> bool {
        let keep = self.engine.policy.retention;
        let unknown_for = self.unknown_for();
        let is_tried = || match (self.phase, self.settling()) {
            (Phase::Unknown { since: None, .. }, Some(settling)) => {
                settling.known_for(self.engine.clock.now()) >= LOOK_UP_GAP_MAX
            }
            _ => true,
        };
        let is_held = self.refused_as.is_some_and(RefusedAs::goes_on);
        unknown_for >= keep || (unknown_for >= LOOK_UPS_LAST && !is_held && is_tried())
    }

    /// The next step of the ladder; from its end on its last one, but no less than [`LADDER_SPENT_GAP`].
    fn after_failed_look_up(&self, failures: &mut Failures) -> Instant {
        let unit = self.engine.random.unit();
        let last = u32::try_from(self.backoff.steps.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let step = self.backoff.wait(failures.count.min(last), failures.wait, unit);
        failures.wait = step.unwrap_or_default();
        let is_spent = self.backoff.steps.len() <= failures.count as usize;
        let floor =
            if is_spent { LADDER_SPENT_GAP.mul_f64(f64::midpoint(1.0, unit)) } else { LOOK_UP_GAP_MIN };
        failures.count = failures.count.saturating_add(1);
        self.engine.clock.now().plus(failures.wait.max(floor))
    }

    /// When to look up what has failed to be for all of a call's time: the longer it has been unknown, the later. A
    /// lookup that a vendor refuses for good is then not made every few seconds until the retention is over.
    fn much_later(&self) -> Instant {
        self.engine.clock.now().plus(grown(self.unknown_for()))
    }

    /// One lookup, all its pages; `None` if it failed. A failure on the way is never taken for an absence.
    async fn ask(&mut self, mut question: Request) -> Result<(Option<Looked>, Met), Error> {
        let mut met = Met::default();
        for _ in 0..PAGES_MAX {
            // A miss that a cache remembers is older than the send that is asked about.
            if Guard::LookUpPastCaches.holds() {
                question.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            }
            let mut admission = self.admit_look_up(&question).await?;
            let (admitted, begun) = (admission.admitted_at(), self.engine.clock.now());
            admission.begin(begun);
            let bounds = self.bounds(&admission);
            let exchanged = self.engine.exchange(&question, bounds, admitted, begun, None).await;
            self.account(admission, &question, &exchanged);
            let judged_at = self.engine.wall();
            let attempt = Attempt::new(&question, false, exchanged.outcome.as_ref(), judged_at);
            let verdict = self.engine.vendor.classify(&attempt).believed();
            self.heed(&verdict, &exchanged.outcome, exchanged.ended);
            let moments = (begun, exchanged.ended);
            self.heed_credentials(&verdict, &exchanged.outcome, moments).await;
            let answer = match exchanged.outcome {
                Ok(answer) => answer,
                Err(failure) => return Ok((None, Met::failed(&failure))),
            };
            met.status = Some(answer.status.as_u16());
            let Some(subject) = self.subject() else { return Ok((None, met)) };
            if Guard::CutLookUp.keeps(answer.cut) {
                met.failure = Some("the answer is over the limit".to_owned());
                return Ok((None, met));
            }
            if Guard::CachedLookUp.keeps(is_from_a_cache(&answer)) {
                met.failure = Some("the answer is from a cache on the way".to_owned());
                return Ok((None, met));
            }
            // Not now, or not the vendor's own word.
            if matches!(verdict, Verdict::Retry { .. } | Verdict::Unknown) {
                return Ok((None, met));
            }
            let found = self.engine.vendor.read_look_up(&subject, &question, &answer);
            if found == Finding::Absent && Guard::MissWithinAnHour.keeps(self.is_late_for_a_miss().await) {
                return Ok((Some(Looked::CannotTell), met));
            }
            match found {
                Finding::Found(answer) => return Ok((Some(Looked::Found(answer)), met)),
                Finding::Absent => return Ok((Some(Looked::Absent), met)),
                // Credentials that are mended, or a page that goes away, leave the question to be asked again.
                Finding::CannotTell if matches!(verdict, Verdict::Refused { .. }) => return Ok((None, met)),
                Finding::Unanswered => return Ok((None, met)),
                Finding::CannotTell => return Ok((Some(Looked::CannotTell), met)),
                Finding::Next(next) => question = next,
            }
        }
        met.failure = Some(format!("no end after {PAGES_MAX} pages"));
        Ok((Some(Looked::CannotTell), met))
    }

    /// Whether a miss proves nothing: what was made may have been deleted since, and is not listed any more. It counts from
    /// the first send that no lookup has excluded.
    async fn is_late_for_a_miss(&self) -> bool {
        if self.engine.vendor.lists_deleted(self.request) {
            return false;
        }
        let Some(record) = self.hold.as_ref().map(|hold| &hold.record) else { return false };
        let Some(log) = Box::pin(self.log_of(record)).await else { return true };
        let own = self.reports.get(self.reports_written..).unwrap_or_default();
        let (mut first, mut last) = (None, record.claimed_at);
        for report in log.iter().chain(own) {
            last = last.max(report.started_at);
            match (report.is_look_up(), report.effect) {
                (true, Effect::None) => first = None,
                (false, Effect::Unknown) => drop(first.get_or_insert(report.started_at)),
                _ => {}
            }
        }
        // A process that died while it sent left no line: that send came after all that are on the log.
        let since_first = self.engine.wall().since(first.unwrap_or(last));
        self.unknown_for().max(since_first) > MISS_LAST
    }

    /// Waits for the gates, and keeps the lease for the lookup.
    async fn admit_look_up(&mut self, question: &Request) -> Result<Admission<'a>, Error> {
        loop {
            let admission = self.admit_again(question).await?;
            if Guard::LookUpKeepsLease.holds() {
                self.keep_lease(self.timeout.attempt).await?;
            }
            if !self.is_asked_to_wait(self.engine.clock.now()) {
                return Ok(admission);
            }
        }
    }

    /// Leaves a line on the operation's log: what it met, and what it found.
    fn report_look_up(&mut self, looked: Option<&Looked>, met: Met, begun: Instant) {
        let latency = self.engine.clock.now().since(begun);
        let effect = looked.map_or(Effect::Unknown, Looked::effect);
        let mut report = report(self.attempts, self.engine.wall().minus(latency), LOOK_UP, effect);
        report.latency = latency;
        (report.status, report.failure_kind, report.failure) = (met.status, met.failure_kind, met.failure);
        self.reports.push(report);
    }

    fn first_question(&self) -> Option<Request> {
        self.engine.vendor.look_up(&self.subject()?)
    }

    fn subject(&self) -> Option<Subject<'_>> {
        let record = &self.hold.as_ref()?.record;
        // As it is sent now: the vendor may have moved since it was recorded.
        let subject = Subject::new(self.request, &record.wire_key, record.claimed_at);
        Some(subject.with_vendor_clock(record.vendor_clock_ms))
    }
}

/// RFC 9111, section 5.1: an `Age` says for how long a cache has had the answer.
fn is_from_a_cache(answer: &Answer) -> bool {
    let age = answer.headers.get(AGE).and_then(|age| age.to_str().ok());
    age.is_some_and(|age| age.trim() != "0")
}

/// Lookups that failed, one after the other.
#[derive(Default)]
struct Failures {
    count: u32,
    /// Before the last of them.
    wait: Duration,
}

impl Looked {
    const fn effect(&self) -> Effect {
        match self {
            Looked::Found(_) => Effect::Applied,
            Looked::Absent => Effect::None,
            Looked::CannotTell => Effect::Unknown,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Looked::Found(_) => "found",
            Looked::Absent => "absent",
            Looked::CannotTell => "cannot_tell",
        }
    }
}

/// How long lookups that come to no answer are repeated: a vendor's outage is over within the day, and a person who is
/// told later can do less.
pub(super) const LOOK_UPS_LAST: Duration = Duration::from_secs(24 * 3600);

/// How long after a send a miss proves that nothing was made, where what is deleted is not listed. Staff who delete what
/// was made a moment ago are rare, and later on they are not.
const MISS_LAST: Duration = Duration::from_secs(60 * 60);

/// What a lookup met on its way.
#[derive(Default)]
struct Met {
    status: Option<u16>,
    /// Only if no whole answer came.
    failure_kind: Option<SendErrorKind>,
    failure: Option<String>,
}

impl Met {
    fn failed(failure: &SendError) -> Met {
        Met { status: None, failure_kind: Some(failure.kind()), failure: Some(Chain(failure).to_string()) }
    }
}

/// A bound on pages, should an adapter never stop asking for the next.
const PAGES_MAX: usize = 50;

/// Between two lookups where the vendor needs no settle time, and where the ladder's wait is drawn as none.
const LOOK_UP_GAP_MIN: Duration = Duration::from_secs(1);

/// The wait between two lookups that failed, once as many did as the ladder has steps: half of it to all of it. So a
/// policy with a short ladder, or none, does not ask a vendor that is down every second. It is the shipped ladder's
/// last step.
const LADDER_SPENT_GAP: Duration = Duration::from_secs(30);

/// The wait after `failing_for` without success, a tenth of it. What fails for a minute is tried again within
/// seconds, and what fails for a week about a hundred times in all.
pub(super) fn grown(failing_for: Duration) -> Duration {
    (failing_for / 10).min(LOOK_UP_GAP_MAX)
}

/// However long it has failed: a vendor that answers again is asked within the hour.
pub(super) const LOOK_UP_GAP_MAX: Duration = Duration::from_secs(60 * 60);
