//! The schema: created once, by the first process, and only by one that may.

use steadfast::store::{Postgres, StoreErrorKind};

use super::{error_text, opened, refused};
use support::server::{self, Server};

fn versions(server: &Server, schema: &str) -> String {
    server.sql(&format!("SELECT string_agg(version || ' ' || name, ', ' ORDER BY version) FROM \"{schema}\".steadfast_migration"))
}

const ALL: &str = "20 first";

#[test]
fn a_migration_creates_the_schema_once() {
    let Some(server) = server::shared() else { return };
    let builder = Postgres::builder(&server.url("made")).expect("a URL");
    let made = builder.clone().apply_migrations(false).expect("it is made");
    assert_eq!(made, (0, 20));
    let again = builder.apply_migrations(false).expect("it is there");
    assert_eq!(again, (20, 20));
    assert_eq!(versions(server, "made"), ALL);
}

#[test]
fn one_of_many_concurrent_starts_creates_the_schema() {
    let Some(server) = server::shared() else { return };
    for (schema, portable) in [("crowd", "off"), ("portable_crowd", "on")] {
        let url = format!("{}&portable={portable}", server.url(schema));
        std::thread::scope(|scope| {
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| Postgres::builder(&url)?.open())).collect();
            for opened in opening {
                opened.join().expect("no panic").expect("it opens");
            }
        });
        assert_eq!(versions(server, schema), ALL);
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let Some(server) = server::shared() else { return };
    opened(&server.url("newer")).expect("it opens");
    server.sql("INSERT INTO newer.steadfast_migration (version, name) VALUES (99, 'of the future')");
    let text = refused(&server.url("newer"), StoreErrorKind::Newer);
    assert!(text.contains("version 99") && text.contains("upgrade this program"), "{text}");
    let builder = Postgres::builder(&server.url("newer")).expect("a URL");
    error_text(&builder.apply_migrations(true).expect_err("newer"), StoreErrorKind::Newer);
    assert_eq!(versions(server, "newer"), format!("{ALL}, 99 of the future"));
}

#[test]
fn a_schema_that_was_never_published_is_refused_and_left_as_it_is() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE SCHEMA unpublished; CREATE TABLE unpublished.steadfast_migration (version integer PRIMARY KEY, \
         name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()); CREATE TABLE unpublished.operation (key text); \
         INSERT INTO unpublished.steadfast_migration VALUES (1, 'operations'), (15, 'holder')",
    );
    let text = refused(&server.url("unpublished"), StoreErrorKind::Older);
    assert!(
        text.contains("has version 15, which was never published") && text.contains("another schema"),
        "{text}"
    );
    let builder = Postgres::builder(&server.url("unpublished")).expect("a URL");
    error_text(&builder.clone().migrate(false).open().expect_err("old"), StoreErrorKind::Older);
    error_text(&builder.apply_migrations(true).expect_err("old"), StoreErrorKind::Older);
    assert_eq!(versions(server, "unpublished"), "1 operations, 15 holder");
}

#[test]
fn an_older_schema_is_brought_up_to_date_or_refused() {
    let Some(server) = server::shared() else { return };
    let url = server.url("older");
    // As if no step had been applied yet: the state after a step that was cut off.
    server.sql(
        "CREATE SCHEMA older; CREATE TABLE older.steadfast_migration (version integer PRIMARY KEY, name text NOT NULL, \
         applied_at timestamptz NOT NULL DEFAULT now())",
    );
    let only_looks = Postgres::builder(&url).expect("a URL").migrate(false);
    let text = error_text(&only_looks.open().expect_err("nobody made it"), StoreErrorKind::Absent);
    assert!(text.contains("run `steadfast migrate`"), "{text}");
    opened(&url).expect("it opens");
    assert_eq!(versions(server, "older"), ALL);
}

#[test]
fn a_tool_does_not_create_a_missing_schema() {
    let Some(server) = server::shared() else { return };
    let url = server.url("not_there");
    let text = error_text(
        &Postgres::builder(&url).expect("a URL").create(false).open().expect_err("absent"),
        StoreErrorKind::Absent,
    );
    assert!(text.contains("\"not_there\"") && text.contains("run `steadfast migrate`"), "{text}");
    assert_eq!(server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'not_there'"), "0");
}

#[test]
fn a_role_without_the_right_gets_an_error_that_names_steadfast_migrate() {
    let Some(server) = server::shared() else { return };
    server.sql("CREATE ROLE visitor LOGIN");
    let url = server.url_as("visitor", "postgres", "visited");
    let text = refused(&url, StoreErrorKind::Absent);
    assert!(text.contains("run `steadfast migrate`"), "{text}");
    let denied = Postgres::builder(&url).expect("a URL").apply_migrations(false).expect_err("no right");
    error_text(&denied, StoreErrorKind::Denied);
}

#[test]
fn two_schemas_of_one_database_are_independent() {
    let Some(server) = server::shared() else { return };
    for schema in ["one", "user", "_two"] {
        opened(&server.url(schema)).expect(schema);
        assert_eq!(versions(server, schema), ALL, "{schema}");
    }
    let tables = "SELECT count(DISTINCT table_schema) FROM information_schema.tables \
                  WHERE table_name = 'steadfast_migration' AND table_schema IN ('one', 'user', '_two')";
    assert_eq!(server.sql(tables), "3");
}

#[test]
fn the_printed_statements_create_the_same_schema_as_a_migration() {
    let Some(server) = server::shared() else { return };
    let sql = Postgres::builder(&server.url("printed")).expect("a URL").migrations_as_sql(true);
    server.sql(&sql);
    let found = Postgres::builder(&server.url("printed")).expect("a URL").migrate(false);
    found.clone().open().expect("it is there");
    let applied = found.apply_migrations(true).expect("nothing to do");
    assert_eq!(applied, (20, 20));
}
