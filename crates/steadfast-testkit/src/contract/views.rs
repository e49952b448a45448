//! Reads of a store: lists and their pages, counts, and each operation's log.

use std::time::Duration;

use steadfast_core::internal::attempt;
use steadfast_core::internal::store::LATE;
use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Declined, Filter, Phase, Resolution, State, Summary, Tally, Transition,
};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::store::delivery::{Beat, Heartbeat, Queue, queues};
use steadfast_core::store::{Store, StoreErrorKind};
use steadfast_core::transport::SendErrorKind;
use steadfast_core::{AttemptReport, Effect, Reason, Refusal, Sequence};

use super::{
    LEASE, NOW, answer, claim, claim_at, dead_letter, delivery, get, id, refuse, succeed, take,
    transition_at, write,
};

/// Checks each part of a filter alone, and together: exactly the matches, in the order of the first claims.
pub async fn check_filters(store: &dyn Store) {
    fill(store).await;
    let all = keys(store, &Filter::default()).await;
    assert_eq!(all, ["held", "waiting", "done", "refused", "lost", "spent", "solved", "done"]);
    for (expected, filter) in [
        (&["done"][..], Filter { vendor: Some("test/b".into()), ..Filter::default() }),
        (&[], Filter { vendor: Some("test".into()), ..Filter::default() }),
        (&["done"], Filter { scope: Some(Scope::from_stored("test/b//POST /x")), ..Filter::default() }),
        (&["done", "done"], Filter { key: Key::new("done").ok(), ..Filter::default() }),
        (&[], Filter { key: Key::new("absent").ok(), ..Filter::default() }),
        (&["done"], by_wire_key("test/b//POST /x", "done")),
        (&["lost"], by_wire_key("test/a//POST /x", "lost")),
        (&["lost"], Filter { phases: vec![Phase::Dead], ..by_wire_key("test/a//POST /x", "lost") }),
        (&[], Filter { phases: vec![Phase::Dead], ..by_wire_key("test/a//POST /x", "done") }),
        (&[], Filter { key: Key::new("lost").ok(), ..by_wire_key("test/a//POST /x", "done") }),
        (&[], by_wire_key("test/a//POST /x", "absent")),
        (&[], Filter { wire_key: Some("lost".into()), ..Filter::default() }),
        (&["lost", "spent"], of(&[Phase::Dead])),
        (&["held", "waiting"], of(&[Phase::Scheduled, Phase::InProgress])),
        (&["lost", "spent", "solved"], of(&[Phase::Dead, Phase::Resolved])),
        (&["lost", "solved"], Filter { reason: Some(Reason::Unknown), ..Filter::default() }),
        (&["spent"], Filter { reason: Some(Reason::Exhausted), ..of(&[Phase::Dead]) }),
        (&["held", "lost", "solved"], Filter { effect: Some(Effect::Unknown), ..Filter::default() }),
        (&["done", "done"], Filter { effect: Some(Effect::Applied), ..Filter::default() }),
        (&[], Filter { effect: Some(Effect::Applied), ..of(&[Phase::Dead]) }),
        (&["refused"], Filter { status: Some(402), ..Filter::default() }),
        (&["spent"], Filter { status: Some(503), effect: Some(Effect::None), ..Filter::default() }),
        (&["solved", "done"], Filter { updated_from: Some(at(6)), ..Filter::default() }),
        (&["held"], Filter { updated_before: Some(at(1)), ..Filter::default() }),
        (
            &["waiting", "done"],
            Filter { updated_from: Some(at(1)), updated_before: Some(at(3)), ..Filter::default() },
        ),
        (&[], Filter { status: Some(500), ..Filter::default() }),
        (&["done"], Filter { account: Some("test/b/".into()), ..Filter::default() }),
        (&["lost", "spent"], Filter { account: Some("test/a/".into()), ..of(&[Phase::Dead]) }),
        (&[], Filter { account: Some("test/a".into()), ..Filter::default() }),
        (&["done", "done"], Filter { key_prefix: Some("do".into()), ..Filter::default() }),
        (&["spent", "solved"], Filter { key_prefix: Some("s".into()), ..Filter::default() }),
        (&[], Filter { key_prefix: Some("%".into()), ..Filter::default() }),
        (&["waiting"], Filter { due_before: Some(at(901)), ..Filter::default() }),
        (&[], Filter { due_before: Some(at(900)), ..Filter::default() }),
    ] {
        assert_eq!(keys(store, &filter).await, expected, "{filter:?}");
    }
    let by_code = Filter { code: Some("UNKNOWN.effect".into()), ..Filter::default() };
    let result =
        store.list(&by_code, None, 100).await.expect_err("no list of a store reads the log of attempts");
    assert_eq!(result.kind(), StoreErrorKind::Invalid);
    for summary in list(store, &Filter::default()).await {
        let record = get(store, &summary.id).await.expect("a record");
        assert_eq!(summary, record.summary(), "a row says what the record says");
    }
}

/// Checks that pages of any size return each row once and in order, also while rows come and go; the last page
/// is marked.
pub async fn check_pages(store: &dyn Store) {
    fill(store).await;
    let all = list(store, &Filter::default()).await;
    for size in [0, 1, 3, 7, 8, 9] {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(&Filter::default(), after.as_deref(), size).await.expect("the store works");
            assert!((1..=size.max(1)).contains(&page.rows.len()), "a page of {size}: {}", page.rows.len());
            rows.extend(page.rows);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(rows, all, "pages of {size}");
    }
    let done = Filter { key: Key::new("done").ok(), ..Filter::default() };
    let first = store.list(&done, None, 1).await.expect("the store works");
    let second = store.list(&done, first.next.as_deref(), 1).await.expect("the store works");
    let scopes = [&first, &second].map(|page| page.rows[0].id.scope.as_str());
    assert_eq!(
        (scopes, &second.next),
        (["test/a//POST /x", "test/b//POST /x"], &None),
        "a key in two scopes"
    );
    let dead = of(&[Phase::Dead]);
    let first = store.list(&dead, None, 1).await.expect("the store works");
    assert_eq!(first.rows[0].id.key.as_str(), "lost");
    redrive(store, &first.rows[0].id).await;
    let newcomer = id("test/a//POST /x", "newcomer");
    take(store, claim_at(&newcomer, at(9))).await;
    write(store, &newcomer, transition_at(1, at(9), dead_letter(Reason::Expired))).await.expect("may write");
    let rest = store.list(&dead, first.next.as_deref(), 10).await.expect("the store works");
    let names: Vec<&str> = rest.rows.iter().map(|row| row.id.key.as_str()).collect();
    assert_eq!((&names[..], rest.next), (&["spent", "newcomer"][..], None));
    let frozen = Filter { updated_before: Some(at(9)), ..dead };
    assert_eq!(
        keys(store, &frozen).await,
        ["spent"],
        "a filter frozen at the start leaves out what came later"
    );
    for stray in ["", "x", "1;2", "18446744073709551616"] {
        let result = store.list(&Filter::default(), Some(stray), 1).await;
        assert!(result.is_err(), "{stray:?} is no cursor");
    }
}

/// Checks the number of operations of each vendor and phase, and the time of the oldest.
pub async fn check_tally(store: &dyn Store) {
    assert_eq!(store.tally().await.expect("the store works"), []);
    fill(store).await;
    let tally = |vendor: &str, phase, count, millis| Tally {
        vendor: vendor.into(),
        phase,
        count,
        oldest: at(millis),
    };
    let expected = [
        tally("test/a", Phase::InProgress, 1, 0),
        tally("test/a", Phase::Scheduled, 1, 1),
        tally("test/a", Phase::Succeeded, 1, 2),
        tally("test/a", Phase::Refused, 1, 3),
        tally("test/a", Phase::Dead, 2, 4),
        tally("test/a", Phase::Resolved, 1, 7),
        tally("test/b", Phase::Succeeded, 1, 6),
    ];
    assert_eq!(store.tally().await.expect("the store works"), expected);
}

/// Checks that a log keeps its reports, in order, under any fence. A transition's reports are in it even if the
/// transition was declined. It is removed with its operation and belongs to no other.
pub async fn check_evidence(store: &dyn Store) {
    // First, so that the operation under test is the last: its place may be given to the next.
    let other = id("test/evidence//POST /x", "K");
    take(store, claim_at(&other, NOW)).await;
    let name = id("test/evidence//POST /x", "k");
    let absent = store.append_evidence(&name, vec![report(1)]).await.expect("the store works");
    assert_eq!(absent, Err(Declined::Absent));
    let mut early = transition_at(1, NOW, succeed());
    early.reports = vec![report(1)];
    assert_eq!(write(store, &name, early).await, Err(Declined::Absent));
    take(store, claim_at(&name, NOW)).await;
    assert_eq!(evidence(store, &name).await, []);
    let append = async |reports| store.append_evidence(&name, reports).await.expect("the store works");
    assert_eq!(append(vec![report(1), report(2)]).await, Ok(()));
    assert_eq!(append(vec![]).await, Ok(()));
    let mut stray = transition_at(0, NOW, succeed());
    stray.reports = vec![report(3)];
    assert_eq!(write(store, &name, stray).await, Err(Declined::Fenced));
    let mut last = transition_at(1, NOW, succeed());
    last.reports = vec![report(3), report(4)];
    write(store, &name, last).await.expect("the holder may write");
    assert_eq!(append(vec![report(5)]).await, Ok(()), "also when it is settled");
    let expected = [1, 2, 3, 3, 4, 5].map(report);
    assert_eq!(evidence(store, &name).await, expected);
    assert_eq!(evidence(store, &other).await, []);
    super::let_pass(store, NOW.plus(super::KEEP)).await;
    assert_eq!(store.purge(NOW.plus(super::KEEP), 10).await.expect("the store works"), 1);
    assert_eq!(evidence(store, &name).await, []);
    take(store, claim_at(&name, NOW)).await;
    assert_eq!(evidence(store, &name).await, [], "a new operation of the same name starts a new log");
}

/// Checks that the counts of waiting operations match a list of them, and that the heartbeat of each dispatcher
/// is there until it expires.
pub async fn check_backlog(store: &dyn Store) {
    fill(store).await;
    let line = |key: &str| Claim {
        due: Some(at(3)),
        sequence: Some(Sequence::new("line")),
        ..claim_at(&id("test/a/x>y/POST /x", key), NOW)
    };
    for key in ["first", "second", "third"] {
        let Claimed::Fresh(_) = claim(store, line(key)).await else { panic!("{key} is new") };
    }
    let tried = id("test/a//POST /x", "tried");
    take(store, Claim { keep: 3 * LATE, ..claim_at(&tried, NOW) }).await;
    let mut sent = transition_at(1, at(9), State::Scheduled { at: at(9).plus(2 * LATE) });
    sent.attempts = 2;
    write(store, &tried, sent).await.expect("the holder may write");
    // An operation that an outage held back was sent as well, and no step counts it.
    let spare = async |route: &str, moved: u64| {
        let spared = id(&format!("test/a//POST /{route}"), "spared");
        take(store, claim_at(&spared, NOW)).await;
        let again =
            Transition { attempts: 0, ..transition_at(1, at(moved), State::Scheduled { at: at(800) }) };
        write(store, &spared, again).await.expect("the holder may write");
    };
    spare("spared", 5).await;
    // It ranks below one that has a step on record.
    spare("x", 10).await;
    let open = of(&[Phase::InProgress, Phase::Scheduled, Phase::Dead]);
    let listed = list(store, &open).await;
    for now in [NOW, at(3), at(4), at(900), NOW.plus(3 * LATE)] {
        let counted = delivery(store).backlog(now).await.expect("the store works");
        assert_eq!(counted.queues, queues(listed.clone().into_iter(), now), "{now}");
    }
    let counted = delivery(store).backlog(at(4)).await.expect("the store works").queues;
    let of_line = counted.iter().find(|queue| queue.scope.as_str().contains("x>y")).expect("a queue");
    assert_eq!((of_line.count, of_line.overdue, of_line.behind, of_line.next), (3, 1, 2, Some(at(3))));
    let scheduled =
        |queue: &&Queue| queue.phase == Phase::Scheduled && queue.scope.as_str() == "test/a//POST /x";
    let of_tried = counted.iter().find(scheduled).expect("a queue");
    assert_eq!((of_tried.count, of_tried.tried, of_tried.late), (3, 2, 1));
    assert_eq!(of_tried.last.as_ref().map(Key::as_str), Some("tried"));
    let of_spared = counted.iter().find(|queue| queue.scope.as_str().ends_with("/spared")).expect("a queue");
    assert_eq!((of_spared.tried, of_spared.last.as_ref().map(Key::as_str)), (0, Some("spared")));
    let keys = keys(store, &Filter { due_before: Some(at(4)), ..Filter::default() }).await;
    assert_eq!(keys, ["first"], "those behind it are not due");
    let peers_at = |now| async move { delivery(store).backlog(now).await.expect("the store works").peers };
    let lasts = Duration::from_secs(1);
    let beat = Beat { account: "test/a/x".into(), dispatcher: "one".into(), says: Some("1".into()) };
    let result = delivery(store).heartbeat(&Heartbeat { now: NOW, lasts, beats: vec![beat] }).await;
    result.expect("the store works");
    let peers = peers_at(at(300)).await;
    assert_eq!((peers.len(), &peers[0].says[..], peers[0].ago), (1, "1", Duration::from_millis(300)));
    super::let_pass(store, NOW.plus(lasts)).await;
    assert_eq!(peers_at(NOW.plus(lasts)).await, [], "it has lasted");
}

/// Fills a store: one operation in each phase, each with its own time of the last change, and one of another
/// vendor.
async fn fill(store: &dyn Store) {
    let unsure = State::Dead { reason: Reason::Unknown, answer: None };
    for (nth, (scope, key, to)) in [
        ("test/a//POST /x", "held", None),
        ("test/a//POST /x", "waiting", Some(State::Scheduled { at: at(900) })),
        ("test/a//POST /x", "done", Some(succeed())),
        ("test/a//POST /x", "refused", Some(refuse(Refusal::Rejected))),
        ("test/a//POST /x", "lost", Some(unsure.clone())),
        ("test/a//POST /y", "spent", Some(dead_letter(Reason::Exhausted))),
        ("test/a//POST /x", "solved", Some(unsure)),
        ("test/b//POST /x", "done", Some(State::Succeeded { answer: answer(201, ""), reconciled: true })),
    ]
    .into_iter()
    .enumerate()
    {
        let id = id(scope, key);
        let mut wanted = claim_at(&id, NOW);
        wanted.lease = LEASE;
        take(store, wanted).await;
        // The last two changes share a time with no other: 4, 5, then 7 for the resolution and 6 for the other.
        let now = at(if key == "done" && nth == 7 { 6 } else { nth as u64 });
        let Some(to) = to else { continue };
        let mut transition = transition_at(1, now, to);
        if matches!(key, "lost" | "solved") {
            transition.effect = Effect::Unknown;
        }
        write(store, &id, transition).await.expect("the holder may write");
        if key == "solved" {
            let resolution = Resolution::Applied { vendor_id: "ch_1".into() };
            act(store, &id, Action::Resolve(resolution), 7).await;
        }
    }
}

async fn redrive(store: &dyn Store, id: &OperationId) {
    act(store, id, Action::Redrive { forced: false }, 8).await;
}

async fn act(store: &dyn Store, id: &OperationId, action: Action, millis: u64) {
    let act = Act { action, by: "me".into(), why: "so".into(), now: at(millis), fence: Some(1) };
    store.act(id, act).await.expect("the store works").expect("allowed");
}

/// Returns a filter for the wire key of an operation as the suite claims it.
fn by_wire_key(scope: &str, key: &str) -> Filter {
    Filter { wire_key: Some(id(scope, key).wire_key().to_string()), ..Filter::default() }
}

fn of(phases: &[Phase]) -> Filter {
    Filter { phases: phases.to_vec(), ..Filter::default() }
}

async fn list(store: &dyn Store, filter: &Filter) -> Vec<Summary> {
    let page = store.list(filter, None, 100).await.expect("the store works");
    assert_eq!(page.next, None);
    page.rows
}

async fn keys(store: &dyn Store, filter: &Filter) -> Vec<String> {
    list(store, filter).await.into_iter().map(|row| row.id.key.as_str().to_owned()).collect()
}

async fn evidence(store: &dyn Store, id: &OperationId) -> Vec<AttemptReport> {
    store.evidence(id).await.expect("the store works")
}

pub(super) fn report(number: u32) -> AttemptReport {
    let mut report = attempt::report(number, at(u64::from(number)), "retry", Effect::Unknown);
    report.latency = Duration::from_nanos(1_234_567_891);
    report.wait = Some(Duration::from_millis(number.into()));
    if number.is_multiple_of(2) {
        report.status = Some(503);
    } else {
        report.failure_kind = Some(SendErrorKind::Reset);
        report.failure = Some("connection reset\r\nby \"peer\" ☠\n".into());
    }
    report
}

fn at(millis: u64) -> steadfast_core::clock::Timestamp {
    NOW.plus(Duration::from_millis(millis))
}
