//! [`copy`]: writes all records of one store to another one.
//!
//! One store is closed before the other opens (see [`Standing`]), so that no operation is ever due in two places. In
//! between, rows are compared and not assumed. Each pass reads every row of both stores and writes those that differ.
//! Only a pass in which none differs ends the copy. The pass that goes on after a kill, the one that repeats what was
//! settled meanwhile, and the one that verifies are therefore the same.

use std::sync::Arc;

use super::capability::maintenance_of;
use super::maintenance::{Head, Maintenance, Restore, Row, Stage, Standing};
use super::{Store, StoreError, StoreErrorKind};
use crate::clock::{Clock, SystemClock};
use crate::operation::OperationId;
use crate::operation::record::Record;
use crate::random::{Random, SystemRandom};

pub(crate) mod checksum;
pub(crate) mod error;
pub(crate) mod leases;
pub(crate) mod passes;
pub(crate) mod start;

pub use error::CopyError;

pub use passes::all_of;
use start::Began;

/// The settings of a [`copy`].
///
/// ```
/// use steadfast::store::Copying;
///
/// let how = Copying::new("sqlite:old.db", "sqlite:/var/lib/shop/new.db").wait();
/// ```
#[derive(Clone, Debug)]
pub struct Copying {
    from: String,
    to: String,
    wait: bool,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Copying {
    /// Names the two stores for people: a process that still uses the source is referred to `to`. No secrets belong
    /// there; a `StoreUrl` shows none.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Copying {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        Copying { from: from.into(), to: to.into(), wait: false, clock, random }
    }

    /// Waits until the held operations of the source have ended. The source takes no new ones meanwhile.
    ///
    /// Default: while a lease is live, the copy is refused and nothing is changed.
    #[must_use]
    pub fn wait(mut self) -> Copying {
        self.wait = true;
        self
    }

    /// The clock. Default: [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Copying {
        self.clock = Arc::new(clock);
        self
    }

    /// The source of the copy's name. Default: the operating system.
    #[must_use]
    pub fn random(mut self, random: impl Random) -> Copying {
        self.random = Arc::new(random);
        self
    }
}

/// The result of a [`copy`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Whether an earlier run had completed it, and this one changed nothing. All that follows is then 0.
    pub was_complete: bool,
    /// Operations in both stores, each compared with its log.
    pub operations: u64,
    /// Rows that this run wrote. More than [`operations`](Copied::operations) if some were settled meanwhile, fewer
    /// if an earlier run had begun.
    pub written: u64,
    /// Entries of the audit record in both stores, each compared.
    pub audit: u64,
    /// A SHA-256 over all rows and their logs, in the order of the source's list.
    pub checksum: [u8; 32],
}

/// Copies every record of `source` with its log, the audit record, the fences of purged records, the time that the
/// store believes, and the terms that clients registered. Compares all of it at the end. Then `target` is open, and
/// `source` closed for good: a process that still uses it is referred to the target, and sends nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use steadfast::store::{self, Copying, Memory};
///
/// let (old, new) = (Memory::new(), Memory::new());
/// let copied = store::copy(&old, &new, &Copying::new("the old store", "the new one")).await?;
/// assert_eq!(copied.operations, 0);
/// # Ok(())
/// # }
/// ```
///
/// The source is closed from the beginning, so stop the service first. While a process holds an operation there, the
/// copy is refused, unless it [waits](Copying::wait).
///
/// If it is cut short, neither store can be written to. The same again goes on with it; [`give_up_copy`] opens the
/// source again. Each store seals with its own keys, or not.
///
/// # Errors
///
/// A [`CopyError`]. Refusals have changed nothing; after any other, the same again goes on.
///
/// # Cancellation safety
///
/// As when it is cut short.
pub async fn copy(source: &dyn Store, target: &dyn Store, how: &Copying) -> Result<Copied, CopyError> {
    let mut run = Run::new(source, target, how)?;
    let name = match run.start().await? {
        Began::Complete => return Ok(Copied { was_complete: true, ..Copied::default() }),
        Began::Named(name) => name,
    };
    run.name.clone_from(&name);
    let mut written = 0;
    if run.source.head().await?.standing.stage == Stage::Leaving {
        written += run.pass().await?.written;
        run.wait_for_holders().await?;
    }
    let (leaving, moved) = (run.leaving(&name), Standing { stage: Stage::Moved, ..run.leaving(&name) });
    run.source.step(&leaving, &moved).await?;
    let mut copied = run.settle(&mut written).await?;
    copied.audit = run.copy_audit().await?;
    run.copy_head().await?;
    let opened = Standing { stage: Stage::Open, ..run.arriving(&name) };
    run.target.step(&run.arriving(&name), &opened).await?;
    copied.written = written;
    Ok(copied)
}

/// Opens the source of a copy again that is not complete. Its target stays closed: remove it.
///
/// `target` is `None` if it is lost for good. Then it cannot be known whether the copy was completed. If it was, and
/// some process has the target after all, what is due is sent from both stores.
///
/// # Errors
///
/// A [`CopyError`]: `Complete` if the records live in the target.
///
/// # Cancellation safety
///
/// The same again completes it.
pub async fn give_up_copy(
    source: &dyn Store,
    target: Option<&dyn Store>,
    how: &Copying,
) -> Result<(), CopyError> {
    let source = Side::new("source", source)?;
    let standing = source.head().await?.standing;
    if !matches!(standing.stage, Stage::Leaving | Stage::Moved) {
        return Ok(());
    }
    if let Some(target) = target {
        let target = Side::new("target", target)?;
        let there = target.head().await?.standing;
        match there.stage {
            // Under another name, so that whoever still copies cannot open it.
            Stage::Arriving if there.copy == standing.copy => {
                let given_up = Standing { copy: given_up(&standing.copy), ..there.clone() };
                target.step(&there, &given_up).await?;
            }
            Stage::Arriving if there.copy == given_up(&standing.copy) => {}
            // Not begun there, or begun with another source.
            _ if standing.stage == Stage::Leaving => {}
            Stage::Open if there.copy == standing.copy => {
                return Err(CopyError::Complete { other: how.to.clone() });
            }
            // All is in another store, which may be in use.
            _ => return Err(CopyError::Elsewhere { other: standing.other }),
        }
    }
    source.step(&standing, &Standing::default()).await
}

/// A copy under way.
struct Run<'a> {
    source: Side<'a>,
    target: Side<'a>,
    /// The copy's; empty until it has one.
    name: String,
    how: &'a Copying,
}

/// Source or target of the copy.
#[derive(Clone, Copy)]
struct Side<'a> {
    name: &'static str,
    store: &'a dyn Store,
    maintenance: &'a dyn Maintenance,
}

impl<'a> Run<'a> {
    fn new(source: &'a dyn Store, target: &'a dyn Store, how: &'a Copying) -> Result<Run<'a>, CopyError> {
        let (source, target) = (Side::new("source", source)?, Side::new("target", target)?);
        Ok(Run { source, target, name: String::new(), how })
    }

    /// Returns the state of the source while the copy of this name is under way.
    fn leaving(&self, name: &str) -> Standing {
        Standing { stage: Stage::Leaving, copy: name.to_owned(), other: self.how.to.clone() }
    }

    /// Returns the state of the target.
    fn arriving(&self, name: &str) -> Standing {
        Standing { stage: Stage::Arriving, copy: name.to_owned(), other: self.how.from.clone() }
    }
}

impl Run<'_> {
    /// Writes to the target, as a part of this copy.
    async fn restore(&self, restore: Restore) -> Result<(), CopyError> {
        let restore = Restore { copy: self.name.clone(), ..restore };
        self.target.maintenance.restore(restore).await.map_err(self.target.failed())
    }
}

impl<'a> Side<'a> {
    fn new(name: &'static str, store: &'a dyn Store) -> Result<Side<'a>, CopyError> {
        let maintenance = maintenance_of(store).map_err(|source| CopyError::Store { side: name, source })?;
        Ok(Side { name, store, maintenance })
    }

    fn failed(&self) -> impl Fn(StoreError) -> CopyError + use<> {
        let side = self.name;
        move |source| CopyError::Store { side, source }
    }

    async fn head(&self) -> Result<Head, CopyError> {
        self.maintenance.head().await.map_err(self.failed())
    }

    /// Moves the store from one state to the next. It is no failure if it is there already.
    async fn step(&self, from: &Standing, to: &Standing) -> Result<(), CopyError> {
        let there = self.maintenance.stand(from, to).await.map_err(self.failed())?;
        if there == *to { Ok(()) } else { Err(CopyError::Overtaken { side: self.name }) }
    }

    /// A record, if it is there. A source that is closed for good may have lost one to a purge before that.
    async fn get(&self, id: &OperationId) -> Result<Option<Record>, CopyError> {
        match self.store.get(id).await {
            Err(error) if error.kind() == StoreErrorKind::Closed => Ok(None),
            read => read.map_err(self.failed()),
        }
    }

    /// A record with its log, if it is there.
    async fn row(&self, id: &OperationId) -> Result<Option<Row>, CopyError> {
        let evidence = self.store.evidence(id).await.map_err(self.failed())?;
        let record = self.get(id).await?;
        Ok(record.map(|record| Row { record, evidence }))
    }
}

/// No copy has this name. It is of one copy alone: the target of one that was given up says nothing of a later one.
fn given_up(copy: &str) -> String {
    format!("given up: {copy}")
}
