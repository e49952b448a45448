//! What there is of an operation: its record, or a row of the outbox that asks for it.

use std::sync::Arc;

use http::{HeaderName, Method};

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, RecordExt, RecordNameExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::OutboxRow;
use steadfast_core::operation::record::Record;
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::StoreError;
use steadfast_core::transport::Request;
use steadfast_core::{Disposition, Effect, Error};

use super::enqueue::{Accepted, Row};
use super::keyed::Named;
use super::on_record::{Standing, in_progress};
use super::{Engine, limit};
use crate::reply::Reply;

/// What there is of an operation.
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
    /// What is on record of the operation with this key, of the call that `request` is the one of: a success, or how else
    /// it stands. `None` if nothing is on record, or its time is over.
    pub(crate) async fn recorded(
        &self,
        request: &Request,
        key: Key,
        deadline: Instant,
    ) -> Result<Option<Reply>, Error> {
        let id = self.name_of(request, key, deadline).await?;
        let named = |error: Error| {
            if error.key().is_some() { error } else { self.in_context(error, request, Some((&id, None))) }
        };
        let failed = || Error::new(Kind::Store { doing: READ }, Effect::Unknown);
        let until = deadline.max(self.clock.now().plus(STORE_GRACE));
        let record = match self.record_or_row(&id, until).await {
            Ok(Found::Record(record)) => *record,
            Ok(Found::Row(_)) => return Err(named(in_outbox())),
            Ok(Found::Nothing) => return Ok(None),
            Err(source) => return Err(named(failed().because_of(source))),
        };
        match self.standing_of(record, until).await {
            Standing::Final { is_over: true, .. } | Standing::Absent => {
                match self.is_in_outbox(&id, until).await {
                    Some(false) => Ok(None),
                    Some(true) => Err(named(in_outbox())),
                    None => Err(named(failed())),
                }
            }
            Standing::Final { outcome, .. } => outcome.map(Some).map_err(named),
            Standing::Free(refused) => Err(named(refused)),
            Standing::Open(open) => Err(named(in_progress(&open))),
            Standing::CannotSay => Err(named(failed())),
        }
    }

    /// The handle of the operation with this key, whatever body it was recorded with; `None` if there is none.
    pub(crate) async fn accepted(
        &self,
        request: Request,
        key: Key,
        deadline: Instant,
    ) -> Result<Option<Accepted>, Error> {
        let id = self.name_of(&request, key, deadline).await?;
        let until = deadline.max(self.clock.now().plus(STORE_GRACE));
        let failed = |source: Option<StoreError>| {
            let failed = Error::new(Kind::Store { doing: READ }, Effect::Unknown).because_of(source);
            self.in_context(failed, &request, Some((&id, None)))
        };
        let (record, written) = match self.record_or_row(&id, until).await.map_err(failed)? {
            Found::Record(record) if self.is_over(&record, until).await => {
                (None, self.row_written(&id, until).await.ok_or_else(|| failed(None))?)
            }
            Found::Record(record) => (Some(*record), None),
            Found::Row(written) => (None, Some(written)),
            Found::Nothing => (None, None),
        };
        let in_outbox = written.map(|written| Row { since: self.clock.now(), written });
        if record.is_none() && in_outbox.is_none() {
            return Ok(None);
        }
        let request = record.as_ref().map_or_else(|| Arc::new(request), |record| Arc::clone(&record.request));
        // A row may be recorded by a former name that an older process gives only now.
        let formers = match in_outbox {
            Some(_) => {
                self.former_paths(request.url.path()).map(|path| self.scope_at(&request, &path)).collect()
            }
            None => Vec::new(),
        };
        let by_name = |scope| Named::by_name(OperationId::new(scope, id.key.clone()), &request, None);
        let formers = formers.into_iter().map(by_name).collect();
        let named = Named::by_name(id, &request, record.as_ref());
        Ok(Some(Accepted { named, formers, request, is_new: false, in_outbox, by_name: true }))
    }

    /// The name of the operation with this key, of the call that `request` is the one of.
    async fn name_of(&self, request: &Request, key: Key, deadline: Instant) -> Result<OperationId, Error> {
        let former = match self.former_base_urls.is_empty() {
            true => None,
            false => Box::pin(self.former_name(request, &key, deadline)).await?,
        };
        let path = former.as_deref().unwrap_or(request.url.path());
        Ok(OperationId::new(self.scope_at(request, path), key))
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
    async fn row_written(&self, id: &OperationId, until: Instant) -> Option<Option<Timestamp>> {
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

    /// What becomes of an operation after its holder has freed its key, since its credentials were refused: a row of the
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

    /// What names the operation that a row asks for: not its body.
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

/// What is told of a row that waits.
fn in_outbox() -> Error {
    let (effect, next) = IN_OUTBOX;
    Error::new(Kind::InProgress, effect).going_on(next)
}

const READ: &str = "read what is on record";
