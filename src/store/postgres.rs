//! [`Postgres`]: records in a database that many processes share.

mod address;
mod builder;
mod connect;
mod connections;
mod failure;
mod line;
mod migrate;
mod opening;
mod password;
mod roles;
mod schema;
mod thread;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "postgres/no_tls.rs"]
mod tls;

pub(in crate::store) use address::Address;
pub use builder::PostgresBuilder;

use connections::Connections;

use crate::store::StoreError;
use crate::store::seals::Seals;

/// A store in a Postgres database.
#[derive(Debug)]
pub struct Postgres {
    connections: Connections,
    seals: Seals,
}

impl Postgres {
    /// Opens the store at `url`, with more than its defaults.
    ///
    /// # Errors
    ///
    /// `Invalid` for what is no URL of a store on Postgres.
    pub fn builder(url: &str) -> Result<PostgresBuilder, StoreError> {
        PostgresBuilder::parse(url)
    }

    fn on(connections: Connections, seals: Seals) -> Result<Postgres, StoreError> {
        Ok(Postgres { connections, seals })
    }
}
