//! Operations that continue under another name: started over, adopted, or cancelled.

use std::time::Duration;

use steadfast::testkit::ScriptedTransport;

use super::{LONG_AGO, NOW, TestDirectory};

const FROM_TO: [&str; 5] = ["adopt", "--from", "default/stripe/test", "--to", "default/stripe/test:acct_1"];

#[tokio::test]
async fn a_renamed_account_is_adopted_after_a_dry_run() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.succeeds("order-2", NOW).await;
    let dry = place.run(&FROM_TO).ended(0);
    assert_eq!(
        dry,
        "2 matched; 2 would be adopted, 0 held back\nnothing was changed; to do it: --yes, with --why REASON\n"
    );
    let yes = [&FROM_TO[..], &["--yes"]].concat();
    assert_eq!(place.run(&yes).code, 2, "without a reason");
    let why = [&yes[..], &["--why", "ticket 7"]].concat();
    assert_eq!(place.run(&why).ended(0), "2 matched; 2 adopted, 0 held back\n");
    assert_eq!(place.json(0, &why)["matched"], 0, "it is done");
    let old = place.run(&["show", "default/stripe/test/POST /v1/quotes key order-1"]).ended(0);
    assert!(
        old.contains("resolved: carried on as default/stripe/test:acct_1/POST /v1/quotes, by ada"),
        "{old}"
    );
    assert!(old.contains("    adopt as default/stripe/test:acct_1/POST /v1/quotes: ticket 7"), "{old}");
    let new = place.json(0, &["show", "default/stripe/test:acct_1/POST /v1/quotes key order-1"]);
    assert_eq!(new["first_scope"], "default/stripe/test/POST /v1/quotes");
    assert_eq!((&new["phase"], &new["effect"]), (&"dead".into(), &"unknown".into()));
    let log = new["log"].as_array().expect("a log");
    assert_eq!(log.len(), 1, "with its evidence");
    let nobodys = place.run(&["adopt", "--from", "default/stripe/test", "--to", "other/stripe/test"]);
    assert_eq!(nobodys.code, 2, "{}", nobodys.err);
    assert!(nobodys.err.contains("no client that is known here carries on with"), "{}", nobodys.err);
}

#[tokio::test]
async fn a_waiting_operation_is_cancelled_with_a_reason_and_an_ended_one_is_not() {
    let place = TestDirectory::fresh();
    place.lost("order-1", LONG_AGO).await;
    let cancel = ["cancel", "order-1", "--why", "the customer left"];
    assert_eq!(place.json_error(1, &cancel)["code"], "not_open");
    place.run(&["dead-letters", "redrive", "order-1", "--force", "--why", "x"]).ended(0);
    assert_eq!(place.run(&cancel[..2]).code, 2, "without a reason");
    let result = place.run(&cancel).ended(0);
    assert_eq!(result, "default/stripe/test/POST /v1/quotes key order-1\n    phase: resolved, cancelled\n");
    let shown = place.json(0, &["show", "order-1"]);
    assert_eq!((&shown["reason"], &shown["effect"]), (&"closed".into(), &"unknown".into()));
    assert_eq!(place.json(1, &["dead-letters", "redrive", "order-1"])["why_held_back"][0]["why"], "resolved");
}

#[tokio::test]
async fn an_enqueued_operation_is_counted_shows_its_due_time_and_can_be_cancelled() {
    let place = TestDirectory::fresh();
    let stripe = place.stripe(Duration::from_secs(60), &ScriptedTransport::new());
    let quotes = [("order-1", Duration::from_secs(3_600)), ("order-2", Duration::ZERO)];
    for (key, wait) in quotes {
        let quote = stripe.post("/v1/quotes").key(key).form(&[("amount", "1")]).after(wait);
        assert!(quote.enqueue().await.expect("it is recorded").is_new());
    }
    let stats = place.run(&["stats"]).ended(0);
    assert!(stats.starts_with("       2  scheduled    default/stripe, oldest 1m"), "{stats}");
    let later = place.run(&["show", "order-1"]).ended(0);
    assert!(later.contains("phase:    scheduled, effect none, 0 attempts\ndue:      "), "{later}");
    assert!(later.contains(" GMT (in 58m ") || later.contains(" GMT (in 59m"), "{later}");
    assert!(place.run(&["show", "order-2"]).ended(0).contains(" GMT (overdue for "));

    place.run(&["cancel", "order-1", "--why", "paid by hand"]).ended(0);
    let shown = place.json(0, &["show", "order-1"]);
    assert_eq!((&shown["reason"], &shown["effect"]), (&"closed".into(), &"none".into()));
    assert!(!place.run(&["show", "order-1"]).ended(0).contains("due:"));
    assert_eq!(place.json(0, &["dead-letters", "list"])["letters"], serde_json::json!([]));
}

#[tokio::test]
async fn open_operations_of_a_namespace_that_the_vendors_file_no_longer_has_are_counted() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    assert_eq!(place.json(0, &["stats"])["unreached"], serde_json::json!([]));
    let renamed =
        "namespace = \"prod\"\n[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY_THAT_IS_NOT_SET\"\n";
    std::fs::write(place.path("vendors.toml"), renamed).expect("writes");
    let stats = place.json(0, &["stats"]);
    let expected = serde_json::json!([{"account": "default/stripe/test", "phase": "dead", "count": 1}]);
    assert_eq!(stats["unreached"], expected);
    let text = place.run(&["stats"]).ended(0);
    assert!(
        text.ends_with("       1  dead         default/stripe/test: no client delivers them\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_redrive_stands_between_the_attempts_before_it_and_after_it() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
    let network = ScriptedTransport::new().json(200, serde_json::json!({"id": "po_1"}));
    let later = Duration::from_secs(60);
    let service = place.stripe_in(later, &network);
    assert_eq!(service.recover(10).await.expect("works").succeeded, 1);
    let shown = place.run(&["show", "order-1"]).ended(0);
    let lines: Vec<usize> = ["retry, effect unknown", "    redrive\n", "200; done, effect applied"]
        .iter()
        .map(|part| shown.find(part).unwrap_or_else(|| panic!("{part}:\n{shown}")))
        .collect();
    assert!(lines.is_sorted(), "{shown}");
}
