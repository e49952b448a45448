//! A store whose server has a clock of its own, as a database server has: for hosts whose clocks are wrong.

use async_trait::async_trait;

use steadfast::clock::{Clock, Timestamp};
use steadfast::operation::OperationId;
use steadfast::operation::record::{Act, Claim, Claimed, Declined, Forbidden, Record, Takeover, Transition};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

/// Carries every command out at its own now, and gives a host's clock no hearing.
#[derive(Debug)]
pub struct ServerTimed<C> {
    store: Box<dyn Store>,
    clock: C,
}

impl<C: Clock> ServerTimed<C> {
    pub fn new(clock: C) -> ServerTimed<C> {
        ServerTimed::over(Box::new(Memory::new()), clock)
    }

    pub fn over(store: Box<dyn Store>, clock: C) -> ServerTimed<C> {
        ServerTimed { store, clock }
    }

    fn below(&self) -> &dyn Delivery {
        self.store.delivery().expect("it has")
    }
}

#[async_trait]
impl<C: Clock> Wrapper for ServerTimed<C> {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn time(&self, _: Timestamp) -> Timestamp {
        self.clock.wall()
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.store.claim(claim.rebased(self.clock.wall())).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.store.transition(held, transition.rebased(self.clock.wall())).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.store.take(take.rebased(self.clock.wall())).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.store.act(id, act.rebased(self.clock.wall())).await
    }

    async fn believed(&self, _: Timestamp) -> Result<Timestamp, StoreError> {
        self.store.believed(self.clock.wall()).await
    }

    async fn purge(&self, _: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.purge(self.clock.wall(), limit).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl<C: Clock> Delivery for ServerTimed<C> {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.below().look(&look.clone().rebased(self.clock.wall())).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        let now = self.clock.wall();
        self.below().heartbeat(&Heartbeat { now, ..heartbeat.clone() }).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.below().backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.below().versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        self.below().wakes()
    }
}
