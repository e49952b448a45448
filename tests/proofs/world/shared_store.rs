//! The store as a process sees it: it takes a moment, is where processes die and stand still, and fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use steadfast::AttemptReport;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, Claim, Claimed, Declined, Filter, Forbidden, Page, Record, State, Summary, Takeover, Transition,
    is_final,
};
use steadfast::store::{Store, StoreError, StoreErrorKind, Wrapper};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};

use crate::world::plan::{When, ms};
use crate::world::process::Life;

/// One process's way to the store that all share.
#[derive(Debug)]
pub struct SharedStore {
    pub life: Arc<Life>,
    pub inner: Arc<dyn Store>,
}

impl SharedStore {
    /// Carries a claim or a transition out, with what is planned for the moments before and after it.
    pub async fn write<T>(
        &self,
        name: impl Fn() -> String,
        operation: impl Future<Output = Result<T, StoreError>>,
        outcome: impl Fn(&T) -> String,
    ) -> Result<T, StoreError> {
        let nth = self.life.write();
        let fails = self.life.meets(When::BeforeWrite(nth));
        self.life.goes_on().await;
        if fails || self.is_locked().await {
            return self.failed("before", &name());
        }
        let result = self.carry_out(&name, operation, outcome).await;
        let fails = self.life.meets(When::AfterWrite(nth));
        self.life.goes_on().await;
        if fails { self.failed("after", &name()) } else { result }
    }

    /// Carries `operation` out a moment from now, unless the process is dead by then: what is under way when a
    /// process dies is done or not done, whichever the moment says. A process that only stands still has it done.
    /// An empty outcome is not worth a line.
    pub async fn carry_out<T>(
        &self,
        name: impl Fn() -> String,
        operation: impl Future<Output = Result<T, StoreError>>,
        outcome: impl Fn(&T) -> String,
    ) -> Result<T, StoreError> {
        let (life, world) = (&self.life, &self.life.world);
        world.clock.latency(world.draw.within(ms(0)..ms(4))).await;
        if life.is_dead() {
            life.goes_on().await;
        }
        if world.is_store_away() {
            let failed = self.failed("before", &name());
            return failed.map_err(|error| error.of_kind(StoreErrorKind::Unreachable));
        }
        let result = operation.await?;
        let outcome = outcome(&result);
        if !outcome.is_empty() {
            world.note(|| format!("p{} {}: {outcome}", life.process, name()));
        }
        world.clock.latency(world.draw.within(ms(0)..ms(4))).await;
        life.goes_on().await;
        if world.is_store_away() {
            // Its server went away with the answer under way.
            let failed = self.failed("after", &name());
            return failed.map_err(|error| error.of_kind(StoreErrorKind::Lost));
        }
        Ok(result)
    }

    /// Waits while somebody else holds the file, and says whether they held it for too long.
    async fn is_locked(&self) -> bool {
        let world = &self.life.world;
        let Some(until) = world.locked_until() else { return false };
        let now = world.clock.now();
        let is_too_long = until.since(now) > BUSY_MAX;
        if is_too_long {
            world.store_failed();
        }
        world.clock.latency(until.since(now).min(BUSY_MAX)).await;
        self.life.goes_on().await;
        is_too_long
    }

    fn failed<T>(&self, when: &str, what: &str) -> Result<T, StoreError> {
        self.life.world.note(|| format!("p{} {what}: the store fails {when} it", self.life.process));
        Err(StoreError::new("the world's"))
    }
}

/// How long SQLite's busy handler waits by default.
const BUSY_MAX: Duration = Duration::from_secs(5);

fn step(to: &State) -> &'static str {
    match to {
        State::InProgress { .. } => "renews",
        State::Scheduled { .. } => "schedules",
        State::Succeeded { .. } => "settles",
        State::Refused { .. } => "refuses",
        State::Dead { .. } => "buries",
    }
}

pub fn claimed(claimed: &Claimed) -> String {
    match claimed {
        Claimed::Fresh(_) => "fresh".to_owned(),
        Claimed::TakenOver(record) => format!("taken over, fence {}", record.fence),
        Claimed::Freed(record) => format!("freed, fence {}", record.fence),
        Claimed::Settled(record) => format!("settled, {}", record.state.name()),
        Claimed::Busy { .. } => "busy".to_owned(),
        Claimed::Mismatch { .. } => "mismatch".to_owned(),
        Claimed::InTheWay { .. } => "in the way".to_owned(),
    }
}

#[async_trait]
impl Wrapper for SharedStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let key = claim.id.key.clone();
        self.write(|| format!("claims {}", key.as_str()), self.inner.claim(claim), claimed).await
    }

    async fn transition(
        &self,
        record: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let (step, fence) = (step(&transition.to), transition.fence);
        let moved = |moved: &Result<Record, Declined>| match moved {
            Ok(record) => record.state.name().to_owned(),
            Err(declined) => format!("{declined:?}"),
        };
        let name = || format!("{step} {} under fence {fence}", record.id.key.as_str());
        self.write(name, self.inner.transition(record, transition), moved).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let phase = take.phase;
        let name = || format!("takes what is {phase}");
        let key = |record: &Record| record.id.key.as_str().to_owned();
        let keys = |taken: &Vec<Record>| taken.iter().map(key).collect::<Vec<String>>().join(", ");
        let taken = self.carry_out(name, self.inner.take(take), keys).await?;
        if !taken.is_empty() {
            let fails = self.life.meets(When::AfterTake(self.life.take()));
            self.life.goes_on().await;
            if fails {
                return self.failed("after", &name());
            }
        }
        Ok(taken)
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let name = || format!("acts on {}", id.key.as_str());
        self.carry_out(name, self.inner.act(id, act), |acted| format!("{:?}", acted.as_ref().err())).await
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let name = || format!("adds evidence to {}", id.key.as_str());
        self.carry_out(name, self.inner.append_evidence(id, reports), |_| "done".to_owned()).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let name = || format!("reads {}", id.key.as_str());
        let world = &self.life.world;
        if world.has_standby() && world.is_store_away() {
            // A record that was written of late has come to it, or not yet.
            let found = self.inner.get(id).await?.filter(|_| world.draw.one_in(2));
            if is_final(found.as_ref()) {
                return Ok(found);
            }
        }
        self.carry_out(name, self.inner.get(id), |found| format!("{}", found.is_some())).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        let name = || "lists".to_owned();
        self.carry_out(name, self.inner.list(filter, after, limit), |page| {
            format!("{} rows", page.rows.len())
        })
        .await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }
}

impl SharedStore {
    fn below(&self) -> &dyn Delivery {
        self.inner.delivery().expect("it has")
    }
}

#[async_trait]
impl Delivery for SharedStore {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.carry_out(|| "looks".to_owned(), self.below().look(look), |_| String::new()).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        let name = || "says that it is there".to_owned();
        self.carry_out(name, self.below().heartbeat(heartbeat), |_| String::new()).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.below().backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.below().versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        &self.life.wakes
    }
}
