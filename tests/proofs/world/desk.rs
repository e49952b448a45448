//! Callers who leave their calls to a dispatcher, the hosts' dispatchers, and what a person does for a sequence.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::{Clock as _, Instant};
use steadfast::dispatcher::{Dispatcher, DispatcherBuilder};
use steadfast::operation::record::State;
use steadfast::testkit::TestClock;
use steadfast::{Client, Enqueued, Sequence};

use crate::world::audit::Breaches;
use crate::world::course::{CALLS_MAX, World};
use crate::world::facts::{Accepted, CallMade, Cancelled, Does, How, Stopped, Waited, operation_of};
use crate::world::process::Life;
use crate::world::queue::{Desk, Due, Enqueue, Line};
use crate::world::vendors::{Name, on_unknown};

/// The result of an enqueueing.
enum Left {
    Accepted(Box<Enqueued>),
    /// The operation had ended.
    Ended,
    /// Worth another try after this time.
    Again(Duration),
}

/// Over all of a process's clients.
pub fn dispatcher(clients: &[(Name, Client)]) -> DispatcherBuilder {
    Dispatcher::over(clients.iter().map(|(_, client)| client))
}

impl World {
    /// Enqueues an operation until it is accepted, or once, and follows it as the caller wants.
    pub async fn leave(
        self: Arc<World>,
        life: Arc<Life>,
        client: Client,
        incarnation: u64,
        (number, place): (usize, usize),
        how: Enqueue,
    ) {
        let caller = &self.schedule.operations[number].callers[place];
        let wait = Instant::ORIGIN.plus(caller.at).since(self.clock.now());
        self.clock.latency(wait).await;
        life.goes_on().await;
        if !caller.persists {
            self.is_over(number, place);
        }
        let mut deadline = caller.deadline;
        for _ in 0..CALLS_MAX {
            let left = self.enqueue(&life, &client, incarnation, number, (how.due, deadline));
            let gone = self.clock.latency(caller.cancels_after.unwrap_or(Duration::MAX));
            let left = tokio::select! {
                biased;
                left = left => Some(left),
                () = gone => None,
            };
            match left {
                Some(Left::Accepted(handle)) => {
                    self.follow(&life, &handle, incarnation, number, how).await;
                    break;
                }
                Some(Left::Again(wait)) if caller.persists => {
                    deadline = deadline.filter(|deadline| !deadline.is_zero());
                    self.clock.latency(wait).await;
                    life.goes_on().await;
                }
                Some(Left::Ended | Left::Again(_)) | None => break,
            }
        }
        self.is_over(number, place);
    }

    async fn enqueue(
        &self,
        life: &Arc<Life>,
        client: &Client,
        incarnation: u64,
        number: usize,
        (how, deadline): (Due, Option<Duration>),
    ) -> Left {
        let operation = &self.schedule.operations[number];
        let (began, wall) = (self.clock.now(), self.time_at(life.process));
        let call = self.calls((number, Does::Enqueue), began);
        let mut left = operation.kind.call(client, number).on_unknown(on_unknown(operation.resends));
        if let Some(line) = operation.line {
            left = left.sequence(sequence(line));
        }
        if let Some(deadline) = deadline {
            left = left.deadline(deadline);
        }
        // The time that is asked for, by the store's clock and by the right one.
        let (left, due, due_in_truth) = match how {
            Due::Now => (left, wall, began),
            Due::After(wait) => (left.after(wait), wall.plus(wait), began.plus(wait)),
            Due::At(at) => {
                let time = TestClock::START.plus(at);
                (left.at(time), time, Instant::ORIGIN.plus(at))
            }
        };
        match left.enqueue().await {
            Ok(handle) => {
                let at = self.clock.now();
                self.note(|| format!("operation {number} is accepted, new {}", handle.is_new()));
                self.facts.with(|all| {
                    all.calls[call].ended = Some(at);
                    all.accepted.push(Accepted {
                        operation: number,
                        call,
                        life: all.life(number),
                        is_new: handle.is_new(),
                        began,
                        at,
                        due: Some(due).filter(|due| *due > wall),
                        due_in_truth,
                        is_time: matches!(how, Due::At(_)),
                    });
                });
                Left::Accepted(Box::new(handle))
            }
            Err(error) => {
                let whose = (incarnation, began, deadline);
                self.hears((number, call), whose, 0, Err(error)).map_or(Left::Ended, Left::Again)
            }
        }
    }

    /// Waits for the outcome, or takes the call back, or both.
    async fn follow(
        &self,
        life: &Arc<Life>,
        handle: &Enqueued,
        incarnation: u64,
        number: usize,
        how: Enqueue,
    ) {
        if let Some(limit) = how.waits {
            self.wait(handle, incarnation, number, limit).await;
        }
        let Some(wait) = how.cancels else { return };
        self.clock.latency(wait).await;
        life.goes_on().await;
        let cancelled = handle.cancel("not wanted any more").await;
        let at = self.clock.now();
        self.note(|| format!("operation {number} is taken back: {cancelled:?}"));
        if cancelled.is_ok() {
            let place = self.facts.with(|all| all.named(handle.id()));
            let (operation, life) = place.expect("what was accepted has begun");
            self.facts.with(|all| all.cancelled.push(Cancelled { operation, life, at }));
        }
        self.wait(handle, incarnation, number, Duration::ZERO).await;
    }

    async fn wait(&self, handle: &Enqueued, incarnation: u64, number: usize, limit: Duration) {
        let began = self.clock.now();
        let call = self.calls((number, Does::Wait), began);
        let result = handle.wait(limit).await;
        self.hears((number, call), (incarnation, began, Some(limit)), 0, result);
        let at = self.clock.now();
        self.facts.with(|all| {
            let Some((operation, life)) = all.named(handle.id()) else { return };
            all.waited.push(Waited { operation, life, began, at });
        });
    }

    pub fn calls(&self, (operation, does): (usize, Does), began: Instant) -> usize {
        self.facts.with(|all| {
            all.calls.push(CallMade { operation, does, began, ended: None });
            all.calls.len() - 1
        })
    }

    /// A host's dispatcher, stopped and started again as planned.
    pub async fn dispatch(
        self: Arc<World>,
        life: Arc<Life>,
        clients: Vec<(Name, Client)>,
        incarnation: u64,
        desk: Desk,
    ) {
        let mut stops = desk.stops.clone();
        stops.sort_unstable();
        let mut stopped: Option<usize> = None;
        loop {
            let now = self.clock.now();
            if let Some(place) = stopped {
                self.facts.with(|all| all.stopped[place].again = Some(now));
            }
            let mut builder = dispatcher(&clients).period(desk.period);
            if let Some(at_once) = desk.at_once {
                builder = builder.at_once(at_once);
            }
            let (started, dispatcher) = (now, builder.start());
            let next = stops.iter().find(|(at, ..)| Instant::ORIGIN.plus(*at) > now).copied();
            let Some((at, limit, pause)) = next else { return std::future::pending().await };
            self.clock.latency(Instant::ORIGIN.plus(at).since(now)).await;
            life.goes_on().await;
            let asked = self.clock.now();
            let cut_off = dispatcher.stop(limit).await;
            stopped = Some(self.has_stopped(&life, incarnation, (started, asked, limit), cut_off).await);
            self.clock.latency(pause).await;
            life.goes_on().await;
        }
    }

    async fn has_stopped(
        &self,
        life: &Arc<Life>,
        incarnation: u64,
        (started, asked, limit): (Instant, Instant, Duration),
        cut_off: usize,
    ) -> usize {
        let at = self.clock.now();
        self.note(|| format!("h{} has stopped to dispatch, {cut_off} cut off", life.process));
        let records = self.records().await;
        self.facts.with(|all| {
            let is_by_it = |operation: usize, fence: u64| {
                let by = |taken: &(u64, usize, u64, Instant)| {
                    (taken.0, taken.1, taken.2) == (incarnation, operation, fence) && taken.3 >= started
                };
                all.taken_by.iter().any(by)
            };
            let open = records.iter().filter(|record| matches!(record.state, State::InProgress { .. }));
            let held = open.filter_map(|record| {
                let operation = operation_of(&record.request.headers)?;
                is_by_it(operation, record.fence).then_some(operation)
            });
            let held = held.collect();
            let (host, again) = (life.process, None);
            all.stopped.push(Stopped { incarnation, host, asked, at, limit, cut_off, held, again });
            all.stopped.len() - 1
        })
    }

    /// A person gives their word on each letter that holds a sequence, so that the next one is delivered, until none does.
    pub async fn let_lines_go(self: &Arc<World>, operator: &Arc<Life>) -> Breaches {
        let mut breaches = Breaches::new();
        for _ in 0..=self.schedule.operations.len() {
            let is_held = self.facts.with(|all| {
                let in_lines = all.lines.values().flatten().filter_map(|place| all.life_at(*place));
                let mut letters = in_lines.filter(|life| life.stood(all.commits) == Some(How::Dead));
                letters.any(|life| !life.skips)
            });
            if !is_held {
                break;
            }
            let (clients, _) = self.clients(operator);
            self.resolve(&clients).await;
            breaches.extend(self.rest_and_judge(operator).await);
        }
        breaches
    }
}

fn sequence(line: Line) -> Sequence {
    let sequence = Sequence::new(format!("line {}", line.number));
    if line.skips { sequence.skip_dead_letters() } else { sequence }
}
