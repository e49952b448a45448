//! Creation and migration of a schema on Postgres.

use serde_json::json;

use steadfast::store::StoreErrorKind;

use crate::arguments::MigrateArguments;
use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::StorePlace;

pub(crate) fn migrate(
    place: &StorePlace,
    arguments: &MigrateArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let MigrateArguments { roles, sql } = *arguments;
    let url = place.url()?;
    let failed = |error: steadfast::store::StoreError| match error.kind() {
        StoreErrorKind::Invalid => Failure::Arguments(error.to_string()),
        _ => Failure::Upkeep(error),
    };
    if sql {
        let sql = url.migrations_as_sql(roles).map_err(failed)?;
        let answer = json!({ "from": null, "to": null, "roles": roles, "sql": sql });
        return output.put(DONE, &answer, |_, out| out.write_all(sql.as_bytes()));
    }
    let store = url.to_string();
    let (from, to) = url.migrate(roles).map_err(failed)?;
    let answer = json!({ "from": from, "to": to, "roles": roles, "sql": null });
    output.put(DONE, &answer, |_, out| {
        match from {
            0 => writeln!(out, "{store}: created the schema, version {to}")?,
            _ if from == to => writeln!(out, "{store}: the schema has version {to}, as this release needs")?,
            _ => writeln!(out, "{store}: migrated the schema from version {from} to {to}")?,
        }
        if roles {
            writeln!(out, "the roles exist, and have their rights; make each login a member of one")?;
        }
        Ok(())
    })
}
