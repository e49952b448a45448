//! The look of a dispatcher: one statement for all accounts, without a lock.
//!
//! It may report false positives: a lease that was renewed has an old entry in the index of times. A take then
//! finds nothing, and brings the index up to date.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{
    Account, FAR_MAX, Look, RowReader, Sight, Standing, Waiting, duration_ms, phase_number, to_ms,
};
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{CLOCKS_DIFFER_MAX, Phase};
use steadfast_core::store::StoreError;

use super::Shared;
use super::bounds::{self, BoundedRead, ENDED};
use super::durability::MAY_LOSE_COMMITS;
use super::outbox::not_spared;
use super::place::here;
use super::read::Given;
use super::row::{Reader, damaged};
use super::schema::Schema;
use super::standing::{self, CLOSED};
use super::take::is_as_enqueued;

pub(super) async fn look(shared: &Arc<Shared>, look: &Look) -> Result<Sight, StoreError> {
    let began = shared.time.instant();
    let begin = |phase, account: Option<&String>| shared.bounds.begin((phase, account.cloned()), began);
    let of_each = |phase| look.accounts.iter().map(|account| begin(phase, Some(account))).collect::<Vec<_>>();
    let (due, lapsed) = (of_each(Phase::Scheduled), of_each(Phase::InProgress));
    let ended = begin(ENDED, None);
    let values = values(shared, look, (&due, &lapsed, &ended));
    let rows = shared.query(DOING, statement(shared.connections.schema()), values).await?;

    let mut from = Reader::first(&rows)?;
    let now = from.time()?;
    shared.time.record(now);
    standing::check(&mut from, Standing::check_new)?;
    let expired: bool = from.next()?;
    let (believed, may_lose_commits): (_, bool) = (from.time()?, from.next()?);
    shared.durability.record(may_lose_commits, &shared.connections);
    if shared.compare_if_changed(from.next()?).await? {
        shared.check_new().await?;
    }
    let is_over = shared.time.instant();
    // An empty range is not read again. Rows that were found stay for the next take.
    let nothing = |begun: BoundedRead| shared.bounds.end(begun, is_over, now, None);
    if !expired {
        shared.bounds.end(ended, is_over, believed, None);
    }
    let mut waiting = Vec::with_capacity(look.accounts.len());
    let mut have_rows = Vec::with_capacity(look.accounts.len());
    // The first row is for all accounts.
    for (row, (due, lapsed)) in rows.iter().skip(1).zip(due.into_iter().zip(lapsed)) {
        let mut from = Reader::of(row);
        let found = waiting_of(&mut from, now)?;
        have_rows.push(from.next()?);
        if found.due.is_none_or(|due| due > now) {
            nothing(due);
        }
        if !found.lapsed {
            nothing(lapsed);
        }
        waiting.push(found);
    }
    bounds::search(shared);
    if waiting.len() != look.accounts.len() {
        return Err(damaged("a look that leaves accounts out"));
    }
    Ok(Sight { waiting, expired, rows: (!look.outbox.is_empty()).then_some(have_rows) })
}

/// Reads one account. A row whose time a wrong clock set far ahead may be taken at once.
fn waiting_of(from: &mut Reader<'_>, now: Timestamp) -> Result<Waiting, StoreError> {
    // Only the first row has these.
    let _: (Option<i64>, Option<&str>, Option<bool>) = (from.next()?, from.next()?, from.next()?);
    let due = from.next::<Option<i64>>()?.map(steadfast_core::internal::store::from_ms);
    let far_due: bool = from.next()?;
    // Only the first row has this.
    let _: Option<&str> = from.next()?;
    let (lapsed, far_lapsed): (bool, bool) = (from.next()?, from.next()?);
    let due = if far_due { Some(due.map_or(now, |due| due.min(now))) } else { due };
    Ok(Waiting { due, lapsed: lapsed || far_lapsed })
}

fn values(
    shared: &Shared,
    look: &Look,
    (due, lapsed, ended): (&[BoundedRead], &[BoundedRead], &BoundedRead),
) -> Vec<(Given, Type)> {
    let vendor = |account: &String| Scope::from_stored(account).vendor_path().to_owned();
    let vendors: Vec<String> = look.accounts.iter().map(vendor).collect();
    let from = |begun: &[BoundedRead]| begun.iter().map(|begun| begun.from).collect::<Vec<i64>>();
    let seals: Vec<Vec<u8>> = shared.seals.ids().map(|id| id.to_vec()).collect();
    let of_outbox = |part: fn(&Account) -> &String| -> (Given, Type) {
        (
            Box::new(look.outbox.iter().map(|account| part(account).clone()).collect::<Vec<_>>()),
            Type::TEXT_ARRAY,
        )
    };
    let soon = to_ms(look.until).saturating_sub(to_ms(look.now));
    vec![
        (Box::new(look.accounts.clone()), Type::TEXT_ARRAY),
        (Box::new(vendors), Type::TEXT_ARRAY),
        (Box::new(from(due)), Type::INT8_ARRAY),
        (Box::new(from(lapsed)), Type::INT8_ARRAY),
        (Box::new(seals), Type::BYTEA_ARRAY),
        (Box::new(soon), Type::INT8),
        (Box::new(ended.from), Type::INT8),
        of_outbox(|account| &account.namespace),
        of_outbox(|account| &account.vendor),
        of_outbox(|account| &account.account),
    ]
}

/// Returns the statement: a row for all, then one for each account in the order of the question.
fn statement(schema: &Schema) -> String {
    let (due, held) = (phase_number(Phase::Scheduled), phase_number(Phase::InProgress));
    let of_account = "o.vendor = a.vendor AND substr(o.scope, 1, length(a.account) + 1) \
         IN (a.account || '/', a.account || '>') AND (o.seal IS NULL OR o.seal = ANY ($5))";
    let open =
        |phase| format!("FROM {schema}.operation o WHERE o.phase < 3 AND o.phase = {phase} AND {of_account}");
    // See `take`. The row itself is read: a second search for it by name might use the index of open
    // operations.
    let far = |phase| {
        format!(
            "EXISTS (SELECT FROM (SELECT f.* FROM {schema}.operation f WHERE f.phase < 3 AND f.phase = {phase} \
             AND f.vendor = a.vendor AND f.wake_ms > clock.far ORDER BY f.wake_ms DESC LIMIT {FAR_MAX}) o \
             WHERE {of_account} AND o.updated_at_ms > clock.far AND NOT {})",
            is_as_enqueued(schema)
        )
    };
    // Selects the first row and not EXISTS: to find that there is none, the server may read the whole table.
    format!(
        "WITH clock AS MATERIALIZED (SELECT now_ms AS now, {schema}.later(now_ms, $6) AS soon, \
         {schema}.later(now_ms, {far_ms}) AS far, least(now_ms, believed_ms) AS believed FROM {schema}.see_time()) \
         SELECT clock.now, {CLOSED}, (SELECT o.wake_ms FROM {schema}.operation o WHERE o.phase > 2 AND o.wake_ms >= $7 \
         AND o.wake_ms <= clock.believed AND {not_spared} ORDER BY o.wake_ms LIMIT 1) IS NOT NULL, \
         clock.believed, {MAY_LOSE_COMMITS}, {here}, NULL::boolean, NULL::boolean, NULL::boolean, \
         0::bigint AS place \
         FROM clock, {schema}.store_state p UNION ALL \
         SELECT NULL, NULL, NULL, (SELECT o.wake_ms {due_open} AND o.wake_ms >= a.due_from AND o.wake_ms <= clock.soon \
         ORDER BY o.wake_ms LIMIT 1), {far_due}, NULL, (SELECT o.wake_ms {held_open} AND o.wake_ms >= a.held_from \
         AND o.wake_ms <= clock.now ORDER BY o.wake_ms LIMIT 1) IS NOT NULL, {far_held}, \
         EXISTS (SELECT FROM {schema}.outbox o \
         WHERE o.namespace = a.of_namespace AND o.vendor = a.of_vendor AND o.account = a.of_account \
         AND o.rejected_at_ms IS NULL), a.place \
         FROM clock, unnest($1, $2, $3, $4, $8, $9, $10) WITH ORDINALITY \
         AS a (account, vendor, due_from, held_from, of_namespace, of_vendor, of_account, place) ORDER BY place",
        far_ms = duration_ms(CLOCKS_DIFFER_MAX),
        not_spared = not_spared(schema),
        here = here(schema),
        due_open = open(due),
        held_open = open(held),
        far_due = far(due),
        far_held = far(held),
    )
}

const DOING: &str = "look for due operations";
