//! A store that was opened at another place than its records are from takes no operation until an operator says
//! what it is. A copy leaves open operations to the original.

use std::time::Duration;

use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Filter, Forbidden, Phase, Resolution, State, Takeover,
};
use steadfast_core::store::maintenance::{Maintenance, Stage, Standing};
use steadfast_core::store::{Said, Store, StoreError, StoreErrorKind};
use steadfast_core::{Effect, Reason, store};

use super::{LEASE, NOW, claim, claim_at, dead_letter, get, id, succeed, take, transition_at, write};

/// Checks that each answer of an operator about a displaced store is carried out.
pub async fn check_displaced(store: &dyn Store) {
    let maintenance = store.maintenance().expect("the store has maintenance");
    fill(store).await;
    let disown = act(Action::Disown);
    let error = store.act(&name("due"), disown.clone()).await.expect_err("it is in use");
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    let displaced = Standing::displaced("another file".to_owned());
    assert_eq!(
        maintenance.stand(&Standing::default(), &displaced).await.expect("the store works"),
        displaced
    );

    for key in ["done", "due", "letter", "never"] {
        refused(store.claim(claim_at(&name(key), LATER)).await.map(drop));
    }
    for phase in [Phase::Scheduled, Phase::InProgress] {
        refused(store.take(taker(phase)).await.map(drop));
    }
    refused(store.act(&name("letter"), act(Action::Redrive { forced: true })).await.map(drop));
    refused(store.purge(LATER, 10).await.map(drop));
    refused(store.register("prod/acme/a", Some("terms")).await.map(drop));
    // A record can be read, but the store does not report that there is none.
    assert_eq!(get(store, &name("done")).await.expect("is there").phase(), Phase::Succeeded);
    refused(store.get(&name("never")).await.map(drop));
    // A holder of an operation can write the vendor's answer here.
    write(store, &name("answered"), transition_at(1, LATER, succeed())).await.expect("its holder");

    let shown = store::here(store, None, ("", ""), LATER).await.expect("the store works");
    assert_eq!(shown.displaced.as_deref(), Some("another file"));
    for (answer, by) in [(Said::WillMove, "ada"), (Said::Copy, ""), (Said::Moved, " ")] {
        let error = store::here(store, Some(answer), (by, "staging"), LATER).await.expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{answer:?}: {error}");
    }
    check_left_to_the_original(store, maintenance).await;
    // Once the store is declared moved, everything continues.
    let standing = maintenance.stand(&Standing::default(), &displaced).await.expect("the store works");
    assert_eq!(standing.stage, Stage::Displaced);
    store::here(store, Some(Said::Moved), ("ada", "new host"), LATER).await.expect("is said");
    take(store, claim_at(&name("newest"), LATER)).await;
}

async fn check_left_to_the_original(store: &dyn Store, maintenance: &dyn Maintenance) {
    let copied = store::here(store, Some(Said::Copy), ("ada", "staging"), LATER).await.expect("is said");
    let left = (copied.operations, copied.displaced);
    assert_eq!(left, (5 + MANY as u64, None), "due, held, letter, refuted, first, and many");
    assert_eq!(maintenance.head().await.expect("the store works").standing, Standing::default());
    for phase in [Phase::Scheduled, Phase::InProgress] {
        assert_eq!(store.take(taker(phase)).await.expect("it is open"), [], "{phase}");
    }
    for key in ["due", "held", "letter", "refuted", "first"] {
        let record = get(store, &name(key)).await.expect("is there");
        let answer = record.resolved.as_ref().map(|answer| (&answer.resolution, &*answer.by, &*answer.why));
        assert_eq!(answer, Some((&Resolution::Disowned, "ada", "staging")), "{key}");
        assert_eq!((record.phase(), record.effect), (Phase::Resolved, Effect::Unknown), "{key}");
        let result = claim(store, claim_at(&name(key), LATER)).await;
        assert!(matches!(result, Claimed::Settled(_)), "{key}: {result:?}");
        for (action, why) in
            [(Action::Redrive { forced: true }, Forbidden::Resolved), (Action::Reopen, Forbidden::Resolved)]
        {
            let acted = store.act(&name(key), act(action)).await.expect("it is open");
            assert_eq!(acted.map(drop), Err(why), "{key}");
        }
        let audit = store.audit(Some(&name(key)), None, 10).await.expect("the store works").rows;
        assert_eq!(audit.last().map(|entry| &entry.action), Some(&Action::Disown), "{key}");
    }
    for (key, phase) in [("done", Phase::Succeeded), ("said", Phase::Resolved)] {
        assert_eq!(get(store, &name(key)).await.expect("is there").phase(), phase, "{key}");
    }
    // A holder from before the copy can write nothing but a proof.
    let late = write(store, &name("held"), transition_at(1, LATER, dead_letter(Reason::Exhausted))).await;
    assert!(late.is_err(), "{late:?}");
    take(store, claim_at(&name("new"), LATER)).await;
    let filter = Filter { phases: vec![Phase::Scheduled, Phase::Dead], ..Filter::default() };
    assert_eq!(store.list(&filter, None, 10).await.expect("the store works").rows, []);
}

async fn fill(store: &dyn Store) {
    take(store, claim_at(&name("done"), NOW)).await;
    write(store, &name("done"), transition_at(1, NOW, succeed())).await.expect("its holder");
    for key in ["due", "first"] {
        take(store, Claim { due: Some(NOW.plus(LEASE)), ..claim_at(&name(key), NOW) }).await;
    }
    for nth in 0..MANY {
        let id = name(&format!("many-{nth}"));
        take(store, Claim { due: Some(NOW.plus(LEASE)), ..claim_at(&id, NOW) }).await;
    }
    for key in ["held", "answered"] {
        take(store, claim_at(&name(key), LATER)).await;
    }
    for key in ["letter", "refuted", "said"] {
        take(store, claim_at(&name(key), NOW)).await;
        let dead = State::Dead { reason: Reason::Unknown, answer: None };
        write(store, &name(key), transition_at(1, NOW, dead)).await.expect("its holder");
    }
    for (key, resolution) in [("refuted", Resolution::NotApplied), ("said", Resolution::Compensated)] {
        let acted = store.act(&name(key), act(Action::Resolve(resolution))).await.expect("the store works");
        acted.expect("a dead letter");
    }
}

#[track_caller]
fn refused(result: Result<(), StoreError>) {
    let error = result.expect_err("it may be a copy");
    assert_eq!(error.kind(), StoreErrorKind::Displaced, "{error}");
}

fn act(action: Action) -> Act {
    Act { action, by: "ada".to_owned(), why: "ticket 7".to_owned(), now: LATER, fence: None }
}

fn taker(phase: Phase) -> Takeover {
    let now = LATER.plus(LEASE).plus(LEASE);
    Takeover {
        phase,
        account: None,
        now,
        lease: LEASE,
        attempt_max: super::ATTEMPT,
        vendor_clock_ms: None,
        holder: None,
        limit: 100,
        wanted: steadfast_core::operation::record::Wanted::default(),
    }
}

fn name(key: &str) -> OperationId {
    id("test/displaced/a/POST /x", key)
}

/// Ten minutes after the suite's time: leases of the suite's time are over, and later ones are not.
const LATER: steadfast_core::clock::Timestamp = steadfast_core::clock::Timestamp::from_millis(
    NOW.as_millis() + Duration::from_secs(600).as_millis() as u64,
);

/// Number of operations: more than are closed at a time.
const MANY: usize = 510;
