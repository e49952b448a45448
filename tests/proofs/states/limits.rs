//! The limits of what the crate can do: each limit that is documented shows, and does not where it is said not to.

use std::time::Duration;

use stateright::Model as _;
use steadfast::operation::record::State as OnRecord;

use crate::states::audit::Breach;
use crate::states::bounds::{Bounds, UNTIL_SETTLED, left};
use crate::states::model::Search;
use crate::states::steps::{Action, Comes};
use crate::states::vendor::Kind;

const HOUR_MS: i64 = 60 * 60 * 1_000;
const RECOVER: Action = Action::Recover(0, None);

/// limits.md, "What it cannot do": a process that stands still between its last look at the lease and the first byte.
#[test]
fn a_stall_before_the_first_byte_is_a_second_effect_at_a_vendor_that_executes_every_request() {
    let bounds = Bounds::new(Kind::LooksUp, left(1, 0, 1), 9);
    bounds.break_only(Breach::SecondEffect, |search| search.stalls = true);
}

/// Where nothing can be looked up, nobody sends again.
#[test]
fn a_stall_before_the_first_byte_is_harmless_at_a_vendor_with_neither() {
    Bounds::new(Kind::Neither, left(1, 0, 1), 6).hold_with(|search| search.stalls = true);
}

/// A vendor that replays its key makes it harmless for as long as it does.
#[test]
fn a_stall_before_the_first_byte_is_harmless_within_the_vendors_window() {
    let bounds = Bounds::new(Kind::Replays, left(1, 0, 1), 6);
    bounds.break_only(Breach::SecondEffect, |search| search.stalls = true);
    bounds.hold_with(|search| {
        search.stalls = true;
        search.rules.window = Duration::MAX;
    });
}

/// The host that is behind takes the vendor's window for open when it is over: its own clock is all that it has to
/// measure another host's claim by. Our window is shorter by what clocks may differ, and by no more.
#[test]
fn a_host_an_hour_behind_resends_when_the_vendors_window_is_over() {
    let bounds = Bounds::new(Kind::Replays, left(1, 0, 1), 6);
    let broken = bounds.clocks([0, -HOUR_MS]).broken(|_| {}).expect("the limit");
    assert_eq!((broken.breach, broken.clocks_apart), (Breach::SecondEffect, true), "{}", broken.story);
    bounds.clocks([0, -5 * 60_000]).hold();
    bounds.clocks([-5 * 60_000, 0]).hold();
}

/// limits.md, "What it cannot do": a clock that is ahead for an hour in which no other process is at the store.
#[test]
fn a_host_that_is_ahead_and_alone_for_an_hour_forgets_a_key_too_early() {
    let bounds = Bounds::new(Kind::Neither, left(2, 0, 0), 7);
    let broken = bounds.clocks([0, 25 * HOUR_MS]).broken(|_| {}).expect("the limit");
    assert_eq!((broken.breach, broken.clocks_apart), (Breach::KeyForgotten, true), "{}", broken.story);
    bounds.clocks([0, 5 * 60_000]).hold();
}

/// A way that the search goes too: a lookup that fails is asked again, and what it then finds is believed.
#[test]
fn a_lookup_that_fails_and_then_answers_finds_the_effect() {
    let search = Search::new(Kind::LooksUp, false, left(1, 0, 2), 19, vec![[0, 0]]);
    let sent = [Action::Call(0, None), Action::Arrive { flight: 0, refused: false }, Action::Crash(0)];
    let looked_up = [
        Action::Hear(0, Comes::Unavailable, None),
        Action::Wake(0, None),
        Action::Hear(0, Comes::Answer, None),
    ];
    let state = search.walk(sent.into_iter().chain([RECOVER; UNTIL_SETTLED]).chain(looked_up));
    let record = state.record.as_ref().expect("a record");
    assert!(matches!(record.state, OnRecord::Succeeded { reconciled: true, .. }), "{:?}", record.state);
    assert_eq!((state.effects(record.first_fence), state.breach, state.is_idle()), (1, None, true));
}

/// The vendor's clock, as a process knows it, goes into its claims, and goes with the process.
#[test]
fn a_claim_names_the_vendors_clock_as_long_as_its_process_knows_it() {
    let mut search = Search::new(Kind::LooksUp, false, left(2, 0, 2), 9, vec![[0, 61_000]]);
    search.taught = true;
    let first = search.init_states().remove(0);
    let claimed_after = |before: &[Action]| {
        let step = |state, action: &Action| search.next_state(&state, *action).expect("it changes something");
        let state = before.iter().chain(&[Action::Call(1, None)]).fold(first.clone(), step);
        state.record.expect("a record").vendor_clock_ms
    };
    assert_eq!(claimed_after(&[]), Some(-61_000));
    assert_eq!(claimed_after(&[Action::SetClock(1, 25 * HOUR_MS)]), None, "it was set since");
    assert_eq!(claimed_after(&[Action::Crash(1)]), None);
}
