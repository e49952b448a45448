//! Copies to and from another store: see [`copy`](crate::store::copy()).

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{Head, RestoredRow, RowReader, Sealed, Seals, Standing, to_fence};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failure::ErrorContext;
use super::prepared::Prepared;
use super::row::{self, AnswerChange};
use super::{notes, purge, rows, sealed, sequence, write};

pub(super) fn head(connection: &Connection) -> Result<Head, StoreError> {
    let doing = "read the store's notes";
    let (notes, standing) = notes::read_from_file(connection)?;
    let sql = "SELECT path, terms FROM account";
    let accounts = rows::all(connection, doing, (sql, []), |row| Ok((row.string()?, row.string()?)))?;
    Ok(Head { standing, notes, audit: entries(connection)?, accounts: accounts.into_iter().collect() })
}

pub(super) fn stand(connection: &Connection, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
    let (_, there) = notes::read_from_file(connection)?;
    if there != *from {
        return Ok(there);
    }
    notes::stand(connection, to)?;
    Ok(to.clone())
}

pub(super) fn registered(connection: &Connection, account: &str) -> Result<Option<String>, StoreError> {
    let doing = "read the terms of an account";
    let sql = "SELECT terms FROM account WHERE path = ?1";
    rows::first(connection, doing, (sql, [account]), |row| row.string())
}

/// Registers or removes the terms of an account. Of several processes at once, the first one registers.
pub(super) fn register(
    connection: &Connection,
    account: &str,
    terms: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let doing = "write the terms of an account";
    notes::check(connection, Standing::check_new)?;
    let before = registered(connection, account)?;
    match (&before, terms) {
        (None, Some(terms)) => {
            let sql = "INSERT INTO account (path, terms) VALUES (?1, ?2)";
            connection.execute(sql, [account, terms]).while_doing(doing)?;
        }
        (Some(_), None) => {
            connection.execute("DELETE FROM account WHERE path = ?1", [account]).while_doing(doing)?;
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    Ok(before)
}

pub(super) fn restore(connection: &Prepared<'_>, restore: &Sealed, seals: &Seals) -> Result<(), StoreError> {
    let Sealed { copy, rows, gone, audit_after, audit, notes, accounts } = restore;
    notes::read_from_file(connection)?.1.check_restore(copy)?;
    if !audit.is_empty() && entries(connection)? != *audit_after {
        return Err(
            StoreError::new(steadfast_core::internal::store::AUDIT_MOVED).of_kind(StoreErrorKind::Locked)
        );
    }
    for id in gone {
        if let Some((number, _)) = place(connection, id)? {
            purge::remove(connection, number)?;
        }
    }
    if !rows.is_empty() {
        sealed::note_use(connection, seals)?;
    }
    for row in rows {
        restore_row(connection, row)?;
    }
    for entry in audit {
        write::append_audit(connection, entry)?;
    }
    if let Some(notes) = notes {
        notes::write(connection, notes, true)?;
        notes::removed(connection, notes.purged)?;
    }
    match accounts {
        Some(accounts) => restore_accounts(connection, accounts),
        None => Ok(()),
    }
}

fn restore_row(connection: &Prepared<'_>, row: &RestoredRow) -> Result<(), StoreError> {
    let doing = "write a copied operation";
    let RestoredRow { record, request, answer, reports } = row;
    let held = place(connection, &record.id)?;
    if let Some((number, _)) = held {
        purge::remove(connection, number)?;
    }
    row::insert(connection, record, record.first_fence, request)?;
    let number = connection.last_insert_rowid();
    row::update(connection, number, record, AnswerChange::Set(answer.as_deref()))?;
    let is_same_life = |(_, first_fence): &(i64, i64)| *first_fence == to_fence(record.first_fence);
    let as_before = held.filter(is_same_life).map_or(number, |(number, _)| number);
    let sql = "UPDATE operation SET reports = ?2, first_scope = ?3, number = ?4 WHERE number = ?1";
    let first_scope = record.first_scope.as_ref().map(Scope::as_str);
    rows::change(connection, doing, (sql, params![number, reports, first_scope, as_before]))?;
    sequence::enter(connection, as_before, record)
}

fn restore_accounts(connection: &Connection, accounts: &BTreeMap<String, String>) -> Result<(), StoreError> {
    let doing = "write the terms of the accounts";
    connection.execute("DELETE FROM account", []).while_doing(doing)?;
    for (account, terms) in accounts {
        let sql = "INSERT INTO account (path, terms) VALUES (?1, ?2)";
        connection.execute(sql, [account, terms]).while_doing(doing)?;
    }
    Ok(())
}

/// Returns the number of a row, and the fence that its life began with.
fn place(connection: &Connection, id: &OperationId) -> Result<Option<(i64, i64)>, StoreError> {
    let doing = "look for a copied operation";
    let sql = "SELECT number, first_fence FROM operation WHERE scope = ?1 AND key = ?2";
    let name = [id.scope.as_str(), id.key.as_str()];
    rows::first(connection, doing, (sql, name), |row| Ok((row.number()?, row.number()?)))
}

/// Returns the number of entries in the audit record.
fn entries(connection: &Connection) -> Result<u64, StoreError> {
    let doing = "count the audit record";
    let sql = "SELECT count(*) FROM audit";
    Ok(rows::first(connection, doing, (sql, []), |row| row.amount())?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
