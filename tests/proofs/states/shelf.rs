//! The store of the search: one record at most, and nothing but the crate's own pure functions to move it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use steadfast::AttemptReport;
use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    self, Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Notes, Page, Record, Summary,
    Takeover, Tally, Transition,
};
use steadfast::store::{Store, StoreError, StoreErrorKind};

use crate::states::digest::{Believed, Get, Question};
use crate::states::host::{Heard, Tape};

/// All that is on file.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    pub record: Option<Arc<Record>>,
    pub notes: Notes,
    /// The trouble that the next write meets.
    pub trouble: Option<Trouble>,
    /// A guard that is out, to see the search miss it.
    pub without: Option<Guard>,
}

/// A write that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Nothing is written, and the store says so.
    Fails,
    /// It is written, and the writer does not hear of it.
    AckLost,
}

/// A rule of the store's that a test takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A write names the fence that it holds.
    Fence,
    /// Fences go on after a purge.
    FenceAfterPurge,
    /// The effect of what a dead holder may have sent is unknown.
    UnknownAfterLapse,
    /// A redrive by force is one more send.
    OneMoreSend,
}

/// An answer of the store.
#[derive(Clone, Debug)]
pub enum Stored {
    Claimed(Result<Claimed, Trouble>),
    Moved(Result<Result<Record, Declined>, Trouble>),
    Taken(Vec<Record>),
    Got(Option<Record>),
    Believed(Timestamp),
}

impl Stored {
    /// The record as its reader holds it from here on.
    pub fn held(&self) -> Option<&Record> {
        match self {
            Stored::Claimed(Ok(
                Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record),
            )) => Some(record),
            Stored::Moved(Ok(Ok(record))) => Some(record),
            Stored::Taken(records) => records.first(),
            _ => None,
        }
    }
}

impl Shelf {
    fn put(&mut self, record: Record) {
        self.record = Some(Arc::new(record));
    }

    fn claim(&mut self, claim: Claim) -> Result<Claimed, Trouble> {
        let trouble = self.trouble.take();
        if trouble == Some(Trouble::Fails) {
            return Err(Trouble::Fails);
        }
        self.notes.saw(claim.now);
        let purged = if self.without == Some(Guard::FenceAfterPurge) { 0 } else { self.notes.purged };
        let notes = Notes { purged, ..self.notes };
        let (write, mut claimed) = record::claim(self.record.as_deref(), claim, &notes);
        if let Some(record) = write {
            let record = self.bent(record);
            if let Claimed::Fresh(held) | Claimed::TakenOver(held) | Claimed::Freed(held) = &mut claimed {
                *held = record.clone();
            }
            self.put(record);
        }
        trouble.map_or(Ok(claimed), Err)
    }

    fn transition(&mut self, mut transition: Transition) -> Result<Result<Record, Declined>, Trouble> {
        let trouble = self.trouble.take();
        if trouble == Some(Trouble::Fails) {
            return Err(Trouble::Fails);
        }
        let Some(record) = &self.record else {
            return trouble.map_or(Ok(Err(Declined::Absent)), Err);
        };
        if self.without == Some(Guard::Fence) {
            transition.fence = record.fence;
        }
        let moved = record.apply(transition);
        if let Ok(record) = &moved {
            self.put(record.clone());
        }
        trouble.map_or(Ok(moved), Err)
    }

    /// The record that is taken. The caller puts it back.
    pub fn take(&mut self, take: &Takeover) -> Option<Record> {
        self.notes.saw(take.now);
        self.record.as_deref()?.take(take).map(|record| self.bent(record))
    }

    pub fn purge(&mut self, now: Timestamp) -> usize {
        self.notes.saw(now);
        match &self.record {
            Some(record) if record.has_expired(self.notes.now(now)) => {
                self.notes.purged = self.notes.purged.max(record.fence);
                self.record = None;
                1
            }
            _ => 0,
        }
    }

    /// The record that was taken, with a guard out.
    fn bent(&self, mut record: Record) -> Record {
        if self.without == Some(Guard::UnknownAfterLapse) {
            (record.effect, record.unknown_since) = (steadfast::Effect::None, None);
        }
        record
    }
}

/// The shelf as a store, with what it answered before answered again.
pub struct TapeStore(pub Arc<Tape>);

impl TapeStore {
    /// The answer that was given before to the same question, or the one that is given now.
    fn tell<Q: Question>(&self, question: Q, now: impl FnOnce(&mut Shelf, Q) -> Stored) -> Arc<Stored> {
        let asked = question.digest();
        let mut inner = self.0.0.lock();
        if let Some((before, stored)) = inner.before.pop_front() {
            assert_eq!(before, asked, "a host that hears the same asks the same");
            return stored;
        }
        let stored = Arc::new(now(&mut inner.shelf, question));
        inner.heard.push(Heard::Store { asked, stored: stored.clone() });
        stored
    }
}

fn failed(trouble: Trouble) -> StoreError {
    let kind = match trouble {
        Trouble::Fails => StoreErrorKind::Locked,
        Trouble::AckLost => StoreErrorKind::Other,
    };
    StoreError::new("the store is in trouble").of_kind(kind)
}

impl fmt::Debug for TapeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TapeStore")
    }
}

#[async_trait]
impl Store for TapeStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        match &*self.tell(claim, |shelf, claim| Stored::Claimed(shelf.claim(claim))) {
            Stored::Claimed(claimed) => claimed.clone().map_err(failed),
            other => panic!("a host that hears the same asks the same: {other:?}"),
        }
    }

    async fn transition(
        &self,
        _: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        match &*self.tell(transition, |shelf, moved| Stored::Moved(shelf.transition(moved))) {
            Stored::Moved(moved) => moved.clone().map_err(failed),
            other => panic!("a host that hears the same asks the same: {other:?}"),
        }
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let taken = self.tell(take, |shelf, take| {
            let taken = shelf.take(&take);
            if let Some(record) = &taken {
                shelf.put(record.clone());
            }
            Stored::Taken(taken.into_iter().collect())
        });
        match &*taken {
            Stored::Taken(records) => Ok(records.clone()),
            other => panic!("a host that hears the same asks the same: {other:?}"),
        }
    }

    async fn act(&self, _: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        // An operator's step is whole, and never repeated.
        let mut inner = self.0.0.lock();
        let Some(record) = inner.shelf.record.clone() else { return Ok(Err(Forbidden::Absent)) };
        Ok(record.act(&act).map(|(mut record, _)| {
            if inner.shelf.without == Some(Guard::OneMoreSend) && record.resends_left > 0 {
                record.resends_left = 3;
            }
            inner.shelf.put(record.clone());
            record
        }))
    }

    async fn append_evidence(
        &self,
        _: &OperationId,
        _: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        Ok(Ok(()))
    }

    async fn evidence(&self, _: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        Ok(Vec::new())
    }

    async fn get(&self, _: &OperationId) -> Result<Option<Record>, StoreError> {
        match &*self.tell(Get, |shelf, _| Stored::Got(shelf.record.as_deref().cloned())) {
            Stored::Got(record) => Ok(record.clone()),
            other => panic!("a host that hears the same asks the same: {other:?}"),
        }
    }

    async fn list(&self, _: &Filter, _: Option<&str>, _: usize) -> Result<Page<Summary>, StoreError> {
        Err(StoreError::new("nobody lists in the search"))
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        Err(StoreError::new("nobody counts in the search"))
    }

    async fn audit(
        &self,
        _: Option<&OperationId>,
        _: Option<&str>,
        _: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        Err(StoreError::new("nobody reads the audit record in the search"))
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        match &*self.tell(Believed(now), |shelf, asked| Stored::Believed(shelf.notes.now(asked.0))) {
            Stored::Believed(believed) => Ok(*believed),
            other => panic!("a host that hears the same asks the same: {other:?}"),
        }
    }

    async fn purge(&self, now: Timestamp, _: usize) -> Result<usize, StoreError> {
        Ok(self.0.0.lock().shelf.purge(now))
    }

    async fn register(&self, _: &str, _: Option<&str>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}
