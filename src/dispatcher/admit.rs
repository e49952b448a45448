//! Takes committed rows of the store's [outbox](crate::outbox) on record.
//!
//! After each look that found some, before anything is taken, and through no gate: a row becomes an operation whether or
//! not the vendor can be called, so that an operator sees it and its caller can wait for it. What is admitted and due is
//! taken in the same round.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::call::Call;
use crate::client::Client;
use crate::engine::NotAdmitted;
use crate::error::{Effect, Error, Kind};
use crate::operation::record::Cursor;
use crate::store::{Outbox, OutboxRow, StoreError};
use crate::telemetry;

/// Where one dispatcher is in the outbox.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Where the next look begins. Rows that the store cannot record stay where they are, and are not to keep those
    /// behind them from their turn.
    next: Option<Cursor>,
}

impl Admission {
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
        engine.disagreement.check()?;
        let bytes_max = engine.policy.limits.request_bytes_max;
        let found = outbox.waiting(&engine.account(), self.next.as_ref(), (ROWS, bytes_max)).await;
        let page = found.map_err(|source| {
            let failed = Error::new(Kind::Store { doing: "look into the outbox" }, Effect::None);
            failed.with_source(source).at_vendor(client.vendor())
        })?;
        // After the last page from the beginning again: rows may have been committed late.
        self.next = page.next;
        together(page.rows.iter().map(|row| admit(client, outbox, row)).collect()).await;
        Ok(self.next.is_some())
    }
}

/// Records one row's operation, or rejects the row. What the store could not do is said, and tried again.
async fn admit(client: &Client, outbox: &dyn Outbox, row: &OutboxRow) {
    let failed = |error: &StoreError| telemetry::recovery_failed(client.vendor(), error);
    match Call::of_row(client, row).admit((outbox, row.number)).await {
        Ok(()) => {}
        Err(NotAdmitted::Failed(error)) => telemetry::recovery_failed(client.vendor(), &error),
        Err(NotAdmitted::Rejected(error)) => {
            let now = client.engine.wall();
            match outbox.reject(row.number, &format!("{error:#}"), now).await {
                Ok(true) => telemetry::outbox::rejected(client.vendor(), row.number, &error),
                // Another dispatcher was first.
                Ok(false) => {}
                Err(error) => failed(&error),
            }
        }
    }
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
