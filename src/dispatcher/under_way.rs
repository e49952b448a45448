//! The operations that one dispatcher carries on, each in its own task.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::{Recovered, caught};
use crate::client::Client;
use crate::clock::Instant;
use crate::engine::SLEEP_MAX;
use crate::error::{Error, Gate};
use crate::operation::record::{Left, Take};
use crate::reply::Reply;
use crate::telemetry;

pub(super) struct UnderWay {
    client: Client,
    /// Each says with its end whether it was in a sequence.
    tasks: JoinSet<(bool, Result<Reply, Error>)>,
    /// How many of them are.
    sequenced: usize,
    pub recovered: Recovered,
    /// How many there are, for whoever cannot ask.
    count: Arc<AtomicUsize>,
    /// Which kind is taken first this time: neither is to wait until there is none left of the other.
    due_first: bool,
}

/// When there may be more to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At this time, which is soon.
    At(Instant),
    /// When one of those under way ends.
    Place,
    /// When somebody leaves or schedules something: for now there is nothing.
    Nothing,
    /// A gate is closed, until this time if it knows.
    Closed(Option<Instant>),
}

impl UnderWay {
    pub(super) fn new(client: &Client) -> UnderWay {
        UnderWay {
            client: client.clone(),
            tasks: JoinSet::new(),
            sequenced: 0,
            recovered: Recovered::default(),
            count: Arc::default(),
            due_first: false,
        }
    }

    /// Keeps `count` at how many there are.
    pub(super) fn counted_by(mut self, count: Arc<AtomicUsize>) -> UnderWay {
        self.count = count;
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether the end of one of those under way may be the turn of the next in its sequence.
    pub(super) fn may_pass_turns(&self) -> bool {
        self.sequenced > 0 && !self.is_empty()
    }

    /// Takes for ever, until `stopped` says so; what is under way then is carried to its end.
    pub(super) async fn keep_on(mut self, period: Duration, mut stopped: watch::Receiver<()>) {
        let engine = Arc::clone(&self.client.engine);
        let clock = &engine.clock;
        let mut stopped = pin!(stopped.changed());
        loop {
            let idle = || clock.now().plus(period);
            let next = match caught(self.take(usize::MAX)).await {
                Ok(Ok(Next::At(at))) => Some(at),
                Ok(Ok(Next::Place)) => None,
                Ok(Ok(Next::Nothing)) => Some(idle()),
                Ok(Ok(Next::Closed(until))) => Some(until.map_or_else(idle, |until| until.min(idle()))),
                Ok(Err(error)) => {
                    telemetry::recovery_failed(self.client.vendor(), &error);
                    Some(idle())
                }
                Err(panic) => {
                    telemetry::recovery_panicked(self.client.vendor(), "take what nobody holds", &*panic);
                    Some(idle())
                }
            };
            let until = clock.sleep_until(next.unwrap_or(NEVER));
            let mut until = pin!(until);
            // Those that end while there is nothing to take are no reason to look again.
            loop {
                tokio::select! {
                    biased;
                    _ = &mut stopped => {
                        while !self.is_empty() {
                            self.one_ends().await;
                        }
                        return;
                    }
                    () = self.one_ends(), if !self.is_empty() => {
                        if next.is_none() {
                            break;
                        }
                    }
                    () = &mut until, if next.is_some() => break,
                    // Something was enqueued in this process. Where no place is free, one that ends comes first.
                    () = engine.due.notified(), if next.is_some() => break,
                }
            }
        }
    }

    /// Takes what there are places, starts and open gates for, at most `at_most`, and begins to carry it on.
    pub(super) async fn take(&mut self, at_most: usize) -> Result<Next, Error> {
        if at_most == 0 {
            return Ok(Next::Nothing);
        }
        let client = self.client.clone();
        let (engine, recovery) = (&client.engine, client.engine.gates.recovery());
        let places = recovery.at_once().saturating_sub(self.tasks.len());
        if places == 0 {
            return Ok(Next::Place);
        }
        let now = engine.clock.now();
        let starts = match recovery.ready(now) {
            Ok(starts) => starts,
            // Processes that were started together are not to take together.
            Err(at) => return Ok(Next::At(at.plus(GAP.mul_f64(engine.random.unit())))),
        };
        let room = match engine.gates.room_for_recovery(now) {
            Ok(room) => room,
            Err(refusal) => {
                if matches!(refusal.gate, Gate::Breaker | Gate::Pause) {
                    recovery.restart(now);
                }
                return Ok(match refusal.gate {
                    Gate::Concurrency => Next::At(engine.come_back(refusal, now).unwrap_or(now)),
                    _ => match engine.come_back(refusal, now) {
                        Some(at) if at <= now.plus(SLEEP_MAX) => Next::At(at),
                        later => Next::Closed(later),
                    },
                });
            }
        };
        let limit = at_most.min(places).min(starts).min(room);
        let taken = self.take_both(limit).await?;
        Ok(if taken < limit || taken == at_most { Next::Nothing } else { Next::At(now.plus(GAP)) })
    }

    /// Takes `limit` of what a dead process left and of what is due, half of each if there is as much.
    async fn take_both(&mut self, limit: usize) -> Result<usize, Error> {
        let (first, second) =
            if self.due_first { (Left::Due, Left::Lapsed) } else { (Left::Lapsed, Left::Due) };
        self.due_first = !self.due_first;
        let half = limit.div_ceil(2);
        let mut taken = self.take_of(first, half).await?;
        let is_there_more = taken == half;
        taken += self.take_of(second, limit - taken).await?;
        if is_there_more {
            taken += self.take_of(first, limit - taken).await?;
        }
        Ok(taken)
    }

    async fn take_of(&mut self, what: Left, limit: usize) -> Result<usize, Error> {
        if limit == 0 {
            return Ok(0);
        }
        let engine = &self.client.engine;
        let wall = engine.wall();
        let take = Take {
            what,
            account: Some(engine.account_path()),
            now: wall,
            lease: engine.default_lease(),
            attempt_max: engine.policy.timeout.attempt,
            vendor_clock_ms: engine.vendor_clock.less_ours(wall, || engine.clock.now()),
            limit,
        };
        let now = engine.clock.now();
        let lease_until = now.plus(take.lease);
        let records = engine.take(take).await?;
        let taken = records.len();
        engine.gates.recovery().pay(taken, now);
        for record in records {
            telemetry::taken_over(&**engine.vendor, &record);
            let client = self.client.clone();
            let is_sequenced = record.sequence.is_some();
            self.sequenced += usize::from(is_sequenced);
            self.tasks
                .spawn(async move { (is_sequenced, client.engine.carry_on(record, lease_until).await) });
        }
        self.recovered.taken += taken;
        self.count.store(self.tasks.len(), Ordering::Relaxed);
        Ok(taken)
    }

    /// Waits until one of those under way has ended, and counts it.
    ///
    /// # Cancellation safety
    ///
    /// Nothing is lost.
    pub(super) async fn one_ends(&mut self) {
        match self.tasks.join_next().await {
            Some(ended) => self.ended(ended),
            // Nobody's end: whoever waits for another thing beside this waits on.
            None => std::future::pending().await,
        }
    }

    fn ended(&mut self, ended: Result<(bool, Result<Reply, Error>), JoinError>) {
        match ended {
            Ok((is_sequenced, outcome)) => {
                self.sequenced -= usize::from(is_sequenced);
                let outcome = self.recovered.count(&outcome);
                telemetry::recovered(self.client.vendor(), outcome);
            }
            // Its operation stays in progress until its lease runs out.
            Err(ended) => {
                self.recovered.failed += 1;
                if let Ok(panic) = ended.try_into_panic() {
                    telemetry::recovery_panicked(self.client.vendor(), "carry an operation on", &*panic);
                }
            }
        }
        self.count.store(self.tasks.len(), Ordering::Relaxed);
    }
}

/// Between two takes, and the spread of them: at many short operations at once, each that ends would be a take of one.
const GAP: Duration = Duration::from_millis(20);

const NEVER: Instant = Instant::from_nanos(u64::MAX);
