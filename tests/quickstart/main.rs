//! The quickstart keeps its promise: the example itself, as its readers run it, over one seed.

mod judgement;
#[cfg(target_os = "linux")]
mod ways_out;

// The example's own files, for the tests of its judgement.
#[allow(dead_code, reason = "the rest of it runs in the example's process")]
#[path = "../../examples/quickstart/report.rs"]
mod report;
#[allow(dead_code, reason = "the rest of it runs in the example's process")]
#[path = "../../examples/quickstart/shop.rs"]
mod shop;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use serde_json::Value;

use crate::shop::VENDORS;

type Problem = Box<dyn std::error::Error + Send + Sync>;

const SEED: u64 = 1;
const ORDERS: u64 = 200;

#[test]
fn a_service_that_is_killed_duplicates_and_loses_nothing_and_the_report_says_so() {
    let left = tempfile::tempdir().expect("a directory");
    let seed = SEED.to_string();
    let run = example()
        .args(["--json", "--seed", &seed])
        // Where it makes its own directory.
        .env("TMPDIR", left.path())
        .output()
        .expect("the example starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {said}", run.status);
    assert!(said.contains("killed after"), "{said}");
    let report = last_line(&run);

    assert_eq!(report["seed"], SEED);
    let mut ordered_before = ORDERS;
    for vendor in VENDORS {
        let number = |key: &str| number(&report[vendor], key);
        assert_eq!((number("duplicates"), number("lost")), (0, 0), "{report}");
        // Every order reaches the vendor unless the step before it failed for good.
        assert_eq!(number("operations"), ordered_before, "{report}");
        // What is not a dead letter took effect; a dead letter of unknown effect may have.
        let succeeded = number("operations") - number("dead_letters");
        assert!((succeeded..=succeeded + number("unknown")).contains(&number("effects")), "{report}");
        assert!(number("attempts") >= number("operations"), "{report}");
        assert!(number("waited_ms") > 0, "{report}");
        ordered_before = succeeded;
    }
    assert!(number(&report["stripe"], "retries") > 0, "the seed draws no fault: {report}");

    was_killed_in_the_middle(&report);
    one_dead_letter_was_redriven(&report);
    let files = std::fs::read_dir(left.path()).expect("a directory").count();
    assert_eq!(files, 0, "its own directory is still there");
}

fn was_killed_in_the_middle(report: &Value) {
    let number = |key: &str| number(&report["kill"], key);
    assert!((ORDERS / 4..=ORDERS * 3 / 4).contains(&number("after_orders")), "{report}");
    let under_way = number("under_way");
    assert!(under_way > 0, "the kill met nothing under way, so nothing was shown: {report}");
    assert!(number("applied_unrecorded") <= under_way, "{report}");
    // Each of them came to rest.
    assert_eq!(number("succeeded") + number("dead_letters"), under_way, "{report}");
    assert_eq!(number("other"), 0, "{report}");
}

fn one_dead_letter_was_redriven(report: &Value) {
    let redrive = &report["redrive"];
    assert_eq!((&redrive["ended"], &redrive["code"]), (&"succeeded".into(), &"RATE_LIMIT.exceeded".into()));
    assert_eq!((number(redrive, "effects_before"), number(redrive, "effects")), (0, 1), "{report}");
    // One letter fewer than were found.
    let groups = report["dead_letters"].as_array().expect("groups");
    let found: u64 = groups.iter().map(|group| number(group, "count")).sum();
    let left: u64 = VENDORS.iter().map(|vendor| number(&report[vendor], "dead_letters")).sum();
    assert_eq!(found, left + 1, "{report}");
}

#[test]
fn nobody_has_to_read_what_it_prints() {
    // Both outputs closed from the start: the verdict is the exit code all the same.
    let mut run = example().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop((run.stdout.take(), run.stderr.take()));
    assert!(run.wait().expect("is ours").success());
}

#[test]
fn a_wrong_argument_is_named_before_anything_starts() {
    for (words, named) in [
        (&["--sed", "1"][..], "\"--sed\""),
        (&["--seed"], "--seed needs a number"),
        (&["--seed", "x"], "\"x\""),
    ] {
        let run = example().args(words).output().expect("starts");
        assert_eq!(run.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&run.stderr).contains(named), "{words:?}");
    }
}

fn number(object: &Value, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key}: {object}"))
}

fn last_line(run: &Output) -> Value {
    let text = std::str::from_utf8(&run.stdout).expect("text");
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON on the last line")
}

fn example() -> Command {
    Command::new(binary())
}

/// The example's program, which cargo builds beside the tests.
fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    let name = format!("quickstart{}", std::env::consts::EXE_SUFFIX);
    let binary = profile.join("examples").join(name);
    let built = modified(&binary).expect("run `cargo build --example quickstart` with this test's features");
    // `cargo test --test quickstart` alone does not build examples, and would test what once was.
    for source in sources(&profile.join("examples/quickstart.d")) {
        let fresh = modified(&source).is_some_and(|changed| changed <= built);
        assert!(fresh, "{} is newer: run `cargo build --example quickstart` first", source.display());
    }
    binary
}

/// The files that cargo's list of dependencies (`OUTPUT: FILE FILE …`) names.
fn sources(list: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(list).expect("cargo writes a list beside the program");
    let (_, files) = text.trim().split_once(": ").expect("a target and its files");
    // A space within a name is escaped.
    let files = files.replace("\\ ", "\0");
    files.split(' ').map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}
