//! The server's clock goes ahead: for a moment, by a failover to one that is ahead, or after a long idle time.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Timestamp;
use steadfast::operation::record::{Claim, Claimed, Notes};
use steadfast::store::{Postgres, Store};

use super::driven::fresh_schema;
use super::opened;
use support::calls::{claim_of, held, id, settle};
use support::server::{self, Server};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A store on a server whose clock is ahead of the machine's by the value of [`Ahead::set`].
struct Ahead {
    server: &'static Server,
    store: Arc<Postgres>,
    schema: String,
}

impl Ahead {
    fn open() -> Option<Ahead> {
        let server = server::shared()?;
        let schema = fresh_schema("ahead");
        let store = Arc::new(opened(&server.url(&schema)).expect("the store opens"));
        server.sql(&format!(
            "CREATE TABLE {schema}.ahead (ms bigint); INSERT INTO {schema}.ahead VALUES (0); \
             CREATE OR REPLACE FUNCTION {schema}.store_now() RETURNS bigint LANGUAGE sql VOLATILE AS \
             $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ms FROM {schema}.ahead $$"
        ));
        Some(Ahead { server, store, schema })
    }

    fn set(&self, by: Duration) {
        self.server.sql(&format!("UPDATE {}.ahead SET ms = {}", self.schema, by.as_millis()));
    }

    /// Settles a key with this retention.
    async fn settled(&self, key: &str, keep: Duration) {
        let claim = Claim { keep, ..claim_of(&*self.store, &id(key)) };
        settle(&*self.store, &held(&*self.store, claim).await).await;
    }

    async fn purge(&self) -> usize {
        self.store.purge(Timestamp::default(), 1_000).await.expect("the store works")
    }

    async fn claim(&self, key: &str) -> Claimed {
        self.store.claim(claim_of(&*self.store, &id(key))).await.expect("the store works")
    }

    /// Returns true if the keys are still on record, checked in each way that could free one.
    async fn are_kept(&self, keys: &[String]) -> bool {
        let mut kept = self.purge().await == 0;
        for key in keys {
            kept &= matches!(self.claim(key).await, Claimed::Settled(_));
            // In a transaction of several statements, as one with a predecessor is.
            let claim = claim_of(&*self.store, &id(key));
            let predecessor = Some(claim.id.key.clone());
            let result = self.store.claim(Claim { predecessor, ..claim }).await.expect("the store works");
            kept &= matches!(result, Claimed::Settled(_));
        }
        kept
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_far_ahead_frees_no_key_and_purges_nothing() {
    let Some(store) = Ahead::open() else { return };
    let keys: Vec<String> = (0..20).map(|nth| format!("order-{nth}")).collect();
    for key in &keys {
        store.settled(key, 7 * DAY).await;
    }
    for by in [9 * DAY, 8 * DAY, 30 * DAY, 4_000 * DAY] {
        store.set(by);
        assert!(store.are_kept(&keys).await, "{by:?} ahead");
        store.set(Duration::ZERO);
        assert!(store.are_kept(&keys).await, "right again after {by:?}");
    }
    // Short retentions, and a clock that comes nearer in steps.
    store.settled("short", HOUR).await;
    for by in [70 * DAY, 3 * DAY, 5 * HOUR, 2 * HOUR] {
        store.set(by);
        assert!(store.are_kept(&["short".to_owned()]).await, "{by:?} ahead");
    }
}

/// After a failover to a clock that is days ahead, no key is freed in the hour in which an operator is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_clock_ahead_is_doubted_for_an_hour() {
    let Some(store) = Ahead::open() else { return };
    let keys = ["a".to_owned(), "b".to_owned()];
    for key in &keys {
        store.settled(key, 7 * DAY).await;
    }
    for minutes in (0..60).step_by(4) {
        store.set(9 * DAY + HOUR / 60 * minutes);
        assert!(store.are_kept(&keys).await, "minute {minutes}");
    }
    // Its records of that time are kept too, by its own clock.
    store.settled("meanwhile", 7 * DAY).await;
    store.set(9 * DAY + HOUR * 2);
    store.purge().await;
    assert!(store.are_kept(&["meanwhile".to_owned()]).await);
}

/// A quiet week-end, a service that was off for a month, a backup that was restored: the same to a store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_stores_records_expire_an_hour_after_its_next_use() {
    let Some(store) = Ahead::open() else { return };
    let mut away = Duration::ZERO;
    for idle in [3 * DAY, 31 * DAY, 400 * DAY] {
        let key = format!("old-{}", idle.as_secs());
        store.settled(&key, DAY).await;
        store.settled("purged", DAY).await;
        away += idle;
        store.set(away);
        assert!(store.are_kept(std::slice::from_ref(&key)).await, "at first, after {idle:?}");
        for minute in [1, 30, 59] {
            store.set(away + HOUR / 60 * minute);
            assert_eq!(store.purge().await, 0, "minute {minute}");
        }
        away += HOUR + HOUR / 60;
        store.set(away);
        let result = store.claim(&key).await;
        assert!(matches!(&result, Claimed::Fresh(record) if record.first_fence > 1), "{idle:?}: {result:?}");
        assert_eq!(store.purge().await, 1, "after {idle:?}");
    }
    // Who is in use all the time waits for nothing.
    store.settled("hourly", HOUR).await;
    for minutes in (0..=60).step_by(4) {
        store.set(away + HOUR / 60 * minutes);
        store.claim(&format!("busy-{minutes}")).await;
    }
    assert!(matches!(store.claim("hourly").await, Claimed::Fresh(_)));
}

/// The function in the schema and the state machine are one rule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_believes_what_the_state_machine_believes() {
    let Some(store) = Ahead::open() else { return };
    let schema = &store.schema;
    store.server.sql(&format!(
        "CREATE TABLE {schema}.times (nth int, at bigint, believed bigint, since bigint, last bigint); \
         CREATE TABLE {schema}.hand (ms bigint); INSERT INTO {schema}.hand VALUES (0); \
         CREATE OR REPLACE FUNCTION {schema}.store_now() RETURNS bigint LANGUAGE sql VOLATILE AS \
         $$ SELECT ms FROM {schema}.hand $$; UPDATE {schema}.clock SET believed_ms = NULL"
    ));
    // Seeded: steps of each length that a rule distinguishes, and back.
    let mut state: u64 = 32;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let (mut at, mut times) = (1_700_000_000_000_i64, Vec::new());
    for _ in 0..4_000 {
        let step =
            [1, 59_999, 60_000, 299_999, 300_000, 300_001, 3_599_999, 3_600_000, 3_600_001, 90_000_000]
                [next() as usize % 10];
        at = if next() % 3 == 0 { (at - step).max(0) } else { at + step };
        times.push(at);
    }
    let rows: Vec<String> = times.iter().enumerate().map(|(nth, at)| format!("({nth}, {at})")).collect();
    store.server.sql(&format!(
        "INSERT INTO {schema}.times (nth, at) VALUES {}; DO $$ DECLARE row record; BEGIN \
         FOR row IN SELECT * FROM {schema}.times ORDER BY nth LOOP UPDATE {schema}.hand SET ms = row.at; \
         UPDATE {schema}.times t SET believed = s.believed_ms FROM {schema}.see_time() s WHERE t.nth = row.nth; \
         UPDATE {schema}.times t SET since = c.doubted_from_ms, last = c.doubted_to_ms FROM {schema}.clock c \
         WHERE t.nth = row.nth; END LOOP; END $$",
        rows.join(", ")
    ));
    let text = store.server.sql(&format!(
        "SELECT believed, coalesce(since, -1), coalesce(last, -1) FROM {schema}.times ORDER BY nth"
    ));
    // The table has the written state: the state machine continues from there too.
    let ms = |time: Timestamp| i64::try_from(time.as_millis()).expect("a time of ours");
    let mut written = Notes::default();
    for (nth, (at, line)) in times.iter().zip(text.lines()).enumerate() {
        let mut notes = written;
        let must_write = notes.saw(Timestamp::from_millis(u64::try_from(*at).expect("not negative")));
        if must_write {
            written = notes;
        }
        let (since, last) = written.doubted.map_or((-1, -1), |(since, last)| (ms(since), ms(last)));
        let believed = ms(notes.believed.expect("it has seen one"));
        assert_eq!(line, format!("{believed}|{since}|{last}"), "step {nth}, at {at}");
    }
}
