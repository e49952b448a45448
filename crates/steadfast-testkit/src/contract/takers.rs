//! Takes by recovery and dispatchers: which operations, when, and how often.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Declined, Part, Phase, Record, Resolution, State, Takeover, Transition,
    Wanted,
};
use steadfast_core::operation::{OperationId, RouteName};
use steadfast_core::store::Store;
use steadfast_core::store::delivery::Look;
use steadfast_core::{Effect, Reason, Refusal};

use super::{LEASE, NOW, claim_at, dead_letter, get, id, refuse, succeed, take, transition_at, write};

/// Checks that a take returns operations at their very end and not a millisecond earlier, the longest waiting
/// first. It returns no more than its limit, and nothing of another account. Each belongs to the taker, under
/// the next fence.
pub async fn check_takes(store: &dyn Store) {
    let later = NOW.plus(LEASE);
    for (phase, effect) in [(Phase::InProgress, Effect::Unknown), (Phase::Scheduled, Effect::None)] {
        let mut left = Vec::new();
        for nth in 0..4u64 {
            let end = later.minus(Duration::from_millis(nth));
            left.push(leave(store, &format!("{phase:?} {nth}"), phase, end).await);
        }
        let mut ask = asking(phase, later.minus(Duration::from_millis(4)));
        assert_eq!(taken(store, &ask).await, [], "a millisecond early");
        ask.now = later.minus(Duration::from_millis(1));
        ask.limit = 0;
        assert_eq!(taken(store, &ask).await, [], "a limit of 0 takes nothing");
        ask.limit = 2;
        for other in ["other/vendor/", "test/takes/another", "test/take"] {
            ask.account = Some(other.into());
            assert_eq!(taken(store, &ask).await, [], "of another account");
        }
        ask.account = Some("test/takes/".into());
        let given = taken(store, &ask).await;
        assert_eq!(names(&given), [&left[3].id, &left[2].id], "those that have waited longest");
        for record in &given {
            let state = State::InProgress { lease_until: ask.now.plus(LEASE) };
            let before = left.iter().find(|left| left.id == record.id).expect("one of them").clone();
            let mut expected = Record { state, fence: 2, effect, updated_at: ask.now, ..before };
            (expected.attempt_max, expected.holder) = (ask.attempt_max, ask.holder.clone());
            if phase == Phase::InProgress {
                expected.unknown_since = Some(ask.now.plus(super::ATTEMPT));
                expected.attempt_max = ask.attempt_max.max(super::ATTEMPT);
            }
            assert_eq!(*record, expected);
            assert_eq!(get(store, &record.id).await.as_ref(), Some(record), "as given, so kept");
            let late =
                write(store, &record.id, transition_at(1, ask.now, dead_letter(Reason::Unknown))).await;
            assert_eq!(late, Err(Declined::Fenced), "the holder before");
        }
        ask.account = None;
        ask.limit = 10;
        assert_eq!(names(&taken(store, &ask).await), [&left[1].id], "the rest of phase is left by now");
        assert_eq!(taken(store, &ask).await, [], "nothing twice");
        ask.now = later;
        assert_eq!(names(&taken(store, &ask).await), [&left[0].id], "at its very end");
        ask.now = later.plus(LEASE);
        let again = taken(store, &Takeover { phase: Phase::InProgress, ..ask }).await;
        assert_eq!(again.len(), 4, "a taker that dies leaves phase it took to the next");
        assert!(again.iter().all(|record| (record.fence, record.effect) == (3, Effect::Unknown)));
        for record in again {
            let done = transition_at(3, later, succeed());
            write(store, &record.id, done).await.expect("the holder may write");
        }
    }
}

/// Checks that each account that a taker reaches has its turn. That holds also where another account has more
/// than the limit, all of it due for longer, and where the limit is below the number of accounts.
pub async fn check_takes_in_turn(store: &dyn Store) {
    let due = NOW.plus(LEASE);
    let scope = |account: &str| format!("test/tenants/{account}/POST /x");
    for nth in 0..20 {
        leave_at(store, &scope("platform>many"), &format!("{nth}"), due.minus(Duration::from_secs(9))).await;
    }
    for account in ["platform", "platform>a", "platform>z"] {
        leave_at(store, &scope(account), "one", due.minus(Duration::from_millis(1))).await;
    }
    for account in ["platform:another", "platform=another", "platforms>another"] {
        leave_at(store, &scope(account), "none of its", due.minus(Duration::from_secs(99))).await;
    }
    leave_at(store, &scope("platform>later"), "later", due.plus(LEASE)).await;
    let mut ask = asking(Phase::Scheduled, due);
    ask.account = Some("test/tenants/platform".into());
    ask.limit = 1;
    let mut order = Vec::new();
    for _ in 0..6 {
        let given = taken(store, &ask).await;
        assert_eq!(given.len(), 1, "as many as were asked for");
        order.push(given[0].id.scope.account().expect("an account"));
    }
    for one in ["platform", "platform>a", "platform>z"] {
        let place = order.iter().position(|account| account == one);
        // Two stores on one file each have turns of their own, so both may take from the account with many
        // first.
        assert!(place.is_some_and(|place| place < 5), "{one} among the first five: {order:?}");
    }
    assert_eq!(order.iter().filter(|account| *account == "platform>many").count(), 3, "{order:?}");
    leave_at(store, &scope("platform>z"), "two", due.minus(Duration::from_millis(1))).await;
    ask.limit = 10;
    let given = taken(store, &ask).await;
    assert_eq!(given.len(), 10, "phase one leaves is another's");
    let last = given.iter().filter(|record| record.id.scope.as_str() == scope("platform>z"));
    assert_eq!(last.count(), 1);
    ask.limit = 100;
    assert_eq!(taken(store, &ask).await.len(), 8, "the rest, and of no other account");
    assert_eq!(taken(store, &ask).await, [], "nothing twice");
}

async fn leave_at(store: &dyn Store, scope: &str, key: &str, at: Timestamp) {
    let id = id(scope, key);
    take(store, claim_at(&id, NOW)).await;
    write(store, &id, transition_at(1, NOW, State::Scheduled { at })).await.expect("the holder may write");
}

/// Checks that a row whose time a wrong clock set far ahead is taken at once, after due ones. Only its length
/// is trusted, and its first claim opens no window. A row that is only far ahead stays.
pub async fn check_wrong_clocks(store: &dyn Store) {
    let ahead = NOW.plus(Duration::from_secs(25 * 3_600));
    for (phase, effect) in [(Phase::InProgress, Effect::Unknown), (Phase::Scheduled, Effect::None)] {
        let ask = asking(phase, NOW);
        let far =
            leave(store, &format!("{phase:?} far"), phase, NOW.plus(Duration::from_secs(30 * 3_600))).await;
        let wrong = id("test/wrong//POST /x", &format!("{phase:?}"));
        let mut claim = claim_at(&wrong, ahead);
        claim.vendor_clock_ms = Some(-1_234);
        let wrong = take(store, claim).await;
        assert_eq!((wrong.vendor_clock_ms, wrong.attempt_max), (Some(-1_234), super::ATTEMPT));
        if phase == Phase::Scheduled {
            let later = State::Scheduled { at: ahead.plus(LEASE) };
            write(store, &wrong.id, transition_at(1, ahead, later)).await.expect("the holder may write");
        }
        let due = leave(store, &format!("{phase:?} due"), phase, NOW).await;
        let given = taken(store, &ask).await;
        assert_eq!(names(&given), [&due.id, &wrong.id], "{phase:?}");
        let [_, given] = &given[..] else { panic!("two") };
        let unknown_since = (phase == Phase::InProgress).then(|| NOW.plus(LEASE).plus(super::ATTEMPT));
        assert_eq!((given.effect, given.unknown_since, given.fence), (effect, unknown_since, 2));
        assert_eq!((given.claimed_at, given.updated_at), (NOW.minus(super::KEEP), NOW), "{phase:?}");
        assert_eq!(get(store, &given.id).await.as_ref(), Some(given), "as given, so kept");
        assert_eq!(get(store, &far.id).await, Some(far), "{phase:?}");
        assert_eq!(taken(store, &ask).await, [], "nothing twice");
    }
    // An operation that was enqueued for later keeps its time. It hides no other row of that clock, and no look
    // finds it.
    let (postponed, for_later) =
        (id("test/wrong//POST /x", "postponed"), id("test/wrong//POST /x", "for later"));
    take(store, claim_at(&postponed, ahead)).await;
    let put = State::Scheduled { at: ahead.plus(LEASE) };
    write(store, &postponed, transition_at(1, ahead, put)).await.expect("the holder may write");
    let due = Some(ahead.plus(Duration::from_secs(40 * 3_600)));
    let enqueued = store.claim(Claim { due, ..claim_at(&for_later, ahead) }).await.expect("the store works");
    assert!(matches!(enqueued, Claimed::Fresh(_)), "{enqueued:?}");
    let ask = Takeover { limit: 1, ..asking(Phase::Scheduled, NOW) };
    assert_eq!(names(&taken(store, &ask).await), [&postponed], "whatever ends later");
    let accounts = vec!["test/wrong/".to_owned()];
    let look = Look { now: NOW, until: NOW.plus(LEASE), accounts, outbox: Vec::new() };
    if let Some(delivery) = store.delivery() {
        let sight = delivery.look(&look).await.expect("the store works");
        assert_eq!(sight.waiting[0].due, None, "nothing is due");
    }
    // Beside an operation that is due soon it is due at once.
    for (key, now, put) in
        [("soon", NOW, NOW.plus(Duration::from_millis(500))), ("far", ahead, ahead.plus(LEASE))]
    {
        let id = id("test/beside//POST /x", key);
        let fence = take(store, claim_at(&id, now)).await.fence;
        let put = State::Scheduled { at: put };
        write(store, &id, transition_at(fence, now, put)).await.expect("the holder may write");
    }
    let until = NOW.plus(Duration::from_secs(1));
    let look = Look { now: NOW, until, accounts: vec!["test/beside/".to_owned()], outbox: Vec::new() };
    if let Some(delivery) = store.delivery() {
        let sight = delivery.look(&look).await.expect("the store works");
        assert_eq!(sight.waiting[0].due, Some(NOW), "a wrong clock's is for a taker now");
    }
}

/// Checks that the time since when an effect is unknown goes with every transition, is kept by a takeover of a
/// due operation, and ends with the effect.
pub async fn check_unknown_since(store: &dyn Store) {
    let id = id("test/unknown//POST /x", "k");
    let mut claim = claim_at(&id, NOW);
    claim.on_unknown = steadfast_core::OnUnknown::Resend;
    let first = take(store, claim).await;
    assert_eq!((first.unknown_since, first.lookups, first.resends_left), (None, 0, 1));
    let since = NOW.plus(Duration::from_millis(3));
    let later = NOW.plus(LEASE);
    for (to, resends) in [(State::InProgress { lease_until: later }, 1), (State::Scheduled { at: later }, 0)]
    {
        let mut transition = transition_at(1, NOW, to);
        transition.effect = Effect::Unknown;
        (transition.unknown_since, transition.lookups, transition.resends_left) = (Some(since), 2, resends);
        let moved = write(store, &id, transition).await.expect("the holder may write");
        assert_eq!((moved.unknown_since, moved.lookups, moved.resends_left), (Some(since), 2, resends));
        assert_eq!(get(store, &id).await, Some(moved));
    }
    let account = Some("test/unknown/".to_owned());
    let brief = Takeover { account, attempt_max: super::ATTEMPT / 2, ..asking(Phase::Scheduled, later) };
    let due = taken(store, &brief).await.remove(0);
    assert_eq!((due.unknown_since, due.lookups, due.resends_left), (Some(since), 2, 0));
    assert_eq!(due.attempt_max, super::ATTEMPT, "what was sent before is on its way for as long");
    assert_eq!(get(store, &id).await.map(|record| record.attempt_max), Some(super::ATTEMPT));
    let mut absent = transition_at(2, later, State::InProgress { lease_until: later });
    (absent.unknown_since, absent.lookups, absent.resends_left) = (Some(since), 3, 1);
    let moved = write(store, &id, absent).await.expect("the holder may write");
    assert_eq!((moved.unknown_since, moved.lookups, moved.resends_left), (None, 0, 0), "no more than before");
    assert_eq!(get(store, &id).await, Some(moved));
}

/// Checks that a settled operation is never taken, at any time. A take of another phase takes nothing at all.
pub async fn check_settled_is_not_taken(store: &dyn Store) {
    for (key, to) in [
        ("succeeded", succeed()),
        ("refused", refuse(Refusal::Rejected)),
        ("unauthorized", refuse(Refusal::Unauthorized)),
        ("dead", dead_letter(Reason::Unknown)),
        ("resolved", dead_letter(Reason::Unknown)),
    ] {
        let id = id("test/settled//POST /x", key);
        take(store, claim_at(&id, NOW)).await;
        write(store, &id, transition_at(1, NOW, to)).await.expect("the holder may write");
    }
    let resolve = Act {
        action: Action::Resolve(Resolution::Compensated),
        by: "an operator".to_owned(),
        why: "it was paid back".to_owned(),
        now: NOW,
        fence: None,
    };
    let resolved =
        store.act(&id("test/settled//POST /x", "resolved"), resolve).await.expect("the store works");
    assert_eq!(resolved.map(|record| record.phase()), Ok(Phase::Resolved));
    for left in [Phase::InProgress, Phase::Scheduled] {
        let left_behind = leave(store, left.name(), left, NOW).await;
        for account in [None, Some("test/takes/".to_owned())] {
            for ended in [Phase::Succeeded, Phase::Refused, Phase::Dead, Phase::Resolved] {
                let ask = Takeover { account: account.clone(), ..asking(ended, NOW) };
                assert_eq!(taken(store, &ask).await, [], "{ended}");
            }
        }
        assert_eq!(names(&taken(store, &asking(left, NOW)).await), [&left_behind.id]);
        let done = transition_at(2, NOW, succeed());
        write(store, &left_behind.id, done).await.expect("the holder may write");
    }
    super::let_pass(store, FAR).await;
    for phase in Phase::ALL {
        assert_eq!(taken(store, &asking(phase, FAR)).await, [], "{phase}");
    }
    let purged = store.purge(FAR, 100).await.expect("the store works");
    assert_eq!(purged, 6, "and hides nothing from a purge: all but the dead letter");
}

/// Checks eight takers at once, recovery and dispatchers: each operation goes to one of them, once.
///
/// Needs a tokio runtime; one with several threads finds more.
pub async fn check_takers_at_once(store: Arc<dyn Store>) {
    const LEFT: usize = 60;
    for phase in [Phase::InProgress, Phase::Scheduled] {
        for nth in 0..LEFT {
            leave(&*store, &format!("race {phase:?} {nth}"), phase, NOW).await;
        }
        let ask = Takeover { limit: 7, ..asking(phase, NOW) };
        let takers = (0..8).map(|_| {
            let (store, ask) = (store.clone(), ask.clone());
            tokio::spawn(async move {
                let mut all = Vec::new();
                loop {
                    let given = taken(&*store, &ask).await;
                    if given.is_empty() {
                        return all;
                    }
                    all.extend(given);
                }
            })
        });
        let mut given: Vec<OperationId> = Vec::new();
        for taker in takers.collect::<Vec<_>>() {
            for record in taker.await.expect("no panic") {
                assert_eq!(record.fence, 2, "taken over once");
                given.push(record.id);
            }
        }
        let count = given.len();
        given.sort();
        given.dedup();
        assert_eq!((count, given.len()), (LEFT, LEFT), "{phase:?}: each once");
    }
}

/// Checks that a take that leaves accounts and routes out returns the rest, and one that wants some of them
/// alone returns those. It checks the same for operations that were held before, or were not, from the end that
/// the take asks for.
pub async fn check_wanted_takes(store: &dyn Store) {
    const ROUTES: [&str; 5] = [
        "PUT /v2/orders/17",
        "PUT /v2/orders/bulk",
        "PUT /v2/orders/a'7/lines",
        "POST /v2/orders",
        "PUT /v2/Orders/18",
    ];
    let route = |text: &str| Part::Route(RouteName::of(text));
    let mut left = Vec::new();
    for account in ["a", "a>b", "other"] {
        for (nth, path) in ROUTES.iter().enumerate() {
            let id = id(&format!("test/wanted/{account}/{path}"), "k");
            let due = NOW.plus(Duration::from_millis(nth as u64));
            let claimed = store.claim(Claim { due: Some(due), ..claim_at(&id, NOW) }).await;
            assert!(matches!(claimed, Ok(Claimed::Fresh(_))), "{claimed:?}");
            left.push(id);
        }
    }
    let later = NOW.plus(LEASE);
    let ask = |wanted: Wanted, limit| Takeover {
        account: Some("test/wanted/a".to_owned()),
        limit,
        wanted,
        ..asking(Phase::Scheduled, later)
    };
    // Taken operations are left again at once, as they are, so that the next take finds them.
    let give = async |wanted: Wanted, limit| {
        let given = taken(store, &ask(wanted, limit)).await;
        for record in &given {
            let at = State::Scheduled { at: NOW.plus(Duration::from_millis(9)) };
            let back = Transition { attempts: 0, ..transition_at(record.fence, later, at) };
            write(store, &record.id, back).await.expect("the holder may write");
        }
        given.into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    let of = |numbers: &[usize]| numbers.iter().map(|number| left[*number].clone()).collect::<Vec<_>>();
    let newest = Wanted { newest: true, tried: Some(false), ..Wanted::default() };
    let only = Wanted { only: vec![Part::Account("test/wanted/a".to_owned())], ..newest.clone() };
    assert_eq!(give(only, 2).await, of(&[4, 3]), "the newest of the account");
    let without = vec![route("PUT /v2/orders/1"), route("PUT /v2/orders/9/lines")];
    let rest = Wanted { without, tried: Some(false), ..Wanted::default() };
    let mut given = give(rest.clone(), 10).await;
    given.sort();
    let mut expected = of(&[1, 6, 8, 9]);
    expected.sort();
    assert_eq!(given, expected, "ids of these routes are left out, and words beside them are not");
    assert_eq!(give(rest, 10).await, [], "the rest was held before");
    let one = Wanted { only: vec![route("PUT /v2/orders/1")], ..Wanted::default() };
    assert_eq!(give(Wanted { tried: Some(true), ..one.clone() }, 10).await, [], "neither was held before");
    let waiting = Wanted { waiting_since: Some(NOW), ..one.clone() };
    assert_eq!(
        give(Wanted { waiting_since: Some(NOW.minus(Duration::from_millis(1))), ..one.clone() }, 9).await,
        []
    );
    assert_eq!(
        give(Wanted { without: vec![Part::Account("test/wanted/a>b".to_owned())], ..waiting }, 9).await,
        of(&[0])
    );
    let tried = Wanted { only: one.only, tried: Some(true), ..Wanted::default() };
    assert_eq!(give(tried, 9).await, of(&[0]), "held once, and nothing sent");
    let all = Wanted { without: vec![route("GET /nothing")], ..Wanted::default() };
    assert_eq!(give(all.clone(), 20).await.len(), 10, "none of another account's, and all of its own");
    // A row that a wrong clock set far ahead is found beside the excluded ones, and excluded as well.
    let (far, ahead) = (id("test/wanted/a/POST /far", "k"), later.plus(Duration::from_secs(25 * 3_600)));
    take(store, claim_at(&far, ahead)).await;
    let at = State::Scheduled { at: ahead.plus(LEASE) };
    write(store, &far, transition_at(1, ahead, at)).await.expect("the holder may write");
    let without = Wanted { without: vec![route("POST /far")], ..Wanted::default() };
    assert_eq!(give(without, 20).await.len(), 10, "it is not wanted");
    assert!(give(all, 20).await.contains(&far), "it is");
}

/// Leaves an operation to be taken at `end`.
async fn leave(store: &dyn Store, key: &str, phase: Phase, end: Timestamp) -> Record {
    let id = id("test/takes//POST /x", key);
    take(store, claim_at(&id, NOW)).await;
    let to = match phase {
        Phase::InProgress => State::InProgress { lease_until: end },
        Phase::Scheduled => State::Scheduled { at: end },
        other => panic!("what is {other} is not left to anyone"),
    };
    write(store, &id, transition_at(1, NOW, to)).await.expect("the holder may write")
}

pub(super) fn asking(phase: Phase, now: Timestamp) -> Takeover {
    Takeover {
        phase,
        account: None,
        now,
        lease: LEASE,
        attempt_max: Duration::from_secs(7),
        vendor_clock_ms: None,
        holder: Some("taker/2".into()),
        limit: 10,
        wanted: Wanted::default(),
    }
}

async fn taken(store: &dyn Store, ask: &Takeover) -> Vec<Record> {
    store.take(ask.clone()).await.expect("the store works")
}

fn names(records: &[Record]) -> Vec<&OperationId> {
    records.iter().map(|record| &record.id).collect()
}

/// The last moment that a store must distinguish from others.
const FAR: Timestamp = Timestamp::from_millis(i64::MAX as u64);
