//! The store of a test that looks at how it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::operation::OperationId;
use steadfast::operation::record::{Claim, Claimed, Declined, Record, State, Takeover, Transition};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
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
    /// How late the answer to a take comes, and on which clock.
    pub take_takes: Option<(TestClock, Duration)>,
    /// Whether the host's wall clock is set back meanwhile, so that it does not know.
    pub is_set_back: bool,
    /// How late the answer to a renewal that was done comes, and on which clock.
    pub late: Option<(TestClock, Duration)>,
    pub fails: Option<Failing>,
}

/// The part of a store that does not work.
#[derive(Clone, Debug)]
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
impl Wrapper for Watched {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

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
        let renews = matches!(step.to, State::InProgress { .. });
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

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        if matches!(self.fails, Some(Failing::Takes)) {
            return Err(gone());
        }
        let (taken, asked_at) = (self.store.take(take.clone()).await, take.now);
        if let Some((clock, late)) = &self.take_takes {
            clock.latency(*late).await;
            if self.is_set_back {
                clock.set_wall(asked_at);
            }
        }
        taken
    }
}
