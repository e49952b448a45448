//! One connection: made within a limit, and driven until it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};

use super::address::Address;
use super::failure::{advice, no_connection};
use super::tls::{Connector, connector};
use crate::clock::{Clock, SystemClock};
use crate::store::{StoreError, StoreErrorKind};

/// What reads and writes for a connection, until it ends.
pub(super) type Driver = Connection<Socket, <Connector as MakeTlsConnect<Socket>>::Stream>;

/// How a connection is made.
pub(super) struct Connect {
    pub(super) address: Address,
    pub(super) connector: Connector,
    pub(super) clock: Arc<dyn Clock>,
}

/// A connection, and the task that drives it.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) driver: AbortHandle,
}

impl Connect {
    /// On the runtime that will drive the connections: its timers are the machine's. What is waited for is a server's,
    /// and no clock that a test has paused moves it.
    pub(super) fn new(address: Address) -> Result<Connect, StoreError> {
        let connector = connector(address.security())?;
        Ok(Connect { address, connector, clock: Arc::new(SystemClock::new()) })
    }

    /// Makes one, on the runtime that will drive it.
    pub(super) async fn connect(&self) -> Result<Connected, StoreError> {
        let (client, connection) = self.open().await?;
        // How it ended is told to whoever waits for an answer on it, and to the next who wants one.
        let driven = async move {
            let _ = connection.await;
        };
        Ok(Connected { client, driver: tokio::spawn(driven).abort_handle() })
    }

    /// Makes one, for whoever drives it.
    pub(super) async fn open(&self) -> Result<(Client, Driver), StoreError> {
        let place = self.address.place();
        let config = self.address.config();
        // Boxed: the driver's future is as large as a page, and would be part of every caller's.
        #[allow(clippy::clone_on_copy, reason = "without TLS the connector is nothing, and with it an Arc")]
        let connecting = Box::pin(config.connect(self.connector.clone()));
        let connecting = self.within(CONNECT_MAX, connecting).await;
        let Some(connected) = connecting else {
            let problem = format!(
                "no connection to Postgres at {place} within {CONNECT_MAX:?}: {}",
                advice(UNREACHABLE)
            );
            return Err(StoreError::new(problem).of_kind(UNREACHABLE));
        };
        let (client, connection) = connected.map_err(|error| no_connection(&place, error))?;
        if let Some(version) = connection.parameter("server_version").filter(|version| is_too_old(version)) {
            let problem = format!(
                "the server at {place} is Postgres {version}, and this needs {MAJOR_MIN} or newer; upgrade the server"
            );
            return Err(StoreError::new(problem).of_kind(StoreErrorKind::Unsupported));
        }
        Ok((client, connection))
    }

    /// The future's output, or `None` if it takes longer than `limit`.
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

/// Whether the server is older than what the statements need. What cannot be read is not.
fn is_too_old(version: &str) -> bool {
    let digits = version.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|major| major < MAJOR_MIN)
}

/// The oldest major version that is taken. Version 13 ended on 13 November 2025
/// (<https://www.postgresql.org/support/versioning/>), hosts keep theirs for a year or two longer, and CockroachDB says
/// that it is 13. The tests run on 15.
const MAJOR_MIN: u32 = 13;

/// Name, socket, TLS and password. A server answers in milliseconds; libpq's own limit is none, and its manual advises
/// against less than 2 s.
const CONNECT_MAX: Duration = Duration::from_secs(5);

const UNREACHABLE: StoreErrorKind = StoreErrorKind::Unreachable;

#[cfg(test)]
mod tests {
    use super::*;

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
