//! [`Upkeep`]: work of an operator's tool on a whole store, for stores that can do it.
//!
//! Apart from [`Store`] because not every store has files to write anew or keys to seal with. No call of a service
//! needs it: a store without upkeep is a whole store.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::place::{Noted, Place};
use super::{Standing, Store, StoreError};
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Notes, Record};

/// Work on all records of a store, which changes nothing that a call or an operator sees. See [`Store::upkeep`].
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// What the store's server last said against itself, for `steadfast check`: that it may forget what it has
    /// acknowledged. Default: nothing.
    fn warning(&self) -> Option<&'static str> {
        None
    }

    /// Looks for the next rows whose request or answer is not sealed with the store's current key: not at all, or
    /// with an older key. Seals them anew, in one commit. A row that another process changes meanwhile is left as
    /// that one wrote it.
    ///
    /// [`reseal`] calls this until nothing is left.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; `Sealed` if the store was given no key, `Invalid` for a cursor that this store did not give.
    /// The rows of earlier batches stay resealed.
    ///
    /// # Cancellation safety
    ///
    /// A batch is resealed as a whole, or not at all.
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError>;

    /// Writes what the store keeps anew, without what was removed from it or is no longer there in the clear. Until
    /// then, a file's free space may still hold that. Copies and backups do.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; the same again completes it.
    ///
    /// # Cancellation safety
    ///
    /// What has begun is completed all the same.
    async fn wipe(&self) -> Result<(), StoreError>;

    /// What the store keeps beside its records. The first of three methods for [`copy`](super::copy()): a store that has
    /// them can be its source and its target.
    ///
    /// Default of all three: an error that says that this store cannot be copied.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn head(&self) -> Result<Head, StoreError> {
        Err(cannot_be_copied())
    }

    /// Sets the [`Standing`] to `to` if it is `from`, in one commit. Gives what it is then.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn stand(&self, _from: &Standing, _to: &Standing) -> Result<Standing, StoreError> {
        Err(cannot_be_copied())
    }

    /// Writes all of this as it is, in one commit.
    ///
    /// # Errors
    ///
    /// A [`StoreError`], and nothing was written: `Closed` if the store is not [`Arriving`](super::Stage::Arriving)
    /// with this copy, `Locked` if its audit record has not [as many](Restore::audit_after) entries.
    async fn restore(&self, _restore: Restore) -> Result<(), StoreError> {
        Err(cannot_be_copied())
    }

    /// Notes the terms of an account if there are none, or removes them if `terms` is `None`.
    /// Gives what was there before.
    ///
    /// Default: none is ever there, and every client agrees with every other.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; `Closed` if the store is not open.
    async fn register(&self, _account: &str, _terms: Option<&str>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Where the store is: the place on record, and the facts now.
    ///
    /// Default: no place, and none is noted.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn place(&self) -> Result<Place, StoreError> {
        Ok(Place::default())
    }

    /// Puts the place on record.
    ///
    /// Default: it is not kept.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn set_place(&self, _noted: &Noted) -> Result<(), StoreError> {
        Ok(())
    }

    /// Rejects the rows of the outbox that wait, for the reason `why`, and has none of them hold a sequence: what
    /// [`Action::Disown`](crate::operation::record::Action::Disown) is to an operation. Gives how many there were.
    ///
    /// Default: there are none.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn disown_rows(&self, _why: &str, _now: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Notes that the store is sealed, if no record is in the clear. Rows of the outbox do not count. Says whether it
    /// is noted.
    ///
    /// Default: it is not.
    ///
    /// # Errors
    ///
    /// A [`StoreError`].
    async fn note_sealed(&self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// What a store keeps beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether it is in use.
    pub standing: Standing,
    /// The highest fence of any record that was removed, and what time the store believes.
    pub notes: Notes,
    /// How many entries the audit record has.
    pub audit: u64,
    /// What clients have [registered](Upkeep::register), by account.
    pub accounts: BTreeMap<String, String>,
}

/// A record with its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The record, not sealed.
    pub record: Record,
    /// What its attempts met.
    pub evidence: Vec<AttemptReport>,
}

/// What [`Upkeep::restore`] writes.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The copy that it is a part of, by the name in the target's [`Standing`].
    pub copy: String,
    /// These rows, as they are: phase, fences and times included. A row of the same name gives way. It keeps its
    /// place in lists if its life is the same, by [`first_fence`](Record::first_fence); else it is the last.
    pub rows: Vec<Row>,
    /// These are removed, and the notes stay as they are.
    pub gone: Vec<OperationId>,
    /// So many entries the audit record has before. Not looked at where `audit` is empty.
    pub audit_after: u64,
    /// These come after them.
    pub audit: Vec<AuditEntry>,
    /// These notes, but that the highest fence never goes back.
    pub notes: Option<Notes>,
    /// What is registered, in place of all that was.
    pub accounts: Option<BTreeMap<String, String>>,
}

fn cannot_be_copied() -> StoreError {
    StoreError::new("records of this store cannot be copied")
}

/// Which rows [`Upkeep::reseal`] looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reseal {
    /// After the batch that gave this; `None` is from the beginning.
    pub after: Option<String>,
    /// At most so many; at least one.
    pub rows_max: usize,
    /// Whether nothing is changed and only counted.
    pub dry_run: bool,
}

/// What became of one batch.
#[derive(Debug, Default)]
pub struct ResealedBatch {
    /// Rows that were not sealed with the current key.
    pub found: u64,
    /// Of these, now sealed with it.
    pub resealed: u64,
    /// Of these, left because another process changed them meanwhile.
    pub changed: u64,
    /// Of these, left because they cannot be read.
    pub unreadable: Vec<(OperationId, StoreError)>,
    /// Where the next batch starts; `None` if this was the last.
    pub next: Option<String>,
}

/// What a [`reseal`] did, or would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Resealed {
    /// Whether nothing was changed and only counted.
    pub dry_run: bool,
    /// Operations that were not sealed with the current key. One that was changed meanwhile, and is then still not,
    /// counts each time.
    pub matched: u64,
    /// Of these, now sealed with it.
    pub resealed: u64,
    /// Operations that are still not, by a count at the end. Without any that are unreadable, another process seals with
    /// an older key, or with none.
    pub remaining: u64,
    /// Of the remaining, those that cannot be read.
    pub unreadable: u64,
    /// The first [`Resealed::WHY_UNREADABLE_MAX`] of those with the reason: `Sealed` for a key that was not given, `Corrupt`
    /// for what was changed by a process without a key.
    pub why_unreadable: Vec<(OperationId, StoreError)>,
}

impl Resealed {
    /// How many unreadable operations are named.
    pub const WHY_UNREADABLE_MAX: usize = 100;
}

/// Seals everything in a store with its current key: what is not sealed, and what an older key sealed. With `dry_run`
/// it only counts.
///
/// It works in small batches, each in one commit, so that a service may run beside it. If it is cut short, the same
/// again does the rest.
///
/// # Errors
///
/// A [`StoreError`]: `Sealed` if the store was given no key, `Other` if it cannot seal. What was resealed before
/// stays so.
///
/// # Cancellation safety
///
/// As when it is cut short.
///
/// # Example
///
/// ```
/// # #[cfg(feature = "seal")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use steadfast::store::{self, Memory, SealKeys};
///
/// let rotated = SealKeys::new([2; 32]).with_older([1; 32]); // a service reads them: SealKeys::from_env
/// let store = Memory::new().seal(rotated);
/// let resealed = store::reseal(&store, false).await?;
/// assert_eq!(resealed.remaining, 0); // from now on, nothing needs the older key
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "seal"))]
/// # fn main() {}
/// ```
pub async fn reseal(store: &dyn Store, dry_run: bool) -> Result<Resealed, StoreError> {
    let upkeep = store.upkeep().ok_or_else(|| StoreError::new("this store cannot seal"))?;
    let mut resealed = Resealed { dry_run, ..Resealed::default() };
    // What somebody changes meanwhile is looked for again. Whoever changes it for ever is told of at the end.
    let passes = if dry_run { 0 } else { PASSES_MAX };
    for _ in 0..passes {
        let pass = pass(store, upkeep, false).await?;
        resealed.matched += pass.matched;
        resealed.resealed += pass.resealed;
        if pass.changed == 0 {
            break;
        }
    }
    if !dry_run {
        upkeep.note_sealed().await?;
    }
    let left = pass(store, upkeep, true).await?;
    resealed.remaining = left.matched;
    resealed.unreadable = left.unreadable;
    resealed.why_unreadable = left.why_unreadable;
    if dry_run {
        resealed.matched = left.matched;
    }
    Ok(resealed)
}

/// All rows once.
#[derive(Default)]
struct Pass {
    matched: u64,
    resealed: u64,
    changed: u64,
    unreadable: u64,
    why_unreadable: Vec<(OperationId, StoreError)>,
}

async fn pass(store: &dyn Store, upkeep: &dyn Upkeep, dry_run: bool) -> Result<Pass, StoreError> {
    let mut pass = Pass::default();
    let begin = Reseal { after: None, rows_max: BATCH_ROWS, dry_run };
    let mut reseal = begin.clone();
    loop {
        let batch = upkeep.reseal(&reseal).await?;
        reseal.after.clone_from(&batch.next);
        pass.add(batch);
        if reseal.after.is_none() {
            break;
        }
    }
    let Some(outbox) = store.outbox() else { return Ok(pass) };
    let mut reseal = begin;
    loop {
        let batch = outbox.reseal(&reseal).await?;
        reseal.after.clone_from(&batch.next);
        pass.add(batch);
        if reseal.after.is_none() {
            return Ok(pass);
        }
    }
}

impl Pass {
    fn add(&mut self, batch: ResealedBatch) {
        self.matched += batch.found;
        self.resealed += batch.resealed;
        self.changed += batch.changed;
        self.unreadable += batch.unreadable.len() as u64;
        let room = Resealed::WHY_UNREADABLE_MAX.saturating_sub(self.why_unreadable.len());
        self.why_unreadable.extend(batch.unreadable.into_iter().take(room));
    }
}

/// What [`Upkeep::restore`] says where the audit record has another number of entries.
pub const AUDIT_MOVED: &str = "another process copies into the same store";

/// Few enough that a claim is behind a few milliseconds of writing.
const BATCH_ROWS: usize = 64;

/// A row changes a few times in its life, so that the second pass is nearly always the last.
const PASSES_MAX: usize = 5;
