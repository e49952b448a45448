//! Facts of a schema's [place](crate::store::place). They are compared when the store is opened, at each
//! connection, and when a look for work finds that they have changed meanwhile.
//!
//! Three facts stay as they are through a restart, a failover, a migration, a rename: the cluster's system
//! identifier, the oid of the database, the oid of the schema. A database that was copied, a schema that was
//! restored and a cluster that `pg_upgrade` made have others. A replica that was promoted and a base backup
//! have the same: the facts do not reveal them.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::store::{Facts, Judged, Noted, Place, RowReader, Stage, Standing, to_ms};
use steadfast_core::store::{StoreError, StoreErrorKind};

use super::connect::Connect;
use super::failure::failure;
use super::read::Given;
use super::row::Reader;
use super::schema::Schema;
use super::transaction::{Decision, Transaction, in_transaction};
use super::{Shared, standing};

/// Compares the place on record with that of the connection. Records the place, or that the store is displaced.
/// Settled records can still be read.
///
/// # Errors
///
/// [`StoreErrorKind::Displaced`] where the place is another one and the role or the server may not write that
/// down. The error of a server that does not answer.
pub(super) async fn check(client: &Client, connect: &Connect) -> Result<(), StoreError> {
    let schema = connect.address.schema();
    let Some(FoundPlace { place, here, now, standing }) =
        look(client, schema, connect.address.is_portable()).await?
    else {
        return Ok(());
    };
    connect.set_place_seen(here);
    if standing.stage == Stage::Displaced {
        connect.log_displaced(&standing);
    }
    if standing.stage != Stage::Open {
        return Ok(());
    }
    let is_used = match place.difference() {
        Some(_) => is_used(client, schema).await?,
        None => true,
    };
    match place.judge(now, || Ok::<_, StoreError>(is_used))? {
        Judged::Same => Ok(()),
        Judged::Note(noted) => {
            let (noted, before) = (noted.to_text()?, place.noted.as_ref().map(Noted::to_text).transpose()?);
            let sql = format!("SELECT {schema}.note_place($1, $2)");
            let written = client.query_typed(&sql, &[(&noted, Type::TEXT), (&before, Type::TEXT)]).await;
            match written.map_err(|error| failure(NOTE, error)) {
                // A role that may only read records nothing, and neither does a replica.
                Err(error) if !may_write(&error) => Ok(()),
                written => written.map(drop),
            }
        }
        Judged::Displaced(why) => {
            let displaced = Standing::displaced(why);
            let sql = format!("SELECT {schema}.displace($1)");
            let written = client.query_typed(&sql, &[(&displaced.to_text()?, Type::TEXT)]).await;
            match written.map_err(|error| failure(NOTE, error)) {
                Err(error) if !may_write(&error) => {
                    let problem = displaced.to_string();
                    return Err(StoreError::with_source(problem, error).of_kind(StoreErrorKind::Displaced));
                }
                written => drop(written?),
            }
            connect.log_displaced(&displaced);
            Ok(())
        }
    }
}

fn may_write(error: &StoreError) -> bool {
    !matches!(error.kind(), StoreErrorKind::ReadOnly | StoreErrorKind::Denied)
}

/// Facts that a connection found.
struct FoundPlace {
    place: Place,
    /// The value of [`here`].
    here: String,
    /// The server's time.
    now: Timestamp,
    standing: Standing,
}

/// Reads place and standing; `None` where there is no schema (yet).
async fn look(client: &Client, schema: &Schema, is_portable: bool) -> Result<Option<FoundPlace>, StoreError> {
    // Not every server has the function, and not every role may call it.
    for with_system in [true, false] {
        if with_system && is_portable {
            continue;
        }
        let rows = client.query_typed(&statement(schema, with_system), &[(&schema.name(), Type::TEXT)]).await;
        match rows.map_err(|error| failure(LOOK, error)) {
            Ok(rows) => {
                let mut from = Reader::first(&rows)?;
                let now = from.time()?;
                let standing = standing_of(from.next()?)?;
                let place = read(&mut from)?;
                return Ok(Some(FoundPlace { place, here: from.next()?, now, standing }));
            }
            Err(error) if matches!(error.kind(), StoreErrorKind::Lost | StoreErrorKind::Unreachable) => {
                return Err(error);
            }
            Err(_) if with_system => {}
            Err(error) if matches!(error.kind(), StoreErrorKind::Absent | StoreErrorKind::Older) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn statement(schema: &Schema, with_system: bool) -> String {
    let system = if with_system {
        "(SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s)"
    } else {
        "NULL::text"
    };
    format!(
        "SELECT {schema}.store_now(), p.copy_state, p.place, {system}, \
         (SELECT d.oid::bigint FROM pg_catalog.pg_database d WHERE d.datname = current_database()), \
         (SELECT n.oid::bigint FROM pg_catalog.pg_namespace n WHERE n.nspname = $1), {} FROM {schema}.store_state p",
        here(schema)
    )
}

/// Returns SQL for the facts that change where a schema is replaced under a live connection, or a pooler
/// switches the database.
pub(super) fn here(schema: &Schema) -> String {
    format!(
        "concat_ws(' ', (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()), \
         '{schema}'::regnamespace::oid, (SELECT p.place FROM {schema}.store_state p))"
    )
}

fn read(from: &mut Reader<'_>) -> Result<Place, StoreError> {
    let noted = from.next::<Option<&str>>()?.map(Noted::from_text).transpose()?;
    let (system, database, schema) = (from.next()?, from.next()?, from.next()?);
    Ok(Place { noted, found: Facts::Database { system, database, schema } })
}

fn standing_of(text: Option<&str>) -> Result<Standing, StoreError> {
    Ok(text.map(Standing::from_text).transpose()?.unwrap_or_default())
}

/// Returns true if anything is on record, was, or waits in the outbox.
async fn is_used(client: &Client, schema: &Schema) -> Result<bool, StoreError> {
    let row = client.query_typed_one(&used(schema), &[]).await.map_err(|error| failure(LOOK, error))?;
    Reader::of(&row).next()
}

/// Form of [`is_used`] for an open store.
pub(super) async fn is_store_used(shared: &Arc<Shared>) -> Result<bool, StoreError> {
    let rows = shared.query(LOOK, used(shared.connections.schema()), Vec::new()).await?;
    Reader::first(&rows)?.next()
}

fn used(schema: &Schema) -> String {
    format!(
        "SELECT purged_fence > 0 OR EXISTS (SELECT FROM {schema}.operation) OR EXISTS (SELECT FROM {schema}.outbox) \
         OR EXISTS (SELECT FROM {schema}.audit) FROM {schema}.store_state"
    )
}

/// Returns the place on record, and that of the store's connections.
pub(super) async fn place(shared: &Arc<Shared>) -> Result<Place, StoreError> {
    let schema = shared.connections.schema();
    let name = || -> Vec<(Given, Type)> { vec![(Box::new(schema.name().to_owned()), Type::TEXT)] };
    let with_system = !shared.connections.is_portable();
    let mut rows = shared.query(LOOK, statement(schema, with_system), name()).await;
    if rows.is_err() && with_system {
        rows = shared.query(LOOK, statement(schema, false), name()).await;
    }
    let rows = rows?;
    let mut from = Reader::first(&rows)?;
    let (_, _): (i64, Option<&str>) = (from.next()?, from.next()?);
    read(&mut from)
}

pub(super) async fn set(shared: &Arc<Shared>, noted: &Noted) -> Result<(), StoreError> {
    let sql = format!("UPDATE {}.store_state SET place = $1", shared.connections.schema());
    shared.query(NOTE, sql, vec![(Box::new(noted.to_text()?), Type::TEXT)]).await.map(drop)
}

/// Rejects the outbox rows of a store that changed its place. Waits for transactions that have a row in flight:
/// a row that comes later finds the store closed.
pub(super) async fn disown_rows(shared: &Arc<Shared>, why: &str, now: Timestamp) -> Result<u64, StoreError> {
    let why = why.replace('\0', "");
    let work = move |transaction: Transaction| {
        let why = why.clone();
        async move {
            let ended = disown_within(&transaction, &why, now).await;
            transaction.finish(ended).await
        }
    };
    in_transaction(shared, work).await
}

/// Rejects the rows, in a transaction. A rejected row of this kind holds no sequence.
async fn disown_within(
    transaction: &Transaction,
    why: &str,
    now: Timestamp,
) -> Result<Decision<u64>, StoreError> {
    let doing = "reject the rows of the outbox";
    let schema = transaction.shared.connections.schema();
    transaction.run(doing, &standing::lock(schema)).await?;
    let sql = format!(
        "WITH waiting AS (SELECT number FROM {schema}.outbox WHERE rejected_at_ms IS NULL), \
         done AS (UPDATE {schema}.outbox SET on_dead_letter = 'skip', rejected = coalesce(rejected, $2), \
         rejected_at_ms = coalesce(rejected_at_ms, $1)) SELECT count(*) FROM waiting"
    );
    let rows = transaction.query(doing, &sql, &[(&to_ms(now), Type::INT8), (&why, Type::TEXT)]).await?;
    let count: i64 = Reader::first(&rows)?.next()?;
    Ok(Decision::Commit(count.max(0) as u64))
}

pub(super) const LOOK: &str = "compare the store's place";
const NOTE: &str = "record the store's place";
