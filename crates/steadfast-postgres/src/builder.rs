//! Options of a Postgres store.

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
use super::password::PasswordSource;

/// Opens a [`Postgres`]. Made by [`Postgres::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until open() is called"]
pub struct PostgresBuilder {
    address: Address,
    limits: Limits,
    migration: Migration,
    seals: Seals,
    password: Option<PasswordSource>,
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

    /// Creates the schema where there is none. A service wants that. A tool that maintains a service's store
    /// does not: with false, [`open`](PostgresBuilder::open) refuses with [`Absent`](StoreErrorKind::Absent),
    /// and does not migrate an older schema either.
    ///
    /// Default: true.
    pub fn create(mut self, create: bool) -> PostgresBuilder {
        self.migration.create = create;
        self
    }

    /// Lets [`open`](PostgresBuilder::open) create or migrate the schema, if that is needed and its role may.
    /// With false, only `steadfast migrate` does that, and `open` refuses a schema that is missing or too old.
    ///
    /// Default: true.
    pub fn migrate(mut self, migrate: bool) -> PostgresBuilder {
        self.migration.apply = migrate;
        self
    }

    /// Sets how many connections single statements share, and how many more there may be for transactions of
    /// several statements. Each is clamped to 1 to 1,000.
    ///
    /// Default: 3 and 4.
    pub fn connections(mut self, shared: usize, exclusive: usize) -> PostgresBuilder {
        self.limits.lines = shared.clamp(1, CONNECTIONS_MAX);
        self.limits.exclusive = exclusive.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// Sets the statement timeout, from 1 ms to a day. The server cancels a statement that takes longer, and
    /// the store returns [`TimedOut`](StoreErrorKind::TimedOut). Where statements share a connection, that is
    /// at most a second later.
    ///
    /// Default: 10 s.
    pub fn statement_timeout(mut self, limit: Duration) -> PostgresBuilder {
        self.limits.statement_max = limit.clamp(Duration::from_millis(1), STATEMENT_MAX);
        self
    }

    /// Sets how long a call waits for a free connection, or for a server that restarts.
    ///
    /// Default: 5 s.
    pub fn wait(mut self, limit: Duration) -> PostgresBuilder {
        self.limits.wait_max = limit;
        self
    }

    /// Calls `ask` for the password at each new connection, such as for a token that lasts for minutes. It may
    /// block. `None` or an empty text keeps the last password. It goes before the URL's own, `PGPASSWORD` and
    /// files.
    ///
    /// Default: read from the URL or the environment, also at each new connection.
    pub fn password(mut self, ask: impl Fn() -> Option<String> + Send + Sync + 'static) -> PostgresBuilder {
        self.password = Some(PasswordSource::of(ask));
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

    /// Sets the clock that measures the time between two answers of the server. Only [`Clock::now`] is called.
    /// For a test whose server's clock does not run in real time. Timeouts of connections and statements stay
    /// on the machine's clock.
    ///
    /// Default: the machine's monotonic clock, also where tokio's is paused.
    #[cfg(any(test, feature = "testkit"))]
    pub fn clock(mut self, clock: impl Clock) -> PostgresBuilder {
        self.clock = Arc::new(clock);
        self
    }

    /// Connects, and creates or migrates the schema.
    ///
    /// Blocks meanwhile: open the store before the service serves.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]: `Unreachable`, `Denied`, `Unsupported`. `Absent` or `Older` for a schema that may not
    /// be created or migrated here. `Newer` for that of a newer release. `Sealed` if the rows need a key that
    /// was not given. `Invalid` for certificates that cannot be read.
    pub fn open(self) -> Result<Postgres, StoreError> {
        let connections = Connections::new(self.address, self.limits, self.password)?;
        let opened = connections.clone();
        let migration = self.migration;
        connections.run_blocking(async move { migration.apply_at_open(&opened).await })?;
        Postgres::on(connections, self.seals, (self.clock, migration.create))
    }

    /// Creates or migrates the schema. Returns its versions before and after. With `roles`, also creates the
    /// roles that a service and its tools connect as, with their rights; see the page on Postgres.
    ///
    /// Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// A [`StoreError`]; nothing was changed.
    pub fn apply_migrations(self, roles: bool) -> Result<(u32, u32), StoreError> {
        let connections = Connections::new(self.address, self.limits, self.password)?;
        let opened = connections.clone();
        connections.run_blocking(async move { super::migrate::apply(&opened, roles).await })
    }

    /// Returns the SQL that [`apply_migrations`](PostgresBuilder::apply_migrations) would run on an empty
    /// database. For an operator who runs statements with another tool. Connects to nothing.
    pub fn migrations_as_sql(&self, roles: bool) -> String {
        super::migrate::as_sql(self.address.schema(), roles)
    }
}

/// Maximum of connections: far more than a server allows one service.
const CONNECTIONS_MAX: usize = 1_000;

/// Maximum of the statement timeout. The server counts in milliseconds of 32 bits, and three times as many for
/// an idle transaction.
const STATEMENT_MAX: Duration = Duration::from_secs(24 * 3_600);
