//! Wake-ups across processes: what one enqueues, the dispatchers of the others hear of by `NOTIFY`.
//!
//! A notification is a hint and nothing more. A dispatcher that hears one looks. What was not notified is found by
//! looking all the same, after the dispatcher's period. So nothing depends on it that it goes out or arrives.
//!
//! *Telling.* A `NOTIFY` in the transaction that enqueues would have the server commit one such transaction after the
//! other (it holds one lock for all databases until the commit is on disk). So it follows as a transaction of its
//! own, which writes nothing to disk: at once for the first operation, and for those that follow it once in
//! [`EVERY`].
//!
//! What was delivered and has ended is told by its name in the same way: to the processes whose callers wait for it, and to
//! programs in other languages. Of what was sent and ended in one call no process is told: its caller has the answer.
//!
//! *Hearing.* `LISTEN` is the state of a session, and a pooler in transaction mode gives sessions away. So it has a
//! connection of its own, which is there from the first look of a dispatcher on. Before it listens, it finds out
//! whether the session is its own; and then, by a notification to itself, whether it hears anything. If not, it gives
//! up for good.

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

/// What a store tells others, and whether it listens to them.
pub(super) struct Notices {
    /// Whom a notification is from: a process ignores its own.
    own: String,
    /// One is about to go out. It is for all that is committed before it does.
    is_owed: AtomicBool,
    told_at: Mutex<Option<Instant>>,
    /// What has ended, and is about to be told.
    ended: Mutex<Vec<(String, String)>>,
    listens: AtomicBool,
}

impl Notices {
    pub(super) fn new() -> Notices {
        Notices {
            own: format!("{:016x}", SystemRandom.next_u64()),
            is_owed: AtomicBool::new(false),
            told_at: Mutex::new(None),
            ended: Mutex::default(),
            listens: AtomicBool::new(false),
        }
    }
}

/// Something that is due at `due` was committed just now, at `now` by the same clock.
pub(super) fn tell(shared: &Arc<Shared>, due: Timestamp, now: Timestamp) {
    let is_soon = due.since(now) <= SOON;
    if !is_soon || shared.connections.is_portable() || shared.notices.is_owed.swap(true, Ordering::SeqCst) {
        return;
    }
    let (weak, connect) = (Arc::downgrade(shared), shared.connections.connect());
    shared.connections.spawn(async move {
        let told_at = weak.upgrade().and_then(|shared| *shared.notices.told_at.lock());
        let passed = told_at.map_or(EVERY, |at| connect.clock.now().since(at));
        if passed < EVERY {
            connect.sleep(EVERY.saturating_sub(passed)).await;
        }
        let Some(shared) = weak.upgrade() else { return };
        *shared.notices.told_at.lock() = Some(connect.clock.now());
        // Before it goes out: what is committed from here on is owed another one.
        shared.notices.is_owed.store(false, Ordering::SeqCst);
        // Whoever is not told looks.
        let _ = send(&shared, &shared.notices.own).await;
    });
}

/// What was taken from the store has ended, on record.
pub(super) fn tell_ended(shared: &Arc<Shared>, record: &Record) {
    let is_open = matches!(record.state, State::InProgress { .. } | State::Scheduled { .. });
    if is_open || record.fence == record.first_fence || shared.connections.is_portable() {
        return;
    }
    let mut ended = shared.notices.ended.lock();
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
        let ended = std::mem::take(&mut *shared.notices.ended.lock());
        for names in ended.chunks(ENDED_AT_ONCE) {
            let Ok(names) = serde_json::to_string(names) else { continue };
            // Whoever is not told looks.
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
    shared.ask("tell other processes", "SELECT pg_notify($1, $2) IS NULL".to_owned(), values).await.map(drop)
}

/// Has the store listen from now on, unless it does or must not.
pub(super) fn listen(shared: &Arc<Shared>) {
    if shared.connections.is_portable() || shared.notices.listens.swap(true, Ordering::SeqCst) {
        return;
    }
    let (weak, connect) = (Arc::downgrade(shared), shared.connections.connect());
    shared.connections.spawn(async move {
        let mut pause = PAUSE_MIN;
        loop {
            match hear(&weak, &connect, &mut pause).await {
                Ended::Store => return,
                Ended::Deaf => {
                    tracing::info!(
                        "a pooler stands before Postgres: what other processes enqueue is found by looking"
                    );
                    return;
                }
                Ended::Connection => {}
            }
            connect.sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    });
}

/// Why nothing is heard any more.
enum Ended {
    /// The store was dropped.
    Store,
    /// The session is not ours, or nothing arrives.
    Deaf,
    /// It is made anew.
    Connection,
}

/// As long as one connection lives.
async fn hear(weak: &Weak<Shared>, connect: &Arc<Connect>, pause: &mut Duration) -> Ended {
    let Some(shared) = weak.upgrade() else { return Ended::Store };
    let probe = format!("probe {:016x}", SystemRandom.next_u64());
    let (heard, mut news) = mpsc::channel(1);
    let (echo, mut echoed) = mpsc::channel(1);
    let (own, of_probe) = (shared.notices.own.clone(), probe.clone());
    let waiters = Arc::clone(shared.wakes.waiting());
    // What does not fit is no news: whoever looks once sees all.
    let hears = move |notification: &Notification| {
        let told = notification.payload();
        if told == of_probe {
            let _ = echo.try_send(());
        } else if let Some(names) = told.strip_prefix(ENDED) {
            let names: Vec<(String, String)> = serde_json::from_str(names).unwrap_or_default();
            for (scope, key) in names {
                if let Ok(key) = Key::new(key) {
                    waiters.wake(&OperationId::new(Scope::from_stored(scope), key));
                }
            }
        } else if told != own && !told.starts_with("probe ") {
            let _ = heard.try_send(());
        }
    };
    let Ok((client, driver)) = connect_to_hear(connect, hears).await else {
        return Ended::Connection;
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
            // What was enqueued before it listened was told to nobody.
            wakes.wake(None, begun.unwrap_or_default());
            heed(weak, connect, &client, &mut news).await
        }
        Some(Ok(false)) => {
            // Should it be a pooler's session after all, it is not left behind with this.
            let _ = connect.within(ECHO_MAX, client.batch_execute("UNLISTEN *")).await;
            Ended::Deaf
        }
        Some(Err(_)) | None => Ended::Connection,
    };
    driver.abort();
    ended
}

/// Wakes the dispatchers for each notification, once in [`EVERY`] at most.
async fn heed(
    weak: &Weak<Shared>,
    connect: &Arc<Connect>,
    client: &Client,
    news: &mut mpsc::Receiver<()>,
) -> Ended {
    loop {
        match connect.within(QUIET_MAX, news.recv()).await {
            Some(Some(())) => {
                let Some(shared) = weak.upgrade() else { return Ended::Store };
                shared.wakes.wake(None, shared.time.now().unwrap_or_default());
                drop(shared);
                connect.sleep(EVERY).await;
            }
            // Its driver has ended.
            Some(None) => return Ended::Connection,
            // Or is the other end gone?
            None => {
                let answer = connect.within(ECHO_MAX, client.batch_execute("")).await;
                if !matches!(answer, Some(Ok(()))) {
                    return Ended::Connection;
                }
            }
        }
    }
}

/// Whether the server's session stays with the connection. A pooler gives it to another client between two
/// transactions: a transaction that begins on another connection then has it, while ours is given another one. What
/// this process asks meanwhile may have it just then, and give it back: so it is asked several times.
async fn is_own_session(shared: &Arc<Shared>, client: &Client) -> Result<bool, StoreError> {
    for _ in 0..TIMES_ASKED {
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
    let rows = rows.map_err(|error| failure("ask whose session it is", error))?;
    Reader::first(&rows)?.next()
}

fn channel(schema: &Schema) -> String {
    // A name has at most 63 bytes, and a schema's 52.
    format!("steadfast_{}", schema.name())
}

/// A connection, whose notifications go to `hears`.
async fn connect_to_hear(
    connect: &Connect,
    mut hears: impl FnMut(&Notification) + Send + 'static,
) -> Result<(Client, AbortHandle), StoreError> {
    let (client, mut connection) = connect.open().await?;
    let driven = async move {
        let ended = poll_fn(|context| {
            loop {
                match std::task::ready!(connection.poll_message(context)) {
                    Some(Ok(tokio_postgres::AsyncMessage::Notification(told))) => hears(&told),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
        });
        pin!(ended).await;
    };
    Ok((client, tokio::spawn(driven).abort_handle()))
}

/// What is due later, a dispatcher finds in time: it asks for what will be due until it looks again.
const SOON: Duration = Duration::from_secs(5);

/// Twenty looks a second are as soon as anybody notices, and cost the server next to nothing.
const EVERY: Duration = Duration::from_millis(50);

/// What begins a notification of names.
const ENDED: &str = "ended ";

/// A process ends fewer in [`EVERY`]; of more, the rest is found by looking.
const ENDED_MAX: usize = 1_000;
const ENDED_AT_ONCE: usize = 20;

/// The server takes less than 8,000.
const PAYLOAD_BYTES_MAX: usize = 7_900;

/// A notification takes milliseconds.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// How often it is asked whose session it is.
const TIMES_ASKED: usize = 5;

/// For all that is asked before it listens.
const BEGIN_MAX: Duration = Duration::from_secs(20);

/// A connection on which nothing comes is asked this often whether it is still there.
const QUIET_MAX: Duration = Duration::from_secs(60);

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
