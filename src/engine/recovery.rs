//! Carrying on with an operation that was taken from the store, without a caller who waits for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::{Observed, Settling, TakenOperation};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::record::{Record, Takeover};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error};

use super::claim::Offered;
use super::hold::Hold;
use super::leaving::Shutdown;
use super::run::Run;
use super::{Engine, Times, Work, driver};
use crate::limit;
use crate::reply::Reply;

impl Engine {
    /// The account of the operations that this client may carry on with.
    pub(crate) fn account_path(&self) -> String {
        self.scope_of(&Request::new(http::Method::GET, self.vendor.base_url().clone()))
            .account_path()
            .to_owned()
    }

    /// How long the process that takes an operation may hold it before the next renewal.
    pub(crate) fn default_lease(&self) -> Duration {
        self.routes.attempt_max().saturating_add(self.policy.lease_margin)
    }

    /// Takes what no process holds. Refused where the account's terms are not this client's.
    pub(crate) async fn take(&self, take: Takeover) -> Result<Vec<Record>, Error> {
        self.check_terms().await?;
        self.store.take(take).await.map_err(|source| {
            let error =
                Error::new(Kind::Store { doing: "take operations that no process holds" }, Effect::None);
            error.with_source(source).at_vendor(self.vendor.name())
        })
    }

    /// Carries a taken operation through to its end, or to the end of the policy's total time, or until the process is
    /// `leaving`. The caller's choice for an unknown outcome is on record.
    pub(crate) async fn carry_on(
        &self,
        record: Record,
        lease_until: Instant,
        leaving: Option<Shutdown>,
    ) -> Result<Reply, Error> {
        let started = self.clock.now();
        let route = self.routes.of(self.vendor.base_url(), &record.request.url);
        let work = Work { route, ..Work::background(record.on_unknown) };
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        let hold = Hold::new(self, record, lease_until);
        self.carry_on_with(hold, &work, Times { started, deadline }, leaving).await
    }

    /// Carries on with an operation that another process began. The recorded request is resent, byte for byte.
    pub(super) async fn carry_on_with(
        &self,
        mut hold: Box<Hold<'_>>,
        work: &Work,
        times: Times,
        leaving: Option<Shutdown>,
    ) -> Result<Reply, Error> {
        let Times { started, deadline } = times;
        let mut request = Arc::clone(&hold.record.request);
        let Record { id, fingerprint, fence, .. } = &hold.record;
        let (id, fingerprint, fence) = (id.clone(), *fingerprint, *fence);
        let is_ours = self.is_ours(&id, &request);
        let address = self.address(&hold.record.request.url);
        let is_addressed = address.is_some();
        if let Some(Cow::Owned(present)) = address {
            Arc::make_mut(&mut request).url = present;
        }
        hold.settling = Box::pin(self.settling(&hold.record, deadline)).await;
        let mut run = Run::new(self, work, &request, Some(hold), started, deadline);
        run.leaving = leaving;
        let has_lookup = run.first_question().is_some();
        let taken = TakenOperation { is_ours, is_addressed, is_given_up: false, has_lookup };
        let ended = driver::drive(&mut run, Observed::Taken(taken)).await;
        if is_ours && work.recovered && run.progress.admitted() == 0 {
            self.gates.recovery().give_back(self.clock.now());
        }
        drop(run);
        match ended {
            Err(error) if error.is_store() => {
                let offered = Offered { id: &id, fingerprint, unstamped: None, request: &request, deadline };
                Box::pin(self.unless_overtaken(error, offered, fence)).await
            }
            ended => ended,
        }
    }

    /// As much as is known of the settle time of a record that was taken a moment ago.
    async fn settling(&self, record: &Record, deadline: Instant) -> Option<Settling> {
        record.unknown_since?;
        let read = limit::within(&*self.clock, deadline, self.store.believed(record.updated_at)).await;
        let now = self.clock.now();
        let believed = read.and_then(Result::ok);
        let is_set_ahead = Guard::SetAhead.keeps(self.began.was_set_ahead(record.updated_at, now));
        let believed = believed.filter(|_| !is_set_ahead);
        let settling = Settling::of(record, now, believed)?;
        Some(self.let_go.taken(record, settling))
    }

    /// Whether the operation is of this client's own account: another's secret would send it elsewhere.
    fn is_ours(&self, id: &OperationId, request: &Request) -> bool {
        let mut formers = self.former_paths(request.url.path());
        self.scope_of(request) == id.scope || formers.any(|path| self.scope_at(request, &path) == id.scope)
    }

    /// The scope of a call with this request.
    pub(super) fn scope_of(&self, request: &Request) -> Scope {
        self.scope_at(request, request.url.path())
    }

    /// The same by another path.
    pub(super) fn scope_at(&self, request: &Request, path: &str) -> Scope {
        let account = Guard::AccountInScope.keeps(self.vendor.account(&request.headers));
        let path = self.vendor.operation_path(path);
        Scope::new(&self.namespace, self.vendor.name(), &account, &request.method, &path)
    }
}
