//! [`Line`]: one connection that all callers share, and the task that watches it.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_postgres::{Client, Row};

use steadfast_core::store::StoreError;

use super::connect::{Connect, Connected, Faults};
use super::failure::{failure, silent};
use super::row::Value;

/// A shared connection that is reopened when it is gone.
pub(super) struct Line {
    connect: Arc<Connect>,
    statement_max: Duration,
    current: Mutex<Option<(Arc<Client>, Arc<Faults>)>>,
    /// Signals the watch that a caller got the connection, and may send a statement on it.
    used: Arc<Notify>,
}

impl Line {
    pub(super) fn new(connect: Arc<Connect>, statement_max: Duration) -> Line {
        Line { connect, statement_max, current: Mutex::new(None), used: Arc::new(Notify::new()) }
    }

    /// Returns the connection, unless it is gone.
    pub(super) fn current(&self) -> Option<LineHandle> {
        let current = self.current.lock();
        let (client, faults) = current.as_ref()?;
        if client.is_closed() || faults.is_read_only() {
            return None;
        }
        self.used.notify_one();
        Some(self.handle(Arc::clone(client), Arc::clone(faults)))
    }

    fn handle(&self, client: Arc<Client>, faults: Arc<Faults>) -> LineHandle {
        LineHandle { client, before: faults.doubts(), faults, connect: Arc::clone(&self.connect) }
    }

    /// Takes a new connection, and starts its watch.
    pub(super) fn set(&self, connected: Connected) -> LineHandle {
        let Connected { client, driver, faults } = connected;
        let client = Arc::new(client);
        *self.current.lock() = Some((Arc::clone(&client), Arc::clone(&faults)));
        let watch = Watch {
            connect: Arc::clone(&self.connect),
            statement_max: self.statement_max,
            used: Arc::clone(&self.used),
            client: Arc::downgrade(&client),
        };
        self.used.notify_one();
        tokio::spawn(async move {
            watch.until_it_ends().await;
            driver.abort();
        });
        self.handle(client, faults)
    }
}

/// A line in use by a caller. It derefs to the client.
pub(super) struct LineHandle {
    client: Arc<Client>,
    faults: Arc<Faults>,
    before: u64,
    connect: Arc<Connect>,
}

impl LineHandle {
    /// Sends a statement that is a transaction of its own. A success that the server [doubts](Faults::doubts)
    /// is an error.
    ///
    /// # Errors
    ///
    /// The server's, or [`Lost`](crate::store::StoreErrorKind::Lost).
    pub(super) async fn query(
        &self,
        doing: &'static str,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.client.query_typed(statement, values).await;
        let rows = rows
            .map_err(|error| failure(doing, error))
            .inspect_err(|error| self.faults.record_failure(error, self.connect.clock.now()))?;
        if self.faults.doubts() == self.before { Ok(rows) } else { Err(silent(doing)) }
    }
}

impl Deref for LineHandle {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Watch over a line: while a caller waits on it, the line must answer.
struct Watch {
    connect: Arc<Connect>,
    statement_max: Duration,
    used: Arc<Notify>,
    client: Weak<Client>,
}

impl Watch {
    /// Returns when the connection has ended, or must be cut.
    async fn until_it_ends(&self) {
        loop {
            self.used.notified().await;
            loop {
                self.connect.sleep(LOOK_EVERY).await;
                let Some(client) = self.client.upgrade().filter(|client| !client.is_closed()) else { return };
                // Two references are the line's own and ours; each further one is a caller that waits. Without
                // one, a probe would only cost the server.
                if Arc::strong_count(&client) <= 2 {
                    break;
                }
                if !self.answers(&client).await {
                    return;
                }
            }
        }
    }

    /// Returns true if the line answers, at the latest after the statement that blocks it was cancelled.
    async fn answers(&self, client: &Client) -> bool {
        let mut empty = Box::pin(client.simple_query(""));
        if let Some(answer) = self.connect.within(self.statement_max, &mut empty).await {
            return answer.is_ok();
        }
        let cancel = client.cancel_token();
        let cancelled = cancel.cancel_query(self.connect.connector());
        // The line shows if the server received the cancel request.
        let _ = self.connect.within(CANCEL_MAX, cancelled).await;
        matches!(self.connect.within(CANCEL_MAX, &mut empty).await, Some(Ok(_)))
    }
}

/// Time between two probes: rare enough to cost nothing beside the statements that make them necessary.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Limit for a cancel request. A server that is up ends a cancelled statement at once.
pub(super) const CANCEL_MAX: Duration = Duration::from_secs(2);
