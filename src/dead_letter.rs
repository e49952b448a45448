//! Dead letters: operations that failed, were not refused, and wait for an operator.
//!
//! [`DeadLetters`] is for operators, and for the pages and programs that they use. The command line `steadfast` is
//! one of these and adds nothing of its own. It never sends. A redrive makes an operation due on record, and the
//! running service's client sends it through its own breaker, limiter and budget. A tool that sent by itself would
//! have gates that know nothing of the service's load. A hundred redriven letters could then bring a recovering
//! vendor down again.
//!
//! Every change of an operation goes through [`Store::act`], so it is on the audit record in the same commit. To look
//! at a body is an action too. [`show`](DeadLetters::show) withholds bodies and the values of headers;
//! [`open`](DeadLetters::open) shows them to an operator who gives a name and a reason.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Action, AuditEntry, Filter, Page, Phase, Record, Resolution, Summary,
};
use steadfast_core::store::Store;
use steadfast_core::{Error, Input};

use crate::change::on_record;
use crate::client::Client;

mod edit;
mod export;
mod find;
mod many;
mod outcome;
mod queued;
mod redact;
mod redrive;
mod rename;
mod safety;
mod select;
mod show;
mod stats;
mod status;
mod unreached;
mod view;

pub use crate::change::{Change, DeadLetterError};
pub use outcome::Outcome;
pub use safety::Safety;
pub use select::Group;
pub use show::{Message, Shown};
pub use stats::Stats;
pub use status::{AccountStatus, Closed, RouteStatus, Status};
pub use unreached::Unreached;

pub use steadfast_core::internal::visible::visible;

/// The dead letters of a store. Cheap to clone.
///
/// ```
#[doc = include_str!("docs/setup/dead_letters.md")]
/// # let store: std::sync::Arc<dyn steadfast::store::Store> = store;
/// use steadfast::dead_letter::DeadLetters;
/// use steadfast::operation::record::Filter;
///
/// // The store of the service, and its clients for what their vendors allow. Nothing is sent through them.
/// let letters = DeadLetters::new(store).with_client(&postmark).with_clock(clock);
///
/// let page = letters.list(&Filter::default(), None, 20).await?;
/// let keys: Vec<&str> = page.rows.iter().map(|letter| letter.id.key.as_str()).collect();
/// assert_eq!(keys, ["order-41/receipt", "order-42/receipt"]);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Debug)]
pub struct DeadLetters {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Clients whose rules are known.
    clients: Vec<Client>,
    /// Fields that are redacted wherever operations are shown.
    redact: Vec<String>,
}

impl DeadLetters {
    /// The dead letters of `store`. No vendor's rules are known yet: see [`with_client`](DeadLetters::with_client).
    pub fn new(store: Arc<dyn Store>) -> DeadLetters {
        DeadLetters { store, clock: Arc::new(SystemClock::new()), clients: Vec::new(), redact: Vec::new() }
    }

    /// Takes a vendor's rules from its client: how long it replays a key, what it can look up, where the key goes.
    /// Nothing is sent through it. Without a client for a letter's vendor and account, each action that needs the
    /// vendor's rules is refused.
    #[must_use]
    pub fn with_client(mut self, client: &Client) -> DeadLetters {
        self.clients.push(client.clone());
        self
    }

    /// Uses another clock. Default: [`SystemClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> DeadLetters {
        self.clock = Arc::new(clock);
        self
    }

    /// Names fields that are redacted in all that is shown or exported. They are hidden in bodies at any depth, among
    /// the headers and in the query. Upper and lower case are the same. Several calls add up, and to what the
    /// [call](crate::Call::redact) or its [client](crate::ClientBuilder::redact) named. A body that cannot be read as
    /// fields is then withheld whole. Default: none.
    #[must_use]
    pub fn redact<T: Into<String>>(mut self, fields: impl IntoIterator<Item = T>) -> DeadLetters {
        self.redact.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Records what became of a dead letter, on a person's word. The letter may expire from then on. A
    /// dry run gives the operation as it would be.
    ///
    /// ```
    #[doc = include_str!("docs/setup/dead_letters.md")]
    /// use steadfast::dead_letter::Change;
    /// use steadfast::operation::record::{Phase, Resolution};
    ///
    /// let id = letters.find("order-41/receipt").await?;
    /// let how = Change::by("ada").because("it is in the dashboard");
    /// let applied = Resolution::Applied { vendor_id: "message-7".to_owned() };
    /// let letter = letters.resolve(&id, applied, &how).await?;
    /// assert_eq!(letter.phase, Phase::Resolved);
    /// assert_eq!(letters.audit(&id).await?[0].by, "ada");
    #[doc = include_str!("docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if it is not an open dead letter, or the act has no name or no reason.
    /// [`DeadLetterError::Invalid`] for a resolution that has an action of its own: [`edit`](DeadLetters::edit),
    /// [`cancel`](DeadLetters::cancel), [`adopt`](DeadLetters::adopt), [`Call::supersedes`](crate::Call::supersedes).
    pub async fn resolve(
        &self,
        id: &OperationId,
        resolution: Resolution,
        how: &Change,
    ) -> Result<Summary, DeadLetterError> {
        if resolution.is_final() || resolution == Resolution::Cancelled {
            let problem = "an operation is replaced, superseded, cancelled or adopted by doing so";
            return Err(DeadLetterError::Invalid(Error::validation(Input::Other("resolution"), problem)));
        }
        let record = self.record(id).await?;
        let record = self.act(id, Action::Resolve(resolution), how, Some(record.fence)).await?;
        Ok(record.summary())
    }

    /// Takes a resolution back. A dry run gives the operation as it would be.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if there is none, or the operation was replaced.
    pub async fn reopen(&self, id: &OperationId, how: &Change) -> Result<Summary, DeadLetterError> {
        let record = self.record(id).await?;
        Ok(self.act(id, Action::Reopen, how, Some(record.fence)).await?.summary())
    }

    /// Removes every record that is past its retention, in batches, and returns their number. It never removes an
    /// unresolved dead letter, however old. The audit record of a resolved dead letter names `by`, and outlives the
    /// letter. A removal by a service's own [dispatcher](Client::keep_recovering) is on no audit record.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] without a name, [`DeadLetterError::Store`]; some may have been removed.
    pub async fn purge(&self, by: impl Into<String>) -> Result<u64, DeadLetterError> {
        let how = Change::by(by).because("its time was over");
        if how.by.trim().is_empty() {
            return Err(DeadLetterError::Invalid(Error::validation(
                Input::Other("by"),
                "a purge needs the name of an operator",
            )));
        }
        let now = self.now();
        self.sign_for_expired(now, &how).await?;
        let mut removed = 0;
        loop {
            let batch = self.store.purge(now, PURGE_BATCH).await.map_err(DeadLetterError::store("purge"))?;
            removed += batch as u64;
            if batch < PURGE_BATCH {
                return Ok(removed);
            }
        }
    }

    async fn sign_for_expired(&self, now: Timestamp, how: &Change) -> Result<(), DeadLetterError> {
        let filter = Filter { phases: vec![Phase::Resolved], ..Filter::default() };
        let mut after = None;
        loop {
            let page = self.page(&filter, after.as_deref(), PAGE_ROWS).await?;
            for letter in page.rows.iter().filter(|letter| letter.until.is_some_and(|until| until <= now)) {
                match self.act(&letter.id, Action::Purge, how, Some(letter.fence)).await {
                    // Somebody else removed it, or took the word back.
                    Ok(_) | Err(DeadLetterError::Refused { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// All that operators did to an operation, oldest first.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn audit(&self, id: &OperationId) -> Result<Vec<AuditEntry>, DeadLetterError> {
        let (mut entries, mut after): (Vec<AuditEntry>, Option<String>) = (Vec::new(), None);
        loop {
            let page = self.store.audit(Some(id), after.as_deref(), PAGE_ROWS).await;
            let page = page.map_err(DeadLetterError::store("read the audit record"))?;
            entries.extend(page.rows);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// Returns the time in the store. The ages of letters count by it, and not by the clock of this host: see
    /// [`Filter::older_than`].
    pub fn now(&self) -> Timestamp {
        self.store.time(self.clock.wall())
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, DeadLetterError> {
        self.store.get(id).await.map_err(DeadLetterError::store("read an operation"))
    }

    async fn record(&self, id: &OperationId) -> Result<Record, DeadLetterError> {
        on_record(&*self.store, id).await
    }

    async fn page(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, DeadLetterError> {
        self.store.list(filter, after, limit).await.map_err(DeadLetterError::store("list"))
    }

    async fn act(
        &self,
        id: &OperationId,
        action: Action,
        how: &Change,
        fence: Option<u64>,
    ) -> Result<Record, DeadLetterError> {
        how.act(&*self.store, id, action, fence, self.now()).await
    }
}

/// The age of something, as shown.
fn age(now: Timestamp, then: Timestamp) -> Duration {
    now.since(then)
}

/// Phases in which an unresolved dead letter can be found.
const OPEN: [Phase; 1] = [Phase::Dead];

/// Rows to a page where all pages are walked: few enough to hold, many enough to be quick.
const PAGE_ROWS: usize = 500;

/// Records to one call of the store's purge, which takes smaller batches still.
const PURGE_BATCH: usize = 1_000;

#[cfg(test)]
mod tests;
