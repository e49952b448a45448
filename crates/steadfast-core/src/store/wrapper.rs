//! [`Wrapper`]: a store around another one.

use std::fmt;

use async_trait::async_trait;

use super::{Backlog, Heartbeat, Look, Outbox, Peer, Sight, Store, StoreError, Upkeep, Wakes};
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{
    Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Record, Summary, Takeover, Tally,
    Transition,
};

/// A store around another one, some of whose methods do more than the inner store's: for tests that count or fail, and
/// for instrumentation.
///
/// A type that implements this is a [`Store`]: do not implement that as well. Implement [`inner`](Wrapper::inner) and
/// the methods that differ. All others are the inner store's, also those that later versions add. A wrapper must keep
/// the contract of [`Store`]: above all, what it says was written must be written.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use async_trait::async_trait;
/// use steadfast::operation::record::{Claim, Claimed};
/// use steadfast::store::{Memory, Store, StoreError, Wrapper};
///
/// #[derive(Debug, Default)]
/// struct Counted {
///     store: Memory,
///     claims: AtomicU64,
/// }
///
/// #[async_trait]
/// impl Wrapper for Counted {
///     fn inner(&self) -> &dyn Store {
///         &self.store
///     }
///
///     async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
///         self.claims.fetch_add(1, Ordering::Relaxed);
///         self.store.claim(claim).await
///     }
/// }
///
/// fn is_a_store(_: impl Store) {}
/// is_a_store(Counted::default());
/// ```
#[async_trait]
pub trait Wrapper: fmt::Debug + Send + Sync + 'static {
    /// The store that this one is around.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::claim`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.inner().claim(claim).await
    }

    /// See [`Store::transition`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.inner().transition(held, transition).await
    }

    /// See [`Store::take`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.inner().take(take).await
    }

    /// See [`Store::act`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.inner().act(id, act).await
    }

    /// See [`Store::append_evidence`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.inner().append_evidence(id, reports).await
    }

    /// See [`Store::evidence`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.inner().evidence(id).await
    }

    /// See [`Store::get`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.inner().get(id).await
    }

    /// See [`Store::seen`].
    #[doc(hidden)]
    async fn seen(&self, ids: &[OperationId]) -> Result<Vec<Option<(i64, u64)>>, StoreError> {
        self.inner().seen(ids).await
    }

    /// See [`Store::list`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.inner().list(filter, after, limit).await
    }

    /// See [`Store::tally`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.inner().tally().await
    }

    /// See [`Store::audit`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.inner().audit(id, after, limit).await
    }

    /// See [`Store::time`].
    fn time(&self, now: Timestamp) -> Timestamp {
        self.inner().time(now)
    }

    /// See [`Store::believed`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        self.inner().believed(now).await
    }

    /// See [`Store::purge`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner().purge(now, limit).await
    }

    /// See [`Store::look`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(hidden)]
    async fn look(&self, look: &Look) -> Result<Option<Sight>, StoreError> {
        self.inner().look(look).await
    }

    /// See [`Store::heartbeat`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(hidden)]
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Option<Vec<Peer>>, StoreError> {
        self.inner().heartbeat(heartbeat).await
    }

    /// See [`Store::backlog`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(hidden)]
    async fn backlog(&self, now: Timestamp) -> Result<Option<Backlog>, StoreError> {
        self.inner().backlog(now).await
    }

    /// See [`Store::wakes`].
    #[doc(hidden)]
    fn wakes(&self) -> Option<&Wakes> {
        self.inner().wakes()
    }

    /// See [`Store::upkeep`].
    #[doc(hidden)]
    fn upkeep(&self) -> Option<&dyn Upkeep> {
        self.inner().upkeep()
    }

    /// See [`Store::outbox`]. Claims that admit a row go there, and past [`claim`](Wrapper::claim).
    #[doc(hidden)]
    fn outbox(&self) -> Option<&dyn Outbox> {
        self.inner().outbox()
    }

    /// See [`Store::footing`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(hidden)]
    fn footing(&self) -> Result<Vec<String>, StoreError> {
        self.inner().footing()
    }
}

#[async_trait]
impl<W: Wrapper> Store for W {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        Wrapper::claim(self, claim).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        Wrapper::transition(self, held, transition).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        Wrapper::take(self, take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        Wrapper::act(self, id, act).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        Wrapper::append_evidence(self, id, reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        Wrapper::evidence(self, id).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        Wrapper::get(self, id).await
    }

    async fn seen(&self, ids: &[OperationId]) -> Result<Vec<Option<(i64, u64)>>, StoreError> {
        Wrapper::seen(self, ids).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        Wrapper::list(self, filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        Wrapper::tally(self).await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        Wrapper::audit(self, id, after, limit).await
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        Wrapper::time(self, now)
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        Wrapper::believed(self, now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        Wrapper::purge(self, now, limit).await
    }

    async fn look(&self, look: &Look) -> Result<Option<Sight>, StoreError> {
        Wrapper::look(self, look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Option<Vec<Peer>>, StoreError> {
        Wrapper::heartbeat(self, heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Option<Backlog>, StoreError> {
        Wrapper::backlog(self, now).await
    }

    fn wakes(&self) -> Option<&Wakes> {
        Wrapper::wakes(self)
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Wrapper::upkeep(self)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Wrapper::outbox(self)
    }

    fn footing(&self) -> Result<Vec<String>, StoreError> {
        Wrapper::footing(self)
    }
}
