//! The take of an account's due operations: one statement locks, changes and reads them.
//!
//! A transaction that locks, reads, lets the state machine decide and writes is eight round trips, and a
//! dispatcher that delivers in bulk does little else. The new state of a due operation needs no decision: the
//! next fence, a lease, and the times of a life whose first send this is. So the statement computes it, as
//! [`Record::take`](crate::operation::record::Record::take) does; the contract suite holds the two together. A
//! row with a time of a wrong clock is left to the slower way.
//!
//! The request is read from the snapshot in which the statement began, and the row is locked after that. In
//! between, a request can only have been sealed with another key. It changes only for another life of its key,
//! hours after this one ended.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{
    RowReader, Standing, Stored, duration_ms, read_operation, read_request,
};
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Takeover};
use steadfast_core::store::StoreError;

use super::row::{Reader, damaged};
use super::take::{FoundOperations, LOOK, TakeValues};
use super::{Shared, standing};

/// Takes due operations. Returns them, and true if there are more that only a transaction may take. Takes
/// nothing in a place that has changed, before that was compared.
pub(super) async fn take(
    shared: &Arc<Shared>,
    take: &Takeover,
    from: i64,
) -> Result<(FoundOperations, IsMore), StoreError> {
    let (here, taken) = take_here(shared, take, from).await?;
    if !shared.compare_if_changed(&here).await? {
        return Ok(taken);
    }
    shared.check_new().await?;
    take_here(shared, take, from).await.map(|(_, taken)| taken)
}

async fn take_here(
    shared: &Arc<Shared>,
    take: &Takeover,
    from: i64,
) -> Result<(String, (FoundOperations, IsMore)), StoreError> {
    let (take_values, own) = (TakeValues::of(shared, take, from), Arc::clone(shared));
    let (lease, attempt) = (duration_ms(take.lease), duration_ms(take.attempt_max));
    let seen = shared.connections.connect().place_seen();
    let (vendor_clock, far) = (take.vendor_clock_ms, duration_ms(CLOCKS_DIFFER_MAX));
    let holder = take.holder.as_deref().map(str::to_owned);
    shared
        .connections
        .run(async move {
            let mut values = take_values.values(&take_values.limit).to_vec();
            values.extend([
                (&lease as _, Type::INT8),
                (&attempt as _, Type::INT8),
                (&vendor_clock as _, Type::INT8),
                (&far as _, Type::INT8),
                (&seen as _, Type::TEXT),
                (&holder as _, Type::TEXT),
            ]);
            let client = own.connections.get().await?;
            let rows = client.query(LOOK, &own.statements.due, &values).await?;
            let (mut operations, mut is_more, mut here) = (FoundOperations::default(), None, "");
            let mut taken_rows = Vec::with_capacity(rows.len());
            for row in &rows {
                let mut from = Reader::of(row);
                here = from.next()?;
                standing::check(&mut from, Standing::check_new)?;
                operations.now = from.time()?;
                operations.last = from.next()?;
                let (found, is_odd): (i64, bool) = (from.next()?, from.next()?);
                operations.is_full = found >= take_values.limit;
                is_more = Some(is_odd);
                if let Some(waited) = from.next::<Option<i64>>()? {
                    taken_rows.push((waited, taken(&mut from)?));
                }
            }
            // An update returns the rows in any order.
            taken_rows.sort_by_key(|(waited, _)| *waited);
            operations.rows = taken_rows.into_iter().map(|(_, stored)| stored).collect();
            own.time.record(operations.now);
            Ok((here.to_owned(), (operations, is_more.ok_or_else(|| damaged("no answer"))?)))
        })
        .await
}

/// True if there are rows of a wrong clock.
type IsMore = bool;

fn taken(from: &mut Reader<'_>) -> Result<Stored, StoreError> {
    let mut record = read_operation(from)?;
    let number = read_request(&mut record, from)?;
    Ok(Stored { number, record, request: Some(from.bytes()?), answer: None })
}
