//! [`Line`]: one connection that all callers share, and who watches it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::connect::{Connect, Connected};

/// A connection that is made anew when it is gone.
pub(super) struct Line {
    connect: Arc<Connect>,
    statement_max: Duration,
    client: Mutex<Option<Arc<Client>>>,
    /// A caller was given the connection, and may ask something on it.
    asked: Arc<Notify>,
}

impl Line {
    pub(super) fn new(connect: Arc<Connect>, statement_max: Duration) -> Line {
        Line { connect, statement_max, client: Mutex::new(None), asked: Arc::new(Notify::new()) }
    }

    /// The connection, unless it is gone.
    pub(super) fn current(&self) -> Option<Arc<Client>> {
        let client = self.client.lock().as_ref().filter(|client| !client.is_closed()).cloned()?;
        self.asked.notify_one();
        Some(client)
    }

    /// Takes a new connection, and has it watched.
    pub(super) fn set(&self, connected: Connected) -> Arc<Client> {
        let Connected { client, driver } = connected;
        let client = Arc::new(client);
        *self.client.lock() = Some(Arc::clone(&client));
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
        client
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
        #[allow(clippy::clone_on_copy, reason = "without TLS the connector is nothing, and with it an Arc")]
        let cancelled = cancel.cancel_query(self.connect.connector.clone());
        // Whether the server took it shows on the line.
        let _ = self.connect.within(CANCEL_MAX, cancelled).await;
        matches!(self.connect.within(CANCEL_MAX, &mut empty).await, Some(Ok(_)))
    }
}

/// Seldom enough to cost nothing beside the statements that make it necessary.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A server that lives ends a statement at once when it is told to.
const CANCEL_MAX: Duration = Duration::from_secs(2);
