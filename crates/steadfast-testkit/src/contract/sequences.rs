//! Sequences: which operation a take returns, in which order, and which operations wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::operation::record::{Action, Claim, Claimed, Declined, Phase, Resolution, State};
use steadfast_core::operation::{Key, Scope};
use steadfast_core::store::Store;
use steadfast_core::{Reason, Refusal, Sequence};

use super::{
    KEEP, LEASE, NOW, claim, claim_at, dead_letter, get, let_pass, refuse, succeed, transition_at, write,
};

mod line;

use line::Line;

/// Checks that operations are taken one at a time, in the order of the claims, whatever time each is due. An
/// operation in no sequence, in another one, or in one of that name in another account does not wait.
pub async fn check_sequences(store: &dyn Store) {
    let line = Line::new(store, "order");
    line.enter("a", "one").await;
    line.enter_at("b", "one", NOW.minus(Duration::from_secs(5))).await;
    line.enter("c", "one").await;
    line.enter("x", "two").await;
    line.enter_into("other", "a", Sequence::new("one")).await;
    let alone = line.id("alone");
    claim(store, Claim { due: Some(NOW), ..claim_at(&alone, NOW) }).await;
    assert_eq!(line.take().await, ["a", "alone", "x"]);
    assert_eq!(line.take().await, [""; 0], "no turn");
    assert_eq!(line.places().await, [("a", 1, None), ("b", 2, Some("a")), ("c", 3, Some("a"))]);
    assert_eq!(line.take_of("other").await, ["a"]);
    line.end("a", succeed()).await;
    assert_eq!(line.places().await, [("a", 1, None), ("b", 2, None), ("c", 3, Some("b"))]);
    assert_eq!(line.take().await, ["b"]);
    line.enter("d", "one").await;
    assert_eq!(line.take().await, [""; 0]);
    line.end("b", succeed()).await;
    for next in ["c", "d"] {
        assert_eq!(line.take().await, [next]);
        line.end(next, succeed()).await;
    }
    line.enter("e", "one").await;
    assert_eq!(line.take().await, ["e"], "the sequence goes on");
    // An operation that supersedes one of another sequence has no place to take.
    line.enter("old", "left").await;
    assert_eq!(line.take().await, ["old"]);
    line.end("old", dead_letter(Reason::Exhausted)).await;
    for key in ["p", "q"] {
        line.enter(key, "joined").await;
    }
    let over = Claim { predecessor: Key::new("old").ok(), ..line.claim("over", "joined", NOW) };
    let Claimed::Fresh(over) = claim(store, over).await else { panic!("it had no effect") };
    assert_eq!(
        over.waits_for().map(|ahead| ahead.id.key.as_str()),
        Some("p"),
        "it waits for those before it"
    );
    for next in ["p", "q", "over"] {
        assert_eq!(line.take().await, [next]);
        line.end(next, succeed()).await;
    }
    let later = NOW.plus(LEASE);
    line.enter_at("later", "slow", later).await;
    line.enter("behind", "slow").await;
    assert_eq!(line.take().await, [""; 0], "its own time holds those behind it");
    assert_eq!(line.take_at(later).await, ["later"]);
}

/// Checks that an operation that waits for another attempt, or whose holder died, holds those behind it; a
/// refusal releases them.
pub async fn check_sequence_retries(store: &dyn Store) {
    let line = Line::new(store, "retries");
    for key in ["a", "b", "c"] {
        line.enter(key, "s").await;
    }
    assert_eq!(line.take().await, ["a"]);
    let retry = NOW.plus(Duration::from_secs(30));
    line.end("a", State::Scheduled { at: retry }).await;
    assert_eq!(line.take().await, [""; 0], "it waits for its retry");
    assert_eq!(line.take_at(retry).await, ["a"]);
    let lapsed = retry.plus(LEASE);
    assert_eq!(line.take_at(lapsed).await, [""; 0], "its holder died");
    assert_eq!(line.take_left(Phase::InProgress, lapsed).await, ["a"]);
    line.end("a", refuse(Refusal::Rejected)).await;
    assert_eq!(line.take_at(lapsed).await, ["b"], "a refusal is an end");

    // The earlier holder of the retry comes late with proof.
    line.end("b", State::Scheduled { at: lapsed }).await;
    let held = line.record("b").await;
    assert_eq!(line.take_at(lapsed).await, ["b"]);
    let late = transition_at(held.fence, lapsed, succeed());
    write(store, &held.id, late).await.expect("proof is believed");
    assert_eq!(line.take_at(lapsed).await, ["c"]);
    let gone = transition_at(held.fence + 1, lapsed, State::Scheduled { at: lapsed });
    assert_eq!(write(store, &held.id, gone).await, Err(Declined::Settled), "the old holder changes nothing");
    assert_eq!(line.take_at(lapsed).await, [""; 0]);
}

/// Checks that a dead letter holds its sequence until it is resolved, or does not hold it, as its call chose. A
/// redriven or reopened one comes before those that wait, and after the one in flight.
pub async fn check_sequence_dead_letters(store: &dyn Store) {
    let line = Line::new(store, "letters");
    for key in ["a", "b", "c", "d", "e", "f"] {
        line.enter(key, "s").await;
    }
    line.take().await;
    line.end("a", dead_letter(Reason::Exhausted)).await;
    assert_eq!(line.take().await, [""; 0], "held");
    assert_eq!(line.holding().await, ["a"]);
    let b = line.record("b").await;
    let ahead = b.waits_for().expect("it waits");
    assert_eq!((ahead.id.key.as_str(), ahead.phase, ahead.until), ("a", Phase::Dead, None));
    assert_eq!(line.act("a", Action::Redrive { forced: false }).await, Phase::Scheduled);
    assert_eq!(line.take().await, ["a"], "redriven at its place");
    line.end("a", dead_letter(Reason::Exhausted)).await;
    line.act("a", Action::Resolve(Resolution::NotApplied)).await;
    assert_eq!((line.holding().await, line.take().await), (vec![], vec!["b".to_owned()]));

    // In the middle: the operation in flight is not disturbed, and those that wait, wait for it.
    line.act("a", Action::Redrive { forced: false }).await;
    assert_eq!(line.take().await, [""; 0], "one at a time");
    assert_eq!(
        line.record("a").await.waits_for().map(|ahead| ahead.id.key.as_str().to_owned()),
        Some("b".into())
    );
    line.end("b", State::Scheduled { at: NOW }).await;
    for next in ["a", "b"] {
        assert_eq!(line.take().await, [next]);
        line.end(next, succeed()).await;
    }
    assert_eq!(line.take().await, ["c"]);
    line.end("c", dead_letter(Reason::Exhausted)).await;
    line.act("c", Action::Resolve(Resolution::NotApplied)).await;
    line.act("c", Action::Reopen).await;
    assert_eq!((line.holding().await, line.take().await), (vec!["c".to_owned()], vec![]));
    line.act("c", Action::Resolve(Resolution::Compensated)).await;

    // An operator ends one that waits, and one that has the turn.
    line.act("e", Action::Cancel).await;
    assert_eq!(line.take().await, ["d"]);
    line.end("d", State::Scheduled { at: NOW }).await;
    line.act("d", Action::Cancel).await;
    assert_eq!(line.take().await, ["f"]);
    line.end("f", succeed()).await;

    for key in ["p", "q", "r"] {
        line.enter_into("v", key, Sequence::new("skips").skip_dead_letters()).await;
    }
    line.take().await;
    line.end("p", dead_letter(Reason::Unknown)).await;
    assert_eq!((line.holding().await, line.take().await), (vec![], vec!["q".to_owned()]));
    line.act("p", Action::Redrive { forced: true }).await;
    assert_eq!(line.take().await, [""; 0], "q is being sent");
    line.end("q", succeed()).await;
    for next in ["p", "r"] {
        assert_eq!(line.take().await, [next], "before those that still wait");
        line.end(next, succeed()).await;
    }
    assert_eq!(line.listed("skips").await, ["p", "q", "r"]);
    assert_eq!(line.listed("skip").await, [""; 0]);
}

/// Checks that a claim does not jump the queue. Its result has the time to try again, as far as it is known.
pub async fn check_sequence_claims(store: &dyn Store) {
    let line = Line::new(store, "claims");
    for key in ["a", "b", "c"] {
        line.enter(key, "s").await;
    }
    let send = async |key| claim(store, claim_at(&line.id(key), NOW)).await;
    let exchange = NOW.plus(super::ATTEMPT);
    assert_eq!(send("b").await, Claimed::Busy { frees_at: exchange }, "a is due");
    let Claimed::TakenOver(a) = send("a").await else { panic!("it is its turn") };
    assert_eq!(send("b").await, Claimed::Busy { frees_at: NOW.plus(LEASE) }, "the end of the lease of a");
    assert_eq!(line.take().await, [""; 0]);
    let unauthorized = transition_at(a.fence, NOW, refuse(Refusal::Unauthorized));
    write(store, &a.id, unauthorized).await.expect("the holder may write");
    assert_eq!(line.take().await, ["b"]);
    assert_eq!(
        send("a").await,
        Claimed::Busy { frees_at: NOW.plus(LEASE) },
        "its key is free, and b is being sent"
    );
    // Enqueued again, it waits at its place.
    let again = Claim { due: Some(NOW), ..claim_at(&a.id, NOW) };
    let Claimed::Freed(again) = claim(store, again).await else { panic!("its key is free") };
    assert_eq!(again.waits_for().map(|ahead| ahead.id.key.as_str()), Some("b"));
    assert_eq!(line.take().await, [""; 0]);
    line.end("b", dead_letter(Reason::Exhausted)).await;
    for next in ["a", ""] {
        assert_eq!(line.take().await.join(""), next);
        if next == "a" {
            line.end("a", succeed()).await;
        }
    }
    assert_eq!(send("c").await, Claimed::Busy { frees_at: exchange }, "it is not known when a person comes");
    // An operation that is on record already does not change.
    let other = Claim { sequence: Some(Sequence::new("t")), due: Some(NOW), ..claim_at(&line.id("c"), NOW) };
    assert_eq!(claim(store, other).await, Claimed::Busy { frees_at: NOW });
    assert_eq!(line.listed("t").await, [""; 0]);
}

/// Checks that removed operations, keys that are used again, and operations that supersede others leave the
/// order as it is.
pub async fn check_sequence_lives(store: &dyn Store) {
    let line = Line::new(store, "lives");
    line.enter("a", "s").await;
    line.enter("b", "s").await;
    line.take().await;
    line.end("a", succeed()).await;
    let later = NOW.plus(KEEP).plus(Duration::from_secs(1));
    let_pass(store, later).await;
    assert_eq!(store.purge(later, 10).await.expect("the store works"), 1);
    line.enter_at("c", "s", later).await;
    let Claimed::Fresh(again) = claim(store, line.claim("a", "s", later)).await else { panic!("a new life") };
    assert_eq!(again.waits_for().map(|ahead| ahead.id.key.as_str()), Some("b"), "at the end");
    assert_eq!(store.purge(later, 10).await.expect("the store works"), 0);
    for next in ["b", "c", "a"] {
        assert_eq!(line.take_at(later).await, [next]);
        line.end(next, succeed()).await;
    }
    // The life that has expired is replaced by its own claim.
    let end = later.plus(KEEP).plus(Duration::from_secs(1));
    let_pass(store, end).await;
    for key in ["b", "a", "d"] {
        assert!(matches!(claim(store, line.claim(key, "s", end)).await, Claimed::Fresh(_)), "{key}");
    }
    for next in ["b", "a"] {
        assert_eq!(line.take_at(end).await, [next]);
        line.end(next, dead_letter(Reason::Exhausted)).await;
        let over = Claim { predecessor: Key::new(next).ok(), ..line.claim(&format!("{next}2"), "s", end) };
        let Claimed::Fresh(over) = claim(store, over).await else { panic!("it had no effect") };
        assert_eq!(over.waits_for(), None, "in the place of {next}");
        let fence = line.record(next).await.fence;
        let late = write(store, &line.id(next), transition_at(fence, end, succeed())).await;
        late.expect("proof that comes late ends nothing but the letter");
        let over = over.id.key.as_str().to_owned();
        assert_eq!(line.take_at(end).await, [&over[..]]);
        line.end(&over, succeed()).await;
    }
    assert!(matches!(claim(store, line.claim("e", "s", end)).await, Claimed::Fresh(_)));
    for next in ["d", "e"] {
        assert_eq!(line.take_at(end).await, [next], "what is new is behind all that wait");
        line.end(next, succeed()).await;
    }
    // Of a sequence without operations nothing is left.
    let last = end.plus(KEEP * 2);
    for (key, at) in [("x", end), ("y", last)] {
        let_pass(store, at).await;
        store.purge(at, 100).await.expect("the store works");
        let Claimed::Fresh(first) = claim(store, line.claim(key, "short", at)).await else {
            panic!("a new key")
        };
        assert_eq!(first.sequence.map(|place| place.position), Some(1), "{key}");
        assert!(line.take_at(at).await.iter().any(|taken| taken == key));
        line.end(key, succeed()).await;
    }
}

/// Checks that an adopted operation leaves its sequence, and joins the end of the one of that name in its new
/// account.
pub async fn check_sequence_adoption(store: &dyn Store) {
    let line = Line::new(store, "moves");
    for key in ["a", "b", "c"] {
        line.enter(key, "s").await;
    }
    line.enter_into("new", "x", Sequence::new("s")).await;
    for key in ["a", "b"] {
        let to = Scope::from_stored("moves/new//POST /x");
        line.act(key, Action::Adopt { to }).await;
    }
    assert_eq!(line.take().await, ["c"]);
    for next in ["x", "a", "b"] {
        assert_eq!(line.take_of("new").await, [next]);
        assert_eq!(line.take_of("new").await, [""; 0], "after {next}");
        let id = line.id_of("new", next);
        let fence = get(store, &id).await.expect("on record").fence;
        write(store, &id, transition_at(fence, NOW, succeed())).await.expect("the holder may write");
    }
    // Late proof under the old name ends the heir as well, and releases the next one.
    for key in ["d", "e"] {
        line.enter(key, "t").await;
    }
    assert_eq!(line.take().await, ["d"]);
    let fence = line.record("d").await.fence;
    line.end("d", State::Scheduled { at: NOW.plus(LEASE) }).await;
    for key in ["d", "e"] {
        let to = Scope::from_stored("moves/third//POST /x");
        line.act(key, Action::Adopt { to }).await;
    }
    assert_eq!(line.take_of("third").await, [""; 0]);
    write(store, &line.id("d"), transition_at(fence, NOW, succeed())).await.expect("it is proof");
    assert_eq!(line.take_of("third").await, ["e"]);
}

/// Checks eight takers at once, with callers that enqueue meanwhile: each operation goes to one of them, after
/// the one before it has ended.
///
/// Needs a tokio runtime; one with several threads finds more.
pub async fn check_sequences_at_once(store: Arc<dyn Store>) {
    const EACH: usize = 12;
    const NAMES: [&str; 4] = ["p", "q", "r", "s"];
    let callers = NAMES.map(|name| {
        let store = store.clone();
        tokio::spawn(async move {
            let line = Line::new(&*store, "race");
            for nth in 0..EACH {
                line.enter(&format!("{name}{nth:02}"), name).await;
                tokio::task::yield_now().await;
            }
        })
    });
    let ended = Arc::new(parking_lot::Mutex::new(BTreeMap::<String, Vec<String>>::new()));
    let takers = (0..8).map(|_| {
        let (store, ended) = (store.clone(), ended.clone());
        tokio::spawn(async move {
            let line = Line::new(&*store, "race");
            while ended.lock().values().map(Vec::len).sum::<usize>() < EACH * NAMES.len() {
                for key in line.take().await {
                    // Before it is written: from then on the next may be taken.
                    ended.lock().entry(key[..1].to_owned()).or_default().push(key.clone());
                    line.end(&key, succeed()).await;
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let takers: Vec<_> = takers.collect();
    for task in callers.into_iter().chain(takers) {
        task.await.expect("no panic");
    }
    for name in NAMES {
        let expected: Vec<String> = (0..EACH).map(|nth| format!("{name}{nth:02}")).collect();
        assert_eq!(ended.lock()[name], expected, "{name}");
    }
}
