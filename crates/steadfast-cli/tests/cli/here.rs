//! The store's place, and an operator's answer about a copy.

use serde_json::json;

use super::{NOW, TestDirectory};

#[tokio::test]
async fn a_copied_store_takes_nothing_until_an_operator_declares_it() {
    let place = TestDirectory::fresh();
    if std::fs::metadata(place.path("vendors.toml")).expect("is there").created().is_err() {
        // Copies cannot be distinguished on this file system.
        return;
    }
    place.never_sent("due").await;
    place.succeeds("done", NOW).await;
    let text = place.run(&["here"]).ended(0);
    assert!(text.starts_with("the store is at home: inode "), "{text}");
    place.run(&["dead-letters", "redrive", "due"]).ended(0);
    place.sql("INSERT INTO steadfast_outbox (vendor, account, path, key) VALUES ('stripe', 'test', '/v1/quotes', 'queued')");
    assert_eq!(place.json(0, &["status"])["displaced"], json!(null));
    place.moves_to_a_copy();
    let result = place.run(&["here"]);
    assert!(result.code == 1 && result.out.contains("the store takes nothing: "), "{}", result.out);
    let refused = place.run(&["cancel", "due", "--why", "ticket 7"]);
    let words: String = refused.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(refused.code == 3 && words.contains("steadfast here --copy"), "{words}");
    // The original sends the row.
    assert_eq!(place.run(&["cancel", "queued", "--why", "ticket 7"]).code, 3);
    assert_eq!(place.json(0, &["show", "queued"])["queued"].as_array().map(Vec::len), Some(1));
    // The original may have records that are missing here.
    assert_eq!(place.run(&["show", "never"]).code, 3);
    let status = place.run(&["status"]).ended(0);
    assert!(status.starts_with("the store takes nothing: "), "{status}");
    assert!(place.json(0, &["status"])["displaced"].is_string());
    // It shows what it has.
    assert_eq!(place.json(0, &["show", "done"])["phase"], "succeeded");
    for (arguments, problem) in [
        (&["here", "--moved"][..], "a reason is missing"),
        (&["here", "--moved", "--copy", "--why", "x"], "cannot be used with"),
        (&["here", "--will-move", "--why", "x"], "it is elsewhere already"),
    ] {
        let result = place.run(arguments);
        assert!(result.code == 2 && result.err.contains(problem), "{arguments:?}: {}", result.err);
    }
    let result = place.json(0, &["here", "--copy", "--why", "staging"]);
    assert_eq!(
        (&result["operations"], &result["rows"], &result["displaced"]),
        (&json!(1), &json!(1), &json!(null))
    );
    let shown = place.json(0, &["show", "due"]);
    assert_eq!((&shown["phase"], &shown["effect"]), (&json!("resolved"), &json!("unknown")));
    // Announced, the next move passes; the one after it does not.
    let result = place.json(0, &["here", "--will-move", "--why", "new disk"]);
    assert!(result["moves_until_ms"].as_u64().is_some(), "{result}");
    place.moves_to_a_copy();
    assert_eq!(place.json(0, &["here"])["moves_until_ms"], json!(null));
    place.moves_to_a_copy();
    assert!(place.json(1, &["here"])["displaced"].is_string());
    place.run(&["here", "--moved", "--why", "restored"]).ended(0);
    place.run(&["here"]).ended(0);
}
