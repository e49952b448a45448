//! The roles that a service and its tools connect as, each with what it needs and no more.

use super::schema::Schema;

/// Makes them, unless they are there. None of them can log in: whoever does is made a member.
pub(super) fn create(schema: &Schema) -> String {
    let name = schema.name();
    let mut sql = String::new();
    for role in ["owner", "app", "dispatcher", "reader"] {
        sql.push_str(&format!(
            "DO $$ BEGIN\n    CREATE ROLE \"{name}_{role}\" NOLOGIN;\nEXCEPTION WHEN duplicate_object THEN NULL;\nEND $$;\n"
        ));
    }
    sql
}

/// Gives them their rights.
pub(super) fn grant(schema: &Schema) -> String {
    let name = schema.name();
    format!(
        r#"ALTER SCHEMA {schema} OWNER TO "{name}_owner";
GRANT USAGE ON SCHEMA {schema} TO "{name}_app", "{name}_dispatcher", "{name}_reader";
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO "{name}_app", "{name}_dispatcher", "{name}_reader";
"#
    )
}
