//! Counts of waiting operations: two statements, each of which reads open operations alone.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Backlog, LAST_TIME_LEN, LATE, read_peer, read_queue, to_ms};
use steadfast_core::store::StoreError;

use super::Shared;
use super::row::Reader;

impl Shared {
    pub(super) async fn backlog(self: &Arc<Self>, now: Timestamp) -> Result<Backlog, StoreError> {
        let schema = self.connections.schema();
        let values =
            vec![(Box::new(to_ms(now)) as _, Type::INT8), (Box::new(to_ms(now.plus(LATE))) as _, Type::INT8)];
        let sql = format!(
            "SELECT scope, phase, count(*), count(*) FILTER (WHERE phase = 2 AND wake_ms <= $1), \
             count(*) FILTER (WHERE phase < 3 AND wake_ms IS NULL), count(*) FILTER (WHERE phase = 2 AND attempts > 0), \
             count(*) FILTER (WHERE phase = 2 AND attempts > 0 AND wake_ms > $2), \
             min(CASE WHEN wake_ms IS NOT NULL AND phase < 3 THEN until_ms END), \
             max(CASE WHEN (attempts > 0 OR updated_at_ms > claimed_at_ms) AND phase < 3 \
             THEN (attempts > 0)::int::text || lpad(updated_at_ms::text, {LAST_TIME_LEN}, '0') || key END) \
             FROM (SELECT * FROM {schema}.operation WHERE phase < 3 \
             UNION ALL SELECT * FROM {schema}.operation WHERE phase = 5) o GROUP BY scope, phase ORDER BY 1, 2"
        );
        let rows = self.query(DOING, sql, values).await?;
        let queues =
            rows.iter().map(|row| read_queue(&mut Reader::of(row))).collect::<Result<Vec<_>, _>>()?;
        let sql = format!(
            "WITH clock AS MATERIALIZED (SELECT {schema}.store_now() AS now) \
             SELECT h.account, h.dispatcher, h.status, clock.now - h.at_ms FROM {schema}.heartbeat h, clock \
             WHERE h.until_ms > clock.now AND h.at_ms <= clock.now + (h.until_ms - h.at_ms) ORDER BY 1, 2"
        );
        let rows = self.query(DOING, sql, Vec::new()).await?;
        let peers = rows.iter().map(|row| read_peer(&mut Reader::of(row)));
        Ok(Backlog { queues, peers: peers.collect::<Result<_, _>>()? })
    }
}

const DOING: &str = "count waiting operations";
