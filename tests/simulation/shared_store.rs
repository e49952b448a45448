//! The store as a process sees it: it takes a moment, is where processes die and stand still, and fails.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast::attempt::AttemptReport;
use steadfast::clock::Timestamp;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, AuditEntry, Claim, Claimed, Cursor, Declined, Event, Filter, Forbidden, Page, Record, Summary, Take,
    Tally, Transition,
};
use steadfast::store::{Store, StoreError};

use crate::plan::{When, ms};
use crate::process::Life;

/// One process's way to the store that all share.
#[derive(Debug)]
pub struct SharedStore {
    pub life: Arc<Life>,
    pub inner: Arc<dyn Store>,
}

impl SharedStore {
    /// Carries `operation` out a moment from now, unless the process is dead by then. A write that is under way
    /// when its process dies is done or not done, whichever the moment says.
    async fn carry_out<T>(
        &self,
        name: impl Fn() -> String,
        operation: impl Future<Output = Result<T, StoreError>>,
        outcome: impl Fn(&T) -> String,
    ) -> Result<T, StoreError> {
        let life = &self.life;
        let nth = life.store_operation();
        let failed = |what: &str| {
            life.world.note(|| format!("p{} store {nth} {}: fails {what}", life.process, name()));
            Err(StoreError::new("the simulation's"))
        };
        let fails_before = life.meets(When::BeforeStore(nth));
        life.goes_on().await;
        if fails_before {
            return failed("before");
        }
        life.world.clock.latency(life.world.draw.within(ms(0)..ms(4))).await;
        if life.is_dead() {
            life.goes_on().await;
        }
        let result = operation.await?;
        life.world.note(|| format!("p{} store {nth} {}: {}", life.process, name(), outcome(&result)));
        let fails_after = life.meets(When::AfterStore(nth));
        life.world.clock.latency(life.world.draw.within(ms(0)..ms(4))).await;
        life.goes_on().await;
        if fails_after { failed("after") } else { Ok(result) }
    }
}

fn event(event: &Event) -> &'static str {
    match event {
        Event::Renew { .. } => "renew",
        Event::Schedule { .. } => "schedule",
        Event::Succeed { .. } => "succeed",
        Event::Refuse { .. } => "refuse",
        Event::Bury { .. } => "bury",
        _ => "?",
    }
}

fn claimed(claimed: &Claimed) -> String {
    match claimed {
        Claimed::Fresh(_) => "fresh".to_owned(),
        Claimed::TakenOver(record) => format!("taken over, fence {}", record.fence),
        Claimed::Settled(record) => format!("settled, {}", record.state.name()),
        Claimed::Busy { .. } => "busy".to_owned(),
        Claimed::Mismatch { .. } => "mismatch".to_owned(),
    }
}

#[async_trait]
impl Store for SharedStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let key = claim.id.key.clone();
        self.carry_out(|| format!("claim {}", key.as_str()), self.inner.claim(claim), claimed).await
    }

    async fn transition(
        &self,
        id: &OperationId,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let (event, fence) = (event(&transition.event), transition.fence);
        self.carry_out(
            || format!("{event} {} under {fence}", id.key.as_str()),
            self.inner.transition(id, transition),
            |moved| {
                moved
                    .as_ref()
                    .map_or_else(|declined| format!("{declined:?}"), |record| record.state.name().to_owned())
            },
        )
        .await
    }

    async fn take(&self, take: Take) -> Result<Vec<Record>, StoreError> {
        let what = take.what;
        let keys = |taken: &Vec<Record>| {
            taken.iter().map(|record| format!("{} ", record.id.key.as_str())).collect::<String>()
        };
        self.carry_out(|| format!("take {what:?}"), self.inner.take(take), keys).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let name = || format!("act on {}", id.key.as_str());
        self.carry_out(name, self.inner.act(id, act), |acted| format!("{:?}", acted.as_ref().err())).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let name = || format!("evidence {}", id.key.as_str());
        self.carry_out(name, self.inner.append_evidence(id, reports), |_| String::new()).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.inner.evidence(id).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let name = || format!("get {}", id.key.as_str());
        self.carry_out(name, self.inner.get(id), |found| format!("{}", found.is_some())).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        let name = || "list".to_owned();
        self.carry_out(name, self.inner.list(filter, after, limit), |page| {
            format!("{} rows", page.rows.len())
        })
        .await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.inner.tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.inner.audit(id, after, limit).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner.purge(now, limit).await
    }
}
