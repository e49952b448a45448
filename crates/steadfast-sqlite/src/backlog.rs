//! What waits, in numbers: two statements, each of which reads open operations alone.

use rusqlite::{Connection, Row, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Backlog, LATE, Peer, Queue, from_ms, phase, to_ms};
use steadfast_core::operation::{Key, Scope};
use steadfast_core::store::StoreError;

use super::failure::{While, damaged};

pub(super) fn backlog(connection: &Connection, now: Timestamp) -> Result<Backlog, StoreError> {
    let mut queues = connection.prepare_cached(QUEUES).while_doing(DOING)?;
    let queues = queues.query_map(params![to_ms(now), to_ms(now.plus(LATE))], queue);
    let queues = queues.and_then(Iterator::collect).while_doing(DOING)?;
    let mut peers = connection.prepare_cached(PEERS).while_doing(DOING)?;
    let peers = peers.query_map([to_ms(now)], |row| {
        let (account, dispatcher, says) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Peer { account, dispatcher, says, ago: now.since(from_ms(row.get(3)?)) })
    });
    Ok(Backlog { queues, peers: peers.and_then(Iterator::collect).while_doing(DOING)? })
}

fn queue(row: &Row<'_>) -> rusqlite::Result<Queue> {
    let count = |at| row.get::<_, i64>(at).map(|count| count.max(0) as u64);
    let last: Option<String> = row.get(8)?;
    // Behind the time, which is there for its order alone.
    let last = last.and_then(|last| Key::new(last.get(1 + TIME_LEN..).unwrap_or_default()).ok());
    Ok(Queue {
        scope: Scope::from_stored(row.get::<_, String>(0)?),
        phase: phase(row.get(1)?).ok_or_else(|| damaged(1, "no such phase"))?,
        count: count(2)?,
        overdue: count(3)?,
        behind: count(4)?,
        tried: count(5)?,
        late: count(6)?,
        next: row.get::<_, Option<i64>>(7)?.map(from_ms),
        last,
    })
}

/// The indexes are named, because SQLite would go through all names for the sake of the order in which it groups.
const QUEUES: &str = "SELECT scope, phase, count(*), sum(phase = 2 AND until_ms IS NOT NULL AND until_ms <= ?1), \
                      sum(until_ms IS NULL), sum(phase = 2 AND attempts > 0), \
                      sum(phase = 2 AND attempts > 0 AND until_ms IS NOT NULL AND until_ms > ?2), min(until_ms), \
                      max(CASE WHEN attempts > 0 OR updated_at_ms > claimed_at_ms \
                      THEN printf('%d%019d', attempts > 0, updated_at_ms) || key END) \
                      FROM operation INDEXED BY operation_open WHERE phase < 3 GROUP BY scope, phase \
                      UNION ALL SELECT scope, phase, count(*), 0, 0, 0, 0, NULL, NULL \
                      FROM operation INDEXED BY operation_ended WHERE phase > 2 AND until_ms IS NULL AND phase = 5 \
                      GROUP BY scope ORDER BY 1, 2";

const PEERS: &str = "SELECT account, dispatcher, status, at_ms FROM heartbeat \
                     WHERE until_ms > ?1 AND at_ms <= ?1 + (until_ms - at_ms) ORDER BY account, dispatcher";

/// As many digits as a time may have.
const TIME_LEN: usize = 19;

const DOING: &str = "count what waits";
