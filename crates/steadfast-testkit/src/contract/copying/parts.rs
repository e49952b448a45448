//! A store that fails at one of its writes, and a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use steadfast_core::BoxFuture;
use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::store::{Head, Reseal, ResealedBatch, Restore, Stage, Standing, Upkeep};
use steadfast_core::operation::record::{Claim, Filter, Page, Summary};
use steadfast_core::store::{Store, StoreError, Wrapper};

use super::upkeep;

/// Fails at one of its writes, and from then on.
#[derive(Debug)]
pub(super) struct Breaks {
    store: Arc<dyn Store>,
    /// With the one that fails.
    left: Arc<AtomicUsize>,
    /// Whether that one is carried out all the same.
    is_written: bool,
}

impl Breaks {
    /// The write number `writes` is the one, before it or after it.
    pub(super) fn at(store: &Arc<dyn Store>, writes: usize, is_written: bool) -> Breaks {
        Breaks { store: store.clone(), left: Arc::new(AtomicUsize::new(writes + 1)), is_written }
    }

    /// Another store, whose writes count on.
    pub(super) fn beside(&self, store: &Arc<dyn Store>) -> Breaks {
        Breaks { store: store.clone(), left: self.left.clone(), is_written: self.is_written }
    }

    /// Whether this write is carried out, and whether it fails.
    fn next(&self) -> (bool, Result<(), StoreError>) {
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        match left {
            2.. => (true, Ok(())),
            1 => (self.is_written, Err(StoreError::new("cut short"))),
            0 => (false, Err(StoreError::new("cut short"))),
        }
    }
}

impl Wrapper for Breaks {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Some(self)
    }
}

#[async_trait]
impl Upkeep for Breaks {
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        upkeep(&self.store).reseal(reseal).await
    }

    async fn wipe(&self) -> Result<(), StoreError> {
        upkeep(&self.store).wipe().await
    }

    async fn head(&self) -> Result<Head, StoreError> {
        upkeep(&self.store).head().await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        let (is_written, ended) = self.next();
        let to = if is_written { to } else { from };
        let there = upkeep(&self.store).stand(from, to).await?;
        ended.map(|()| there)
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        let (is_written, ended) = self.next();
        if is_written {
            upkeep(&self.store).restore(restore).await?;
        }
        ended
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        upkeep(&self.store).register(account, terms).await
    }
}

/// A process claims while the copy is about to mark it.
#[derive(Debug)]
pub(super) struct Claimed(pub Arc<dyn Store>, pub Claim);

impl Wrapper for Claimed {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Some(self)
    }
}

#[async_trait]
impl Upkeep for Claimed {
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        upkeep(&self.0).reseal(reseal).await
    }

    async fn wipe(&self) -> Result<(), StoreError> {
        upkeep(&self.0).wipe().await
    }

    async fn head(&self) -> Result<Head, StoreError> {
        upkeep(&self.0).head().await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        if from.stage == Stage::Open {
            self.0.claim(self.1.clone()).await?;
        }
        upkeep(&self.0).stand(from, to).await
    }
}

/// A page may have fewer rows than were asked for.
#[derive(Debug)]
pub(super) struct InPagesOfOne(pub Arc<dyn Store>);

#[async_trait]
impl Wrapper for InPagesOfOne {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        _: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.0.list(filter, after, 1).await
    }
}

/// A clock that stands still, and on which no wait is long.
#[derive(Debug)]
pub(super) struct Fixed(pub Timestamp);

impl Clock for Fixed {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn wall(&self) -> Timestamp {
        self.0
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::yield_now())
    }
}
