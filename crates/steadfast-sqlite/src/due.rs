//! Due operations of several accounts, each account in its turn: see [`tenants`](crate::store::tenants).

use rusqlite::{Connection, params};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::WantedExt;
use steadfast_core::internal::operation::Waits;
use steadfast_core::internal::store::{RowReader, Seals, Stored, Tenants, behind, read_stored, to_ms};
use steadfast_core::operation::record::Takeover;
use steadfast_core::store::StoreError;

use super::failure::ErrorContext;
use super::row::columns;
use super::rows::{self, Reader};
use super::sealed;

/// Returns due operations of the accounts that this one reaches, up to the take's limit: the same number of
/// each, and the rest from the first ones.
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

/// Returns due operations of all accounts that this one reaches and the take wants, in the order of time. Of a
/// row that is left out, only the columns that decide so are read.
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

/// Returns the due times and numbers of the wanted operations of an account, up to the limit.
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
    // The limit is on rows and not on bytes: a caller asks for as many as it can process.
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

/// Returns true if more operations are due by `until`, in all accounts, than are searched for those of one.
pub(super) fn is_backlog(connection: &Connection, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM operation WHERE phase < 3 AND phase = 2 AND until_ms <= ?1 LIMIT 1 OFFSET ?2";
    let mut statement = connection.prepare_cached(sql).while_doing(DOING)?;
    statement.exists(params![to_ms(until), LOOKED_THROUGH_MAX]).while_doing(DOING)
}

/// Returns the due time of the first operation that is scheduled for an account which this one reaches, if that
/// is by `until`. The cost is a step for each of these accounts; the rows of others are not read.
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

/// Returns a CTE of account ?1 and the accounts between ?2 and ?3 with something scheduled. It goes from one to
/// the next by the index, however many operations each has.
fn tenants() -> String {
    format!(
        "WITH RECURSIVE tenant (account) AS (SELECT ?1 UNION ALL SELECT (SELECT min({ACCOUNT}) \
         FROM operation o INDEXED BY operation_due WHERE o.phase = 2 AND o.until_ms IS NOT NULL \
         AND {ACCOUNT} > max(tenant.account, ?2) AND {ACCOUNT} < ?3) FROM tenant WHERE tenant.account IS NOT NULL)"
    )
}

/// Namespace, vendor and account: the beginning of the scope. It is the expression of the index
/// `operation_due`, by which SQLite finds the index.
const ACCOUNT: &str = "substr(scope, 1, length(vendor) + instr(substr(scope, length(vendor) + 2), '/'))";

/// Maximum of due rows that are searched for those of one account: less than a millisecond's work, and more
/// than are due of all accounts where there is no backlog.
const LOOKED_THROUGH_MAX: i64 = 256;

const DOING: &str = "look for operations to take";
