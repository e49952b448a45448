//! Creates the schema, and migrates it in numbered steps.
//!
//! All steps are one transaction. It takes a lock first, so that of many processes that start at once one
//! creates the schema, and the others find it.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use steadfast_core::store::{StoreError, StoreErrorKind};

use super::connections::{Connections, Exclusive};
use super::failure::{advice, failure};
use super::roles;
use super::schema::Schema;

/// Steps of the schema, the oldest first. A step that was released is never changed.
const STEPS: &[MigrationStep] =
    &[MigrationStep { name: "first", sql: include_str!("migrations/0020_first.sql") }];

/// Version that the first step makes. Versions below it were never published.
const FIRST: u32 = 20;

struct MigrationStep {
    name: &'static str,
    /// SQL of the step, with `{schema}` for the schema's name.
    sql: &'static str,
}

impl MigrationStep {
    fn sql(&self, schema: &Schema) -> String {
        self.sql.replace("{schema}", &schema.to_string())
    }
}

/// Changes that opening a store may make to its schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    pub(super) create: bool,
    pub(super) apply: bool,
}

impl Default for Migration {
    fn default() -> Migration {
        Migration { create: true, apply: true }
    }
}

impl Migration {
    pub(super) async fn apply_at_open(self, connections: &Connections) -> Result<(), StoreError> {
        let client = connections.get().await?;
        let schema = connections.schema();
        let found = version(&client, schema).await?;
        check_session(&client).await?;
        drop(client);
        check_version(found, schema)?;
        if found == LATEST {
            return Ok(());
        }
        if !(self.create && self.apply) {
            return Err(not_migrated(found, connections));
        }
        match apply(connections, false).await {
            Ok(_) => Ok(()),
            // The role may use a schema, but not create one.
            Err(error) if error.kind() == StoreErrorKind::Denied => Err(not_migrated(found, connections)),
            Err(error) => Err(error),
        }
    }
}

/// Creates or migrates the schema. Returns its versions before and after.
pub(super) async fn apply(connections: &Connections, with_roles: bool) -> Result<(u32, u32), StoreError> {
    let mut turn = 0;
    loop {
        turn += 1;
        let applied = apply_once(connections, with_roles).await;
        match applied {
            // Without an advisory lock, the second process fails on objects that the first one created, and
            // finds them the next time.
            Err(ApplyError::Concurrent(_)) if turn < TURNS_MAX => {}
            Err(ApplyError::Concurrent(error) | ApplyError::Failed(error)) => return Err(error),
            Ok(migrated) => return Ok(migrated),
        }
    }
}

enum ApplyError {
    /// Another process creates the same objects.
    Concurrent(StoreError),
    Failed(StoreError),
}

impl ApplyError {
    fn of(doing: &'static str, error: tokio_postgres::Error) -> ApplyError {
        // Unique violation, duplicate schema, table, object; serialization failure.
        let made = ["23505", "42P06", "42P07", "42710", "40001"];
        let is_another = error.code().is_some_and(|code| made.contains(&code.code()));
        let failed = failure(doing, error);
        if is_another { ApplyError::Concurrent(failed) } else { ApplyError::Failed(failed) }
    }
}

async fn apply_once(connections: &Connections, with_roles: bool) -> Result<(u32, u32), ApplyError> {
    let schema = connections.schema();
    let mut own = connections.exclusive().await.map_err(ApplyError::Failed)?;
    begin_migration(&mut own).await.map_err(ApplyError::Failed)?;
    if !connections.is_portable() {
        let lock = format!("SELECT pg_advisory_xact_lock({})", lock_of(schema));
        own.batch_execute(&lock).await.map_err(|error| ApplyError::of(LOCK, error))?;
    }
    if with_roles {
        own.batch_execute(&roles::create(schema)).await.map_err(|error| ApplyError::of(ROLES, error))?;
    }
    let from = version(&own, schema).await.map_err(ApplyError::Failed)?;
    check_version(from, schema).map_err(ApplyError::Failed)?;
    become_owner(&own, schema).await.map_err(|error| ApplyError::of(MAKE, error))?;
    if from == 0 {
        // The owner of a schema may lack the right to create one, which the server checks even if the schema
        // exists.
        if !schema_exists(&own, schema).await.map_err(|error| ApplyError::of(MAKE, error))? {
            own.batch_execute(&create_schema(schema)).await.map_err(|error| ApplyError::of(MAKE, error))?;
        }
        own.batch_execute(&create_version_table(schema))
            .await
            .map_err(|error| ApplyError::of(MAKE, error))?;
    }
    for (number, step) in steps_after(from, STEPS) {
        own.batch_execute(&step_sql(number, step, schema))
            .await
            .map_err(|error| ApplyError::of(MAKE, error))?;
    }
    let row = own
        .query_typed_one(&roles::exist(schema), &[])
        .await
        .map_err(|error| ApplyError::of(ROLES, error))?;
    let have_roles: bool = row.try_get(0).map_err(|error| ApplyError::of(ROLES, error))?;
    if with_roles {
        // As the login role: the owner so far may not be a member of the new one.
        own.batch_execute("RESET ROLE").await.map_err(|error| ApplyError::of(ROLES, error))?;
    }
    if with_roles || (have_roles && from < LATEST) {
        own.batch_execute(&roles::grant(schema)).await.map_err(|error| ApplyError::of(ROLES, error))?;
    }
    own.commit().await.map_err(ApplyError::Failed)?;
    Ok((from, LATEST))
}

/// Begins the transaction of a migration. A step may take long on a large table. It waits for a lock only for
/// 30 s, because later statements would wait behind it.
async fn begin_migration(own: &mut Exclusive) -> Result<(), StoreError> {
    own.begin().await?;
    let limits = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '30s'";
    own.batch_execute(limits).await.map_err(|error| failure(LOCK, error))
}

/// Runs as the role that owns the schema, until the commit.
async fn become_owner(client: &Client, schema: &Schema) -> Result<(), tokio_postgres::Error> {
    match client.query_typed_opt(&roles::other_owner(schema), &[]).await? {
        Some(row) => client.batch_execute(&format!("SET LOCAL ROLE {}", row.try_get::<_, &str>(0)?)).await,
        None => Ok(()),
    }
}

async fn schema_exists(client: &Client, schema: &Schema) -> Result<bool, tokio_postgres::Error> {
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
    client.query_typed_one(there, &[(&schema.name(), Type::TEXT)]).await?.try_get(0)
}

/// Refuses a session of another isolation than READ COMMITTED. Behind a pooler, [`connect`](super::connect)
/// cannot ask for that, and a `SET` would stay behind in a session that belongs to the pooler. Refuses also a
/// database whose encoding cannot hold every request; one without an encoding takes all bytes.
async fn check_session(client: &Client) -> Result<(), StoreError> {
    let read = |error| failure("read the session's settings", error);
    // Null where a server does not know the setting.
    let ask = "SELECT current_setting('transaction_isolation'), current_setting('server_encoding', true)";
    let row = client.query_typed_one(ask, &[]).await.map_err(read)?;
    let (isolation, encoding) = (row.try_get::<_, String>(0), row.try_get::<_, Option<String>>(1));
    let (isolation, encoding) = (isolation.map_err(read)?, encoding.map_err(read)?);
    let problem = if !matches!(&*isolation, "read committed" | "read uncommitted") {
        format!(
            "the role's transactions are {isolation} by default, and a pooler prevents another: \
             ALTER ROLE … SET default_transaction_isolation = 'read committed', or connect without it"
        )
    } else if let Some(other) = encoding.filter(|encoding| !matches!(&**encoding, "UTF8" | "SQL_ASCII")) {
        format!(
            "the database's encoding is {other}, which cannot hold every request; make one with ENCODING 'UTF8'"
        )
    } else {
        return Ok(());
    };
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Unsupported))
}

/// Returns the version of the schema; 0 if there is none.
async fn version(client: &Client, schema: &Schema) -> Result<u32, StoreError> {
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n \
                 ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'steadfast_migration')";
    let read = |error| failure("read the schema's version", error);
    let row = client.query_typed_one(there, &[(&schema.name(), Type::TEXT)]).await.map_err(read)?;
    if !row.try_get::<_, bool>(0).map_err(read)? {
        return Ok(0);
    }
    let latest = format!("SELECT coalesce(max(version), 0) FROM {schema}.steadfast_migration");
    let row = client.query_typed_one(&latest, &[]).await.map_err(read)?;
    let version: i32 = row.try_get(0).map_err(read)?;
    Ok(u32::try_from(version).unwrap_or_default())
}

/// Returns the SQL that [`apply`] runs on an empty database.
pub(super) fn as_sql(schema: &Schema, with_roles: bool) -> String {
    let mut sql = String::from("BEGIN;\n");
    let mut add = |text: &str| {
        let _ = writeln!(sql, "{}\n", text.trim_end());
    };
    if with_roles {
        add(&roles::create(schema));
    }
    add(&create_schema(schema));
    add(&create_version_table(schema));
    for (number, step) in steps_after(0, STEPS) {
        add(&step_sql(number, step, schema));
    }
    if with_roles {
        add(&roles::grant(schema));
    }
    add("COMMIT;");
    sql
}

fn create_schema(schema: &Schema) -> String {
    format!("CREATE SCHEMA IF NOT EXISTS {schema};")
}

fn create_version_table(schema: &Schema) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.steadfast_migration (\n    \
         version    integer PRIMARY KEY,\n    name       text NOT NULL,\n    \
         applied_at timestamptz NOT NULL DEFAULT now()\n);"
    )
}

/// Returns the SQL of a step. Its number comes first: of two processes that apply the same step at once, it
/// stops the second.
fn step_sql(number: u32, step: &MigrationStep, schema: &Schema) -> String {
    format!(
        "INSERT INTO {schema}.steadfast_migration (version, name) VALUES ({number}, '{}');\n{}",
        step.name,
        step.sql(schema)
    )
}

/// Returns the steps that a schema of version `from` lacks, each with its number.
fn steps_after(from: u32, steps: &[MigrationStep]) -> impl Iterator<Item = (u32, &MigrationStep)> {
    (FIRST..).zip(steps).filter(move |(number, _)| *number > from)
}

fn check_version(found: u32, schema: &Schema) -> Result<(), StoreError> {
    if (1..FIRST).contains(&found) {
        let problem = format!(
            "schema {schema} has version {found}, which was never published and cannot be brought up to date; finish \
             what is open with the program that made it, and give this one another schema"
        );
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Older));
    }
    if found <= LATEST {
        return Ok(());
    }
    let problem = format!(
        "schema {schema} has version {found} of a newer release, and this one knows {LATEST}; upgrade this program"
    );
    Err(StoreError::new(problem).of_kind(StoreErrorKind::Newer))
}

/// Returns the error for a schema that is missing or too old, and may not be changed.
fn not_migrated(found: u32, connections: &Connections) -> StoreError {
    let (schema, place) = (connections.schema(), connections.place());
    let (kind, problem) = if found == 0 {
        (StoreErrorKind::Absent, format!("there is no schema {schema} of this crate at {place}"))
    } else {
        (
            StoreErrorKind::Older,
            format!("schema {schema} at {place} has version {found}, and this release needs {LATEST}"),
        )
    };
    let problem = format!("{problem}: {}", advice(kind));
    StoreError::new(problem).of_kind(kind)
}

/// Returns the advisory lock's number, from the schema's name: no other program's lock is likely to have it.
fn lock_of(schema: &Schema) -> i64 {
    let hash = Sha256::digest(format!("steadfast migrate {}", schema.name()));
    hash.iter().take(8).fold(0, |number, byte| (number << 8) | i64::from(*byte))
}

const LATEST: u32 = FIRST - 1 + STEPS.len() as u32;

/// Maximum of tries: far more than there are processes that start at the same moment.
const TURNS_MAX: u32 = 20;

const LOCK: &str = "lock the schema";
const MAKE: &str = "create the schema";
const ROLES: &str = "create the roles";

#[cfg(test)]
mod tests {
    use super::{FIRST, MigrationStep, steps_after};

    #[test]
    fn a_schema_gets_the_steps_that_it_lacks_and_no_other() {
        let steps = [MigrationStep { name: "first", sql: "" }, MigrationStep { name: "second", sql: "" }];
        let names =
            |from| steps_after(from, &steps).map(|(number, step)| (number, step.name)).collect::<Vec<_>>();
        assert_eq!(names(0), [(FIRST, "first"), (FIRST + 1, "second")]);
        assert_eq!(names(FIRST), [(FIRST + 1, "second")]);
        assert_eq!(names(FIRST + 1), []);
    }
}
