//! Scrub: remove the secrets that version 0.1 stored with the headers of requests.
//!
//! A scrub goes operation by operation, each in a transaction of its own. If it is cut short, the same again
//! completes it. It reads every record, because only a client knows which headers it keeps secret: no store has an
//! index of those.

use std::sync::Arc;

use http::HeaderName;

use steadfast_core::internal::operation::SECRET_HEADERS;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Act, Action, Filter, Forbidden, Record};
use steadfast_core::store::StoreErrorKind;
use steadfast_core::{Error, Input};

use super::change::Of;
use super::{Change, DeadLetterError, DeadLetters, Outcome};

impl DeadLetters {
    /// Removes headers that carry secrets from the stored requests of all operations, in every phase, and nothing
    /// else. No call can give such a header today; version 0.1 stored them. Keys, fingerprints and wire keys stay as
    /// they are, and a repeat is answered as before. Each operation has it on its audit record.
    ///
    /// What is still to be sent gets the adapter's own secret at each send. A secret that only the call gave is gone,
    /// and the vendor may refuse the operation.
    ///
    /// `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, `X-Auth-Token`, `X-Api-Key`,
    /// `X-Postmark-Server-Token`, `X-Postmark-Account-Token` and those of the [clients](DeadLetters::with_client) are
    /// always removed. `headers` names more of them.
    ///
    /// Calls may go on meanwhile. A scrub ends with the operations that were on record when it began, however fast new
    /// ones are claimed. Stop services of version 0.1 first, which store secrets anew. Adopt no account meanwhile: an
    /// adoption makes copies.
    ///
    /// An SQLite file holds what was removed until `Sqlite::wipe`. In the outcome, `done` is less than `matched` in a dry
    /// run, and where another process removed or scrubbed a record meanwhile.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// use steadfast::dead_letter::Change;
    ///
    /// let change = Change::by("ada").because("0.1 stored them");
    /// let scrubbed = letters.scrub(&["X-Signature"], &change).await?;
    /// assert_eq!(scrubbed.matched, 0, "no call of this version could give one");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] for a name that no header has, [`DeadLetterError::Refused`] if the act is not signed
    /// and explained; [`DeadLetterError::Store`], with those before it scrubbed.
    pub async fn scrub(&self, headers: &[&str], how: &Change) -> Result<Outcome, DeadLetterError> {
        let headers = self.secret_names(headers)?;
        let mut scrubbed = Outcome { headers, ..how.outcome(Of::Scrub) };
        let (begun, known) = (self.now(), self.count().await?);
        let (mut after, mut walked) = (None, 0);
        loop {
            let page = self.page(&Filter::default(), after.as_deref(), BATCH_ROWS).await?;
            walked += page.rows.len() as u64;
            // A service may claim faster than this reads. Hosts' clocks differ and rows are purged, so the count and the
            // times decide together.
            let is_past_known = known.is_some_and(|known| walked > known)
                && page.rows.iter().all(|row| row.claimed_at > begun);
            let mut found: Vec<OperationId> = Vec::new();
            for summary in page.rows {
                let record = self.get(&summary.id).await?;
                if record.is_some_and(|record| has_one_of(&record, &scrubbed.headers)) {
                    found.push(summary.id);
                }
            }
            scrubbed.matched += found.len() as u64;
            if !how.dry_run {
                scrubbed.done += self.scrub_batch(found, &scrubbed.headers, how).await?;
            }
            after = page.next;
            if after.is_none() || is_past_known {
                return Ok(scrubbed);
            }
        }
    }

    /// How many operations are on record, unless the store is too large to be counted in its time. It is then read to
    /// its end: what is missed would be worse than what is read in vain.
    async fn count(&self) -> Result<Option<u64>, DeadLetterError> {
        match self.store.tally().await {
            Ok(tally) => Ok(Some(tally.iter().map(|row| row.count).sum())),
            Err(error) if error.kind() == StoreErrorKind::TimedOut => Ok(None),
            Err(error) => Err(DeadLetterError::store("count the operations")(error)),
        }
    }

    /// At once, so that a store which commits in groups writes them together.
    async fn scrub_batch(
        &self,
        found: Vec<OperationId>,
        headers: &[String],
        how: &Change,
    ) -> Result<u64, DeadLetterError> {
        let mut acts = tokio::task::JoinSet::new();
        for id in found {
            let action = Action::Scrub { headers: headers.to_vec() };
            let Change { by, why, .. } = how.clone();
            let act = Act { action, by, why, now: self.now(), fence: None };
            let store = Arc::clone(&self.store);
            acts.spawn(async move {
                let acted = store.act(&id, act).await;
                (id, acted)
            });
        }
        let mut scrubbed = 0;
        while let Some(joined) = acts.join_next().await {
            let (id, acted) = joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            match acted.map_err(DeadLetterError::store("remove secrets"))? {
                Ok(_) => scrubbed += 1,
                Err(Forbidden::Absent | Forbidden::NoSecrets) => {}
                Err(forbidden) => {
                    return Err(DeadLetterError::refused(&id, forbidden));
                }
            }
        }
        Ok(scrubbed)
    }

    /// Those that are always removed, those of the clients, and these; each once.
    fn secret_names(&self, more: &[&str]) -> Result<Vec<String>, DeadLetterError> {
        let mut names: Vec<HeaderName> = SECRET_HEADERS.to_vec();
        names.extend(self.clients.iter().flat_map(|client| client.engine.secrets.names().cloned()));
        for name in more {
            let header = HeaderName::from_bytes(name.as_bytes());
            let problem = || Error::validation(Input::Header, format!("{name:?} is no header's name"));
            names.push(header.map_err(|_| DeadLetterError::Invalid(problem()))?);
        }
        let mut once: Vec<String> = Vec::new();
        for name in names {
            if !once.iter().any(|known| known == name.as_str()) {
                once.push(name.as_str().to_owned());
            }
        }
        Ok(once)
    }
}

fn has_one_of(record: &Record, headers: &[String]) -> bool {
    headers.iter().any(|name| record.request.headers.contains_key(name.as_str()))
}

/// Operations to one batch: few enough that a claim is behind a few milliseconds of writing, many enough to share a
/// commit.
const BATCH_ROWS: usize = 64;
