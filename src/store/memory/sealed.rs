//! Rows whose requests and answers are sealed blobs beside a record without bodies, as in a file: see
//! [`seals`](crate::store::seals).
//!
//! The keys belong to the one who asks and not to the records. Several stores with different keys may stand on the
//! same records, as several processes do on one file. Each write seals the row's blobs anew with the current key.
//! Sealing is done under the lock: this store is sealed in tests, where a microsecond more is of no matter.

use async_trait::async_trait;

use super::{Inner, Memory, Row};
use crate::operation::record::{Claimed, Record};
#[cfg(feature = "seal")]
use crate::store::SealKeys;
#[cfg(all(feature = "seal", any(test, feature = "testkit")))]
use crate::store::Wakes;
use crate::store::pages::start;
use crate::store::seals::{Part, Seals};
use crate::store::stored::{answer_of, empty_answer, empty_request, fill};
use crate::store::{Head, Reseal, ResealedBatch, Restore, Standing, StoreError, Upkeep, codec};

impl Memory {
    /// Keeps requests and answers sealed from now on, as a file would. That hides nothing from anybody who can read this
    /// process's memory, where the keys are too: it is for tests of a service that seals.
    ///
    /// Default: not sealed.
    #[cfg(feature = "seal")]
    #[must_use]
    pub fn seal(mut self, keys: SealKeys) -> Memory {
        self.seals = Seals::with(keys);
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

/// The blobs of a row.
pub(super) struct Blobs {
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    /// Whether the request holds secrets, which its blob does not show.
    secrets: bool,
}

impl Blobs {
    /// Takes request and answer out of a record; nothing without a key.
    pub(super) fn of(record: &mut Record, seals: &Seals) -> Result<Option<Blobs>, StoreError> {
        if seals.current().is_none() {
            return Ok(None);
        }
        let secrets = record.holds_secrets();
        let request = codec::request_bytes(&std::mem::replace(&mut record.request, empty_request()))?;
        let request = seals.seal(Part::Request, &record.id, request)?;
        let answer = match answer_of(&mut record.state) {
            Some(answer) => {
                let empty = empty_answer(answer.status);
                let bytes = codec::answer_bytes(&std::mem::replace(answer, empty))?;
                Some(seals.seal(Part::Answer, &record.id, bytes)?)
            }
            None => None,
        };
        Ok(Some(Blobs { request, answer, secrets }))
    }
}

impl Row {
    /// The record, filled from its blobs.
    pub(super) fn whole(&self, seals: &Seals) -> Result<Record, StoreError> {
        self.fill(self.record.clone(), seals)
    }

    /// What became of the row's record, with its request and, if it still has one, its answer.
    pub(super) fn fill(&self, record: Record, seals: &Seals) -> Result<Record, StoreError> {
        let Some(Blobs { request, answer, .. }) = &self.blobs else { return Ok(record) };
        fill(record, (Some(request.clone()), answer.clone()), seals)
    }

    /// What became of the row's record, with its request. Its answer, if it has one, is new and whole.
    pub(super) fn fill_request(&self, record: Record, seals: &Seals) -> Result<Record, StoreError> {
        let Some(Blobs { request, .. }) = &self.blobs else { return Ok(record) };
        fill(record, (Some(request.clone()), None), seals)
    }

    /// Whether the row can be read.
    pub(super) fn check(&self, seals: &Seals) -> Result<(), StoreError> {
        let Some(Blobs { request, answer, .. }) = &self.blobs else { return Ok(()) };
        seals.check(request)?;
        answer.as_ref().map_or(Ok(()), |answer| seals.check(answer))
    }

    pub(super) fn holds_secrets(&self) -> bool {
        self.blobs.as_ref().map_or_else(|| self.record.holds_secrets(), |blobs| blobs.secrets)
    }

    /// Whether both blobs are sealed with the current key.
    fn is_current(&self, seals: &Seals) -> bool {
        self.blobs.as_ref().is_some_and(|Blobs { request, answer, .. }| {
            [Some(request), answer.as_ref()].into_iter().flatten().all(|blob| seals.is_current(blob))
        })
    }
}

impl Inner {
    /// Fills what a claim found from the row's blobs. In place: a record is large.
    pub(super) fn fill_found(&self, claimed: &mut Claimed, seals: &Seals) -> Result<(), StoreError> {
        if let Claimed::TakenOver(record) | Claimed::Settled(record) = claimed
            && let Some(row) = self.rows.get(&record.id)
            && row.blobs.is_some()
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
