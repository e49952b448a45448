//! Parts of a [`Statement`](super::outbox::Statement) that a caller's driver sees.

use std::fmt;

use bytes::Bytes;

/// Database for whose SQL a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Database {
    /// SQLite.
    Sqlite,
    /// Postgres.
    Postgres,
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite => f.write_str("SQLite"),
            Database::Postgres => f.write_str("Postgres"),
        }
    }
}

/// A value of a statement.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A number, or none.
    Integer(Option<i64>),
    /// A text, or none.
    Text(Option<String>),
    /// Bytes, or none.
    Bytes(Option<Bytes>),
}
