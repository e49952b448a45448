//! The events that the design allows, told from a breach by the very fact that causes them.

use std::time::Duration;

use steadfast::clock::Instant;
use steadfast::operation::record::{CLOCKS_DIFFER_MAX, DOUBTED_FOR};
use steadfast_core::internal::operation::slack;

use crate::world::audit::RETENTION;
use crate::world::facts::{All, CallMade, Does, KeyLife, Renewal, Said, Send, Taken, Told, Wait};
use crate::world::network::queue_max;
use crate::world::plan::{Schedule, secs};
use crate::world::vendors::{Kind, Name, policy};

/// Whether a second effect past the vendor's window, or a no that seemed to be of the first, is due to a wall clock that
/// was wrong, and that nothing on record showed to be: limits.md, "What it cannot do".
///
/// `first` is the send whose effect the vendor has forgotten, `last` the one that it carried out or refused. The times
/// on record and the last sender's clock said that the window was open: that host had no means to know better. Its own
/// measure since it took the operation did not say otherwise, and the time on record is of before the first send.
pub fn is_of_a_wrong_clock(schedule: &Schedule, first: &Send, last: &Send) -> bool {
    let Some(on_record) = &last.on_record else { return false };
    let Some(window) = last.vendor.window() else { return false };
    let usable = window.saturating_sub(slack(policy(schedule).timeout.attempt + queue_max(schedule)));
    let (taken, age) = on_record.taken;
    let by_its_clock = last.wall.since(on_record.claimed_at);
    let measured = age + last.left.since(taken);
    on_record.written <= first.left
        && on_record.claimed_at <= last.wall.plus(CLOCKS_DIFFER_MAX)
        && by_its_clock.max(measured) < usable
        && arrived(last).since(arrived(first)) >= window
}

/// Whether a key was free again because its store's own clock was days ahead for longer than the store doubts it, or jumped
/// ahead twice: limits.md, "What it cannot do". `earlier` had its effect before that, and `now` is of the life that began then.
pub fn is_of_a_server_ahead(schedule: &Schedule, earlier: &Send, now: Instant) -> bool {
    let Some(server) = schedule.server else { return false };
    server.ahead.is_some_and(|(from, to, by_ms)| {
        // The time before the second jump is the one that is believed.
        let again = server.step.filter(|(at, by_ms)| *by_ms > 0 && (from..to).contains(at));
        let doubted_for = again.map_or(DOUBTED_FOR, |(at, _)| at.saturating_sub(from).min(DOUBTED_FOR));
        let doubted_until = Instant::ORIGIN.plus(from + doubted_for);
        let seemed = now.since(earlier.left) + Duration::from_millis(by_ms.unsigned_abs());
        let forgets = Instant::ORIGIN.plus(to) > doubted_until && now >= doubted_until;
        forgets && earlier.left < Instant::ORIGIN.plus(to) && seemed >= RETENTION
    })
}

/// When a request was carried out.
pub fn arrived(send: &Send) -> Instant {
    send.arrived.unwrap_or(send.left)
}

/// Whether a dispatcher took an operation later than policy explains, on a host that did nothing but call and dispatch.
///
/// It is explained by what holds recovery back for its whole vendor: recovery's rate, which falls to one start in ten
/// seconds while what it sends fails or is too much, and whose debt is then as much again; an open circuit; a pause that
/// was asked for; a rate limit whose part for recovery is used up. A cause that holds back another operation alone
/// explains nothing.
pub fn is_taken_late(schedule: &Schedule, all: &All, taken: &Taken) -> bool {
    let Some(due) = taken.due else { return false };
    let vendor = schedule.operations[taken.operation].kind.vendor();
    // A server's clock that goes slow is there later.
    let drift_ppm = schedule.server.map_or(0, |server| server.clock.drift_ppm.unsigned_abs() as u32);
    let slower = due.since(Instant::ORIGIN) * drift_ppm / 1_000_000;
    taken.at.since(due.max(held_back_until(schedule, all, taken, vendor))) > LATE_MAX + slower
}

/// Until when a vendor's accounts are held for what was refused by `at`: for as long as the next probe may take.
pub fn held_until(all: &All, vendor: Name, at: Instant) -> Option<Instant> {
    let denied = all.denied.iter().filter(|(name, denied)| *name == vendor && *denied <= at);
    denied.map(|(_, denied)| denied.plus(HELD_MAX)).max()
}

fn held_back_until(schedule: &Schedule, all: &All, taken: &Taken, vendor: Name) -> Instant {
    let before = |at: Instant| at <= taken.at;
    let of_vendor = |operation: usize| schedule.operations[operation].kind.vendor() == vendor;
    let failures = || all.failures.iter().filter(|failure| failure.vendor == vendor && before(failure.at));
    // A failure of a live call says nothing of recovery's rate, and a lookup here has no caller.
    let slowed = failures().filter(|failure| failure.is_recovered).map(|failure| failure.at);
    let limited = all.pauses.iter().filter(|pause| pause.vendor == vendor && before(pause.asked));
    let too_many = all
        .slowed
        .iter()
        .filter(|slowed| slowed.is_recovered && slowed.vendor == vendor && before(slowed.at));
    let slowed =
        slowed.chain(limited.clone().map(|pause| pause.asked)).chain(too_many.map(|slowed| slowed.at));
    let slowed = slowed.max();
    let by_rate = slowed.map(|at| {
        let others = all.takes.iter().filter(|other| {
            of_vendor(other.operation)
                && other.operation != taken.operation
                && other.at >= at
                && before(other.at)
        });
        at.plus(STARTS_AGAIN + START * u32::try_from(others.count()).expect("few"))
    });
    // At least as many failures open a circuit.
    let by_circuit = (failures().count() >= TRIPS).then(|| failures().map(|failure| failure.at).max());
    let by_circuit = by_circuit.flatten().map(|at| at.plus(OPEN_MAX));
    let by_pause = limited.map(|pause| pause.asked.plus(pause.wait.min(PAUSE_MAX) + SPREAD_MAX)).max();
    let by_hold = held_until(all, vendor, taken.at);
    let by_limit = schedule.rate.and_then(|rate| used_up_until(all, taken, rate));
    // Nobody could look at the store.
    let by_store = schedule.extras.store_is_back(taken.at);
    [by_rate, by_circuit, by_pause, by_hold, by_limit, by_store]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(Instant::ORIGIN)
}

/// Until when recovery's half of a limit of `rate` a second is used up by what its taker sent meanwhile.
fn used_up_until(all: &All, taken: &Taken, rate: u32) -> Option<Instant> {
    let due = taken.due?;
    // The taker heard of it a moment later.
    let mut heard = all.taken_by.iter().filter(|(_, of, _, at)| *of == taken.operation && *at >= taken.at);
    let (by, ..) = heard.next()?;
    let is_meanwhile = |at: Instant| due <= at && at <= taken.at;
    let sent = all.sends.iter().filter(|send| send.incarnation == *by && is_meanwhile(send.left));
    Some(due.plus(secs(2) * u32::try_from(sent.count()).expect("few") / rate))
}

/// Whether another call claimed the key for this life while this call was under way: it may have looked a moment before.
/// On a host that stands still the moment may be long.
pub fn is_claimed_meanwhile(all: &All, told: &Told, life: &KeyLife, is_calm: bool) -> bool {
    told.attempts == 0
        && life.began >= told.began
        && all.overlaps(told)
        && is_just_now(told, life.began, is_calm)
}

/// Whether somebody sent the operation while a call was under way that was told that it goes on, or that its key belongs to
/// another request: the call may have looked a moment before.
pub fn is_sent_meanwhile(told: &Told, is_alone: bool, send: &Send, is_calm: bool) -> bool {
    // A refused call leaves its key free for another call.
    let is_free = told.said == Said::Refused && !is_alone;
    // A dead letter may be redriven.
    let may_be_sent = told.goes_on() || matches!(told.said, Said::OfAnother | Said::Dead) || is_free;
    let is_anothers = told.attempts == 0 || !is_alone;
    is_anothers && may_be_sent && send.left >= told.began && is_just_now(told, send.left, is_calm)
}

/// Whether another call for the operation was made after `told`, or came to its end so shortly before that this one may have
/// looked a moment earlier.
pub fn is_called_again(all: &All, told: &Told, is_calm: bool) -> bool {
    let ends_after = |ended: Instant| ended > told.began && is_just_now(told, ended, is_calm);
    all.others(told.operation, told.call)
        .any(|call| call.began > told.at || call.ended.is_none_or(ends_after))
}

fn is_just_now(told: &Told, at: Instant, is_calm: bool) -> bool {
    told.at.since(at) <= ANSWER_MAX || !is_calm
}

/// Whether an operation was sent earlier than a vendor had asked its process for, where hosts' clocks differ by `differ`.
///
/// A process holds itself back by its own measure, for as long as its policy has it. A longer wait is on record alone, as
/// a time by the clock of whoever wrote it: not where its holder could not write it down, and a call without a key has
/// no record, and whoever was no longer its holder when the answer came was fenced out. A host that is far behind takes such
/// a record for that of a wrong clock, and the operation at once. By a server's clock that is ahead the time is over.
pub fn is_back_early(schedule: &Schedule, all: &All, wait: &Wait, send: &Send, differ: Duration) -> bool {
    let is_of_it = send.operation == Some(wait.operation)
        && (send.incarnation, send.vendor) == (wait.incarnation, wait.vendor)
        && send.handed > wait.told;
    let held_until = wait.until.min(wait.told.plus(PAUSE_MAX));
    let own =
        |other: &&Send| other.operation == Some(wait.operation) && other.incarnation == wait.incarnation;
    let asked = all.sends.iter().filter(own).map(|send| send.left).filter(|left| *left <= wait.told).max();
    let is_taken_before = |at: Instant| {
        let since = asked.unwrap_or(wait.told)..at;
        all.takes.iter().any(|taken| taken.operation == wait.operation && since.contains(&taken.at))
    };
    let is_on_record = schedule.operations[wait.operation].kind != Kind::Get
        && differ <= CLOCKS_DIFFER_MAX
        && all.let_go.iter().any(|(operation, at)| {
            *operation == wait.operation && (wait.told..send.left).contains(at) && !is_taken_before(*at)
        });
    let was_ahead = schedule.server.and_then(|server| server.ahead).is_some_and(|(from, to, _)| {
        Instant::ORIGIN.plus(from) <= send.handed && Instant::ORIGIN.plus(to) >= wait.told
    });
    let is_on_record = is_on_record && !was_ahead;
    is_of_it && (send.left < held_until || (is_on_record && send.left.plus(differ) < wait.until))
}

/// Whether the rate limit that refused a call was used up by what was sent, or by what was about to be: so many that may
/// go in a second.
pub fn is_rate_used_up(schedule: &Schedule, all: &All, told: &Told, calls: usize) -> bool {
    let vendor = schedule.operations[told.operation].kind.vendor();
    let lately = |(of, at_vendor, at): &&(u64, Name, Instant)| {
        *of == told.incarnation
            && *at_vendor == vendor
            // A call that was let through holds its place until it starts.
            && *at <= told.at.plus(secs(1))
            && told.began.since(*at) < secs(1)
    };
    // So does a call that is about to learn that there is nothing to send. The gate was asked at some time of the call
    // that it refused, which looked at the record after that.
    let under_way = |(place, call): &(usize, &CallMade)| {
        let of_vendor = schedule.operations[call.operation].kind.vendor() == vendor;
        let is_open = call.began <= told.at && call.ended.is_none_or(|ended| ended >= told.began);
        of_vendor && is_open && call.does == Does::Send && *place != told.call
    };
    // And so does a holder that asks for more time before its send.
    let renewing = |renewal: &&Renewal| {
        let is_open = renewal.began <= told.at && renewal.ended.is_none_or(|ended| ended >= told.began);
        let of_vendor = schedule.operations[renewal.operation].kind.vendor() == vendor;
        renewal.incarnation == told.incarnation && of_vendor && is_open
    };
    // And what recovery took waits for its part, which live calls leave it.
    let waiting = |(by, operation, _, at): &&(u64, usize, u64, Instant)| {
        let mut sends = all.sends_of(*operation).filter(|send| send.incarnation == *by && send.left >= *at);
        let of_vendor = schedule.operations[*operation].kind.vendor() == vendor;
        // Until it is sent, or put off without.
        let mut let_go = all.let_go.iter().filter(|(of, let_go_at)| of == operation && let_go_at >= at);
        let is_held = !sends.any(|send| send.left < told.began) && !let_go.any(|(_, at)| *at < told.began);
        *by == told.incarnation && of_vendor && *at <= told.at && is_held
    };
    let used = all.taken_by.iter().filter(waiting).count()
        + all.attempts.iter().filter(lately).count()
        + all.calls.iter().enumerate().filter(under_way).count()
        + all.renewals.iter().filter(renewing).count();
    used >= calls
}

/// A call that is out of time may still look at the store once.
pub const ANSWER_MAX: Duration = secs(1);

pub const DAY: Duration = secs(24 * 3600);

/// The window that Stripe, Checkout.com and the vendor by configuration document.
pub const WINDOW: Duration = DAY;

/// Past the dispatcher's period and a few waits for the store.
const LATE_MAX: Duration = Duration::from_millis(10_500);

/// The longest between two probes of an account whose credentials were refused, at a dispatcher's longest period, where one
/// of the two is lost or finds the store away.
const HELD_MAX: Duration = Duration::from_secs(2 * (35 + 8));

/// `policy::recovery`: at the floor of one start in ten seconds.
const START: Duration = secs(10);

/// And with the debt of ten seconds that is paid off first.
const STARTS_AGAIN: Duration = secs(20);

/// `BreakerConfig::default`: so many failures in a row, or more at a rate.
const TRIPS: usize = 5;

/// Its longest open time, with a fifth of jitter.
const OPEN_MAX: Duration = secs(36);

/// `Policy::pause_max`, by default.
pub const PAUSE_MAX: Duration = secs(3600);

/// Beside a pause: a tenth of it, and no more than this.
const SPREAD_MAX: Duration = secs(30);
