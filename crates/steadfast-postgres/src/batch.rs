//! Group commit: everything that waits when a slot is free goes to the server as one statement, and into one commit.
//!
//! A commit's cost is its sync and its round trip, and both are the same for one row and for a hundred. While a batch
//! is under way, the queue fills; the next batch takes all of it. No timer: a lone caller never waits for company.
//! Two batches are under way at once, so that the server works on one while it syncs the other. The second leaves
//! once it is as large as the first, or large enough. Two that leave as soon as they can become many small ones, and
//! the server does an eighth less (`cargo bench --bench postgres`, part `calls`).
//!
//! A reply goes out after the commit of its batch. Each write that was acknowledged is on record; and a batch whose answer
//! never came may be on record or not, which each of its callers is told.

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
    /// What the caller is told.
    type Done: Send + Sync + 'static;

    /// What it adds to a message.
    fn bytes(&self) -> usize;

    /// The queue of such jobs.
    fn queue(shared: &Shared) -> &Queue<Self>;

    /// Whether it is left undone when its caller has gone away.
    const SKIPPED_WHEN_DROPPED: bool;

    /// The row that it is about. A batch locks its rows in this order.
    fn name(&self) -> (&str, &str);

    /// What a job is told that is about the same row as another of its batch, once that one is done.
    const SECOND: Self::Done;

    /// Has the server do all of a batch in one statement. What each came to, in their order.
    fn send(
        shared: &Shared,
        jobs: &[Asked<Self>],
    ) -> impl Future<Output = Result<Vec<Self::Done>, StoreError>> + Send;
}

/// A job and the one who waits for it.
pub(super) struct Asked<J: Job> {
    pub(super) job: J,
    reply: Reply<J>,
    /// Of the other jobs about the same row.
    seconds: Vec<Reply<J>>,
}

type Reply<J> = oneshot::Sender<Result<<J as Job>::Done, StoreError>>;

impl<J: Job> Asked<J> {
    fn answer(self, done: Result<J::Done, StoreError>) {
        // Whoever has gone away is told nothing.
        for second in self.seconds {
            let _ = second.send(done.as_ref().map(|_| J::SECOND).map_err(StoreError::again));
        }
        let _ = self.reply.send(done);
    }
}

/// What waits, and how many batches are under way.
pub(super) struct Queue<J: Job>(Mutex<Waiting<J>>);

struct Waiting<J: Job> {
    jobs: VecDeque<Asked<J>>,
    under_way: usize,
    /// How many jobs the last batch had.
    last: usize,
}

impl<J: Job> Waiting<J> {
    fn may_leave_beside(&self, others: usize) -> bool {
        may_leave_beside(others, self.jobs.len(), self.last)
    }
}

/// Whether the `jobs` that wait leave now, as a batch beside the `others` that are under way. The last of these had
/// `last` jobs. If they do not, they leave when one of the others has ended.
fn may_leave_beside(others: usize, jobs: usize, last: usize) -> bool {
    others == 0 || others < UNDER_WAY_MAX && jobs >= last.clamp(1, BESIDE_ENOUGH)
}

impl<J: Job> Default for Queue<J> {
    fn default() -> Queue<J> {
        Queue(Mutex::new(Waiting { jobs: VecDeque::new(), under_way: 0, last: 0 }))
    }
}

/// Has `job` done in a batch.
///
/// # Errors
///
/// Of the kind [`Locked`](StoreErrorKind::Locked) if another transaction was in the way: it is then for a transaction of
/// its own, which may wait.
pub(super) async fn run<J: Job>(shared: &Arc<Shared>, job: J) -> Result<J::Done, StoreError> {
    let (reply, answer) = oneshot::channel();
    let is_free = {
        let mut waiting = J::queue(shared).0.lock();
        waiting.jobs.push_back(Asked { job, reply, seconds: Vec::new() });
        let is_free = waiting.may_leave_beside(waiting.under_way);
        waiting.under_way += usize::from(is_free);
        is_free
    };
    if is_free {
        shared.connections.spawn(work_off(Slot::<J> {
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

/// A batch that is under way, or about to be. Given back when nothing waits, also if the work panics.
struct Slot<J: Job> {
    shared: Arc<Shared>,
    is_held: bool,
    job: PhantomData<fn(J)>,
}

impl<J: Job> Slot<J> {
    /// What waits, up to the size of a batch. If nothing is to leave now, the slot is given back: in the same step,
    /// since the next caller either finds it free or is found.
    fn next(&mut self) -> Option<Vec<Asked<J>>> {
        let mut waiting = J::queue(&self.shared).0.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let may_leave = waiting.may_leave_beside(waiting.under_way - 1);
        while may_leave && let Some(asked) = waiting.jobs.pop_front() {
            if J::SKIPPED_WHEN_DROPPED && asked.reply.is_closed() {
                continue;
            }
            bytes += asked.job.bytes();
            if !batch.is_empty() && bytes > BATCH_BYTES_MAX {
                waiting.jobs.push_front(asked);
                break;
            }
            batch.push(asked);
            if batch.len() == BATCH_MAX {
                break;
            }
        }
        if batch.is_empty() {
            waiting.under_way -= 1;
            self.is_held = false;
            return None;
        }
        waiting.last = batch.len();
        Some(batch)
    }
}

impl<J: Job> Drop for Slot<J> {
    fn drop(&mut self) {
        if self.is_held {
            J::queue(&self.shared).0.lock().under_way -= 1;
        }
    }
}

async fn work_off<J: Job>(mut slot: Slot<J>) {
    while let Some(mut batch) = slot.next() {
        sort(&mut batch);
        carry_out(&slot.shared, batch).await;
    }
}

/// By name, each name once.
fn sort<J: Job>(batch: &mut Vec<Asked<J>>) {
    batch.sort_by(|one, other| one.job.name().cmp(&other.job.name()));
    batch.dedup_by(|next, first| {
        let is_second = next.job.name() == first.job.name();
        if is_second {
            let (unheard, _) = oneshot::channel();
            first.seconds.push(std::mem::replace(&mut next.reply, unheard));
        }
        is_second
    });
}

/// A row that the server refuses undoes the statement of its whole batch, and so does one that another process has
/// locked. Its neighbours are not to suffer for it: the batch is halved until the row is alone.
async fn carry_out<J: Job>(shared: &Shared, batch: Vec<Asked<J>>) {
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match J::send(shared, &part).await {
            Ok(done) => part.into_iter().zip(done).for_each(|(asked, done)| asked.answer(Ok(done))),
            Err(error) if part.len() > 1 && is_of_a_row(&error) => {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            }
            Err(error) => part.into_iter().for_each(|asked| asked.answer(Err(error.again()))),
        }
    }
}

/// Whether the server found fault with what it was given, and not with itself.
fn is_of_a_row(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Locked | StoreErrorKind::Invalid | StoreErrorKind::Other)
}

/// Two work and sync in turn. More are smaller, and cost the server more for each call.
const UNDER_WAY_MAX: usize = 2;

/// So many are worth a commit of their own beside a larger batch.
const BESIDE_ENOUGH: usize = 16;

/// The most calls in one statement: enough that the sync is shared by many, few enough that none waits long.
const BATCH_MAX: usize = 256;

/// The most bytes of one statement, but for a call that is larger by itself.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::{BESIDE_ENOUGH, UNDER_WAY_MAX, may_leave_beside};

    #[test]
    fn nobody_waits_while_nothing_is_under_way_and_a_second_batch_is_as_large_as_the_first() {
        assert!(may_leave_beside(0, 1, 200), "there would be nobody to take it along");
        assert!(may_leave_beside(1, 1, 1) && may_leave_beside(1, 5, 5), "few callers work side by side");
        assert!(!may_leave_beside(1, 4, 5), "a smaller one waits for the first to end");
        assert!(may_leave_beside(1, BESIDE_ENOUGH, 200) && !may_leave_beside(1, BESIDE_ENOUGH - 1, 200));
        assert!(!may_leave_beside(1, 0, 0), "there is nothing to send");
        assert!(!may_leave_beside(UNDER_WAY_MAX, 200, 1));
    }
}
