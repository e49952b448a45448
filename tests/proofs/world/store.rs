//! The records' disk, and what the audit sees of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Mutex;

use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::operation::record::{
    Act, Action, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Phase, Record, State,
    Summary, Takeover, Tally, Transition,
};
use steadfast::operation::{Key, OperationId};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::TestClock;
use steadfast::{AttemptReport, Sequence};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};
use steadfast_core::store::outbox::Outbox;

use crate::world::course::World;
use crate::world::facts::{Facts, How, KeyLife, Renewal, Taken, operation_of};
use crate::world::outbox::Rows;
use crate::world::shared_store::SharedStore;

/// A store that notes lives of keys, and carries out one operation at a time: the order in which a store with
/// threads answers would be the operating system's.
#[derive(Debug)]
pub struct Watched {
    pub inner: Box<dyn Store>,
    /// The same, if it is bounded: it forgets what is settled once it is full.
    pub bounded: Option<Arc<Memory>>,
    pub facts: Arc<Facts>,
    pub rows: Arc<Rows>,
    pub clock: TestClock,
    pub under_way: Arc<AtomicUsize>,
    pub turn: Mutex<()>,
}

impl Watched {
    pub async fn alone<T>(&self, operation: impl Future<Output = T>) -> T {
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

    /// Notes what a claim has begun or taken over, which is left until `due` by the clock that said `wall`.
    pub fn note_claimed(
        &self,
        claimed: &Claimed,
        (due, wall): (Option<Timestamp>, Timestamp),
        sequence: Option<Sequence>,
        predecessor: Option<&Key>,
    ) {
        let began = self.clock.now();
        match claimed {
            Claimed::Fresh(record) => {
                let due = due.map(|due| began.plus(due.since(wall)));
                self.begins(record, due, sequence, predecessor);
            }
            Claimed::TakenOver(record) | Claimed::Freed(record) => self.of(record, |life, commit| {
                life.takeovers += 1;
                life.due = None;
                life.on_record.taken = (began, wall.since(record.claimed_at));
                life.is_held(commit, record.updated_at, began);
            }),
            _ => {}
        }
    }

    /// A new life of a key, and its place in a sequence: behind all others, or where the one stands that it is in place of.
    fn begins(
        &self,
        record: &Record,
        due: Option<Instant>,
        sequence: Option<Sequence>,
        predecessor: Option<&Key>,
    ) {
        let Some(operation) = operation_of(&record.request.headers) else { return };
        let began = self.clock.now();
        let mut life = KeyLife { due, ..KeyLife::new(record, began) };
        self.facts.with(|all| {
            all.commits += 1;
            let commit = all.commits;
            life.stands(record, commit, began);
            if due.is_none() {
                life.is_held(commit, record.updated_at, began);
            }
            let old = predecessor.and_then(|key| all.life_of(operation, key.as_str()));
            let place = (operation, all.lives.get(&operation).map_or(0, Vec::len));
            if let Some(sequence) = sequence {
                life.skips = sequence.skips_dead_letters();
                let name = format!("{}/{}", record.id.scope.account_path(), sequence.name());
                let line = all.lines.entry(name).or_default();
                let after = old.and_then(|old| line.iter().position(|other| *other == (operation, old)));
                line.insert(after.map_or(line.len(), |old| old + 1), place);
            }
            let lives = all.lives.entry(operation).or_default();
            if let Some(old) = old.and_then(|old| lives.get_mut(old)) {
                old.stand(How::Ended, commit, began);
            }
            lives.push(life);
        });
    }

    fn of(&self, record: &Record, change: impl FnOnce(&mut KeyLife, u64)) {
        let Some(operation) = operation_of(&record.request.headers) else { return };
        let now = self.clock.now();
        self.facts.with(|all| {
            all.commits += 1;
            let commit = all.commits;
            let life = all.life_mut(operation, record.id.key.as_str())?;
            life.stands(record, commit, now);
            change(life, commit);
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
        let sequence = claim.due.and(claim.sequence.clone());
        let (due, predecessor) = (claim.due, claim.predecessor.clone());
        let claimed = self.alone(self.inner.claim(claim)).await;
        if claimed.is_err() && self.bounded.is_some() {
            self.note_why_full().await?;
        }
        self.note_evicted(evicted).await;
        let claimed = claimed?;
        self.note_claimed(&claimed, (due, wall), sequence, predecessor.as_ref());
        Ok(claimed)
    }

    async fn transition(
        &self,
        record: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let due = match transition.to {
            State::Scheduled { at } => Some(self.clock.now().plus(at.since(transition.now))),
            _ => None,
        };
        let moved = self.alone(self.inner.transition(record, transition)).await?;
        if let Ok(record) = &moved {
            self.of(record, |life, _| life.due = due);
            let (operation, now) = (operation_of(&record.request.headers), self.clock.now());
            let let_go = operation.filter(|_| due.is_some()).map(|operation| (operation, now));
            self.facts.with(|all| all.let_go.extend(let_go));
        }
        Ok(moved)
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let wall = take.now;
        let taken = self.alone(self.inner.take(take)).await?;
        let at = self.clock.now();
        for record in &taken {
            let mut due = None;
            self.of(record, |life, commit| {
                life.takeovers += 1;
                due = life.due.take();
                life.on_record.taken = (at, wall.since(record.claimed_at));
                life.is_held(commit, record.updated_at, at);
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
        if let Ok(record) = &acted {
            self.of(record, |life, _| {
                let Action::Redrive { forced } = action else { return };
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
        after: Option<&str>,
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
        after: Option<&str>,
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

    /// Terms are none of the world's matters.
    async fn register(&self, _: &str, _: Option<&str>) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.inner.time(now)
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        self.rows.is_there.then_some(self as &dyn Outbox)
    }
}

impl Watched {
    fn below(&self) -> &dyn Delivery {
        self.inner.delivery().expect("it has")
    }
}

#[async_trait]
impl Delivery for Watched {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        self.alone(self.below().look(look)).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        self.alone(self.below().heartbeat(heartbeat)).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.alone(self.below().backlog(now)).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        self.alone(self.below().versions(ids)).await
    }

    fn wakes(&self) -> &Wakes {
        self.below().wakes()
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
        let is_renewal = matches!(transition.to, State::InProgress { .. });
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

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let taken = Store::take(&self.inner, take).await?;
        let world = &self.inner.life.world;
        let at = world.clock.now();
        let whose = |record: &Record| {
            Some((self.incarnation, operation_of(&record.request.headers)?, record.fence, at))
        };
        world.facts.with(|all| all.taken_by.extend(taken.iter().filter_map(whose)));
        Ok(taken)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        self.inner.inner.outbox().map(|_| self as &dyn Outbox)
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
