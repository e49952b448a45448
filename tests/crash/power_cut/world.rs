//! Callers, each with keys of its own, and what each of them knows of them.
//!
//! The result of a call is foreseen with the pure functions of `operation::record`, so that after a cut each record
//! can be held, whole, against what it must be. That those functions are right is not shown here: the contract
//! suite says so without them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{
    self, Act, Action, AuditEntry, Claim, Claimed, Declined, Forbidden, Phase, Record, Resolution, State,
    Takeover, Transition,
};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::store::{Store, StoreError};
use steadfast::testkit::SeededRandom;
use steadfast::transport::{Answer, Request};
use steadfast::{AttemptReport, Effect, Random, Reason, Refusal};

use crate::power_cut::disk::{Disk, below};
use support::commands;

/// A caller: it makes one call at a time, on keys that nobody else uses.
pub struct World {
    name: usize,
    role: Role,
    random: SeededRandom,
    now: Timestamp,
    /// As of the last call that was answered.
    pub entries: BTreeMap<OperationId, Entry>,
    /// Each entry as it was before, since the last audit.
    pub past: BTreeMap<OperationId, Vec<Entry>>,
    /// Where each key's life began, and the highest fence that the store ever said of it.
    fences: BTreeMap<OperationId, (u64, u64)>,
    /// The calls of which nobody was told how they ended: what each changes if it was carried out.
    pub under_way: Vec<BTreeMap<OperationId, Entry>>,
    pub acknowledged: u64,
}

/// The data that a store holds of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub record: Option<Record>,
    pub evidence: Vec<AttemptReport>,
    pub audit: Vec<AuditEntry>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Walks away from some of its calls, and leaves the key alone from then on.
    Fickle,
    /// Takes what its own leases and schedules have left.
    Sweeper,
    /// Sweeps, and purges what has expired. There is one, and only its records expire.
    Purger,
}

#[derive(Clone, Debug)]
enum Call {
    Claim(Box<Claim>),
    Transition(Box<(Record, Transition)>),
    Report(OperationId, Vec<AttemptReport>),
    Act(OperationId, Act),
    Take(Takeover),
    Purge(Timestamp),
    Look(OperationId),
}

/// How a call was answered.
#[derive(Debug, PartialEq)]
pub enum Told {
    Claimed(Claimed),
    Moved(Result<Record, Declined>),
    Reported(Result<(), Declined>),
    Acted(Result<Record, Forbidden>),
    Taken(BTreeMap<OperationId, Record>),
    Purged(usize),
    Seen(Box<Entry>),
}

impl Told {
    /// With each fence counted from the beginning of its life.
    pub fn counted_from_one(mut self) -> Told {
        self.records().into_iter().for_each(count_from_one);
        self
    }

    fn records(&mut self) -> Vec<&mut Record> {
        match self {
            Told::Claimed(
                Claimed::Fresh(record)
                | Claimed::TakenOver(record)
                | Claimed::Freed(record)
                | Claimed::Settled(record),
            )
            | Told::Moved(Ok(record))
            | Told::Acted(Ok(record)) => vec![record],
            Told::Taken(records) => records.values_mut().collect(),
            Told::Seen(entry) => entry.record.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
}

impl World {
    pub fn new(name: usize, seed: u64) -> World {
        let role = match name {
            0 => Role::Purger,
            1 => Role::Sweeper,
            _ => Role::Fickle,
        };
        World {
            name,
            role,
            random: SeededRandom::new(seed),
            now: START,
            entries: BTreeMap::new(),
            past: BTreeMap::new(),
            fences: BTreeMap::new(),
            under_way: Vec::new(),
            acknowledged: 0,
        }
    }

    /// Makes calls until the power is off. Gives what a store with power should not have said.
    pub async fn live(
        &mut self,
        store: &dyn Store,
        disk: &Disk,
        calls: usize,
        body_max: usize,
    ) -> Option<String> {
        for _ in 0..calls {
            let Some(call) = self.draw(body_max) else { break };
            let (foreseen, after) = self.foresee(&call);
            let walks_away = self.role == Role::Fickle && self.chance(12);
            let on_file = self.as_on_file(&call);
            let mut told = tokio::select! {
                biased;
                told = carry_out(store, &on_file) => Some(told),
                () = tokio::task::yield_now(), if walks_away => None,
            };
            if let Some(Ok(told)) = &mut told
                && let Some(text) = self.note_fences(told)
            {
                return Some(text);
            }
            match told {
                None => self.under_way.push(after),
                Some(Ok(told)) if told == foreseen => self.learn(after),
                Some(Ok(told)) => return Some(format!("{call:?} gave {told:?} and not {foreseen:?}")),
                Some(Err(_)) if disk.is_off() => {
                    self.under_way.push(after);
                    return None;
                }
                Some(Err(error)) => return Some(format!("{call:?} failed with power: {error:?}")),
            }
        }
        None
    }

    /// A claim of each key, and what it must be told.
    pub fn claims(&self) -> Vec<(Claim, Told)> {
        let claims = self.entries.keys().map(|id| self.claim_of(id, 0));
        let foreseen = |claim: Claim| {
            let told = self.foresee(&Call::Claim(Box::new(claim.clone()))).0;
            (claim, told)
        };
        claims.map(foreseen).collect()
    }

    /// The call with its fence as the store counts it.
    fn as_on_file(&self, call: &Call) -> Call {
        let mut call = call.clone();
        if let Call::Transition(held) = &mut call {
            let (record, transition) = &mut **held;
            let before = self.fences.get(&record.id).map_or(0, |(first, _)| first - 1);
            record.fence += before;
            record.first_fence += before;
            transition.fence += before;
        }
        call
    }

    /// Counts the fences of what the store said from the beginning of each life. Gives what is wrong with them.
    fn note_fences(&mut self, told: &mut Told) -> Option<String> {
        let is_new = matches!(told, Told::Claimed(Claimed::Fresh(_)));
        told.records().into_iter().find_map(|record| self.note_fence(record, is_new))
    }

    /// As [`note_fences`](World::note_fences), of one record.
    pub fn note_fence(&mut self, record: &mut Record, is_new: bool) -> Option<String> {
        let (first, fence) = (record.first_fence, record.fence);
        let (_, highest) = self.fences.get(&record.id).copied().unwrap_or_default();
        self.fences.insert(record.id.clone(), (first, fence.max(highest)));
        count_from_one(record);
        let went_back = if is_new { first <= highest } else { fence < highest };
        went_back
            .then(|| format!("{}: fence {fence} of a life from {first} comes after {highest}", record.id))
    }

    fn learn(&mut self, after: BTreeMap<OperationId, Entry>) {
        self.acknowledged += 1;
        for (id, entry) in after {
            let before = self.entries.insert(id.clone(), entry).unwrap_or_default();
            self.past.entry(id).or_default().push(before);
        }
    }

    /// The answer that a call must be told, and the entries that it changes.
    fn foresee(&self, call: &Call) -> (Told, BTreeMap<OperationId, Entry>) {
        let entry = |id: &OperationId| self.entries.get(id).cloned().unwrap_or_default();
        let mut after = BTreeMap::new();
        let told = match call {
            Call::Claim(claim) => {
                let held = entry(&claim.id);
                let (written, told) =
                    record::claim(held.record.as_ref(), (**claim).clone(), &record::Notes::default());
                if let Some(mut record) = written {
                    // A new life has a log of its own.
                    let evidence =
                        if record.fence == record.first_fence { Vec::new() } else { held.evidence };
                    count_from_one(&mut record);
                    after.insert(
                        claim.id.clone(),
                        Entry { record: Some(record), evidence, audit: held.audit },
                    );
                }
                Told::Claimed(told).counted_from_one()
            }
            Call::Transition(held) => {
                let (Record { id, .. }, transition) = &**held;
                Told::Moved(match entry(id) {
                    Entry { record: None, .. } => Err(Declined::Absent),
                    Entry { record: Some(record), mut evidence, audit } => {
                        evidence.extend(transition.reports.iter().cloned());
                        let moved = record.apply(transition.clone());
                        let record = Some(moved.clone().unwrap_or(record));
                        after.insert(id.clone(), Entry { record, evidence, audit });
                        moved
                    }
                })
            }
            Call::Report(id, reports) => Told::Reported(match entry(id) {
                Entry { record: None, .. } => Err(Declined::Absent),
                mut held => {
                    held.evidence.extend(reports.iter().cloned());
                    after.insert(id.clone(), held);
                    Ok(())
                }
            }),
            Call::Act(id, act) => Told::Acted(match entry(id) {
                Entry { record: None, .. } => Err(Forbidden::Absent),
                Entry { record: Some(record), evidence, mut audit } => {
                    record.act(act).map(|(record, line)| {
                        audit.push(line);
                        after.insert(id.clone(), Entry { record: Some(record.clone()), evidence, audit });
                        record
                    })
                }
            }),
            Call::Take(take) => {
                for (id, held) in &self.entries {
                    if let Some(record) = held.record.as_ref().and_then(|record| record.take(take)) {
                        after.insert(id.clone(), Entry { record: Some(record), ..held.clone() });
                    }
                }
                let taken = after.iter().map(|(id, entry)| (id.clone(), entry.record.clone()));
                Told::Taken(taken.filter_map(|(id, record)| Some((id, record?))).collect())
            }
            Call::Purge(now) => {
                for (id, held) in &self.entries {
                    let expires = held.record.as_ref().and_then(Record::expires_at);
                    if expires.is_some_and(|at| at <= *now) {
                        after.insert(id.clone(), Entry { audit: held.audit.clone(), ..Entry::default() });
                    }
                }
                Told::Purged(after.len())
            }
            Call::Look(id) => Told::Seen(Box::new(entry(id))),
        };
        (told, after)
    }

    /// The next call; none if every key is left alone.
    fn draw(&mut self, body_max: usize) -> Option<Call> {
        self.now = self.now.plus(Duration::from_millis(self.below(5_000) as u64));
        if self.role != Role::Fickle && self.chance(12) {
            let what = if self.chance(2) { Phase::InProgress } else { Phase::Scheduled };
            let account = Some(account_path(self.name));
            let take = commands::takeover(what, self.now);
            return Some(Call::Take(Takeover { account, lease: LEASE, limit: KEYS, ..take }));
        }
        if self.role == Role::Purger && self.chance(12) {
            return Some(Call::Purge(self.now));
        }
        let left_alone: BTreeSet<&OperationId> = self.under_way.iter().flat_map(BTreeMap::keys).collect();
        let free: Vec<OperationId> =
            (0..KEYS).map(|key| id(self.name, key)).filter(|id| !left_alone.contains(id)).collect();
        if free.is_empty() {
            return None;
        }
        let id = free[self.below(free.len())].clone();
        Some(self.draw_on(id, body_max))
    }

    fn draw_on(&mut self, id: OperationId, body_max: usize) -> Call {
        let Some(record) = self.entries.get(&id).and_then(|entry| entry.record.clone()) else {
            return Call::Claim(Box::new(self.claim_of(&id, body_max)));
        };
        if self.chance(6) {
            return Call::Claim(Box::new(self.claim_of(&id, body_max)));
        }
        if self.chance(8) {
            return Call::Look(id);
        }
        match record.state {
            State::Dead { .. } if !self.chance(5) => Call::Act(id, self.act()),
            State::Succeeded { .. } | State::Refused { .. } if self.chance(2) => {
                Call::Report(id, self.reports())
            }
            State::Scheduled { .. } if self.chance(2) => Call::Claim(Box::new(self.claim_of(&id, body_max))),
            _ if self.chance(8) => Call::Report(id, self.reports()),
            _ => {
                // Now and then that of a holder who was fenced out.
                let fence = if self.chance(10) { record.fence - 1 } else { record.fence };
                let transition = self.transition(fence, body_max);
                Call::Transition(Box::new((record, transition)))
            }
        }
    }

    fn claim_of(&self, id: &OperationId, body_max: usize) -> Claim {
        let mut request = Request::new(Method::POST, "https://vendor.test/x".parse().expect("a URL"));
        request.headers.insert("content-type", HeaderValue::from_static("application/json"));
        request.body = self.body(body_max).into();
        let keep = if self.role == Role::Purger { SHORT } else { LONG };
        Claim { lease: LEASE, keep, ..commands::claim(id, request, self.now) }
    }

    fn transition(&self, fence: u64, body_max: usize) -> Transition {
        let to = match self.below(8) {
            0 => State::InProgress { lease_until: self.now.plus(LEASE) },
            1 => State::Scheduled { at: self.now.plus(Duration::from_millis(self.below(20_000) as u64)) },
            2 => State::Refused { refusal: Refusal::Rejected, answer: self.answer(402, body_max) },
            3 => State::Refused { refusal: Refusal::Unauthorized, answer: self.answer(401, body_max) },
            4 => State::Dead { reason: Reason::Exhausted, answer: Some(self.answer(503, body_max)) },
            5 => State::Dead { reason: Reason::Unknown, answer: None },
            _ => State::Succeeded { answer: self.answer(200, body_max), reconciled: self.chance(2) },
        };
        let attempts = self.below(5) as u32;
        let effect = if self.chance(2) { Effect::Unknown } else { Effect::None };
        Transition {
            fence,
            now: self.now,
            attempts,
            effect,
            unknown_since: None,
            lookups: 0,
            resends_left: 0,
            to,
            reports: self.reports(),
        }
    }

    fn act(&self) -> Act {
        let action = match self.below(6) {
            0 => Action::Resolve(Resolution::Applied { vendor_id: "ch_1".to_owned() }),
            1 => Action::Resolve(Resolution::NotApplied),
            2 => Action::Reopen,
            3 => Action::Note,
            _ => Action::Redrive { forced: self.chance(2) },
        };
        Act { action, by: "ops".to_owned(), why: "looked it up".to_owned(), now: self.now, fence: None }
    }

    fn reports(&self) -> Vec<AttemptReport> {
        let report = |number| {
            let fields = json!({
                "number": number, "started_at": self.now.as_millis(), "latency": {"secs": 0, "nanos": 7},
                "status": 503, "failure": null, "verdict": "retry", "effect": "unknown", "wait": null,
            });
            serde_json::from_value(fields).expect("a report")
        };
        (0..self.below(3)).map(report).collect()
    }

    fn answer(&self, status: u16, body_max: usize) -> Answer {
        Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), self.body(body_max))
    }

    /// Bytes of which no two sectors are the same, so that one of another time or place does not pass.
    fn body(&self, len_max: usize) -> Vec<u8> {
        let len = self.below(len_max + 1);
        let mut bytes = Vec::with_capacity(len + 512);
        while bytes.len() < len {
            bytes.extend(self.random.next_u64().to_le_bytes().repeat(64));
        }
        bytes.truncate(len);
        bytes
    }

    fn below(&self, bound: usize) -> usize {
        below(&self.random, bound)
    }

    /// True once in `of`.
    fn chance(&self, of: usize) -> bool {
        self.below(of) == 0
    }
}

async fn carry_out(store: &dyn Store, call: &Call) -> Result<Told, StoreError> {
    Ok(match call.clone() {
        Call::Claim(claim) => Told::Claimed(store.claim(*claim).await?),
        Call::Transition(held) => {
            let (record, transition) = *held;
            Told::Moved(store.transition(&record, transition).await?)
        }
        Call::Report(id, reports) => Told::Reported(store.append_evidence(&id, reports).await?),
        Call::Act(id, act) => Told::Acted(store.act(&id, act).await?),
        Call::Take(take) => {
            let taken = store.take(take).await?;
            Told::Taken(taken.into_iter().map(|record| (record.id.clone(), record)).collect())
        }
        Call::Purge(now) => Told::Purged(store.purge(now, KEYS).await?),
        Call::Look(id) => Told::Seen(Box::new(look(store, &id).await?)),
    })
}

/// The record as it would be if its life were the first of its key. Where a life begins depends on what other worlds
/// have purged.
fn count_from_one(record: &mut Record) {
    record.fence -= record.first_fence - 1;
    record.first_fence = 1;
}

/// All that a store holds of an operation.
pub async fn look(store: &dyn Store, id: &OperationId) -> Result<Entry, StoreError> {
    let record = store.get(id).await?;
    let evidence = store.evidence(id).await?;
    let page = store.audit(Some(id), None, 10_000).await?;
    Ok(Entry { record, evidence, audit: page.rows })
}

fn account_path(world: usize) -> String {
    format!("test/v/{world}")
}

fn id(world: usize, key: usize) -> OperationId {
    let scope = Scope::from_stored(format!("{}/POST /x", account_path(world)));
    OperationId::new(scope, Key::new(format!("k{key}")).expect("a key"))
}

/// How many keys a world has. Few, so that each goes through many calls; and fewer than are purged in one
/// commit, so that a purge is done or not.
const KEYS: usize = 24;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

const LEASE: Duration = Duration::from_secs(60);

/// Until a record of the purger expires.
const SHORT: Duration = Duration::from_secs(30);

/// Until any other does: beyond where the purger's clock gets.
const LONG: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
