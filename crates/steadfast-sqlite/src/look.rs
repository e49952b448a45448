//! The look of a dispatcher.

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{FAR_MAX, Look, RowReader, Seals, Sight, Waiting, phase_number, to_ms};
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Phase};
use steadfast_core::store::StoreError;

use super::outbox::{have_rows, is_purgeable};
use super::write::{DUE, HAS_WRONG_TIME, OF_ACCOUNT};
use super::{due, notes, rows, sealed};

/// Returns the pending work of the accounts, and true if there is something to purge.
pub(super) fn look(connection: &Connection, look: &Look, seals: &Seals) -> Result<Sight, StoreError> {
    let now = notes::record_time(connection, look.now)?.now(look.now);
    let waiting = look.accounts.iter().map(|account| {
        let first = |phase, until| first_of(connection, (phase, account), (look.now, until), seals);
        Ok(Waiting {
            due: first(Phase::Scheduled, look.until)?,
            lapsed: first(Phase::InProgress, look.now)?.is_some(),
        })
    });
    let waiting = waiting.collect::<Result<Vec<Waiting>, StoreError>>()?;
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM operation WHERE phase > 2 AND until_ms <= ?1 AND {})",
        is_purgeable()
    );
    let expired = rows::first(connection, DOING, (&sql, [to_ms(now)]), |row| row.flag())?.unwrap_or_default();
    let rows = match &*look.outbox {
        [] => None,
        accounts => Some(have_rows(connection, accounts)?),
    };
    Ok(Sight { waiting, expired, rows })
}

/// Returns the time of the account's first operation, if that is by `until`; now, if a wrong clock set it far
/// ahead.
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
        let values = params![phase_number(phase), to_ms(time), FAR_MAX as i64, scope.vendor_path(), account];
        rows::first(connection, DOING, (&sql, values), |row| row.time())
    };
    // A look for one account does not read through another's backlog.
    let in_time = if phase == Phase::Scheduled && due::is_backlog(connection, until)? {
        due::first(connection, account, until, seals)?
    } else {
        first(DUE, until)?
    };
    if in_time.is_some_and(|at| at <= now) {
        return Ok(in_time);
    }
    let far = first(HAS_WRONG_TIME, now.plus(CLOCKS_DIFFER_MAX))?;
    Ok(far.map(|_| now).or(in_time))
}

const DOING: &str = "look for due operations";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sqlite;
    use crate::prepared::Prepared;
    use crate::row;
    use steadfast_core::internal::ext::RecordExt;
    use steadfast_core::operation::record::{Claim, Record};
    use steadfast_core::operation::{Key, OperationId};
    use steadfast_testkit::internal::claim_at;

    /// Returns the same result behind another account's backlog as without it.
    #[test]
    fn a_look_gives_each_account_its_own_due_time_beside_any_backlog() {
        let directory = support::in_memory::directory();
        let path = directory.path().join("calls.db");
        drop(Sqlite::open(&path).expect("opens"));
        let connection = Connection::open(&path).expect("opens");
        let prepared = Prepared::new(&connection);
        let at = Timestamp::from_millis;
        let schedule = |account: &str, key: u64, due: u64| {
            let scope = Scope::from_stored(format!("{account}/POST /x"));
            let id = OperationId::new(scope, Key::new(key.to_string()).expect("a key"));
            let claim = Claim { due: Some(at(due)), ..claim_at(&id, at(1)) };
            assert!(row::insert(&prepared, &Record::first(claim), 1, b"x").expect("the file works"));
        };
        let first = |account, until| {
            let due =
                first_of(&connection, (Phase::Scheduled, account), (at(500), at(until)), &Seals::default());
            due.expect("the file works").map(Timestamp::as_millis)
        };
        connection.execute_batch("BEGIN").expect("begins");
        schedule("n/v/b", 0, 450);
        schedule("n/v/b", 1, 480);
        schedule("n/v/c>x", 2, 440);
        schedule("n/v/c>y", 3, 900);
        schedule("n/v/d", 4, 700);
        let looked_at = || {
            ["n/v/a", "n/v/b", "n/v/c", "n/v/c>x", "n/v/c>y", "n/v/d", "n/v/e"]
                .map(|account| first(account, 600))
        };
        let expected = [None, Some(450), Some(440), Some(440), None, None, None];
        assert!(!due::is_backlog(&connection, at(600)).expect("the file works"));
        assert_eq!(looked_at(), expected);
        for key in 0..300 {
            schedule("n/v/a", 10 + key, 100 + key);
        }
        assert!(due::is_backlog(&connection, at(600)).expect("the file works"));
        assert_eq!(looked_at(), [Some(100), Some(450), Some(440), Some(440), None, None, None]);
        assert_eq!((first("n/v/d", 700), first("n/v/c>y", 899)), (Some(700), None));
    }
}
