//! How it says no.

use super::{NOW, Place};

#[tokio::test]
async fn a_store_that_is_not_there_is_not_made() {
    let place = Place::fresh();
    for command in [&["stats"][..], &["dead-letters", "list"], &["show", "x"], &["dead-letters", "purge"]] {
        let said = place.run(command);
        assert_eq!(said.code, 3, "{command:?}");
        assert!(said.err.contains("there is no store at calls.db"), "{}", said.err);
        assert!(!place.path("calls.db").exists());
    }
    let said = place.run_with(&[], &["stats"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("STEADFAST_STORE"), "{}", said.err);
}

#[tokio::test]
async fn a_file_that_is_no_store_is_named_and_left_alone() {
    let place = Place::fresh();
    std::fs::write(place.path("calls.db"), "a letter to Ada, and no database at all".repeat(40))
        .expect("writes");
    let said = place.run(&["--json", "stats"]);
    assert_eq!(said.code, 3);
    let error: serde_json::Value = serde_json::from_str(&said.err).expect("JSON");
    assert_eq!(error["error"]["code"], "store");
    let text = std::fs::read_to_string(place.path("calls.db")).expect("reads");
    assert!(text.starts_with("a letter to Ada"));
}

#[tokio::test]
async fn an_operation_that_is_not_there_is_named() {
    let place = Place::fresh();
    place.lost("order-1", NOW).await;
    for command in [
        &["show", "order-9"][..],
        &["dead-letters", "show", "order-9"],
        &["dead-letters", "redrive", "order-9"],
        &["dead-letters", "resolve", "order-9", "--not-applied", "--why", "x"],
    ] {
        let said = place.run(command);
        assert_eq!(said.code, 1, "{command:?}");
        assert_eq!(said.err, "steadfast: there is no operation \"order-9\"\n");
        assert_eq!(said.out, "");
    }
}

#[test]
fn check_names_file_line_and_column() {
    let place = Place::fresh();
    assert_eq!(place.json(0, &["check", "vendors.toml"])["vendors"], serde_json::json!(["stripe"]));
    assert!(place.run(&["check", "vendors.toml"]).ended(0).contains("good: true"));
    std::fs::write(place.path("wrong.toml"), "[vendors.stripe]\nsecret_evn = \"X\"\n").expect("writes");
    let said = place.run(&["check", "wrong.toml"]);
    assert_eq!(said.code, 4);
    assert!(said.err.starts_with("steadfast: wrong.toml:2:1: unknown key `secret_evn`"), "{}", said.err);
    let said = place.run(&["check", "absent.toml", "--json"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("\"code\":\"vendors\"") && said.err.contains("absent.toml"), "{}", said.err);
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused_with_two() {
    let place = Place::fresh();
    place.lost("order-1", NOW).await;
    for wrong in [
        &["dead-letters", "redrive"][..],
        &["dead-letters", "redrive", "order-1", "--all"],
        &["dead-letters", "redrive", "--all", "--yes", "--dry-run"],
        &["dead-letters", "list", "--reason", "bad"],
        &["dead-letters", "list", "--older-than", "30"],
        &["dead-letters", "list", "--limit", "0"],
        &["dead-letters", "edit", "order-1", "--key", "", "--body", "vendors.toml", "--why", "x"],
        &["nonsense"],
        &[],
    ] {
        let said = place.run(wrong);
        assert_eq!(said.code, 2, "{wrong:?}: {}", said.err);
        assert_ne!(said.err, "", "{wrong:?}");
        let said = place.run(&[wrong, &["--json"]].concat());
        assert_eq!(said.code, 2, "{wrong:?}: {}", said.err);
        let error: serde_json::Value = serde_json::from_str(&said.err).expect("JSON");
        assert_eq!(error["error"]["code"], "usage", "{wrong:?}");
    }
    let said =
        place.run(&["dead-letters", "edit", "order-1", "--key", "b", "--body", "absent", "--why", "x"]);
    assert_eq!(said.code, 5);
    assert!(said.err.starts_with("steadfast: absent cannot be read: "), "{}", said.err);
    let said = place.run(&["dead-letters", "list", "--after", "nonsense"]);
    assert_eq!(said.code, 3, "{}", said.err);
}

#[test]
fn the_help_documents_every_exit_code() {
    let place = Place::fresh();
    let help = place.run_with(&[], &["--help"]).ended(0);
    for code in
        ["0  done", "1  nothing matched", "2  arguments", "3  the store", "4  the vendors", "5  a file"]
    {
        assert!(help.contains(code), "{help}");
    }
    assert!(place.run_with(&[], &["--version"]).ended(0).starts_with("steadfast "));
}
