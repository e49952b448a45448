//! Calls that lie in the outbox, for an operator who asks by key.

use steadfast_core::internal::ext::ActExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::Outbox;
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{Act, Action};
use steadfast_core::store::Queued;

use super::{Change, DeadLetterError, DeadLetters};

impl DeadLetters {
    /// The rows of the [outbox](crate::outbox) of this name: a key, or a whole name as lists print it. No dispatcher has
    /// recorded them: [`find`](DeadLetters::find) does not know them. Those that were rejected are among them.
    ///
    /// A row has the name that a [client](DeadLetters::with_client) of its account gives it. Without one it has a name by
    /// what is written in it, which leaves out what a header or the base URL adds. Then a whole name that no row has finds
    /// those of its key, account and method.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn queued(&self, name: &str) -> Result<Vec<Queued>, DeadLetterError> {
        let Some(outbox) = self.store.outbox().filter(|_| Guard::RowFoundByKey.holds()) else {
            return Ok(Vec::new());
        };
        let mut rows = self.rows_of(outbox, name).await?;
        for (at, found) in name.match_indices(" key ") {
            let (scope, key) = (Scope::from_stored(&name[..at]), &name[at + found.len()..]);
            let of_key = self.rows_of(outbox, key).await?;
            let is_exact = of_key.iter().any(|(row, _)| row.id.scope == scope);
            rows.extend(of_key.into_iter().filter(|(row, is_named)| match is_exact || *is_named {
                true => row.id.scope == scope,
                false => may_be_of(&scope, &row.id.scope),
            }));
        }
        Ok(rows.into_iter().map(|(row, _)| row).collect())
    }

    /// The rows of a key. `true`: a client has named it.
    async fn rows_of(&self, outbox: &dyn Outbox, key: &str) -> Result<Vec<(Queued, bool)>, DeadLetterError> {
        let found = outbox.of_key(key).await.map_err(DeadLetterError::store("look into the outbox"))?;
        let mut rows: Vec<_> = found.into_iter().map(|row| (row, false)).collect();
        if rows.is_empty() {
            return Ok(rows);
        }
        for engine in self.clients.iter().map(|client| &client.engine) {
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

/// Whether an operation of the name `scope` may be what a row of the name `written` asks for.
fn may_be_of(scope: &Scope, written: &Scope) -> bool {
    let method = |scope: &Scope| scope.route().split(' ').next().map(str::to_owned);
    scope.is_reached_by(written.account_path()) && method(scope) == method(written)
}
