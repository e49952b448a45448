//! Commands that show operations.

use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;

use super::{LONG_AGO, NOW, TestDirectory, schema};

#[tokio::test]
async fn list_filters_pages_and_groups() {
    let place = TestDirectory::fresh();
    place.lost("order-1", LONG_AGO).await;
    place.never_sent("order-2").await;
    place.succeeds("order-3", NOW).await;

    let all = place.json(0, &["dead-letters", "list"]);
    let keys = |page: &serde_json::Value| {
        let letters = page["letters"].as_array().expect("a list").clone();
        letters.iter().map(|letter| letter["key"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&all), ["order-1", "order-2"]);
    assert_eq!(all["letters"][0]["code"], "UNKNOWN.effect");
    assert_eq!(all["letters"][0]["effect"], "unknown");
    assert_eq!(all["letters"][1]["reason"], "exhausted");
    assert!(all["next"].is_null());
    for (filter, expected) in [
        (["--effect", "none"], "order-2"),
        (["--older-than", "1day"], "order-1"),
        (["--younger-than", "1day"], "order-2"),
        (["--code", "UNKNOWN.effect"], "order-1"),
    ] {
        let page = place.json(0, &["dead-letters", "list", filter[0], filter[1]]);
        assert_eq!(keys(&page), [expected], "{filter:?}");
    }
    let first = place.json(0, &["dead-letters", "list", "--limit", "1", "--vendor", "stripe"]);
    let next = first["next"].as_str().expect("there is more");
    let second = place.json(0, &["dead-letters", "list", "--limit", "1", "--after", next]);
    assert_eq!((keys(&first), keys(&second)), (vec!["order-1".to_owned()], vec!["order-2".to_owned()]));

    let groups = place.json(0, &["dead-letters", "list", "--group"]);
    let groups = groups["groups"].as_array().expect("a list");
    assert_eq!(groups.len(), 2);
    assert_eq!((&groups[0]["count"], &groups[0]["vendor"]), (&1.into(), &"default/stripe".into()));
    assert!(place.run(&["dead-letters", "list", "--group"]).ended(0).contains("UNKNOWN.effect"));

    let text = place.run(&["dead-letters", "list"]).ended(0);
    assert!(text.contains("default/stripe/test/POST /v1/quotes key order-1\n"), "{text}");
    let nothing = place.run(&["dead-letters", "list", "--status", "503"]).ended(0);
    assert_eq!(nothing, "no dead letter matches\n");
    assert_eq!(place.json(0, &["dead-letters", "list", "--status", "503"])["letters"], serde_json::json!([]));
}

#[tokio::test]
async fn show_withholds_bodies_without_a_name_and_a_reason() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.succeeds("order-2", NOW).await;

    let text = place.run(&["dead-letters", "show", "order-2"]).ended(0);
    assert!(text.contains("\nphase:    succeeded, effect applied, 1 attempt\n"), "{text}");
    assert!(text.contains("\n    200; done, effect applied\n"), "{text}");
    let shown = place.json(0, &["dead-letters", "show", "order-2"]);
    assert_eq!((&shown["effect"], &shown["log"][0]["effect"]), (&"applied".into(), &"applied".into()));

    let text = place.run(&["dead-letters", "show", "order-1"]).ended(0);
    assert!(text.contains("body of") && text.contains("withheld"), "{text}");
    assert!(text.contains("redrive:  safe: the vendor replays its key until "), "{text}");
    assert!(!text.contains("Ada") && !text.contains("sk_test"), "{text}");
    let shown = place.json(0, &["dead-letters", "show", "order-1"]);
    assert_eq!(shown["request"]["body"]["withheld"], "not asked for");
    assert_eq!(shown["redrive"]["because"], "window_open");
    assert_eq!(shown["audit"], serde_json::json!([]));
    let log = shown["log"].as_array().expect("a list");
    assert_eq!(log.len(), 1);
    assert_eq!(
        (&log[0]["number"], &log[0]["verdict"], &log[0]["effect"]),
        (&1.into(), &"retry".into(), &"unknown".into())
    );
    assert_eq!(log[0]["failure"], "the connection broke before an answer");
    assert!(
        text.contains("attempt 1 at ") && text.contains("the connection broke before an answer; retry"),
        "{text}"
    );

    assert_eq!(place.run(&["dead-letters", "show", "order-1", "--bodies"]).code, 2, "a reason is needed");
    let asked = ["dead-letters", "show", "order-1", "--bodies", "--why", "ticket 7"];
    let shown = place.json(0, &asked);
    assert_eq!(shown["request"]["body"]["text"], "amount=1000&description=for+Ada");
    assert_eq!((&shown["audit"][0]["by"], &shown["audit"][0]["why"]), (&"ada".into(), &"ticket 7".into()));
    let redacted = place.run(&[&asked[..], &["--redact", "description"]].concat()).ended(0);
    assert!(redacted.contains("amount=1000") && !redacted.contains("Ada"), "{redacted}");

    let settled = place.json(0, &["show", "order-2"]);
    assert_eq!((&settled["phase"], &settled["reply"]["status"]), (&"succeeded".into(), &200.into()));
    assert!(settled["redrive"].is_null());
    assert!(place.run(&["show", "order-2"]).ended(0).contains("answered 200"));
    let whole = settled["operation"].as_str().expect("text");
    assert_eq!(place.json(0, &["show", whole])["key"], "order-2");
}

#[tokio::test]
async fn stats_count_by_vendor_and_phase() {
    let place = TestDirectory::fresh();
    place.lost("order-1", LONG_AGO).await;
    place.succeeds("order-2", NOW).await;
    let stats = place.json(0, &["stats"]);
    assert_eq!((&stats["totals"]["dead"], &stats["totals"]["succeeded"]), (&1.into(), &1.into()));
    let dead = stats["groups"].as_array().expect("a list").iter().find(|group| group["phase"] == "dead");
    assert!(
        dead.expect("a group")["oldest_age_ms"].as_u64().expect("a number") >= LONG_AGO.as_millis() as u64
    );
    let text = place.run(&["stats"]).ended(0);
    assert!(text.contains("dead         default/stripe, oldest 2days"), "{text}");
}

#[tokio::test]
async fn export_writes_a_line_for_each_letter_and_never_over_a_file() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.lost("order-2", NOW).await;
    let text = place.run(&["dead-letters", "export"]).ended(0);
    let keys: Vec<_> = text.lines().map(|line| schema::line(line)["key"].clone()).collect();
    assert_eq!(keys, ["order-1", "order-2"]);
    assert!(!text.contains("Ada"), "{text}");
    let lines_already = place.json_error(2, &["dead-letters", "export"]);
    assert!(lines_already["problem"].as_str().expect("text").contains("--output"), "{lines_already}");
    let to_file = ["dead-letters", "export", "--output", "letters.jsonl"];
    assert_eq!(place.json(0, &to_file)["written"], 2);
    assert_eq!(std::fs::read_to_string(place.path("letters.jsonl")).expect("reads").lines().count(), 2);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(place.path("letters.jsonl")).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it may hold what the store keeps to itself");
    }
    let result = place.run(&to_file);
    assert_eq!(result.code, 5);
    let expected = "steadfast: letters.jsonl exists already and is not overwritten; name a new file\n";
    assert_eq!(result.err, expected);
    assert_eq!(place.run(&["dead-letters", "export", "--status", "500"]).ended(0), "");
}

#[tokio::test]
async fn an_operation_is_found_by_its_wire_key() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.succeeds("order-2", NOW).await;
    let wire_key = |key| place.json(0, &["show", key])["wire_key"].as_str().expect("text").to_owned();
    for key in ["order-1", "order-2"] {
        let wire_key = wire_key(key);
        assert_eq!(place.json(0, &["show", &wire_key])["key"], key);
        assert_eq!(
            place.json(0, &["dead-letters", "show", &format!(" {}\n", wire_key.to_uppercase())])["key"],
            key
        );
    }
    let listed = place.json(0, &["dead-letters", "list", "--wire-key", &wire_key("order-1")]);
    assert_eq!(
        (listed["letters"].as_array().expect("a list").len(), &listed["letters"][0]["key"]),
        (1, &"order-1".into())
    );
    let settled = place.json(0, &["dead-letters", "list", "--wire-key", &wire_key("order-2")]);
    assert_eq!(settled["letters"], serde_json::json!([]), "it is no dead letter");
    assert_eq!(place.json(0, &["dead-letters", "redrive", &wire_key("order-1")])["due"], 1);
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "scheduled");
}

/// Operators' actions are shown in words.
#[tokio::test]
async fn operators_actions_are_shown_in_words() {
    let place = TestDirectory::fresh();
    for key in ["forced", "solved", "edited"] {
        place.lost(key, LONG_AGO).await;
    }
    std::fs::write(place.path("body"), "amount=900").expect("writes");
    let why = ["--why", "ticket 7"];
    place.run(&[&["dead-letters", "redrive", "forced", "--force"], &why[..]].concat()).ended(0);
    place.run(&[&["dead-letters", "resolve", "solved", "--applied", "po_1"], &why[..]].concat()).ended(0);
    let edit = ["dead-letters", "edit", "edited", "--key", "new", "--body", "body", "--force"];
    place.run(&[&edit, &why[..]].concat()).ended(0);
    let shown = |key| place.run(&["show", key]).ended(0);
    for (key, expected) in [
        ("forced", "dead to scheduled, by ada\n    redrive by force: ticket 7\n"),
        ("solved", "dead to resolved, by ada\n    resolve, applied as po_1: ticket 7\n"),
        ("solved", "\nresolved: applied as po_1, by ada: ticket 7\n"),
        ("edited", "\nresolved: replaced by key new, by ada: ticket 7\n"),
        ("new", "by ada\n    note: edited from key edited: ticket 7\n"),
    ] {
        let text = shown(key);
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains(['{', '}']) && !text.contains("Some("), "{text}");
    }
    let audit = place.json(0, &["show", "forced"])["audit"][0].take();
    assert_eq!((&audit["action"], &audit["forced"]), (&"redrive".into(), &true.into()));
    let solved = place.json(0, &["show", "solved"]);
    let expected = ("applied", "po_1", "resolve");
    let result =
        (&solved["resolved"]["resolution"], &solved["resolved"]["vendor_id"], &solved["audit"][0]["action"]);
    assert_eq!(result, (&expected.0.into(), &expected.1.into(), &expected.2.into()));
    let edited = place.json(0, &["show", "edited"]);
    assert_eq!((&edited["resolved"]["new_key"], edited["redrive"].is_null()), (&"new".into(), true));
}

#[tokio::test]
async fn a_filter_warns_of_a_vendor_without_records() {
    let place = TestDirectory::fresh();
    let filters = [
        &["list"][..],
        &["list", "--group"],
        &["redrive"],
        &["export"],
        &["export", "--output", "new.jsonl"],
    ];
    let warning = |command: &[&str], vendor: &str| {
        let _ = std::fs::remove_file(place.path("new.jsonl"));
        let result = place.run(&[&["dead-letters"], command, &["--vendor", vendor]].concat());
        assert_eq!(result.code, 0, "{command:?}: {}", result.err);
        result.err
    };
    place.stripe(NOW, &ScriptedTransport::new()); // The store, with nothing in it.
    let empty = "no operation of vendor `strype` is on record; the store is empty\n";
    assert_eq!(warning(&["list"], "strype"), empty);
    place.succeeds("order-1", NOW).await;
    for command in filters {
        let slip = "no operation of vendor `strype` is on record; there is `default/stripe`\n";
        assert_eq!(warning(command, "strype"), slip, "{command:?}");
        assert_eq!(warning(command, "other/stripe").matches("`default/stripe`").count(), 1, "{command:?}");
        for well in ["stripe", "default/stripe"] {
            assert_eq!(warning(command, well), "", "{command:?}: it has no dead letters");
        }
    }
    let page = place.run(&["dead-letters", "list", "--vendor", "strype", "--json"]);
    assert_eq!((page.code, page.err.as_str()), (0, ""), "a program is not told");
    place.lost("order-2", LONG_AGO).await;
    assert_eq!(warning(&["list"], "stripe"), "");
    let store = rusqlite::Connection::open(place.path("calls.db")).expect("opens");
    let other = "UPDATE operation SET vendor = 'default/other' WHERE key = 'order-2'";
    store.execute_batch(other).expect("works");
    let several =
        "no operation of vendor `strype` is on record; there are `default/other`, `default/stripe`\n";
    assert_eq!(warning(&["list"], "strype"), several);
}

#[tokio::test]
async fn attempts_after_a_redrive_are_counted_anew_and_labelled() {
    let place = TestDirectory::fresh();
    place.never_sent("order-1").await;
    let phase = || {
        let text = place.run(&["show", "order-1"]).ended(0);
        text.lines().find(|line| line.starts_with("phase:")).expect("a phase").to_owned()
    };
    assert_eq!(phase(), "phase:    dead, effect none, 1 attempt");
    place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
    assert_eq!(phase(), "phase:    scheduled, effect none, 0 attempts since the redrive");
}

/// A redrive of an operation without effect is claimed anew, and the first attempt stays in the log.
#[tokio::test]
async fn a_redriven_operation_shows_its_first_attempt() {
    let place = TestDirectory::fresh();
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    assert!(place.pays("order-1", LONG_AGO, network).await.expect_err("never sent").is_dead_letter());
    let shown = place.run(&["show", "order-1"]).ended(0);
    assert!(!shown.contains("\nbegan:") && shown.contains("\nclaimed:  "), "the same time: {shown}");
    place.run(&["dead-letters", "redrive", "order-1"]).ended(0);
    let shown = place.run(&["show", "order-1"]).ended(0);
    let began = shown.lines().find(|line| line.starts_with("began:    ")).expect(&shown);
    let claimed = shown.lines().find(|line| line.starts_with("claimed:  ")).expect(&shown);
    assert!(began.contains("(2days") && !claimed.contains("days"), "{shown}");
}

/// Names are left whole, because they are copied; all else fits a terminal of 80 columns.
#[tokio::test]
async fn outbox_rows_are_counted_and_rejected_ones_listed_with_reasons() {
    let place = TestDirectory::fresh();
    assert_eq!(place.run(&["outbox"]).code, 3, "there is no store yet");
    place.succeeds("well", NOW).await;
    assert_eq!(place.run(&["outbox"]).ended(0), "no row of the outbox was rejected\n");
    place.rejects(3).await;
    let stats = place.run(&["stats"]).ended(0);
    for line in [
        "       1  in outbox    prod/acme/shop, oldest ",
        "       3  rejected     default/stripe/test, not sent: steadfast outbox says why\n",
    ] {
        assert!(stats.contains(line), "{stats}");
    }
    let nobody = |stats: &str| stats.lines().filter(|line| line.ends_with(": no client admits them")).count();
    assert_eq!(nobody(&stats), 1, "the file has no acme: {stats}");
    let without = place.run_with(&["--store", "calls.db"], &["stats"]).ended(0);
    assert_eq!(nobody(&without), 0, "without a vendors file nobody knows: {without}");
    let letters = place.run(&["dead-letters", "list"]).ended(0);
    let beside = "3 rows of the outbox are rejected, which is no dead letter: steadfast outbox\nsays why\n";
    assert!(letters.ends_with(beside), "{letters}");
    assert_eq!(place.json(0, &["dead-letters", "list", "--group"])["rejected_rows"], 3);
    let counted = place.json(0, &["stats"])["outbox"].take();
    assert_eq!((&counted[0]["rejected"], &counted[1]["waiting"]), (&3.into(), &1.into()), "{counted}");
    assert!(counted[0]["oldest_ms"].is_null() && counted[1]["oldest_age_ms"].is_u64(), "{counted}");
    let text = place.run(&["outbox"]).ended(0);
    assert!(text.starts_with("1  default/stripe/test/POST key bad-0\n    rejected at "), "{text}");
    assert!(text.contains("cookie carries a secret,\n") && !text.contains("hunter2"), "{text}");
    let page = place.json(0, &["outbox", "--limit", "2"]);
    let next = page["next"].as_str().expect("one more");
    let rest = place.json(0, &["outbox", "--after", next]);
    assert_eq!(
        (page["rejected"].as_array().map(Vec::len), &rest["rejected"][0]["number"]),
        (Some(2), &3.into())
    );
    assert!(rest["next"].is_null());
    assert_eq!(place.json_error(2, &["outbox", "--after", "x"])["code"], "usage");
    // The store's own check is no part of the page: a row's text goes to no terminal unescaped.
    place.sql("PRAGMA ignore_check_constraints = ON; UPDATE steadfast_outbox SET method = 'PO' || char(27) || '[2J'");
    let text = place.run(&["outbox"]).ended(0);
    assert!(text.contains("/PO") && !text.contains('\u{1b}'), "{text}");
}

/// A row is no operation yet, and is sent once a dispatcher comes.
#[tokio::test]
async fn a_waiting_outbox_row_is_shown_by_its_key_and_can_be_cancelled() {
    let place = TestDirectory::fresh();
    place.succeeds("well", NOW).await;
    place.rejects(1).await;
    let shown = place.run(&["show", "k"]).ended(0);
    assert!(
        shown.starts_with("in the outbox: row 2, not on record yet: prod/acme/shop/POST / key k\n"),
        "{shown}"
    );
    let shown = place.run(&["show", "bad-0"]).ended(0);
    assert!(shown.starts_with("in the outbox: row 1, rejected: "), "{shown}");
    let row = |key: &str| place.json(0, &["show", key])["queued"][0].take();
    assert_eq!((&row("k")["number"], row("k")["rejected"].is_null()), (&2.into(), true));
    assert!(row("bad-0")["rejected"].as_str().is_some_and(|why| why.contains("secret")));

    // Beside an operation of the same key.
    place.sql("INSERT INTO steadfast_outbox (vendor, account, path, key) VALUES ('stripe', 'test', '/v1/quotes', 'well')");
    let shown = place.run(&["show", "well"]).ended(0);
    assert!(shown.contains("phase:    succeeded") && shown.contains("in the outbox: row 3, "), "{shown}");
    assert_eq!(
        (&row("well")["number"], place.json(0, &["show", "well"])["phase"].as_str()),
        (&3.into(), Some("succeeded"))
    );
    let planned = place.json(0, &["cancel", "well", "--dry-run"]);
    assert_eq!(planned["removed"][0]["number"], 3);

    for (key, row) in [("k", 2), ("prod/acme/shop/POST / key k", 0), ("bad-0", 1), ("well", 3)] {
        let cancel = ["cancel", key, "--why", "the customer left"];
        if row == 0 {
            assert_eq!(place.run(&cancel).code, 6, "{key} is gone");
            continue;
        }
        assert_eq!(place.run(&cancel[..2]).code, 2, "without a reason");
        let result = place.run(&cancel).ended(0);
        assert!(result.starts_with(&format!("removed from the outbox: row {row}: ")), "{result}");
    }
    assert_eq!(place.run(&["show", "k"]).code, 6);
    place.run(&["show", "well"]).ended(0);
    let file = rusqlite::Connection::open(place.path("calls.db")).expect("opens");
    let audited =
        "SELECT count(*) FROM audit WHERE action = '\"cancel\"' AND by = 'ada' AND why = 'the customer left'";
    assert_eq!(file.query_row(audited, [], |row| row.get::<_, i64>(0)).expect("counts"), 3);
}

#[tokio::test]
async fn output_fits_eighty_columns() {
    let place = TestDirectory::fresh();
    for key in ["forced", "solved", "lost"] {
        place.lost(key, LONG_AGO).await;
    }
    place.lost("fresh", NOW).await;
    place.never_sent("never-sent").await;
    place.busy("busy").await;
    place.succeeds("well", NOW).await;
    place.rejects(1).await;
    let why = ["--why", &"seen by nobody who could say what became of it ".repeat(5)];
    place.run(&[&["dead-letters", "redrive", "forced", "--force"], &why[..]].concat()).ended(0);
    place.run(&[&["dead-letters", "resolve", "solved", "--applied", "po_1"], &why[..]].concat()).ended(0);
    let mut shown = Vec::new();
    for command in [
        &["stats"][..],
        &["outbox"],
        &["dead-letters", "list", "--resolved-too"],
        &["dead-letters", "list", "--group"],
        &["dead-letters", "redrive", "--all"],
        &["show", "forced"],
        &["show", "solved"],
        &["show", "lost"],
        &["show", "fresh"],
        &["show", "never-sent"],
        &["show", "busy"],
        &["show", "well"],
    ] {
        shown.push(place.run(command).out);
        shown.push(place.run_with(&["--store", "calls.db"], command).out);
    }
    for text in shown {
        assert_ne!(text, "");
        for line in text.lines().filter(|line| !line.contains(" key ")) {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
}
