//! Roles that a service and its tools connect as, each with the rights that it needs and no more.
//!
//! | role | what it may | for whom |
//! |---|---|---|
//! | `…_owner` | everything; the tables are its | `steadfast migrate` |
//! | `…_app` | claim, enqueue (also by SQL), settle and cancel; remove nothing | a service that calls vendors |
//! | `…_dispatcher` | what the app may, admit what is in the outbox, and purge, copy and remove terms | processes that recover and dispatch; operators |
//! | `…_reader` | look | dashboards |
//!
//! None of them can log in: a login is made a member. A schema of 52 letters leaves room for the longest name.

use super::schema::Schema;

/// Returns the names of the four roles of a schema.
fn names(schema: &Schema) -> [String; 4] {
    ["owner", "app", "dispatcher", "reader"].map(|role| format!("{}_{role}", schema.name()))
}

/// Returns SQL that creates the roles, unless they exist.
pub(super) fn create(schema: &Schema) -> String {
    let names = names(schema);
    let make = |name: &String| {
        format!(
            "DO $$ BEGIN\n    CREATE ROLE \"{name}\" NOLOGIN;\nEXCEPTION WHEN duplicate_object THEN NULL;\nEND $$;\n"
        )
    };
    let made: String = names.iter().map(make).collect();
    // A role that gives tables to another must be a member of it.
    format!("{made}GRANT \"{}\" TO CURRENT_USER;\n", names[0])
}

/// Returns a query: true if all four roles exist.
pub(super) fn exist(schema: &Schema) -> String {
    let names = names(schema).map(|name| format!("'{name}'")).join(", ");
    format!("SELECT count(*) = 4 FROM pg_catalog.pg_roles WHERE rolname IN ({names})")
}

/// Returns a query for the role that owns a schema, if it is another than ours and we are a member: new objects
/// must belong to that role.
pub(super) fn other_owner(schema: &Schema) -> String {
    format!(
        "SELECT pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(nspowner)) FROM pg_catalog.pg_namespace \
         WHERE nspname = '{}' AND pg_catalog.pg_get_userbyid(nspowner) <> current_user \
         AND pg_catalog.pg_has_role(current_user, nspowner, 'MEMBER')",
        schema.name()
    )
}

/// Returns SQL that gives the roles the tables and their rights. Run again after each step of the schema, for
/// its new objects.
pub(super) fn grant(schema: &Schema) -> String {
    let [owner, app, dispatcher, reader] = names(schema).map(|name| format!("\"{name}\""));
    let name = schema.name();
    format!(
        r#"ALTER SCHEMA {schema} OWNER TO {owner};
DO $$ DECLARE what text; BEGIN
    FOR what IN SELECT c.oid::regclass FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = '{name}'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO {owner}', what);
    END LOOP;
    FOR what IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = '{name}'::regnamespace
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO {owner}', what);
    END LOOP;
END $$;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
GRANT USAGE ON SCHEMA {schema} TO {app}, {dispatcher}, {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {app}, {dispatcher}, {reader};
GRANT INSERT, UPDATE ON {schema}.operation, {schema}.request, {schema}.outcome, {schema}.sequenced TO {app}, {dispatcher};
GRANT UPDATE ON {schema}.sequence_lock TO {app}, {dispatcher};
GRANT INSERT, UPDATE, DELETE ON {schema}.heartbeat TO {app}, {dispatcher};
GRANT INSERT ON {schema}.audit, {schema}.seal_key, {schema}.account TO {app}, {dispatcher};
GRANT DELETE ON {schema}.operation, {schema}.request, {schema}.outcome, {schema}.sequenced, {schema}.seal_key, {schema}.account TO {dispatcher};
GRANT UPDATE ON {schema}.store_state, {schema}.closing, {schema}.clock TO {dispatcher};
GRANT UPDATE, DELETE ON {schema}.outbox TO {dispatcher};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {app}, {dispatcher};
GRANT EXECUTE ON FUNCTION {schema}.store_now(), {schema}.later(bigint, bigint) TO {reader};
"#
    )
}
