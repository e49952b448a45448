//! Every command's answer to `--json`, held to the schema; and the schema to the answers.
//!
//! The schema leaves room for members that are added, as its readers must. This test does not: each object is
//! closed, so that a member which the code writes and the schema does not describe is found as well.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use steadfast::testkit::ScriptedTransport;

use super::{LONG_AGO, NOW, TestDirectory};

const SCHEMA: &str = include_str!("../../../../examples/command-line.schema.json");

/// Objects that others are made of.
const PARTS: &str = "_fields";

/// The answer in `text`: one object on one line, in the documented shape.
pub fn answer(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    let answer: Value = serde_json::from_str(text).expect("JSON");
    let problems = problems(&closed(), &answer);
    assert!(problems.is_empty(), "{answer:#}\n{problems:#?}");
    answer
}

/// A line of an export: an operation as `show` gives it.
pub fn line(text: &str) -> Value {
    let operation: Value = serde_json::from_str(text).expect("JSON");
    let schema = json!({ "$ref": "#/$defs/line", "$defs": closed()["$defs"] });
    let problems = problems(&schema, &operation);
    assert!(problems.is_empty(), "{operation:#}\n{problems:#?}");
    operation
}

/// Returns the problems of `instance`: the one place that uses a validator.
fn problems(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(schema).expect("a schema");
    let problem = |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    validator.iter_errors(instance).map(problem).collect()
}

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("JSON")
}

/// The schema without room for more members.
fn closed() -> Value {
    let mut schema = schema();
    for (name, part) in schema["$defs"].as_object_mut().expect("definitions") {
        if part["type"] == "object" && !name.ends_with(PARTS) {
            part["unevaluatedProperties"] = false.into();
        }
    }
    schema["unevaluatedProperties"] = false.into();
    schema
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "each command once")]
async fn every_command_answers_with_one_object_of_the_documented_shape() {
    let mut place = TestDirectory::fresh();
    for key in ["lost", "forced", "solved", "undone"] {
        place.lost(key, LONG_AGO).await;
    }
    place.never_sent("due").await;
    place.never_sent("edited").await;
    place.busy("busy").await;
    place.succeeds("done", NOW).await;
    place.succeeds("old", LONG_AGO).await;
    std::fs::write(place.path("body"), "amount=900").expect("writes");
    let why = ["--why", "ticket 7"];
    let adopt = ["adopt", "--from", "default/stripe/test", "--to", "default/stripe/test:acct_1"];
    let mut seen = BTreeSet::new();
    for (code, arguments) in [
        (0, &["check"][..]),
        (0, &["completions", "zsh"]),
        (0, &["man"]),
        (0, &["man", "--out", "pages"]),
        (0, &["status"]),
        (0, &["list", "--overdue"]),
        (0, &["cancel", "--all"]),
        (0, &["dead-letters", "resolve", "--all", "--not-applied"]),
        (0, &["stats"]),
        (0, &["dead-letters", "list"]),
        (0, &["dead-letters", "list", "--limit", "1"]),
        (0, &["dead-letters", "list", "--status", "599"]),
        (0, &["dead-letters", "list", "--group"]),
        (1, &["dead-letters", "redrive", "--all"]),
        (1, &["dead-letters", "redrive", "lost"]),
        (0, &["dead-letters", "redrive", "due"]),
        (0, &[&["dead-letters", "redrive", "forced", "--force"], &why[..]].concat()),
        (0, &[&["dead-letters", "resolve", "solved", "--applied", "po_1"], &why[..]].concat()),
        (0, &[&["dead-letters", "resolve", "undone", "--compensated"], &why[..]].concat()),
        (0, &[&["dead-letters", "resolve", "undone", "--reopen"], &why[..]].concat()),
        (0, &[&["dead-letters", "edit", "edited", "--key", "new", "--body", "body"], &why[..]].concat()),
        (0, &["dead-letters", "show", "solved"]),
        (0, &["dead-letters", "show", "edited"]),
        (0, &["dead-letters", "show", "busy"]),
        (0, &["show", "forced"]),
        (0, &["show", "undone"]),
        (0, &["show", "new"]),
        (0, &[&["show", "done", "--bodies"], &why[..]].concat()),
        (0, &["dead-letters", "export", "--resolved-too", "--output", "letters.jsonl"]),
        (0, &["dead-letters", "purge"]),
        (0, &[&["dead-letters", "redrive", "undone", "--force"], &why[..]].concat()),
        (0, &[&["cancel", "undone"], &why[..]].concat()),
        (0, &["show", "undone"]),
        (0, &adopt),
        (0, &[&adopt[..], &["--yes"], &why].concat()),
        (0, &["stats"]),
        (0, &["show", "default/stripe/test:acct_1/POST /v1/quotes key undone"]),
    ] {
        let result = place.run(&[arguments, &["--json"]].concat());
        assert_eq!((result.code, &result.err[..]), (code, ""), "{arguments:?}: {}", result.out);
        let answer = answer(&result.out);
        assert_eq!(answer["exit_code"], code, "{arguments:?}");
        seen.insert(answer["command"].as_str().expect("a command").to_owned());
    }
    seen.extend(shows_terms(&place).await);
    seen.insert(command_of(&place, &["here"]));
    seen.extend([migrates(&place), rejects(&place).await, reseals(&mut place)]);
    seen.extend(
        copies(&place).into_iter().chain([super::dispatch::command().await, super::fakes::command()]),
    );
    for letter in std::fs::read_to_string(place.path("letters.jsonl")).expect("reads").lines() {
        line(letter);
    }
    assert_eq!(seen, super::manual::commands(), "a command that is not run here");
    assert_eq!(seen, described(), "a command that the schema has not");
}

/// Returns the commands of the schema.
fn described() -> BTreeSet<String> {
    let described = schema()["properties"]["command"]["enum"].as_array().expect("commands").clone();
    described.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn shows_terms(place: &TestDirectory) -> Vec<String> {
    place.stripe(NOW, &ScriptedTransport::new()).register().await.expect("the first");
    let account = "default/stripe/test";
    let commands = [&["terms"][..], &["terms", "--forget", account], &["terms", "--forget", "none"]];
    commands.map(|arguments| command_of(place, arguments)).to_vec()
}

/// Opens the store again at the end.
fn copies(place: &TestDirectory) -> Vec<String> {
    let ends = [&["--to", "new.db"][..], &["--to", "new.db"], &["--give-up", "--lost"]];
    ends.map(|end| command_of(place, &[&["copy", "--from", "calls.db"], end].concat())).to_vec()
}

/// Returns the command that an answer names.
fn command_of(place: &TestDirectory, arguments: &[&str]) -> String {
    let answer = answer(&place.run(&[arguments, &["--json"]].concat()).ended(0));
    answer["command"].as_str().expect("a command").to_owned()
}

/// On a file it refuses; its work on a server is in the tests of that.
fn migrates(place: &TestDirectory) -> String {
    let refused = answer(&place.run(&["migrate", "--json"]).out);
    assert_eq!((&refused["exit_code"], &refused["error"]["code"]), (&json!(2), &json!("usage")), "{refused}");
    if cfg!(feature = "postgres") {
        let url = "postgres://shop:hunter2@db/shop?schema=payments";
        let printed =
            answer(&place.run_with(&["--store", url], &["migrate", "--sql", "--roles", "--json"]).ended(0));
        let sql = printed["result"]["sql"].as_str().expect("statements");
        assert!(
            sql.contains("CREATE SCHEMA IF NOT EXISTS \"payments\"") && sql.contains("payments_dispatcher"),
            "{sql}"
        );
    }
    refused["command"].as_str().expect("a command").to_owned()
}

/// Lists rows that no other command shows. Returns the command's name.
async fn rejects(place: &TestDirectory) -> String {
    place.rejects(2).await;
    let counted = answer(&place.run(&["stats", "--json"]).ended(0));
    assert_eq!(counted["result"]["outbox"].as_array().map(Vec::len), Some(2), "{counted}");
    let listed = answer(&place.run(&["outbox", "--limit", "1", "--json"]).ended(0));
    assert!(listed["result"]["next"].is_string(), "{listed}");
    // A store whose outbox is not empty is not copied.
    place.sql("DELETE FROM steadfast_outbox");
    listed["command"].as_str().expect("a command").to_owned()
}

/// Needs a key, without which no other command then works. Returns the command's name.
fn reseals(place: &mut TestDirectory) -> String {
    place.seal_keys = Some("0f".repeat(32));
    let counted = answer(&place.run(&["reseal", "--dry-run", "--json"]).ended(0));
    assert!(counted["result"]["remaining"].as_u64() > Some(0), "{counted}");
    let resealed = answer(&place.run(&["reseal", "--json"]).ended(0));
    assert_eq!(resealed["result"]["remaining"], 0);
    resealed["command"].as_str().expect("a command").to_owned()
}

#[tokio::test]
async fn every_failure_has_the_same_shape_and_a_message_for_people() {
    let place = TestDirectory::fresh();
    place.lost("order-1", LONG_AGO).await;
    assert_eq!(TestDirectory::fresh().json_error(3, &["stats"])["code"], "store");
    for (code, name, arguments) in [
        (2, "usage", &["nonsense"][..]),
        (2, "usage", &["dead-letters", "resolve", "order-1", "--not-applied"]),
        (2, "usage", &["dead-letters", "export"]),
        (2, "usage", &["dead-letters", "list", "--after", "nonsense"]),
        (4, "vendors", &["check", "absent.toml"]),
        (5, "files", &["dead-letters", "export", "--output", "vendors.toml"]),
        (6, "absent", &["show", "order-9"]),
        (1, "not_resolved", &["dead-letters", "resolve", "order-1", "--reopen", "--why", "x"]),
    ] {
        let json = place.run(&[arguments, &["--json"]].concat());
        assert_eq!(json.code, code, "{arguments:?}: {}", json.err);
        let answer = answer(&json.out);
        assert_eq!((&answer["exit_code"], &answer["error"]["code"]), (&code.into(), &name.into()));
        assert!(answer["result"].is_null());
        assert_ne!(json.err, "", "{arguments:?}: people read the other stream");
    }
}

#[test]
fn the_schema_is_valid_and_lists_the_required_members() {
    let schema = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let described = |part: &Value| -> BTreeSet<String> {
        part["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let required = |part: &Value| -> BTreeSet<String> {
        let names = part["required"].as_array().cloned().unwrap_or_default();
        names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(described(&schema), required(&schema));
    for (name, part) in schema["$defs"].as_object().expect("definitions") {
        assert_eq!(described(part), required(part), "{name}");
        assert!(part["description"].is_string(), "{name}");
    }
    let more = json!({"format": 1, "command": "dead-letters purge", "exit_code": 0, "error": null,
        "result": {"removed": 0, "new": true}});
    assert_eq!(problems(&schema, &more), [""; 0], "a reader's schema has room for what is added");
    assert_ne!(problems(&closed(), &more), [""; 0]);
}
