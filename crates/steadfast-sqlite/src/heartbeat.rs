//! The last words of the dispatchers. Nothing else depends on them, and a copy leaves them behind.

use rusqlite::{Connection, params};

use steadfast_core::internal::store::{Heartbeat, Peer, from_ms, to_ms};
use steadfast_core::store::StoreError;

use super::failure::While;

pub(super) fn heartbeat(connection: &Connection, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
    let Heartbeat { now, lasts, beats } = heartbeat;
    let (at, until) = (to_ms(*now), to_ms(now.plus(*lasts)));
    let prepared = |sql| connection.prepare_cached(sql).while_doing(DOING);
    prepared("DELETE FROM heartbeat WHERE until_ms <= ?1 OR at_ms > ?2")?
        .execute([at, until])
        .while_doing(DOING)?;
    for beat in beats {
        match &beat.says {
            Some(says) => prepared(
                "INSERT INTO heartbeat (account, dispatcher, status, at_ms, until_ms) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET status = ?3, at_ms = ?4, until_ms = ?5",
            )?
            .execute(params![beat.account, beat.dispatcher, says, at, until]),
            None => prepared("DELETE FROM heartbeat WHERE account = ?1 AND dispatcher = ?2")?
                .execute([&beat.account, &beat.dispatcher]),
        }
        .while_doing(DOING)?;
    }
    let mut peers = Vec::new();
    let mut of_account =
        prepared("SELECT dispatcher, status, at_ms FROM heartbeat WHERE account = ?1 ORDER BY dispatcher")?;
    let mut accounts: Vec<&str> = beats.iter().map(|beat| beat.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    for account in accounts {
        let peer = |row: &rusqlite::Row<'_>| {
            let (dispatcher, says) = (row.get(0)?, row.get(1)?);
            let ago = now.since(from_ms(row.get(2)?));
            Ok(Peer { account: account.to_owned(), dispatcher, says, ago })
        };
        let found =
            of_account.query_map([account], peer).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        peers.extend(found.while_doing(DOING)?);
    }
    Ok(peers)
}

const DOING: &str = "tell the other dispatchers of this one";
