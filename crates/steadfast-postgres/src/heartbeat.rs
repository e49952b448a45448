//! Heartbeats of dispatchers: one statement. Nothing else depends on them, and a copy leaves them behind.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{Heartbeat, Peer, duration_ms, read_peer};
use steadfast_core::store::StoreError;

use super::Shared;
use super::row::Reader;
use super::schema::Schema;

pub(super) async fn heartbeat(shared: &Arc<Shared>, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
    let of_each = |of: fn(&steadfast_core::internal::store::Beat) -> Option<String>| {
        heartbeat.beats.iter().map(of).collect::<Vec<Option<String>>>()
    };
    let values = vec![
        (Box::new(of_each(|beat| Some(beat.account.clone()))) as _, Type::TEXT_ARRAY),
        (Box::new(of_each(|beat| Some(beat.dispatcher.clone()))) as _, Type::TEXT_ARRAY),
        (Box::new(of_each(|beat| beat.says.clone())) as _, Type::TEXT_ARRAY),
        (Box::new(duration_ms(heartbeat.lasts)) as _, Type::INT8),
    ];
    let rows = shared.query(DOING, statement(shared.connections.schema()), values).await?;
    rows.iter().map(|row| read_peer(&mut Reader::of(row))).collect()
}

/// Returns the statement. All CTEs see one snapshot, so the new heartbeats are added to the rows that are read.
/// The first process that comes removes the expired ones: two that removed the same rows would wait for each
/// other.
fn statement(schema: &Schema) -> String {
    format!(
        "WITH clock AS MATERIALIZED (SELECT {schema}.store_now() AS now), \
         beats AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3) AS b (account, dispatcher, status)), \
         gone AS (DELETE FROM {schema}.heartbeat h USING (SELECT o.account, o.dispatcher FROM {schema}.heartbeat o \
         WHERE (o.until_ms <= (SELECT now FROM clock) OR o.at_ms > (SELECT {schema}.later(now, $4) FROM clock)) \
         AND NOT EXISTS (SELECT FROM beats b WHERE b.account = o.account \
         AND b.dispatcher = o.dispatcher) FOR UPDATE SKIP LOCKED) old \
         WHERE h.account = old.account AND h.dispatcher = old.dispatcher), \
         left_now AS (DELETE FROM {schema}.heartbeat h USING beats b WHERE h.account = b.account \
         AND h.dispatcher = b.dispatcher AND b.status IS NULL), \
         said AS (INSERT INTO {schema}.heartbeat AS h (account, dispatcher, status, at_ms, until_ms) \
         SELECT b.account, b.dispatcher, b.status, clock.now, {schema}.later(clock.now, $4) FROM beats b, clock \
         WHERE b.status IS NOT NULL ON CONFLICT (account, dispatcher) DO UPDATE \
         SET status = excluded.status, at_ms = excluded.at_ms, until_ms = excluded.until_ms) \
         SELECT h.account, h.dispatcher, h.status, clock.now - h.at_ms FROM {schema}.heartbeat h, clock \
         WHERE h.account = ANY ($1) AND h.until_ms > clock.now AND h.at_ms <= {schema}.later(clock.now, $4) \
         AND NOT EXISTS (SELECT FROM beats b \
         WHERE b.account = h.account AND b.dispatcher = h.dispatcher) \
         UNION ALL SELECT b.account, b.dispatcher, b.status, 0::bigint FROM beats b WHERE b.status IS NOT NULL ORDER BY 1, 2"
    )
}

const DOING: &str = "write a heartbeat";
