//! A row of the outbox, as it is read.

use std::borrow::Cow;

use bytes::Bytes;
use rusqlite::Row as SqliteRow;
use rusqlite::types::ValueRef;

use steadfast_core::internal::store::{OutboxRow, duration, from_ms, headers, names, on_unknown, sequence};

use super::Found;
use crate::failure::damaged;

pub(super) fn read(row: &SqliteRow<'_>, body_bytes_max: usize) -> rusqlite::Result<Found> {
    let body = match row.get_ref(6)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(Bytes::copy_from_slice(bytes)),
        ValueRef::Integer(_) | ValueRef::Real(_) => return Err(damaged(6, "no body")),
    };
    let mut texts = Texts::of(row);
    let body_bytes: Option<i64> = row.get(7)?;
    if body.is_none()
        && let Some(bytes) = body_bytes
    {
        texts.problem = Some(format!("body: {bytes} bytes are over the limit of {body_bytes_max}"));
    }
    let (method, path, key) = (texts.needed(1)?, texts.needed(2)?, texts.needed(3)?);
    let told = headers(&texts.needed(4)?);
    let mut headers = texts.noted(told);
    let content_type = texts.at(5)?;
    let is_named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if let Some(content_type) = content_type.filter(|_| body.is_some() && !is_named) {
        headers.push(("content-type".to_owned(), content_type));
    }
    let told = names(texts.at(12)?.as_deref());
    let redact = texts.noted(told);
    let choice = |written: String| {
        on_unknown(&written).ok_or_else(|| damaged(10, "no such choice for an unknown outcome"))
    };
    let on_unknown = texts.at(10)?.map(choice).transpose()?;
    let (supersedes, origin) = (texts.at(13)?, texts.at(15)?);
    let sequence = sequence(texts.at(16)?, &texts.needed(17)?);
    let read = OutboxRow {
        number: row.get::<_, i64>(0)?.max(0) as u64,
        method,
        path,
        key,
        headers,
        body: body.unwrap_or_default(),
        due: row.get::<_, Option<i64>>(9)?.map(from_ms),
        on_unknown,
        keep: row.get::<_, Option<i64>>(11)?.map(duration),
        redact,
        supersedes,
        origin,
        sequence,
        enqueued_at: from_ms(row.get(14)?),
        problem: texts.problem,
    };
    Ok((read, row.get(8)?))
}

/// The texts of a row. SQLite keeps as a text whatever bytes a program gave it: one that is not UTF-8 is the row's first
/// problem, and no reason to read none of the rows.
pub(super) struct Texts<'a, 'b> {
    row: &'a SqliteRow<'b>,
    problem: Option<String>,
}

impl<'a, 'b> Texts<'a, 'b> {
    pub(super) fn of(row: &'a SqliteRow<'b>) -> Texts<'a, 'b> {
        Texts { row, problem: None }
    }

    pub(super) fn at(&mut self, column: usize) -> rusqlite::Result<Option<String>> {
        let bytes = self.row.get_ref(column)?.as_bytes_or_null().map_err(|_| damaged(column, "no text"))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, Cow::Owned(_)) {
            let name = self.row.as_ref().column_name(column)?;
            self.problem.get_or_insert_with(|| format!("{name}: it is not UTF-8"));
        }
        Ok(Some(text.into_owned()))
    }

    pub(super) fn needed(&mut self, column: usize) -> rusqlite::Result<String> {
        self.at(column)?.ok_or_else(|| damaged(column, "no text"))
    }

    /// What was read, or nothing of it and why.
    fn noted<T>(&mut self, told: Result<Vec<T>, String>) -> Vec<T> {
        told.unwrap_or_else(|told| {
            self.problem.get_or_insert(told);
            Vec::new()
        })
    }
}
