//! Heartbeats of dispatchers. Nothing else depends on them, and a copy leaves them behind.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{Heartbeat, Peer, read_peer, to_ms};
use steadfast_core::store::StoreError;

use super::rows;

pub(super) fn heartbeat(connection: &Connection, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
    let Heartbeat { now, lasts, beats } = heartbeat;
    let (at, until) = (to_ms(*now), to_ms(now.plus(*lasts)));
    rows::change(
        connection,
        DOING,
        ("DELETE FROM heartbeat WHERE until_ms <= ?1 OR at_ms > ?2", [at, until]),
    )?;
    for beat in beats {
        match &beat.says {
            Some(says) => {
                let sql = "INSERT INTO heartbeat (account, dispatcher, status, at_ms, until_ms) \
                           VALUES (?1, ?2, ?3, ?4, ?5) \
                           ON CONFLICT DO UPDATE SET status = ?3, at_ms = ?4, until_ms = ?5";
                let values = params![beat.account, beat.dispatcher, says, at, until];
                rows::change(connection, DOING, (sql, values))?;
            }
            None => {
                let sql = "DELETE FROM heartbeat WHERE account = ?1 AND dispatcher = ?2";
                rows::change(connection, DOING, (sql, [&beat.account, &beat.dispatcher]))?;
            }
        }
    }
    let mut accounts: Vec<&str> = beats.iter().map(|beat| beat.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let sql = "SELECT account, dispatcher, status, ?2 - at_ms FROM heartbeat WHERE account = ?1 ORDER BY dispatcher";
    let of_account =
        |account| rows::all(connection, DOING, (sql, params![account, to_ms(*now)]), |row| read_peer(row));
    let peers = accounts.into_iter().map(of_account).collect::<Result<Vec<_>, _>>()?;
    Ok(peers.into_iter().flatten().collect())
}

const DOING: &str = "write a heartbeat";
