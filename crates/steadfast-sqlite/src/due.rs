//! What is due, of each account in its turn: see [`tenants`](crate::store::tenants).

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::WantedExt;
use steadfast_core::internal::operation::Waits;
use steadfast_core::internal::store::{RowReader, Seals, Stored, Tenants, behind, read_stored, to_ms};
use steadfast_core::operation::record::Takeover;
use steadfast_core::store::StoreError;

use super::failure::While;
use super::row::columns;
use super::rows::{self, Reader};
use super::sealed;

/// What is due of the accounts that this one reaches, as much as the take asks for: the same of each, and of what that
/// leaves the first have more.
pub(super) fn in_turn(
    connection: &Connection,
    (take, account): (&Takeover, &str),
    tenants: &Tenants,
    seals: &Seals,
) -> Result<Vec<Stored>, StoreError> {
    let line = tenants.in_turn(account, with_something_due(connection, account, take.now)?);
    let part = take.limit.div_ceil(line.len().max(1));
    let (mut found, mut full) = (Vec::new(), Vec::new());
    for tenant in &line {
        let wanted = part.min(take.limit - found.len());
        if wanted == 0 {
            break;
        }
        let of_tenant = due(connection, (tenant, take.now), (wanted, 0), seals)?;
        if of_tenant.len() == part {
            full.push(tenant);
        }
        if !of_tenant.is_empty() {
            tenants.took(account, tenant);
        }
        found.extend(of_tenant);
    }
    for tenant in full {
        let wanted = take.limit - found.len();
        if wanted == 0 {
            break;
        }
        found.extend(due(connection, (tenant, take.now), (wanted, part), seals)?);
    }
    Ok(found)
}

/// What is due of all accounts that this one reaches and that the take wants, in the order of time. Rows that are left out
/// are read as far as that shows, and no further.
pub(super) fn wanted(
    connection: &Connection,
    (take, account): (&Takeover, &str),
    seals: &Seals,
) -> Result<Vec<Stored>, StoreError> {
    let mut found = Vec::new();
    for tenant in with_something_due(connection, account, take.now)? {
        found.extend(of_tenant(connection, take, &tenant, seals)?);
    }
    found.sort_unstable();
    if take.wanted.newest {
        found.reverse();
    }
    found.truncate(take.limit);
    let sql = format!("SELECT {} FROM operation WHERE number = ?1", columns());
    let rows = found.into_iter().filter_map(|(_, number)| {
        rows::first(connection, DOING, (&sql, [number]), |row| read_stored(row)).transpose()
    });
    rows.collect()
}

/// When the wanted ones of an account are due, at most as many as are asked for, and their numbers.
fn of_tenant(
    connection: &Connection,
    take: &Takeover,
    tenant: &str,
    seals: &Seals,
) -> Result<Vec<(Timestamp, i64)>, StoreError> {
    let order = if take.wanted.newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT number, scope, until_ms, claimed_at_ms, fence <> first_fence OR attempts > 0 FROM operation \
         INDEXED BY operation_due WHERE phase = 2 AND until_ms IS NOT NULL AND {ACCOUNT} = ?1 AND until_ms <= ?2 {} \
         ORDER BY until_ms {order}, number {order}",
        sealed::readable_rows(seals)
    );
    let mut statement = connection.prepare_cached(&sql).while_doing(DOING)?;
    let mut rows = statement.query(params![tenant, to_ms(take.now)]).while_doing(DOING)?;
    let mut found = Vec::new();
    while found.len() < take.limit
        && let Some(row) = rows.next().while_doing(DOING)?
    {
        let mut row = Reader::of(row);
        let (number, scope) = (row.number()?, row.scope()?);
        let (due, claimed_at, tried) = (row.time()?, row.time()?, row.flag()?);
        if take.wanted.has(&Waits { scope: &scope, tried, claimed_at, due }) {
            found.push((due, number));
        }
    }
    Ok(found)
}

fn with_something_due(
    connection: &Connection,
    account: &str,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "{} SELECT account FROM tenant WHERE EXISTS (SELECT 1 FROM operation o INDEXED BY operation_due \
         WHERE o.phase = 2 AND o.until_ms IS NOT NULL AND {ACCOUNT} = tenant.account AND o.until_ms <= ?4)",
        tenants()
    );
    let (after, before) = behind(account);
    rows::all(connection, DOING, (&sql, params![account, after, before, to_ms(now)]), |row| row.string())
}

fn due(
    connection: &Connection,
    (tenant, now): (&str, Timestamp),
    (limit, passed): (usize, usize),
    seals: &Seals,
) -> Result<Vec<Stored>, StoreError> {
    // The bound is on rows and not on bytes: a caller asks for as many as it can carry on with.
    let sql = format!(
        "SELECT {} FROM operation INDEXED BY operation_due WHERE phase = 2 AND until_ms IS NOT NULL \
         AND {ACCOUNT} = ?1 AND until_ms <= ?2 {} ORDER BY until_ms, number LIMIT ?3 OFFSET ?4",
        columns(),
        sealed::readable_rows(seals)
    );
    let (limit, passed) =
        (i64::try_from(limit).unwrap_or(i64::MAX), i64::try_from(passed).unwrap_or(i64::MAX));
    let values = params![tenant, to_ms(now), limit, passed];
    rows::all(connection, DOING, (&sql, values), |row| read_stored(row))
}

/// Whether more is due by `until`, of whichever account, than is looked through for that of one.
pub(super) fn is_backlog(connection: &Connection, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM operation WHERE phase < 3 AND phase = 2 AND until_ms <= ?1 LIMIT 1 OFFSET ?2";
    let mut statement = connection.prepare_cached(sql).while_doing(DOING)?;
    statement.exists(params![to_ms(until), LOOKED_THROUGH_MAX]).while_doing(DOING)
}

/// When the first is due that is scheduled for an account which this one reaches, if that is by `until`. It costs a step for
/// each of these accounts, and reads nothing of what others have.
pub(super) fn first(
    connection: &Connection,
    account: &str,
    until: Timestamp,
    seals: &Seals,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!(
        "{} SELECT min((SELECT until_ms FROM operation INDEXED BY operation_due WHERE phase = 2 \
         AND until_ms IS NOT NULL AND {ACCOUNT} = tenant.account AND until_ms <= ?4 {} ORDER BY until_ms LIMIT 1)) \
         FROM tenant",
        tenants(),
        sealed::readable_rows(seals)
    );
    let (after, before) = behind(account);
    let values = params![account, after, before, to_ms(until)];
    rows::first(connection, DOING, (&sql, values), |row| row.maybe_time()).map(Option::flatten)
}

/// The account ?1 and those behind it with something scheduled, which are from after ?2 to before ?3: from one to the next
/// by the index, however much each has.
fn tenants() -> String {
    format!(
        "WITH RECURSIVE tenant (account) AS (SELECT ?1 UNION ALL SELECT (SELECT min({ACCOUNT}) \
         FROM operation o INDEXED BY operation_due WHERE o.phase = 2 AND o.until_ms IS NOT NULL \
         AND {ACCOUNT} > max(tenant.account, ?2) AND {ACCOUNT} < ?3) FROM tenant WHERE tenant.account IS NOT NULL)"
    )
}

/// Namespace, vendor and account: the beginning of the scope, in the words of the index `operation_due`. SQLite finds the
/// index by them.
const ACCOUNT: &str = "substr(scope, 1, length(vendor) + instr(substr(scope, length(vendor) + 2), '/'))";

/// Less than a millisecond's work, and as much as is due of all accounts where there is no backlog.
const LOOKED_THROUGH_MAX: i64 = 256;

const DOING: &str = "look for operations to take";
