//! Takes that leave operations out, or want another order than that of time.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use steadfast_core::internal::ext::RouteNameExt;
use steadfast_core::internal::store::to_ms;
use steadfast_core::operation::record::{Part, Takeover};
use steadfast_core::store::StoreError;

use super::row::{OPERATION, Value};
use super::take::{LOOK, OF_ACCOUNT, OPEN, READABLE, TakeValues};
use super::transaction::Transaction;

/// Returns due operations of all accounts that the taker reaches and wants, locked.
pub(super) async fn look(
    transaction: &Transaction,
    take: &Takeover,
    take_values: &TakeValues,
) -> Result<Vec<Row>, StoreError> {
    let (schema, wanted) = (transaction.shared.connections.schema(), &take.wanted);
    let (only_accounts, only_routes) = parts(&wanted.only);
    let (without_accounts, without_routes) = parts(&wanted.without);
    let since = wanted.waiting_since.map(to_ms);
    let tried = format!(
        "(o.attempts > 0 OR NOT EXISTS (SELECT FROM {schema}.request r WHERE r.scope = o.scope AND r.key = o.key \
         AND r.first_fence = o.fence))"
    );
    let order = if wanted.newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT {OPERATION} FROM {schema}.operation o WHERE {OPEN} AND {OF_ACCOUNT} AND {READABLE} \
         AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now()) \
         AND o.until_ms <= (SELECT {schema}.store_now()) AND (SELECT coalesce(bool_and({ACCOUNT} = a), true) \
         FROM unnest($7) AS a) AND (SELECT coalesce(bool_and(o.scope ~ p), true) FROM unnest($8) AS p) \
         AND {ACCOUNT} <> ALL ($9) AND (SELECT coalesce(bool_and(o.scope !~ p), true) FROM unnest($10) AS p) \
         AND ($11 IS NULL OR {tried} = $11) \
         AND ($12 IS NULL OR (o.claimed_at_ms <= $12 AND (o.until_ms <= $12 OR {tried}))) \
         ORDER BY o.wake_ms {order} LIMIT $6 FOR UPDATE SKIP LOCKED"
    );
    let mut values: Vec<Value<'_>> = take_values.values(&take_values.limit).to_vec();
    values.extend([
        (&only_accounts as _, Type::TEXT_ARRAY),
        (&only_routes as _, Type::TEXT_ARRAY),
        (&without_accounts as _, Type::TEXT_ARRAY),
        (&without_routes as _, Type::TEXT_ARRAY),
        (&wanted.tried as _, Type::BOOL),
        (&since as _, Type::INT8),
    ]);
    transaction.query(LOOK, &sql, &values).await
}

/// Splits parts into paths of accounts, and patterns of routes.
fn parts(parts: &[Part]) -> (Vec<String>, Vec<String>) {
    let (mut accounts, mut routes) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Account(path) => accounts.push(path.clone()),
            Part::Route(name) => routes.push(name.pattern()),
        }
    }
    (accounts, routes)
}

/// SQL of an operation's account, as the index of due operations has it.
const ACCOUNT: &str =
    "substr(o.scope, 1, length(o.vendor) + strpos(substr(o.scope, length(o.vendor) + 2), '/'))";
