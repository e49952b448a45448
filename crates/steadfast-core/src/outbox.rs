//! The trait of a caller's own transaction, and what it is given.

use std::error::Error as StdError;

use crate::BoxFuture;

#[cfg(feature = "sqlite")]
pub(crate) mod by_rusqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
pub(crate) mod by_sqlx;
#[cfg(feature = "postgres")]
pub(crate) mod by_tokio_postgres;
pub(crate) mod why_not;

/// The crate `rusqlite`: its transactions are a caller's. Named from here it always is of the right version.
#[cfg(feature = "sqlite")]
pub use rusqlite;
/// The crate `tokio_postgres`: its transactions are a caller's. Named from here it always is of the right version.
#[cfg(feature = "postgres")]
pub use tokio_postgres;

pub use crate::store::statement::{Database, Value};

/// A transaction of the caller's own, or a connection that is in one.
///
/// | feature | driver | types |
/// |---|---|---|
/// | `sqlite` | rusqlite | `Connection`, `Transaction`, `Savepoint` |
/// | `sqlx-sqlite` | sqlx | `SqliteConnection`, `Transaction<Sqlite>`, `PoolConnection<Sqlite>` |
/// | `postgres` | tokio-postgres | `Transaction` |
/// | `sqlx-postgres` | sqlx | `PgConnection`, `Transaction<Postgres>`, `PoolConnection<Postgres>` |
///
/// For another driver: execute the statement in the transaction. The error of a missing outbox or right then has the
/// driver's own words: only the errors of the drivers above are known.
pub trait Transaction {
    /// The database whose SQL it takes.
    const DATABASE: Database;

    /// Executes one statement, with its values in the order of its parameters. It changes one row at most, and gives
    /// none. Its error is the driver's.
    ///
    /// The text comes from the store, and holds nothing that a caller wrote: that is in `values` alone.
    fn execute<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Value],
    ) -> BoxFuture<'a, Result<(), Box<dyn StdError + Send + Sync>>>;
}
