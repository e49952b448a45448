//! The records' disk, and what the audit sees of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use steadfast::attempt::AttemptReport;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, Action, AuditEntry, Claim, Claimed, Cursor, Declined, Event, Filter, Forbidden, Page, Phase, Record,
    Summary, Take, Tally, Transition,
};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::TestClock;
use tokio::sync::Mutex;

use crate::facts::{Facts, KeyLife, OnRecord, Renewal, Taken, operation_of};
use crate::shared_store::SharedStore;
use crate::world::World;

/// A store that notes lives of keys, and carries out one operation at a time: the order in which a store with
/// threads answers would be the operating system's.
#[derive(Debug)]
pub struct Watched {
    pub inner: Box<dyn Store>,
    /// The same, if it is bounded: it forgets what is settled once it is full.
    pub bounded: Option<Arc<Memory>>,
    pub facts: Arc<Facts>,
    pub clock: TestClock,
    pub under_way: Arc<AtomicUsize>,
    pub turn: Mutex<()>,
}

impl Watched {
    async fn alone<T>(&self, operation: impl Future<Output = T>) -> T {
        let _counted = UnderWay::count(&self.under_way);
        let _turn = self.turn.lock().await;
        operation.await
    }

    async fn note_why_full(&self) -> Result<(), StoreError> {
        let phases = vec![Phase::InProgress, Phase::Scheduled, Phase::Dead, Phase::Resolved];
        let filter = Filter { phases, ..Filter::default() };
        let open = self.alone(self.inner.list(&filter, None, 100)).await?.rows.len();
        self.facts.with(|all| all.refused_as_full.push(open));
        Ok(())
    }

    /// Notes what a claim made the store forget before its time.
    async fn note_evicted(&self, before: u64) {
        let Some(memory) = self.bounded.as_ref().filter(|memory| memory.evicted() > before) else { return };
        let ids: Vec<(usize, OperationId)> = self.facts.with(|all| {
            let last =
                |(operation, lives): (&usize, &Vec<KeyLife>)| Some((*operation, lives.last()?.id.clone()));
            all.lives.iter().filter_map(last).collect()
        });
        let now = self.clock.now();
        for (operation, id) in ids {
            if matches!(memory.get(&id).await, Ok(None)) {
                self.facts.with(|all| {
                    let life = all.lives.get_mut(&operation).and_then(|lives| lives.last_mut());
                    life.map(|life| life.evicted.get_or_insert(now));
                });
            }
        }
    }

    fn of(&self, record: &Record, change: impl FnOnce(&mut KeyLife)) {
        let Some(operation) = operation_of(&record.request.headers) else { return };
        let now = self.clock.now();
        self.facts.with(|all| {
            let life = all.life_mut(operation, record.id.key.as_str())?;
            life.stands(record, now);
            change(life);
            Some(())
        });
    }
}

/// While it lives, time must not move: a thread of the store's is at work. A dropped operation is none.
struct UnderWay<'a>(&'a AtomicUsize);

impl UnderWay<'_> {
    fn count(count: &AtomicUsize) -> UnderWay<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Store for Watched {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let evicted = self.bounded.as_ref().map_or(0, |memory| memory.evicted());
        let wall = claim.now;
        let claimed = self.alone(self.inner.claim(claim)).await;
        if claimed.is_err() && self.bounded.is_some() {
            self.note_why_full().await?;
        }
        self.note_evicted(evicted).await;
        let claimed = claimed?;
        let began = self.clock.now();
        match &claimed {
            Claimed::Fresh(record) => {
                let life = KeyLife {
                    key: record.id.key.as_str().to_owned(),
                    began,
                    takeovers: 0,
                    redrives: 0,
                    forced: 0,
                    redriven_at: None,
                    store_failed: false,
                    due: None,
                    id: record.id.clone(),
                    evicted: None,
                    on_record: OnRecord {
                        claimed_at: record.claimed_at,
                        written: began,
                        vendor_clock_ms: record.vendor_clock_ms,
                        taken: (began, Duration::ZERO),
                    },
                };
                if let Some(operation) = operation_of(&record.request.headers) {
                    self.facts.with(|all| all.lives.entry(operation).or_default().push(life));
                }
            }
            Claimed::TakenOver(record) => self.of(record, |life| {
                life.takeovers += 1;
                life.due = None;
                life.on_record.taken = (began, wall.since(record.claimed_at));
            }),
            _ => {}
        }
        Ok(claimed)
    }

    async fn transition(
        &self,
        record: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let due = match transition.event {
            Event::Schedule { at } => Some(self.clock.now().plus(at.since(transition.now))),
            _ => None,
        };
        let moved = self.alone(self.inner.transition(record, transition)).await?;
        if let Ok(record) = &moved {
            self.of(record, |life| life.due = due);
            let (operation, now) = (operation_of(&record.request.headers), self.clock.now());
            let let_go = operation.filter(|_| due.is_some()).map(|operation| (operation, now));
            self.facts.with(|all| all.let_go.extend(let_go));
        }
        Ok(moved)
    }

    async fn take(&self, take: Take) -> Result<Vec<Record>, StoreError> {
        let wall = take.now;
        let taken = self.alone(self.inner.take(take)).await?;
        let at = self.clock.now();
        for record in &taken {
            let mut due = None;
            self.of(record, |life| {
                life.takeovers += 1;
                due = life.due.take();
                life.on_record.taken = (at, wall.since(record.claimed_at));
            });
            if let Some(operation) = operation_of(&record.request.headers) {
                self.facts.with(|all| all.takes.push(Taken { operation, at, due }));
            }
        }
        Ok(taken)
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let (action, now) = (act.action.clone(), self.clock.now());
        let acted = self.alone(self.inner.act(id, act)).await?;
        if let (Ok(record), Action::Redrive { forced }) = (&acted, action) {
            self.of(record, |life| {
                life.redrives += 1;
                life.forced += u32::from(forced);
                if !forced {
                    life.redriven_at = Some(now);
                }
            });
        }
        Ok(acted)
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.alone(self.inner.append_evidence(id, reports)).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.alone(self.inner.evidence(id)).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.alone(self.inner.get(id)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.alone(self.inner.list(filter, after, limit)).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.alone(self.inner.tally()).await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.alone(self.inner.audit(id, after, limit)).await
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        self.alone(self.inner.believed(now)).await
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.alone(self.inner.purge(now, limit)).await
    }
}

/// One process's way to the store, which notes for how long a holder waits for its renewal.
#[derive(Debug)]
pub struct Renewing {
    pub inner: SharedStore,
    pub incarnation: u64,
}

#[async_trait]
impl Wrapper for Renewing {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn transition(
        &self,
        record: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let world = &self.inner.life.world;
        let operation = operation_of(&record.request.headers);
        let is_renewal = matches!(transition.event, Event::Renew { .. });
        let _noted = operation.filter(|_| is_renewal).map(|operation| {
            let (incarnation, began) = (self.incarnation, world.clock.now());
            let place = world.facts.with(|all| {
                all.renewals.push(Renewal { incarnation, operation, began, ended: None });
                all.renewals.len() - 1
            });
            Waits { world, place }
        });
        Store::transition(&self.inner, record, transition).await
    }
}

/// Until it is dropped: also where nobody waits for the store any more.
struct Waits<'a> {
    world: &'a World,
    place: usize,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let now = self.world.clock.now();
        self.world.facts.with(|all| all.renewals[self.place].ended = Some(now));
    }
}
