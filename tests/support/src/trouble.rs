//! A store in trouble: what it does to a call is said call by call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{Claim, Claimed, Declined, Record, Takeover, Transition};
use steadfast::store::{Memory, Store, StoreError, StoreErrorKind, Wrapper};
use steadfast_core::store::delivery::{
    Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Waiting, Wakes,
};

/// The act of a store on one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    None,
    /// Nothing is written.
    Fail,
    /// Nothing is written, and the store knows it.
    Full,
    /// The writer has stopped, and the store does not know with what.
    Stop,
    /// It is written, and the caller is told that it failed.
    FailAfter,
    /// Nothing is written, and no answer comes.
    Hang,
    /// It is written, and no answer comes.
    HangAfter,
    /// Nothing is written, and the store panics.
    Panic,
}

#[derive(Debug, Default)]
pub struct Troubled {
    store: Memory,
    gets: Mutex<VecDeque<Trouble>>,
    claims: Mutex<VecDeque<Trouble>>,
    transitions: Mutex<VecDeque<Trouble>>,
    takes: Mutex<VecDeque<Trouble>>,
    purges: Mutex<VecDeque<Trouble>>,
}

impl Troubled {
    /// The troubles of the next reads, in turn; none after them.
    pub fn gets(&self, troubles: impl IntoIterator<Item = Trouble>) {
        put(&self.gets, troubles);
    }

    pub fn claims(&self, troubles: impl IntoIterator<Item = Trouble>) {
        put(&self.claims, troubles);
    }

    pub fn transitions(&self, troubles: impl IntoIterator<Item = Trouble>) {
        put(&self.transitions, troubles);
    }

    pub fn takes(&self, troubles: impl IntoIterator<Item = Trouble>) {
        put(&self.takes, troubles);
    }

    pub fn purges(&self, troubles: impl IntoIterator<Item = Trouble>) {
        put(&self.purges, troubles);
    }
}

fn put(queue: &Mutex<VecDeque<Trouble>>, troubles: impl IntoIterator<Item = Trouble>) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).extend(troubles);
}

async fn with<T>(
    queue: &Mutex<VecDeque<Trouble>>,
    write: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let trouble = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    match trouble.unwrap_or(Trouble::None) {
        Trouble::None => write.await,
        Trouble::Fail => Err(StoreError::new("a disk error")),
        Trouble::Full => Err(StoreError::new("the disk is full").of_kind(StoreErrorKind::Full)),
        Trouble::Stop => Err(StoreError::new("the writer stopped").of_kind(StoreErrorKind::Stopped)),
        Trouble::Hang => std::future::pending().await,
        Trouble::FailAfter => {
            write.await?;
            Err(StoreError::new("the connection broke"))
        }
        Trouble::HangAfter => {
            write.await?;
            std::future::pending().await
        }
        Trouble::Panic => panic!("a bug of the store"),
    }
}

#[async_trait]
impl Wrapper for Troubled {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        with(&self.claims, self.store.claim(claim)).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        with(&self.transitions, self.store.transition(held, transition)).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        with(&self.gets, self.store.get(id)).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        with(&self.takes, self.store.take(take)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        with(&self.purges, self.store.purge(now, limit)).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Troubled {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        // It says too much, so that recovery takes and purges to find out.
        let all = Waiting { due: Some(look.now), lapsed: true };
        Ok(Sight { waiting: vec![all; look.accounts.len()], expired: true, rows: None })
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.store.heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.store.versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        self.store.wakes()
    }
}
