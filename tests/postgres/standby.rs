//! A standby that lags behind: a record that it lacks may exist all the same.

use std::sync::Arc;
use std::time::Duration;

use steadfast::Effect;
use steadfast::dead_letter::{DeadLetterError, DeadLetters};
use steadfast::operation::record::{Claim, Filter, State};
use steadfast::store::{Postgres, Store, StoreErrorKind};
use steadfast::testkit::ScriptedTransport;

use super::{error_text, opened, pay, stripe};
use support::calls::{claim_of, held, id, settle};
use support::server::{REPLICATES, Server, soon};

/// A primary, and a standby that has the earlier commits and no later ones.
fn pair() -> Option<(Server, Server)> {
    let primary = Server::start(&REPLICATES)?;
    let store = opened(&primary.url("shop")).expect("it opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        settle(&store, &held(&store, claim_of(&store, &id("before"))).await).await;
        let brief = Claim { keep: Duration::from_millis(1), ..claim_of(&store, &id("over")) };
        settle(&store, &held(&store, brief).await).await;
        held(&store, claim_of(&store, &id("open"))).await;
    });
    drop(store);
    let standby = primary.standby(&["recovery_min_apply_delay = '1h'"]);
    Some((primary, standby))
}

/// Returns the URL of both servers, the standby first.
fn both(primary: &Server, standby: &Server, more: &str) -> String {
    format!(
        "postgres://postgres@/postgres?host={}&host={}&port={},{}&schema=shop{more}",
        standby.directory().display(),
        primary.directory().display(),
        standby.port(),
        primary.port()
    )
}

#[test]
fn a_standby_never_reports_a_missing_record() {
    let Some((primary, standby)) = pair() else { return };
    let network = ScriptedTransport::new().status(200);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store: Arc<dyn Store> = Arc::new(opened(&primary.url("shop")).expect("it opens"));
    runtime.block_on(async {
        let stripe = stripe(Arc::clone(&store), &network);
        pay(&stripe, "order-1").await.expect("sent");
        settle(&*store, &held(&*store, claim_of(&*store, &id("after"))).await).await;
    });
    primary.crash();

    let behind: Arc<dyn Store> = Arc::new(opened(&standby.url("shop")).expect("it opens, to look"));
    let network = ScriptedTransport::new().status(200);
    runtime.block_on(async {
        // A record that has expired may have begun anew on the primary.
        for key in ["after", "open", "never", "over"] {
            let error = behind.get(&id(key)).await.expect_err("it may have ended, or be on record");
            assert!(error_text(&error, StoreErrorKind::ReadOnly).contains("name the primary"), "{key}");
        }
        let settled = behind.get(&id("before")).await.expect("what has ended stays as it is");
        assert!(settled.is_some_and(|record| matches!(record.state, State::Succeeded { .. })));
        let stripe = stripe(Arc::clone(&behind), &network);
        let error = pay(&stripe, "order-1").await.expect_err("it cannot be claimed");
        assert_eq!((error.effect(), network.requests().len()), (Effect::Unknown, 0), "{error:#}");
        let call = stripe.post("/v1/charges").key("order-1").form(&[("amount", "1000")]);
        let recorded = call.recorded().await;
        assert!(recorded.is_err(), "it says that there is nothing: {recorded:?}");
        // An operator does not read that it was never recorded.
        let letters = DeadLetters::new(Arc::clone(&behind));
        for key in ["order-1", "never"] {
            let found = letters.find(key).await.expect_err("the standby does not have it");
            assert!(matches!(found, DeadLetterError::Store { .. }), "{found:?}");
        }
        let unknown = Filter { wire_key: Some("never".to_owned()), ..Filter::default() };
        let error = behind.list(&unknown, None, 10).await.expect_err("the primary may have it");
        error_text(&error, StoreErrorKind::ReadOnly);
        assert_eq!(letters.find("before").await.expect("it is there"), id("before"));
        // Counts and lists show the records that are there.
        let stats = DeadLetters::new(Arc::clone(&behind)).stats().await.expect("it may look");
        assert!(format!("{stats:?}").contains("races"), "{stats:?}");
    });
}

#[test]
fn the_host_that_takes_claims_is_chosen_of_several() {
    let Some((primary, standby)) = pair() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = opened(&both(&primary, &standby, "")).expect("it opens");
    runtime.block_on(async {
        held(&store, claim_of(&store, &id("claimed"))).await;
    });
    // A caller who accepts any of them asks for that.
    let any = opened(&both(&primary, &standby, "&target_session_attrs=any")).expect("it opens, to look");
    runtime.block_on(async {
        let error = any.claim(claim_of(&any, &id("by any"))).await.expect_err("the standby was first");
        error_text(&error, StoreErrorKind::ReadOnly);
    });
    // While there is none, no caller gets an answer; once there is, it continues.
    primary.crash();
    let url = both(&primary, &standby, "");
    let short = Postgres::builder(&url).expect("a URL").wait(Duration::from_millis(200));
    let refused = short.open().expect_err("no server takes a claim");
    assert!(matches!(refused.kind(), StoreErrorKind::Unreachable | StoreErrorKind::ReadOnly), "{refused:?}");
    standby.sql("ALTER SYSTEM SET recovery_min_apply_delay = 0");
    standby.sql("SELECT pg_reload_conf()");
    standby.promote();
    runtime.block_on(async {
        let claimed = id("after the failover");
        let claim = claim_of(&store, &claimed);
        soon(|| {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(store.claim(claim.clone()))
            })
        });
        let record = store.get(&claimed).await.expect("it is the primary").expect("on record");
        assert_eq!(record.fence, 1);
        assert_eq!(store.get(&id("never")).await.expect("the primary may say so"), None);
    });
}

/// A postmaster that hangs: its kernel takes the connection, and it says nothing.
pub fn a_host_that_is_silent_hides_no_other() {
    let Some(server) = Server::start(&[]) else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "postgres://postgres@/postgres?host=127.0.0.1&host={}&port={},{}&sslmode=disable&schema=shop",
        server.directory().display(),
        silent.local_addr().expect("bound").port(),
        server.port()
    );
    let began = std::time::Instant::now();
    let store = opened(&url).expect("the other one answers");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(held(&store, claim_of(&store, &id("here"))));
}
