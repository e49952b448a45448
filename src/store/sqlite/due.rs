//! What is due, of each account in its turn: see [`tenants`](crate::store::tenants).

use rusqlite::{Connection, params};

use super::failure::While;
use super::row::{self, COLUMNS, REST};
use super::sealed;
use super::sequence::PLACE;
use crate::clock::Timestamp;
use crate::operation::record::Take;
use crate::store::StoreError;
use crate::store::numbers::to_ms;
use crate::store::seals::Seals;
use crate::store::stored::Stored;
use crate::store::tenants::{Tenants, behind};

/// What is due of the accounts that this one reaches, as much as the take asks for: the same of each, and of what that
/// leaves the first have more.
pub(super) fn in_turn(
    connection: &Connection,
    (take, account): (&Take, &str),
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

/// From one account to the next by the index, however much each has. What waits for later is stepped over.
fn with_something_due(
    connection: &Connection,
    account: &str,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let sql = "WITH RECURSIVE tenant (account) AS (SELECT ?1 UNION ALL SELECT (SELECT min(o.account) \
         FROM operation o INDEXED BY operation_due WHERE o.phase = 2 AND o.until_ms IS NOT NULL \
         AND o.account > max(tenant.account, ?2) AND o.account < ?3) FROM tenant WHERE tenant.account IS NOT NULL) \
         SELECT account FROM tenant WHERE EXISTS (SELECT 1 FROM operation o INDEXED BY operation_due \
         WHERE o.phase = 2 AND o.until_ms IS NOT NULL AND o.account = tenant.account AND o.until_ms <= ?4)";
    let (after, before) = behind(account);
    let mut statement = connection.prepare_cached(sql).while_doing(DOING)?;
    let found = statement.query_map(params![account, after, before, to_ms(now)], |row| row.get(0));
    found.and_then(Iterator::collect).while_doing(DOING)
}

fn due(
    connection: &Connection,
    (tenant, now): (&str, Timestamp),
    (limit, passed): (usize, usize),
    seals: &Seals,
) -> Result<Vec<Stored>, StoreError> {
    // The bound is on rows and not on bytes: a caller asks for as many as it can carry on with.
    let sql = format!(
        "SELECT {COLUMNS}, {PLACE}, {REST} FROM operation INDEXED BY operation_due WHERE phase = 2 \
         AND until_ms IS NOT NULL AND account = ?1 AND until_ms <= ?2 {} ORDER BY until_ms, number LIMIT ?3 OFFSET ?4",
        sealed::readable_rows(seals)
    );
    let mut statement = connection.prepare_cached(&sql).while_doing(DOING)?;
    let (limit, passed) =
        (i64::try_from(limit).unwrap_or(i64::MAX), i64::try_from(passed).unwrap_or(i64::MAX));
    let found = statement.query_map(params![tenant, to_ms(now), limit, passed], row::stored);
    found.and_then(Iterator::collect).while_doing(DOING)
}

const DOING: &str = "look for operations to take";
