//! Name and reason of an operator: in a container there is no login, and no variable has the name.

use super::{LONG_AGO, NOW, TestDirectory};

const STORE: [&str; 4] = ["--store", "calls.db", "--vendors", "vendors.toml"];

#[tokio::test]
async fn a_missing_name_and_a_missing_reason_are_reported_together() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    std::fs::write(place.path("body"), "amount=900").expect("writes");
    let by = "give --by NAME or set STEADFAST_BY (USER and LOGNAME are not set either)";
    let name = format!("a name is missing for the audit record: {by}");
    let both = format!("a name and a reason are missing for the audit record: {by}, and give --why REASON");
    let reason = "a reason is missing for the audit record: give --why REASON";
    let edit = ["dead-letters", "edit", "order-1", "--key", "b", "--body", "body"];
    for (arguments, without_name, without_reason) in [
        (&["dead-letters", "redrive", "order-1"][..], Some(&name), None),
        (&["dead-letters", "redrive", "--all", "--yes"], Some(&name), None),
        (&["dead-letters", "purge"], Some(&name), None),
        (&["dead-letters", "redrive", "order-1", "--force"], Some(&both), Some(reason)),
        (&["dead-letters", "resolve", "order-1", "--not-applied"], Some(&both), Some(reason)),
        (&["dead-letters", "resolve", "order-1", "--reopen"], Some(&both), Some(reason)),
        (&edit, Some(&both), Some(reason)),
        (&["dead-letters", "export", "--bodies"], Some(&both), Some(reason)),
        (&["dead-letters", "show", "order-1", "--bodies"], Some(&both), Some(reason)),
        (&["show", "order-1", "--bodies"], Some(&both), Some(reason)),
    ] {
        let result = place.run_as(&[], &[&STORE, arguments].concat());
        let expected = without_name.map(|problem| format!("steadfast: {problem}\n"));
        assert_eq!((result.code, Some(result.err)), (2, expected), "{arguments:?}");
        if let Some(problem) = without_reason {
            let result = place.run_as(&[("USER", "ada")], &[&STORE, arguments].concat());
            assert_eq!((result.code, result.err), (2, format!("steadfast: {problem}\n")), "{arguments:?}");
        }
    }
    let shown = place.json(0, &["show", "order-1"]);
    assert_eq!(
        (&shown["phase"], &shown["audit"]),
        (&"dead".into(), &serde_json::json!([])),
        "nothing was done"
    );
}

#[tokio::test]
async fn read_only_commands_need_no_name() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    place.lost("order-2", LONG_AGO).await;
    for (code, arguments) in [
        (0, &["stats"][..]),
        (0, &["show", "order-1"]),
        (0, &["dead-letters", "list"]),
        (0, &["dead-letters", "export"]),
        (0, &["dead-letters", "redrive", "order-1", "--dry-run"]),
        (1, &["dead-letters", "redrive", "--all"]),
        (0, &["dead-letters", "redrive", "order-2", "--force", "--dry-run"]),
    ] {
        let result = place.run_as(&[], &[&STORE, arguments].concat());
        assert_eq!(result.code, code, "{arguments:?}: {}{}", result.out, result.err);
    }
}

#[tokio::test]
async fn the_name_comes_from_the_option_then_steadfast_by_then_the_login() {
    let place = TestDirectory::fresh();
    let all = [("STEADFAST_BY", "ops"), ("USER", "ada"), ("LOGNAME", "lovelace")];
    let empty = [("STEADFAST_BY", ""), ("USER", " "), ("LOGNAME", "lovelace")];
    for (nth, (expected, variables, options)) in [
        ("bob", &all[..], &["--by", "bob"][..]),
        ("ops", &all[..], &[]),
        ("ada", &all[1..], &[]),
        ("lovelace", &all[2..], &[]),
        ("lovelace", &empty, &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("order-{nth}");
        place.lost(&key, NOW).await;
        let redrive = ["dead-letters", "redrive", &key];
        place.run_as(variables, &[&STORE[..], &redrive, options].concat()).ended(0);
        assert_eq!(place.json(0, &["show", &key])["audit"][0]["by"], expected);
    }
    // An empty name is not replaced.
    place.lost("order-9", NOW).await;
    let result =
        place.run_as(&all, &[&STORE[..], &["dead-letters", "redrive", "order-9", "--by", ""]].concat());
    let problem = "a name is missing for the audit record: give a name with --by, which is empty";
    assert_eq!((result.code, result.err), (2, format!("steadfast: {problem}\n")));
}
