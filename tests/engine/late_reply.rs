//! A store whose answer comes late: the write was in time, and the holder gets to know of it when its lease is over.

use std::sync::Arc;
use std::time::Duration;

use steadfast::attempt::AttemptReport;
use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, AuditEntry, Claim, Claimed, Cursor, Declined, Event, Filter, Forbidden, Page, Record, Summary, Take,
    Tally, Transition,
};
use steadfast::store::{Memory, Store, StoreError};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Client, Obtained};

use super::vendor::Acme;
use super::{Bench, ms, plain, secs};

/// Renews at once, and says so only after a while.
#[derive(Debug)]
struct LateReply {
    store: Arc<Memory>,
    clock: TestClock,
    late: Duration,
}

#[async_trait::async_trait]
impl Store for LateReply {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.store.claim(claim).await
    }

    async fn transition(
        &self,
        record: &Record,
        step: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let renews = matches!(step.event, Event::Renew { .. });
        let moved = self.store.transition(record, step).await;
        if renews && matches!(moved, Ok(Ok(_))) {
            self.clock.latency(self.late).await;
        }
        moved
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.store.get(id).await
    }

    async fn take(&self, take: Take) -> Result<Vec<Record>, StoreError> {
        self.store.take(take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.store.act(id, act).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.store.append_evidence(id, reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.store.evidence(id).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.store.list(filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.store.tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.store.audit(id, after, limit).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.purge(now, limit).await
    }
}

#[tokio::test]
async fn whoever_learns_of_a_renewal_when_it_is_over_does_not_send() {
    let mut vendor = Acme::searchable();
    vendor.settle = Duration::ZERO;
    let (clock, store) = (TestClock::new(), Arc::new(Memory::new()));
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let late = LateReply { store: Arc::clone(&store), clock: clock.clone(), late: secs(3_600) };
    let client = Client::builder(vendor.clone())
        .policy(plain())
        .transport(transport.clone())
        .clock(clock.clone())
        .random(FixedRandom::at(0.5))
        .store(late)
        .namespace("test")
        .build()
        .expect("a client");
    let first = Bench { client, transport, clock: clock.clone(), store };
    let charge = first.charge();
    let waiting = tokio::spawn(async move { charge.send().await });
    clock.until_sleeping(1).await;
    // The backoff is over; the renewal before the second send is made, and its reply is on its way.
    clock.advance(ms(500));
    while clock.sleeping() == 0 {
        tokio::task::yield_now().await;
    }
    clock.advance(secs(1_800));
    let absent = serde_json::json!([]);
    let other = first.another_process(vendor, ScriptedTransport::new().json(200, absent).status(200));
    let recovered = other.client.recover(1).await.expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded, other.charges_sent()), (1, 1, 1));
    clock.advance(secs(1_800));
    let reply = waiting.await.expect("no panic").expect("the other's success");
    assert_eq!((reply.obtained(), first.charges_sent()), (Obtained::Replayed, 1));
}
