//! The promises for calls that are left to dispatchers, held against what the store and the vendors saw.
//!
//! An accepted call is never lost. Nothing starts before its time. A call that was taken back is not sent. A sequence
//! is in order, and one at a time. Who waits hears of the outcome, and one tenant's backlog does not hold up another
//! one. A dispatcher that was stopped holds nothing and takes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use steadfast::clock::Instant;
use steadfast::operation::record::{CLOCKS_DIFFER_MAX, Record};
use steadfast::{Disposition, Effect};

use crate::world::allowed::held_until;
use crate::world::audit::{Breaches, Kind, clocks_differ, drifted, is_calm};
use crate::world::course::World;
use crate::world::extras::Extras;
use crate::world::facts::{Accepted, AdmittedAs, All, Cancelled, How, Said, Send, Stopped, Told, Waited};
use crate::world::plan::{What, secs};
use crate::world::queue::Queued;
use crate::world::vendors::policy;

/// The breaches of calls that were accepted, and are neither on record nor were ever seen to end. Also those of rows
/// that were committed into the outbox, and are neither that nor kept aside.
pub fn judge_kept(world: &World, records: &[Record]) -> Breaches {
    let is_kept = |all: &All, (operation, life): (usize, Option<usize>)| {
        let Some(life) = life.and_then(|life| all.life_at((operation, life))) else {
            return false;
        };
        life.stands.iter().any(|stand| stand.how == How::Ended)
            || records.iter().any(|record| record.id == life.id)
    };
    let is_of_another =
        |operation| world.schedule.extras.another.is_some_and(|(number, ..)| number == operation);
    world.facts.with(|all| {
        let mut breaches = Breaches::new();
        let mut accepted = all.accepted.iter();
        if let Some(lost) = accepted.find(|accepted| !is_kept(all, (accepted.operation, accepted.life))) {
            breaches.insert(Kind::AcceptedAndLost, format!("{lost:?}"));
        }
        for row in &all.rows {
            let kind = match row.admitted {
                Some(admitted) if is_kept(all, (row.operation, admitted.life)) => None,
                Some(_) => Some(Kind::RowLost),
                // Each asks for a call that is right, and is kept aside by an operator alone. But its key may be
                // another request's.
                None if row.is_aside() && is_of_another(row.operation) => None,
                None if row.is_aside() => row.rejected.is_some().then_some(Kind::RowRejected),
                None => Some(Kind::RowLeftInOutbox),
            };
            if let Some(kind) = kind {
                breaches.entry(kind).or_insert_with(|| format!("{row:?}"));
            }
        }
        breaches
    })
}

/// The breach of a call that was told that there is no effect and that nothing goes on. All the while a row of its key
/// waited from before the call on, and was sent later. Whoever asked for something else under the key was not told of
/// the row's call.
pub fn sent_of_row(all: &All, told: &Told) -> Option<Kind> {
    let is_over = matches!(told.next, Some(Disposition::Ended)) && told.said != Said::OfAnother;
    if told.effect != Some(Effect::None) || !is_over {
        return None;
    }
    let waited = all
        .rows
        .iter()
        .filter(|row| row.operation == told.operation && row.waits_through(told.began, told.at));
    waited.filter_map(|row| row.admitted).find_map(|admitted| {
        let mut sends = all.sends_of(told.operation);
        let is_sent = sends.any(|send| Some(send.life) == admitted.life && send.left >= admitted.at);
        match admitted.how {
            AdmittedAs::Begun if is_sent => Some(Kind::NoneToldOfARow),
            AdmittedAs::TakenOver if is_sent => Some(Kind::NoneToldOfARowUnderAFreeKey),
            _ => None,
        }
    })
}

/// All else, once all is over.
pub fn judge(world: &World, all: &All) -> Breaches {
    let mut breaches = Breaches::new();
    let mut find = |kind: Kind, what: Option<String>| {
        if let Some(what) = what {
            breaches.entry(kind).or_insert(what);
        }
    };
    for send in &all.sends {
        if let Some((kind, other)) = jumped(all, send) {
            find(kind, Some(format!("operation {other} beside {send:?}")));
        }
        let after = all.cancelled.iter().find(|cancelled| {
            send.operation == Some(cancelled.operation)
                && send.life == cancelled.life
                && send.left > cancelled.at
                && !is_held_by_another_clock(world, cancelled, send)
        });
        find(Kind::SentThoughCancelled, after.map(|cancelled| format!("{cancelled:?}: {send:?}")));
    }
    for accepted in all.accepted.iter().filter(|accepted| accepted.is_new) {
        find(Kind::TakenBeforeItsTime, taken_before(world, all, accepted));
        find(Kind::SentBeforeItsTime, sent_before(world, all, accepted));
        find(Kind::StarvedByAnother, starved(world, all, accepted));
    }
    for waited in &all.waited {
        find(Kind::WaitMissedTheEnd, missed(world, all, waited));
    }
    for stopped in &all.stopped {
        find(Kind::StoppedAndStillHolding, still_held(world, all, stopped));
        find(Kind::StoppedAndStillTaking, still_taking(all, stopped));
        find(Kind::StoppedLate, stopped_late(world, stopped));
        find(Kind::StopCutOff, cut_off(world, stopped));
    }
    find(Kind::TakenAgainAndAgain, taken_again(world, all));
    breaches
}

/// The breach of a request that was sent out of the turn of its sequence. Its holder came by the operation while
/// one before it had not ended, or while any other was in somebody's hand.
fn jumped(all: &All, send: &Send) -> Option<(Kind, usize)> {
    let (place, held) = ((send.operation?, send.life), send.held?);
    let line = all.lines.values().find(|line| line.contains(&place))?;
    let since = all.life_at(place)?.held_since(held);
    let index = line.iter().position(|other| *other == place)?;
    for (other, life) in line.iter().enumerate().filter_map(|(nth, at)| Some((nth, all.life_at(*at)?))) {
        if other == index {
            continue;
        }
        if other < index && life.holds_line(since) {
            return Some((Kind::SequenceOutOfOrder, line[other].0));
        }
        if life.stood(held) == Some(How::Held) {
            return Some((Kind::SequenceTwoAtOnce, line[other].0));
        }
    }
    None
}

/// The life that this call began, if it is the one that it was accepted as.
pub fn has_begun(all: &All, accepted: &Accepted) -> Option<(usize, usize)> {
    let place = (accepted.operation, accepted.life?);
    all.life_at(place).filter(|life| life.began >= accepted.began && life.began <= accepted.at)?;
    // Another call beside it may have come first.
    let is_alone = !all.overlap(accepted.operation, accepted.call, (accepted.began, accepted.at));
    is_alone.then_some(place)
}

/// Whether it was held, and by the clock of whoever took it back its holder was dead for long: what limits.md says that nobody
/// can make up for. They were told that the effect is unknown.
fn is_held_by_another_clock(world: &World, cancelled: &Cancelled, send: &Send) -> bool {
    let differ = clocks_differ(world, send.left.since(Instant::ORIGIN));
    let taken = send.on_record.as_ref().map(|on_record| on_record.taken.0);
    let Some(taken) = taken.filter(|taken| *taken < cancelled.at) else { return false };
    let policy = policy(&world.schedule);
    match world.schedule.server {
        // By a clock that is ahead by more than what is left of it, the lease is over.
        None => cancelled.at.since(taken) + differ > policy.timeout.attempt + policy.lease_margin,
        // By a server that is days ahead, each lease is over.
        Some(server) => server.ahead.is_some_and(|(from, to, _)| {
            let at = cancelled.at.since(Instant::ORIGIN);
            (from..=to).contains(&at)
        }),
    }
}

/// By the clock that its record is of: whoever takes it must read that its time has come.
///
/// A server that is set while somebody enqueues keeps the wait, and not the time. A time that is asked for is a wait by what
/// the host last heard of the server's clock, which drifts since.
fn taken_before(world: &World, all: &All, accepted: &Accepted) -> Option<String> {
    let is_meanwhile = |at: Duration| (accepted.began..=accepted.at).contains(&Instant::ORIGIN.plus(at));
    let is_set = world.schedule.server.is_some_and(|server| {
        server.step.is_some_and(|(at, _)| is_meanwhile(at))
            || server.ahead.is_some_and(|(from, to, _)| is_meanwhile(from) || is_meanwhile(to))
    });
    if is_set {
        return None;
    }
    let life = all.life_at(has_begun(all, accepted)?)?;
    let first = life.holds.first()?;
    let heard = world.schedule.server.map_or(Duration::ZERO, |server| {
        let since = if accepted.is_time { accepted.at.since(Instant::ORIGIN) } else { Duration::ZERO };
        drifted(server.clock, since) + STORE_WAY
    });
    let is_before = accepted.due.is_some_and(|due| first.now.plus(heard) < due);
    is_before.then(|| format!("{accepted:?}: {first:?}"))
}

/// By the right time, less what the clocks differ.
fn sent_before(world: &World, all: &All, accepted: &Accepted) -> Option<String> {
    let (operation, life) = has_begun(all, accepted)?;
    let first = all.sends_of(operation).find(|send| send.life == life)?;
    let after = accepted.due_in_truth.since(Instant::ORIGIN).max(world.schedule.horizon);
    let first_hold = all.life_at((operation, life)).and_then(|life| life.holds.first());
    let mut differ = clocks_differ(world, after);
    if let Some(server) = world.schedule.server {
        // Who took it was told the server's time.
        differ += first_hold.map_or(Duration::ZERO, |hold| server.ahead_at(hold.at));
        if accepted.is_time {
            // The time that was asked for is by the server's clock.
            differ += Duration::from_millis(server.clock.off_ms.unsigned_abs())
                + server.ahead_at(accepted.began).max(server.ahead_at(accepted.at));
        }
    }
    let is_early = first.left.plus(differ + A_MOMENT) < accepted.due_in_truth;
    is_early.then(|| format!("{accepted:?}: {first:?}"))
}

/// The breach of a call that another account's backlog kept waiting.
fn starved(world: &World, all: &All, accepted: &Accepted) -> Option<String> {
    let is_tenant = world.schedule.queue.as_ref().is_some_and(|queue| queue.what == Queued::Tenants);
    let vendor = world.schedule.operations[accepted.operation].kind.vendor();
    if !is_tenant || !vendor.is_other_account() {
        return None;
    }
    let life = all.life_at(has_begun(all, accepted)?)?;
    let first = life.holds.first()?;
    // A server that was set back finds it due so much later, perhaps after the last dispatcher has gone.
    let step = world.schedule.server.and_then(|server| server.step);
    let set_back =
        step.filter(|(_, by_ms)| *by_ms < 0).map(|(_, by_ms)| Duration::from_millis(by_ms.unsigned_abs()));
    if set_back.is_some() && first.at > Instant::ORIGIN.plus(world.schedule.horizon) {
        return None;
    }
    let set_back = set_back.map(|by| accepted.due_in_truth.plus(by).min(first.at));
    let by_record = accepted.due.map_or(Duration::MAX, |due| first.now.since(due));
    // Nobody takes anything from a store that nobody reaches.
    let back = world.schedule.extras.store_is_back(first.at).map(|back| back.min(first.at));
    // Nor of an account whose credentials are refused.
    let held = held_until(all, vendor, first.at).map(|until| until.min(first.at));
    let since = [accepted.at, accepted.due_in_truth].into_iter().chain(back).chain(held).chain(set_back);
    let since = since.max().unwrap_or(accepted.at);
    let waited = first.at.since(since).min(by_record);
    (waited > STARVED_MAX).then(|| format!("{accepted:?} waited {waited:?}"))
}

/// The breach of an outcome that was on record for long and was not told, or not soon.
fn missed(world: &World, all: &All, waited: &Waited) -> Option<String> {
    let Extras { locked, away, .. } = &world.schedule.extras;
    if !is_calm(world) || !locked.is_empty() || !away.is_empty() {
        return None;
    }
    let life = all.life_at((waited.operation, waited.life))?;
    let until = waited.at;
    // It stood so from then on, at least until the answer.
    let last = life.stands.iter().rfind(|stand| stand.at <= until)?;
    let is_over = matches!(last.how, How::Ended | How::Dead);
    let known_for = until.since(last.at.max(waited.began));
    (is_over && known_for > SEEN_WITHIN).then(|| format!("{waited:?}: {last:?}"))
}

/// The operations that it took, and that nobody can take before the lease is over.
fn still_held(world: &World, all: &All, stopped: &Stopped) -> Option<String> {
    // A renewal that the store did not answer within the call's time leaves the operation to its lease.
    let total = policy(&world.schedule).timeout.total;
    let is_left = |operation: usize| {
        let own = all.taken_by.iter().filter(|taken| (taken.0, taken.1) == (stopped.incarnation, operation));
        own.map(|(.., at)| *at)
            .filter(|at| *at <= stopped.at)
            .max()
            .is_some_and(|at| at.plus(total) <= stopped.at)
    };
    // A host that stood still in the middle of a write gives it up, once it goes on.
    let stalls = world.schedule.meets(stopped.host, |what| matches!(what, What::Stall(_)));
    // An operation that the store was giving in the moment when the limit was over is nobody's.
    let is_whole = stopped.cut_off == 0 && stopped.limit >= A_MOMENT && !stalls;
    let is_whole =
        is_whole && !may_fail(world, stopped.host) && !stopped.held.iter().all(|held| is_left(*held));
    is_whole.then(|| format!("{stopped:?}"))
}

fn still_taking(all: &All, stopped: &Stopped) -> Option<String> {
    let taken = all.taken_by.iter().find(|(incarnation, _, _, at)| {
        *incarnation == stopped.incarnation
            && *at > stopped.at
            && stopped.again.is_none_or(|again| *at < again)
    });
    taken.map(|taken| format!("{stopped:?}: {taken:?}"))
}

fn stopped_late(world: &World, stopped: &Stopped) -> Option<String> {
    let late = stopped.at.since(stopped.asked) > stopped.limit + A_MOMENT;
    (late && is_calm(world)).then(|| format!("{stopped:?}"))
}

/// Although its limit was longer than any attempt, and what waits is let go of.
fn cut_off(world: &World, stopped: &Stopped) -> Option<String> {
    let attempt = policy(&world.schedule).timeout.attempt;
    let is_enough = stopped.limit >= attempt + A_MOMENT * 2;
    let is_cut = stopped.cut_off > 0 && is_enough && is_calm(world) && !may_fail(world, stopped.host);
    is_cut.then(|| format!("{stopped:?}"))
}

/// An operation that processes take as fast as the store can write. Where hosts' clocks are far apart and the store has
/// none of its own, each finds due at once what another one has left for later, or holds.
fn taken_again(world: &World, all: &All) -> Option<String> {
    // No more than a few dozen times in a second, and not for long: a run that takes too many steps is stuck.
    if clocks_differ(world, world.schedule.horizon) > CLOCKS_DIFFER_MAX {
        return None;
    }
    let mut taken: BTreeMap<usize, Vec<Instant>> = BTreeMap::new();
    for take in &all.takes {
        taken.entry(take.operation).or_default().push(take.at);
    }
    let is_often = |times: &[Instant]| times[TAKEN_MAX - 1].since(times[0]) < TAKEN_WITHIN;
    let (operation, times) = taken.iter().find(|(_, times)| times.windows(TAKEN_MAX).any(is_often))?;
    Some(format!("operation {operation}: {} times", times.len()))
}

/// Whether this host's writes may be lost.
fn may_fail(world: &World, host: usize) -> bool {
    let schedule = &world.schedule;
    let Extras { locked, away, .. } = &schedule.extras;
    schedule.meets(host, |what| matches!(what, What::StoreFails)) || !locked.is_empty() || !away.is_empty()
}

/// More often within this time nobody has a reason to take an operation: see `dispatcher`.
const TAKEN_MAX: usize = 30;
const TAKEN_WITHIN: Duration = secs(10);

/// A few of the store's answers.
const A_MOMENT: Duration = secs(1);

/// From a question to a store to its answer, and the rounding to a millisecond.
const STORE_WAY: Duration = Duration::from_millis(5);

/// The end of one operation at a healthy vendor, its own start, and the store's answers between.
const STARVED_MAX: Duration = secs(3);

/// Whoever waits looks each second at least.
const SEEN_WITHIN: Duration = secs(2);
