//! A store whose server's clock the test sets.
//!
//! The contract's commands carry their times, and a store on Postgres carries each of them out at the server's
//! now. So the schema gets a clock that reads a table, and before each command the table gets the command's
//! time.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{Act, Claim, Claimed, Declined, Forbidden, Record, Takeover, Transition};
use steadfast::store::{Postgres, PostgresBuilder, Store, StoreError, StoreErrorKind, Wrapper};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

/// Time at the opening, before the test sets the clock.
#[derive(Debug)]
pub struct Driven {
    store: Postgres,
    clock: Hand,
}

/// Sets the clock.
struct Hand {
    client: tokio_postgres::Client,
    set: String,
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hand")
    }
}

/// A PgBouncer older than 1.22.1, such as Debian 12's, may give a connection to the next client while answers on it are
/// unread, which the store before this one did not wait for (pgbouncer/pgbouncer#1034). It breaks at the first statement
/// and is gone from the pool, which has no more than four at a time.
async fn opened(builder: PostgresBuilder) -> Postgres {
    for _ in 0..12 {
        let builder = builder.clone();
        match tokio::task::spawn_blocking(move || builder.open()).await.expect("no panic") {
            Err(error) if error.kind() == StoreErrorKind::Lost => {}
            opened => return opened.expect("the store opens"),
        }
    }
    panic!("each connection of the pooler's is broken")
}

impl Driven {
    /// Opens the store in `schema` with `builder`, on a server that also answers at `url`.
    pub async fn open(builder: PostgresBuilder, url: &str, schema: &str) -> Driven {
        let store = opened(builder).await;
        let (plain, _) = url.split_once("&schema=").expect("a URL of the rig");
        let (client, connection) = tokio_postgres::connect(plain, NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        // Every role of a store may read the time.
        let make = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.test_clock (now bigint NOT NULL); \
             GRANT SELECT ON {schema}.test_clock TO PUBLIC; \
             CREATE OR REPLACE FUNCTION {schema}.store_now() RETURNS bigint LANGUAGE sql VOLATILE AS \
             $$ SELECT now FROM {schema}.test_clock $$; \
             INSERT INTO {schema}.test_clock SELECT 0 WHERE NOT EXISTS (SELECT FROM {schema}.test_clock)"
        );
        client.batch_execute(&make).await.expect("the clock is made");
        let set = format!("UPDATE {schema}.test_clock SET now = $1 WHERE now <> $1");
        Driven { store, clock: Hand { client, set } }
    }

    async fn at(&self, now: Timestamp) {
        // Not from memory: another store may be on the same schema.
        let ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] = [(&ms, Type::INT8)];
        self.clock.client.execute_typed(&self.clock.set, &values).await.expect("the clock is set");
    }
}

#[async_trait]
impl Wrapper for Driven {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.at(claim.now).await;
        self.store.claim(claim).await
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        self.at(transition.now).await;
        self.store.transition(held, transition).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.at(take.now).await;
        self.store.take(take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.at(act.now).await;
        self.store.act(id, act).await
    }

    /// Returns the test's clock, which the host shares.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        self.at(now).await;
        self.store.believed(now).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.at(now).await;
        self.store.purge(now, limit).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Driven {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.at(look.now).await;
        self.store.look(look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.at(heartbeat.now).await;
        self.store.heartbeat(heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.at(now).await;
        self.store.backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.store.versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        self.store.wakes()
    }
}

/// Returns a name for a schema that no other test of this process has.
pub fn fresh_schema(word: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{word}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
