//! Counts of waiting operations: two statements, each of which reads open operations alone.

use rusqlite::Connection;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Backlog, LATE, read_peer, read_queue, to_ms};
use steadfast_core::store::StoreError;

use super::rows;

pub(super) fn backlog(connection: &Connection, now: Timestamp) -> Result<Backlog, StoreError> {
    let times = [to_ms(now), to_ms(now.plus(LATE))];
    Ok(Backlog {
        queues: rows::all(connection, DOING, (QUEUES, times), |row| read_queue(row))?,
        peers: rows::all(connection, DOING, (PEERS, [to_ms(now)]), |row| read_peer(row))?,
    })
}

/// Counts of each scope and phase. A time has [`LAST_TIME_LEN`](steadfast_core::internal::store::LAST_TIME_LEN)
/// digits. The indexes are named, because SQLite would otherwise read all names, for the order in which it
/// groups.
const QUEUES: &str = "SELECT scope, phase, count(*), sum(phase = 2 AND until_ms IS NOT NULL AND until_ms <= ?1), \
                      sum(until_ms IS NULL), sum(phase = 2 AND attempts > 0), \
                      sum(phase = 2 AND attempts > 0 AND until_ms IS NOT NULL AND until_ms > ?2), min(until_ms), \
                      max(CASE WHEN attempts > 0 OR updated_at_ms > claimed_at_ms \
                      THEN printf('%d%019d', attempts > 0, updated_at_ms) || key END) \
                      FROM operation INDEXED BY operation_open WHERE phase < 3 GROUP BY scope, phase \
                      UNION ALL SELECT scope, phase, count(*), 0, 0, 0, 0, NULL, NULL \
                      FROM operation INDEXED BY operation_ended WHERE phase > 2 AND until_ms IS NULL AND phase = 5 \
                      GROUP BY scope ORDER BY 1, 2";

const PEERS: &str = "SELECT account, dispatcher, status, ?1 - at_ms FROM heartbeat \
                     WHERE until_ms > ?1 AND at_ms <= ?1 + (until_ms - at_ms) ORDER BY account, dispatcher";

const DOING: &str = "count waiting operations";
