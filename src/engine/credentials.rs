//! What refused credentials mean for an operation without a caller: see [`policy::credentials`](crate::policy).

use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Admission, Refusal as GateRefusal};
use steadfast_core::operation::RouteName;
use steadfast_core::operation::record::Record;
use steadfast_core::transport::{Answer, Request, SendError};
use steadfast_core::vendor::Verdict;
use steadfast_core::{AttemptReport, Error, Gate, Reason, Refusal};

use super::hold::Hold;
use super::{Engine, Run};
use crate::reply::Reply;
use crate::telemetry;

/// Whose the refusal of an operation's credentials is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedAs {
    /// The account's: its operations wait.
    Account,
    /// Perhaps the operation's own: others are answered well. It was refused so often before, in a row.
    AtTimes { refusals: usize },
    /// The operation's own: others are answered well, and it has climbed its ladder.
    Alone,
}

impl RefusedAs {
    /// Whether the operation stays due.
    pub(super) fn goes_on(self) -> bool {
        self != RefusedAs::Alone
    }
}

impl<'a> Run<'a> {
    /// Asks the gates for an attempt or a lookup of recovery.
    pub(super) fn admit_of_account(
        &self,
        request: &Request,
        now: Instant,
    ) -> Result<Admission<'a>, GateRefusal> {
        let gates = &self.engine.gates;
        let route = self.engine.route_if_asked(request);
        let Some(hold) = self.hold.as_ref().filter(|_| gates.credentials().any()) else {
            return gates.admit_recovered_to(route.as_deref(), now);
        };
        let path = hold.record.id.scope.account_path();
        gates
            .credentials()
            .check(path, now)
            .map_err(|at| GateRefusal { gate: Gate::Credentials, retry_at: Some(at) })?;
        let admission = gates.admit_recovered_to(route.as_deref(), now)?;
        gates.credentials().probes(path, now, self.timeout.attempt);
        Ok(admission)
    }

    /// Notes what an attempt or a lookup says of the account's credentials.
    pub(super) async fn heed_credentials(
        &mut self,
        verdict: &Verdict,
        outcome: &Result<Answer, SendError>,
        (begun, ended): (Instant, Instant),
    ) {
        self.refused_as = None;
        let is_accepted = self.hold.as_ref().is_some_and(|hold| hold.is_accepted);
        let is_refused = is_accepted && refuses_credentials(verdict, outcome);
        if is_refused {
            self.refused_as = Box::pin(self.note_refused(begun, ended)).await;
        } else if self.engine.gates.credentials().any() {
            self.note_accepted(verdict, ended);
        }
    }

    async fn note_refused(&self, begun: Instant, ended: Instant) -> Option<RefusedAs> {
        let (engine, record) = (self.engine, &self.hold.as_ref()?.record);
        if Guard::CredentialsHold.is_out() {
            return None;
        }
        let (path, route) = (record.id.scope.account_path(), RouteName::of(record.id.scope.route()));
        let credentials = engine.gates.credentials();
        let whose = match self.refused_before(record).await {
            Some((before, refusals)) if credentials.is_answered_since(path, before) => {
                if refusals > self.backoff.steps.len() {
                    RefusedAs::Alone
                } else {
                    RefusedAs::AtTimes { refusals }
                }
            }
            _ => RefusedAs::Account,
        };
        if whose != RefusedAs::Account {
            credentials.undecided(path, ended);
        } else if credentials.refused((path, route), begun, ended) {
            telemetry::credentials::held(engine.vendor.name(), path);
        }
        Some(whose)
    }

    fn note_accepted(&self, verdict: &Verdict, ended: Instant) {
        let (engine, credentials) = (self.engine, self.engine.gates.credentials());
        let of_call;
        let scope = match &self.hold {
            Some(hold) => &hold.record.id.scope,
            None => {
                of_call = engine.scope_of(self.request);
                &of_call
            }
        };
        let path = scope.account_path();
        match verdict {
            Verdict::Done { .. } if credentials.answered(path, ended).is_some() => {
                telemetry::credentials::released(engine.vendor.name(), path);
            }
            Verdict::Done { .. } => {}
            _ if self.recovered => credentials.undecided(path, ended),
            _ => {}
        }
    }

    /// When the operation's credentials were last refused in an earlier run, and how often in a row.
    async fn refused_before(&self, record: &Record) -> Option<(Instant, usize)> {
        if record.fence == record.first_fence.saturating_add(1) && record.attempts == 0 {
            return None;
        }
        let reports = self.log_of(record).await?;
        let is_refused = |report: &AttemptReport| {
            let by_adapter = report.verdict == UNAUTHORIZED;
            report.status.is_some_and(|status| is_refused_with(status, by_adapter))
        };
        let attempts = || reports.iter().rev().filter(|report| !report.is_look_up());
        let last = attempts().find(|report| is_refused(report))?;
        let in_a_row = attempts().take_while(|report| is_refused(report)).count();
        Some((self.engine.instant_of(last.started_at.plus(last.latency)), in_a_row))
    }

    /// After a refusal of the credentials: leaves the operation due, as it was, for as long as records are
    /// [kept](Engine::give_up). It is a dead letter if the refusal is its own.
    pub(super) async fn after_refused_credentials(&mut self, whose: RefusedAs) -> Result<Reply, Error> {
        let wait = match whose {
            RefusedAs::Alone => return self.exhausted_by(Reason::Credentials).await,
            RefusedAs::AtTimes { refusals } => {
                let step = u32::try_from(refusals.saturating_sub(1)).unwrap_or(u32::MAX);
                self.backoff.wait(step, Duration::ZERO, self.engine.random.unit()).unwrap_or_default()
            }
            // Nobody is woken for it: it is left out of each take while the account is held. It is due at once, unless the
            // answer asks for a wait.
            RefusedAs::Account => Duration::ZERO,
        };
        let due = self.engine.clock.now().plus(wait);
        Err(self.schedule(due, Kind::Gate(Gate::Credentials)).await)
    }
}

impl Engine {
    /// Ends a taken operation that has waited for its account's credentials for too long.
    pub(crate) async fn give_up(&self, record: Record, lease_until: Instant) -> Result<Reply, Error> {
        let work = super::Work::background(record.on_unknown);
        let request = std::sync::Arc::clone(&record.request);
        let started = self.clock.now();
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        let hold = Hold::new(self, record, lease_until);
        let mut run = Run::new(self, &work, &request, Some(hold), started, deadline);
        Err(run.dead_letter(Reason::Credentials).await)
    }

    /// A moment of the store's clock, by our own: the start of time for what is before it.
    pub(super) fn instant_of(&self, at: Timestamp) -> Instant {
        let ago = u64::try_from(self.wall().since(at).as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(self.clock.now().as_nanos().saturating_sub(ago))
    }
}

/// Whether an answer refuses the credentials themselves, and not what they may do. A proxy's 401 counts too:
/// the credentials did not get through. What it leaves open of an earlier send is another matter.
fn refuses_credentials(verdict: &Verdict, outcome: &Result<Answer, SendError>) -> bool {
    let Ok(answer) = outcome else { return false };
    is_refused_with(
        answer.status.as_u16(),
        matches!(verdict, Verdict::Refused { refusal: Refusal::Unauthorized, .. }),
    )
}

/// A verdict's name in the operation's log. It says which refusals were of the credentials: a later run asks.
pub(super) const fn name_in_log(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Refused { refusal: Refusal::Unauthorized, .. } => UNAUTHORIZED,
        _ => verdict.name(),
    }
}

const UNAUTHORIZED: &str = "unauthorized";

const fn is_refused_with(status: u16, by_adapter: bool) -> bool {
    status == 401 || (by_adapter && status != 403)
}
