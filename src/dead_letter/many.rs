//! Resolve, reopen or cancel many operations at once.
//!
//! As a redrive, a filter is frozen when it starts, and each act names the fence of the record that it judged.

use std::time::Duration;

use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Filter, Resolution};

use super::outcome::Of;
use super::{Change, DeadLetterError, DeadLetters, Outcome, PAGE_ROWS};

impl DeadLetters {
    /// Records the same resolution for each of these dead letters, or takes it back (`None`), as
    /// [`resolve`](DeadLetters::resolve) and [`reopen`](DeadLetters::reopen) do.
    ///
    /// # Errors
    ///
    /// As there, but for what is refused, which is held back; those before it are done.
    pub async fn resolve_each(
        &self,
        ids: &[OperationId],
        resolution: Option<&Resolution>,
        how: &Change,
    ) -> Result<Outcome, DeadLetterError> {
        let mut outcome = Outcome::new(how, Of::Resolution);
        for id in ids {
            self.resolve_one(id, resolution, how, &mut outcome).await?;
        }
        Ok(outcome)
    }

    /// Resolves all dead letters that match, as [`resolve_each`](DeadLetters::resolve_each) does.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// use steadfast::dead_letter::Change;
    /// use steadfast::operation::record::{Filter, Resolution};
    ///
    /// let of_today = Filter { key_prefix: Some("order-4".to_owned()), ..Filter::default() };
    /// let how = Change::by("ada").because("the shop was closed");
    /// let counted = letters.resolve_all(&of_today, Some(&Resolution::NotApplied), &how.clone().dry_run()).await?;
    /// assert_eq!((counted.matched, counted.done, counted.held_back), (2, 2, 0));
    /// letters.resolve_all(&of_today, Some(&Resolution::NotApplied), &how).await?;
    /// assert!(letters.list(&of_today, None, 20).await?.rows.is_empty());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// As there, and as [`list`](DeadLetters::list).
    pub async fn resolve_all(
        &self,
        filter: &Filter,
        resolution: Option<&Resolution>,
        how: &Change,
    ) -> Result<Outcome, DeadLetterError> {
        let (mut outcome, frozen) = self.frozen(filter, Outcome::new(how, Of::Resolution));
        let (asked, mut after) = (self.asked(&frozen).await?, None);
        loop {
            let page = self.letters(&asked, frozen.code.as_deref(), after, PAGE_ROWS).await?;
            for letter in page.rows {
                self.resolve_one(&letter.id, resolution, how, &mut outcome).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(outcome);
            }
        }
    }

    /// Cancels each of these operations, as [`cancel`](DeadLetters::cancel) does.
    ///
    /// # Errors
    ///
    /// As there, but for what is refused, which is held back; those before it are done.
    pub async fn cancel_each(&self, ids: &[OperationId], how: &Change) -> Result<Outcome, DeadLetterError> {
        let mut outcome = Outcome::new(how, Of::Cancellation);
        for id in ids {
            outcome.matched += 1;
            outcome.note(id, self.cancel(id, how).await)?;
        }
        Ok(outcome)
    }

    /// Cancels all [waiting](DeadLetters::waiting) operations that match, as [`cancel_each`](DeadLetters::cancel_each)
    /// does.
    ///
    /// # Errors
    ///
    /// As there, and as [`waiting`](DeadLetters::waiting).
    pub async fn cancel_all(&self, filter: &Filter, how: &Change) -> Result<Outcome, DeadLetterError> {
        let (mut outcome, frozen) = self.frozen(filter, Outcome::new(how, Of::Cancellation));
        let mut after: Option<String> = None;
        loop {
            let page = self.waiting(&frozen, after.as_deref(), PAGE_ROWS).await?;
            for row in page.rows {
                outcome.matched += 1;
                outcome.note(&row.id, self.cancel(&row.id, how).await)?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(outcome);
            }
        }
    }

    /// Freezes the filter: an operation that moves from now on no longer matches. One that moved in this very
    /// millisecond does: nothing shows that it moved later.
    pub(super) fn frozen(&self, filter: &Filter, mut outcome: Outcome) -> (Outcome, Filter) {
        let at = filter.updated_before.unwrap_or_else(|| self.now().plus(Duration::from_millis(1)));
        outcome.frozen_at = Some(at);
        (outcome, Filter { updated_before: Some(at), ..filter.clone() })
    }

    async fn resolve_one(
        &self,
        id: &OperationId,
        resolution: Option<&Resolution>,
        how: &Change,
        outcome: &mut Outcome,
    ) -> Result<(), DeadLetterError> {
        outcome.matched += 1;
        let done = match resolution {
            Some(resolution) => self.resolve(id, resolution.clone(), how).await,
            None => self.reopen(id, how).await,
        };
        outcome.note(id, done)
    }
}
