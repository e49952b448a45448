//! [`here`]: what a person, or the script that restored a store, says of its place.
//!
//! A store that is opened at another [place](super::place) than its records are from cannot know which of two it is.
//! Moved, it has to go on where the original stopped. Copied, it must not: the original goes on by itself. Only a
//! person knows, and until then the store takes nothing.
//!
//! A copy closes what is open in it. That is what waits for its next attempt, what a process held when the copy was made,
//! dead letters that a redrive could make due, and rows of the outbox. The original has all of them, and carries them out.
//! So nothing is lost, and nothing is sent twice. Each is of unknown effect in the copy from then on.

use std::time::Duration;

use super::capability::maintenance_of;
use super::maintenance::{Maintenance, Noted, Stage, Standing};
use super::{Store, StoreError, StoreErrorKind};
use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::operation::OperationId;
use crate::operation::record::act::ActExt;
use crate::operation::record::{Act, Action, Filter, Forbidden, Phase};

/// Statement of a person about a store's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The store was moved here, and the original is gone: it goes on.
    Moved,
    /// The store is a copy of one that is still used, or may be: its open operations are left to the original.
    Copy,
    /// The store will be moved within a day: the next other place is its own.
    WillMove,
}

/// Place of a store, and the result of a statement about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Here {
    /// Difference between the place and the one that the records are from, if the store takes nothing for that reason;
    /// `None` if it is in use.
    pub displaced: Option<String>,
    /// The place on record, for people; `None` where there is none.
    pub noted: Option<String>,
    /// The place now, for people.
    pub found: String,
    /// Time until which one announced move is taken for one; `None` if none is announced.
    pub moves_until: Option<Timestamp>,
    /// Operations that were left to the original.
    pub operations: u64,
    /// Rows of the outbox that were left to the original.
    pub rows: u64,
}

/// Records a person's statement about a store that was opened elsewhere; without a statement, returns the store's
/// place. `by` and `why` go on record, for a copy with each operation that it closes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("vendor-calls.db");
/// use steadfast::store::{self, Sqlite};
///
/// let store = Sqlite::open(&path)?;
/// let now = steadfast::clock::Clock::wall(&steadfast::clock::SystemClock::new());
/// let here = store::here(&store, None, ("", ""), now).await?;
/// assert_eq!(here.displaced, None);
/// # Ok(())
/// # }
/// ```
///
/// A store is opened by what restored it, and by every service. After a run that was cut short, the same again does the
/// rest; the store takes nothing until then.
///
/// # Errors
///
/// A [`StoreError`], and nothing was changed. `Unsupported`: the store has no [`Maintenance`]. `Invalid`: a name or a
/// reason is missing, or the statement does not fit the store's state. `Closed`: its records are copied to another one.
///
/// # Cancellation safety
///
/// A run that was cut short is completed by the same again.
pub async fn here(
    store: &dyn Store,
    said: Option<Said>,
    (by, why): (&str, &str),
    now: Timestamp,
) -> Result<Here, StoreError> {
    let maintenance = maintenance_of(store)?;
    let Some(said) = said else { return shown(maintenance).await };
    let disown = Act { action: Action::Disown, by: by.to_owned(), why: why.to_owned(), now, fence: None };
    disown.check().map_err(|forbidden| invalid(&forbidden.to_string()))?;
    let standing = maintenance.head().await?.standing;
    let place = maintenance.place().await?;
    let word = match said {
        Said::Moved => "moved here",
        Said::Copy => "a copy",
        Said::WillMove => "will be moved",
    };
    let text = format!("{word}, said {by}: {why}");
    let is_displaced = standing.stage == Stage::Displaced;
    if !is_displaced && standing.stage != Stage::Open {
        return Err(StoreError::new(standing.to_string()).of_kind(StoreErrorKind::Closed));
    }
    let mut done = Here::default();
    match said {
        Said::WillMove if is_displaced => {
            return Err(invalid("it is elsewhere already; say `moved` or `copy`"));
        }
        Said::WillMove => {
            let until = now.plus(ANNOUNCED);
            // Whoever announces it may be unable to read the place: the note stays as good as it was.
            let noted = place.noted.clone().unwrap_or_else(|| place.as_noted());
            let announced = Noted { moves_until_ms: Some(until.as_millis()), said: Some(text), ..noted };
            maintenance.set_place(&announced).await?;
        }
        Said::Moved if !is_displaced => {}
        Said::Moved => {
            maintenance.set_place(&Noted { said: Some(text), ..place.as_noted() }).await?;
            open(maintenance, &standing).await?;
        }
        Said::Copy => {
            let standing = if is_displaced { standing } else { displace(maintenance, &standing).await? };
            if Guard::CopyCloses.holds() {
                if let Some(outbox) = store.outbox() {
                    done.rows = outbox.disown(&text, now).await?;
                }
                done.operations = close(store, &disown).await?;
            }
            maintenance.set_place(&Noted { said: Some(text), ..place.as_noted() }).await?;
            open(maintenance, &standing).await?;
        }
    }
    Ok(Here { operations: done.operations, rows: done.rows, ..shown(maintenance).await? })
}

/// Displaces the store by a person's word: no machine can detect some copies, such as a clone of a disk or a base
/// backup.
async fn displace(maintenance: &dyn Maintenance, standing: &Standing) -> Result<Standing, StoreError> {
    let displaced = Standing::displaced("a person says that it is a copy".to_owned());
    moved(&maintenance.stand(standing, &displaced).await?, &displaced)?;
    Ok(displaced)
}

async fn open(maintenance: &dyn Maintenance, standing: &Standing) -> Result<(), StoreError> {
    let opened = Standing::default();
    moved(&maintenance.stand(standing, &opened).await?, &opened)
}

fn moved(there: &Standing, to: &Standing) -> Result<(), StoreError> {
    if there == to {
        return Ok(());
    }
    Err(StoreError::new("another process changed the store's state meanwhile; show it again")
        .of_kind(StoreErrorKind::Locked))
}

/// Leaves everything that is open to the original, and gives how many operations that were. Nothing is added meanwhile:
/// a store that is displaced takes no claim.
async fn close(store: &dyn Store, disown: &Act) -> Result<u64, StoreError> {
    let phases = vec![Phase::InProgress, Phase::Scheduled, Phase::Dead, Phase::Resolved];
    let filter = Filter { phases, ..Filter::default() };
    let (mut closed, mut after) = (0, None);
    loop {
        let page = store.list(&filter, after.as_deref(), PAGE).await?;
        let ids: Vec<OperationId> = page.rows.into_iter().map(|summary| summary.id).collect();
        for ids in ids.chunks(AT_ONCE) {
            let acts = ids.iter().map(|id| store.act(id, disown.clone())).collect();
            for acted in super::copying::all_of(acts).await {
                match acted? {
                    Ok(_) => closed += 1,
                    // It ended meanwhile, and stays as it is.
                    Err(Forbidden::NotOpen | Forbidden::Absent) => {}
                    Err(forbidden) => return Err(invalid(&forbidden.to_string())),
                }
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(closed);
        }
    }
}

async fn shown(maintenance: &dyn Maintenance) -> Result<Here, StoreError> {
    let (place, standing) = (maintenance.place().await?, maintenance.head().await?.standing);
    let noted = place.noted.as_ref();
    Ok(Here {
        displaced: Some(standing.other).filter(|_| standing.stage == Stage::Displaced),
        noted: noted.map(|noted| noted.facts.to_string()),
        found: place.found.to_string(),
        moves_until: noted.and_then(|noted| noted.moves_until_ms).map(Timestamp::from_millis),
        ..Here::default()
    })
}

fn invalid(problem: &str) -> StoreError {
    StoreError::new(problem).of_kind(StoreErrorKind::Invalid)
}

/// Time for which an announced move is waited for: a night's maintenance, and not the next restore of a backup.
const ANNOUNCED: Duration = Duration::from_secs(24 * 3_600);

const PAGE: usize = 500;

/// Their commits are shared.
const AT_ONCE: usize = 64;
