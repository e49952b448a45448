//! Looks at an operation by its key: its record, or the row of the outbox that asks for it.

use std::sync::Arc;

use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::store::StoreError;
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error};

use super::Engine;
use super::enqueue::{Accepted, Row};
use super::entry::Named;
use super::on_record::{Standing, in_progress};
use super::records::{Found, IN_OUTBOX};
use crate::reply::Reply;

impl Engine {
    /// The recorded outcome of the operation with this key, of the call that `request` is the one of: a success, or how else
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
            Err(source) => return Err(named(failed().with_cause(source))),
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
            let failed = Error::new(Kind::Store { doing: READ }, Effect::Unknown).with_cause(source);
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
}

/// The error of a row that waits.
fn in_outbox() -> Error {
    let (effect, next) = IN_OUTBOX;
    Error::new(Kind::InProgress, effect).with_disposition(next)
}

const READ: &str = "read what is on record";
