//! [`Memory`]: records that live as long as the process.
//!
//! One lock around a map and an index by time. A lock and not a concurrent map, because a claim must look and write
//! in one step. Nothing is awaited or called back while the lock is held. A call's two steps take about a microsecond each: they encode
//! bodies before the lock. A replay and a takeover read them from their blobs under it.
//! The index makes every purge and every take proportional to what it finds; a scan over all records would stall the
//! claim that happens to trigger it. A list and a count do scan: they are an operator's, and this store is bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{
    self, Act, Action, AuditEntry, CLOCKS_DIFFER_MAX, Claim, Claimed, Declined, Filter, Forbidden, Notes,
    Page, Phase, Record, StateExt, Summary, Takeover, Tally, Transition,
};
use crate::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};
use crate::store::look::FAR_MAX;
use crate::store::maintenance::{Maintenance, Standing};
use crate::store::pages::{listable, page, start};
use crate::store::renaming::Superseding;
use crate::store::tenants::Tenants;
use crate::store::{Store, StoreError};

pub(crate) mod blobs;
pub(crate) mod copying;
pub(crate) mod ending;
pub(crate) mod heartbeat;
pub(crate) mod names;
pub(crate) mod room;
pub(crate) mod rows;
pub(crate) mod sequence;
pub(crate) mod tally;

use blobs::{Blobs, answer_blob, hollow};
use ending::{Bucket, Ending};
use room::full;
use rows::Row;
use sequence::{Line, Name};

/// The default store: in memory, bounded, and **lost in a crash**.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use std::sync::Arc;
/// use steadfast::Client;
/// use steadfast::operation::record::Phase;
/// use steadfast::store::{Memory, Store};
/// use steadfast::vendor::Stripe;
///
/// let store = Arc::new(Memory::with_capacity(10_000));
/// let stripe = Client::builder(Stripe::new("sk_test_123"))
/// #   .transport(fake.transport())
///     .store(Arc::clone(&store))
///     .build()?;
/// let form = [("amount", "1000"), ("currency", "usd")];
/// stripe.post("/v1/charges").key("order-42").form(&form).send().await?;
///
/// let tally = store.tally().await?;
/// assert_eq!((tally[0].phase, tally[0].count), (Phase::Succeeded, 1));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
///
/// Within one process it keeps every rule of [`Store`]. It does not survive the process. After a crash or a restart
/// it does not know which operations were under way, took effect, were scheduled or were dead letters. A caller who
/// then sends the same key again sends it for real. Only a vendor that replays keys by itself (Stripe, within its
/// window) still holds the effect to one. Clones of an `Arc<Memory>` share one store; two processes never do.
///
/// # Bound
///
/// At most [`Memory::RECORDS_MAX`] records, or what [`with_capacity`](Memory::with_capacity) says. Each claim also
/// removes a few records that have expired. When the store is full of records that have not, a claim of a new
/// operation [evicts](Memory::evicted) the settled one that is nearest to its expiry. To refuse every call would cost
/// more than to forget the oldest outcome. **A key that was evicted is a first call again**, before its retention is
/// over: where the vendor has forgotten it too, that is a second effect. The default bound holds 7 days of one keyed
/// call in 6 seconds; a service with more takes a file, or a greater bound. A warning says so when eviction begins,
/// and again each time the count has doubled.
///
/// Never evicted are operations in progress, scheduled ones and dead letters, resolved ones included. When the store
/// is full of those, a claim of a new operation fails. The audit record keeps the last [`Memory::AUDIT_MAX`] actions
/// of operators.
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
    records_max: usize,
    wakes: Wakes,
    tenants: Tenants,
}

#[derive(Default)]
struct Inner {
    /// Boxed: rows are large, and a map that grows moves what it holds.
    rows: HashMap<Arc<OperationId>, Box<Row>>,
    /// Every record that time will end, by [`Bucket`] and [`Record::until`], but what waits for its turn in a sequence.
    /// Kept in step by [`Row::replace`], [`Row::apply`], [`Inner::add`], [`Inner::remove`], [`Inner::purge`] and
    /// [`sequence`] alone.
    ending: Ending,
    /// Every record, in the order of its first claim.
    order: BTreeMap<u64, Arc<OperationId>>,
    sequences: HashMap<Name, Line>,
    notes: Notes,
    standing: Standing,
    /// Terms that clients have registered, by account.
    accounts: BTreeMap<String, String>,
    /// The last words of the dispatchers, by account and name.
    heartbeats: BTreeMap<(String, String), heartbeat::StoredHeartbeat>,
    /// The number that the next record gets.
    next: u64,
    /// Number of settled records that gave way before their time.
    evicted: u64,
    /// Number of rows of an outbox beside it, by key.
    #[cfg(feature = "testkit")]
    rows_of_key: HashMap<String, i64>,
    audit: VecDeque<AuditEntry>,
    /// The number of the first entry that is still kept.
    audit_first: u64,
}

impl Memory {
    /// Default number of records that a store holds at most. At a few KiB each, some hundred MiB at worst.
    pub const RECORDS_MAX: usize = 100_000;

    /// Number of audit entries that it keeps: actions of operators are few, and this bounds them.
    pub const AUDIT_MAX: usize = 10_000;

    /// An empty store for [`Memory::RECORDS_MAX`] records.
    pub fn new() -> Memory {
        Memory::with_capacity(Memory::RECORDS_MAX)
    }

    /// An empty store for at most `records_max` records. Nothing is allocated ahead.
    pub fn with_capacity(records_max: usize) -> Memory {
        Memory { inner: Arc::default(), records_max, wakes: Wakes::new(), tenants: Tenants::default() }
    }

    /// Returns the number of records, expired ones that are not yet purged included.
    pub fn len(&self) -> usize {
        self.inner.lock().rows.len()
    }

    /// Returns the number of settled records that were evicted before their retention was over, to make room for
    /// others. The key of each would be sent again. More than 0 shows that the bound is too small for the retention.
    pub fn evicted(&self) -> u64 {
        self.inner.lock().evicted
    }

    /// Counts the rows of a key in an outbox beside it: a purge spares its record.
    #[cfg(feature = "testkit")]
    pub(crate) fn spare(&self, key: &str, rows: i64) {
        let mut inner = self.inner.lock();
        *inner.rows_of_key.entry(key.to_owned()).or_default() += rows;
    }

    /// Whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("records", &self.len())
            .field("records_max", &self.records_max)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Memory {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        // Before the lock, as in a transition.
        let blobs = Blobs::of_request(&claim.request)?;
        let mut inner = self.inner.lock();
        inner.standing.check_new()?;
        inner.notes.saw(claim.now);
        inner.purge(claim.now, PURGE_PER_CLAIM);
        // Before anything is evicted: it may be the predecessor.
        let superseding = inner.superseding(&claim);
        if let Superseding::InTheWay(obstacle, effect) = superseding {
            return Ok(Claimed::InTheWay { obstacle, effect });
        }
        if inner.rows.len() >= self.records_max
            && !inner.rows.contains_key(&claim.id)
            && !inner.evict(self.records_max, claim.predecessor.as_ref())
        {
            return Err(full(self.records_max));
        }
        let existing = inner.rows.get(&claim.id).map(|row| &row.record);
        let placed =
            existing.filter(|record| record.sequence.is_some()).map(|record| inner.placed(record.clone()));
        let existing = placed.as_ref().or(existing);
        let is_new = existing.is_none();
        let mut claimed = record::claimed(existing, claim, &inner.notes);
        if !is_new {
            inner.fill_found(&mut claimed)?;
        }
        inner.supersede(superseding)?;
        match &mut claimed {
            Claimed::Fresh(record) if is_new => inner.add(hollow(record), blobs),
            Claimed::Fresh(record) => {
                inner.remove(&record.id);
                inner.put(record.clone())?;
            }
            Claimed::TakenOver(record) | Claimed::Freed(record) => inner.put(record.clone())?,
            _ => {}
        }
        if let Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) = &mut claimed {
            inner.fill_place(record);
        }
        Ok(claimed)
    }

    async fn transition(
        &self,
        held: &Record,
        mut transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let answer = transition.to.answer_mut();
        let blob = answer.map(|answer| answer_blob(answer)).transpose()?;
        let inner = &mut *self.inner.lock();
        inner.standing.check_held()?;
        let Some(row) = inner.rows.get_mut(&held.id) else {
            return Ok(Err(Declined::Absent));
        };
        row.note(std::mem::take(&mut transition.reports));
        let moved = row.transition(held, transition, blob, &mut inner.ending)?;
        // What is in a sequence may pass its turn on.
        if matches!(&moved, Ok(record) if record.sequence.is_some()) {
            inner.moved_in_sequence(&held.id);
        }
        if let Ok(record) = &moved {
            inner.settle_heirs(record)?;
        }
        Ok(moved)
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let mut inner = self.inner.lock();
        inner.standing.check_new()?;
        inner.notes.saw(take.now);
        let Some(bucket) = Bucket::of(take.phase) else {
            return Ok(Vec::new());
        };
        let ending = &inner.ending[bucket as usize];
        let over: Box<dyn Iterator<Item = u64> + '_> = match (take.phase, &take.account) {
            (Phase::Scheduled, Some(account)) if take.wanted.is_all() => {
                Box::new(inner.ending.due_in_turn(account, take.now, &self.tenants))
            }
            (Phase::Scheduled, Some(account)) => {
                let due = inner.ending.due(account, take.now, take.wanted.newest);
                Box::new(due.into_iter().map(|(_, number)| number))
            }
            _ => Box::new(ending.iter().take_while(|(at, _)| *at <= take.now).map(|(_, number)| *number)),
        };
        // Of a clock that was wrong. Only those that end last are looked at: see `Takeover::limit`.
        let from = take.now.plus(CLOCKS_DIFFER_MAX);
        let far = ending.iter().rev().take_while(|(at, _)| *at > from).take(take.limit.max(FAR_MAX));
        let taken = over
            .chain(far.map(|(_, number)| *number))
            .filter_map(|number| {
                let row = inner.rows.get(inner.order.get(&number)?)?;
                Some(row.fill_request(row.record.take(&take)?))
            })
            .take(take.limit)
            .collect::<Result<Vec<Record>, StoreError>>()?;
        if let (Some(account), Some(last)) = (&take.account, taken.last()) {
            self.tenants.took(account, last.id.scope.account_path());
        }
        for record in &taken {
            inner.put(record.clone())?;
        }
        Ok(taken)
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let mut inner = self.inner.lock();
        inner.standing.check_act(&act.action)?;
        let (act, _) = act.seen_by(&mut inner.notes);
        let Some(row) = inner.rows.get(id) else {
            return Ok(Err(Forbidden::Absent));
        };
        let (record, entry) = match inner.placed(row.whole()?).act(&act) {
            Ok(acted) => acted,
            Err(forbidden) => return Ok(Err(forbidden)),
        };
        if let Action::Adopt { to } = &act.action
            && let Err(forbidden) = inner.adopt(id, (to, act.now), self.records_max)?
        {
            return Ok(Err(forbidden));
        }
        inner.put(record.clone())?;
        inner.log(entry);
        Ok(Ok(record))
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let mut inner = self.inner.lock();
        inner.standing.check_held()?;
        Ok(match inner.rows.get_mut(id) {
            Some(row) => {
                row.note(reports);
                Ok(())
            }
            None => Err(Declined::Absent),
        })
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        Ok(self.inner.lock().rows.get(id).map(|row| row.evidence.clone()).unwrap_or_default())
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let inner = self.inner.lock();
        let Some(row) = inner.rows.get(id) else {
            return inner.standing.check_absent().map(|()| None);
        };
        row.whole().map(|record| Some(inner.placed(record)))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        listable(filter)?;
        let start = start(after)?;
        let inner = self.inner.lock();
        let rows = inner.order.range(start..).filter_map(|(number, id)| {
            let record = &inner.rows.get(id)?.record;
            let placed = record.sequence.is_some().then(|| inner.placed(record.clone()));
            let summary = placed.as_ref().unwrap_or(record).summary();
            filter.matches(&summary).then_some((*number, summary))
        });
        Ok(page(rows, limit))
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        Ok(self.inner.lock().tally())
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let start = start(after)?;
        let inner = self.inner.lock();
        let entries = (inner.audit_first..).zip(&inner.audit);
        let rows = entries
            .filter(|(number, entry)| *number >= start && id.is_none_or(|id| *id == entry.id))
            .map(|(number, entry)| (number, entry.clone()));
        Ok(page(rows, limit))
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        Ok(self.inner.lock().notes.now(now))
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut inner = self.inner.lock();
        inner.standing.check_new()?;
        inner.notes.saw(now);
        Ok(inner.purge(now, limit))
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        self.inner.lock().register(account, terms)
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Memory {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.inner.lock().look(look)
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        Ok(self.inner.lock().heartbeat(heartbeat))
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        Ok(self.inner.lock().backlog(now))
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        let inner = self.inner.lock();
        let version = |id| {
            let record = &inner.rows.get(id)?.record;
            Some(Version { phase: record.phase(), fence: record.fence })
        };
        Ok(ids.iter().map(version).collect())
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

/// Number of expired records that a claim clears away. It is more than the one that the claim may add, so the store
/// shrinks faster than it grows. It is few enough not to be felt.
const PURGE_PER_CLAIM: usize = 2;

#[cfg(test)]
mod tests;
