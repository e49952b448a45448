//! The simulation can fail: each guard taken out, it does.

use crate::audit::Breach;
use crate::guards::Guard;
use crate::world::run;

/// How many schedules a guard's absence may stay unseen.
const SCHEDULES_MAX: u64 = 1_000;

fn is_duplicate(breach: &Breach) -> bool {
    matches!(breach, Breach::Duplicate { .. })
}

/// The proof must see two effects without the guard, and none too many with it, in the very same schedule.
fn bites(guard: Guard) {
    let seen = (0..SCHEDULES_MAX).find(|seed| run(*seed, Some(guard)).breaches.iter().any(is_duplicate));
    let Some(seed) = seen else { panic!("{SCHEDULES_MAX} schedules without {guard:?}, and nobody noticed") };
    let intact = run(seed, None);
    assert!(intact.breaches.is_empty(), "{}", crate::story(seed, &intact));
    crate::run::print(&format!("without {guard:?}: a duplicate after {} schedules", seed + 1));
}

#[test]
fn with_records_deleted_on_error_there_are_duplicates() {
    bites(Guard::KeepOnError);
}

#[test]
fn with_lapsed_leases_taken_for_a_licence_to_send_there_are_duplicates() {
    bites(Guard::LapsedIsUnknown);
}

#[test]
fn without_the_settle_time_there_are_duplicates() {
    bites(Guard::SettleTime);
}

#[test]
fn with_resends_past_the_window_there_are_duplicates() {
    bites(Guard::Window);
}

#[test]
fn with_a_new_key_for_each_send_there_are_duplicates() {
    bites(Guard::OneKey);
}
