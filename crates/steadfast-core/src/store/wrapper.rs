//! [`Wrapper`]: a store around another one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Delivery, Maintenance, Outbox, Sealing, Store, StoreError};
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

    /// See [`Store::register`].
    ///
    /// # Errors
    ///
    /// As there.
    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        self.inner().register(account, terms).await
    }

    /// See [`Store::footing`].
    ///
    /// # Errors
    ///
    /// As there.
    fn footing(&self) -> Result<Vec<String>, StoreError> {
        self.inner().footing()
    }

    /// See [`Store::name`].
    fn name(&self) -> &str {
        self.inner().name()
    }

    /// See [`Store::delivery`].
    fn delivery(&self) -> Option<&dyn Delivery> {
        self.inner().delivery()
    }

    /// See [`Store::outbox`]. Claims that admit a row go there, and past [`claim`](Wrapper::claim).
    fn outbox(&self) -> Option<&dyn Outbox> {
        self.inner().outbox()
    }

    /// See [`Store::sealing`].
    fn sealing(&self) -> Option<&dyn Sealing> {
        self.inner().sealing()
    }

    /// See [`Store::maintenance`].
    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.inner().maintenance()
    }
}

/// `Store` for a type, by the methods of the same names of `$via`, on what `$to` makes of `self`.
macro_rules! store_by {
    (impl[$($generics:tt)*] for $type:ty, by $via:ident: |$this:ident| $to:expr) => {
        store_by! {
            [$($generics)*] [$type] [$via] [$this] [$to]
            async {
                claim(claim: Claim) -> Result<Claimed, StoreError>;
                transition(held: &Record, transition: Transition) -> Result<Result<Record, Declined>, StoreError>;
                take(take: Takeover) -> Result<Vec<Record>, StoreError>;
                act(id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError>;
                append_evidence(id: &OperationId, reports: Vec<AttemptReport>)
                    -> Result<Result<(), Declined>, StoreError>;
                evidence(id: &OperationId) -> Result<Vec<AttemptReport>, StoreError>;
                get(id: &OperationId) -> Result<Option<Record>, StoreError>;
                list(filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Summary>, StoreError>;
                tally() -> Result<Vec<Tally>, StoreError>;
                audit(id: Option<&OperationId>, after: Option<&str>, limit: usize)
                    -> Result<Page<AuditEntry>, StoreError>;
                believed(now: Timestamp) -> Result<Timestamp, StoreError>;
                purge(now: Timestamp, limit: usize) -> Result<usize, StoreError>;
                register(account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError>;
            }
            at once {
                time(now: Timestamp) -> Timestamp;
                footing() -> Result<Vec<String>, StoreError>;
                name() -> &str;
                delivery() -> Option<&dyn Delivery>;
                outbox() -> Option<&dyn Outbox>;
                sealing() -> Option<&dyn Sealing>;
                maintenance() -> Option<&dyn Maintenance>;
            }
        }
    };
    (
        [$($generics:tt)*] [$type:ty] [$via:ident] [$this:ident] [$to:expr]
        async { $($name:ident($($value:ident: $of:ty),*) -> $gives:ty;)* }
        at once { $($now:ident($($given:ident: $is:ty),*) -> $back:ty;)* }
    ) => {
        #[async_trait]
        impl<$($generics)*> Store for $type {
            $(async fn $name(&self, $($value: $of),*) -> $gives {
                let $this = self;
                $via::$name($to, $($value),*).await
            })*

            $(fn $now(&self, $($given: $is),*) -> $back {
                let $this = self;
                $via::$now($to, $($given),*)
            })*
        }
    };
}

store_by!(impl[S: Store + ?Sized] for Arc<S>, by Store: |shared| &**shared);
store_by!(impl[W: Wrapper] for W, by Wrapper: |wrapper| wrapper);
