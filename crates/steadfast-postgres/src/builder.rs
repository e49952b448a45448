//! Opening a store with more than a URL.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_core::internal::clock::Monotonic;
use steadfast_core::internal::store::Seals;
#[cfg(feature = "seal")]
use steadfast_core::store::SealKeys;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::Postgres;
use super::address::Address;
use super::connections::{Connections, Limits};
use super::migrate::Migration;
use super::password::Asked;

/// Opens a [`Postgres`]. Made by [`Postgres::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until open() is called"]
pub struct PostgresBuilder {
    address: Address,
    limits: Limits,
    migration: Migration,
    seals: Seals,
    password: Option<Asked>,
    clock: Arc<dyn Clock>,
}

impl PostgresBuilder {
    pub(super) fn parse(url: &str) -> Result<PostgresBuilder, StoreError> {
        let address = Address::parse(url);
        let invalid = |problem| StoreError::new(problem).of_kind(StoreErrorKind::Invalid);
        address.map(PostgresBuilder::at).map_err(invalid)
    }

    pub(crate) fn at(address: Address) -> PostgresBuilder {
        PostgresBuilder {
            address,
            limits: Limits::default(),
            migration: Migration::default(),
            seals: Seals::default(),
            password: None,
            clock: Arc::new(Monotonic::new()),
        }
    }

    /// Whether the schema is made where there is none. A service wants that. A tool that looks after a service's store
    /// does not: then [`open`](PostgresBuilder::open) refuses with [`Absent`](StoreErrorKind::Absent), and neither does
    /// it bring an older schema up to date.
    ///
    /// Default: true.
    pub fn create(mut self, create: bool) -> PostgresBuilder {
        self.migration.create = create;
        self
    }

    /// Whether [`open`](PostgresBuilder::open) makes the schema or brings it up to date, if it has to and its role may.
    /// Without it, that is for `steadfast migrate` alone, and a schema that is not there or too old is refused.
    ///
    /// Default: true.
    pub fn migrate(mut self, migrate: bool) -> PostgresBuilder {
        self.migration.apply = migrate;
        self
    }

    /// How many connections are shared by single statements, and how many more there may be for transactions of several
    /// statements. At least one each, and at most 1,000.
    ///
    /// Default: 3 and 4.
    pub fn connections(mut self, shared: usize, exclusive: usize) -> PostgresBuilder {
        self.limits.lines = shared.clamp(1, CONNECTIONS_MAX);
        self.limits.exclusive = exclusive.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// What a statement may take. The server then cancels it, and the store says
    /// [`TimedOut`](StoreErrorKind::TimedOut); at most a second later where statements share a connection. From 1 ms to a
    /// day.
    ///
    /// Default: 10 s.
    pub fn statement_timeout(mut self, limit: Duration) -> PostgresBuilder {
        self.limits.statement_max = limit.clamp(Duration::from_millis(1), STATEMENT_MAX);
        self
    }

    /// How long a call waits for a connection: for one that is free, or for a server that restarts.
    ///
    /// Default: 5 s.
    pub fn wait(mut self, limit: Duration) -> PostgresBuilder {
        self.limits.wait_max = limit;
        self
    }

    /// Asks for the password at each connection, such as for a token that lasts for minutes. May block. `None` or an
    /// empty text keeps the last one. It goes before the URL's own, `PGPASSWORD` and files.
    ///
    /// Default: read from where the URL or the environment says, at each connection too.
    pub fn password(mut self, ask: impl Fn() -> Option<String> + Send + Sync + 'static) -> PostgresBuilder {
        self.password = Some(Asked::of(ask));
        self
    }

    /// Seals requests and answers from now on, as [`Sqlite`](steadfast_core::store) does.
    ///
    /// Default: not sealed.
    #[cfg(feature = "seal")]
    pub fn seal(mut self, keys: SealKeys) -> PostgresBuilder {
        self.seals = Seals::with(keys);
        self
    }

    /// What passes between two answers of the server, by whose clock the store goes. Only
    /// [`Clock::now`] is asked. For a test whose server's clock does not run in real time; waits for a connection and
    /// statement timeouts stay in the machine's.
    ///
    /// Default: the machine's monotonic clock, also where tokio's is paused.
    #[cfg(any(test, feature = "testkit"))]
    pub fn clock(mut self, clock: impl Clock) -> PostgresBuilder {
        self.clock = Arc::new(clock);
        self
    }

    /// Connects, and makes the schema or brings it up to date.
    ///
    /// Blocks while it does so: open it before the service serves.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]: `Unreachable`, `Denied`, `Unsupported`. `Absent` and `Older` for a schema that is not made
    /// or brought up to date here. `Newer` for that of a newer release. `Sealed` if it needs a key that was not
    /// given. `Invalid` for certificates that cannot be read.
    pub fn open(self) -> Result<Postgres, StoreError> {
        let connections = Connections::new(self.address, self.limits, self.password)?;
        let opened = connections.clone();
        let migration = self.migration;
        connections.run_blocking(async move { migration.at_open(&opened).await })?;
        Postgres::on(connections, self.seals, (self.clock, migration.create))
    }

    /// Makes the schema, or brings it up to date, and says what it did. With `roles`, also the roles
    /// that a service and its tools connect as, with their rights; see
    /// the page on Postgres.
    ///
    /// Blocks while it does so.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; nothing was changed.
    pub fn apply_migrations(self, roles: bool) -> Result<(u32, u32), StoreError> {
        let connections = Connections::new(self.address, self.limits, self.password)?;
        let opened = connections.clone();
        connections.run_blocking(async move { super::migrate::apply(&opened, roles).await })
    }

    /// What [`apply_migrations`](PostgresBuilder::apply_migrations) would have the server do to an empty database,
    /// for an operator who runs statements by another tool. Connects to nothing.
    pub fn migrations_as_sql(&self, roles: bool) -> String {
        super::migrate::as_sql(self.address.schema(), roles)
    }
}

/// Far more than a server allows one service.
const CONNECTIONS_MAX: usize = 1_000;

/// The server counts in milliseconds of 32 bits, and three times as many for a transaction that stands still.
const STATEMENT_MAX: Duration = Duration::from_secs(24 * 3_600);
