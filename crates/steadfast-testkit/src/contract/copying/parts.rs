//! A store that fails at one of its writes, and a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use steadfast_core::BoxFuture;
use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::operation::record::{Claim, Filter, Page, Summary};
use steadfast_core::store::maintenance::{Head, Maintenance, Restore, Stage, Standing};
use steadfast_core::store::{Store, StoreError, Wrapper};

use super::maintenance;

/// A store that fails at one of its writes, and at all later ones.
#[derive(Debug)]
pub(super) struct Breaks {
    store: Arc<dyn Store>,
    /// Number of writes left, with the one that fails.
    left: Arc<AtomicUsize>,
    /// True if the failing write is carried out.
    is_written: bool,
}

impl Breaks {
    /// Returns a store that fails at the write number `writes`, before it or after it.
    pub(super) fn at(store: &Arc<dyn Store>, writes: usize, is_written: bool) -> Breaks {
        Breaks { store: store.clone(), left: Arc::new(AtomicUsize::new(writes + 1)), is_written }
    }

    /// Returns a wrapper of another store that counts the same writes.
    pub(super) fn beside(&self, store: &Arc<dyn Store>) -> Breaks {
        Breaks { store: store.clone(), left: self.left.clone(), is_written: self.is_written }
    }

    /// Returns true if this write is carried out, and its result.
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

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Maintenance for Breaks {
    async fn head(&self) -> Result<Head, StoreError> {
        maintenance(&self.store).head().await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        let (is_written, ended) = self.next();
        let to = if is_written { to } else { from };
        let there = maintenance(&self.store).stand(from, to).await?;
        ended.map(|()| there)
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        let (is_written, ended) = self.next();
        if is_written {
            maintenance(&self.store).restore(restore).await?;
        }
        ended
    }
}

/// A store where a process claims while the copy is about to mark it.
#[derive(Debug)]
pub(super) struct Claimed(pub Arc<dyn Store>, pub Claim);

impl Wrapper for Claimed {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Maintenance for Claimed {
    async fn head(&self) -> Result<Head, StoreError> {
        maintenance(&self.0).head().await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        if from.stage == Stage::Open {
            self.0.claim(self.1.clone()).await?;
        }
        maintenance(&self.0).stand(from, to).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        maintenance(&self.0).restore(restore).await
    }
}

/// A store that returns pages with fewer rows than the limit.
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
