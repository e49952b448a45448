//! Statements, prepared once, and their rows: [`Reader`] reads the columns.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};

use steadfast_core::internal::store::{RowReader, damaged};
use steadfast_core::store::StoreError;

use super::failure::ErrorContext;

/// Reader of one column after the other.
pub(super) struct Reader<'a, 'b> {
    row: &'a Row<'b>,
    at: usize,
}

impl<'a, 'b> Reader<'a, 'b> {
    pub(super) fn of(row: &'a Row<'b>) -> Reader<'a, 'b> {
        Reader { row, at: 0 }
    }

    fn next(&mut self) -> Result<ValueRef<'a>, StoreError> {
        self.at += 1;
        self.row.get_ref(self.at - 1).while_doing("read a column")
    }
}

impl<'a> RowReader<'a> for Reader<'a, '_> {
    fn int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            _ => Err(damaged("no number")),
        }
    }

    fn text(&mut self) -> Result<Option<&'a str>, StoreError> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map(Some).map_err(|_| damaged("a text that is not UTF-8"))
            }
            _ => Err(damaged("no text")),
        }
    }

    fn blob(&mut self) -> Result<Option<&'a [u8]>, StoreError> {
        match self.next()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Integer(_) | ValueRef::Real(_) => Err(damaged("no bytes")),
        }
    }

    /// Reads a text that may not be UTF-8. SQLite stores any bytes that a program wrote as text: that is a
    /// problem of one row, and no reason to read none of the rows.
    fn text_of_others(&mut self, problem: &mut Option<String>) -> Result<Option<String>, StoreError> {
        let Some(bytes) = self.blob()? else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, Cow::Owned(_)) && problem.is_none() {
            let name = self.row.as_ref().column_name(self.at - 1).while_doing("read a column's name")?;
            *problem = Some(format!("{name}: it is not UTF-8"));
        }
        Ok(Some(text.into_owned()))
    }
}

/// Returns the results of `read` for all rows of a statement.
pub(super) fn all<T>(
    connection: &Connection,
    doing: &str,
    (sql, values): (&str, impl Params),
    mut read: impl FnMut(&mut Reader<'_, '_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    let mut rows = statement.query(values).while_doing(doing)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().while_doing(doing)? {
        all.push(read(&mut Reader::of(row))?);
    }
    Ok(all)
}

/// Returns the result of `read` for the first row; `None` if there is no row.
pub(super) fn first<T>(
    connection: &Connection,
    doing: &str,
    (sql, values): (&str, impl Params),
    read: impl FnOnce(&mut Reader<'_, '_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).while_doing(doing)?;
    let mut rows = statement.query(values).while_doing(doing)?;
    rows.next().while_doing(doing)?.map(|row| read(&mut Reader::of(row))).transpose()
}

/// Runs a statement, and returns how many rows it changed.
pub(super) fn change(
    connection: &Connection,
    doing: &str,
    (sql, values): (&str, impl Params),
) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).while_doing(doing)
}
