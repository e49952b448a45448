//! Wake-ups across processes by `NOTIFY`: dispatchers learn of operations that another process enqueues.
//!
//! A notification is a hint and nothing more. A dispatcher that receives one looks for work. Without a
//! notification it looks too, after its period. So no correctness depends on a notification.
//!
//! *Sending.* A `NOTIFY` in the transaction that enqueues would have the server commit such transactions one
//! after the other (it holds one lock for all databases until the commit is on disk). So it follows in a
//! transaction of its own, which writes nothing to disk: at once for the first operation, and then at most once
//! in [`EVERY`].
//!
//! The names of delivered operations that have ended are sent in the same way: to the processes whose callers
//! wait for them, and to programs in other languages. An operation that was sent and ended in one call is not
//! notified: its caller has the answer.
//!
//! *Receiving.* `LISTEN` is the state of a session, and a pooler in transaction mode gives sessions away. So
//! the listener has a connection of its own, from the first look of a dispatcher on. Before it listens, it
//! checks if the session is its own. Then it notifies itself, to check if notifications arrive. If not, it
//! gives up for good.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Notification};

use steadfast_core::Random;
use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::ext::WakesExt;
use steadfast_core::internal::random::SystemRandom;
use steadfast_core::operation::record::{Record, State};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::StoreError;

use super::Shared;
use super::connect::Connect;
use super::failure::failure;
use super::row::Reader;
use super::schema::Schema;

/// State of sending and receiving notifications.
pub(super) struct Notifications {
    /// Random process ID, to skip own notifications.
    process_id: String,
    /// True while a notification is pending. It covers every commit made before it is sent.
    is_pending: AtomicBool,
    sent_at: Mutex<Option<Instant>>,
    /// Scopes and keys of ended operations that are not notified yet.
    ended: Mutex<Vec<(String, String)>>,
    listens: AtomicBool,
}

impl Notifications {
    pub(super) fn new() -> Notifications {
        Notifications {
            process_id: format!("{:016x}", SystemRandom.next_u64()),
            is_pending: AtomicBool::new(false),
            sent_at: Mutex::new(None),
            ended: Mutex::default(),
            listens: AtomicBool::new(false),
        }
    }
}

/// Notifies other processes of an operation that is due at `due` and was committed at `now`, both by the same
/// clock.
pub(super) fn notify_due(shared: &Arc<Shared>, due: Timestamp, now: Timestamp) {
    let is_soon = due.since(now) <= SOON;
    if !is_soon
        || shared.connections.is_portable()
        || shared.notifications.is_pending.swap(true, Ordering::SeqCst)
    {
        return;
    }
    let (weak, connect) = (Arc::downgrade(shared), shared.connections.connect());
    shared.connections.spawn(async move {
        let sent_at = weak.upgrade().and_then(|shared| *shared.notifications.sent_at.lock());
        let passed = sent_at.map_or(EVERY, |at| connect.clock.now().since(at));
        if passed < EVERY {
            connect.sleep(EVERY.saturating_sub(passed)).await;
        }
        let Some(shared) = weak.upgrade() else { return };
        *shared.notifications.sent_at.lock() = Some(connect.clock.now());
        // Cleared before the send: a later commit needs another notification.
        shared.notifications.is_pending.store(false, Ordering::SeqCst);
        // A process that gets none finds the operation when it looks.
        let _ = send(&shared, &shared.notifications.process_id).await;
    });
}

/// Notifies other processes of an operation that was taken over and has ended on record.
pub(super) fn notify_ended(shared: &Arc<Shared>, record: &Record) {
    let is_open = matches!(record.state, State::InProgress { .. } | State::Scheduled { .. });
    if is_open || record.fence == record.first_fence || shared.connections.is_portable() {
        return;
    }
    let mut ended = shared.notifications.ended.lock();
    if ended.len() < ENDED_MAX {
        ended.push((record.id.scope.as_str().to_owned(), record.id.key.as_str().to_owned()));
    }
    if ended.len() > 1 {
        return;
    }
    let (weak, connect) = (Arc::downgrade(shared), shared.connections.connect());
    shared.connections.spawn(async move {
        connect.sleep(EVERY).await;
        let Some(shared) = weak.upgrade() else { return };
        let ended = std::mem::take(&mut *shared.notifications.ended.lock());
        for names in ended.chunks(ENDED_AT_ONCE) {
            let Ok(names) = serde_json::to_string(names) else { continue };
            // A process that gets none finds it when it looks.
            if names.len() <= PAYLOAD_BYTES_MAX {
                let _ = send(&shared, &[ENDED, &names].concat()).await;
            }
        }
    });
}

async fn send(shared: &Arc<Shared>, payload: &str) -> Result<(), StoreError> {
    let values: Vec<(super::read::Given, Type)> = vec![
        (Box::new(channel(shared.connections.schema())), Type::TEXT),
        (Box::new(payload.to_owned()), Type::TEXT),
    ];
    shared
        .query("notify other processes", "SELECT pg_notify($1, $2) IS NULL".to_owned(), values)
        .await
        .map(drop)
}

/// Starts the listener, unless it runs or the address is portable.
pub(super) fn listen(shared: &Arc<Shared>) {
    if shared.connections.is_portable() || shared.notifications.listens.swap(true, Ordering::SeqCst) {
        return;
    }
    let (weak, connect) = (Arc::downgrade(shared), shared.connections.connect());
    shared.connections.spawn(async move {
        let mut pause = PAUSE_MIN;
        loop {
            match listen_once(&weak, &connect, &mut pause).await {
                ListenEnd::Store => return,
                ListenEnd::NotReceiving => {
                    tracing::info!(
                        "a pooler stands before Postgres: dispatchers find operations of other processes by polling alone"
                    );
                    return;
                }
                ListenEnd::Connection => {}
            }
            connect.sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    });
}

/// Why the listener stopped.
enum ListenEnd {
    /// The store was dropped.
    Store,
    /// The session is a pooler's, or notifications do not arrive.
    NotReceiving,
    /// The connection broke; the listener reconnects.
    Connection,
}

/// Listens on one connection, until it ends.
async fn listen_once(weak: &Weak<Shared>, connect: &Arc<Connect>, pause: &mut Duration) -> ListenEnd {
    let Some(shared) = weak.upgrade() else { return ListenEnd::Store };
    let probe = format!("probe {:016x}", SystemRandom.next_u64());
    let (signal, mut signals) = mpsc::channel(1);
    let (echo, mut echoed) = mpsc::channel(1);
    let (process_id, own_probe) = (shared.notifications.process_id.clone(), probe.clone());
    let waiters = Arc::clone(shared.wakes.waiting());
    // If the channel is full, a notification is dropped: one look finds all.
    let receives = move |notification: &Notification| {
        let payload = notification.payload();
        if payload == own_probe {
            let _ = echo.try_send(());
        } else if let Some(names) = payload.strip_prefix(ENDED) {
            let names: Vec<(String, String)> = serde_json::from_str(names).unwrap_or_default();
            for (scope, key) in names {
                if let Ok(key) = Key::new(key) {
                    waiters.wake(&OperationId::new(Scope::from_stored(scope), key));
                }
            }
        } else if payload != process_id && !payload.starts_with("probe ") {
            let _ = signal.try_send(());
        }
    };
    let Ok((client, driver)) = open_listener(connect, receives).await else {
        return ListenEnd::Connection;
    };
    let began = async {
        if !is_own_session(&shared, &client).await? {
            return Ok(false);
        }
        let channel = channel(shared.connections.schema());
        let done = client.batch_execute(&format!("LISTEN \"{channel}\"")).await;
        done.map_err(|error| failure("listen to other processes", error))?;
        send(&shared, &probe).await?;
        Ok::<bool, StoreError>(connect.within(ECHO_MAX, echoed.recv()).await.is_some())
    };
    let ended = match connect.within(BEGIN_MAX, began).await {
        Some(Ok(true)) => {
            *pause = PAUSE_MIN;
            let (wakes, begun) = (shared.wakes.clone(), shared.time.now());
            drop(shared);
            // A commit before the start of listening was notified to other listeners only.
            wakes.wake(None, begun.unwrap_or_default());
            wake_on_signals(weak, connect, &client, &mut signals).await
        }
        Some(Ok(false)) => {
            // If the session is a pooler's after all, no LISTEN is left behind in it.
            let _ = connect.within(ECHO_MAX, client.batch_execute("UNLISTEN *")).await;
            ListenEnd::NotReceiving
        }
        Some(Err(_)) | None => ListenEnd::Connection,
    };
    driver.abort();
    ended
}

/// Wakes the dispatchers for notifications, at most once in [`EVERY`].
async fn wake_on_signals(
    weak: &Weak<Shared>,
    connect: &Arc<Connect>,
    client: &Client,
    signals: &mut mpsc::Receiver<()>,
) -> ListenEnd {
    loop {
        match connect.within(QUIET_MAX, signals.recv()).await {
            Some(Some(())) => {
                let Some(shared) = weak.upgrade() else { return ListenEnd::Store };
                shared.wakes.wake(None, shared.time.now().unwrap_or_default());
                drop(shared);
                connect.sleep(EVERY).await;
            }
            // The connection's driver has ended.
            Some(None) => return ListenEnd::Connection,
            // Check if the server is gone.
            None => {
                let answer = connect.within(ECHO_MAX, client.batch_execute("")).await;
                if !matches!(answer, Some(Ok(()))) {
                    return ListenEnd::Connection;
                }
            }
        }
    }
}

/// Returns true if the server's session stays with the connection. A pooler gives it to another client between
/// two transactions. A transaction that begins on another connection then gets it, and ours gets another one.
/// Other statements of this process may hold the session for a moment and give it back: so the check runs
/// several times.
async fn is_own_session(shared: &Arc<Shared>, client: &Client) -> Result<bool, StoreError> {
    for _ in 0..CHECKS {
        let ours = session(client).await?;
        let mut other = shared.connections.exclusive().await?;
        other.begin().await?;
        let theirs = session(&other).await?;
        let again = session(client).await?;
        if ours != again || ours == theirs {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn session(client: &Client) -> Result<i32, StoreError> {
    let rows = client.query_typed("SELECT pg_backend_pid()", &[]).await;
    let rows = rows.map_err(|error| failure("check whose session it is", error))?;
    Reader::first(&rows)?.next()
}

fn channel(schema: &Schema) -> String {
    // A name has at most 63 bytes, and a schema's 52.
    format!("steadfast_{}", schema.name())
}

/// Opens a connection, and passes its notifications to `receives`.
async fn open_listener(
    connect: &Connect,
    mut receives: impl FnMut(&Notification) + Send + 'static,
) -> Result<(Client, AbortHandle), StoreError> {
    let (client, mut connection) = connect.open().await?;
    let driven = async move {
        let ended = poll_fn(|context| {
            loop {
                match std::task::ready!(connection.poll_message(context)) {
                    Some(Ok(tokio_postgres::AsyncMessage::Notification(payload))) => receives(&payload),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
        });
        pin!(ended).await;
    };
    Ok((client, tokio::spawn(driven).abort_handle()))
}

/// Longest delay of an operation that is notified. A dispatcher finds a later one in time: it asks for the
/// operations that fall due before its next look.
const SOON: Duration = Duration::from_secs(5);

/// Shortest time between two notifications. Twenty looks a second are as soon as a person notices, and cost the
/// server next to nothing.
const EVERY: Duration = Duration::from_millis(50);

/// Prefix of a notification with names of ended operations.
const ENDED: &str = "ended ";

/// Maximum of names for one interval. A process ends fewer in [`EVERY`]; the rest is found by looking.
const ENDED_MAX: usize = 1_000;
const ENDED_AT_ONCE: usize = 20;

/// Maximum length of a payload: the server accepts less than 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_900;

/// Limit for a notification's way back. It takes milliseconds.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// Number of checks if the session stays.
const CHECKS: usize = 5;

/// Limit for all checks before it listens.
const BEGIN_MAX: Duration = Duration::from_secs(20);

/// Time without a notification after which the connection is probed.
const QUIET_MAX: Duration = Duration::from_secs(60);

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
