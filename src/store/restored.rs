//! A [`Restore`] as it goes into columns, in whichever database.

use std::collections::BTreeMap;

use crate::operation::OperationId;
use crate::operation::record::{AuditEntry, Notes, Record, State};
use crate::store::seals::{Part, Seals};
use crate::store::{Restore, Row, StoreError, codec, reports};

/// Its rows are sealed. It is made on the caller's task, like all that does not depend on the database.
pub(super) struct Sealed {
    pub copy: String,
    pub rows: Vec<SealedRow>,
    pub gone: Vec<OperationId>,
    pub audit_after: u64,
    pub audit: Vec<AuditEntry>,
    pub notes: Option<Notes>,
    pub accounts: Option<BTreeMap<String, String>>,
}

pub(super) struct SealedRow {
    pub record: Record,
    pub request: Vec<u8>,
    pub answer: Option<Vec<u8>>,
    pub reports: String,
}

impl Sealed {
    pub(super) fn of(restore: Restore, seals: &Seals) -> Result<Sealed, StoreError> {
        let Restore { copy, rows, gone, audit_after, audit, notes, accounts } = restore;
        let seal = |Row { record, evidence }: Row| {
            let answer = match &record.state {
                State::InProgress { .. } | State::Scheduled { .. } => None,
                State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
                State::Dead { answer, .. } => answer.as_ref(),
            };
            let seal_answer = |answer| seals.seal(Part::Answer, &record.id, codec::answer_bytes(answer)?);
            let answer = answer.map(seal_answer).transpose()?;
            let request = seals.seal(Part::Request, &record.id, codec::request_bytes(&record.request)?)?;
            Ok(SealedRow { request, answer, reports: reports::lines(&evidence)?, record })
        };
        let rows = rows.into_iter().map(seal).collect::<Result<_, StoreError>>()?;
        Ok(Sealed { copy, rows, gone, audit_after, audit, notes, accounts })
    }
}
