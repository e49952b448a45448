//! A connection with the statements of a call, which stay prepared.
//!
//! A cache of statements hashes and compares the text of each request, and clears the statement's values when
//! it is returned. For the two statements of a call that was 4 % of its instructions (callgrind over
//! `benches/store`).

use std::cell::{OnceCell, RefCell, RefMut};
use std::ops::Deref;

use rusqlite::{Connection, Statement};

use steadfast_core::store::StoreError;

use super::failure::ErrorContext;
use super::statements::{INSERT, UPDATE_HELD};

/// A connection with its own prepared statements. They keep their last values until they get others.
pub(super) struct Prepared<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
    update_held: CachedStatement<'c>,
}

type CachedStatement<'c> = OnceCell<RefCell<Statement<'c>>>;

impl<'c> Prepared<'c> {
    pub(super) fn new(connection: &'c Connection) -> Prepared<'c> {
        Prepared { connection, insert: CachedStatement::new(), update_held: CachedStatement::new() }
    }

    /// Returns the statement [`INSERT`].
    pub(super) fn insert(&self) -> Result<RefMut<'_, Statement<'c>>, StoreError> {
        cached(&self.insert, self.connection, INSERT)
    }

    /// Returns the statement [`UPDATE_HELD`].
    pub(super) fn update_held(&self) -> Result<RefMut<'_, Statement<'c>>, StoreError> {
        cached(&self.update_held, self.connection, UPDATE_HELD)
    }
}

fn cached<'k, 'c>(
    cached: &'k CachedStatement<'c>,
    connection: &'c Connection,
    sql: &str,
) -> Result<RefMut<'k, Statement<'c>>, StoreError> {
    let statement = match cached.get() {
        Some(statement) => statement,
        None => {
            let statement = connection.prepare(sql).while_doing("prepare a write")?;
            cached.get_or_init(|| RefCell::new(statement))
        }
    };
    Ok(statement.borrow_mut())
}

impl Deref for Prepared<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}
