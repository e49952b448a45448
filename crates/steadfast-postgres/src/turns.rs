//! Due operations of several accounts, each account in its turn: see [`tenants`](crate::store::tenants).
//!
//! Nearly every client reaches one account, and one statement a second confirms that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use steadfast_core::clock::Instant;
use steadfast_core::internal::store::behind;
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{Phase, Takeover};
use steadfast_core::store::StoreError;

use super::Shared;
use super::read::Given;
use super::row::{OPERATION, Reader, Value};
use super::schema::Schema;
use super::take::TakeValues;
use super::transaction::Transaction;

/// Cache of [`is_contended`]: for each account path, the time until which the result is valid, and the result.
#[derive(Debug, Default)]
pub(super) struct ContentionCache(Mutex<HashMap<String, (Instant, bool)>>);

/// Returns true if several accounts that the taker reaches had due operations a short time ago. If not, one
/// statement takes the due operations. A newcomer beside a tenant with a million operations waits for that time
/// at most.
///
/// A look costs as much as there are dead entries in the index, which no vacuum removes under an old snapshot.
/// So it takes at most one part in so many of the time.
pub(super) async fn is_contended(
    shared: &Arc<Shared>,
    take: &Takeover,
    from: i64,
) -> Result<bool, StoreError> {
    let Some(account) = account_of(take) else { return Ok(false) };
    let began = shared.time.instant();
    let seen = shared.contention.0.lock().get(account).copied();
    if let Some((_, is_contended)) = seen.filter(|(until, _)| began < *until) {
        return Ok(is_contended);
    }
    let is_contended =
        shared.query(DOING, accounts_query(shared.connections.schema()), values(account, from)).await?.len()
            > 1;
    let ended = shared.time.instant();
    let until = ended.plus(VALID_FOR.max(ended.since(began) * QUERY_PART));
    shared.contention.0.lock().insert(account.clone(), (until, is_contended));
    Ok(is_contended)
}

/// Returns the accounts with due operations, of those that the taker reaches, in the order of their turns.
/// Empty if the take is not for due operations of an account.
pub(super) async fn due_accounts(
    transaction: &Transaction,
    take: &Takeover,
    from: i64,
) -> Result<Vec<String>, StoreError> {
    let Some(account) = account_of(take) else { return Ok(Vec::new()) };
    let values = values(account, from);
    let values: Vec<Value<'_>> = values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
    let rows =
        transaction.query(DOING, &accounts_query(transaction.shared.connections.schema()), &values).await?;
    let found = rows.iter().map(|row| Reader::of(row).next()).collect::<Result<_, _>>()?;
    Ok(transaction.shared.tenants.in_turn(account, found))
}

/// Returns the account of a take of due operations.
fn account_of(take: &Takeover) -> Option<&String> {
    take.account.as_ref().filter(|_| take.phase == Phase::Scheduled)
}

/// Returns the values of the [`accounts_query`].
fn values(account: &str, from: i64) -> Vec<(Given, Type)> {
    let (after, before) = behind(account);
    vec![
        (Box::new(account.to_owned()), Type::TEXT),
        (Box::new(Scope::from_stored(account).vendor_path().to_owned()), Type::TEXT),
        (Box::new(after), Type::TEXT),
        (Box::new(before), Type::TEXT),
        (Box::new(from), Type::INT8),
    ]
}

/// Returns a query for the accounts with due operations. Parameters: account, vendor, the range behind the
/// account, the lower bound.
///
/// It goes from one account to the next by the index, however many operations each has. Operations that wait
/// for later are skipped.
fn accounts_query(schema: &Schema) -> String {
    let open =
        format!("FROM {schema}.operation o WHERE o.phase = 2 AND o.wake_ms IS NOT NULL AND o.vendor = $2");
    format!(
        "WITH RECURSIVE tenant (account) AS (SELECT $1::text COLLATE \"C\" UNION ALL SELECT (SELECT {ACCOUNT} {open} \
         AND {ACCOUNT} > greatest(t.account, $3 COLLATE \"C\") AND {ACCOUNT} < $4 ORDER BY {ACCOUNT} LIMIT 1) \
         FROM tenant t WHERE t.account IS NOT NULL) SELECT t.account FROM tenant t WHERE (SELECT o.wake_ms {open} \
         AND {ACCOUNT} = t.account AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) \
         ORDER BY o.wake_ms LIMIT 1) IS NOT NULL"
    )
}

/// Returns due operations of these accounts, up to the limit: the same number of each, and the rest from the
/// first ones. A row may come twice, if another was committed meanwhile.
pub(super) async fn in_turn(
    transaction: &Transaction,
    (account, due_accounts): (&str, &[String]),
    take_values: &TakeValues,
) -> Result<Vec<Row>, StoreError> {
    let part = take_values.limit.unsigned_abs().div_ceil(due_accounts.len() as u64) as i64;
    let (mut rows, mut full) = (Vec::new(), Vec::new());
    for tenant in due_accounts {
        let wanted = part.min(take_values.limit - rows.len() as i64);
        if wanted <= 0 {
            break;
        }
        let found = due(transaction, tenant, take_values, (wanted, 0)).await?;
        if found.len() as i64 == part {
            full.push(tenant);
        }
        if !found.is_empty() {
            transaction.shared.tenants.took(account, tenant);
        }
        rows.extend(found);
    }
    for tenant in full {
        let wanted = take_values.limit - rows.len() as i64;
        if wanted <= 0 {
            break;
        }
        rows.extend(due(transaction, tenant, take_values, (wanted, part)).await?);
    }
    Ok(rows)
}

async fn due(
    transaction: &Transaction,
    tenant: &String,
    take_values: &TakeValues,
    (limit, passed): (i64, i64),
) -> Result<Vec<Row>, StoreError> {
    let schema = transaction.shared.connections.schema();
    let sql = format!(
        "SELECT {OPERATION}, o.wake_ms FROM {schema}.operation o WHERE o.phase = 2 AND o.wake_ms IS NOT NULL \
         AND o.vendor = $1 AND {ACCOUNT} = $2 AND (o.seal IS NULL OR o.seal = ANY ($3)) AND o.wake_ms >= $4 \
         AND o.wake_ms <= (SELECT {schema}.store_now()) AND o.until_ms <= (SELECT {schema}.store_now()) \
         ORDER BY o.wake_ms LIMIT $5 OFFSET $6 FOR UPDATE SKIP LOCKED"
    );
    let values = [
        (&take_values.vendor as _, Type::TEXT),
        (tenant as _, Type::TEXT),
        (&take_values.seals as _, Type::BYTEA_ARRAY),
        (&take_values.from as _, Type::INT8),
        (&limit as _, Type::INT8),
        (&passed as _, Type::INT8),
    ];
    transaction.query(DOING, &sql, &values).await
}

/// SQL of an operation's account, as the index has it.
const ACCOUNT: &str =
    "substr(o.scope, 1, length(o.vendor) + strpos(substr(o.scope, length(o.vendor) + 2), '/'))";

const DOING: &str = "look for operations to take";

const VALID_FOR: Duration = Duration::from_secs(1);

const QUERY_PART: u32 = 50;
