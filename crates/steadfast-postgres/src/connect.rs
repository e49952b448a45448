//! One connection: opened within a limit, and driven until it ends.
//!
//! *Isolation.* A statement that is a transaction of its own has the session's isolation, and a role or a
//! database may set another default than READ COMMITTED. Then claims of one key at the same time fail with
//! serialization errors, although each should find the row that the other wrote. So the startup message asks
//! for READ COMMITTED. A later `SET` would stay behind in a pooler's session, for other clients. A pooler that
//! takes no options in that message gets none; the session's isolation is then checked when the store is
//! opened.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio_postgres::config::Host;
use tokio_postgres::error::DbError;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Socket};

use steadfast_core::clock::{Clock, Instant, SystemClock};
use steadfast_core::internal::store::Standing;
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::address::Address;
use super::failure::{advice, lacks_password, no_connection, silent};
use super::password::{PasswordSource, Passwords};
use super::place;
use super::tls::{Connector, connector};

/// Task that reads and writes for a connection, until it ends.
pub(super) type Driver = Connection<Socket, <Connector as MakeTlsConnect<Socket>>::Stream>;

/// Settings and state from which connections are opened.
pub(super) struct Connect {
    pub(super) address: Address,
    /// TLS settings. Read again for each connection where they come from files, which change while services run.
    connector: Mutex<Connector>,
    passwords: Passwords,
    pub(super) clock: Arc<dyn Clock>,
    /// True once a pooler has refused options in the startup message.
    refuses_options: AtomicBool,
    /// True once the schema exists and has a place to compare.
    compares_places: AtomicBool,
    /// [`place::here`], as the last connection read it. `None` before the first one.
    seen: Mutex<Option<String>>,
    /// True once the log says that the store is displaced.
    logged_displaced: AtomicBool,
}

/// A connection, and the task that drives it.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) driver: AbortHandle,
    pub(super) faults: Arc<Faults>,
}

/// Warnings and failures of a connection beside its answers.
#[derive(Debug)]
pub(super) struct Faults {
    /// Number of the server's warnings that a commit may be on no standby.
    doubts: AtomicU64,
    /// True once a statement failed because the session is read-only: another connection might write.
    is_read_only: AtomicBool,
    made: Instant,
}

impl Faults {
    fn new(made: Instant) -> Faults {
        Faults { doubts: AtomicU64::new(0), is_read_only: AtomicBool::new(false), made }
    }

    /// Counts a warning that a commit may be lost. A commit may wait for a standby
    /// (`synchronous_standby_names`). If that wait is cancelled, the server reports success, and warns that the
    /// standby may not have it (PostgreSQL, "Synchronous Replication"). After a failover the commit is on
    /// record nowhere.
    fn count_doubt(&self, notice: &DbError) {
        if notice.routine() == Some("SyncRepWaitForLSN") {
            self.doubts.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns the number of doubtful commits so far. A success is not trusted if the number grew meanwhile.
    pub(super) fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    /// Records a failed statement. After a failover a session may be at a read-only server, or may stay
    /// read-only because the database was when it began. Such a connection is not used again, once it is older
    /// than [`READ_ONLY_FOR`].
    pub(super) fn record_failure(&self, error: &StoreError, now: Instant) {
        if error.kind() == StoreErrorKind::ReadOnly && now.since(self.made) >= READ_ONLY_FOR {
            self.is_read_only.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }
}

/// Minimum age of a read-only connection before it is replaced.
const READ_ONLY_FOR: Duration = Duration::from_secs(1);

impl Connect {
    /// Prepares connections. Call it on the runtime that will drive them. The timers are the machine's: the
    /// waits are for a server, and a test's paused clock does not move them.
    pub(super) fn new(address: Address, source: Option<PasswordSource>) -> Result<Connect, StoreError> {
        let connector = Mutex::new(connector(address.security())?);
        let (passwords, refuses_options) = (Passwords::new(source), AtomicBool::new(false));
        let clock = Arc::new(SystemClock::new());
        let (compares_places, logged_displaced) = (AtomicBool::new(false), AtomicBool::new(false));
        let seen = Mutex::default();
        Ok(Connect {
            address,
            connector,
            passwords,
            clock,
            refuses_options,
            compares_places,
            seen,
            logged_displaced,
        })
    }

    /// Returns the last TLS settings that could be read.
    pub(super) fn connector(&self) -> Connector {
        #[allow(clippy::clone_on_copy, reason = "without TLS the connector is nothing, and with it an Arc")]
        self.connector.lock().clone()
    }

    /// Reads the TLS settings from their files. If they cannot be read, the last ones stay.
    fn connector_now(&self) -> Connector {
        let security = self.address.security();
        let has_files = security.roots.is_some() || security.identity.is_some();
        if has_files && let Ok(now) = connector(security) {
            *self.connector.lock() = now;
        }
        self.connector()
    }

    /// Opens a connection and drives it on this runtime.
    pub(super) async fn connect(&self) -> Result<Connected, StoreError> {
        let (client, mut connection) = self.open().await?;
        let faults = Arc::new(Faults::new(self.clock.now()));
        let counted = Arc::clone(&faults);
        // The driver's end closes the client: pending statements fail, and the next caller opens a new
        // connection.
        let driven = async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    counted.count_doubt(&notice);
                }
            }
        };
        let connected = Connected { client, driver: tokio::spawn(driven).abort_handle(), faults };
        // The server behind a name may be another one since the last connection.
        if self.compares_places.load(Ordering::Relaxed) {
            let compared = self.within(CONNECT_MAX, place::check(&connected.client, self)).await;
            if let Err(error) = compared.unwrap_or_else(|| Err(silent(place::LOOK))) {
                connected.driver.abort();
                return Err(error);
            }
        }
        Ok(connected)
    }

    /// Lets each new connection compare the store's [place], from now on.
    pub(super) fn compare_places(&self) {
        self.compares_places.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_place_seen(&self, here: String) {
        *self.seen.lock() = Some(here);
    }

    /// Returns [`place::here`], as the last connection that compared the place read it. `None` before the first
    /// one.
    pub(super) fn place_seen(&self) -> Option<String> {
        self.seen.lock().clone()
    }

    /// Logs once that the store is displaced, and why.
    pub(super) fn log_displaced(&self, standing: &Standing) {
        if !self.logged_displaced.swap(true, Ordering::Relaxed) {
            tracing::error!(
                store = %self.address,
                reason = %standing,
                "the store is not where its records are from"
            );
        }
    }

    /// Opens a connection that its owner drives.
    pub(super) async fn open(&self) -> Result<(Client, Driver), StoreError> {
        let mut config = self.address.config().clone();
        let named = self.address.passwords();
        self.passwords.complete(&mut config, named, |name| std::env::var_os(name)).await?;
        if !self.refuses_options.load(Ordering::Relaxed) {
            match self.open_with(&with_isolation(&config)).await? {
                Ok(opened) => return Ok(opened),
                Err(error) if is_about_options(&error) => self.refuses_options.store(true, Ordering::Relaxed),
                Err(error) => return Err(self.no_connection(error)),
            }
        }
        let opened = self.open_with(&config).await?;
        opened.map_err(|error| self.no_connection(error))
    }

    fn no_connection(&self, error: Error) -> StoreError {
        let error = no_connection(&self.address.place(), error);
        match self.passwords.unread() {
            // Where the server asks for no password, an unreadable file is no problem.
            Some(unread) if lacks_password(&error) => unread,
            _ => error,
        }
    }

    /// Connects to the first host that accepts. A silent host gets only its share of the time limit, so that it
    /// does not hide the others. The inner error is the last server's.
    async fn open_with(&self, config: &Config) -> Result<Result<(Client, Driver), Error>, StoreError> {
        let place = self.address.place();
        let hosts = each_host(config);
        let limit = CONNECT_MAX / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let mut last = None;
        for mut config in hosts {
            if config.get_connect_timeout().is_none() {
                // For each address: a name may have two.
                config.connect_timeout(limit / 2);
            }
            // Boxed: the driver's future is as large as a page, and would be part of every caller's.
            let connecting = Box::pin(config.connect(self.connector_now()));
            match self.within(limit, connecting).await {
                Some(Ok(connected)) => {
                    last = Some(Ok(connected));
                    break;
                }
                Some(Err(error)) => last = Some(Err(error)),
                None => {}
            }
        }
        let Some(connected) = last else {
            let problem = format!(
                "no connection to Postgres at {place} within {CONNECT_MAX:?}: {}",
                advice(UNREACHABLE)
            );
            return Err(StoreError::new(problem).of_kind(UNREACHABLE));
        };
        let (client, connection) = match connected {
            Ok(connected) => connected,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(version) = connection.parameter("server_version").filter(|version| is_too_old(version)) {
            let problem = format!(
                "the server at {place} is Postgres {version}, and this needs {MAJOR_MIN} or newer; upgrade the server"
            );
            return Err(StoreError::new(problem).of_kind(StoreErrorKind::Unsupported));
        }
        Ok(Ok((client, connection)))
    }

    /// Returns the future's output, or `None` if it takes longer than `limit`.
    pub(super) async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.clock.sleep_until(self.clock.now().plus(limit)) => None,
        }
    }

    pub(super) async fn sleep(&self, wait: Duration) {
        self.clock.sleep_until(self.clock.now().plus(wait)).await;
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.address, f)
    }
}

/// Returns one configuration for each host, in their order, with names, addresses and ports paired as the
/// driver does. The driver's own loop over hosts limits the socket alone, and not the login.
fn each_host(config: &Config) -> Vec<Config> {
    let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let hosts = names.len().max(addresses.len());
    if hosts < 2 {
        return vec![config.clone()];
    }
    macro_rules! copy {
        ($one:ident: $($set:ident($value:expr)),+) => {
            $(if let Some(value) = $value { $one.$set(value); })+
        };
    }
    let of_host = |nth: usize| {
        let mut one = Config::new();
        match names.get(nth) {
            Some(Host::Tcp(name)) => one.host(name),
            #[cfg(unix)]
            Some(Host::Unix(path)) => one.host_path(path),
            None => &mut one,
        };
        copy!(one:
            hostaddr(addresses.get(nth).copied()), port(ports.get(nth).or(ports.first()).copied()),
            user(config.get_user()), password(config.get_password()), dbname(config.get_dbname()),
            options(config.get_options()), application_name(config.get_application_name()),
            connect_timeout(config.get_connect_timeout().copied()),
            tcp_user_timeout(config.get_tcp_user_timeout().copied()),
            keepalives_interval(config.get_keepalives_interval()),
            keepalives_retries(config.get_keepalives_retries())
        );
        one.keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle())
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .target_session_attrs(config.get_target_session_attrs())
            .channel_binding(config.get_channel_binding());
        one
    };
    (0..hosts).map(of_host).collect()
}

/// Adds the isolation to the URL's own options.
fn with_isolation(config: &Config) -> Config {
    let mut config = config.clone();
    let own = config.get_options().map(|own| format!("{own} ")).unwrap_or_default();
    config.options(format!("{own}-c default_transaction_isolation=read\\ committed"));
    config
}

/// Returns true if a pooler refused the options. PgBouncer refuses them as an unsupported startup parameter
/// unless `ignore_startup_parameters` names them (1.18), and Amazon's RDS Proxy as command-line options.
fn is_about_options(error: &Error) -> bool {
    let message = error.as_db_error().map_or("", DbError::message);
    ["startup parameter", "command-line options"].iter().any(|words| message.contains(words))
}

/// Returns true if the server is older than [`MAJOR_MIN`]. A version that cannot be parsed passes.
fn is_too_old(version: &str) -> bool {
    let digits = version.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|major| major < MAJOR_MIN)
}

/// Oldest supported major version. Version 13 ended on 13 November 2025
/// (<https://www.postgresql.org/support/versioning/>), hosts keep theirs for a year or two longer, and
/// CockroachDB reports 13. The tests run on 15.
const MAJOR_MIN: u32 = 13;

/// Limit for name lookup, socket, TLS and login together. A server answers in milliseconds; libpq's own limit
/// is none, and its manual advises against less than 2 s.
const CONNECT_MAX: Duration = Duration::from_secs(5);

const UNREACHABLE: StoreErrorKind = StoreErrorKind::Unreachable;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_gets_its_own_address_and_port_and_the_shared_options() {
        let hosts = |url: &str| each_host(&url.parse().expect("a URL"));
        let one = "postgres://shop:pw@a:6432/shop?options=-c%20x%3Dy";
        assert_eq!(hosts(one), [one.parse().expect("a URL")]);
        let of = "sslmode=require&target_session_attrs=read-write&application_name=s&connect_timeout=1&keepalives=0";
        let expected = |host: &str| format!("postgres://shop:pw@{host}/shop?{of}").parse().expect("a URL");
        assert_eq!(
            hosts(&format!("postgres://shop:pw@a:1,b:2/shop?{of}")),
            [expected("a:1"), expected("b:2")]
        );
        let pairs = hosts("postgres://shop@/shop?host=a,b&hostaddr=10.0.0.1,10.0.0.2&port=7");
        assert_eq!(pairs[1].get_hostaddrs(), ["10.0.0.2".parse::<std::net::IpAddr>().expect("an address")]);
        assert_eq!((pairs.len(), pairs[1].get_ports()), (2, &[7][..]));
    }

    #[test]
    fn a_server_is_too_old_by_its_major_version() {
        for old in ["9.6.24", "12.22", "11.2-YB-2.20.1.0-b0", "8"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["13.0.0", "15.14 (Debian 15.14-0+deb12u1)", "18beta1", "devel", ""] {
            assert!(!is_too_old(new), "{new}");
        }
    }
}
