//! tokio-postgres.

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Database, Statement, Value};
use crate::BoxFuture;
use crate::error::BoxError;

impl super::Transaction for Transaction<'_> {
    const DATABASE: Database = Database::Postgres;

    fn execute<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let bytes: Vec<Option<&[u8]>> = statement.values.iter().map(bytes).collect();
            let values: Vec<(&(dyn ToSql + Sync), Type)> = statement
                .values
                .iter()
                .zip(&bytes)
                .map(|(value, bytes)| match value {
                    Value::Integer(value) => (value as _, Type::INT8),
                    Value::Text(value) => (value as _, Type::TEXT),
                    Value::Bytes(_) => (bytes as _, Type::BYTEA),
                })
                .collect();
            // Unnamed, so that it also goes through a pooler.
            self.query_typed(&statement.sql, &values).await?;
            Ok(())
        })
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => bytes.as_deref(),
        Value::Integer(_) | Value::Text(_) => None,
    }
}
