//! sqlx on SQLite.

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, Transaction};

use super::{Database, Executing, Statement, Value};

impl super::Transaction for SqliteConnection {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, statement: &'a Statement) -> Executing<'a> {
        Box::pin(async move {
            // The text is a constant of the store, and the values are bound.
            let mut query = sqlx::query(AssertSqlSafe(&*statement.sql));
            for value in &statement.values {
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

impl super::Transaction for Transaction<'_, Sqlite> {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, statement: &'a Statement) -> Executing<'a> {
        super::Transaction::execute(&mut **self, statement)
    }
}

impl super::Transaction for PoolConnection<Sqlite> {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(&'a mut self, statement: &'a Statement) -> Executing<'a> {
        super::Transaction::execute(&mut **self, statement)
    }
}
