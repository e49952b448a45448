//! Operations under a name that no client has any more: cancel them, or adopt them under the new name.
//!
//! An adoption goes operation by operation, each in a transaction of its own. If it is cut short, the same again
//! completes it, because what was adopted is closed under its old name.

use steadfast_core::internal::ext::{InputErrorExt, RecordNameExt};
use steadfast_core::operation::record::{Action, Filter, Forbidden, Record, Summary};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::{Error, Input};

use super::outcome::Of;
use super::unreached::reaches;
use super::{Change, DeadLetterError, DeadLetters, Outcome, PAGE_ROWS};

impl DeadLetters {
    /// Cancels an operation that waits for its next attempt, or that a dead process left. It becomes a dead letter
    /// that is closed. Its effect stays as on record; a late answer that proves success still settles it. A dry run
    /// gives the operation as it would be.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if a process holds it, it has ended, or the act has no name or no reason.
    pub async fn cancel(&self, id: &OperationId, how: &Change) -> Result<Summary, DeadLetterError> {
        Ok(how.cancel(&*self.store, id, self.now()).await?.summary())
    }

    /// Carries on under a new name with all that is on record under an old one. Open operations and dead letters go on
    /// there, and settled ones are answered from their records there too. Each keeps the wire key that the vendor
    /// knows, and its evidence. An open operation is closed under its old name. A process that still has that name then
    /// neither carries on with it nor claims it again.
    ///
    /// An operation is held back if a process holds it, or if it was sent to an address that the new name's client
    /// does not call. It is also held back if the new name is on record already: both may have been sent, so look at
    /// both.
    ///
    /// `from` and `to` are `NAMESPACE/VENDOR/ACCOUNT`, as a scope begins. The old name includes what is reached through
    /// it, such as Stripe's connected accounts.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// # let store: std::sync::Arc<dyn steadfast::store::Store> = store;
    /// # let fake = steadfast::testkit::fakes::PostmarkFake::builder().test_clock(&clock).in_process();
    /// use steadfast::Client;
    /// use steadfast::dead_letter::{Change, DeadLetters};
    /// use steadfast::vendor::Postmark;
    ///
    /// // The service has named its account: it was `default` until today.
    /// let renamed = Client::builder(Postmark::new("a-server-token").account("shop"))
    /// #   .transport(fake.transport())
    ///     .store(store.clone())
    ///     .build()?;
    /// let letters = DeadLetters::new(store).with_client(&renamed).with_clock(clock);
    ///
    /// let (old, new) = ("default/postmark/default", "default/postmark/shop");
    /// let change = Change::by("ada").because("the account has a name now");
    /// assert_eq!(letters.adopt(old, new, &change.clone().dry_run()).await?.done, 2);
    /// assert_eq!(letters.adopt(old, new, &change).await?.done, 2);
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] for names that are no account's, are the same, or are of no
    /// [client](DeadLetters::with_client) that is known here; [`DeadLetterError::Store`], with those before it adopted.
    pub async fn adopt(&self, from: &str, to: &str, how: &Change) -> Result<Outcome, DeadLetterError> {
        self.check_names(from, to)?;
        let vendor = Some(Scope::from_stored(format!("{from}/")).vendor_path().to_owned());
        let filter = Filter { vendor, ..Filter::default() };
        let mut adopted = Outcome::new(how, Of::Adoption);
        let mut after = None;
        loop {
            let page = self.page(&filter, after.as_deref(), PAGE_ROWS).await?;
            for summary in page.rows.iter().filter(|summary| summary.id.scope.is_reached_by(from)) {
                self.adopt_one(&summary.id, (from, to), how, &mut adopted).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(adopted);
            }
        }
    }

    async fn adopt_one(
        &self,
        id: &OperationId,
        (from, to): (&str, &str),
        how: &Change,
        adopted: &mut Outcome,
    ) -> Result<(), DeadLetterError> {
        let Some(record) = self.get(id).await?.filter(|record| !record.is_adopted()) else { return Ok(()) };
        let rest = id.scope.as_str().strip_prefix(from).unwrap_or_default();
        let scope = Scope::from_stored(format!("{to}{rest}"));
        let new = OperationId::new(scope.clone(), id.key.clone());
        if let Some(held) = self.get(&new).await?
            && held.first_scope.as_ref() == Some(&id.scope)
        {
            // Settled, and adopted before.
            return Ok(());
        }
        adopted.matched += 1;
        let told = if !self.calls(&record, to) {
            Err(Forbidden::Elsewhere)
        } else if how.dry_run {
            self.dry_run(&record, &new).await?
        } else {
            match self.act(id, Action::Adopt { to: scope }, how, Some(record.fence)).await {
                Ok(_) => Ok(()),
                Err(DeadLetterError::Refused { why, .. }) => Err(why),
                Err(error) => return Err(error),
            }
        };
        match told {
            Ok(()) => adopted.done += 1,
            Err(why) => adopted.hold_back(id.clone(), why),
        }
        Ok(())
    }

    async fn dry_run(
        &self,
        record: &Record,
        new: &OperationId,
    ) -> Result<Result<(), Forbidden>, DeadLetterError> {
        if let Err(forbidden) = record.adopted(&new.scope, self.now(), 0) {
            return Ok(Err(forbidden));
        }
        let is_taken = self.get(new).await?.is_some_and(|held| !held.has_expired(self.now()));
        Ok(if is_taken { Err(Forbidden::NameTaken) } else { Ok(()) })
    }

    fn check_names(&self, from: &str, to: &str) -> Result<(), DeadLetterError> {
        let invalid = |what, problem: String| {
            Err(DeadLetterError::Invalid(Error::invalid(Input::Other(what), problem)))
        };
        for (what, path) in [("from", from), ("to", to)] {
            if path.matches('/').count() != 2 || path.starts_with('/') || path.contains("//") {
                let problem = format!("{path:?} is no NAMESPACE/VENDOR/ACCOUNT, such as prod/stripe/live");
                return invalid(what, problem);
            }
        }
        if from == to {
            return invalid("to", "it is the old name".to_owned());
        }
        if !self.clients.iter().any(|client| reaches(client, to)) {
            let known: Vec<String> = self.clients.iter().map(|client| client.engine.account_path()).collect();
            let problem = format!(
                "no client that is known here carries on with {to:?}; known: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
            return invalid("to", problem);
        }
        Ok(())
    }

    /// Whether a client of the account `path` calls the address that the operation was sent to: its secret must not
    /// go to another.
    fn calls(&self, record: &Record, path: &str) -> bool {
        let mut clients = self.clients.iter().filter(|client| reaches(client, path));
        clients.any(|client| client.engine.reaches(&record.request.url))
    }
}
