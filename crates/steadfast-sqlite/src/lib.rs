//! [`Sqlite`]: records in a file, so that they survive the process.
//!
//! One thread writes and commits in groups, two read beside it, and one runs checkpoints. Callers await a reply
//! and never block (see [`lane`] and [`writer`]). A pool of writing connections, the usual way, competes for
//! SQLite's one write lock and syncs once for every row.
//!
//! The caller's task encodes and decodes bodies (`codec`). The thread only decides by columns ([`row`]), with
//! the functions of [`operation::record`](steadfast_core::operation::record).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use steadfast_core::AttemptReport;
use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::{RecordExt, StateExt};
use steadfast_core::internal::store::{Seals, Stored, Tenants, reports};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Phase, Record, Summary, Takeover,
    Tally, Transition,
};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};
use steadfast_core::store::maintenance::Maintenance;
use steadfast_core::store::outbox::Outbox;
use steadfast_core::store::sealing::Sealing;
use steadfast_core::store::{Store, StoreError};

mod backlog;
mod builder;
mod copying;
mod due;
mod facts;
mod failure;
mod heartbeat;
mod lane;
mod log;
mod look;
mod migrations;
mod names;
mod notes;
mod open;
mod outbox;
mod place;
mod prepared;
mod purge;
mod read;
mod reseal;
mod row;
mod rows;
mod sealed;
mod sequence;
mod statements;
mod upkeep;
mod wipe;
mod write;
mod writer;

pub use builder::SqliteBuilder;

use lane::{Lane, OnDrop};
use log::Log;
use open::Settings;
use place::OpenedFile;
use write::{ClaimResult, FirstClaim, PendingTransition, TransitionResult};

/// A store in an SQLite file: the embedded default.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let clock = steadfast::testkit::TestClock::auto();
/// # let fake = steadfast::testkit::fakes::StripeFake::builder().test_clock(&clock).in_process();
/// # let stripe = steadfast::Client::builder(steadfast::vendor::Stripe::new("sk_test_123"))
/// #     .transport(fake.transport())
/// #     .clock(clock.clone())
/// #     .build()?;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vendor-calls.db");
/// use std::sync::Arc;
/// use steadfast::store::Sqlite;
/// use steadfast::vendor::Stripe;
/// use steadfast::{Client, Obtained};
///
/// // The second round is a service that was started again.
/// for expected in [Obtained::Fresh, Obtained::Replayed] {
///     let store = Arc::new(Sqlite::open(&path)?);
///     let stripe = Client::builder(Stripe::new("sk_test_123"))
/// #       .transport(fake.transport())
///         .store(store)
///         .build()?;
///     let form = [("amount", "1000"), ("currency", "usd")];
///     let reply = stripe.post("/v1/charges").key("order-42").form(&form).send().await?;
///     assert_eq!(reply.obtained(), expected);
/// }
/// # assert_eq!(fake.plan().requests(), 1, "the second reply is from the file");
/// # Ok(())
/// # }
/// ```
///
/// A write that a method has acknowledged is on disk (`synchronous=FULL`, a write-ahead log). It survives `kill
/// -9` and, if the disk does not lie about its syncs, a power cut. Several processes, and several `Sqlite` on
/// one machine, may share a
/// file. A network file system must not hold it (<https://www.sqlite.org/wal.html#overview>, "all processes using a
/// database must be on the same host").
///
/// # Behaviour
///
/// - A claim and a settlement are a commit each; commits that come together share one.
/// - When more than 1,024 calls wait, the next waits for its turn in the queue. Dropped while it waits, it leaves
///   nothing. So does a claim that is dropped before its commit began; a settlement is written all the same.
/// - It waits up to about five seconds for another process that holds the file.
/// - Times are kept to the millisecond, and up to 2^63 of them.
/// - The next [`take`](Store::take), [`look`](Delivery::look) or [`purge`](Store::purge) notices a file that was deleted
///   or replaced while it is open. So does each round of recovery. From then on every write fails with
///   [`Replaced`](steadfast_core::store::StoreErrorKind::Replaced), and nothing is sent. (Unix.)
/// - The file's mode is 0600, and so are those of `-wal` and `-shm` beside it. Copy it with SQLite's tools, not
///   with `cp`, as long as it is open.
///
/// # Bound
///
/// Only the disk bounds it. Call [`purge`](Store::purge) now and then. It works in small batches: a claim is never
/// behind more than one of them. At 64 MiB a checkpoint copies the write-ahead log into the file, and the log begins
/// anew. It grows beyond that while another process reads for long, and up to 128 MiB of it stay on disk. Of the
/// file, a store keeps up to 16 MiB in memory to write by, and 2 MiB for each of the three threads that read.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    settings: Settings,
    seals: Seals,
    writer: Lane,
    readers: [Lane; READERS],
    /// Number of the next reader, modulo their number.
    turn: AtomicUsize,
    /// Lane that runs checkpoints, see [`log`].
    checkpointer: Lane,
    place: OpenedFile,
    wakes: Wakes,
    tenants: Arc<Tenants>,
}

impl Sqlite {
    /// Opens or creates the file at `path`. An older schema is migrated.
    ///
    /// Blocks meanwhile: open the store before the service serves.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] of kind `Foreign` for another program's file, `Newer` for a newer release's, and
    /// `Older` for one of a schema that was never published. `Sealed` for one that needs a key. All of these
    /// are left as they are. `Locked`, `ReadOnly`, `Full`, `Corrupt`; `Other` for a path that cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        Sqlite::builder(path).open()
    }

    /// Returns a builder for the file at `path`, with more settings than [`open`](Sqlite::open).
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder::new(path.as_ref().to_owned())
    }

    fn open_with(path: &Path, settings: Settings, seals: Seals) -> Result<Sqlite, StoreError> {
        let connection = open::writer(path, settings, &seals)?;
        let place = OpenedFile::of(path);
        let checkpointer = open::reader(path, settings)?;
        let checkpointer = Lane::start("steadfast-checkpoint", checkpointer, (1, 1), read::answer)?;
        let commit = writer::committer(Log::new(checkpointer.weak()));
        let writer = Lane::start("steadfast-write", connection, (QUEUE_MAX, GROUP_MAX), commit)?;
        let reader = || {
            let connection = open::reader(path, settings)?;
            Lane::start("steadfast-read", connection, (QUEUE_MAX, 1), read::answer)
        };
        let readers = [reader()?, reader()?];
        let (path, turn) = (path.to_owned(), AtomicUsize::new(0));
        let (wakes, tenants) = (Wakes::new(), Arc::default());
        Ok(Sqlite { path, settings, seals, writer, readers, turn, checkpointer, place, wakes, tenants })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finishes the queued work and closes the file. Dropping the store does the same in the background.
    ///
    /// # Cancellation safety
    ///
    /// The file is closed all the same.
    pub async fn close(self) {
        let Sqlite { writer, readers, checkpointer, .. } = self;
        checkpointer.close().await;
        for reader in readers {
            reader.close().await;
        }
        writer.close().await;
    }

    fn reader(&self) -> &Lane {
        &self.readers[self.turn.fetch_add(1, Ordering::Relaxed) % READERS]
    }

    /// Prepares the values of a claim for the writer, on the caller's thread, as they do not depend on the
    /// file. The result is boxed: within the caller's future it would be so large that to allocate it costs
    /// more than most of its work.
    fn first(&self, claim: Claim) -> Result<Box<FirstClaim>, StoreError> {
        let request = self.seals.request(&claim.id, &claim.request)?;
        let (lease, seals) = (claim.lease, self.seals.clone());
        Ok(Box::new(FirstClaim { record: Record::first(claim), request, lease, seals }))
    }

    /// Returns the result of a claim from the writer's.
    fn claimed(&self, mut first: FirstClaim, result: ClaimResult) -> Result<Claimed, StoreError> {
        let (claimed, stored) = match result {
            ClaimResult::Absent { first_fence, place } => {
                (first.record.fence, first.record.first_fence) = (first_fence, first_fence);
                first.record.sequence = place;
                return Ok(Claimed::Fresh(first.record));
            }
            ClaimResult::Unreadable(error) => return Err(error),
            ClaimResult::InTheWay(obstacle, effect) => return Ok(Claimed::InTheWay { obstacle, effect }),
            ClaimResult::Present(held) => *held,
        };
        Ok(match claimed {
            Claimed::TakenOver(record) => {
                Claimed::TakenOver(Stored { record, answer: None, ..stored }.whole(&self.seals)?)
            }
            Claimed::Freed(record) => {
                Claimed::Freed(Stored { record, answer: None, ..stored }.whole(&self.seals)?)
            }
            Claimed::Settled(record) => Claimed::Settled(Stored { record, ..stored }.whole(&self.seals)?),
            other => other,
        })
    }

    /// Form of [`first`](Self::first) for a transition. Includes the predicted record, which is right if no
    /// other process has changed the operation since.
    fn pending(
        &self,
        held: &Record,
        mut transition: Transition,
    ) -> Result<Box<PendingTransition>, StoreError> {
        let reports = reports::lines(&std::mem::take(&mut transition.reports))?;
        let answer = transition.to.answer_mut();
        let answer = answer.map(|answer| self.seals.answer(&held.id, answer)).transpose()?;
        let unmoved = held.phase() == Phase::InProgress && held.fence == transition.fence;
        let predicted = if unmoved { held.apply(transition.clone()).ok() } else { None };
        let (predicted, record) = (predicted.is_some(), predicted.unwrap_or_else(|| held.clone()));
        let seals = self.seals.clone();
        Ok(Box::new(PendingTransition { record, predicted, transition, answer, reports, seals }))
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.place.check(&self.path)?;
        let first = self.first(claim)?;
        let (first, result) =
            self.writer.run_on(OnDrop::Skip, first, |to, first| write::claim(to, first, None)).await?;
        self.claimed(*first, result)
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.place.check(&self.path)?;
        let pending = self.pending(held, transition)?;
        let (pending, written) =
            self.writer.run_on(OnDrop::Finish, pending, |to, pending| write::transition(to, pending)).await?;
        Ok(match written {
            TransitionResult::AsPredicted => Ok(pending.record),
            TransitionResult::Moved(stored) => Ok(stored.whole(&self.seals)?),
            TransitionResult::Declined(declined) => Err(declined),
        })
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.place.look(&self.path)?;
        let (seals, tenants) = (self.seals.clone(), Arc::clone(&self.tenants));
        let work = move |connection: &_| write::take(connection, &take, (&tenants, &seals));
        let taken = self.writer.run(OnDrop::Skip, work).await?;
        // An unreadable record must not cost the others their turn: its lease runs out again.
        let readable = taken.into_iter().filter_map(|stored| {
            let id = stored.record.id.clone();
            let whole = stored.whole(&self.seals);
            whole.inspect_err(|error| tracing::error!(vendor = id.scope.vendor_path(), key = %id.key, %error, "a record cannot be read")).ok()
        });
        Ok(readable.collect())
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.place.look(&self.path)?;
        let (id, seals) = (id.clone(), self.seals.clone());
        let work = move |connection: &_| write::act(connection, &id, &act, &seals);
        match self.writer.run(OnDrop::Skip, work).await? {
            Ok(stored) => stored.whole(&self.seals).map(Ok),
            Err(forbidden) => Ok(Err(forbidden)),
        }
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let (id, reports) = (id.clone(), reports::lines(&reports)?);
        let work = move |connection: &_| write::append_evidence(connection, &id, &reports);
        self.writer.run(OnDrop::Finish, work).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        let id = id.clone();
        self.reader().run(OnDrop::Skip, move |connection| read::evidence(connection, &id)).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let (id, seals) = (id.clone(), self.seals.clone());
        let work = move |connection: &_| read::get(connection, &id, &seals);
        let stored = self.reader().run(OnDrop::Skip, work).await?;
        stored.map(|stored| stored.whole(&self.seals)).transpose()
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        let (filter, after) = (filter.clone(), after.map(str::to_owned));
        let work = move |connection: &_| read::list(connection, &filter, after.as_deref(), limit);
        self.reader().run(OnDrop::Skip, work).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.reader().run(OnDrop::Skip, read::tally).await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let (id, after) = (id.cloned(), after.map(str::to_owned));
        let work = move |connection: &_| read::audit(connection, id.as_ref(), after.as_deref(), limit);
        self.reader().run(OnDrop::Skip, work).await
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        let notes = self.reader().run(OnDrop::Skip, notes::read).await?;
        Ok(notes.now(now))
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.place.look(&self.path)?;
        let mut removed = 0;
        while removed < limit {
            let batch = PURGE_BATCH.min(limit - removed);
            let work = move |connection: &_| purge::expired(connection, now, batch);
            let gone = self.writer.run(OnDrop::Skip, work).await?;
            removed += gone;
            if gone < batch {
                break;
            }
            // Each batch is checkpointed before the next: the log of many would be one long checkpoint in the
            // writer. The writer makes up for one that fails.
            let _ = self.checkpointer.run(OnDrop::Skip, log::checkpoint).await;
        }
        Ok(removed)
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        let (account, terms) = (account.to_owned(), terms.map(str::to_owned));
        if terms.is_some() {
            // Nearly always the row exists, and nothing has to be written.
            let account = account.clone();
            let work = move |connection: &_| copying::registered(connection, &account);
            let there = self.reader().run(OnDrop::Skip, work).await?;
            if there.is_some() {
                return Ok(there);
            }
        }
        let work = move |connection: &_| copying::register(connection, &account, terms.as_deref());
        self.writer.run(OnDrop::Skip, work).await
    }

    fn footing(&self) -> Result<Vec<String>, StoreError> {
        facts::footing(&self.path, self.settings.network_fs)
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }

    fn sealing(&self) -> Option<&dyn Sealing> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Sqlite {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.place.look(&self.path)?;
        let (look, seals) = (look.clone(), self.seals.clone());
        let work = move |connection: &_| look::look(connection, &look, &seals);
        self.writer.run(OnDrop::Skip, work).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.place.look(&self.path)?;
        let heartbeat = heartbeat.clone();
        let work = move |connection: &_| heartbeat::heartbeat(connection, &heartbeat);
        self.writer.run(OnDrop::Skip, work).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        let work = move |connection: &_| backlog::backlog(connection, now);
        self.reader().run(OnDrop::Skip, work).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        let ids = ids.to_vec();
        self.reader().run(OnDrop::Skip, move |connection| row::versions(connection, &ids)).await
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

/// Maximum of calls in the queue. The next one waits outside it.
const QUEUE_MAX: usize = 1_024;

/// Maximum of calls in one commit: enough that many share the sync, few enough that none waits long.
const GROUP_MAX: usize = 256;

/// Number of reading threads. Reads are short; the second is for a list that is not.
const READERS: usize = 2;

/// Number of rows that a purge removes in one commit. A row of a few KiB takes some ten microseconds, so that a
/// claim behind it waits a few milliseconds.
const PURGE_BATCH: usize = 200;

#[cfg(test)]
mod tests;
