//! The acts of an operator, through the crate's own `DeadLetters`, and what may be taken by recovery.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use steadfast::dead_letter::{Change, DeadLetterError, DeadLetters};
use steadfast::operation::record::{Forbidden, Phase, Resolution, Takeover};

use crate::states::host::{HostClock, Wake};
use crate::states::model::{Bench, Search};
use crate::states::shelf::{Shelf, TapeStore};
use crate::states::state::State;
use crate::states::vendor::wall;

/// An operator's step. A person's word on the effect is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Redrive,
    RedriveByForce,
    Applied,
    NotApplied,
}

/// The steps that an operator may take now.
pub fn words(state: &State) -> impl Iterator<Item = Word> {
    let letter =
        state.record.as_ref().filter(|record| matches!(record.phase(), Phase::Dead | Phase::Resolved));
    let words = letter.map_or(Vec::new(), |record| {
        let life = record.first_fence;
        let mut words = vec![Word::Redrive, Word::RedriveByForce];
        if record.phase() == Phase::Dead {
            match state.effects(life) {
                0 if !state.is_under_way(life) => words.push(Word::NotApplied),
                0 => {}
                _ => words.push(Word::Applied),
            }
        }
        words
    });
    words.into_iter()
}

/// Carries it out, by the first host's clock.
pub fn act(bench: &Bench, state: &mut State, word: Word, shelf: Shelf) {
    let Some(id) = state.record.as_ref().map(|record| record.id.clone()) else { return };
    let wake = Wake { now_ms: state.now_ms, wall: wall(state.now_ms, state.hosts[0].off_ms), answer: None };
    bench.tape.begin(&[], shelf);
    bench.tape.wake(&wake);
    let letters = DeadLetters::new(Arc::new(TapeStore(bench.tape.clone())))
        .with_client(&bench.client())
        .with_clock(HostClock(bench.tape.clone()));
    let signed = Change::by("ada").because("looked into it");
    let redrive = signed.clone();
    let mut forced = 0;
    match word {
        Word::Redrive | Word::RedriveByForce => {
            let redrive = if word == Word::RedriveByForce { redrive.force() } else { redrive };
            let redriven = at_once(letters.redrive(&[id], &redrive)).expect("the store answers");
            forced = redriven.forced;
            if redriven.done > 0 {
                // A word that was said before holds until a person starts over.
                state.lives.last_mut().expect("it has a life").none_promised = false;
            }
        }
        Word::Applied | Word::NotApplied => {
            let resolution = match word {
                Word::Applied => Resolution::Applied { vendor_id: "thing-1".to_owned() },
                _ => Resolution::NotApplied,
            };
            match at_once(letters.resolve(&id, resolution, &signed)) {
                // A request may yet arrive, for all that is on record.
                Ok(_) | Err(DeadLetterError::Refused { why: Forbidden::Held, .. }) => {}
                Err(error) => panic!("an open letter can be resolved: {error:?}"),
            }
        }
    }
    state.record = bench.tape.shelf().record;
    if let Some(life) = state.lives.last_mut() {
        life.accepted += usize::try_from(forced).expect("at most one");
    }
}

/// Whether there is something for recovery to take.
pub fn can_take(search: &Search, state: &State, host: usize) -> bool {
    let mut shelf = Shelf { record: state.record.clone(), without: search.without, ..Shelf::default() };
    [Phase::InProgress, Phase::Scheduled].into_iter().any(|phase| {
        let take = Takeover {
            phase,
            account: None,
            now: wall(state.now_ms, state.hosts[host].off_ms),
            lease: Duration::ZERO,
            attempt_max: Duration::ZERO,
            vendor_clock_ms: None,
            holder: None,
            limit: 1,
            wanted: steadfast::operation::record::Wanted::default(),
        };
        shelf.take(&take).is_some()
    })
}

/// The store of the search answers at the first poll.
fn at_once<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store waits"),
    }
}
