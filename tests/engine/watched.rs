//! The store of a test that looks at how it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::attempt::AttemptReport;
use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, AuditEntry, Claim, Claimed, Cursor, Declined, Event, Filter, Forbidden, Page, Record, Summary, Take,
    Tally, Transition,
};
use steadfast::store::{Memory, Store, StoreError};
use steadfast::testkit::TestClock;

/// Counts what an operation costs in durable writes, may take its time over the answer to a renewal, and may fail.
#[derive(Debug, Default)]
pub struct Watched {
    pub store: Arc<Memory>,
    pub claims: AtomicUsize,
    pub transitions: AtomicUsize,
    pub reads: AtomicUsize,
    /// How long a claim takes, and on which clock.
    pub claim_takes: Option<(TestClock, Duration)>,
    /// How late the answer to a renewal that was done comes, and on which clock.
    pub late: Option<(TestClock, Duration)>,
    pub fails: Option<Failing>,
}

/// What of a store does not work.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "it is `tests/errors` that makes it fail")]
pub enum Failing {
    Claims,
    /// Claims are not answered, on this clock.
    ClaimsHang(TestClock),
    /// Whatever comes after the claim.
    Transitions,
    /// The operation is somebody else's whenever its holder writes.
    Holders,
    Takes,
}

fn gone() -> StoreError {
    StoreError::with_source("the disk is gone", std::io::Error::other("input/output error"))
}

#[async_trait::async_trait]
impl Store for Watched {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.claims.fetch_add(1, Ordering::Relaxed);
        if let Some((clock, by)) = &self.claim_takes {
            clock.latency(*by).await;
        }
        match &self.fails {
            Some(Failing::Claims) => return Err(gone()),
            Some(Failing::ClaimsHang(clock)) => clock.latency(Duration::MAX).await,
            _ => {}
        }
        self.store.claim(claim).await
    }

    async fn transition(
        &self,
        held: &Record,
        step: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.transitions.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            Some(Failing::Transitions) => return Err(gone()),
            Some(Failing::Holders) => return Ok(Err(Declined::Fenced)),
            _ => {}
        }
        let renews = matches!(step.event, Event::Renew { .. });
        let moved = self.store.transition(held, step).await;
        if let Some((clock, late)) = self.late.as_ref().filter(|_| renews && matches!(moved, Ok(Ok(_)))) {
            clock.latency(*late).await;
        }
        moved
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.get(id).await
    }

    async fn take(&self, take: Take) -> Result<Vec<Record>, StoreError> {
        match self.fails {
            Some(Failing::Takes) => Err(gone()),
            _ => self.store.take(take).await,
        }
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.store.act(id, act).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.store.append_evidence(id, reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.store.evidence(id).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.store.list(filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.store.tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.store.audit(id, after, limit).await
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        self.store.believed(now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.purge(now, limit).await
    }
}
