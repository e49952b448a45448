//! Rows of an outbox: they exist once they are committed, become an operation once, and hold their sequence.

use bytes::Bytes;
use http::Method;

use steadfast_core::internal::ext::ActExt;
use steadfast_core::operation::record::{Act, Action, Claim, Claimed};
use steadfast_core::operation::{Fingerprint, Key, OperationId, Scope};
use steadfast_core::store::outbox::{Account, Outbox, OutboxRow};
use steadfast_core::store::{OutboxTally, Store};
use steadfast_core::{OnUnknown, Sequence};

use super::{KEEP, NOW, claim_at, get, let_pass, succeed, take, transition_at, write};

/// Checks that a row is read as it was written, for its account alone, in pages.
pub async fn check_rows(store: &dyn Store) {
    let outbox = outbox_of(store).await;
    assert_eq!(outbox.have_rows(&[of("a"), of("b")]).await.expect("the store works"), [false, false]);
    assert_eq!(outbox.counts().await.expect("the store works"), []);
    for (account, key) in [("a", "one"), ("b", "one"), ("a", "two"), ("a", "three")] {
        commit_row(outbox, &of(account), &row(key)).await;
    }
    assert_eq!(
        outbox.have_rows(&[of("b"), of("c"), of("a")]).await.expect("the store works"),
        [true, false, true]
    );
    let rows = waiting(outbox, "a").await;
    for (found, key) in rows.iter().zip(["one", "two", "three"]) {
        let expected = OutboxRow { number: found.number, enqueued_at: found.enqueued_at, ..row(key) };
        assert_eq!(*found, expected);
    }
    assert!(rows.len() == 3 && rows.is_sorted_by_key(|row| row.number), "{rows:?}");
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = outbox.waiting(&of("a"), after.as_deref(), 2, BODY_MAX).await.expect("the store works");
        paged.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, rows);
    let large = outbox.waiting(&of("b"), None, 10, 3).await.expect("the store works").rows;
    assert!(large[0].problem.is_some() && large[0].body.is_empty(), "{large:?}");
    assert_eq!(numbers(&outbox.under_key(&of("a"), "two").await.expect("the store works")), [rows[1].number]);
    assert_eq!(outbox.under_key(&of("c"), "one").await.expect("the store works"), []);
    let of_key = outbox.of_key("one").await.expect("the store works");
    let names: Vec<&OperationId> = of_key.iter().map(|queued| &queued.id).collect();
    assert_eq!(names, [&name("a", "one"), &name("b", "one")]);
    let counts = outbox.counts().await.expect("the store works");
    let count = |of: &OutboxTally| (of.account.clone(), of.waiting, of.rejected);
    let mut counted: Vec<_> = counts.iter().map(count).collect();
    counted.sort_unstable();
    assert_eq!(counted, [("a".to_owned(), 3, 0), ("b".to_owned(), 1, 0)]);
}

/// Checks that a row is admitted once, and is removed in the commit that records its operation. A row whose
/// request did not become the operation's stays.
pub async fn check_admission(store: &dyn Store) {
    let outbox = outbox_of(store).await;
    let one = name("a", "one");
    let number = commit_row(outbox, &of("a"), &row("one")).await;
    let admitted = outbox.admit(number, claim_at(&one, NOW)).await.expect("the store works");
    assert!(matches!(admitted, Some(Claimed::Fresh(_))), "{admitted:?}");
    assert_eq!((get(store, &one).await.is_some(), waiting(outbox, "a").await), (true, vec![]));
    assert!(outbox.admit(number, claim_at(&one, NOW)).await.expect("the store works").is_none(), "once");
    assert!(!outbox.reject(number, "gone", NOW).await.expect("the store works"));
    let again = commit_row(outbox, &of("a"), &row("one")).await;
    let other = Claim { fingerprint: Fingerprint::from_bytes([8; 32]), ..claim_at(&one, NOW) };
    let admitted = outbox.admit(again, other).await.expect("the store works");
    assert!(matches!(admitted, Some(Claimed::Mismatch { .. })), "{admitted:?}");
    assert_eq!(numbers(&waiting(outbox, "a").await), [again], "another request is on record");
    let admitted = outbox.admit(again, claim_at(&one, NOW)).await.expect("the store works");
    assert!(matches!(admitted, Some(Claimed::Busy { .. })), "{admitted:?}");
    assert_eq!(waiting(outbox, "a").await, [], "the same request is");
}

/// Checks that a row is admitted after those before it in its sequence. A rejected row holds the sequence, if a
/// dead letter would.
pub async fn check_row_sequences(store: &dyn Store) {
    let outbox = outbox_of(store).await;
    let held = async |line: &str| outbox.holds_back(&of("a"), line).await.expect("the store works");
    let admit = async |number, key: &str| {
        let admitted = outbox.admit(number, claim_at(&name("a", key), NOW)).await;
        admitted.expect("the store works").is_some()
    };
    for (line, skips) in [("holds", false), ("skips", true)] {
        let sequence = Sequence::new(line);
        let sequence = if skips { sequence.skip_dead_letters() } else { sequence };
        let in_line = |key: &str| OutboxRow { sequence: Some(sequence.clone()), ..row(key) };
        let keys = [1, 2, 3].map(|nth| format!("{line}-{nth}"));
        let mut rows = Vec::new();
        for key in &keys {
            rows.push(commit_row(outbox, &of("a"), &in_line(key)).await);
        }
        assert!(held(line).await && !held("another").await);
        assert!(!admit(rows[1], &keys[1]).await, "one is before it");
        assert!(admit(rows[0], &keys[0]).await);
        assert!(outbox.reject(rows[1], "no route", NOW).await.expect("the store works"));
        assert_eq!(admit(rows[2], &keys[2]).await, skips, "{line}");
        assert_eq!(held(line).await, !skips, "{line}");
    }
}

/// Checks that a rejected row is listed with its reason, and not admitted any more. A removed row is in the
/// audit record. A disowned row holds nothing.
pub async fn check_rejection(store: &dyn Store) {
    let outbox = outbox_of(store).await;
    let number =
        commit_row(outbox, &of("a"), &OutboxRow { sequence: Some(Sequence::new("line")), ..row("one") })
            .await;
    let why = async || outbox.rejection(&of("a"), "one").await.expect("the store works");
    assert_eq!(why().await, None);
    assert!(outbox.reject(number, "no route", NOW).await.expect("the store works"));
    assert!(!outbox.reject(number, "again", NOW).await.expect("the store works"), "it is aside");
    assert_eq!(why().await.as_deref(), Some("no route"));
    assert_eq!(waiting(outbox, "a").await, []);
    assert_eq!(outbox.have_rows(&[of("a")]).await.expect("the store works"), [false]);
    assert!(outbox.admit(number, claim_at(&name("a", "one"), NOW)).await.expect("the store works").is_none());
    let rejected = outbox.rejected(None, 10).await.expect("the store works").rows;
    let shown = (rejected[0].number, &*rejected[0].key, &*rejected[0].why, rejected[0].holds.as_deref());
    assert_eq!((rejected.len(), shown), (1, (number, "one", "no route", Some("line"))));
    let act = Act { action: Action::Cancel, by: "ada".into(), why: "stale".into(), now: NOW, fence: None };
    let entry = act.on_row(&name("a", "one")).expect("it is signed");
    assert!(outbox.remove(number, &entry).await.expect("the store works"));
    assert!(!outbox.remove(number, &entry).await.expect("the store works"), "once");
    assert_eq!(store.audit(None, None, 10).await.expect("the store works").rows, [entry]);
    assert_eq!(why().await, None);
    for key in ["two", "three"] {
        let in_line = OutboxRow { sequence: Some(Sequence::new("line")), ..row(key) };
        commit_row(outbox, &of("a"), &in_line).await;
    }
    assert_eq!(outbox.disown("a copy", NOW).await.expect("the store works"), 2);
    assert!(!outbox.holds_back(&of("a"), "line").await.expect("the store works"));
    let rejected = outbox.rejected(None, 10).await.expect("the store works").rows;
    assert_eq!(rejected.iter().map(|row| &*row.why).collect::<Vec<_>>(), ["a copy", "a copy"]);
}

/// Checks that a purge spares the record that decides a row's claim, also a rejected row's.
pub async fn check_spared_records(store: &dyn Store) {
    let outbox = outbox_of(store).await;
    let kept = name("a", "kept");
    take(store, claim_at(&kept, NOW)).await;
    write(store, &kept, transition_at(1, NOW, succeed())).await.expect("its holder");
    let number = commit_row(outbox, &of("a"), &row("kept")).await;
    assert!(outbox.reject(number, "no route", NOW).await.expect("the store works"));
    let over = NOW.plus(KEEP);
    let_pass(store, over).await;
    assert_eq!(store.purge(over, 10).await.expect("the store works"), 0, "it has a row");
    let act = Act { action: Action::Cancel, by: "ada".into(), why: "stale".into(), now: over, fence: None };
    let entry = act.on_row(&kept).expect("it is signed");
    assert!(outbox.remove(number, &entry).await.expect("the store works"));
    assert_eq!(store.purge(over, 10).await.expect("the store works"), 1);
}

/// Returns the store's outbox, once the store has seen the suite's time.
async fn outbox_of(store: &dyn Store) -> &dyn Outbox {
    store.believed(NOW).await.expect("the store works");
    store.outbox().expect("the store has an outbox")
}

/// Commits a row, and returns its number.
async fn commit_row(outbox: &dyn Outbox, account: &Account, row: &OutboxRow) -> u64 {
    let statements = outbox.put(account, row).expect("it can be written");
    outbox.write(statements).await.expect("the store works");
    let rows = outbox.under_key(account, &row.key).await.expect("the store works");
    rows.last().expect("it is committed").number
}

async fn waiting(outbox: &dyn Outbox, account: &str) -> Vec<OutboxRow> {
    outbox.waiting(&of(account), None, 100, BODY_MAX).await.expect("the store works").rows
}

fn numbers(rows: &[OutboxRow]) -> Vec<u64> {
    rows.iter().map(|row| row.number).collect()
}

fn of(account: &str) -> Account {
    Account { namespace: "test".to_owned(), vendor: "rows".to_owned(), account: account.to_owned() }
}

fn name(account: &str, key: &str) -> OperationId {
    let scope = Scope::new("test", "rows", account, &Method::POST, "/v1/things");
    OperationId::new(scope, Key::new(key).expect("the suite's keys are valid"))
}

fn row(key: &str) -> OutboxRow {
    OutboxRow {
        number: 0,
        method: "POST".to_owned(),
        path: "/v1/things?expand=a".to_owned(),
        key: key.to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Bytes::from_static(br#"{"amount":1000}"#),
        due: Some(NOW),
        on_unknown: Some(OnUnknown::Park),
        keep: Some(KEEP),
        redact: vec!["card".to_owned()],
        supersedes: None,
        origin: Some("https://vendor.test".to_owned()),
        sequence: None,
        enqueued_at: NOW,
        problem: None,
    }
}

const BODY_MAX: usize = 1_000;
