//! Operations under a name that no client has any more: cancel them, or adopt them under the new name.
//!
//! An adoption goes operation by operation, each in a transaction of its own. If it is cut short, the same again
//! completes it, because what was adopted is closed under its old name.

use super::safety::is_below;
use super::unreached::reaches;
use super::{DeadLetterError, DeadLetters, HeldBack, PAGE_ROWS, Refused, Signed};
use crate::error::{Error, Input};
use crate::operation::record::{Action, Filter, Forbidden, Record, Summary};
use crate::operation::{OperationId, Scope};

/// An adoption: which operations go on under which name.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// # let store: std::sync::Arc<dyn steadfast::store::Store> = store;
/// # let fake = steadfast::testkit::fakes::PostmarkFake::builder().test_clock(&clock).in_process();
/// use steadfast::Client;
/// use steadfast::dead_letter::{Adopt, DeadLetters, Signed};
/// use steadfast::vendor::Postmark;
///
/// // The service has named its account: it was `default` until today.
/// let renamed = Client::builder(Postmark::new("a-server-token").account("shop"))
/// #   .transport(fake.transport())
///     .store(store.clone())
///     .build()?;
/// let letters = DeadLetters::new(store).with_client(&renamed).with_clock(clock);
///
/// let signed = Signed::new("ada", "the account has a name now");
/// let adopt = Adopt::from("default/postmark/default", "default/postmark/shop", signed);
/// assert_eq!(letters.adopt(&adopt.clone().rehearse()).await?.adopted, 2);
/// assert_eq!(letters.adopt(&adopt).await?.adopted, 2);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopt {
    /// The old name: `NAMESPACE/VENDOR/ACCOUNT`, as a scope begins. It includes what is reached through it, such as
    /// Stripe's connected accounts.
    pub from: String,
    /// The new name, in the same form.
    pub to: String,
    /// The operator's name and reason.
    pub signed: Signed,
    /// Whether this is a dry run: it counts, changes nothing, and needs neither name nor reason.
    pub rehearsal: bool,
}

/// The result of an adoption, or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Whether nothing was changed and only counted.
    pub rehearsal: bool,
    /// Operations under the old name that were not adopted before.
    pub matched: u64,
    /// Of these, now under the new name too.
    pub adopted: u64,
    /// The others: not changed.
    pub held_back: u64,
    /// The first of the others, at most [`Redriven::HELD_BACK_SHOWN_MAX`](super::Redriven::HELD_BACK_SHOWN_MAX).
    pub why_held_back: Vec<HeldBack>,
}

impl Adopt {
    /// An adoption.
    pub fn from(from: impl Into<String>, to: impl Into<String>, signed: Signed) -> Adopt {
        Adopt { from: from.into(), to: to.into(), signed, rehearsal: false }
    }

    /// Makes it a dry run.
    #[must_use]
    pub fn rehearse(mut self) -> Adopt {
        self.rehearsal = true;
        self
    }
}

impl DeadLetters {
    /// Cancels an operation that waits for its next attempt, or that a dead process left. It becomes a dead letter
    /// that is closed. Its effect stays as on record; a late answer that proves success still settles it.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if a process holds it, it has ended, or the act has no name or no reason.
    pub async fn cancel(&self, id: &OperationId, signed: &Signed) -> Result<Summary, DeadLetterError> {
        let record = self.record(id).await?;
        Ok(self.act(id, Action::Cancel, signed, Some(record.fence)).await?.summary())
    }

    /// Carries on under a new name with all that is on record under an old one. What is open and what is dead goes on
    /// there, and what is settled is answered from its record there too. Each keeps the wire key that the vendor
    /// knows, and its evidence. What was open is closed under its old name. A process that still has that name then
    /// neither carries on with it nor claims it anew.
    ///
    /// An operation is held back if a process holds it, or if it was sent to an address that the new name's client
    /// does not call. It is also held back if the new name is on record already: both may have been sent, so look at
    /// both.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] for names that are no account's, are the same, or are of no
    /// [client](DeadLetters::with_client) that is known here; [`DeadLetterError::Store`], with those before it adopted.
    pub async fn adopt(&self, how: &Adopt) -> Result<Adopted, DeadLetterError> {
        self.check_names(how)?;
        let from = Scope::from_stored(format!("{}/", how.from));
        let vendor = Some(from.vendor_path().to_owned());
        let filter = Filter { vendor, ..Filter::default() };
        let mut adopted = Adopted { rehearsal: how.rehearsal, ..Adopted::default() };
        let mut after = None;
        loop {
            let page = self.page(&filter, after.as_ref(), PAGE_ROWS).await?;
            for summary in page.rows.iter().filter(|summary| summary.id.scope.is_reached_by(&how.from)) {
                self.adopt_one(&summary.id, how, &mut adopted).await?;
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
        how: &Adopt,
        adopted: &mut Adopted,
    ) -> Result<(), DeadLetterError> {
        let Some(record) = self.get(id).await?.filter(|record| !record.is_adopted()) else { return Ok(()) };
        let rest = id.scope.as_str().strip_prefix(&how.from).unwrap_or_default();
        let to = Scope::from_stored(format!("{}{rest}", how.to));
        let new = OperationId::new(to.clone(), id.key.clone());
        if let Some(held) = self.get(&new).await?
            && held.first_scope.as_ref() == Some(&id.scope)
        {
            // Settled, and adopted before.
            return Ok(());
        }
        adopted.matched += 1;
        let told = if !self.calls(&record, &how.to) {
            Err(Refused::Elsewhere)
        } else if how.rehearsal {
            self.dry_run(&record, &new).await?
        } else {
            match self.act(id, Action::Adopt { to }, &how.signed, Some(record.fence)).await {
                Ok(_) => Ok(()),
                Err(DeadLetterError::Refused { why, .. }) => Err(why),
                Err(error) => return Err(error),
            }
        };
        match told {
            Ok(()) => adopted.adopted += 1,
            Err(why) => {
                adopted.held_back += 1;
                if adopted.why_held_back.len() < super::Redriven::HELD_BACK_SHOWN_MAX {
                    adopted.why_held_back.push(HeldBack { id: id.clone(), why });
                }
            }
        }
        Ok(())
    }

    async fn dry_run(
        &self,
        record: &Record,
        new: &OperationId,
    ) -> Result<Result<(), Refused>, DeadLetterError> {
        if let Err(forbidden) = record.adopted(&new.scope, self.now(), 0) {
            return Ok(Err(Refused::Forbidden(forbidden)));
        }
        let is_taken = self.get(new).await?.is_some_and(|held| !held.has_expired(self.now()));
        Ok(if is_taken { Err(Refused::Forbidden(Forbidden::NameTaken)) } else { Ok(()) })
    }

    fn check_names(&self, how: &Adopt) -> Result<(), DeadLetterError> {
        let invalid = |what, problem: String| {
            Err(DeadLetterError::Invalid(Error::invalid(Input::Other(what), problem)))
        };
        for (what, path) in [("from", &how.from), ("to", &how.to)] {
            if path.matches('/').count() != 2 || path.starts_with('/') || path.contains("//") {
                let problem = format!("{path:?} is no NAMESPACE/VENDOR/ACCOUNT, such as prod/stripe/live");
                return invalid(what, problem);
            }
        }
        if how.from == how.to {
            return invalid("to", "it is the old name".to_owned());
        }
        if !self.clients.iter().any(|client| reaches(client, &how.to)) {
            let known: Vec<String> = self.clients.iter().map(|client| client.engine.account_path()).collect();
            let problem = format!(
                "no client that is known here carries on with {:?}; known: {}",
                how.to,
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
        clients.any(|client| is_below(&record.request.url, client.engine.vendor.base_url()))
    }
}
