//! The server's clock goes back: a failover to one that is behind, or an operator's change. Fences never go
//! back.

use std::sync::Arc;
use std::time::Duration;

use steadfast::dispatcher::Dispatcher;
use steadfast::operation::record::{Claim, Claimed, Phase, Record, State, Takeover};
use steadfast::store::{Postgres, Store};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast::{Client, Effect};

use super::driven::fresh_schema;
use super::opened;
use support::calls::{KEEP, claim_of, due, held, id, settle, step};
use support::server::{self, Server};

/// A store on a server whose clock is behind the machine's by the value of [`set_back`].
fn behind(server: &Server) -> (Arc<Postgres>, String) {
    let schema = fresh_schema("failover");
    let store = opened(&server.url(&schema)).expect("the store opens");
    server.sql(&format!(
        "CREATE TABLE {schema}.behind (ms bigint); INSERT INTO {schema}.behind VALUES (0); \
         CREATE OR REPLACE FUNCTION {schema}.store_now() RETURNS bigint LANGUAGE sql VOLATILE AS \
         $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - ms FROM {schema}.behind $$"
    ));
    (Arc::new(store), schema)
}

fn set_back(server: &Server, schema: &str, by: Duration) {
    server.sql(&format!("UPDATE {schema}.behind SET ms = {}", by.as_millis()));
}

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

async fn lapsed(store: &dyn Store) -> Vec<Record> {
    let take = Takeover { phase: Phase::InProgress, ..due(store, 10) };
    store.take(take).await.expect("the store works")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fence_never_goes_back_and_nothing_ends_early() {
    let Some(server) = server::shared() else { return };
    let (store, schema) = behind(server);
    // One that is settled, one whose holder died, one that is due later, one that was purged.
    let mine = claim_of(&*store, &id("settled"));
    let settled = settle(&*store, &held(&*store, mine.clone()).await).await;
    let died = held(&*store, claim_of(&*store, &id("died"))).await;
    let sent = step(&*store, &died, State::InProgress { lease_until: Default::default() });
    let sent = steadfast::operation::record::Transition {
        effect: Effect::Unknown,
        unknown_since: Some(sent.now),
        ..sent
    };
    store.transition(&died, sent).await.expect("the store works").expect("held");
    let later = claim_of(&*store, &id("later"));
    let at = later.now.plus(HOUR);
    held(&*store, Claim { due: Some(at), ..later }).await;
    let short = claim_of(&*store, &id("purged"));
    let purged = settle(&*store, &held(&*store, Claim { keep: Duration::ZERO, ..short }).await).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(store.purge(store.time(Default::default()), 10).await.expect("the store works"), 1);

    for back in [4 * MINUTE, 6 * HOUR, 400 * 24 * HOUR] {
        set_back(server, &schema, back);
        // Believed at the next answer, and not after minutes.
        store.believed(Default::default()).await.expect("the store works");
        let by_us = steadfast::clock::Clock::wall(&steadfast::clock::SystemClock::new());
        let differs = by_us.since(store.time(Default::default()));
        assert!(differs > back - MINUTE && differs < back + MINUTE, "{differs:?} {back:?}");
        // A settled operation is replayed, and neither purged nor claimed anew.
        assert_eq!(store.purge(store.time(Default::default()), 10).await.expect("the store works"), 0);
        let again = store.claim(claim_of(&*store, &id("settled"))).await.expect("the store works");
        assert!(matches!(&again, Claimed::Settled(record) if record.fence == settled.fence), "{again:?}");
        // A new life of a key that was purged has a fence above all others.
        let fresh = held(&*store, claim_of(&*store, &id(&format!("new-{}", back.as_secs())))).await;
        assert!(fresh.fence > purged.fence, "{} {}", fresh.fence, purged.fence);
        settle(&*store, &fresh).await;
    }
    let anew = held(&*store, Claim { keep: KEEP, ..claim_of(&*store, &id("purged")) }).await;
    assert!(anew.fence > purged.fence, "{} {}", anew.fence, purged.fence);
    // A lease that ends in a year comes from a wrong clock: an operation of a dead holder is found now. It is
    // taken under the next fence, and its effect is unknown, with a stored time by which it may not be sent
    // again.
    let found = lapsed(&*store).await;
    let ids: Vec<&str> = found.iter().map(|record| record.id.key.as_str()).collect();
    assert_eq!(ids, ["died"]);
    assert_eq!((found[0].fence, found[0].effect), (died.fence + 1, Effect::Unknown));
    let late = step(&*store, &died, State::Scheduled { at: store.time(Default::default()) });
    let result = store.transition(&died, late).await.expect("the store works");
    assert!(result.is_err(), "the holder of before the failover has nothing to say");
    // An operation that was enqueued for later, and was never taken, waits for its time.
    assert_eq!(store.take(due(&*store, 10)).await.expect("the store works"), []);
}

/// While the clock goes back and forth, enqueued operations are delivered once, and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dispatcher_delivers_while_the_servers_clock_jumps() {
    let Some(server) = server::shared() else { return };
    let (store, schema) = behind(server);
    let network =
        ScriptedTransport::new().always(Answer::new(http::StatusCode::OK, http::HeaderMap::new(), "{}"));
    let client = |store: Arc<dyn Store>| {
        Client::builder(Keyed::new(KeyedConfig::new("acme", "https://acme.test"), "secret"))
            .store(store)
            .transport(network.clone())
            .build()
            .expect("a client")
    };
    let other: Arc<dyn Store> = Arc::new(opened(&server.url(&schema)).expect("the store opens"));
    let (delivering, enqueuing) = (client(store), client(other));
    let _dispatcher = Dispatcher::over([&delivering]).period(Duration::from_millis(200)).start();
    for (nth, back) in [Duration::ZERO, 4 * MINUTE, Duration::ZERO, 6 * HOUR, HOUR].into_iter().enumerate() {
        set_back(server, &schema, back);
        for which in ["a", "b"] {
            let call = enqueuing.post("/x").key(format!("{nth}-{which}"));
            call.enqueue().await.expect("it is recorded");
        }
        let began = std::time::Instant::now();
        while network.requests().len() < 2 * (nth + 1) {
            assert!(began.elapsed() < 20 * Duration::from_secs(1), "nobody delivers {nth} at {back:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(network.requests().len(), 10, "each once");
}
