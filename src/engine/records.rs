//! Reads of an operation: its record, a row of the outbox that asks for it, and whether its time is over.

use http::{HeaderName, Method};

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::ext::{RecordExt, RecordNameExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::OutboxRow;
use steadfast_core::operation::record::Record;
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::StoreError;
use steadfast_core::transport::Request;
use steadfast_core::{Disposition, Effect};

use super::Engine;
use crate::limit;

/// An operation in the store.
pub(super) enum Found {
    /// Its record.
    Record(Box<Record>),
    /// A row of the outbox that no dispatcher has recorded yet, written at this time.
    Row(Timestamp),
    Nothing,
}

/// The word for what is a row of the outbox.
pub(super) const IN_OUTBOX: (Effect, Disposition) = (Effect::None, Disposition::Continues { at: None });

impl Engine {
    /// Whether what is on record is of a life of the key that is over: then a claim begins the next one. By the time that
    /// the store believes, as at the claim: our own clock may be days ahead. If the store does not answer, it is over.
    pub(super) async fn is_over(&self, record: &Record, until: Instant) -> bool {
        let now = self.wall();
        // A store never believes a later time than it is told.
        if !record.has_expired(now) {
            return false;
        }
        self.believed(until).await.is_none_or(|believed| record.has_expired(believed))
    }

    /// The time that the store believes: a clock that is wrong for a moment does not move it. `None` if the store cannot say.
    async fn believed(&self, until: Instant) -> Option<Timestamp> {
        limit::within(&*self.clock, until, self.store.believed(self.wall())).await?.ok()
    }

    /// The time since which a waiting operation has waited for as long as records are kept. `None` if the store cannot say what time it is.
    pub(crate) async fn too_long_since(&self) -> Option<Timestamp> {
        let now = self.believed(self.clock.now().plus(STORE_GRACE)).await?;
        Some(now.minus(self.policy.retention))
    }

    /// Whether what is on record under this name is of a life of the key that is over.
    pub(crate) async fn has_only_an_earlier_life(&self, id: &OperationId) -> bool {
        let until = self.clock.now().plus(STORE_GRACE);
        match limit::within(&*self.clock, until, self.store.get(id)).await {
            Some(Ok(Some(record))) => self.is_over(&record, until).await,
            _ => false,
        }
    }

    /// The record under this name. `Err` is why the store cannot say, if it answered in time.
    pub(super) async fn record_of(
        &self,
        id: &OperationId,
        until: Instant,
    ) -> Result<Option<Record>, Option<StoreError>> {
        limit::within(&*self.clock, until, self.store.get(id)).await.ok_or(None)?.map_err(Some)
    }

    /// The same, or a row of the outbox. A row may become a record between the two looks: where there is neither, or only a
    /// record that leaves its key free, the record is looked for again.
    pub(super) async fn record_or_row(
        &self,
        id: &OperationId,
        until: Instant,
    ) -> Result<Found, Option<StoreError>> {
        let found = |record: Record| Found::Record(Box::new(record));
        let before = self.record_of(id, until).await?;
        let is_the_last_word = match &before {
            Some(record) => !record.is_freed() && !self.is_over(record, until).await,
            None => false,
        };
        if is_the_last_word || self.outbox().is_none() {
            return Ok(before.map_or(Found::Nothing, found));
        }
        if let Some(written) = self.row_written(id, until).await.ok_or(None)? {
            return Ok(before.map_or(Found::Row(written), found));
        }
        Ok(self.read_again(id, until).await?.or(before).map_or(Found::Nothing, found))
    }

    /// The record, once no row was found that may take over its name: one may have been admitted between the two looks.
    pub(super) async fn read_again(
        &self,
        id: &OperationId,
        until: Instant,
    ) -> Result<Option<Record>, Option<StoreError>> {
        Ok(Guard::RowBecameRecord.keeps(self.record_of(id, until).await?))
    }

    /// Whether a row of the outbox asks for this operation and is not recorded yet. `None` if the store cannot say, or not
    /// in time.
    pub(super) async fn is_in_outbox(&self, id: &OperationId, until: Instant) -> Option<bool> {
        self.row_written(id, until).await.map(|written| written.is_some())
    }

    /// When the first of these rows was written, if there is one. `None` as there.
    pub(super) async fn row_written(&self, id: &OperationId, until: Instant) -> Option<Option<Timestamp>> {
        let Some(outbox) = self.outbox().filter(|_| Guard::RowIsToldOf.holds()) else { return Some(None) };
        let account = self.account();
        let rows = outbox.under_key(&account, id.key.as_str());
        let rows = limit::within(&*self.clock, until, rows).await?.ok()?;
        let ours = rows.iter().filter(|row| self.may_be_admitted_as(row, &id.scope));
        Some(ours.map(|row| row.enqueued_at).min())
    }

    /// Whether the operation that a row asks for is of this scope, or will be. One that is on record from before the vendor
    /// moved keeps its name.
    fn may_be_admitted_as(&self, row: &OutboxRow, scope: &Scope) -> bool {
        let Some(request) = self.request_of_row(row) else { return false };
        let path = request.url.path();
        let is_of = |path: &str| self.scope_at(&request, path) == *scope;
        is_of(path) || self.former_paths(path).any(|former| is_of(&former))
    }

    /// The disposition of an operation after its holder has freed its key, since its credentials were refused: a row of the
    /// outbox may take it over, or has done so. `None`: it ends here.
    pub(super) async fn next_of_freed(&self, freed: &Record) -> Option<Disposition> {
        self.outbox()?;
        let until = self.clock.now().plus(STORE_GRACE);
        if self.is_in_outbox(&freed.id, until).await != Some(false) {
            return Some(IN_OUTBOX.1);
        }
        let record = self.record_of(&freed.id, until).await.ok()??;
        (record.fence != freed.fence).then(|| record.disposition())
    }

    /// The scope of the operation that a row asks for; `None` of one that will be rejected.
    pub(crate) fn scope_of_row(&self, row: &OutboxRow) -> Option<Scope> {
        let request = self.request_of_row(row)?;
        Some(self.scope_at(&request, request.url.path()))
    }

    /// The request of a row, without its body: it names the operation.
    fn request_of_row(&self, row: &OutboxRow) -> Option<Request> {
        let mut url = self.vendor.base_url().clone();
        let path = row.path.split('?').next().unwrap_or_default();
        url.set_path(&[url.path().trim_end_matches('/'), path].concat());
        let mut request = Request::new(Method::from_bytes(row.method.as_bytes()).ok()?, url);
        for (name, value) in &row.headers {
            request.headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, value.parse().ok()?);
        }
        Some(request)
    }
}
