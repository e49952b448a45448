//! [`Line`]: one connection that all callers share, and who watches it.

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

/// A connection that is made anew when it is gone.
pub(super) struct Line {
    connect: Arc<Connect>,
    statement_max: Duration,
    current: Mutex<Option<(Arc<Client>, Arc<Faults>)>>,
    /// A caller was given the connection, and may ask something on it.
    asked: Arc<Notify>,
}

impl Line {
    pub(super) fn new(connect: Arc<Connect>, statement_max: Duration) -> Line {
        Line { connect, statement_max, current: Mutex::new(None), asked: Arc::new(Notify::new()) }
    }

    /// The connection, unless it is gone.
    pub(super) fn current(&self) -> Option<Asking> {
        let current = self.current.lock();
        let (client, faults) = current.as_ref()?;
        if client.is_closed() || faults.is_read_only() {
            return None;
        }
        self.asked.notify_one();
        Some(self.asking(Arc::clone(client), Arc::clone(faults)))
    }

    fn asking(&self, client: Arc<Client>, faults: Arc<Faults>) -> Asking {
        Asking { client, before: faults.doubts(), faults, connect: Arc::clone(&self.connect) }
    }

    /// Takes a new connection, and has it watched.
    pub(super) fn set(&self, connected: Connected) -> Asking {
        let Connected { client, driver, faults } = connected;
        let client = Arc::new(client);
        *self.current.lock() = Some((Arc::clone(&client), Arc::clone(&faults)));
        let watch = Watch {
            connect: Arc::clone(&self.connect),
            statement_max: self.statement_max,
            asked: Arc::clone(&self.asked),
            client: Arc::downgrade(&client),
        };
        self.asked.notify_one();
        tokio::spawn(async move {
            watch.until_it_ends().await;
            driver.abort();
        });
        self.asking(client, faults)
    }
}

/// A line in the hands of a caller. It derefs to the client.
pub(super) struct Asking {
    client: Arc<Client>,
    faults: Arc<Faults>,
    before: u64,
    connect: Arc<Connect>,
}

impl Asking {
    /// Asks a statement that is a transaction of its own. No success is believed that the server [doubts](Faults::doubts).
    ///
    /// # Errors
    ///
    /// The server's, or [`Lost`](crate::store::StoreErrorKind::Lost).
    pub(super) async fn ask(
        &self,
        doing: &'static str,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.client.query_typed(statement, values).await;
        let rows = rows
            .map_err(|error| failure(doing, error))
            .inspect_err(|error| self.faults.saw(error, self.connect.clock.now()))?;
        if self.faults.doubts() == self.before { Ok(rows) } else { Err(silent(doing)) }
    }
}

impl Deref for Asking {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Sees to it that a line answers as long as a caller waits on it.
struct Watch {
    connect: Arc<Connect>,
    statement_max: Duration,
    asked: Arc<Notify>,
    client: Weak<Client>,
}

impl Watch {
    /// Comes back when the connection has ended, or is to be cut.
    async fn until_it_ends(&self) {
        loop {
            self.asked.notified().await;
            loop {
                self.connect.sleep(LOOK_EVERY).await;
                let Some(client) = self.client.upgrade().filter(|client| !client.is_closed()) else { return };
                // The line's own and ours; every other one waits for an answer. Where none does, a question would only
                // cost the server.
                if Arc::strong_count(&client) <= 2 {
                    break;
                }
                if !self.answers(&client).await {
                    return;
                }
            }
        }
    }

    /// Whether it answers, at the latest after what blocks it was cancelled.
    async fn answers(&self, client: &Client) -> bool {
        let mut empty = Box::pin(client.simple_query(""));
        if let Some(answer) = self.connect.within(self.statement_max, &mut empty).await {
            return answer.is_ok();
        }
        let cancel = client.cancel_token();
        let cancelled = cancel.cancel_query(self.connect.connector());
        // Whether the server took it shows on the line.
        let _ = self.connect.within(CANCEL_MAX, cancelled).await;
        matches!(self.connect.within(CANCEL_MAX, &mut empty).await, Some(Ok(_)))
    }
}

/// Seldom enough to cost nothing beside the statements that make it necessary.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A server that lives ends a statement at once when it is told to.
pub(super) const CANCEL_MAX: Duration = Duration::from_secs(2);
