//! Requests and answers as blobs beside a record without bodies, as in a file, which may be sealed: see
//! [`seals`](crate::store::seals).
//!
//! The keys belong to the one who asks and not to the records. Several stores with different keys may stand on the
//! same records, as several processes do on one file. Each write seals the row's blobs anew with the current key.
//! Sealing is done under the lock: this store is sealed in tests, where a microsecond more is of no matter.

use async_trait::async_trait;

use super::ending::{Ending, move_time};
use super::{Inner, Memory, Row};
use crate::answer::Answer;
use crate::operation::OperationId;
use crate::operation::record::{Claimed, Declined, Record, StateExt, Transition};
use crate::request::Request;
#[cfg(feature = "seal")]
use crate::store::SealKeys;
#[cfg(all(feature = "seal", any(test, feature = "testkit")))]
use crate::store::Wakes;
use crate::store::pages::start;
use crate::store::seals::{Part, Seals, is_sealed, needs_a_key};
use crate::store::stored::{answer_of, empty_answer, empty_request, fill};
use crate::store::{Head, Reseal, ResealedBatch, Restore, Standing, StoreError, Upkeep};

impl Memory {
    /// Keeps requests and answers sealed from now on, as a file would. That hides nothing from anybody who can read this
    /// process's memory, where the keys are too: it is for tests of a service that seals.
    ///
    /// Default: not sealed.
    #[cfg(feature = "seal")]
    #[must_use]
    pub fn seal(mut self, keys: SealKeys) -> Memory {
        self.seals = Seals::with(keys);
        // What was never in the clear stays so.
        self.inner.lock().note_sealed();
        self
    }

    /// Another store on the same records, with other keys or none: what another process has on a file.
    #[cfg(all(feature = "seal", any(test, feature = "testkit")))]
    #[must_use]
    pub fn beside(&self, keys: Option<SealKeys>) -> Memory {
        let seals = keys.map_or_else(Seals::default, Seals::with);
        Memory {
            inner: self.inner.clone(),
            records_max: self.records_max,
            seals,
            wakes: Wakes::new(),
            tenants: crate::store::tenants::Tenants::default(),
        }
    }

    /// Puts bytes in place of a request.
    #[cfg(all(feature = "seal", feature = "testkit"))]
    pub(crate) fn forge(&self, id: &OperationId, request: Vec<u8>) {
        if let Some(row) = self.inner.lock().rows.get_mut(id) {
            row.blobs.request = request.into();
        }
    }
}

#[async_trait]
impl Upkeep for Memory {
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        self.inner.lock().reseal(reseal, &self.seals)
    }

    async fn wipe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn head(&self) -> Result<Head, StoreError> {
        Ok(self.inner.lock().head())
    }

    async fn note_sealed(&self) -> Result<bool, StoreError> {
        Ok(self.inner.lock().note_sealed())
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        Ok(self.inner.lock().stand(from, to))
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        self.inner.lock().restore(restore, self.records_max, &self.seals)
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        self.inner.lock().register(account, terms)
    }
}

/// The request and the answer of a row, as they are in a file: one piece of memory each. As headers and bodies they are
/// dozens, and an answer as it was received keeps its connection's whole buffer, of 8 KiB or more. With them a keyed POST
/// over loopback makes 1.2 times as many calls a second (`benches/loopback.rs`, 16 tasks).
pub(super) struct Blobs {
    request: Box<[u8]>,
    answer: Option<Box<[u8]>>,
}

impl Blobs {
    /// Takes request and answer out of a record.
    pub(super) fn of(record: &mut Record, seals: &Seals) -> Result<Blobs, StoreError> {
        let answer = answer_of(&mut record.state).map(|answer| answer_blob(answer, &record.id, seals));
        let blobs =
            Blobs { answer: answer.transpose()?, ..Blobs::of_request(&record.request, &record.id, seals)? };
        record.request = empty_request();
        if let Some(answer) = answer_of(&mut record.state) {
            *answer = empty_answer(answer.status);
        }
        Ok(blobs)
    }

    /// Of an operation that has no answer yet.
    pub(super) fn of_request(
        request: &Request,
        id: &OperationId,
        seals: &Seals,
    ) -> Result<Blobs, StoreError> {
        Ok(Blobs { request: seals.request(id, request)?.into(), answer: None })
    }
}

/// An answer, as it is kept.
pub(super) fn answer_blob(answer: &Answer, id: &OperationId, seals: &Seals) -> Result<Box<[u8]>, StoreError> {
    Ok(seals.answer(id, answer)?.into())
}

/// A copy of a record without bodies, of one that has no answer.
pub(super) fn hollow(record: &mut Record) -> Record {
    let request = std::mem::replace(&mut record.request, empty_request());
    let hollow = record.clone();
    record.request = request;
    hollow
}

impl Row {
    /// The record, filled from its blobs.
    pub(super) fn whole(&self, seals: &Seals) -> Result<Record, StoreError> {
        self.fill(self.record.clone(), seals)
    }

    /// What became of the row's record, with its request and, if it still has one, its answer.
    pub(super) fn fill(&self, record: Record, seals: &Seals) -> Result<Record, StoreError> {
        let Blobs { request, answer, .. } = &self.blobs;
        fill(record, (Some(request.to_vec()), answer.as_deref().map(<[u8]>::to_vec)), seals)
    }

    /// What became of the row's record, with its request. Its answer, if it has one, is new and whole.
    pub(super) fn fill_request(&self, record: Record, seals: &Seals) -> Result<Record, StoreError> {
        fill(record, (Some(self.blobs.request.to_vec()), None), seals)
    }

    /// Carries a transition out in place, and gives the record as it is then, whole.
    pub(super) fn transition(
        &mut self,
        held: &Record,
        mut transition: Transition,
        (blob, seals): (Option<Box<[u8]>>, &Seals),
        ending: &mut Ending,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let brought = transition.to.answer_mut().map(|answer| {
            let empty = empty_answer(answer.status);
            std::mem::replace(answer, empty)
        });
        let request = self.blobs.resealed_request(&held.id, seals)?;
        let request_of_held = (held.fence == self.record.fence).then(|| held.request.clone());
        if let Err(declined) = self.apply(transition, ending) {
            return Ok(Err(declined));
        }
        if let Some(request) = request {
            self.blobs.request = request;
        }
        self.blobs.answer = blob;
        let mut record = self.record.clone();
        if let Some((answer, brought)) = answer_of(&mut record.state).zip(brought) {
            *answer = brought;
        }
        match request_of_held {
            Some(request) => record.request = request,
            None => record = self.fill_request(record, seals)?,
        }
        Ok(Ok(record))
    }

    /// Replaces the record by what settles it, whose answer is whole. The request stays.
    pub(super) fn settle(
        &mut self,
        mut record: Record,
        seals: &Seals,
        ending: &mut Ending,
    ) -> Result<(), StoreError> {
        if let Some(answer) = answer_of(&mut record.state) {
            self.blobs.answer = Some(answer_blob(answer, &record.id, seals)?);
            *answer = empty_answer(answer.status);
        }
        let before = self.ends();
        self.record = record;
        move_time(ending, (self.number, self.record.id.scope.account_path()), before, self.ends());
        Ok(())
    }

    /// Whether the row can be read.
    pub(super) fn check(&self, seals: &Seals) -> Result<(), StoreError> {
        let Blobs { request, answer, .. } = &self.blobs;
        seals.check(request)?;
        answer.as_ref().map_or(Ok(()), |answer| seals.check(answer))
    }

    /// Whether both blobs are sealed with the current key.
    fn is_current(&self, seals: &Seals) -> bool {
        let Blobs { request, answer, .. } = &self.blobs;
        [Some(request), answer.as_ref()].into_iter().flatten().all(|blob| seals.is_current(blob))
    }
}

impl Blobs {
    /// Whether neither is in the clear.
    fn are_sealed(&self) -> bool {
        [Some(&self.request), self.answer.as_ref()].into_iter().flatten().all(|blob| is_sealed(blob))
    }

    /// The request, sealed as it is to be now, if it is not.
    fn resealed_request(&self, id: &OperationId, seals: &Seals) -> Result<Option<Box<[u8]>>, StoreError> {
        if seals.is_as_written_now(&self.request) {
            return Ok(None);
        }
        let plain = seals.unseal(Part::Request, id, self.request.to_vec())?;
        Ok(Some(seals.seal(Part::Request, id, plain)?.into()))
    }
}

impl Inner {
    /// See [`Upkeep::note_sealed`](crate::store::Upkeep::note_sealed).
    fn note_sealed(&mut self) -> bool {
        self.sealed |= self.rows.values().all(|row| row.blobs.are_sealed());
        self.sealed
    }

    /// Refuses a process without a key, and has one with a key read nothing in the clear, where the store is sealed.
    pub(super) fn check_seals(&self, seals: &Seals) -> Result<(), StoreError> {
        if !self.sealed {
            return Ok(());
        }
        seals.stand_alone();
        if seals.current().is_none() { Err(needs_a_key()) } else { Ok(()) }
    }

    /// Fills what a claim found from the row's blobs. In place: a record is large.
    pub(super) fn fill_found(&self, claimed: &mut Claimed, seals: &Seals) -> Result<(), StoreError> {
        if let Claimed::TakenOver(record) | Claimed::Freed(record) | Claimed::Settled(record) = claimed
            && let Some(row) = self.rows.get(&record.id)
        {
            *record = row.fill(record.clone(), seals)?;
        }
        Ok(())
    }

    /// See [`Upkeep::reseal`](crate::store::Upkeep::reseal).
    pub(super) fn reseal(&mut self, reseal: &Reseal, seals: &Seals) -> Result<ResealedBatch, StoreError> {
        seals.needed()?;
        let mut batch = ResealedBatch::default();
        let from = start(reseal.after.as_deref())?;
        let old = |row: &Row| !row.is_current(seals);
        let found: Vec<_> = self
            .order
            .range(from..)
            .filter(|(_, id)| self.rows.get(*id).is_some_and(|row| old(row)))
            .take(reseal.rows_max.max(1))
            .map(|(number, id)| (*number, id.clone()))
            .collect();
        for (number, id) in found {
            let Some(row) = self.rows.get(&id) else { continue };
            batch.found += 1;
            batch.next = Some((number + 1).to_string());
            match row.whole(seals) {
                Err(why) => batch.unreadable.push((row.record.id.clone(), why)),
                Ok(_) if reseal.dry_run => {}
                Ok(record) => {
                    self.put(record, seals)?;
                    batch.resealed += 1;
                }
            }
        }
        Ok(batch)
    }
}
