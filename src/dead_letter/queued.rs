//! Calls that lie in the outbox, for an operator who asks by key.

use steadfast_core::internal::store::Outbox;
use steadfast_core::operation::Scope;
use steadfast_core::store::Queued;

use super::{Change, DeadLetterError, DeadLetters};
use crate::change::rows_of;

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
        let Some(outbox) = self.store.outbox() else { return Ok(Vec::new()) };
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

    async fn rows_of(&self, outbox: &dyn Outbox, key: &str) -> Result<Vec<(Queued, bool)>, DeadLetterError> {
        rows_of(outbox, self.clients.iter().map(|client| &*client.engine), key).await
    }

    /// Removes a row of the outbox: its call is not made. It is on the audit record, in the same commit. A dry run changes
    /// nothing.
    ///
    /// `false` if the row is not there any more: a dispatcher has recorded it, so that it is an operation to
    /// [`cancel`](DeadLetters::cancel), or another person removed it.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if the act has no name or no reason, [`DeadLetterError::Store`].
    pub async fn cancel_queued(&self, row: &Queued, how: &Change) -> Result<bool, DeadLetterError> {
        let Some(outbox) = self.store.outbox() else { return Ok(false) };
        if how.dry_run {
            return Ok(true);
        }
        how.cancel_row(outbox, row, self.now()).await
    }
}

/// Whether an operation of the name `scope` may be what a row of the name `written` asks for.
fn may_be_of(scope: &Scope, written: &Scope) -> bool {
    let method = |scope: &Scope| scope.route().split(' ').next().map(str::to_owned);
    scope.is_reached_by(written.account_path()) && method(scope) == method(written)
}
