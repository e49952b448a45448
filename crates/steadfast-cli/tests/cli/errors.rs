//! Errors and exit codes.

use super::{NOW, TestDirectory};

#[tokio::test]
async fn a_path_without_a_store_stays_without_one() {
    let place = TestDirectory::fresh();
    let commands = [
        &["stats"][..],
        &["show", "x"],
        &["dead-letters", "list"],
        &["dead-letters", "list", "--group"],
        &["dead-letters", "show", "x"],
        &["dead-letters", "redrive", "--all"],
        &["dead-letters", "resolve", "x", "--not-applied", "--why", "x"],
        &["dead-letters", "edit", "x", "--key", "y", "--body", "vendors.toml", "--why", "x"],
        &["dead-letters", "export"],
        &["dead-letters", "purge"],
    ];
    for (empty, problem) in
        [(false, "there is no file calls.db"), (true, "calls.db is an empty file, not a store")]
    {
        if empty {
            std::fs::write(place.path("calls.db"), "").expect("writes");
        }
        let held = || std::fs::read_dir(place.path(".")).expect("a directory").count();
        let before = held();
        for command in commands {
            let result = place.run(command);
            let expected = format!(
                "steadfast: no such store: {problem}; name the service's store with --store or in STEADFAST_STORE\n"
            );
            assert_eq!((result.code, result.err), (3, expected), "{command:?}");
            assert_eq!(result.out, "");
        }
        assert_eq!(held(), before, "nothing was put beside it");
        assert_eq!(std::fs::read(place.path("calls.db")).ok(), empty.then(Vec::new));
    }
    let result = place.run_with(&[], &["stats"]);
    assert_eq!(result.code, 2);
    let expected = "steadfast: which store? Name the service's with --store URL or in STEADFAST_STORE, such as \
                    sqlite:vendor-calls.db, or a vendors file that names it with --vendors PATH or in STEADFAST_VENDORS\n";
    assert_eq!(result.err, expected);
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_is_named_by_url_and_a_bare_path_is_one_too() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    // Another name of the directory and no copy of the file: what was just written may still be in its log.
    std::os::unix::fs::symlink(".", place.path("a:b")).expect("a link");
    let whole = place.path("calls.db").display().to_string();
    for store in [
        "calls.db",
        "sqlite:calls.db",
        "sqlite:./calls.db",
        &whole,
        &format!("sqlite:{whole}"),
        &format!("sqlite://{whole}"),
        "./a:b/calls.db",
        "sqlite:a:b/calls.db",
    ] {
        place.run_with(&["--store", store], &["show", "order-1"]).ended(0);
        place.run_as(&[("STEADFAST_STORE", store)], &["show", "order-1"]).ended(0);
    }
    let postgres =
        cfg!(feature = "postgres").then_some("\"postgres://shop@db.internal/shop?schema=payments\", or ");
    let knows = format!(
        "write \"sqlite:\" and a path, such as \"sqlite:vendor-calls.db\", or {}\"memory\"",
        postgres.unwrap_or_default()
    );
    let unknown = format!("this build opens no store `mysql`; {knows}");
    for (store, problem) in [
        ("mysql://shop:hunter2@db/calls", unknown.as_str()),
        ("mysql:hunter2", unknown.as_str()),
        (
            "sqlite://shop:hunter2@db/calls",
            "a path follows `sqlite:`; did you mean \"sqlite:vendor-calls.db\"?",
        ),
        ("sqlit:calls.db", "did you mean \"sqlite:calls.db\"?"),
        ("sqlite:", "it needs the file's path, such as \"sqlite:vendor-calls.db\""),
    ] {
        let result = place.run_with(&["--store", store], &["stats"]);
        assert_eq!((result.code, result.err), (2, format!("steadfast: --store: {problem}\n")));
        let result = place.run_as(&[("STEADFAST_STORE", store)], &["stats"]);
        assert_eq!((result.code, result.err), (2, format!("steadfast: STEADFAST_STORE: {problem}\n")));
    }
    let result = place.run_with(&["--store", "memory:"], &["stats"]);
    let problem = "no such store: a store in memory ends with its process, and no other process sees it; name the service's \
                   store with --store or in STEADFAST_STORE";
    assert_eq!((result.code, result.err), (3, format!("steadfast: {problem}\n")));
    assert!(!place.path("sqlite:").exists() && !place.path("memory:").exists());
}

#[tokio::test]
async fn a_file_that_is_no_store_is_named_and_left_alone() {
    let place = TestDirectory::fresh();
    std::fs::write(place.path("calls.db"), "a letter to Ada, and no database at all".repeat(40))
        .expect("writes");
    let error = place.json_error(3, &["stats"]);
    assert_eq!(error["code"], "store");
    assert!(error["problem"].as_str().expect("text").contains("it belongs to another program"), "{error}");
    let text = std::fs::read_to_string(place.path("calls.db")).expect("reads");
    assert!(text.starts_with("a letter to Ada"));
}

#[tokio::test]
async fn an_absent_operation_has_an_exit_code_of_its_own() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    for command in [
        &["show", "order-9"][..],
        &["dead-letters", "show", "order-9"],
        &["dead-letters", "redrive", "order-9"],
        &["dead-letters", "redrive", "order-1", "order-9"],
        &["dead-letters", "resolve", "order-9", "--not-applied", "--why", "x"],
        &["dead-letters", "edit", "order-9", "--key", "y", "--body", "vendors.toml", "--why", "x"],
    ] {
        let result = place.run(command);
        assert_eq!(result.code, 6, "{command:?}");
        let problem = "there is no operation \"order-9\"; it was never recorded in this store, or its record was \
                       removed when its time was over";
        assert_eq!(result.err, format!("steadfast: {problem}\n"));
        assert_eq!(result.out, "");
        assert_eq!(place.json_error(6, command)["code"], "absent");
    }
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "dead", "none is redriven if one is not there");
}

#[tokio::test]
async fn a_filter_without_matches_is_no_failure() {
    let place = TestDirectory::fresh();
    place.succeeds("order-1", NOW).await;
    for (command, text) in [
        (&["dead-letters", "list"][..], "no dead letter matches\n"),
        (&["dead-letters", "list", "--group"], "no dead letter matches\n"),
        (&["dead-letters", "export"], ""),
        (&["dead-letters", "export", "--output", "none.jsonl"], "written: 0, to none.jsonl\n"),
        (&["dead-letters", "redrive", "--all", "--yes"], "0 matched; 0 due (0 by force), 0 held back\n"),
        (&["dead-letters", "purge"], "removed: 0\n"),
    ] {
        assert_eq!(place.run(command).ended(0), text, "{command:?}");
    }
}

#[tokio::test]
async fn a_key_of_several_operations_is_ambiguous_and_not_absent() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let scopes = "UPDATE operation SET scope = 'default/other/test/POST /v1/x' WHERE key = 'order-2'";
    place.lost("order-2", NOW).await;
    let store = rusqlite::Connection::open(place.path("calls.db")).expect("opens");
    store.execute_batch(&format!("{scopes}; UPDATE operation SET key = 'order-1'")).expect("works");
    let error = place.json_error(2, &["show", "order-1"]);
    assert_eq!(error["code"], "ambiguous");
    let problem = error["problem"].as_str().expect("text");
    assert!(problem.contains("\n  default/other/test/POST /v1/x key order-1"), "{problem}");
    assert_eq!(place.json(0, &["show", "default/other/test/POST /v1/x key order-1"])["key"], "order-1");
}

#[test]
fn check_names_file_line_and_column() {
    let place = TestDirectory::fresh();
    assert_eq!(place.json(0, &["check", "vendors.toml"])["vendors"], serde_json::json!(["stripe"]));
    assert_eq!(place.run(&["check", "vendors.toml"]).ended(0), "vendors.toml is good: stripe\n");
    std::fs::write(place.path("wrong.toml"), "[vendors.stripe]\nsecret_evn = \"X\"\n").expect("writes");
    let result = place.run(&["check", "wrong.toml"]);
    assert_eq!(result.code, 4);
    assert!(result.err.starts_with("steadfast: wrong.toml:2:1: unknown key `secret_evn`"), "{}", result.err);
    let error = place.json_error(4, &["check", "absent.toml"]);
    assert_eq!(error["code"], "vendors");
    assert!(error["problem"].as_str().expect("text").contains("absent.toml"), "{error}");
}

/// A store that does not exist yet, as in a build, is ignored. An existing one is checked.
#[tokio::test]
async fn check_looks_at_the_store_if_it_is_there() {
    let place = TestDirectory::fresh();
    place.succeeds("well", NOW).await;
    let check = |store: &str| place.run_as(&[("STEADFAST_STORE", store)], &["check", "vendors.toml"]);
    assert_eq!(check("sqlite:absent.db").ended(0), "vendors.toml is good: stripe\n");
    std::fs::hard_link(place.path("calls.db"), place.path("other.db")).expect("links");
    let result = check("sqlite:calls.db").ended(0);
    assert!(result.contains("warning: ") && result.contains("2 names"), "{result}");
    std::fs::write(place.path("torn.db"), "not a database, and long enough to be taken for one")
        .expect("writes");
    let result = check("sqlite:torn.db").ended(0);
    assert!(result.contains("warning: the store was not checked: "), "{result}");
}

#[test]
fn check_takes_the_file_that_the_other_commands_take() {
    let place = TestDirectory::fresh();
    let set = [("STEADFAST_VENDORS", "vendors.toml")];
    assert_eq!(place.run_as(&set, &["check"]).ended(0), "vendors.toml is good: stripe\n");
    assert_eq!(place.run_as(&[], &["check", "--vendors", "vendors.toml"]).code, 0);
    std::fs::copy(place.path("vendors.toml"), place.path("other.toml")).expect("copies");
    let named = place.run_as(&set, &["check", "other.toml"]);
    assert!(named.out.starts_with("other.toml is good"), "the one that is named: {}{}", named.out, named.err);
    let result = place.run_as(&[], &["check"]);
    assert_eq!(result.code, 2);
    assert!(result.err.contains("STEADFAST_VENDORS"), "{}", result.err);
}

#[tokio::test]
async fn invalid_arguments_are_refused_with_two() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    for wrong in [
        &["dead-letters", "redrive"][..],
        &["dead-letters", "redrive", "order-1", "--all"],
        &["dead-letters", "redrive", "--all", "--yes", "--dry-run"],
        &["dead-letters", "list", "--reason", "bad"],
        &["dead-letters", "list", "--older-than", "30"],
        &["dead-letters", "list", "--limit", "0"],
        &["dead-letters", "list", "--after", "nonsense"],
        &["dead-letters", "resolve", "order-1", "--applied", "", "--why", "x"],
        &["dead-letters", "export", "--bodies"],
        &["dead-letters", "edit", "order-1", "--key", "", "--body", "vendors.toml", "--why", "x"],
        &["nonsense"],
        &[],
    ] {
        let result = place.run(wrong);
        assert_eq!(result.code, 2, "{wrong:?}: {}", result.err);
        assert_ne!(result.err, "", "{wrong:?}");
        assert_eq!(place.json_error(2, wrong)["code"], "usage", "{wrong:?}");
    }
    let result =
        place.run(&["dead-letters", "edit", "order-1", "--key", "b", "--body", "absent", "--why", "x"]);
    assert_eq!(result.code, 5);
    assert!(result.err.starts_with("steadfast: absent cannot be read: "), "{}", result.err);
}

#[test]
fn usage_lines_omit_variables_of_the_environment() {
    let place = TestDirectory::fresh();
    let set = [("STEADFAST_STORE", "calls.db"), ("STEADFAST_VENDORS", "vendors.toml")];
    for wrong in [&["show"][..], &["dead-letters", "resolve", "order-1"], &["dead-letters", "edit"]] {
        let result = place.run_as(&set, wrong);
        assert_eq!(result.code, 2, "{}", result.err);
        assert!(
            result.err.contains("\nUsage: steadfast ") && !result.err.contains("--store"),
            "{}",
            result.err
        );
        assert_eq!(result.err, place.run_as(&[], wrong).err, "the same with nothing set");
    }
}

#[tokio::test]
async fn the_environment_names_the_store_unless_an_option_does() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let show = ["show", "order-1"];
    let set = [("STEADFAST_STORE", "calls.db"), ("STEADFAST_VENDORS", "vendors.toml")];
    assert!(place.run_as(&set, &show).ended(0).contains("redrive:  safe"), "both are taken");
    let named = ["--store", "other.db", "--vendors", "other.toml"];
    let result = place.run_as(&set, &[&named[..], &show].concat());
    assert_eq!(result.code, 4);
    assert!(result.err.contains("other.toml"), "{}", result.err);
    let empty = place.run_as(&[("STEADFAST_STORE", ""), ("STEADFAST_VENDORS", "")], &show);
    assert_eq!(empty.code, 2);
    assert!(empty.err.contains("which store?"), "what is empty names nothing: {}", empty.err);
}

#[tokio::test]
async fn a_directory_is_neither_a_store_nor_a_file_to_write() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    std::fs::create_dir(place.path("directory")).expect("a directory");
    let result = place.run_with(&["--store", "directory"], &["stats"]);
    let expected = "steadfast: no such store: directory is not a file; name the service's store with --store or in \
                    STEADFAST_STORE\n";
    assert_eq!((result.code, result.err.as_str()), (3, expected));
    for (path, problem) in [
        ("directory", "directory exists already and is not overwritten; name a new file"),
        ("absent/new.jsonl", "absent/new.jsonl cannot be written: No such file or directory (os error 2)"),
    ] {
        let result = place.run(&["dead-letters", "export", "--output", path]);
        assert_eq!((result.code, result.err), (5, format!("steadfast: {problem}\n")));
    }
}

#[tokio::test]
async fn the_vendors_file_names_the_store_if_no_option_does() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let named = |store: &str| {
        let text = format!("{store}\n[vendors.stripe]\nsecret_env = 'STRIPE_SECRET_KEY_THAT_IS_NOT_SET'\n");
        std::fs::write(place.path("named.toml"), text).expect("writes");
    };
    let vendors = ["--vendors", "named.toml"];
    let show = ["show", "order-1"];

    named("store = 'sqlite:calls.db'");
    assert!(place.run_with(&vendors, &show).ended(0).contains("redrive:  safe"));
    let set = [("STEADFAST_VENDORS", "named.toml")];
    assert!(place.run_as(&set, &show).ended(0).contains("redrive:  safe"));

    // A name beside it wins, and the file's is then not used.
    named("store = 'sqlite:absent.db'");
    place.run_with(&["--store", "calls.db", "--vendors", "named.toml"], &show).ended(0);
    place.run_as(&[("STEADFAST_STORE", "calls.db"), set[0]], &show).ended(0);

    let absent = place.run_with(&vendors, &["dead-letters", "purge"]);
    assert_eq!(absent.code, 3, "{}", absent.err);
    assert!(absent.err.starts_with("steadfast: named.toml:1:9: `store`: "), "{}", absent.err);
    assert!(absent.err.contains("absent.db does not open: there is no file "), "{}", absent.err);
    assert!(!place.path("absent.db").exists(), "it is never made");

    for none in ["", "store = 'memory'"] {
        named(none);
        let result = place.run_with(&vendors, &show);
        assert_eq!(result.code, 2, "{none}: {}", result.err);
        assert!(result.err.contains("which store?"), "{none}: {}", result.err);
    }
}

#[tokio::test]
async fn a_text_that_contains_a_wire_key_shows_its_operation_and_changes_none() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let wire_key = place.json(0, &["show", "order-1"])["wire_key"].as_str().expect("text").to_owned();
    let held = format!("order-2 replaces {wire_key}");
    assert_eq!(place.json(0, &["show", &held])["wire_key"], wire_key.as_str());
    for command in [
        &["dead-letters", "redrive", &held, "--dry-run"][..],
        &["dead-letters", "redrive", &held, "--by", "ada"],
        &["dead-letters", "resolve", &held, "--not-applied", "--why", "x"],
        &["dead-letters", "edit", &held, "--key", "y", "--body", "vendors.toml", "--why", "x"],
    ] {
        let result = place.run(command);
        assert_eq!(result.code, 2, "{command:?}: {}", result.err);
        assert!(
            result.err.contains("only contains the wire key of ") && result.err.contains(" key order-1;"),
            "{}",
            result.err
        );
    }
    assert_eq!(place.json(0, &["show", "order-1"])["phase"], "dead", "nothing was changed");
    place.run(&["dead-letters", "resolve", &wire_key, "--not-applied", "--why", "x"]).ended(0);
}
