//! Roles: each may do its work and nothing beyond it.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::dead_letter::{DeadLetterError, DeadLetters};
use steadfast::outbox::tokio_postgres::{self, NoTls};
use steadfast::store::{Postgres, SealKeys, Store, StoreError, StoreErrorKind};
use steadfast::testkit::{ScriptedTransport, contract};
use steadfast::{Client, Effect};

use super::driven::{Driven, fresh_schema};
use super::{error_text, is_long, opened, pay, stripe};
use support::server::{self, Server};

/// Makes a schema with its roles, and gives one of them to a login.
pub fn with_login(server: &Server, schema: &str, role: &str, login: &str) {
    let builder = Postgres::builder(&server.url(schema)).expect("a URL");
    builder.apply_migrations(true).expect("made, with roles");
    server.sql(&format!("GRANT {schema}_{role} TO {login}"));
}

/// A schema with its roles, and a login for each of them: `SCHEMA_as_app` and so on.
pub fn with_roles(server: &Server, word: &str) -> String {
    let schema = fresh_schema(word);
    let builder = Postgres::builder(&server.url(&schema)).expect("a URL");
    builder.apply_migrations(true).expect("made, with roles");
    for role in ["owner", "app", "dispatcher", "reader"] {
        server.sql(&format!(
            "CREATE ROLE {schema}_as_{role} LOGIN; GRANT {schema}_{role} TO {schema}_as_{role}"
        ));
    }
    schema
}

pub fn url(server: &Server, schema: &str, role: &str) -> String {
    server.url_as(&format!("{schema}_as_{role}"), "postgres", schema)
}

/// A store in a schema of its own, which a login of that role opens, at times that the test sets.
pub async fn fresh(server: &'static Server, role: &'static str, keys: Option<SealKeys>) -> Arc<dyn Store> {
    let schema = tokio::task::spawn_blocking(move || with_roles(server, "role")).await.expect("no panic");
    let builder = Postgres::builder(&url(server, &schema, role)).expect("a URL");
    let builder = keys.into_iter().fold(builder, steadfast::store::PostgresBuilder::seal);
    Arc::new(Driven::open(builder, &server.url(&schema), &schema).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_app_claims_settles_and_cancels_and_removes_nothing() {
    let Some(server) = server::shared() else { return };
    let sealed = is_long().then(|| Some(SealKeys::new([7; 32])));
    for keys in [None].into_iter().chain(sealed) {
        let app = async || fresh(server, "app", keys.clone()).await;
        contract::check_fences(&*app().await).await;
        contract::check_lease_boundaries(&*app().await).await;
        contract::check_late_success(&*app().await).await;
        contract::check_enqueue(&*app().await).await;
        contract::check_cancellation(&*app().await).await;
        contract::check_claims_at_once(app().await).await;
        contract::check_settlements_at_once(app().await).await;
        contract::check_unauthorized_retake(&*app().await).await;
        contract::check_sequences(&*app().await).await;
        contract::check_sequence_claims(&*app().await).await;
    }
    let app = fresh(server, "app", None).await;
    let error = app.purge(Timestamp::from_millis(u64::MAX / 2), 100).await.expect_err("it may not");
    error_text(&error, StoreErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_reads_and_sends_nothing() {
    let Some(server) = server::shared() else { return };
    let schema = with_roles(server, "reader");
    let network = ScriptedTransport::new().status(200);
    let app: Arc<dyn Store> = Arc::new(opened(&url(server, &schema, "app")).expect("it opens"));
    pay(&stripe(app, &network), "order-1").await.expect("sent");

    let reader: Arc<dyn Store> = Arc::new(opened(&url(server, &schema, "reader")).expect("it opens"));
    let stats = DeadLetters::new(Arc::clone(&reader)).stats().await.expect("it may look");
    assert!(format!("{stats:?}").contains("stripe"), "{stats:?}");
    let unsent = ScriptedTransport::new().status(200);
    let error = pay(&stripe(Arc::clone(&reader), &unsent), "order-2").await.expect_err("it may not claim");
    assert_eq!((error.effect(), unsent.requests().len()), (Effect::None, 0), "{error:#}");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<StoreError>());
    assert_eq!(source.map(StoreError::kind), Some(StoreErrorKind::Denied));
    let replayed = pay(&stripe(reader, &unsent), "order-1").await;
    assert!(unsent.requests().is_empty(), "{replayed:?}");
    // Of the schema's functions it may call those that it reads with.
    let may = format!(
        "SELECT string_agg(proname, ',' ORDER BY proname) FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace \
         AND has_function_privilege('{schema}_as_reader', oid, 'EXECUTE')"
    );
    assert_eq!(server.sql(&may), "later,store_now");
}

/// Connects as a role's login, to the database beside the store.
async fn connection(server: &Server, schema: &str, role: &str) -> tokio_postgres::Client {
    let url = url(server, schema, role);
    let (plain, _) = url.split_once("&schema=").expect("a URL of the rig");
    let (client, connection) = tokio_postgres::connect(plain, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_app_that_cancels_an_unadmitted_row_gets_an_error() {
    let Some(server) = server::shared() else { return };
    let schema = with_roles(server, "cancelled");
    let network = ScriptedTransport::new().status(200);
    let open = |role| Arc::new(opened(&url(server, &schema, role)).expect("it opens"));
    let (app, dispatcher) = (stripe(open("app"), &network), stripe(open("dispatcher"), &network));

    let reminder =
        |stripe: &Client| stripe.post("/v1/charges").key("order-1").after(Duration::from_secs(3_600));
    let mut reader = connection(server, &schema, "reader").await;
    let mut transaction = reader.transaction().await.expect("begins");
    let error = reminder(&app).enqueue_in(&mut transaction).await.expect_err("a reader may not");
    assert!(format!("{error}").contains("which members of SCHEMA_app have"), "{error:#}");

    let mut own = connection(server, &schema, "app").await;
    let mut transaction = own.transaction().await.expect("begins");
    let put = reminder(&app).enqueue_in(&mut transaction).await.expect("written");
    transaction.commit().await.expect("committed");
    let reminder = put.committed();
    match reminder.cancel("paid").await.expect_err("its row is in the outbox still") {
        DeadLetterError::Store { source, .. } => {
            assert_eq!(source.kind(), StoreErrorKind::Denied, "{source}");
        }
        other => panic!("{other:?}"),
    }

    dispatcher.recover(10).await.expect("admits it");
    reminder.cancel("paid").await.expect("it is on record now");
    assert!(network.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_the_owner_rewrites_the_tables_and_other_roles_get_an_error() {
    let Some(server) = server::shared() else { return };
    let schema = with_roles(server, "wiped");
    for (role, refusal) in [("dispatcher", Some(StoreErrorKind::Denied)), ("owner", None)] {
        let store = opened(&url(server, &schema, role)).expect("it opens");
        let wiped = store.sealing().expect("Postgres has it").wipe().await;
        assert_eq!(wiped.as_ref().err().map(StoreError::kind), refusal, "{role}: {wiped:?}");
    }
}

#[test]
fn an_owner_migrates_and_owns_all_new_objects() {
    let Some(server) = server::shared() else { return };
    let schema = with_roles(server, "owned");
    let belongs = format!(
        "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"
    );
    let owner = format!("{schema}_owner");
    assert_eq!(server.sql(&belongs), owner);
    // As if the newest step had not been applied yet: a member of the owner applies it again.
    let drop_all = format!(
        "DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema} AUTHORIZATION {owner}; \
         GRANT {owner} TO {schema}_as_owner"
    );
    server.sql(&drop_all);
    let builder = Postgres::builder(&url(server, &schema, "owner")).expect("a URL");
    builder.apply_migrations(false).expect("it may");
    assert_eq!(server.sql(&belongs), owner);
    opened(&url(server, &schema, "app")).expect("the rights were given again");
    for role in ["app", "dispatcher", "reader"] {
        let may = format!("SELECT has_schema_privilege('{schema}_{role}', '{schema}', 'CREATE')");
        assert_eq!(server.sql(&may), "f", "{role}");
    }
}

#[test]
fn a_schema_that_a_service_made_is_given_to_the_roles_later() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE ROLE plain LOGIN; CREATE ROLE admin LOGIN CREATEROLE IN ROLE plain; \
         GRANT CREATE ON DATABASE postgres TO plain, admin",
    );
    for admin in ["postgres", "admin"] {
        let schema = fresh_schema("given");
        opened(&server.url_as("plain", "postgres", &schema)).expect("a service makes it at its first start");
        let builder = Postgres::builder(&server.url_as(admin, "postgres", &schema)).expect("a URL");
        builder.apply_migrations(true).unwrap_or_else(|error| panic!("{admin}: {error:?}"));
        let owners = format!(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"
        );
        assert_eq!(server.sql(&owners), format!("{schema}_owner"), "{admin}");
        let service = server.url_as("plain", "postgres", &schema);
        let refused = super::refused(&service, StoreErrorKind::Denied);
        assert!(refused.contains("migrate --roles"), "{refused}");
        server.sql(&format!("GRANT {schema}_app TO plain"));
        opened(&service).expect("as a member of the app's role");
    }
}

#[test]
fn a_members_new_objects_belong_to_the_team_of_the_schema() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE ROLE team; CREATE ROLE member LOGIN IN ROLE team; CREATE SCHEMA teams AUTHORIZATION team",
    );
    opened(&server.url_as("member", "postgres", "teams")).expect("a member may");
    let owners =
        "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'teams'::regnamespace";
    assert_eq!(server.sql(owners), "team");
}

#[test]
fn a_role_with_createrole_creates_the_roles() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("created");
    server.sql("CREATE ROLE creator LOGIN CREATEROLE; GRANT CREATE ON DATABASE postgres TO creator");
    let builder = Postgres::builder(&server.url_as("creator", "postgres", &schema)).expect("a URL");
    builder.clone().apply_migrations(true).expect("made, with roles");
    builder.apply_migrations(true).expect("nothing to do");
    let roles = format!("SELECT count(*) FROM pg_roles WHERE rolname LIKE '{schema}\\_%'");
    assert_eq!(server.sql(&roles), "4");
}
