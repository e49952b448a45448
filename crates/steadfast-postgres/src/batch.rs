//! Group commit: all jobs that wait when a slot is free go to the server as one statement, and into one commit.
//!
//! A commit's cost is its sync and its round trip, and both are the same for one row and for a hundred. While a
//! batch is in flight, the queue fills; the next batch takes all of it. There is no timer: a lone caller never
//! waits for others. Two batches are in flight at once, so that the server works on one while it syncs the
//! other. The second leaves once it is as large as the first, or large enough. If both leave as soon as they
//! can, they become many small ones, and the server does an eighth less (`cargo bench --bench postgres`, part
//! `calls`).
//!
//! A caller gets its reply after the commit of its batch, so each acknowledged write is on record. If the
//! answer to a batch never comes, the batch may be on record or not, and each of its callers gets that as an
//! error.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use steadfast_core::internal::ext::StoreErrorExt;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::Shared;

/// One caller's part of a batch.
pub(super) trait Job: Send + Sync + Sized + 'static {
    /// Result that the caller gets.
    type Done: Send + Sync + 'static;

    /// Returns the bytes that the job adds to a statement.
    fn bytes(&self) -> usize;

    /// Returns the queue of such jobs.
    fn queue(shared: &Shared) -> &Queue<Self>;

    /// True if the job is skipped when its caller has gone away.
    const SKIPPED_IF_ABANDONED: bool;

    /// Returns scope and key of the job's row. A batch locks its rows in this order.
    fn name(&self) -> (&str, &str);

    /// Result of a job whose batch has an earlier job for the same row, once that one is done.
    const DUPLICATE: Self::Done;

    /// Sends all jobs of a batch to the server in one statement. Returns their results, in their order.
    fn send(
        shared: &Shared,
        jobs: &[QueuedJob<Self>],
    ) -> impl Future<Output = Result<Vec<Self::Done>, StoreError>> + Send;
}

/// A job and the sender of its caller's reply.
pub(super) struct QueuedJob<J: Job> {
    pub(super) job: J,
    reply: Reply<J>,
    /// Replies of the batch's other jobs for the same row.
    duplicates: Vec<Reply<J>>,
}

type Reply<J> = oneshot::Sender<Result<<J as Job>::Done, StoreError>>;

impl<J: Job> QueuedJob<J> {
    fn answer(self, done: Result<J::Done, StoreError>) {
        // A caller that has gone away gets no reply.
        for duplicate in self.duplicates {
            let _ = duplicate.send(done.as_ref().map(|_| J::DUPLICATE).map_err(StoreError::again));
        }
        let _ = self.reply.send(done);
    }
}

/// Queue of jobs, with the number of batches in flight.
pub(super) struct Queue<J: Job>(Mutex<QueueState<J>>);

struct QueueState<J: Job> {
    jobs: VecDeque<QueuedJob<J>>,
    in_flight: usize,
    /// Number of jobs in the last batch; 0 before the first.
    last_len: usize,
}

impl<J: Job> QueueState<J> {
    fn may_start_beside(&self, others: usize) -> bool {
        may_start_beside(others, self.jobs.len(), self.last_len)
    }
}

/// Returns true if the `jobs` that wait may leave now, as a batch beside the `others` that are in flight. The
/// last of these had `last_len` jobs. If they may not, they leave when one of the others has ended.
fn may_start_beside(others: usize, jobs: usize, last_len: usize) -> bool {
    others == 0 || others < IN_FLIGHT_MAX && jobs >= last_len.clamp(1, SECOND_BATCH_MIN)
}

impl<J: Job> Default for Queue<J> {
    fn default() -> Queue<J> {
        Queue(Mutex::new(QueueState { jobs: VecDeque::new(), in_flight: 0, last_len: 0 }))
    }
}

/// Adds `job` to a batch, and returns its result.
///
/// # Errors
///
/// [`Locked`](StoreErrorKind::Locked) if another transaction has locked the row: run the job in a transaction
/// of its own, which may wait.
pub(super) async fn run<J: Job>(shared: &Arc<Shared>, job: J) -> Result<J::Done, StoreError> {
    let (reply, answer) = oneshot::channel();
    let is_free = {
        let mut state = J::queue(shared).0.lock();
        state.jobs.push_back(QueuedJob { job, reply, duplicates: Vec::new() });
        let is_free = state.may_start_beside(state.in_flight);
        state.in_flight += usize::from(is_free);
        is_free
    };
    if is_free {
        shared.connections.spawn(drain(Slot::<J> {
            shared: Arc::clone(shared),
            is_held: true,
            job: PhantomData,
        }));
    }
    answer.await.unwrap_or_else(|_| {
        let problem = "the Postgres store has stopped before the answer came";
        Err(StoreError::new(problem).of_kind(StoreErrorKind::Lost))
    })
}

/// RAII slot for one batch in flight. Released when the queue is empty, and on drop, also after a panic.
struct Slot<J: Job> {
    shared: Arc<Shared>,
    is_held: bool,
    job: PhantomData<fn(J)>,
}

impl<J: Job> Slot<J> {
    /// Takes the waiting jobs, up to the size of a batch. If none may leave now, it releases the slot under the
    /// same lock, so that the next caller either finds the slot free or is in the batch.
    fn next(&mut self) -> Option<Vec<QueuedJob<J>>> {
        let mut state = J::queue(&self.shared).0.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let may_start = state.may_start_beside(state.in_flight - 1);
        while may_start && let Some(queued) = state.jobs.pop_front() {
            if J::SKIPPED_IF_ABANDONED && queued.reply.is_closed() {
                continue;
            }
            bytes += queued.job.bytes();
            if !batch.is_empty() && bytes > BATCH_BYTES_MAX {
                state.jobs.push_front(queued);
                break;
            }
            batch.push(queued);
            if batch.len() == BATCH_MAX {
                break;
            }
        }
        if batch.is_empty() {
            state.in_flight -= 1;
            self.is_held = false;
            return None;
        }
        state.last_len = batch.len();
        Some(batch)
    }
}

impl<J: Job> Drop for Slot<J> {
    fn drop(&mut self) {
        if self.is_held {
            J::queue(&self.shared).0.lock().in_flight -= 1;
        }
    }
}

async fn drain<J: Job>(mut slot: Slot<J>) {
    while let Some(mut batch) = slot.next() {
        sort_and_merge(&mut batch);
        send_batch(&slot.shared, batch).await;
    }
}

/// Sorts a batch by scope and key, and attaches each further job for the same row to the first one.
fn sort_and_merge<J: Job>(batch: &mut Vec<QueuedJob<J>>) {
    batch.sort_by(|one, other| one.job.name().cmp(&other.job.name()));
    batch.dedup_by(|next, first| {
        let is_duplicate = next.job.name() == first.job.name();
        if is_duplicate {
            let (unused, _) = oneshot::channel();
            first.duplicates.push(std::mem::replace(&mut next.reply, unused));
        }
        is_duplicate
    });
}

/// Sends a batch. A row that the server refuses, or that another process has locked, undoes the statement of
/// its whole batch. So the batch is halved until that row is alone, and the other rows are written.
async fn send_batch<J: Job>(shared: &Shared, batch: Vec<QueuedJob<J>>) {
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match J::send(shared, &part).await {
            Ok(done) => part.into_iter().zip(done).for_each(|(queued, done)| queued.answer(Ok(done))),
            Err(error) if part.len() > 1 && is_row_error(&error) => {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            }
            Err(error) => part.into_iter().for_each(|queued| queued.answer(Err(error.again()))),
        }
    }
}

/// Returns true if the server rejected the values of a row, and did not fail itself.
fn is_row_error(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Locked | StoreErrorKind::Invalid | StoreErrorKind::Other)
}

/// Maximum of batches in flight. Two work and sync in turn. More are smaller, and cost the server more for each
/// call.
const IN_FLIGHT_MAX: usize = 2;

/// Number of jobs that is worth a commit of its own beside a larger batch.
const SECOND_BATCH_MIN: usize = 16;

/// Maximum of jobs in one statement: enough that many share the sync, few enough that none waits long.
const BATCH_MAX: usize = 256;

/// Maximum of bytes in one statement, unless a single job is larger.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::{IN_FLIGHT_MAX, SECOND_BATCH_MIN, may_start_beside};

    #[test]
    fn a_lone_batch_starts_at_once_and_a_second_one_only_if_it_is_as_large_as_the_first() {
        assert!(may_start_beside(0, 1, 200), "there would be nobody to take it along");
        assert!(may_start_beside(1, 1, 1) && may_start_beside(1, 5, 5), "few callers work side by side");
        assert!(!may_start_beside(1, 4, 5), "a smaller one waits for the first to end");
        assert!(
            may_start_beside(1, SECOND_BATCH_MIN, 200) && !may_start_beside(1, SECOND_BATCH_MIN - 1, 200)
        );
        assert!(!may_start_beside(1, 0, 0), "there is nothing to send");
        assert!(!may_start_beside(IN_FLIGHT_MAX, 200, 1));
    }
}
