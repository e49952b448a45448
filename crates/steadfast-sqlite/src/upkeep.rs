//! [`Sealing`] and [`Maintenance`]: an operator's commands for the whole file.

use async_trait::async_trait;

use steadfast_core::internal::store::{Sealed, seal_rows};
use steadfast_core::store::StoreError;
use steadfast_core::store::maintenance::{Head, Maintenance, Noted, Place, Restore, Standing};
use steadfast_core::store::sealing::{Reseal, ResealedBatch, Sealing};

use super::lane::{Lane, OnDrop};
use super::prepared::Prepared;
use super::{Sqlite, copying, facts, read, reseal, sealed, wipe};

#[async_trait]
impl Sealing for Sqlite {
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        self.place.look(&self.path)?;
        let (reseal, key) = (reseal.clone(), self.seals.needed()?);
        let dry_run = reseal.dry_run;
        let seals = self.seals.clone();
        let work = move |connection: &_| {
            sealed::refresh_seals(connection, &seals)?;
            reseal::find(connection, &reseal, &key)
        };
        let found = self.reader().run(OnDrop::Skip, work).await?;
        let (mut batch, rows) = seal_rows(found, &self.seals);
        if dry_run || rows.is_empty() {
            return Ok(batch);
        }
        let (seals, count) = (self.seals.clone(), rows.len() as u64);
        let work = move |connection: &Prepared<'_>, rows: &Vec<_>| reseal::write(connection, rows, &seals);
        let (_, written) = self.writer.run_on(OnDrop::Skip, rows, work).await?;
        (batch.resealed, batch.changed) = (written, count - written);
        Ok(batch)
    }

    async fn wipe(&self) -> Result<(), StoreError> {
        self.place.look(&self.path)?;
        let connection = wipe::wiper(&self.path, self.settings)?;
        let lane = Lane::start("steadfast-wipe", connection, (1, 1), read::answer)?;
        let wiped = lane.run(OnDrop::Finish, wipe::wipe).await;
        lane.close().await;
        wiped
    }

    async fn note_sealed(&self) -> Result<bool, StoreError> {
        self.place.look(&self.path)?;
        let seals = self.seals.clone();
        self.writer.run(OnDrop::Skip, move |connection| sealed::note(connection, &seals)).await
    }
}

#[async_trait]
impl Maintenance for Sqlite {
    async fn head(&self) -> Result<Head, StoreError> {
        self.reader().run(OnDrop::Skip, copying::head).await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        self.place.look(&self.path)?;
        let (from, to) = (from.clone(), to.clone());
        let work = move |connection: &_| copying::stand(connection, &from, &to);
        self.writer.run(OnDrop::Finish, work).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        self.place.look(&self.path)?;
        let restore = Sealed::of(restore, &self.seals)?;
        let seals = self.seals.clone();
        let work =
            move |connection: &Prepared<'_>, restore: &_| copying::restore(connection, restore, &seals);
        self.writer.run_on(OnDrop::Skip, restore, work).await.map(|_| ())
    }

    async fn place(&self) -> Result<Place, StoreError> {
        let path = self.path.clone();
        self.reader().run(OnDrop::Skip, move |connection| facts::place(connection, &path)).await
    }

    async fn set_place(&self, noted: &Noted) -> Result<(), StoreError> {
        self.place.look(&self.path)?;
        let noted = noted.clone();
        self.writer.run(OnDrop::Finish, move |connection| facts::write(connection, &noted)).await
    }
}
