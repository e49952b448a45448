//! Records that come from another store, or go to one: see [`copy`](crate::store::copy()).

use async_trait::async_trait;

use super::{Inner, Memory, Row, full};
use crate::operation::OperationId;
use crate::store::maintenance::{self, AUDIT_MOVED, Head, Maintenance, Restore, Standing};
use crate::store::{StoreError, StoreErrorKind};

#[async_trait]
impl Maintenance for Memory {
    async fn head(&self) -> Result<Head, StoreError> {
        Ok(self.inner.lock().head())
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        Ok(self.inner.lock().stand(from, to))
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        self.inner.lock().restore(restore, self.records_max)
    }
}

impl Inner {
    fn head(&self) -> Head {
        let (standing, accounts) = (self.standing.clone(), self.accounts.clone());
        Head { standing, notes: self.notes, audit: self.audit.len() as u64, accounts }
    }

    fn stand(&mut self, from: &Standing, to: &Standing) -> Standing {
        if self.standing == *from {
            self.standing = to.clone();
        }
        self.standing.clone()
    }

    pub(super) fn register(
        &mut self,
        account: &str,
        terms: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.standing.check_new()?;
        Ok(match terms {
            Some(terms) => {
                let before = self.accounts.get(account).cloned();
                self.accounts.entry(account.to_owned()).or_insert_with(|| terms.to_owned());
                before
            }
            None => self.accounts.remove(account),
        })
    }

    /// Restores the rows; steps that can fail come first, so that nothing is written by halves.
    fn restore(&mut self, restore: Restore, records_max: usize) -> Result<(), StoreError> {
        let Restore { copy, rows, gone, audit_after, audit, notes, accounts } = restore;
        self.standing.check_restore(&copy)?;
        if !audit.is_empty() && audit_after != self.audit.len() as u64 {
            return Err(StoreError::new(AUDIT_MOVED).of_kind(StoreErrorKind::Locked));
        }
        let is_new = |row: &&maintenance::Row| !self.rows.contains_key(&row.record.id);
        if self.rows.len() + rows.iter().filter(is_new).count() > records_max {
            return Err(full(records_max));
        }
        for id in &gone {
            self.forget(id);
        }
        for row in rows {
            self.restore_row(row)?;
        }
        for entry in audit {
            self.log(entry);
        }
        if let Some(notes) = notes {
            let purged = notes.purged.max(self.notes.purged);
            self.notes = notes;
            self.notes.purged = purged;
        }
        if let Some(accounts) = accounts {
            self.accounts = accounts;
        }
        Ok(())
    }

    fn restore_row(&mut self, row: maintenance::Row) -> Result<(), StoreError> {
        let maintenance::Row { record, evidence } = row;
        let id = record.id.clone();
        let is_same_life = |held: &Row| held.record.first_fence == record.first_fence;
        if !self.rows.get(&id).is_some_and(|held| is_same_life(held)) {
            self.forget(&id);
        }
        self.put(record)?;
        if let Some(row) = self.rows.get_mut(&id) {
            row.evidence = evidence;
        }
        Ok(())
    }

    /// Removes a record as if it had never been there.
    fn forget(&mut self, id: &OperationId) {
        let purged = self.notes.purged;
        self.remove(id);
        self.notes.purged = purged;
    }
}
