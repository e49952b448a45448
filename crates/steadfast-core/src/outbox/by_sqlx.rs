//! sqlx, on either database.

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Transaction};

use super::{Database, Value};
use crate::BoxFuture;
use crate::error::BoxError;

macro_rules! transactions {
    ($driver:ty, $connection:ty, $database:expr) => {
        impl super::Transaction for $connection {
            const DATABASE: Database = $database;

            fn execute<'a>(
                &'a mut self,
                sql: &'a str,
                values: &'a [Value],
            ) -> BoxFuture<'a, Result<(), BoxError>> {
                Box::pin(async move {
                    // The text is a constant of the store but for its schema's name, and the values are bound.
                    let query = sqlx::query(AssertSqlSafe(sql));
                    // On Postgres the statement has no name, so that it also goes through a pooler.
                    let mut query = query.persistent(Self::DATABASE == Database::Sqlite);
                    for value in values {
                        query = match value {
                            Value::Integer(value) => query.bind(*value),
                            Value::Text(value) => query.bind(value.as_deref()),
                            Value::Bytes(value) => query.bind(value.as_deref()),
                        };
                    }
                    query.execute(self).await?;
                    Ok(())
                })
            }
        }

        impl super::Transaction for Transaction<'_, $driver> {
            const DATABASE: Database = $database;

            fn execute<'a>(
                &'a mut self,
                sql: &'a str,
                values: &'a [Value],
            ) -> BoxFuture<'a, Result<(), BoxError>> {
                super::Transaction::execute(&mut **self, sql, values)
            }
        }

        impl super::Transaction for PoolConnection<$driver> {
            const DATABASE: Database = $database;

            fn execute<'a>(
                &'a mut self,
                sql: &'a str,
                values: &'a [Value],
            ) -> BoxFuture<'a, Result<(), BoxError>> {
                super::Transaction::execute(&mut **self, sql, values)
            }
        }
    };
}

#[cfg(feature = "sqlx-sqlite")]
transactions!(sqlx::Sqlite, sqlx::SqliteConnection, Database::Sqlite);
#[cfg(feature = "sqlx-postgres")]
transactions!(sqlx::Postgres, sqlx::PgConnection, Database::Postgres);
