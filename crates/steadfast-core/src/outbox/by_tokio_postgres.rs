//! tokio-postgres.

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Database, Value};
use crate::BoxFuture;
use crate::error::BoxError;

impl super::Transaction for Transaction<'_> {
    const DATABASE: Database = Database::Postgres;

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let bytes: Vec<Option<&[u8]>> = values.iter().map(bytes).collect();
            let given: Vec<(&(dyn ToSql + Sync), Type)> = values
                .iter()
                .zip(&bytes)
                .map(|(value, bytes)| match value {
                    Value::Integer(value) => (value as _, Type::INT8),
                    Value::Text(value) => (value as _, Type::TEXT),
                    Value::Bytes(_) => (bytes as _, Type::BYTEA),
                })
                .collect();
            // Unnamed, so that it also goes through a pooler.
            self.query_typed(sql, &given).await?;
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
