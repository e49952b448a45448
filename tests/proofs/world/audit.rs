//! The promise, held against what the vendors did: every record, and every word that a caller was told.

use std::collections::BTreeMap;

use steadfast::clock::{Instant, Timestamp};
use steadfast::operation::record::{CLOCKS_DIFFER_MAX, Record, Resolution, State};
use steadfast::{Disposition, Effect, Gate, Obtained, Refusal};

use crate::world::allowed::{
    ANSWER_MAX, arrived, is_back_early, is_called_again, is_claimed_meanwhile, is_of_a_server_ahead,
    is_of_a_wrong_clock, is_rate_used_up, is_sent_meanwhile, is_taken_late,
};
use crate::world::course::World;
use crate::world::facts::{AdmittedAs, All, RowCommitted, Said, Send, Taken, Told, operation_of};
use crate::world::plan::{WallClock, What, secs};
use crate::world::promised;
use crate::world::queue::Queued;
use crate::world::vendors::{Kind as Asked, Name, SECRETS};
use support::promise::{self, Untrue};

/// How the promise was broken. A kind says as much of the circumstances as tells one cause from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    // More effects than the operation may have.
    SecondEffectAfterStripeLookup,
    SecondEffectAfterBigCommerceLookup,
    SecondEffectAfterPostmarkLookup,
    SecondEffectPastWindow,
    SecondEffectOfAWrongClock,
    SecondEffectAfterProxyPage,
    MoreRepeatsThanAccepted,
    MoreRepeatsThanForced,
    SecondEffectOfAKeyUsedAgain,
    SecondEffectOfAKeyForgotten,
    SecondEffectOfAServerAhead,
    SecondEffectAfterEdit,
    SecondEffectOfALateRow,
    SecondEffect,
    // A record at rest that is not so.
    RefusedThoughApplied,
    RefusedOfAWrongClock,
    AbsentAtStripeThoughApplied,
    AbsentAtBigCommerceThoughApplied,
    AbsentAtPostmarkThoughApplied,
    NoneOnRecordAfterProxyPage,
    DeadWithoutEffectThoughApplied,
    PageTakenForSuccess,
    NotModifiedTakenForSuccess,
    FoundInEarlierLife,
    FoundInEarlierLifeOfAServerAhead,
    SettledByEarlierLife,
    SuccessOfNothing,
    GoneTakenForUnknown,
    DeadOnFailedLookups,
    AnswerDropped,
    LateRepeatUndidLaterWrite,
    SecretOnRecord,
    EndedByCredentials,
    SentByOtherAccount,
    VersionChanged,
    // Words that a caller was told and that are not so.
    NoneToldByGate,
    NoneToldWithoutTime,
    NoneToldByStore,
    NoneToldOfAKeyForgotten,
    NoneToldOfAServerAhead,
    NoneToldOfAnAbsentOne,
    NoneTold,
    NoneToldAndThenSent,
    NoneToldOfARow,
    NoneToldOfARowUnderAFreeKey,
    EndedToldAndThenSent,
    WaitsToldAndThenSent,
    RefusalToldThoughApplied,
    UnknownToldThoughNothingLeft,
    UnknownToldOfSafeMethod,
    ReplyOfEarlierLife,
    ReplyOfNothing,
    ReplyOfAnother,
    CircuitOpenedByCallers,
    CircuitOpenedByOneOperation,
    CameBackEarly,
    MoreThanRate,
    RateSpentOnReplays,
    // Nothing goes on.
    LateAnswer,
    RefusedByFullStore,
    TakenLate,
    KeptTooLong,
    BacklogStarves,
    NeverLookedUp,
    // Breaches for calls that were left to a dispatcher.
    AcceptedAndLost,
    RowLost,
    RowLeftInOutbox,
    RowRejected,
    TakenBeforeItsTime,
    SentBeforeItsTime,
    SentThoughCancelled,
    SequenceOutOfOrder,
    SequenceTwoAtOnce,
    StarvedByAnother,
    WaitMissedTheEnd,
    StoppedAndStillHolding,
    StoppedAndStillTaking,
    StoppedLate,
    StopCutOff,
    TakenAgainAndAgain,
    NotAtRest,
    Stuck,
    Panicked,
}

/// Each kind that a schedule shows, with what it was.
pub type Breaches = BTreeMap<Kind, String>;

pub fn panicked(what: &str) -> Breaches {
    Breaches::from([(Kind::Panicked, what.to_owned())])
}

/// The records at rest, and those that do not come to it.
pub fn judge_records(world: &World, records: &[Record], stuck: Vec<Record>) -> Breaches {
    let mut breaches = Breaches::new();
    world.facts.with(|all| {
        for record in stuck {
            let Some(number) = operation_of(&record.request.headers) else { continue };
            let asked = world.schedule.operations[number].kind;
            let is_known = record.effect == Effect::Unknown && asked.has_lookup();
            let kind = if is_known { Kind::NeverLookedUp } else { Kind::NotAtRest };
            breaches.entry(kind).or_insert_with(|| format!("operation {number}: {:?}", record.state.name()));
        }
        for record in records {
            let Some(number) = operation_of(&record.request.headers) else { continue };
            let Some(life) = all.life_of(number, record.id.key.as_str()) else { continue };
            if has_secret(record) {
                breaches.entry(Kind::SecretOnRecord).or_insert_with(|| format!("operation {number}"));
            }
            if is_ended_by_credentials(world, record, number) {
                breaches.entry(Kind::EndedByCredentials).or_insert_with(|| format!("operation {number}"));
            }
            if let Some(kind) = judge_record(world, all, record, number, life) {
                let (state, effects) = (record.state.name(), all.effects_of(number, life));
                breaches.entry(kind).or_insert_with(|| {
                    format!("operation {number}: {state}, effect {:?}, in truth {effects:?}", record.effect)
                });
            }
        }
        for number in 0..world.schedule.operations.len() {
            for kind in too_many(world, all, number).into_iter().chain(second_of_row(world, all, number)) {
                breaches
                    .entry(kind)
                    .or_insert_with(|| format!("operation {number}: {:?}", effects(all, number)));
            }
        }
    });
    breaches
}

/// Whether nobody waited for the operation, and a refusal of our credentials ended it all the same.
fn is_ended_by_credentials(world: &World, record: &Record, number: usize) -> bool {
    let State::Refused { refusal: Refusal::Unauthorized, answer } = &record.state else { return false };
    let nobody_waits =
        world.schedule.operations[number].callers.iter().all(|caller| caller.enqueues.is_some());
    nobody_waits && world.schedule.extras.another.is_none() && answer.status.as_u16() == 401
}

/// The record that stays although its time was over by then, and no row of its key still stands in the outbox. Such a
/// row is compared with it, and a purge spares it, see design, rule 18.
pub fn judge_growth(world: &World, records: &[Record], over: Timestamp) -> Breaches {
    let keys_of = |all: &All, row: &RowCommitted| {
        let lives = all.lives.get(&row.operation).into_iter().flatten();
        let own = world.schedule.operations[row.operation].kind.key(row.operation);
        lives.map(|life| life.key.clone()).chain([own]).collect::<Vec<_>>()
    };
    // Whatever the account.
    let spared: Vec<String> = world.facts.with(|all| {
        let waits = all.rows.iter().filter(|row| row.admitted.is_none());
        waits.flat_map(|row| keys_of(all, row)).collect()
    });
    let has_row = |record: &Record| spared.iter().any(|key| key == record.id.key.as_str());
    let is_over = |record: &&Record| record.expires_at().is_some_and(|expires| expires < over);
    let kept = records.iter().filter(is_over).find(|record| !has_row(record));
    let what = kept.map(|record| format!("{}: expired at {:?}", record.id.key, record.expires_at()));
    what.map(|what| (Kind::KeptTooLong, what)).into_iter().collect()
}

/// Whether the record holds what a client was given as a secret.
fn has_secret(record: &Record) -> bool {
    let is_in = |text: &[u8]| {
        SECRETS.iter().any(|secret| text.windows(secret.len()).any(|part| part == secret.as_bytes()))
    };
    is_in(&record.request.body) || record.request.headers.values().any(|value| is_in(value.as_bytes()))
}

/// Whether a text tells of an effect of an earlier life. Where hardly a day lies between, a clock that was wrong had the
/// key forgotten, and what is found is the very operation.
fn is_of_earlier(all: &All, number: usize, (earlier, life): (usize, usize), text: &str) -> bool {
    let began = all.lives[&number][life].began;
    all.sends_of(number).any(|send| {
        send.life == earlier
            && began.since(send.left) >= RETENTION_MIN
            && send.effects.iter().any(|id| text.contains(id))
    })
}

/// How it came that a lookup took what an earlier life had left for this one's.
fn found_in_earlier_life(world: &World, all: &All, (number, life): (usize, usize)) -> Kind {
    let now = all.lives[&number][life].began;
    let mut earlier = all.sends_of(number).filter(|send| send.life < life && !send.effects.is_empty());
    let is_forgotten = earlier.any(|send| is_of_a_server_ahead(&world.schedule, send, now));
    // And by its clock now that effect is of after the claim.
    let is_behind =
        world.schedule.server.is_some_and(|server| server.step.is_some_and(|(_, by_ms)| by_ms < 0));
    if is_forgotten && is_behind { Kind::FoundInEarlierLifeOfAServerAhead } else { Kind::FoundInEarlierLife }
}

fn is_proxys(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("proxy")
}

fn judge_record(world: &World, all: &All, record: &Record, number: usize, life: usize) -> Option<Kind> {
    let asked = world.schedule.operations[number].kind;
    let effects = all.effects_of(number, life);
    let applied = !effects.is_empty();
    // Of too many see `too_many`.
    let untrue =
        promise::recorded(record).and_then(|word| promise::untrue_but_for_count(word, effects.len()));
    let is_denied = untrue == Some(Untrue::EffectDenied);
    match &record.state {
        State::Refused { .. } if is_denied => Some(refused_though_applied(world, all, (number, life))),
        State::Dead { .. } if is_denied => Some(absent_though_applied(all, number, life)),
        // A person gave it up: nobody looks any more.
        State::Dead { .. } if is_cancelled(record) => None,
        State::Dead { answer, .. } if applied => {
            // A proxy that says so proves nothing.
            let is_gone = answer.as_ref().is_some_and(|answer| {
                matches!(answer.status.as_u16(), 404 | 410) && !is_proxys(&answer.body)
            });
            if asked == Asked::Delete && is_gone {
                return Some(Kind::GoneTakenForUnknown);
            }
            if is_answer_dropped(world, all, number, life) {
                return Some(Kind::AnswerDropped);
            }
            has_no_lookup_answered(world, all, number).then_some(Kind::DeadOnFailedLookups)
        }
        State::Succeeded { answer, reconciled } => {
            let text = String::from_utf8_lossy(&answer.body);
            if effects.iter().any(|id| text.contains(id)) {
                return None;
            }
            let of_earlier = (0..life).any(|earlier| is_of_earlier(all, number, (earlier, life), &text));
            let is_replayed = asked.vendor().replays() && !*reconciled;
            match (of_earlier, *reconciled) {
                // It is the only one that can have its name: nothing is lost.
                (true, true) if asked == Asked::Brand => None,
                (true, true) => Some(found_in_earlier_life(world, all, (number, life))),
                // The vendor replayed it: one effect, and this is its answer.
                (true, false) if is_replayed => None,
                (true, false) => Some(Kind::SettledByEarlierLife),
                // The reply on record is the vendor's.
                (false, _) if applied && is_proxys(&answer.body) => Some(Kind::PageTakenForSuccess),
                (false, _) if applied => None,
                (false, _)
                    if (0..life)
                        .any(|life| all.effects_of(number, life).iter().any(|id| text.contains(id))) =>
                {
                    None
                }
                (false, _) if answer.status.as_u16() == 304 => Some(Kind::NotModifiedTakenForSuccess),
                (false, _) if text.contains("proxy") => Some(Kind::PageTakenForSuccess),
                // Gone is what a DELETE is for, whoever removed it.
                (false, _) if asked == Asked::Delete && matches!(answer.status.as_u16(), 404 | 410) => None,
                (false, _) => Some(Kind::SuccessOfNothing),
            }
        }
        _ => None,
    }
}

/// The breach of a no though it was applied, by whether the no came from a send that its host took for one within the
/// window, see [`is_of_a_wrong_clock`].
fn refused_though_applied(world: &World, all: &All, (number, life): (usize, usize)) -> Kind {
    let sends = || all.sends_of(number).filter(|send| send.life == life);
    let caused = sends().filter(|send| !send.effects.is_empty()).last();
    let refused = sends().filter(|send| send.answered.is_some()).last();
    let is_of_clock = |(first, last)| is_of_a_wrong_clock(&world.schedule, first, last);
    if caused.zip(refused).is_some_and(is_of_clock) {
        Kind::RefusedOfAWrongClock
    } else {
        Kind::RefusedThoughApplied
    }
}

fn is_cancelled(record: &Record) -> bool {
    record.resolved.as_ref().is_some_and(|said| said.resolution == Resolution::Cancelled)
}

/// Whether a host had the vendor's yes in hand, lived on, and did not get it on record.
fn is_answer_dropped(world: &World, all: &All, number: usize, life: usize) -> bool {
    let lives_on =
        |host: usize| !world.schedule.meets(host, |what| matches!(what, What::Crash(_) | What::Stall(_)));
    let is_calm =
        world.schedule.operations[number].callers.iter().all(|caller| caller.cancels_after.is_none());
    // A dispatcher that is stopped in less time than it asked for drops what is under way, and says how much that was.
    let is_cut_off = |send: &Send| {
        let mut stopped = all.stopped.iter().filter(|stopped| stopped.host == send.host);
        stopped.any(|stopped| stopped.cut_off > 0 && stopped.at >= send.left)
    };
    let mut sends = all.sends_of(number).filter(|send| send.life == life);
    is_calm
        && sends.any(|send| {
            send.answered.is_some_and(|status| status < 300) && lives_on(send.host) && !is_cut_off(send)
        })
}

/// Whether lookups failed, and none was answered since the last send.
fn has_no_lookup_answered(world: &World, all: &All, number: usize) -> bool {
    let asked = world.schedule.operations[number].kind;
    let Some(last) = all.sends_of(number).map(|send| send.left).max() else { return false };
    let is_lookup = |send: &&Send| send.operation.is_none() && send.vendor == asked.vendor();
    let mut lookups = all.sends.iter().filter(is_lookup).filter(|send| send.left >= last);
    // After a day of lookups that failed, a person is told. A server that is ahead has seen more of it.
    let lasted = lookups.clone().map(|lookup| lookup.left.since(last)).max();
    let ahead = world.schedule.server.and_then(|server| server.ahead).map_or(0, |(.., ms)| ms.unsigned_abs());
    let day = secs(24 * 3600).saturating_sub(std::time::Duration::from_millis(ahead));
    asked.has_lookup()
        && lasted.is_some_and(|lasted| lasted < day)
        && lookups.all(|lookup| !matches!(lookup.answered, Some(200 | 204)))
}

/// Who said that there was no effect.
fn absent_though_applied(all: &All, number: usize, life: usize) -> Kind {
    let mut sends = all.sends_of(number).filter(|send| send.life == life);
    let Some(first) = sends.next() else { return Kind::DeadWithoutEffectThoughApplied };
    let is_lookup =
        |send: &&Send| send.operation.is_none() && send.vendor == first.vendor && send.left >= first.left;
    let looked_up = all.sends.iter().filter(is_lookup).any(|send| matches!(send.answered, Some(200 | 204)));
    if !looked_up && all.sends_of(number).any(|send| send.life == life && send.page.is_some()) {
        return Kind::NoneOnRecordAfterProxyPage;
    }
    match first.vendor {
        Name::Stripe | Name::StripeOther if looked_up => Kind::AbsentAtStripeThoughApplied,
        Name::BigCommerce if looked_up => Kind::AbsentAtBigCommerceThoughApplied,
        Name::Postmark if looked_up => Kind::AbsentAtPostmarkThoughApplied,
        _ => Kind::DeadWithoutEffectThoughApplied,
    }
}

fn effects(all: &All, number: usize) -> Vec<Vec<&str>> {
    let lives = all.lives.get(&number).map_or(0, Vec::len);
    (0..lives).map(|life| all.effects_of(number, life)).collect()
}

/// More effects than one, or than somebody accepted.
fn too_many(world: &World, all: &All, number: usize) -> Vec<Kind> {
    let operation = &world.schedule.operations[number];
    if operation.kind.is_idempotent() {
        return Vec::from_iter(undid_later_write(world, all, number));
    }
    let mut found = Vec::new();
    let lives = all.lives.get(&number).map_or(&[][..], Vec::as_slice);
    for (place, life) in lives.iter().enumerate() {
        let caused: Vec<_> =
            all.sends_of(number).filter(|send| send.life == place && !send.effects.is_empty()).collect();
        let count: usize = caused.iter().map(|send| send.effects.len()).sum();
        let accepted = usize::from(operation.resends) + life.forced as usize;
        let untrue = promise::untrue(Effect::Unknown, count, accepted);
        if let ([first, .., last], Some(_)) = (&caused[..], untrue) {
            // The licence of the last send: what came right before it.
            let before =
                all.sends_of(number).filter(|send| send.left < last.left).map(|send| send.left).max();
            let looked_up = all.sends.iter().any(|send| {
                send.operation.is_none()
                    && send.vendor == last.vendor
                    && matches!(send.answered, Some(200 | 204))
                    && before.is_some_and(|before| (before..=last.left).contains(&send.left))
            });
            found.push(if life.forced > 0 {
                Kind::MoreRepeatsThanForced
            } else if operation.resends {
                Kind::MoreRepeatsThanAccepted
            } else if caused.windows(2).all(|pair| is_of_a_wrong_clock(&world.schedule, pair[0], pair[1])) {
                Kind::SecondEffectOfAWrongClock
            } else if looked_up {
                match last.vendor {
                    Name::Stripe | Name::StripeOther => Kind::SecondEffectAfterStripeLookup,
                    Name::BigCommerce => Kind::SecondEffectAfterBigCommerceLookup,
                    Name::Postmark => Kind::SecondEffectAfterPostmarkLookup,
                    _ => Kind::SecondEffect,
                }
            } else if caused[..caused.len() - 1]
                .iter()
                .any(|send| send.page.is_some_and(|status| status < 500))
            {
                Kind::SecondEffectAfterProxyPage
            } else if last.vendor.window().is_some_and(|window| arrived(last).since(arrived(first)) >= window)
            {
                Kind::SecondEffectPastWindow
            } else {
                Kind::SecondEffect
            });
        }
        let earlier =
            all.sends_of(number).filter(|send| send.life < place && !send.effects.is_empty()).last();
        // An edited one takes the place of one that had no effect; its old key is another operation's later.
        let is_edit = life.key.ends_with(EDITED);
        let earlier = earlier.filter(|earlier| is_edit || lives[earlier.life].key == life.key);
        // A store in memory that is full forgets what is settled, and says so in its documentation.
        let earlier = earlier.filter(|earlier| lives[earlier.life].evicted.is_none());
        if let (Some(earlier), Some(now)) = (earlier, caused.first())
            && now.left.since(earlier.left) < RETENTION
        {
            if is_edit {
                found.push(Kind::SecondEffectAfterEdit);
                continue;
            }
            found.push(if is_of_a_server_ahead(&world.schedule, earlier, now.left) {
                Kind::SecondEffectOfAServerAhead
            } else if now.left.since(earlier.left) < RETENTION_MIN {
                Kind::SecondEffectOfAKeyForgotten
            } else {
                Kind::SecondEffectOfAKeyUsedAgain
            });
        }
    }
    found
}

/// The breach of a row that had an effect of its own, although another call of its key had had one that the row was to
/// repeat. That one was made since the row was committed, or was on record when it was.
fn second_of_row(world: &World, all: &All, number: usize) -> Option<Kind> {
    let lives = all.lives.get(&number)?;
    if world.schedule.operations[number].kind.is_idempotent() {
        return None;
    }
    let caused = || all.sends_of(number).filter(|send| !send.effects.is_empty());
    all.rows.iter().filter(|row| row.operation == number).find_map(|row| {
        let admitted = row.admitted.filter(|admitted| admitted.how == AdmittedAs::Begun)?;
        let (place, life) = (admitted.life?, lives.get(admitted.life?)?);
        let own = caused().find(|send| send.life == place)?;
        let is_earlier = |send: &&Send| {
            let of = &lives[send.life];
            send.life < place && of.key == life.key && of.evicted.is_none()
        };
        let earlier = caused().filter(is_earlier).last()?;
        let differ = clocks_differ(world, own.left.since(Instant::ORIGIN));
        if life.forced > 0 || differ > CLOCKS_DIFFER_MAX {
            return None;
        }
        // An effect less than a retention apart is found for any call, see `too_many`.
        let is_repeat = row.at.since(earlier.left) < RETENTION && own.left.since(earlier.left) >= RETENTION;
        (earlier.left >= row.at || is_repeat).then_some(Kind::SecondEffectOfALateRow)
    })
}

/// The breach of a redrive without force that repeated an earlier write after a later write had been answered.
fn undid_later_write(world: &World, all: &All, number: usize) -> Option<Kind> {
    let operations = &world.schedule.operations;
    let is_pair = operations[number].kind == Asked::Put
        && operations.get(number + 1).is_some_and(|next| next.kind == Asked::PutAfter);
    let first_life = |number| all.sends_of(number).filter(|send| send.life == 0);
    let began = first_life(number).next()?.left;
    let later = first_life(number + 1).next().map(|send| send.left).filter(|left| *left > began)?;
    let done = all.told.iter().find(|told| {
        told.operation == number + 1
            && told.began >= later.min(told.began)
            && matches!(told.said, Said::Reply { .. })
    })?;
    // A repeat by the call itself or by recovery is what an idempotent method is sent again for. A redrive is somebody's
    // decision, long after, and must ask.
    let redriven_at = all.lives.get(&number)?.first()?.redriven_at?;
    let repeated =
        first_life(number).any(|send| send.left > done.at.max(redriven_at) && !send.effects.is_empty());
    (is_pair && repeated).then_some(Kind::LateRepeatUndidLaterWrite)
}

/// Every word that was told, against all that is known in the end.
pub fn judge_words(world: &World) -> Breaches {
    let mut breaches = Breaches::new();
    world.facts.with(|all| {
        for told in &all.told {
            for kind in judge_word(world, all, told).into_iter().chain(promised::sent_of_row(all, told)) {
                breaches.entry(kind).or_insert_with(|| format!("{told:?}"));
            }
        }
        for wait in &all.waits {
            let differ = clocks_differ(world, world.schedule.horizon);
            let early = all.sends.iter().any(|send| is_back_early(&world.schedule, all, wait, send, differ));
            if early {
                breaches.entry(Kind::CameBackEarly).or_insert_with(|| format!("{wait:?}"));
            }
        }
        breaches.extend(judge_sends(world, all));
        breaches.extend(promised::judge(world, all));
        let open_max = world.schedule.extras.records_max.unwrap_or(0);
        if let Some(open) = all.refused_as_full.iter().find(|open| **open < open_max) {
            breaches.insert(Kind::RefusedByFullStore, format!("{open} of {open_max} are open"));
        }
        if let Some(rate) = world.schedule.rate {
            breaches.extend(judge_rate(world, all, rate as usize));
        }
        let queued = world.schedule.queue.as_ref().map(|queue| queue.what);
        let is_steady =
            world.schedule.server.is_none_or(|server| server.step.is_none() && server.ahead.is_none());
        if is_steady && (world.schedule.dispatcher || queued == Some(Queued::Punctual)) {
            let end = Instant::ORIGIN.plus(world.schedule.horizon);
            // An operation that nobody has taken by then is taken once it is calm.
            let until_then = |taken: &Taken| Taken { at: taken.at.min(end), ..taken.clone() };
            let mut taken = all.takes.iter().map(until_then);
            let late = taken.find(|taken| is_taken_late(&world.schedule, all, taken));
            breaches.extend(late.map(|taken| (Kind::TakenLate, format!("{taken:?}"))));
        }
    });
    breaches
}

fn judge_word(world: &World, all: &All, told: &Told) -> Vec<Kind> {
    let operation = &world.schedule.operations[told.operation];
    if operation.kind == Asked::Get {
        let is_unknown = told.effect == Some(Effect::Unknown);
        return Vec::from_iter(is_unknown.then_some(Kind::UnknownToldOfSafeMethod));
    }
    let mut found = Vec::new();
    found.extend(is_late(world, told).then_some(Kind::LateAnswer));
    let caused = || all.sends_of(told.operation).filter(|send| !send.effects.is_empty());
    if told.effect == Some(Effect::None) {
        // A send of an earlier life a day ago is another operation's.
        let recent = |send: &Send| {
            let is_own = told.life.is_some_and(|life| life == send.life);
            send.left <= told.at && (is_own || told.at.since(send.left) < secs(20 * 3600))
        };
        let is_known = |life: usize| {
            let life = all.lives.get(&told.operation).and_then(|lives| lives.get(life));
            life.is_none_or(|life| {
                // An edited one has a key of its own, which no caller here names.
                if life.key.ends_with(EDITED) {
                    return false;
                }
                // A claim of another call a moment ago may not have been seen by this one when it looked.
                !is_claimed_meanwhile(all, told, life, is_calm(world))
                    && life.evicted.is_none_or(|evicted| evicted > told.at)
                    && life.forgotten.is_none_or(|forgotten| forgotten > told.at)
            })
        };
        let counts = |send: &&Send| {
            recent(send)
                && is_known(send.life)
                && !is_sent_meanwhile(told, !all.overlaps(told), send, is_calm(world))
        };
        let counted = caused().filter(counts).map(|send| send.effects.len()).sum();
        if promise::untrue_but_for_count(Effect::None, counted).is_some() {
            let is_own = caused().any(|send| counts(&send) && Some(send.life) == told.life);
            found.push(none_told(world, all, told, is_own));
        } else if !told.goes_on() && is_sent_by_nobody(world, all, told) {
            found.push(Kind::NoneToldAndThenSent);
        }
    }
    let is_sent = || is_sent_by_nobody(world, all, told);
    match told.next {
        Some(Disposition::Ended) if told.effect == Some(Effect::Unknown) && is_sent() => {
            found.push(Kind::EndedToldAndThenSent);
        }
        Some(Disposition::AwaitsOperator) if is_sent() => found.push(Kind::WaitsToldAndThenSent),
        _ => {}
    }
    if told.effect == Some(Effect::Unknown) && is_unsent(all, told) {
        found.push(Kind::UnknownToldThoughNothingLeft);
    }
    if let Said::Refusing(Gate::Breaker) = told.said {
        found.extend(who_opened(world, all, told));
    }
    if let Said::Reply { text, obtained } = &told.said {
        // An operation with an outcome is on record under its own name.
        found.extend(told.life.is_none().then_some(Kind::ReplyOfAnother));
        found.extend(whose_reply(world, all, told, text, *obtained));
    }
    found
}

/// How it came to be said that there was no effect, where there was one.
fn none_told(world: &World, all: &All, told: &Told, is_own: bool) -> Kind {
    match told.said {
        _ if is_forgotten_of_a_server_ahead(world, all, told) => Kind::NoneToldOfAServerAhead,
        _ if !is_own => Kind::NoneToldOfAKeyForgotten,
        Said::Refusing(_) => Kind::NoneToldByGate,
        Said::Deadline if told.deadline_zero => Kind::NoneToldWithoutTime,
        // With nothing on record, a full store has nothing to look at.
        Said::Store if world.schedule.extras.records_max.is_some() => Kind::NoneToldOfAKeyForgotten,
        Said::Store => Kind::NoneToldByStore,
        Said::Refused => {
            match told.life.map(|life| refused_though_applied(world, all, (told.operation, life))) {
                // As it is on record: that breach has a kind of its own.
                Some(Kind::RefusedOfAWrongClock) => Kind::RefusedOfAWrongClock,
                _ => Kind::RefusalToldThoughApplied,
            }
        }
        // As it is on record: that breach has a kind of its own.
        Said::Dead => Kind::NoneToldOfAnAbsentOne,
        _ => Kind::NoneTold,
    }
}

/// By what the hosts' clocks differ at most, so long after the start.
pub fn clocks_differ(world: &World, after: std::time::Duration) -> std::time::Duration {
    if let Some(server) = world.schedule.server {
        // All times are of one clock, which is as wrong at one end of a wait as at the other.
        let step = server.step.map_or(0, |(_, by_ms)| by_ms.unsigned_abs());
        return drifted(server.clock, after) + std::time::Duration::from_millis(step);
    }
    let of_host = |host: usize| {
        let clock = world.schedule.clocks[host];
        let steps = world.schedule.disruptions.iter().filter_map(|disruption| match disruption.what {
            What::Step(by_ms) if disruption.host == host => Some(by_ms.unsigned_abs()),
            _ => None,
        });
        let off_ms = clock.off_ms.unsigned_abs() + steps.sum::<u64>();
        drifted(clock, after) + std::time::Duration::from_millis(off_ms)
    };
    (0..world.schedule.hosts).map(of_host).sum()
}

pub fn drifted(clock: WallClock, after: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_millis(after.as_secs() * clock.drift_ppm.unsigned_abs() / 1_000)
}

/// Whether no host ever stands still.
pub fn is_calm(world: &World) -> bool {
    world.schedule.disruptions.iter().all(|disruption| !matches!(disruption.what, What::Stall(_)))
}

/// Whether a call came back after its deadline, on a host that never stood still.
fn is_late(world: &World, told: &Told) -> bool {
    is_calm(world) && told.deadline.is_some_and(|deadline| told.at.since(told.began) > deadline + ANSWER_MAX)
}

/// Whether it was sent after its caller was told that nothing goes on by itself, although nobody asked for that.
fn is_sent_by_nobody(world: &World, all: &All, told: &Told) -> bool {
    let is_calm = is_calm(world);
    let Some(life) = told.life.and_then(|life| all.lives.get(&told.operation)?.get(life)) else {
        return false;
    };
    let called_again = is_called_again(all, told, is_calm);
    let mut sends = all.sends_of(told.operation).filter(|send| Some(send.life) == told.life);
    let by_row = told.life.is_some_and(|life| all.is_asked_again_by_row((told.operation, life), told.at));
    let by_itself =
        life.redrives == 0 && !called_again && !by_row && !is_claimed_meanwhile(all, told, life, is_calm);
    // An operation of unknown effect may be on its way, or in the hand of a host that stands still, or whose
    // hold seemed to be over by another's clock.
    let is_held_on = !is_calm || clocks_differ(world, told.at.since(Instant::ORIGIN)) > CLOCKS_DIFFER_MAX;
    let held =
        |send: &Send| life.holds.iter().find(|hold| Some(hold.commit) == send.held).map(|hold| hold.at);
    let began = |send: &Send| match told.effect {
        Some(Effect::Unknown) if !is_held_on => send.handed,
        Some(Effect::Unknown) => held(send).unwrap_or(send.handed),
        _ => send.left,
    };
    // A no that the vendor keeps under the key is what a request that was queued meets as well.
    let meets_the_no = |send: &Send| {
        told.said == Said::Refused
            && send.vendor.replays()
            && send.handed <= told.at
            && send.effects.is_empty()
    };
    by_itself && sends.any(|send| began(send) > told.at && !meets_the_no(send))
}

/// Whether a server's clock that was ahead freed the key after the last effect.
fn is_forgotten_of_a_server_ahead(world: &World, all: &All, told: &Told) -> bool {
    let is_before = |send: &&Send| !send.effects.is_empty() && send.left <= told.at;
    let caused = all.sends_of(told.operation).filter(is_before).last();
    caused.is_some_and(|earlier| is_of_a_server_ahead(&world.schedule, earlier, told.at))
}

/// Whether no request of this operation ever left, and whoever was told had it in hand all the time.
fn is_unsent(all: &All, told: &Told) -> bool {
    let Some(life) = told.life.and_then(|life| all.lives.get(&told.operation)?.get(life)) else {
        return false;
    };
    let is_own = life.takeovers == 0 && life.redrives == 0 && !life.store_failed && life.began >= told.began;
    is_own
        && !matches!(told.said, Said::Store | Said::InProgress)
        // An operation that another call has in hand may be on its way.
        && !all.overlaps(told)
        && !all.sends_of(told.operation).any(|send| send.left <= told.at)
}

fn who_opened(world: &World, all: &All, told: &Told) -> Option<Kind> {
    let vendor = world.schedule.operations[told.operation].kind.vendor();
    let mut failures = all
        .failures
        .iter()
        .filter(|failure| failure.incarnation == told.incarnation && failure.vendor == vendor)
        .filter(|failure| failure.at <= told.at)
        .map(|failure| (failure.operation, failure.call.as_deref()))
        .peekable();
    let Some(first) = failures.peek().copied() else { return Some(Kind::CircuitOpenedByCallers) };
    (first.0.is_some() && failures.all(|whose| whose == first)).then_some(Kind::CircuitOpenedByOneOperation)
}

fn whose_reply(world: &World, all: &All, told: &Told, text: &str, obtained: Obtained) -> Option<Kind> {
    let (now, asked) = (told.life?, world.schedule.operations[told.operation].kind);
    let is_of = |life: usize| all.effects_of(told.operation, life).iter().any(|id| text.contains(id));
    let applied = !all.effects_of(told.operation, now).is_empty();
    if is_of(now) || applied {
        return None;
    }
    match (0..now).any(|earlier| is_of_earlier(all, told.operation, (earlier, now), text)) {
        // By the vendor or from the record: the same effect, told again.
        true if obtained == Obtained::Replayed => None,
        // So it was here, and nothing says so.
        true if asked.vendor().replays() && !asked.vendor().marks_replays() => None,
        true if asked == Asked::Brand && obtained == Obtained::Reconciled => None,
        true => Some(Kind::ReplyOfEarlierLife),
        // Its own, of a life that a wrong clock ended.
        false if (0..now).any(is_of) => None,
        // The fault in it is the record's breach.
        false if text.contains("proxy") || text.is_empty() => None,
        // Gone is what a DELETE is for, whoever removed it.
        false if asked == Asked::Delete => None,
        false => Some(Kind::ReplyOfNothing),
    }
}

/// Checks whether each operation's requests came from its own account, and all of a life's in one version.
fn judge_sends(world: &World, all: &All) -> Breaches {
    let mut breaches = Breaches::new();
    for send in &all.sends {
        let Some(number) = send.operation else { continue };
        if send.vendor != world.schedule.operations[number].kind.vendor() {
            breaches.entry(Kind::SentByOtherAccount).or_insert_with(|| format!("{send:?}"));
        }
        let first = all.sends_of(number).find(|first| first.life == send.life);
        if first.is_some_and(|first| first.version != send.version) {
            breaches.entry(Kind::VersionChanged).or_insert_with(|| format!("{send:?}"));
        }
    }
    breaches
}

/// The rate that a vendor saw of one host, and what was refused for it.
fn judge_rate(world: &World, all: &All, calls: usize) -> Breaches {
    let mut breaches = Breaches::new();
    for told in all.told.iter().filter(|told| matches!(told.said, Said::Refusing(Gate::Rate))) {
        if !is_rate_used_up(&world.schedule, all, told, calls) {
            breaches.entry(Kind::RateSpentOnReplays).or_insert_with(|| format!("{told:?}"));
        }
    }
    for (place, send) in all.sends.iter().enumerate() {
        let same = |other: &&Send| other.incarnation == send.incarnation && other.vendor == send.vendor;
        let in_period = all.sends[place..]
            .iter()
            .filter(same)
            .filter(|other| other.left.since(send.left) < secs(1))
            .count();
        if in_period > calls {
            breaches
                .entry(Kind::MoreThanRate)
                .or_insert_with(|| format!("{in_period} in a second, {send:?}"));
        }
    }
    breaches
}

/// How the key of an edited operation ends.
pub const EDITED: &str = "-edited";

/// No default has kept a record for less: who forgets it earlier believes a clock that is wrong.
const RETENTION_MIN: std::time::Duration = secs(23 * 3600);

/// How long a key is the same operation after it settled: design, rule 9.
pub const RETENTION: std::time::Duration = secs(7 * 24 * 3600);
