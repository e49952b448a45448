//! The service's database: two schemas of this run's own in whichever database it is given.

use std::str::FromStr as _;
use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use steadfast::store::Postgres;

use crate::{Problem, shop};

pub struct Database {
    pub pool: PgPool,
    url: String,
    /// The service's tables. A service has them where it always had them, such as in `public`.
    tables: String,
    /// The store's.
    calls: String,
}

impl Database {
    /// Makes the schemas, and the service's tables in one of them.
    pub async fn make(url: &str) -> Result<Database, Problem> {
        let tables = format!("outbox_example_{}", std::process::id());
        let calls = format!("{tables}_calls");
        let options = PgConnectOptions::from_str(url)?.options([("search_path", &tables)]);
        // A pool asks again until it runs out of time, and does not say why.
        let first = PgConnection::connect_with(&options).await;
        first.map_err(|problem| format!("cannot open the database: {problem}"))?.close().await?;
        let pool = PgPoolOptions::new().connect_lazy_with(options);
        let database = Database { pool, url: url.to_owned(), tables, calls };
        let made = format!("CREATE SCHEMA {}; {}", database.tables, shop::TABLES);
        let made = database.pool.execute(sqlx::raw_sql(AssertSqlSafe(made))).await;
        made.map_err(|problem| {
            format!("no schema can be made in that database: {problem}; use a role that may")
        })?;
        Ok(database)
    }

    /// The store: in the same database, so that one transaction writes to both.
    pub async fn store(&self) -> Result<Arc<Postgres>, Problem> {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}schema={}", self.url, self.calls);
        let opening = move || Postgres::builder(&url)?.open();
        Ok(Arc::new(tokio::task::spawn_blocking(opening).await??))
    }

    /// Leaves the database as it was.
    pub async fn remove(self) -> Result<(), Problem> {
        let Database { tables, calls, .. } = &self;
        let removed =
            format!("DROP SCHEMA IF EXISTS {tables} CASCADE; DROP SCHEMA IF EXISTS {calls} CASCADE");
        self.pool.execute(sqlx::raw_sql(AssertSqlSafe(removed))).await?;
        self.pool.close().await;
        Ok(())
    }
}
