//! A signed change of a record: by an operator, or by the service that cancels its own call.

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::ActExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::Outbox;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Act, Action, Record, State};
use steadfast_core::store::{Queued, Store};

use crate::engine::Engine;

mod error;

pub use error::DeadLetterError;

/// Signature and options of a change of dead letters.
///
/// ```
#[doc = include_str!("docs/setup/dead_letters.md")]
/// use steadfast::Effect;
/// use steadfast::dead_letter::Change;
/// use steadfast::operation::record::Filter;
///
/// // First count, then do it.
/// let not_applied = Filter { effect: Some(Effect::None), ..Filter::default() };
/// let counted = letters.redrive_all(&not_applied, &Change::by("ada").dry_run()).await?;
/// assert_eq!(counted.done, 1);
/// letters.redrive_all(&not_applied, &Change::by("ada")).await?;
///
/// // The service's own client sends it, through its gates.
/// assert_eq!(postmark.recover(10).await?.succeeded, 1);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The operator's name, kept on the audit record. At most
    /// [`Act::BY_BYTES_MAX`](crate::operation::record::Act::BY_BYTES_MAX) bytes.
    pub by: String,
    /// The reason, kept on the audit record. At most
    /// [`Act::WHY_BYTES_MAX`](crate::operation::record::Act::WHY_BYTES_MAX) bytes. A redrive of what is safe needs none.
    pub why: String,
    /// Whether to send what may have taken effect, although neither the vendor's window, nor a lookup, nor the method
    /// makes that safe. It needs a reason, and risks a second effect. Only redrives and edits ask for it.
    pub force: bool,
    /// Whether to send a PUT, a PATCH or a DELETE, although it replaces or removes what was written since. It needs a
    /// reason. A request with `If-Match` or `If-Unmodified-Since` does not need this: the vendor refuses it if it is
    /// too late. Only redrives ask for it.
    pub overwrite: bool,
    /// Whether this is a dry run: it counts, changes nothing, and needs neither name nor reason.
    pub dry_run: bool,
}

impl Change {
    /// A change of what is safe to change, signed by an operator.
    pub fn by(name: impl Into<String>) -> Change {
        Change { by: name.into(), why: String::new(), force: false, overwrite: false, dry_run: false }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Change {
        self.why = why.into();
        self
    }

    /// Also sends letters that are not safe to send.
    #[must_use]
    pub fn force(mut self) -> Change {
        self.force = true;
        self
    }

    /// Also sends letters that overwrite later writes.
    #[must_use]
    pub fn overwrite(mut self) -> Change {
        self.overwrite = true;
        self
    }

    /// Makes it a dry run.
    #[must_use]
    pub fn dry_run(mut self) -> Change {
        self.dry_run = true;
        self
    }

    /// Records one action, or says what it would come to.
    pub(crate) async fn act(
        &self,
        store: &dyn Store,
        id: &OperationId,
        action: Action,
        fence: Option<u64>,
        now: Timestamp,
    ) -> Result<Record, DeadLetterError> {
        let act = self.signed(action, now, fence);
        let refused = |forbidden| DeadLetterError::refused(id, forbidden);
        if self.dry_run {
            // It needs neither name nor reason.
            let signed = Act { by: "a dry run".to_owned(), why: "a dry run".to_owned(), ..act };
            let record = on_record(store, id).await?;
            return record.act(&signed).map(|(record, _)| record).map_err(refused);
        }
        let acted = store.act(id, act).await.map_err(DeadLetterError::store("record the action"))?;
        let record = acted.map_err(refused)?;
        if let (State::Scheduled { at }, Some(delivery)) = (&record.state, store.delivery()) {
            delivery.wakes().wake(Some(&record.id.scope), *at);
        }
        Ok(record)
    }

    /// Closes an operation that no process is sending.
    pub(crate) async fn cancel(
        &self,
        store: &dyn Store,
        id: &OperationId,
        now: Timestamp,
    ) -> Result<Record, DeadLetterError> {
        let record = on_record(store, id).await?;
        self.act(store, id, Action::Cancel, Some(record.fence), now).await
    }

    /// Removes a row of the outbox. Returns true if it was there.
    pub(crate) async fn cancel_row(
        &self,
        outbox: &dyn Outbox,
        row: &Queued,
        now: Timestamp,
    ) -> Result<bool, DeadLetterError> {
        let entry = self.signed(Action::Cancel, now, None).on_row(&row.id);
        let entry = entry.map_err(|forbidden| DeadLetterError::refused(&row.id, forbidden))?;
        outbox.remove(row.number, &entry).await.map_err(DeadLetterError::store("remove a row of the outbox"))
    }

    fn signed(&self, action: Action, now: Timestamp, fence: Option<u64>) -> Act {
        let Change { by, why, .. } = self.clone();
        Act { action, by, why, now, fence }
    }
}

/// The record of an operation.
pub(crate) async fn on_record(store: &dyn Store, id: &OperationId) -> Result<Record, DeadLetterError> {
    let record = store.get(id).await.map_err(DeadLetterError::store("read an operation"))?;
    record.ok_or_else(|| DeadLetterError::Absent(id.to_string()))
}

/// The rows of a key in the outbox. Each with whether a client named it, as the operation that it becomes; else it has the
/// name that is written.
pub(crate) async fn rows_of(
    outbox: &dyn Outbox,
    engines: impl Iterator<Item = &Engine>,
    key: &str,
) -> Result<Vec<(Queued, bool)>, DeadLetterError> {
    let found = outbox.of_key(key).await.map_err(DeadLetterError::store("look into the outbox"))?;
    let mut rows: Vec<_> = found.into_iter().map(|row| (row, false)).collect();
    if rows.is_empty() || !Guard::RowFoundByKey.holds() {
        return Ok(Vec::new());
    }
    for engine in engines {
        // What cannot be read here, for want of a key or a right, keeps the name that is written.
        for whole in outbox.under_key(&engine.account(), key).await.unwrap_or_default() {
            let row = rows.iter_mut().find(|(row, _)| row.number == whole.number);
            if let Some(((row, is_named), scope)) = row.zip(engine.scope_of_row(&whole)) {
                (row.id.scope, *is_named) = (scope, true);
            }
        }
    }
    Ok(rows)
}
