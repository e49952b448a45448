//! Removing what has expired, at the pace at which it expires.
//!
//! In small batches, because a store writes them and the calls' claims one after the other. With a pause between two
//! of them, because a store that does nothing but purge serves no calls. One batch a second, which this once was, is
//! outrun by a hundred calls a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::asked;
use crate::client::Client;
use crate::telemetry;

/// Purges for ever: batch after batch while there are full ones, and else when `expired` says that there is something,
/// every `period` at most.
pub(super) async fn keep_purging(client: Client, period: Duration, expired: Arc<Notify>) {
    let clock = &client.engine.clock;
    loop {
        expired.notified().await;
        loop {
            let began = clock.now();
            let purge = async { client.engine.store.purge(client.engine.wall(), BATCH).await };
            let purged = asked(&**clock, PURGE, purge).await;
            let took = clock.now().since(began);
            match purged {
                Ok(Ok(removed)) if removed >= BATCH => {
                    let pause = took.saturating_mul(PAUSE_TIMES).clamp(PAUSE_MIN, PAUSE_MAX);
                    clock.sleep_until(clock.now().plus(pause)).await;
                    continue;
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => telemetry::recovery_failed(client.vendor(), &error),
                Err(panic) => telemetry::recovery_panicked(client.vendor(), PURGE, &*panic),
            }
            break;
        }
        clock.sleep_until(clock.now().plus(period)).await;
    }
}

const PURGE: &str = "purge";

/// Number of records that are removed together: in SQLite one write of some milliseconds.
const BATCH: usize = 200;

/// The pause after a full batch, in times of what it took: a store that is purged has three quarters of its time left.
const PAUSE_TIMES: u32 = 3;

/// Shortest pause: at most 8,000 records a second, several times the rate at which a store in a file can settle.
const PAUSE_MIN: Duration = Duration::from_millis(25);

/// However slow the store is: it must not fall behind for good.
const PAUSE_MAX: Duration = Duration::from_secs(1);
