//! Comparing the two stores, and writing what differs.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use sha2::{Digest, Sha256};

use super::checksum::{answer, checksum};
use super::{Copied, CopyError, Run, Side};
use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Filter};
use crate::store::maintenance::{Restore, Row};

/// Counts of one pass over all rows.
#[derive(Default)]
pub(super) struct Pass {
    /// Rows of the source.
    operations: u64,
    /// Number of those that the target did not have, or not so, and that were written.
    pub written: u64,
    /// The first of those.
    differed: Option<OperationId>,
    checksum: [u8; 32],
}

impl Run<'_> {
    /// Passes until one finds no difference, and as many rows in both stores. No other process writes meanwhile: the
    /// first pass may find some, and no other.
    pub(super) async fn settle(&self, written: &mut u64) -> Result<Copied, CopyError> {
        let mut pass = self.pass().await?;
        *written += pass.written;
        if pass.written > 0 {
            pass = self.pass().await?;
        }
        if let Some(id) = pass.differed {
            return Err(CopyError::Differs { id: Box::new(id) });
        }
        let operations = pass.operations;
        if self.target.count().await? != operations {
            self.remove_what_is_gone().await?;
        }
        for side in [self.source, self.target] {
            let count = side.count().await?;
            if count != operations {
                let (source_has, target_has) = (operations, count);
                return Err(CopyError::Counts { what: "number of operations", source_has, target_has });
            }
        }
        Ok(Copied { operations, checksum: pass.checksum, ..Copied::default() })
    }

    /// Goes through the source once, and writes to the target what it has not, or not so.
    pub(super) async fn pass(&self) -> Result<Pass, CopyError> {
        let (mut pass, mut all, mut batch) = (Pass::default(), Sha256::new(), Batch::default());
        let mut after = None;
        loop {
            let (ids, next) = self.source.names(after.as_deref()).await?;
            for ids in ids.chunks(ROWS_AT_ONCE) {
                let pairs = all_of(ids.iter().map(|id| Box::pin(self.pair(id)) as _).collect());
                let pairs: Vec<Result<Option<Compared>, CopyError>> = pairs.await;
                for pair in pairs {
                    let Some((row, sum, is_there)) = pair? else { continue };
                    all.update(sum);
                    pass.operations += 1;
                    if !is_there {
                        pass.written += 1;
                        pass.differed.get_or_insert_with(|| row.record.id.clone());
                        batch.add(row);
                    }
                }
                if batch.is_full() {
                    self.restore(batch.take()).await?;
                }
            }
            if next.is_none() {
                break;
            }
            after = next;
        }
        if !batch.rows.is_empty() {
            self.restore(batch.take()).await?;
        }
        pass.checksum = all.finalize().into();
        Ok(pass)
    }

    /// A row of the source, its checksum, and whether the target has the same; `None` if it was purged meanwhile.
    async fn pair(&self, id: &OperationId) -> Result<Option<Compared>, CopyError> {
        let (row, there) = tokio::join!(self.source.row(id), self.target.row(id));
        let (Some(row), there) = (row?, there?) else { return Ok(None) };
        let sum = checksum(&row).map_err(self.source.failed())?;
        let there = there.as_ref().map(checksum).transpose().map_err(self.target.failed())?;
        Ok(Some((row, sum, there == Some(sum))))
    }

    /// Removes from the target what an earlier pass copied and the source has purged since, or has under another name.
    async fn remove_what_is_gone(&self) -> Result<(), CopyError> {
        let mut after = None;
        loop {
            let (ids, next) = self.target.names(after.as_deref()).await?;
            let mut gone = Vec::new();
            for id in ids {
                if self.source.get(&id).await?.is_none() {
                    gone.push(id);
                }
            }
            if !gone.is_empty() {
                self.restore(Restore { gone, ..Restore::default() }).await?;
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
    }

    /// Copies what the target lacks of the audit record, and compares both. Gives how many entries it has.
    pub(super) async fn copy_audit(&self) -> Result<u64, CopyError> {
        let has = self.target.head().await?.audit;
        let (mut seen, mut after) = (0, None);
        loop {
            let (entries, next) = self.source.entries(after.as_deref()).await?;
            let known = usize::try_from(has.saturating_sub(seen)).unwrap_or(usize::MAX);
            let audit: Vec<AuditEntry> = entries.iter().skip(known).cloned().collect();
            let audit_after = has.max(seen);
            seen += entries.len() as u64;
            if !audit.is_empty() {
                self.restore(Restore { audit, audit_after, ..Restore::default() }).await?;
            }
            if next.is_none() {
                break;
            }
            after = next;
        }
        self.compare_audit(seen).await
    }

    async fn compare_audit(&self, count: u64) -> Result<u64, CopyError> {
        let (mut same, mut here, mut there) = (0, None, None);
        loop {
            let (ours, next) = self.source.entries(here.as_deref()).await?;
            let (theirs, their_next) = self.target.entries(there.as_deref()).await?;
            same += ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count() as u64;
            let is_alike = ours.len() == theirs.len() && next.is_some() == their_next.is_some();
            if !is_alike || next.is_none() {
                break;
            }
            (here, there) = (next, their_next);
        }
        let target_has = self.target.head().await?.audit;
        if same == count && target_has == count {
            return Ok(count);
        }
        let what = "audit record";
        Err(CopyError::Counts { what, source_has: count, target_has: same.min(target_has) })
    }

    /// The notes and the registered terms, which no row has.
    pub(super) async fn copy_head(&self) -> Result<(), CopyError> {
        let head = self.source.head().await?;
        let (notes, accounts) = (Some(head.notes), Some(head.accounts));
        self.restore(Restore { notes, accounts, ..Restore::default() }).await
    }
}

impl Side<'_> {
    async fn count(&self) -> Result<u64, CopyError> {
        let groups = self.store.tally().await.map_err(self.failed())?;
        Ok(groups.iter().map(|group| group.count).sum())
    }

    async fn names(&self, after: Option<&str>) -> Result<(Vec<OperationId>, Option<String>), CopyError> {
        let page = self.store.list(&Filter::default(), after, PAGE).await.map_err(self.failed())?;
        Ok((page.rows.into_iter().map(|summary| summary.id).collect(), page.next))
    }

    async fn entries(&self, after: Option<&str>) -> Result<(Vec<AuditEntry>, Option<String>), CopyError> {
        let page = self.store.audit(None, after, PAGE).await.map_err(self.failed())?;
        Ok((page.rows, page.next))
    }
}

/// A row, its checksum, and whether it is the same in the target.
type Compared = (Row, [u8; 32], bool);

/// Completes when all of these have, which go on side by side: a store in a file has several readers, and one on a
/// server is far away.
pub async fn all_of<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Rows that are written in one commit.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, row: Row) {
        let answered = answer(&row.record.state).map_or(0, |answer| answer.body.len());
        self.bytes += row.record.request.body.len() + answered;
        self.rows.push(row);
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES_MAX
    }

    fn take(&mut self) -> Restore {
        let Batch { rows, .. } = std::mem::take(self);
        Restore { rows, ..Restore::default() }
    }
}

/// A commit is a sync, and takes as long as some hundred rows.
const BATCH_ROWS: usize = 256;

/// Most bytes in memory at once, and one row more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Number of rows of each store that are read side by side, and are in memory beside the batch.
const ROWS_AT_ONCE: usize = 16;

const PAGE: usize = 500;
