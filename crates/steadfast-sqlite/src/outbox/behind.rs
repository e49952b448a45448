//! Writes of the store into its own outbox, for a call whose sequence has earlier rows there.

use rusqlite::{Connection, params_from_iter};

use steadfast_core::internal::store::{Account, Statement};
use steadfast_core::store::StoreError;

use crate::failure::ErrorContext;

pub(super) fn write(connection: &Connection, statements: &[Statement]) -> Result<(), StoreError> {
    let doing = "write a row of the outbox";
    for Statement { sql, values, .. } in statements {
        let mut prepared = connection.prepare_cached(sql).while_doing(doing)?;
        prepared.execute(params_from_iter(values)).while_doing(doing)?;
    }
    Ok(())
}

pub(super) fn holds_back(
    connection: &Connection,
    Account { namespace, vendor, account }: &Account,
    sequence: &str,
) -> Result<bool, StoreError> {
    let doing = "look for a sequence in the outbox";
    let mut statement = connection.prepare_cached(HOLDS_BACK).while_doing(doing)?;
    statement.exists([namespace, vendor, account, sequence]).while_doing(doing)
}

const HOLDS_BACK: &str = "SELECT 1 FROM steadfast_outbox WHERE namespace = ?1 AND vendor = ?2 AND account = ?3 \
     AND sequence = ?4 AND (rejected_at_ms IS NULL OR on_dead_letter = 'hold')";
