//! Virtual time beside a store that has threads of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use steadfast::AttemptReport;
use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Record, Summary, Takeover, Tally,
    Transition,
};
use steadfast::store::{Store, StoreError};
use steadfast::testkit::TestClock;
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

/// Runs `play` on one thread. Time moves to the next moment whenever nobody has anything to do, the store included.
pub fn on_virtual_time<F: Future>(play: impl FnOnce(TestClock, Arc<AtomicUsize>) -> F) -> F::Output {
    let (clock, at_work) = (TestClock::new(), Arc::new(AtomicUsize::new(0)));
    let (stepped, working) = (clock.clone(), at_work.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || {
            if working.load(Ordering::Relaxed) == 0 {
                stepped.step();
            }
        })
        .build()
        .expect("a runtime");
    runtime.block_on(play(clock, at_work))
}

/// A store that says when it is at work, and how often it was written to.
#[derive(Debug)]
pub struct Watched<S> {
    pub inner: S,
    pub at_work: Arc<AtomicUsize>,
    pub takes: AtomicUsize,
}

impl<S> Watched<S> {
    pub fn new(inner: S, at_work: Arc<AtomicUsize>) -> Watched<S> {
        Watched { inner, at_work, takes: AtomicUsize::new(0) }
    }

    fn below(&self) -> &dyn Delivery
    where
        S: Store,
    {
        self.inner.delivery().expect("it has")
    }

    fn working(&self) -> AtWork<'_> {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(&self.at_work)
    }
}

struct AtWork<'a>(&'a AtomicUsize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl<S: Store> Store for Watched<S> {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let _working = self.working();
        self.inner.claim(claim).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let _working = self.working();
        self.inner.transition(held, transition).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let _working = self.working();
        self.takes.fetch_add(1, Ordering::Relaxed);
        self.inner.take(take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let _working = self.working();
        self.inner.act(id, act).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let _working = self.working();
        self.inner.append_evidence(id, reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        let _working = self.working();
        self.inner.evidence(id).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let _working = self.working();
        self.inner.get(id).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        let _working = self.working();
        self.inner.list(filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        let _working = self.working();
        self.inner.tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let _working = self.working();
        self.inner.audit(id, after, limit).await
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        let _working = self.working();
        self.inner.believed(now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let _working = self.working();
        self.inner.purge(now, limit).await
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        let _working = self.working();
        self.inner.register(account, terms).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl<S: Store> Delivery for Watched<S> {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        let _working = self.working();
        self.below().look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        let _working = self.working();
        self.below().heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        let _working = self.working();
        self.below().backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        let _working = self.working();
        self.below().versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        self.below().wakes()
    }
}
