//! Delivering from one store, for all of a dispatcher's clients that have it.
//!
//! One loop: collect the wakes, look now and then for work without a wake, take in turn from those clients that have
//! something, and wait. A store is a loop of its own, because one that hangs is not to hold up the others.
//!
//! *Fairness.* Clients are taken from in turn, beginning after the one that was last taken from, and each is given at
//! most its part of its vendor's free places. So a client with a million due operations has all places while it is
//! alone, and the next place that is free goes to the one that comes. Within one client, the store gives each account
//! that it reaches a turn ([`Store::take`](crate::store::Store::take)), and of each what has waited longest. A weight
//! for each was rejected: a tenant that pays for more gets it by the client's own rates.
//!
//! *Looking.* A look is one question for all clients. After a look that found something the next comes soon, and later
//! each time that there is nothing, up to the period. Operations that were postponed again as they were count as
//! nothing. In between, nothing is asked: a client without anything to take is not taken from. A store with an outbox
//! is asked one thing more, unless it says so by itself: whose rows wait there.
//!
//! *Together.* While there is something to deliver, processes exchange heartbeats once a second: see [`super::peers`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use steadfast_core::clock::{Clock, Instant, Timestamp};
use steadfast_core::internal::ext::{ErrorExt, WakesExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::Sleeper;
use steadfast_core::operation::Scope;
use steadfast_core::store::delivery::{Look, Sight};

use super::health::Pulse;
use super::member::{GAP, Has, Member};
use super::peers::confer;
use super::under_way::UnderWay;
use super::{answered, asked};
use crate::engine::{Engine, Shutdown};
use crate::telemetry;

mod turn;

use turn::Turn;

/// Several clients on one store.
pub(super) struct Delivery {
    members: Vec<Turn>,
    /// Index of the client whose turn is next.
    next: usize,
    under_way: UnderWay,
    sleeper: Arc<Sleeper>,
    /// Engine of one of the clients, for its store and its clock.
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    period: Duration,
    /// Time of the next look, and pause after it.
    look_at: Instant,
    pause: Duration,
    expired: Arc<Notify>,
    pulse: Arc<Pulse>,
}

impl Delivery {
    /// `members` are of one store, and at least one.
    pub(super) fn new(
        members: Vec<Member>,
        period: Duration,
        leaving: Shutdown,
        expired: Arc<Notify>,
        pulse: Arc<Pulse>,
    ) -> Option<Delivery> {
        let engine = Arc::clone(&members.first()?.client.engine);
        let clock = Arc::clone(&engine.clock);
        Some(Delivery {
            next: 0,
            under_way: UnderWay::new(members.iter().map(|member| member.client.vendor().to_owned()), leaving),
            members: members.into_iter().map(Turn::new).collect(),
            sleeper: engine.wakes.sleeper(),
            look_at: clock.now(),
            clock,
            engine,
            period: period.max(SHORTEST),
            pause: shortest(period),
            expired,
            pulse,
        })
    }

    /// Delivers until shutdown; operations that are under way then are carried to their end, or released.
    pub(super) async fn run(mut self, leaving: Shutdown) {
        let mut left = pin!(leaving.said());
        loop {
            self.pulse.beat(self.clock.now());
            let mut heard_at = self.hear();
            if self.clock.now() >= self.look_at && !self.look().await {
                self.look_into_outbox().await;
            }
            if self.admit_in_turn().await {
                heard_at = self.hear();
            }
            self.take_in_turn().await;
            self.tell_others().await;
            let at = self.wake_at(heard_at);
            let mut until = pin!(self.clock.sleep_until(at));
            // Those that end while nobody waits for a place are no reason to look again.
            loop {
                tokio::select! {
                    biased;
                    () = &mut left => {
                        while !self.under_way.is_empty() {
                            self.under_way.some_end().await;
                        }
                        return self.leave().await;
                    }
                    () = self.under_way.some_end(), if !self.under_way.is_empty() => {
                        if self.places_came() {
                            break;
                        }
                    }
                    () = &mut until => break,
                    () = self.sleeper.woken.notified() => break,
                }
            }
        }
    }

    /// Has the next look come after `wait`, and those after it as after one that found something.
    fn look_soon(&mut self, wait: Duration) {
        self.pause = shortest(self.period);
        self.look_at = self.look_at.min(self.clock.now().plus(wait));
    }

    /// Returns the time in the store.
    fn wall(&self) -> Timestamp {
        self.engine.wall()
    }

    /// Marks the members that have something due, as far as wakes announced it. Returns the time of the next wake.
    fn hear(&mut self) -> Option<Timestamp> {
        self.members.iter_mut().for_each(Turn::probe_again);
        let (paths, next) = self.sleeper.due(self.wall());
        for path in paths {
            if path.is_empty() {
                self.look_at = self.clock.now();
                continue;
            }
            let scope = Scope::from_stored(format!("{path}/"));
            for turn in &mut self.members {
                if scope.is_reached_by(&turn.member.account) {
                    turn.member.has.due = true;
                    turn.is_told = true;
                }
            }
        }
        next
    }

    /// Returns the time at which there is something to do, if no wake comes before.
    fn wake_at(&self, heard_at: Option<Timestamp>) -> Instant {
        let now = self.clock.now();
        if self.members.iter().any(Turn::may_admit) {
            return now;
        }
        let heard = heard_at.map(|at| now.plus(at.since(self.wall())));
        let turns = self.members.iter().filter(|turn| turn.wants() && !turn.waits_for_place);
        let told = self.members.iter().enumerate().filter(|(nth, turn)| self.is_there(*nth, turn));
        let beat = told.filter_map(|(_, turn)| Some(now.plus(turn.member.peers.due_in(turn.member.now())?)));
        let probes = self.members.iter().filter_map(|turn| Some(now.plus(turn.member.again_in()?)));
        let due = turns.map(|turn| turn.not_before).chain(heard).chain(beat).chain(probes);
        due.chain([self.look_at]).min().unwrap_or(self.look_at)
    }

    /// Asks the store for the pending work of all clients. Returns true if the answer included the rows of the outbox.
    async fn look(&mut self) -> bool {
        let (now, mut knows_rows) = (self.wall(), false);
        let accounts = self.members.iter().map(|turn| turn.member.account.clone()).collect();
        let outbox = match self.engine.outbox() {
            Some(_) => self.members.iter().map(|turn| turn.member.client.engine.account()).collect(),
            None => Vec::new(),
        };
        let look = Look { now, until: now.plus(self.period), accounts, outbox };
        let Some(first) = self.members.first().map(|turn| turn.member.client.clone()) else { return false };
        let question = async {
            match first.engine.store.delivery() {
                Some(delivery) => delivery.look(&look).await.map(Some),
                None => Ok(None),
            }
        };
        match asked(&*self.clock, LOOK, question).await {
            Ok(Ok(mut sight)) => {
                self.pulse.asked(None);
                if let Some(rows) = sight.as_mut().and_then(|sight| sight.rows.take()) {
                    knows_rows = true;
                    self.saw_rows(rows);
                }
                self.saw(now, sight);
            }
            Ok(Err(error)) => {
                self.pulse.asked(Some(&error));
                telemetry::recovery_failed(first.vendor(), &error.at_vendor(first.vendor()));
                self.pause = self.period;
            }
            Err(panic) => {
                telemetry::recovery_panicked(first.vendor(), LOOK, &*panic);
                self.pause = self.period;
            }
        }
        self.look_at = self.clock.now().plus(self.pause);
        self.pause = self.pause.saturating_mul(2).min(self.period);
        knows_rows
    }

    /// A store that cannot say has to be taken from, and purged, to find out.
    fn saw(&mut self, now: Timestamp, sight: Option<Sight>) {
        let Some(sight) = sight else {
            for turn in &mut self.members {
                turn.by_look |= turn.member.has != Has::BOTH;
                turn.member.has = Has::BOTH;
            }
            self.expired.notify_one();
            return;
        };
        if sight.expired {
            self.expired.notify_one();
        }
        for (turn, waiting) in self.members.iter_mut().zip(sight.waiting) {
            let due = waiting.due.is_some_and(|due| due <= now);
            turn.by_look |= (due && !turn.member.has.due) || (waiting.lapsed && !turn.member.has.lapsed);
            turn.member.has.due |= due;
            turn.member.has.lapsed |= waiting.lapsed;
            if let Some(due) = waiting.due.filter(|due| *due > now) {
                // All who look see the same, and are not to take together.
                let spread = GAP.mul_f64(turn.member.client.engine.random.unit());
                let scope = Scope::from_stored(format!("{}/", turn.member.account));
                self.sleeper.tell(&scope, due.plus(spread));
            }
        }
    }

    /// Takes from each client that has something and may, once.
    async fn take_in_turn(&mut self) {
        let (count, first) = (self.members.len(), self.next);
        let (mut took_by_look, mut first_took, mut missed) = (false, false, false);
        for member in (first..first + count).map(|turn| turn % count) {
            let now = self.clock.now();
            if self.members.get(member).is_none_or(|turn| !turn.may_take(now)) {
                continue;
            }
            let (rivals, carried, of_vendor) = self.beside(member, now);
            let Some(turn) = self.members.get_mut(member) else { continue };
            (turn.waits_for_place, turn.pauses) = (false, false);
            let room = match turn.member.room(carried) {
                Ok(room) => room,
                Err(next) => {
                    turn.wait_for(next, now, self.period, of_vendor > 0);
                    continue;
                }
            };
            let part = (turn.member.places.free() / rivals).max(1);
            let limit = room.min(part);
            let taking = turn.member.take(limit, &mut self.under_way, member);
            let taken = answered(&*self.clock, TAKE, taking).await;
            let vendor = turn.member.client.vendor();
            match taken {
                Ok(Ok(taken)) => {
                    self.pulse.asked(None);
                    took_by_look |= std::mem::take(&mut turn.by_look) && taken > 0;
                    missed |= std::mem::take(&mut turn.is_told) && taken == 0;
                    if taken > 0 {
                        // Where the first had its part too, another one begins: what the division leaves over is not always
                        // the same one's.
                        let after = (member + 1) % count;
                        first_took |= member == first;
                        let is_round = after == first && first_took;
                        let next = if is_round { (first + 1) % count } else { after };
                        self.next = Guard::TakenInTurn.keeps(next);
                    }
                    if turn.member.has.any() {
                        (turn.not_before, turn.pauses) = (self.clock.now().plus(GAP), true);
                    }
                }
                Ok(Err(error)) => {
                    self.pulse.asked(Some(&error));
                    telemetry::recovery_failed(vendor, &error);
                    turn.not_before = self.clock.now().plus(self.period);
                }
                Err(panic) => {
                    telemetry::recovery_panicked(vendor, TAKE, &*panic);
                    turn.not_before = self.clock.now().plus(self.period);
                }
            }
        }
        if missed {
            // Another one was faster, or the store's clock is not there yet: a few milliseconds early is a period late.
            self.look_soon(GAP);
        }
        if took_by_look && !self.under_way.came_to_nothing() {
            self.look_soon(shortest(self.period));
        }
    }

    /// Returns three numbers: the clients that want places of the same vendor now, this one among them; this one's
    /// operations under way; and all of the same vendor.
    fn beside(&self, member: usize, now: Instant) -> (usize, usize, usize) {
        let (mut rivals, mut of_vendor) = (0, 0);
        for (other, turn) in self.members.iter().enumerate() {
            let is_of_vendor = self
                .members
                .get(member)
                .is_some_and(|own| Arc::ptr_eq(&turn.member.places, &own.member.places));
            if is_of_vendor {
                rivals += usize::from(turn.may_take(now));
                of_vendor += self.under_way.of(other);
            }
        }
        (rivals.max(1), self.under_way.of(member), of_vendor)
    }

    /// Asks the store for which clients rows of its outbox wait: one question for all.
    async fn look_into_outbox(&mut self) {
        let Some(outbox) = self.engine.outbox() else { return };
        let accounts: Vec<_> = self.members.iter().map(|turn| turn.member.client.engine.account()).collect();
        let vendor = self.engine.vendor.name();
        let question = async { outbox.have_rows(&accounts).await };
        let found = match asked(&*self.clock, LOOK_INTO_OUTBOX, question).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                self.pulse.asked(Some(&error));
                telemetry::recovery_failed(vendor, &error.at_vendor(vendor));
                return;
            }
            Err(panic) => return telemetry::recovery_panicked(vendor, LOOK_INTO_OUTBOX, &*panic),
        };
        self.saw_rows(found);
    }

    /// Notes the clients whose rows wait, in the order of the clients.
    fn saw_rows(&mut self, found: Vec<bool>) {
        for (turn, has_rows) in self.members.iter_mut().zip(found) {
            turn.has_rows = has_rows;
        }
    }

    /// Takes rows of the outbox on record, a page for each client that has some. Returns true if any client had.
    async fn admit_in_turn(&mut self) -> bool {
        let (mut had_rows, mut progressed) = (false, false);
        for turn in self.members.iter_mut().filter(|turn| turn.may_admit()) {
            had_rows = true;
            let client = &turn.member.client;
            turn.has_rows = match answered(&*self.clock, ADMIT, turn.admission.round(&client.engine)).await {
                Ok(Ok(are_more)) => {
                    progressed |= turn.admission.progressed;
                    are_more
                }
                Ok(Err(error)) => {
                    self.pulse.asked(Some(&error));
                    telemetry::recovery_failed(client.vendor(), &error);
                    false
                }
                Err(panic) => {
                    telemetry::recovery_panicked(client.vendor(), ADMIT, &*panic);
                    false
                }
            };
        }
        if progressed {
            // Where some were there are soon others, which nobody tells of while the first are here.
            self.look_soon(shortest(self.period));
        }
        had_rows
    }

    /// Whether a client has something to deliver.
    fn is_there(&self, nth: usize, turn: &Turn) -> bool {
        turn.wants() || self.under_way.of(nth) > 0
    }

    /// Exchanges heartbeats with other processes, when it is time to.
    async fn tell_others(&mut self) {
        let there: Vec<bool> =
            self.members.iter().enumerate().map(|(nth, turn)| self.is_there(nth, turn)).collect();
        for (nth, turn) in self.members.iter_mut().enumerate() {
            turn.member.gone = self.under_way.gone_of(nth);
        }
        let members = self.members.iter_mut().zip(there).filter_map(|(turn, is_there)| {
            let is_news = if is_there { turn.member.is_to_tell() } else { turn.member.peers.is_told() };
            is_news.then_some((&mut turn.member, is_there))
        });
        confer(&self.engine, members).await;
    }

    /// Sends other processes a last heartbeat: it delivers no more.
    async fn leave(&mut self) {
        let told = self.members.iter_mut().filter(|turn| turn.member.peers.is_told());
        confer(&self.engine, told.map(|turn| (&mut turn.member, false))).await;
    }

    /// Releases the places of operations that have ended. Returns true if that is a reason to take again, now or sooner
    /// than was thought.
    fn places_came(&mut self) -> bool {
        let (now, under_way) = (self.clock.now(), &self.under_way);
        let mut is_reason = false;
        for (member, turn) in self.members.iter_mut().enumerate() {
            if turn.wants() {
                is_reason |= turn.places_came(now, under_way.of(member));
            }
        }
        is_reason
    }
}

/// The pause after a look that found something.
fn shortest(period: Duration) -> Duration {
    (period / LOOKS_FASTER).max(SHORTEST)
}

const LOOK: &str = "look for pending work";
const TAKE: &str = "take over pending operations";

/// Number of times that it looks as often as in the idle state, after it has found something: sixteen times a second.
const LOOKS_FASTER: u32 = 16;

/// Shortest period: a period of zero would never yield the thread.
const SHORTEST: Duration = Duration::from_millis(1);

const LOOK_INTO_OUTBOX: &str = "look into the outbox";
const ADMIT: &str = "admit rows of the outbox";

#[cfg(test)]
mod tests;
