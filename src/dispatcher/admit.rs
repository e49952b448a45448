//! Takes committed rows of the store's [outbox](crate::outbox) on record.
//!
//! After each look that found some, before anything is taken, and through no gate. A row becomes an operation whether
//! or not the vendor can be called: an operator then sees it, and its caller can wait for it. What is admitted and
//! due is taken in the same round.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use steadfast_core::Error;
use steadfast_core::internal::ext::{ErrorExt, WakesExt};
use steadfast_core::internal::store::{Outbox, OutboxRow};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::failed;
use crate::call::Call;
use crate::client::Client;
use crate::engine::NotAdmitted;
use crate::telemetry;

/// Where one dispatcher is in the outbox.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Where the next look begins. Rows that the store cannot record stay where they are, and are not to keep those
    /// behind them from their turn.
    next: Option<String>,
    /// The store's role may not admit rows, and that was said. One row is tried at each look, until it may.
    may_not: bool,
    /// Whether the last round has recorded or rejected any.
    pub(crate) progressed: bool,
}

impl Admission {
    /// Whether the store's role may not admit rows, as far as any was tried.
    pub(crate) fn may_not(&self) -> bool {
        self.may_not
    }

    /// Admits the next rows of the client's account. Says whether there may be more behind them.
    ///
    /// # Errors
    ///
    /// The store's, when it was asked which rows there are.
    ///
    /// # Cancellation safety
    ///
    /// A row is admitted or still there.
    pub(crate) async fn round(&mut self, client: &Client) -> Result<bool, Error> {
        let engine = &client.engine;
        let Some(outbox) = engine.outbox() else { return Ok(false) };
        // Whoever may not deliver for the account leaves its rows to those who may.
        engine.check_terms().await?;
        let rows = if self.may_not { 1 } else { ROWS };
        let bytes_max = engine.policy.request_bytes_max;
        let found = outbox.waiting(&engine.account(), self.next.as_deref(), rows, bytes_max).await;
        let page =
            found.map_err(|source| failed("look into the outbox", source).at_vendor(client.vendor()))?;
        // After the last page from the beginning again: rows may have been committed late.
        self.next = page.next;
        let (said, seen) = (self.may_not, Seen::default());
        together(
            in_order(&page.rows)
                .into_iter()
                .map(|rows| admit_all(client, outbox, rows, (said, &seen)))
                .collect(),
        )
        .await;
        self.progressed = seen.progress.into_inner();
        self.may_not = if page.rows.is_empty() { said } else { seen.may_not.into_inner() };
        if self.may_not {
            self.next = None;
        }
        Ok(self.next.is_some())
    }
}

/// What a round has met.
#[derive(Default)]
struct Seen {
    progress: AtomicBool,
    may_not: AtomicBool,
}

/// The rows that must be recorded one after the other: those of one sequence, and each other one by itself.
fn in_order(rows: &[OutboxRow]) -> Vec<Vec<&OutboxRow>> {
    let mut groups: Vec<Vec<&OutboxRow>> = Vec::with_capacity(rows.len());
    let mut of_sequence: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        let first = row.sequence.as_ref().and_then(|sequence| {
            let next = groups.len();
            let group = *of_sequence.entry(sequence.name()).or_insert(next);
            (group != next).then_some(group)
        });
        match first.and_then(|group| groups.get_mut(group)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Records them one after the other, up to the first that has to stay: those behind it in its sequence stay with it.
/// Of a role that may not admit rows it is said once.
async fn admit_all(client: &Client, outbox: &dyn Outbox, rows: Vec<&OutboxRow>, (said, seen): (bool, &Seen)) {
    for row in rows {
        let error = match admit(client, outbox, row).await {
            Ok(progress) => {
                seen.progress.fetch_or(progress, Ordering::Relaxed);
                continue;
            }
            Err(error) => error,
        };
        let is_denied = store_error(&error).is_some_and(|error| error.kind() == StoreErrorKind::Denied);
        if !is_denied || !(said | seen.may_not.swap(true, Ordering::Relaxed)) {
            telemetry::recovery_failed(client.vendor(), &error);
        }
        return;
    }
}

/// Records one row's operation, or rejects the row. Whether it did.
///
/// # Errors
///
/// What the store could not do. It is tried again.
async fn admit(client: &Client, outbox: &dyn Outbox, row: &OutboxRow) -> Result<bool, Error> {
    match Call::of_row(client, row).admit((outbox, row.number)).await {
        Ok(is_new) => Ok(is_new),
        Err(NotAdmitted::NotYet) => Ok(false),
        Err(NotAdmitted::Failed(error)) => Err(error),
        Err(NotAdmitted::Rejected(error)) => {
            let now = client.engine.wall();
            let rejected = outbox.reject(row.number, &format!("{error:#}"), now).await;
            let is_new = rejected
                .map_err(|source| failed("reject a row of the outbox", source).at_vendor(client.vendor()))?;
            // Or another dispatcher was first.
            if is_new {
                telemetry::outbox::rejected(client.vendor(), row.number, &error);
                client.engine.wakes.waiting().wake_key(&row.key);
            }
            Ok(is_new)
        }
    }
}

fn store_error(error: &Error) -> Option<&StoreError> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Carries out all, each begun in its turn, so that rows are recorded in their order and their commits are shared.
async fn together<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut under_way: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        under_way.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Rows to one look: their claims share a commit or two, and a call's claim waits for no more than that.
const ROWS: usize = 100;
