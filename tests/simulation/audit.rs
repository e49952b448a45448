//! The promise, operation by operation: what the records and the callers say against what the vendors did.

use std::fmt;

use bytes::Bytes;
use steadfast::operation::OperationId;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::Store as _;
use steadfast::testkit::fakes;
use steadfast::{Effect, Error, Reply};

use crate::promise::{self, Untrue};
use crate::vendors::key;
use crate::world::World;

/// How the promise was broken.
#[derive(Clone, Debug, PartialEq)]
pub enum Breach {
    /// More than one effect.
    Duplicate { number: usize, effects: usize, state: String },
    /// Fewer or more effects than the state at rest says, but no duplicate.
    Untrue { number: usize, effects: usize, state: String },
    /// The reply on record is none that the vendor gave.
    OtherReply { number: usize, reply: String },
    /// A caller was told something else than what is on record.
    ToldOtherwise { number: usize, told: Told, state: String },
    /// An operation that a caller was told of is not on record.
    Lost { number: usize, told: Told },
    /// Effects that are no operation's.
    Stray { effects: usize },
    /// An operation that is neither in progress nor scheduled does not give its outcome when its key is sent.
    Unsettled { number: usize, told: Told },
    /// Sending the key of a settled operation had an effect.
    ReplayedWithEffect,
    /// Something stays under way for ever.
    NotAtRest,
    /// Nothing moves any more, or everything in circles.
    Stuck,
    /// Some code panicked.
    Panicked(String),
}

/// What a caller was told of an operation.
#[derive(Clone, PartialEq)]
pub enum Told {
    Reply(Bytes),
    Refused,
    Dead(Effect),
    InProgress,
    /// Any other error, by its code.
    Other(&'static str),
}

impl Told {
    pub fn of(result: &Result<Reply, Error>) -> Told {
        match result {
            Ok(reply) => Told::Reply(reply.bytes().clone()),
            Err(error) if error.is_refused() => Told::Refused,
            Err(error) if error.is_dead_letter() => Told::Dead(error.effect()),
            Err(error) if error.is_in_progress() => Told::InProgress,
            Err(error) => Told::Other(error.code()),
        }
    }

    /// Whether it is the operation's outcome.
    pub fn is_end(&self) -> bool {
        matches!(self, Told::Reply(_) | Told::Refused | Told::Dead(_))
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Reply(bytes) => write!(f, "a reply of {} bytes", bytes.len()),
            Told::Refused => f.write_str("refused"),
            Told::Dead(effect) => write!(f, "dead, effect {effect:?}"),
            Told::InProgress => f.write_str("in progress"),
            Told::Other(code) => f.write_str(code),
        }
    }
}

/// Every breach at rest.
pub fn judge(world: &World) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut attributed = 0;
    for number in 0..world.schedule.operations.len() {
        let told: Vec<Told> =
            world.all_told().into_iter().filter(|(of, _)| *of == number).map(|(_, told)| told).collect();
        match record(world, number) {
            None => {
                let accepted = told.into_iter().find(|told| !matches!(told, Told::Other(_)));
                breaches.extend(accepted.map(|told| Breach::Lost { number, told }));
            }
            Some(record) => {
                let effects = effects_of(world, number, &record);
                attributed += effects.len();
                breaches.extend(judge_one(world, number, &record, &effects));
                breaches.extend(told.iter().filter_map(|told| disagreement(number, told, &record)));
            }
        }
    }
    let strays = effects(world).len() - attributed.min(effects(world).len());
    if strays > 0 {
        breaches.push(Breach::Stray { effects: strays });
    }
    breaches
}

fn judge_one(world: &World, number: usize, record: &Record, effects: &[fakes::Effect]) -> Vec<Breach> {
    let state = format!("{} with effect {:?}", record.state.name(), record.effect);
    let Some(word) = promise::recorded(record) else { return vec![Breach::NotAtRest] };
    let count = effects.len();
    let mut breaches = Vec::new();
    match promise::untrue(word, count, 0) {
        Some(Untrue::SecondEffect) => breaches.push(Breach::Duplicate { number, effects: count, state }),
        Some(_) => breaches.push(Breach::Untrue { number, effects: count, state }),
        None => {}
    }
    if let State::Succeeded { answer, reconciled } = &record.state {
        let reply = String::from_utf8_lossy(&answer.body).into_owned();
        let is_the_vendors = effects.first().is_none_or(|effect| reply.contains(&effect.id))
            && (*reconciled || world.has_answered(&answer.body));
        if !is_the_vendors {
            breaches.push(Breach::OtherReply { number, reply });
        }
    }
    breaches
}

/// A reply and a refusal are for ever. A dead letter may be redriven and then end otherwise.
fn disagreement(number: usize, told: &Told, record: &Record) -> Option<Breach> {
    let agrees = match (told, &record.state) {
        (Told::Reply(body), State::Succeeded { answer, .. }) => *body == answer.body,
        (Told::Refused, State::Refused { .. }) => true,
        (Told::Reply(_) | Told::Refused, _) => false,
        _ => true,
    };
    let otherwise =
        || Breach::ToldOtherwise { number, told: told.clone(), state: record.state.name().to_owned() };
    (!agrees).then(otherwise)
}

/// How the operations ended.
pub fn count_endings(world: &World) {
    world.happened("effects", effects(world).len() as u64);
    for number in 0..world.schedule.operations.len() {
        let Some(record) = record(world, number) else {
            world.happened("never claimed", 1);
            continue;
        };
        let ending = match &record.state {
            State::Succeeded { reconciled: true, .. } => "succeeded, looked up",
            State::Succeeded { .. } => "succeeded",
            State::Refused { .. } => "refused",
            State::Dead { .. } if record.effect == Effect::None => "dead without effect",
            State::Dead { .. } if effects_of(world, number, &record).is_empty() => "unknown, not applied",
            State::Dead { .. } => "unknown, applied",
            _ => "under way",
        };
        world.happened(ending, 1);
        world.happened("operations", 1);
        world.happened("taken over", u64::from(record.fence > 1));
    }
}

/// All effects at all vendors.
pub fn effects(world: &World) -> Vec<fakes::Effect> {
    world.vendors.effects()
}

fn effects_of(world: &World, number: usize, record: &Record) -> Vec<fakes::Effect> {
    let kind = world.schedule.operations[number].kind;
    effects(world).into_iter().filter(|effect| kind.caused(effect, number, &record.wire_key)).collect()
}

/// The record of the operation with this number, from the disk itself.
pub fn record(world: &World, number: usize) -> Option<Record> {
    let id = ids(world).into_iter().find(|id| id.key.as_str() == key(number))?;
    now(world.memory.get(&id)).expect("a store in memory")
}

fn ids(world: &World) -> Vec<OperationId> {
    let page = now(world.memory.list(&Filter::default(), None, 100)).expect("a page");
    page.rows.into_iter().map(|row| row.id).collect()
}

/// A store in memory never waits.
fn now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
