//! Rows of the outbox as a database has them, read once for all of them: see [`rows`](crate::store::rows). Their texts may be
//! another program's.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use bytes::Bytes;

use super::form::{headers, name_of_row, names, on_unknown, sequence, too_large};
use super::sealed::SealedRow;
use super::{Account, OutboxRow, OutboxTally, Queued, Rejected};
use crate::store::StoreError;
use crate::store::numbers::duration;
use crate::store::rows::{RowReader, damaged};

/// Texts of a row, and the first thing that is wrong with them.
struct Texts<'a, R> {
    row: &'a mut R,
    problem: Option<String>,
}

impl<'a, 'r, R: RowReader<'r>> Texts<'a, R> {
    fn of(row: &'a mut R) -> Texts<'a, R> {
        Texts { row, problem: None }
    }

    fn next(&mut self) -> Result<Option<String>, StoreError> {
        self.row.text_of_others(&mut self.problem)
    }

    fn needed(&mut self) -> Result<String, StoreError> {
        self.next()?.ok_or_else(|| damaged("no text"))
    }

    fn account(&mut self) -> Result<Account, StoreError> {
        Ok(Account { namespace: self.needed()?, vendor: self.needed()?, account: self.needed()? })
    }

    /// Returns the values that were read, or none, and notes the reason.
    fn noted<T>(&mut self, read: Result<Vec<T>, String>) -> Vec<T> {
        read.unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            Vec::new()
        })
    }
}

/// A row, and what is sealed of it. A body that is larger than `body_bytes_max` is null.
///
/// ```text
/// number, method, path, key, headers, content type, body, its bytes, sealed, due, choice for an unknown outcome, retention,
/// redacted fields, supersedes, origin, sequence, what a dead letter does to it, enqueued at
/// ```
pub fn read_outbox<'r>(
    row: &mut impl RowReader<'r>,
    body_bytes_max: usize,
) -> Result<(OutboxRow, Option<Vec<u8>>), StoreError> {
    let mut texts = Texts::of(row);
    let number = texts.row.amount()?;
    let (method, path, key) = (texts.needed()?, texts.needed()?, texts.needed()?);
    let written = headers(&texts.needed()?);
    let mut headers = texts.noted(written);
    let content_type = texts.next()?;
    let body = texts.row.blob()?.map(Bytes::copy_from_slice);
    let unread = texts.row.int()?.filter(|_| body.is_none());
    let is_named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if let Some(content_type) = content_type.filter(|_| body.is_some() && !is_named) {
        headers.push(("content-type".to_owned(), content_type));
    }
    let sealed = texts.row.blob()?.map(<[u8]>::to_vec);
    let due = texts.row.maybe_time()?;
    let choice = |written: String| {
        on_unknown(&written).ok_or_else(|| damaged("no such choice for an unknown outcome"))
    };
    let on_unknown = texts.next()?.map(choice).transpose()?;
    let keep = texts.row.int()?.map(duration);
    let written = names(texts.next()?.as_deref());
    let redact = texts.noted(written);
    let (supersedes, origin) = (texts.next()?, texts.next()?);
    let sequence = sequence(texts.next()?, &texts.needed()?);
    let enqueued_at = texts.row.time()?;
    let problem = unread.map(|bytes| too_large(bytes, body_bytes_max)).or(texts.problem);
    let body = body.unwrap_or_default();
    let row = OutboxRow {
        number,
        method,
        path,
        key,
        headers,
        body,
        due,
        on_unknown,
        keep,
        redact,
        supersedes,
        origin,
        sequence,
        enqueued_at,
        problem,
    };
    Ok((row, sealed))
}

/// Namespace, vendor, account, how many wait, since when, how many were rejected.
pub fn read_outbox_tally<'r>(row: &mut impl RowReader<'r>) -> Result<OutboxTally, StoreError> {
    let mut texts = Texts::of(row);
    let Account { namespace, vendor, account } = texts.account()?;
    let (waiting, oldest) = (texts.row.amount()?, texts.row.maybe_time()?);
    Ok(OutboxTally { namespace, vendor, account, waiting, oldest, rejected: texts.row.amount()? })
}

/// Number, namespace, vendor, account, method, key, when it was rejected, why, the sequence that it holds. Its number comes
/// first, as the place in a list.
pub fn read_rejected<'r>(row: &mut impl RowReader<'r>) -> Result<(u64, Rejected), StoreError> {
    let mut texts = Texts::of(row);
    let number = texts.row.amount()?;
    let Account { namespace, vendor, account } = texts.account()?;
    let rejected = Rejected {
        number,
        namespace,
        vendor,
        account,
        method: texts.needed()?,
        key: texts.needed()?,
        at: texts.row.time()?,
        why: texts.needed()?,
        holds: texts.next()?,
    };
    Ok((number, rejected))
}

/// Number, namespace, vendor, account, method, path, when it was written, when it is due, sequence, why it was rejected. `None`
/// where these and `key` name no operation.
pub fn read_queued<'r>(row: &mut impl RowReader<'r>, key: &str) -> Result<Option<Queued>, StoreError> {
    let mut texts = Texts::of(row);
    let (number, account) = (texts.row.amount()?, texts.account()?);
    let id = name_of_row(&account, (&texts.needed()?, &texts.needed()?), key);
    let (enqueued_at, due) = (texts.row.time()?, texts.row.maybe_time()?);
    let (sequence, rejected) = (texts.next()?, texts.next()?);
    Ok(id.map(|id| Queued { number, id, enqueued_at, due, sequence, rejected }))
}

/// Number, namespace, vendor, account, key, what is sealed.
pub fn read_sealed_row<'r>(row: &mut impl RowReader<'r>) -> Result<SealedRow, StoreError> {
    let mut texts = Texts::of(row);
    let (number, account) = (texts.row.number()?, texts.account()?);
    Ok(SealedRow { number, account, key: texts.needed()?, sealed: texts.row.bytes()? })
}
