//! Defaults that a role or a database sets for its sessions: another isolation, no writes, short times.

use std::sync::Arc;

use steadfast::operation::record::Claimed;
use steadfast::store::{Postgres, Store, StoreErrorKind};

use super::driven::fresh_schema;
use super::{error_text, opened, refused};
use support::calls::{claim_of, id};
use support::pooler::Pooler;
use support::server::{self, ASLEEP, Server};

/// A superuser with such a default of its own.
fn role(server: &Server, name: &str, default: &str) {
    server.sql(&format!(
        "DROP ROLE IF EXISTS {name}; CREATE ROLE {name} SUPERUSER LOGIN; ALTER ROLE {name} SET {default}"
    ));
}

/// 40 claimants for each of 20 keys, half of them through each store.
async fn one_of_each_holds(stores: &[Arc<Postgres>; 2]) {
    for round in 0..20 {
        let id = id(&format!("order-{round}"));
        let claims = (0..40).map(|nth| {
            let store = Arc::clone(&stores[nth % 2]);
            let claim = claim_of(&*store, &id);
            tokio::spawn(async move { store.claim(claim).await })
        });
        let (mut fresh, mut busy) = (0, 0);
        for result in claims.collect::<Vec<_>>() {
            match result.await.expect("no panic").expect("no claim fails, whatever the role's default is") {
                Claimed::Fresh(_) => fresh += 1,
                Claimed::Busy { .. } => busy += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((fresh, busy), (1, 39));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_role_with_another_default_isolation_claims_correctly() {
    let Some(server) = server::shared() else { return };
    for (name, isolation) in [("strict", "serializable"), ("repeats", "repeatable read")] {
        role(server, name, &format!("default_transaction_isolation = '{isolation}'"));
        let schema = fresh_schema("isolated");
        let url = server.url_as(name, "postgres", &schema);
        let stores = [(); 2].map(|()| Arc::new(opened(&url).expect("it opens")));
        one_of_each_holds(&stores).await;
        // The URL's own options stay.
        let own = format!("{url}&options=-c%20statement_timeout%3D12345");
        let own = opened(&own).expect("it opens");
        own.claim(claim_of(&own, &id("own"))).await.expect("claimed");
    }
}

/// A claim of such a role may be lost after the vendor has charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_role_whose_commits_may_be_lost_opens_all_the_same() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("lossy");
    role(server, "lossy", "synchronous_commit = off");
    opened(&server.url_as("lossy", "postgres", &schema)).expect("it opens: that is overridden");
}

/// A pooler's session must not be changed by the store. If it has the role's isolation, the store reports that
/// and does not open.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_a_pooler_another_isolation_is_refused() {
    let Some(server) = server::shared() else { return };
    let Some(pooler) = Pooler::start(server, &[]) else { return };
    let schema = fresh_schema("pooled");
    let store = opened(&pooler.url(&schema)).expect("it opens, also where options are refused");
    store.claim(claim_of(&store, &id("order-1"))).await.expect("claimed");
    drop(store);
    server.sql("CREATE DATABASE strict");
    server.sql("ALTER DATABASE strict SET default_transaction_isolation = 'serializable'");
    let strict = pooler.url(&schema).replace("/postgres?", "/strict?");
    let text = refused(&strict, StoreErrorKind::Unsupported);
    assert!(text.contains("serializable") && text.contains("read committed"), "{text}");
    // Without the pooler it opens.
    opened(&server.url_as("postgres", "strict", &schema)).expect("it opens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_only_role_and_short_timeouts_give_their_own_errors() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("defaults");
    drop(opened(&server.url(&schema)).expect("the schema is made"));
    role(server, "lookers", "default_transaction_read_only = on");
    let store = opened(&server.url_as("lookers", "postgres", &schema)).expect("it opens, to look");
    let error = store.claim(claim_of(&store, &id("order-1"))).await.expect_err("it may not");
    let text = error_text(&error, StoreErrorKind::ReadOnly);
    assert!(text.contains("default_transaction_read_only"), "{text}");

    // Its sessions end when they are idle in a transaction, at once; the store's transactions have limits of
    // their own.
    role(server, "hasty", "idle_in_transaction_session_timeout = 1");
    let store = opened(&server.url_as("hasty", "postgres", &schema)).expect("it opens");
    for nth in 0..20 {
        let claim = claim_of(&store, &id(&format!("order-{nth}")));
        let due = Some(claim.now);
        let sequence = Some(steadfast::Sequence::new("s"));
        // In a sequence it needs a transaction of several statements.
        let claim = steadfast::operation::record::Claim { due, sequence, ..claim };
        assert!(matches!(store.claim(claim).await.expect("claimed"), Claimed::Fresh(_)));
    }

    role(server, "curt", "statement_timeout = 300");
    let store = opened(&server.url_as("curt", "postgres", &schema)).expect("it opens");
    let lock = format!("BEGIN; LOCK TABLE {schema}.operation; SELECT pg_sleep(2); COMMIT");
    let locked = tokio::task::spawn_blocking(move || server::shared().map(|server| server.sql(&lock)));
    server.until_one_waits(ASLEEP, &schema);
    let error = store.claim(claim_of(&store, &id("curt"))).await.expect_err("it is cut off");
    error_text(&error, StoreErrorKind::TimedOut);
    locked.await.expect("no panic");
    store.claim(claim_of(&store, &id("curt"))).await.expect("claimed");
}
