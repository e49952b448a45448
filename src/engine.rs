//! The one loop: `claim → [ admit → send → classify → wait ] → settle`, with everything injected.
//!
//! [`Engine::call`] decides whether a call is an operation. What comes before the loop of one that is, is in [`keyed`];
//! the loop of a [`Run`](phase::Run) and its ends are in [`run`]. Below the loop stand one [`attempt`] with its
//! [`exchange`], the [`look_up`], the [`lease`] and what is written and said at an [`ending`]; none of them decides how
//! the call goes on.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use http::Method;
use url::Url;

use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::error::{Context, Kind, Origin};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Admission, Circuits, Gates, Refusal};
use steadfast_core::internal::store::Wakes;
use steadfast_core::internal::vendor::Adapter;
use steadfast_core::internal::vendor::secret::SecretHeaders;
use steadfast_core::operation::{Key, OperationId, RedactedFields};
use steadfast_core::policy::{Backoff, Timeouts};
use steadfast_core::store::Store;
use steadfast_core::transport::{Request, Transport};
use steadfast_core::{Effect, Error, InFlight, OnUnknown, Policy, Random, Sequence};

use crate::reply::Reply;
use crate::telemetry::{self, Whose};

mod address;
mod admit;
mod attempt;
mod attempt_log;
mod claim;
mod clocks;
mod conclude;
mod credentials;
mod driver;
mod enqueue;
mod exchange;
mod found;
mod hold;
mod in_flight;
mod keyed;
mod late_write;
mod latency;
mod leaving;
mod limit;
mod look_up;
mod on_record;
mod outbox;
pub(crate) mod prefixes;
mod record_log;
mod recovery;
mod renew;
mod replay;
pub(crate) mod retention;
pub(crate) mod routes;
mod run;
mod settle;
mod settling;
mod sleep;
mod stream;
mod terms;

pub(crate) use clocks::{Began, VendorClock};
pub(crate) use enqueue::Accepted;
pub(crate) use late_write::LateWrites;
pub(crate) use latency::Latency;
pub(crate) use leaving::Leaving;
pub(crate) use outbox::{NotAdmitted, Put};
use retention::{Floor, Retention};
use routes::{Route, Routes};
use run::Run;
pub(crate) use settling::LetGo;
pub(crate) use steadfast_core::internal::decision::SLEEP_MAX;
use steadfast_core::internal::decision::{self, Now};
pub(crate) use stream::StreamedBody;
pub(crate) use terms::Disagreement;

/// Everything one client is made of.
#[derive(Debug)]
pub(crate) struct Engine {
    pub vendor: Arc<Adapter>,
    pub store: Arc<dyn Store>,
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub policy: Policy,
    pub retention: Retention,
    /// Where calls are treated otherwise than by the policy.
    pub routes: Routes,
    pub gates: Gates,
    pub namespace: String,
    /// What is never shown of any of this client's operations.
    pub redact: RedactedFields,
    /// The headers that no call may give.
    pub secrets: SecretHeaders,
    pub generated_keys: AtomicU16,
    pub vendor_clock: VendorClock,
    /// Whether the adapter was given its secret, of which it may learn a part of its account.
    pub secret_is_known: bool,
    pub meters: telemetry::Meters,
    pub latency: Latency,
    pub late_writes: LateWrites,
    pub let_go: LetGo,
    pub began: Began,
    pub disagreement: Disagreement,
    /// Where the vendor was before: what was recorded for there is sent to the base URL.
    pub former_base_urls: Vec<Url>,
    /// Wakes the dispatchers of this process: there is something due, or will be. Its waiters are the calls that wait for an
    /// outcome.
    pub wakes: Wakes,
}

/// Beginning and end of a call's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub started: Instant,
    pub deadline: Instant,
}

/// What one call overrides of its vendor's policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub backoff: Option<Backoff>,
    pub timeout: Option<Timeouts>,
}

/// What one call asks for beside its request.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// `None` for a call that is no operation.
    pub key: Option<Key>,
    /// What this call overrides of the vendor's policy.
    pub overrides: Option<Box<Overrides>>,
    /// What its route overrides of it.
    pub route: Option<Arc<Route>>,
    /// What its caller gives it, from the start on.
    pub deadline: Option<Duration>,
    /// Until when the caller's own caller waits.
    pub until: Option<Instant>,
    /// A layer above us already retries.
    pub retries_allowed: bool,
    /// Whether the deadline goes out again in `X-Request-Timeout`.
    pub pass_deadline_on: bool,
    pub on_unknown: OnUnknown,
    /// What to do while another call holds the key.
    pub in_flight: InFlight,
    /// How long its record is kept once it is settled, if the call itself says so.
    pub retention: Option<Duration>,
    /// No caller waits for it: it goes at recovery's own rate, and long waits are left to the schedule.
    pub recovered: bool,
    /// What is never shown of this operation, beside what its client names.
    pub redact: RedactedFields,
    /// The key of the dead letter that it starts over.
    pub predecessor: Option<Key>,
    /// What it is enqueued into.
    pub sequence: Option<Sequence>,
}

impl Work {
    fn backoff<'a>(&'a self, policy: &'a Policy) -> &'a Backoff {
        let of_route = || self.route.as_ref().and_then(|route| route.backoff.as_ref());
        let own = self.overrides.as_ref().and_then(|own| own.backoff.as_ref());
        own.or_else(of_route).unwrap_or(&policy.backoff)
    }

    fn timeout(&self, policy: &Policy) -> Timeouts {
        let of_route = || self.route.as_ref().and_then(|route| route.timeout);
        self.overrides.as_ref().and_then(|own| own.timeout).or_else(of_route).unwrap_or(policy.timeout)
    }

    /// How long a call may take that starts then.
    pub(crate) fn time_allowed(&self, policy: &Policy, started: Instant) -> Duration {
        let total = self.timeout(policy).total;
        self.time_given(started).map_or(total, |given| given.min(total))
    }

    /// The same, without the policy's part.
    fn time_given(&self, started: Instant) -> Option<Duration> {
        let left = self.until.map(|until| until.since(started));
        self.deadline.into_iter().chain(left).min()
    }

    /// A call without a caller: the client's own policy and no other deadline.
    pub(super) fn background(on_unknown: OnUnknown) -> Work {
        Work {
            key: None,
            overrides: None,
            route: None,
            deadline: None,
            until: None,
            retries_allowed: true,
            pass_deadline_on: false,
            on_unknown,
            in_flight: InFlight::Refuse,
            retention: None,
            recovered: true,
            redact: RedactedFields::NONE,
            predecessor: None,
            sequence: None,
        }
    }
}

impl Origin for Engine {
    fn context(&self, method: &Method, url: &Url) -> Context {
        self.vendor.context(method, url)
    }
}

impl Engine {
    /// What time it is in the store: what goes on record, or is compared with it, is of this clock.
    pub(crate) fn wall(&self) -> Timestamp {
        self.store.time(self.clock.wall())
    }

    /// Carries a call that `started` just now through to its end, or to the end of its time.
    pub(crate) async fn call(
        &self,
        request: &mut Request,
        work: &mut Work,
        started: Instant,
    ) -> Result<Reply, Error> {
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        match work.key.take() {
            Some(key) => self.keyed(request, work, key, started, deadline).await,
            None if deadline <= started => Err(self.in_context(no_time(), request, None)),
            None => {
                let whose = Whose { vendor: &**self.vendor, request, operation: None };
                let admission = self
                    .admit_first(whose, started, deadline)
                    .await
                    .map_err(|refused| self.in_context(refused, request, None))?;
                self.earn(&admission);
                let mut run = Run::new(self, work, request, None, started, deadline);
                driver::drive_admitted(&mut run, admission).await
            }
        }
    }

    /// Asks the gates for the first attempt, and waits for them from `began` on, as long as the policy allows.
    async fn admit_first(
        &self,
        whose: Whose<'_>,
        began: Instant,
        deadline: Instant,
    ) -> Result<Admission<'_>, Error> {
        let patience = began.plus(self.policy.admission_wait).min(deadline);
        let mut now = began;
        loop {
            let refusal = match self.gates.admit_to(self.route_if_asked(whose.request).as_deref(), now) {
                Ok(admission) => return Ok(admission),
                Err(refusal) => refusal,
            };
            match self.ask_again_at(refusal, now).filter(|at| *at < patience) {
                Some(at) => {
                    telemetry::held_back(whose, refusal.gate, at.since(now));
                    self.clock.sleep_until(at).await;
                    now = self.clock.now();
                }
                None => {
                    telemetry::refused(whose, refusal.gate);
                    let retry_at = refusal.retry_at.map(|at| self.wall().plus(at.since(now)));
                    return Err(Error::refused_by(refusal.gate, retry_at, Effect::None));
                }
            }
        }
    }

    /// Method and path of a request, as its operation's name has them.
    pub(crate) fn route_of(&self, request: &Request) -> String {
        format!("{} {}", request.method, self.vendor.operation_path(request.url.path()))
    }

    /// The same while the gates ask for it: while a route fails.
    fn route_if_asked(&self, request: &Request) -> Option<String> {
        let is_asked = self.gates.circuits().is_some_and(Circuits::any);
        is_asked.then(|| self.route_of(request))
    }

    /// Credits the retry budget for a call that is sent. A replay is not credited, because it puts no load on the
    /// vendor.
    fn earn(&self, admission: &Admission<'_>) {
        if let Some(budget) = self.gates.budget() {
            budget.earn(admission.admitted_at());
        }
    }

    /// When to ask the gates again after a refusal, a little later than they said; `None` if only a person can
    /// tell.
    pub(crate) fn ask_again_at(&self, refusal: Refusal, now: Instant) -> Option<Instant> {
        decision::ask_again_at(refusal.gate, refusal.retry_at, now, self.random.unit())
    }

    /// How long the record of a stamped request is kept once it is settled.
    ///
    /// # Errors
    ///
    /// A validation error if the call itself asks for less than its vendor and its ladder need.
    fn keep(&self, request: &Request, work: &Work) -> Result<Duration, Error> {
        let (backoff, timeout) = (work.backoff(&self.policy), work.timeout(&self.policy));
        let floor = Floor::new(self.vendor.replay_window(request), backoff, &timeout);
        match work.retention {
            Some(keep) => floor.accept(keep),
            None => Ok(self.retention.of(&self.policy, self.vendor.base_url(), &request.url, floor)),
        }
    }

    /// How long a holder may need for one attempt and what surrounds it.
    fn lease(&self, work: &Work) -> Duration {
        work.timeout(&self.policy).attempt.saturating_add(self.policy.lease_margin)
    }

    /// How long an exchange of a call lasts at most, until the last of it can have arrived.
    fn attempt_max(&self, work: &Work, url: &Url) -> Duration {
        work.timeout(&self.policy).attempt.saturating_add(self.queue_max(url))
    }

    /// The same, of the longest of all calls.
    pub(crate) fn longest_attempt(&self) -> Duration {
        self.routes.attempt_max().saturating_add(self.queue_max(self.vendor.base_url()))
    }

    /// How long a request may still be on its way once its exchange is over without an answer.
    fn queue_max(&self, url: &Url) -> Duration {
        Guard::QueuedIsUnderWay.keeps(self.transport.queue_max(url))
    }

    fn in_context(
        &self,
        error: Error,
        request: &Request,
        operation: Option<(&OperationId, Option<&str>)>,
    ) -> Error {
        let call = self.vendor.context(&request.method, &request.url);
        error.with_context(match operation {
            None => call,
            Some((id, wire_key)) => Context {
                operation: Some(id.scope.as_str().to_owned()),
                key: Some(id.key.as_str().to_owned()),
                wire_key: wire_key.map(str::to_owned),
                ..call
            },
        })
    }
}

/// A call whose time was over when it began.
fn no_time() -> Error {
    Error::new(Kind::Deadline { budget: Duration::ZERO, next: None }, Effect::None)
}
