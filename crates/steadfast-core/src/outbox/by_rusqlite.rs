//! rusqlite: it blocks, so that what it is asked is done when it is asked.

use std::future::ready;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Savepoint, ToSql, Transaction, params_from_iter};

use super::{Database, Value};
use crate::BoxFuture;
use crate::error::BoxError;

impl super::Transaction for Connection {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(ready(execute(self, sql, values)))
    }
}

impl super::Transaction for Transaction<'_> {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(ready(execute(self, sql, values)))
    }
}

impl super::Transaction for Savepoint<'_> {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(ready(execute(self, sql, values)))
    }
}

#[allow(missing_docs, reason = "for the crates of this workspace alone")]
pub fn execute(connection: &Connection, sql: &str, values: &[Value]) -> Result<(), BoxError> {
    let mut prepared = connection.prepare_cached(sql)?;
    prepared.execute(params_from_iter(values))?;
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Integer(value) => value.to_sql(),
            Value::Text(value) => value.to_sql(),
            Value::Bytes(value) => match value {
                Some(bytes) => bytes[..].to_sql(),
                None => None::<i64>.to_sql(),
            },
        }
    }
}
