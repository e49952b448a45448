//! The quickstart keeps its promise: the program itself, as its readers run it, over one seed.

mod copied;
mod judgement;
mod shown;
#[cfg(unix)]
mod terminal;
#[cfg(target_os = "linux")]
mod ways_out;
mod words;

use std::process::{Command, Output, Stdio};
use support::in_memory;

use quickstart::vendors::VENDORS;
use serde_json::Value;

const SEED: u64 = 1;
const ORDERS: u64 = 200;

/// Each of these runs the whole program once, and waits far more than it works.
#[test]
fn the_program_keeps_its_promise_whoever_looks() {
    std::thread::scope(|scope| {
        scope.spawn(a_service_that_is_killed_duplicates_and_loses_nothing_and_the_report_says_so);
        scope.spawn(nobody_has_to_read_what_it_prints);
        #[cfg(unix)]
        scope.spawn(terminal::it_fits_on_a_small_terminal_and_ends_with_a_verdict);
        #[cfg(unix)]
        scope.spawn(terminal::the_commands_that_it_prints_for_a_kept_store_work_as_they_are_typed);
    });
}

fn a_service_that_is_killed_duplicates_and_loses_nothing_and_the_report_says_so() {
    let left = in_memory::directory();
    let seed = SEED.to_string();
    let run = example()
        .args(["--json", "--seed", &seed])
        // Where it makes its own directory.
        .env("TMPDIR", left.path())
        .output()
        .expect("the example starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {said}", run.status);
    assert!(said.contains("killed with SIGKILL"), "{said}");
    counters_never_fall(&said);
    let report = last_line(&run);

    assert_eq!(report["seed"], SEED);
    assert_eq!(report["well"], true, "{report}");
    let mut ordered_before = ORDERS;
    for vendor in VENDORS {
        let number = |key: &str| number(&report[vendor], key);
        assert_eq!((number("duplicates"), number("lost")), (0, 0), "{report}");
        // Every order reaches the vendor unless the step before it failed for good.
        assert_eq!(number("operations"), ordered_before, "{report}");
        // An operation that is not a dead letter took effect; a dead letter of unknown effect may have.
        let succeeded = number("operations") - number("dead_letters");
        assert!((succeeded..=succeeded + number("unknown")).contains(&number("effects")), "{report}");
        assert!(number("attempts") >= number("operations"), "{report}");
        assert!(number("waited_ms") > 0, "{report}");
        ordered_before = succeeded;
    }
    assert!(number(&report["stripe"], "retries") > 0, "the seed draws no fault: {report}");
    // Lost answers mostly end as found, also where the vendor knows no keys.
    let (found, unknown) = (number(&report["postmark"], "looked_up"), number(&report["postmark"], "unknown"));
    assert!(found > unknown, "{report}");

    was_killed_in_the_middle(&report);
    one_dead_letter_was_redriven(&report);
    let files = std::fs::read_dir(left.path()).expect("a directory").count();
    assert_eq!(files, 0, "its own directory is still there");
}

/// The counters go on over the kill, and the answers that the second process replays are not counted again.
fn counters_never_fall(said: &str) {
    let lines: Vec<[u64; 3]> = said.lines().filter_map(counters).collect();
    let killed = said.lines().position(|line| line.starts_with("killed with SIGKILL")).expect("killed");
    let (before, after) =
        (said.lines().take(killed).filter_map(counters), said.lines().skip(killed).filter_map(counters));
    assert!(before.count() >= 1 && after.count() >= 1, "{said}");
    for pair in lines.windows(2) {
        assert!(pair[0].iter().zip(&pair[1]).all(|(earlier, later)| earlier <= later), "{said}");
    }
    let [charged, ordered, _] = lines.last().expect("a line");
    assert_eq!((*charged, *ordered), (ORDERS, ORDERS), "{said}");
}

/// Charged, ordered and mailed, of a line of progress.
fn counters(line: &str) -> Option<[u64; 3]> {
    let before = |noun: &str| line.split(noun).next()?.split_whitespace().last()?.parse().ok();
    line.contains("under way  ").then_some([before("charged")?, before("ordered")?, before("mailed")?])
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

fn nobody_has_to_read_what_it_prints() {
    // Both outputs closed from the start: the verdict is the exit code all the same.
    let mut run = example().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop((run.stdout.take(), run.stderr.take()));
    assert!(run.wait().expect("is ours").success());
}

fn number(object: &Value, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key}: {object}"))
}

fn last_line(run: &Output) -> Value {
    let text = std::str::from_utf8(&run.stdout).expect("text");
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON on the last line")
}

fn example() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    // Where it makes its own directory.
    if let Some(place) = in_memory::place() {
        command.env("TMPDIR", place);
    }
    command
}
