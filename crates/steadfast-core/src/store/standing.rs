//! [`Standing`]: the state of a store that is in use, or whose records are on their way to another one.
//!
//! Two stores with the same records would each send what is due. So a copy closes its source, and its target opens
//! when all is there: at no time are both open. The standing is in the store and not in the process that copies. So
//! it outlasts a crash, and holds for every process.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::operation::record::Action;
use crate::store::{StoreError, StoreErrorKind};

/// State of a store as a whole: open, source or target of a copy, or displaced. [`store::copy`](super::copy()) moves
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Stage of that state.
    pub stage: Stage,
    /// The copy that it is, or was last, part of; empty if none. Source and target of a copy have the same.
    pub copy: String,
    /// Place of the other store of that copy, for people; empty if there was none. For a store that is displaced it is
    /// the difference of its place.
    pub other: String,
}

/// Stage of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The store is in use, or free to be.
    #[default]
    Open,
    /// Records are being copied into it, and not all are there. Nothing but the copy writes.
    Arriving,
    /// Its records are being copied. Nothing new begins; the holder of an operation may still settle it.
    Leaving,
    /// Its records are in the other store by now, or as good as. Nothing is written.
    Moved,
    /// The store was opened at another [place](super::place) than its records are from. Nothing new begins until a
    /// person says whether it was moved or is a copy; the holder of an operation may still settle it.
    Displaced,
}

impl Standing {
    /// Admits a claim, take, action or purge, in the transaction of its write.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] unless the store is open; [`StoreErrorKind::Displaced`] where it was opened elsewhere.
    pub fn check_new(&self) -> Result<(), StoreError> {
        let is_open = self.stage == Stage::Open || Guard::ClosedStore.is_out();
        if is_open { Ok(()) } else { Err(self.closed()) }
    }

    /// Admits a holder's write to its operation, in the transaction of that write.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] unless the store is open, or its holders may still settle.
    pub fn check_held(&self) -> Result<(), StoreError> {
        if matches!(self.stage, Stage::Leaving | Stage::Displaced) { Ok(()) } else { self.check_new() }
    }

    /// Admits an operator's action, in the transaction of its write. An operation is left to the original where the
    /// store is displaced, and nowhere else.
    ///
    /// # Errors
    ///
    /// As [`check_new`](Standing::check_new).
    pub fn check_act(&self, action: &Action) -> Result<(), StoreError> {
        match (action, self.stage) {
            (Action::Disown, Stage::Displaced) => Ok(()),
            (Action::Disown, Stage::Open) => {
                let problem =
                    "an operation is left to the original only in a store that a person has called a copy";
                Err(StoreError::new(problem).of_kind(StoreErrorKind::Invalid))
            }
            _ => self.check_new(),
        }
    }

    /// Admits the answer that there is no record. Its records may have gone on in another store.
    ///
    /// # Errors
    ///
    /// As [`check_new`](Standing::check_new).
    pub fn check_absent(&self) -> Result<(), StoreError> {
        let is_elsewhere = matches!(self.stage, Stage::Moved | Stage::Displaced);
        if is_elsewhere && Guard::AbsentElsewhere.holds() { Err(self.closed()) } else { Ok(()) }
    }

    /// Admits a [`Maintenance::restore`](super::maintenance::Maintenance::restore), in the transaction of its write.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Closed`] unless records are being copied into the store by this `copy`: the rows of another
    /// one, which was given up meanwhile, would be due in two stores.
    pub fn check_restore(&self, copy: &str) -> Result<(), StoreError> {
        if self.stage == Stage::Arriving && self.copy == copy {
            return Ok(());
        }
        let problem = "records are copied only into a store that is set aside for that, and for that copy";
        Err(StoreError::new(problem).of_kind(StoreErrorKind::Closed))
    }

    /// Encodes the state as one line of text, for a store's column.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if it cannot be written.
    pub fn to_text(&self) -> Result<String, StoreError> {
        serde_json::to_string(self)
            .map_err(|error| StoreError::with_source("cannot serialize the copy state", error))
    }

    /// Decodes the text of [`to_text`](Standing::to_text).
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Newer`] for a text that this release does not know: it then writes nothing.
    pub fn from_text(text: &str) -> Result<Standing, StoreError> {
        serde_json::from_str(text).map_err(|error| {
            StoreError::with_source("this release cannot read the copy state", error)
                .of_kind(StoreErrorKind::Newer)
        })
    }

    fn closed(&self) -> StoreError {
        let is_displaced = self.stage == Stage::Displaced;
        let kind = if is_displaced { StoreErrorKind::Displaced } else { StoreErrorKind::Closed };
        StoreError::new(self.to_string()).of_kind(kind)
    }

    /// Returns the state of a store that was opened elsewhere, for this reason.
    pub fn displaced(why: String) -> Standing {
        Standing { stage: Stage::Displaced, copy: String::new(), other: why }
    }
}

impl fmt::Display for Standing {
    /// Writes the answer to a process that would use the store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = &self.other;
        match self.stage {
            Stage::Open => f.write_str("the store is open"),
            Stage::Arriving => {
                write!(f, "not all records of {other} are in this store yet; `steadfast copy` completes it")
            }
            Stage::Leaving => write!(
                f,
                "the store is closed while its records are copied to {other}; `steadfast copy` completes it"
            ),
            Stage::Moved => write!(f, "the store's records were copied to {other}; use that store"),
            Stage::Displaced => write!(
                f,
                "the store is not where its records are from: {other}. Nothing is sent until you say what it is: if it \
                 was moved here and the original is gone, `steadfast here --moved`; if the original may still be used, \
                 `steadfast here --copy`"
            ),
        }
    }
}
