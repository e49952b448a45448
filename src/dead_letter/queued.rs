//! Calls that lie in the outbox, for an operator who asks by key.

use super::{Change, DeadLetterError, DeadLetters};
use crate::guard::Guard;
use crate::operation::record::{Act, Action};
use crate::store::Queued;

impl DeadLetters {
    /// The rows of the [outbox](crate::outbox) of this name: a key, or a whole name as lists print it. No dispatcher has
    /// recorded them: [`find`](DeadLetters::find) does not know them. Those that were rejected are among them.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn queued(&self, name: &str) -> Result<Vec<Queued>, DeadLetterError> {
        let Some(outbox) = self.store.outbox().filter(|_| Guard::RowFoundByKey.holds()) else {
            return Ok(Vec::new());
        };
        let parts = name.match_indices(" key ").map(|(at, found)| &name[at + found.len()..]);
        let mut rows = Vec::new();
        for key in std::iter::once(name).chain(parts) {
            let found = outbox.of_key(key).await.map_err(DeadLetterError::store("look into the outbox"))?;
            rows.extend(found.into_iter().filter(|row| key == name || row.id.to_string() == name));
        }
        Ok(rows)
    }

    /// Removes a row of the outbox: its call is not made. It is on the audit record, in the same commit. A dry run changes
    /// nothing.
    ///
    /// `false` if the row is not there any more: a dispatcher has recorded it, so that it is an operation to
    /// [`cancel`](DeadLetters::cancel), or somebody else removed it.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if the act has no name or no reason, [`DeadLetterError::Store`].
    pub async fn cancel_queued(&self, row: &Queued, how: &Change) -> Result<bool, DeadLetterError> {
        let Some(outbox) = self.store.outbox() else { return Ok(false) };
        if how.dry_run {
            return Ok(true);
        }
        let Change { by, why, .. } = how.clone();
        let act = Act { action: Action::Cancel, by, why, now: self.now(), fence: None };
        let entry = act.on_row(&row.id).map_err(|forbidden| DeadLetterError::refused(&row.id, forbidden))?;
        outbox.remove(row.number, &entry).await.map_err(DeadLetterError::store("remove a row of the outbox"))
    }
}
