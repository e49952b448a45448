//! A [`Restore`] as it goes into columns, in whichever database.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::collections::BTreeMap;

use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Notes, Record};
use crate::store::maintenance::{Restore, Row};
use crate::store::seals::Seals;
use crate::store::stored::answer_of;
use crate::store::{StoreError, reports};

/// Its rows are sealed. It is made on the caller's task, like all that does not depend on the database.
pub struct Sealed {
    pub copy: String,
    pub rows: Vec<RestoredRow>,
    pub gone: Vec<OperationId>,
    pub audit_after: u64,
    pub audit: Vec<AuditEntry>,
    pub notes: Option<Notes>,
    pub accounts: Option<BTreeMap<String, String>>,
}

pub struct RestoredRow {
    pub record: Record,
    pub request: Vec<u8>,
    pub answer: Option<Vec<u8>>,
    pub reports: String,
}

impl Sealed {
    pub fn of(restore: Restore, seals: &Seals) -> Result<Sealed, StoreError> {
        let Restore { copy, rows, gone, audit_after, audit, notes, accounts } = restore;
        let seal = |Row { mut record, evidence }: Row| {
            let answer = answer_of(&mut record.state);
            let answer = answer.map(|answer| seals.answer(&record.id, answer)).transpose()?;
            let request = seals.request(&record.id, &record.request)?;
            Ok(RestoredRow { request, answer, reports: reports::lines(&evidence)?, record })
        };
        let rows = rows.into_iter().map(seal).collect::<Result<_, StoreError>>()?;
        Ok(Sealed { copy, rows, gone, audit_after, audit, notes, accounts })
    }
}
