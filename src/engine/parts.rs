//! The parts of one client, and the questions that they answer together.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use http::Method;
use url::Url;

use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::decision;
use steadfast_core::internal::error::{Context, Origin};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::{Admission, Circuits, Gates, Refusal};
use steadfast_core::internal::store::Wakes;
use steadfast_core::internal::vendor::Adapter;
use steadfast_core::internal::vendor::secret::SecretHeaders;
use steadfast_core::operation::{OperationId, RedactedFields};
use steadfast_core::store::Store;
use steadfast_core::transport::{Request, Transport};
use steadfast_core::{Error, Policy, Random};

use super::disagreement::Disagreement;
use super::late_write::LateWrites;
use super::measures::{Began, Latency, VendorClock};
use super::retention::{Floor, Retention};
use super::routes::Routes;
use super::settling::ReleasedLeases;
use super::work::Work;
use crate::telemetry;

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
    /// Fields that are never shown of any of this client's operations.
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
    pub let_go: ReleasedLeases,
    pub began: Began,
    pub disagreement: Disagreement,
    /// Where the vendor was before: what was recorded for there is sent to the base URL.
    pub former_base_urls: Vec<Url>,
    /// Wakes the dispatchers of this process: there is something due, or will be. Its waiters are the calls that wait for an
    /// outcome.
    pub wakes: Wakes,
}

impl Origin for Engine {
    fn context(&self, method: &Method, url: &Url) -> Context {
        self.vendor.context(method, url)
    }
}

impl Engine {
    /// The time in the store. Every time that goes on record, or is compared with one, is of this clock.
    pub(crate) fn wall(&self) -> Timestamp {
        self.store.time(self.clock.wall())
    }

    /// Method and path of a request, as its operation's name has them.
    pub(crate) fn route_of(&self, request: &Request) -> String {
        format!("{} {}", request.method, self.vendor.operation_path(request.url.path()))
    }

    /// The same while the gates ask for it: while a route fails.
    pub(super) fn route_if_asked(&self, request: &Request) -> Option<String> {
        let is_asked = self.gates.circuits().is_some_and(Circuits::any);
        is_asked.then(|| self.route_of(request))
    }

    /// Credits the retry budget for a call that is sent. A replay is not credited, because it puts no load on the
    /// vendor.
    pub(super) fn earn(&self, admission: &Admission<'_>) {
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
    pub(super) fn keep(&self, request: &Request, work: &Work) -> Result<Duration, Error> {
        let (backoff, timeout) = (work.backoff(&self.policy), work.timeout(&self.policy));
        let floor = Floor::new(self.vendor.replay_window(request), backoff, &timeout);
        match work.retention {
            Some(keep) => floor.accept(keep),
            None => Ok(self.retention.of(&self.policy, self.vendor.base_url(), &request.url, floor)),
        }
    }

    /// How long a holder may need for one attempt and what surrounds it.
    pub(super) fn lease(&self, work: &Work) -> Duration {
        work.timeout(&self.policy).attempt.saturating_add(self.policy.lease_margin)
    }

    /// How long an exchange of a call lasts at most, until the last of it can have arrived.
    pub(super) fn attempt_max(&self, work: &Work, url: &Url) -> Duration {
        work.timeout(&self.policy).attempt.saturating_add(self.queue_max(url))
    }

    /// The same, of the longest of all calls.
    pub(crate) fn longest_attempt(&self) -> Duration {
        self.routes.attempt_max().saturating_add(self.queue_max(self.vendor.base_url()))
    }

    /// How long a request may still be on its way once its exchange is over without an answer.
    pub(super) fn queue_max(&self, url: &Url) -> Duration {
        Guard::QueuedIsUnderWay.keeps(self.transport.queue_max(url))
    }

    pub(super) fn in_context(
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
