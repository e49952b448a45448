//! What waits, in numbers: two statements, each of which reads open operations alone.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Backlog, LATE, Peer, Queue, from_ms, phase, to_ms};
use steadfast_core::operation::{Key, Scope};
use steadfast_core::store::StoreError;

use super::Shared;
use super::row::{Reader, damaged};

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
             THEN (attempts > 0)::int::text || lpad(updated_at_ms::text, {TIME_LEN}, '0') || key END) \
             FROM (SELECT * FROM {schema}.operation WHERE phase < 3 \
             UNION ALL SELECT * FROM {schema}.operation WHERE phase = 5) o GROUP BY scope, phase ORDER BY 1, 2"
        );
        let rows = self.ask(DOING, sql, values).await?;
        let queues = rows.iter().map(|row| queue(&mut Reader::of(row))).collect::<Result<Vec<_>, _>>()?;
        let sql = format!(
            "WITH clock AS MATERIALIZED (SELECT {schema}.store_now() AS now) \
             SELECT h.account, h.dispatcher, h.status, clock.now - h.at_ms FROM {schema}.heartbeat h, clock \
             WHERE h.until_ms > clock.now AND h.at_ms <= clock.now + (h.until_ms - h.at_ms) ORDER BY 1, 2"
        );
        let rows = self.ask(DOING, sql, Vec::new()).await?;
        let peer = |row| {
            let mut from = Reader::of(row);
            let (account, dispatcher, says) = (from.next()?, from.next()?, from.next()?);
            let ago: i64 = from.next()?;
            Ok(Peer { account, dispatcher, says, ago: Duration::from_millis(ago.max(0) as u64) })
        };
        Ok(Backlog { queues, peers: rows.iter().map(peer).collect::<Result<_, StoreError>>()? })
    }
}

fn queue(from: &mut Reader<'_>) -> Result<Queue, StoreError> {
    let scope = Scope::from_stored(from.next::<String>()?);
    let number: i16 = from.next()?;
    let phase = phase(number.into()).ok_or_else(|| damaged("no such phase"))?;
    let mut count = || from.next::<i64>().map(|count| count.max(0) as u64);
    let (count, overdue, behind, tried, late) = (count()?, count()?, count()?, count()?, count()?);
    let next = from.next::<Option<i64>>()?.map(from_ms);
    // Behind the time, which is there for its order alone.
    let last: Option<String> = from.next()?;
    let last = last.and_then(|last| Key::new(last.get(1 + TIME_LEN..).unwrap_or_default()).ok());
    Ok(Queue { scope, phase, count, overdue, behind, tried, late, next, last })
}

/// As many digits as a time may have.
const TIME_LEN: usize = 19;

const DOING: &str = "count what waits";
