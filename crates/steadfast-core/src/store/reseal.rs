//! [`reseal`]: seals everything in a store with its current key.

use super::capability::sealing_of;
use super::sealing::{Reseal, ResealedBatch, Sealing};
use super::{Store, StoreError};
use crate::operation::OperationId;

/// Counts of a [`reseal`], or of its dry run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Resealed {
    /// Whether nothing was changed and only counted.
    pub dry_run: bool,
    /// Operations that were not sealed with the current key. One that was changed meanwhile, and is then still not,
    /// counts each time.
    pub matched: u64,
    /// Number of those that are now sealed with it.
    pub resealed: u64,
    /// Operations that are still not, by a count at the end. Without any that are unreadable, another process seals with
    /// an older key, or with none.
    pub remaining: u64,
    /// Number of the remaining ones that cannot be read.
    pub unreadable: u64,
    /// The first [`Resealed::WHY_UNREADABLE_MAX`] of those with the reason: `Sealed` for a key that was not given, `Corrupt`
    /// for what was changed by a process without a key.
    pub why_unreadable: Vec<(OperationId, StoreError)>,
}

impl Resealed {
    /// Number of unreadable operations that are named.
    pub const WHY_UNREADABLE_MAX: usize = 100;
}

/// Seals everything in a store with its current key: values in the clear, and values that an older key sealed. With
/// `dry_run` it only counts.
///
/// It works in small batches, each in one commit, so that a service may run beside it. If it is cut short, the same
/// again does the rest.
///
/// # Errors
///
/// A [`StoreError`]: `Sealed` if the store was given no key, `Unsupported` if it has no [`Sealing`]. Rows that were
/// resealed before stay so.
///
/// # Cancellation safety
///
/// A run that was cut short is completed by the same again.
///
/// # Example
///
/// ```
/// # #[cfg(all(feature = "seal", feature = "sqlite"))]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vendor-calls.db");
/// use steadfast::store::{self, SealKeys, Sqlite};
///
/// let rotated = SealKeys::new([2; 32]).with_older([1; 32]); // a service reads them: SealKeys::from_env
/// let store = Sqlite::builder(path).seal(rotated).open()?;
/// let resealed = store::reseal(&store, false).await?;
/// assert_eq!(resealed.remaining, 0); // from now on, nothing needs the older key
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "seal", feature = "sqlite")))]
/// # fn main() {}
/// ```
pub async fn reseal(store: &dyn Store, dry_run: bool) -> Result<Resealed, StoreError> {
    let sealing = sealing_of(store)?;
    let mut resealed = Resealed { dry_run, ..Resealed::default() };
    // Repeats for rows changed concurrently, at most `PASSES_MAX` times; the rest is reported.
    let passes = if dry_run { 0 } else { PASSES_MAX };
    for _ in 0..passes {
        let pass = pass(store, sealing, false).await?;
        resealed.matched += pass.matched;
        resealed.resealed += pass.resealed;
        if pass.changed == 0 {
            break;
        }
    }
    if !dry_run {
        sealing.note_sealed().await?;
    }
    let left = pass(store, sealing, true).await?;
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

async fn pass(store: &dyn Store, sealing: &dyn Sealing, dry_run: bool) -> Result<Pass, StoreError> {
    let mut pass = Pass::default();
    let begin = Reseal { after: None, rows_max: BATCH_ROWS, dry_run };
    let mut reseal = begin.clone();
    loop {
        let batch = sealing.reseal(&reseal).await?;
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

/// Few enough that a claim is behind a few milliseconds of writing.
const BATCH_ROWS: usize = 64;

/// A row changes a few times in its life, so that the second pass is nearly always the last.
const PASSES_MAX: usize = 5;
