//! Names and contents that a store must keep apart and return to the byte.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use steadfast_core::Reason;
use steadfast_core::operation::record::{Act, Action, Claimed, Phase, State, Takeover};
use steadfast_core::operation::{Key, RedactedFields};
use steadfast_core::store::Store;
use steadfast_core::transport::Answer;

use super::{KEEP, LEASE, NOW, answer, claim, claim_at, get, id, take, transition_at, write};

/// Checks that names that differ in case, in a space, in a wildcard or only in where the scope ends are
/// different operations.
pub async fn check_look_alike_names(store: &dyn Store) {
    let names = [
        ("a", "b/c"),
        ("a/b", "c"),
        ("a/b/c", "x"),
        ("A", "b/c"),
        ("a", "B/c"),
        ("a", "b/c "),
        ("a", " b/c"),
        ("a ", "b/c"),
        ("a", "b%c"),
        ("a", "b_c"),
        ("a", "b*c"),
        ("a", "b\\c"),
        ("a", "b'c"),
        ("a", "b\"c"),
        ("a", "b:c"),
        ("a:b", "c"),
        ("a", "0"),
        ("a", "00"),
        ("a", "0.0"),
        ("a", "null"),
        ("b/c", "a"),
        ("ä", "b"),
        ("a\u{308}", "b"),
        ("Ä", "b"),
        ("", "b"),
    ];
    for (scope, key) in names {
        let result = claim(store, claim_at(&id(scope, key), NOW)).await;
        assert!(matches!(result, Claimed::Fresh(_)), "{scope:?} {key:?} is new: {result:?}");
    }
    for (scope, key) in names {
        let name = id(scope, key);
        let record = get(store, &name).await.unwrap_or_else(|| panic!("{scope:?} {key:?} is there"));
        assert_eq!(record.id, name);
        assert_eq!(record.wire_key, name.wire_key().to_string());
    }
}

/// Checks the longest key, a long scope, and bodies as large as the default limits, with every byte.
pub async fn check_sizes(store: &dyn Store) {
    let scope = format!("test/sizes/{}/POST /{}", "a".repeat(500), "r".repeat(500));
    let id = id(&scope, &"~".repeat(Key::LEN_MAX));
    let mut wanted = claim_at(&id, NOW);
    wanted.wire_key = "w".repeat(Key::LEN_MAX);
    Arc::make_mut(&mut wanted.request).body = every_byte(1024 * 1024);
    Arc::make_mut(&mut wanted.request).headers = many_headers();
    Arc::make_mut(&mut wanted.request).url.set_query(Some(&"q=1&".repeat(500)));
    let sent = wanted.request.clone();
    let record = take(store, wanted).await;
    assert_eq!(record.request, sent);
    assert_eq!(get(store, &id).await.as_ref(), Some(&record));

    let mut large = Answer::new(StatusCode::IM_A_TEAPOT, many_headers(), every_byte(8 * 1024 * 1024));
    large.cut = true;
    let to = State::Succeeded { answer: large.clone(), reconciled: false };
    let mut transition = transition_at(record.fence, NOW, to);
    transition.attempts = u32::MAX;
    let written = write(store, &id, transition).await.expect("the holder may write");
    let kept = get(store, &id).await.expect("a record");
    assert!(kept == written, "what was written is what is read");
    assert_eq!(kept.attempts, u32::MAX);
    match kept.state {
        State::Succeeded { answer, reconciled: false } => {
            assert_eq!((answer.status, answer.cut), (large.status, true));
            assert_eq!(header_lines(&answer.headers), header_lines(&large.headers), "headers, in order");
            assert!(answer.body == large.body, "the body, to the byte");
        }
        other => panic!("succeeded: {other:?}"),
    }
}

/// Checks that an empty body is an answer, that no answer is none, and that a dead letter may have either.
pub async fn check_empty_and_absent_bodies(store: &dyn Store) {
    let mut bare = answer(204, "");
    bare.headers = HeaderMap::new();
    for (key, answer) in
        [("no answer", None), ("an empty one", Some(bare.clone())), ("one", Some(answer(500, "x")))]
    {
        let id = id("test/empty//POST /x", key);
        let mut wanted = claim_at(&id, NOW);
        Arc::make_mut(&mut wanted.request).body = Bytes::new();
        Arc::make_mut(&mut wanted.request).headers = HeaderMap::new();
        let record = take(store, wanted).await;
        assert_eq!((record.request.body.len(), record.request.headers.len()), (0, 0));
        let to = State::Dead { reason: Reason::Exhausted, answer: answer.clone() };
        write(store, &id, transition_at(record.fence, NOW, to)).await.expect("the holder may write");
        let kept = get(store, &id).await.expect("a record");
        assert_eq!(kept.state, State::Dead { reason: Reason::Exhausted, answer }, "{key}");
    }
    for reconciled in [false, true] {
        let id = id("test/empty//POST /y", if reconciled { "found" } else { "answered" });
        let record = take(store, claim_at(&id, NOW)).await;
        let to = State::Succeeded { answer: bare.clone(), reconciled };
        write(store, &id, transition_at(record.fence, NOW, to)).await.expect("the holder may write");
        let kept = get(store, &id).await.expect("a record");
        assert_eq!(kept.state, State::Succeeded { answer: bare.clone(), reconciled });
    }
}

/// Checks that the redacted fields are the first claim's. No later claim, settlement, takeover or action
/// changes them.
pub async fn check_redacted_fields(store: &dyn Store) {
    let fields = |names: &[&str]| RedactedFields::new(names.iter().copied()).expect("valid names");
    let names = ["email", "card[number]", "a \"quote\", a , and an ü"];
    for (key, first, later) in [
        ("some", fields(&names), RedactedFields::NONE),
        ("none", RedactedFields::NONE, fields(&names)),
        ("others", fields(&names[..1]), fields(&names[1..])),
    ] {
        let id = id("test/redacted//POST /x", key);
        let mut wanted = claim_at(&id, NOW);
        wanted.redact = first.clone();
        assert_eq!(take(store, wanted.clone()).await.redact, first, "{key}: fresh");
        assert_eq!(get(store, &id).await.expect("a record").redact, first, "{key}: read");

        wanted.redact = later;
        wanted.now = NOW.plus(LEASE);
        let taken = take(store, wanted.clone()).await;
        assert_eq!(taken.redact, first, "{key}: taken over");
        let schedule = transition_at(taken.fence, wanted.now, State::Scheduled { at: wanted.now });
        let scheduled = write(store, &id, schedule).await.expect("the holder may write");
        assert_eq!(scheduled.redact, first, "{key}: written");
        let due = Takeover {
            phase: Phase::Scheduled,
            account: None,
            now: wanted.now,
            lease: LEASE,
            attempt_max: std::time::Duration::from_secs(30),
            vendor_clock_ms: None,
            holder: None,
            limit: 1,
            wanted: steadfast_core::operation::record::Wanted::default(),
        };
        let due = store.take(due).await.expect("the store works");
        assert_eq!(due.iter().map(|record| &record.redact).collect::<Vec<_>>(), [&first], "{key}: due");

        let dead_letter =
            transition_at(due[0].fence, wanted.now, State::Dead { reason: Reason::Unknown, answer: None });
        write(store, &id, dead_letter).await.expect("the holder may write");
        match claim(store, wanted).await {
            Claimed::Settled(record) => assert_eq!(record.redact, first, "{key}: settled"),
            other => panic!("settled: {other:?}"),
        }
        let redrive = Act {
            action: Action::Redrive { forced: false },
            by: "ada".to_owned(),
            why: String::new(),
            now: NOW.plus(LEASE),
            fence: None,
        };
        let redriven = store.act(&id, redrive).await.expect("the store works").expect("a dead letter");
        assert_eq!(redriven.redact, first, "{key}: redriven");
        assert_eq!(get(store, &id).await.expect("a record").redact, first, "{key}: at the end");
        // Out of the way of the next case.
        let far = Takeover {
            phase: Phase::Scheduled,
            account: None,
            now: NOW.plus(LEASE),
            lease: KEEP,
            attempt_max: std::time::Duration::from_secs(30),
            vendor_clock_ms: None,
            holder: None,
            limit: 1,
            wanted: steadfast_core::operation::record::Wanted::default(),
        };
        store.take(far).await.expect("the store works");
    }
}

fn every_byte(length: usize) -> Bytes {
    (0..length).map(|at| (at % 256) as u8).collect()
}

/// Returns a hundred headers, one name three times, with the bytes beyond ASCII that HTTP allows in a value.
fn many_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for nth in 0..100 {
        let name = HeaderName::try_from(format!("x-header-{nth}")).expect("a name");
        headers.insert(name, HeaderValue::try_from("v".repeat(100)).expect("a value"));
    }
    for value in [&b"first"[..], b"", b"\xfc\xff\tlast"] {
        headers.append("x-many", HeaderValue::from_bytes(value).expect("a value"));
    }
    headers
}

/// Returns the values of each name, in their order; the order among names means nothing (RFC 9110, section
/// 5.3).
fn header_lines(headers: &HeaderMap) -> Vec<(String, Vec<Vec<u8>>)> {
    let values = |name| headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect();
    let mut lines: Vec<_> = headers.keys().map(|name| (name.to_string(), values(name))).collect();
    lines.sort();
    lines
}
