//! What a dispatcher finds with one look.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::While;
use super::notes;
use super::outbox::have_rows;
use super::sealed;
use super::write::{DUE, FAR_MAX, OF_A_WRONG_CLOCK, OF_ACCOUNT};
use crate::clock::Timestamp;
use crate::operation::Scope;
use crate::operation::record::{CLOCKS_DIFFER_MAX, Phase};
use crate::store::numbers::{from_ms, phase_number, to_ms};
use crate::store::seals::Seals;
use crate::store::{Look, Sight, StoreError, Waiting};

/// What there is for the accounts, and whether there is something to purge.
pub(super) fn look(connection: &Connection, look: &Look, seals: &Seals) -> Result<Sight, StoreError> {
    let now = notes::saw(connection, look.now)?.now(look.now);
    let waiting = look.accounts.iter().map(|account| {
        let first = |phase, until| first_of(connection, (phase, account), (look.now, until), seals);
        Ok(Waiting {
            due: first(Phase::Scheduled, look.until)?,
            lapsed: first(Phase::InProgress, look.now)?.is_some(),
        })
    });
    let waiting = waiting.collect::<Result<Vec<Waiting>, StoreError>>()?;
    let mut statement = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM operation WHERE phase > 2 AND until_ms IS NOT NULL AND until_ms <= ?1)",
        )
        .while_doing(DOING)?;
    let expired = statement.query_row([to_ms(now)], |row| row.get(0)).while_doing(DOING)?;
    let rows = match &*look.outbox {
        [] => None,
        accounts => Some(have_rows(connection, accounts)?),
    };
    Ok(Sight { waiting, expired, rows })
}

/// When the first of this account ends, if that is by `until`; at once, if a clock that was wrong put it far off.
fn first_of(
    connection: &Connection,
    (phase, account): (Phase, &str),
    (now, until): (Timestamp, Timestamp),
    seals: &Seals,
) -> Result<Option<Timestamp>, StoreError> {
    let scope = Scope::from_stored(account);
    let first = |clause: &str, time: Timestamp| {
        let sql = format!(
            "SELECT until_ms FROM operation WHERE phase < 3 AND phase = ?1 {OF_ACCOUNT} {} AND {clause} \
             ORDER BY until_ms LIMIT 1",
            sealed::readable_rows(seals)
        );
        let mut statement = connection.prepare_cached(&sql).while_doing(DOING)?;
        let params = params![phase_number(phase), to_ms(time), FAR_MAX as i64, scope.vendor_path(), account];
        let found = statement.query_row(params, |row| row.get::<_, i64>(0)).optional();
        Ok(found.while_doing(DOING)?.map(from_ms))
    };
    let in_time = first(DUE, until)?;
    if in_time.is_some_and(|at| at <= now) {
        return Ok(in_time);
    }
    let far = first(OF_A_WRONG_CLOCK, now.plus(CLOCKS_DIFFER_MAX))?;
    Ok(far.map(|_| now).or(in_time))
}

const DOING: &str = "look what there is to do";
