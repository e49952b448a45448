//! Commands that change operations.

use std::time::Duration;

use steadfast::testkit::ScriptedTransport;

use super::{LONG_AGO, NOW, TestDirectory, pay, schema};

#[tokio::test]
async fn a_redriven_letter_is_sent_by_the_service_under_its_own_key() {
    let place = TestDirectory::fresh();
    place.lost("order-1", Duration::from_secs(60)).await;
    let dry = place.json(0, &["dead-letters", "redrive", "order-1", "--dry-run"]);
    assert_eq!((&dry["matched"], &dry["due"]), (&1.into(), &1.into()));
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "dead");
    let text = place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
    assert_eq!(text, "1 matched; 1 due (0 by force), 0 held back\n");
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "scheduled");
    let again = place.json(1, &["dead-letters", "redrive", "order-1"]);
    assert_eq!(again["why_held_back"][0]["why"], "not_dead");

    let wire_key = place.json(0, &["show", "order-1"])["wire_key"].as_str().expect("text").to_owned();
    let network = ScriptedTransport::new().json(200, serde_json::json!({"id": "po_1"}));
    pay(&place.stripe(NOW, &network), "order-1").await.expect("the vendor is back");
    assert_eq!(network.requests()[0].headers["idempotency-key"], wire_key.as_str());
    let shown = place.json(0, &["show", "order-1"]);
    assert_eq!((&shown["phase"], &shown["audit"][0]["by"]), (&"succeeded".into(), &"ada".into()));
}

#[tokio::test]
async fn a_redrive_past_the_window_is_refused_without_force_and_a_reason() {
    let place = TestDirectory::fresh();
    place.lost("order-1", LONG_AGO).await;
    let refused = place.json(1, &["dead-letters", "redrive", "order-1"]);
    assert_eq!(refused["why_held_back"][0]["why"], "unsafe");
    let text = place.run(&["dead-letters", "redrive", "order-1"]).ended(1);
    assert!(text.contains("    default/stripe/test/POST /v1/quotes key order-1\n1 matched; 0 due"), "{text}");
    assert_eq!(place.run(&["dead-letters", "redrive", "order-1", "--force"]).code, 2);
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "dead");
    let forced = ["dead-letters", "redrive", "order-1", "--force", "--why", "not in Stripe's dashboard"];
    assert_eq!(place.json(0, &forced)["forced"], 1);
}

#[tokio::test]
async fn without_a_vendors_file_letters_of_unknown_effect_are_held_back() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let result = place.run_with(&["--store", "calls.db"], &["dead-letters", "redrive", "order-1", "--json"]);
    assert_eq!(schema::answer(&result.ended(1))["result"]["why_held_back"][0]["why"], "no_rules");
}

#[tokio::test]
async fn a_filter_is_a_dry_run_without_yes() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    place.lost("order-2", LONG_AGO).await;
    let text = place.run(&["dead-letters", "redrive", "--all"]).ended(1);
    assert!(
        text.contains("2 matched; 1 would be due (0 by force), 1 held back\nnothing was changed"),
        "{text}"
    );
    let dry = place.json(0, &["dead-letters", "redrive", "--effect", "none"]);
    assert_eq!(dry["dry_run"], true);
    let frozen_at = dry["frozen_at_ms"].to_string();
    place.never_sent_yet("order-3").await;
    let done =
        place.json(0, &["dead-letters", "redrive", "--effect", "none", "--yes", "--before", &frozen_at]);
    assert_eq!((&done["dry_run"], &done["matched"], &done["due"]), (&false.into(), &1.into(), &1.into()));
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "scheduled");
    assert_eq!(place.json(0, &["show", "order-3"])["phase"], "dead");
    let nothing = ["dead-letters", "redrive", "--status", "503", "--yes"];
    assert_eq!(place.run(&nothing).ended(0), "0 matched; 0 due (0 by force), 0 held back\n");
}

#[tokio::test]
async fn resolve_takes_one_resolution_with_a_reason() {
    let place = TestDirectory::fresh();
    for key in ["applied", "not-applied", "compensated"] {
        place.lost(key, LONG_AGO).await;
    }
    let applied = ["dead-letters", "resolve", "applied", "--applied", "po_1", "--why", "seen"];
    assert_eq!(place.json(0, &applied)["phase"], "resolved");
    let resolved = &place.json(0, &["show", "applied"])["resolved"];
    assert_eq!(
        (&resolved["resolution"], &resolved["vendor_id"], &resolved["why"]),
        (&"applied".into(), &"po_1".into(), &"seen".into())
    );
    let twice = place.run(&applied);
    assert_eq!(twice.code, 1);
    assert!(
        twice.err.ends_with(
            "already resolved; reopen it first (an operation that goes on under another name cannot be reopened)\n"
        ),
        "{}",
        twice.err
    );

    let not_applied = ["dead-letters", "resolve", "not-applied", "--not-applied", "--why", "not seen"];
    assert!(place.run(&not_applied).ended(0).contains("phase: resolved"));
    assert_eq!(place.json(0, &["dead-letters", "redrive", "not-applied"])["forced"], 0);
    let undone = ["dead-letters", "resolve", "compensated", "--compensated", "--why", "refunded"];
    place.run(&undone).ended(0);
    place.run(&["dead-letters", "redrive", "compensated"]).ended(1);
    let reopened = ["dead-letters", "resolve", "compensated", "--reopen", "--why", "it was another"];
    assert_eq!(place.json(0, &reopened)["phase"], "dead");

    assert_eq!(place.run(&["dead-letters", "resolve", "applied", "--not-applied"]).code, 2, "no reason");
    assert_eq!(place.run(&["dead-letters", "resolve", "applied", "--why", "x"]).code, 2, "no word");
    let two = ["dead-letters", "resolve", "applied", "--not-applied", "--compensated", "--why", "x"];
    assert_eq!(place.run(&two).code, 2);
}

#[tokio::test]
async fn edit_records_a_new_operation_that_is_due() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    std::fs::write(place.path("body"), "amount=900").expect("writes");
    let edit =
        ["dead-letters", "edit", "order-1", "--key", "order-1b", "--body", "body", "--why", "typing mistake"];
    let edited = place.json(0, &edit);
    assert_eq!((&edited["old"]["phase"], &edited["new"]["phase"]), (&"resolved".into(), &"scheduled".into()));
    assert_eq!(edited["old"]["resolved"]["new_key"], "order-1b");
    assert!(
        place.run(&edit).ended(0).starts_with("replaced: default/stripe/test/POST /v1/quotes key order-1\n")
    );

    place.lost("order-2", NOW).await;
    let risky = ["dead-letters", "edit", "order-2", "--key", "order-2b", "--body", "body", "--why", "x"];
    assert_eq!(place.json_error(1, &risky)["code"], "may_have_been_applied");
    assert_eq!(place.json(0, &[&risky[..], &["--force"]].concat())["new"]["key"], "order-2b");
}

#[tokio::test]
async fn purge_leaves_unresolved_dead_letters() {
    let place = TestDirectory::fresh();
    place.lost("dead", LONG_AGO).await;
    place.succeeds("old", Duration::from_secs(8 * 24 * 3600)).await;
    // The store was idle since: for an hour it doubts that so much time has passed.
    assert_eq!(place.json(0, &["dead-letters", "purge"])["removed"], 0);
    place.is_looked_at(Duration::from_secs(3600)).await;
    assert_eq!(place.json(0, &["dead-letters", "purge"])["removed"], 1);
    assert_eq!(place.run(&["dead-letters", "purge"]).ended(0), "removed: 0\n");
    assert_eq!(place.json(0, &["show", "dead"])["phase"], "dead");
    place.run(&["show", "old"]).ended(6);
    let result = place.run(&["dead-letters", "purge", "--by", " "]);
    assert_eq!((result.code, result.err.contains("give a name with --by")), (2, true), "{}", result.err);
}

/// A dry run prints all arguments that are needed, so that its line works at once.
#[tokio::test]
async fn a_dry_run_prints_the_arguments_of_the_redrive() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    place.lost("order-2", LONG_AGO).await;
    let option = ["--store", "calls.db", "--vendors", "vendors.toml", "dead-letters", "redrive"];
    let ada = [("USER", "ada")];
    let hint = |variables: &[(&str, &str)], arguments: &[&str]| {
        let result = place.run_as(variables, &[&option[..], arguments].concat());
        let text = result.out.replace('\n', " ");
        let (_, hint) = text.split_once("nothing was changed; to do it: ").expect("a hint");
        hint.split("held back:").next().unwrap_or_default().trim().to_owned()
    };
    let frozen = ["--all", "--before", "99999999999999"];
    let with = |more: &[&'static str]| [&frozen[..], more].concat();
    assert_eq!(hint(&ada, &with(&[])), "--yes");
    assert_eq!(hint(&ada, &with(&["--dry-run"])), "--yes instead of --dry-run");
    assert_eq!(hint(&ada, &with(&["--force"])), "--yes --why REASON");
    assert_eq!(hint(&ada, &with(&["--force", "--why", "x"])), "--yes");
    assert_eq!(hint(&[], &with(&["--force"])), "--yes --why REASON --by NAME");
    assert_eq!(hint(&[], &with(&["--by", "ada"])), "--yes");
    assert_eq!(hint(&ada, &["order-1", "--dry-run"]), "without --dry-run");
    assert_eq!(hint(&[], &["order-1", "--dry-run"]), "--by NAME instead of --dry-run");

    // No more arguments are needed.
    let result = hint(&[], &["--all", "--force"]);
    let result = result.replace("REASON", "ticket-7").replace("NAME", "ada");
    assert!(result.contains("--before "), "{result}");
    let words: Vec<&str> = ["--all", "--force"].into_iter().chain(result.split(' ')).collect();
    let done = place.run_as(&[], &[&option[..], &words].concat()).ended(0);
    assert_eq!(done, "2 matched; 2 due (1 by force), 0 held back\n");
}
