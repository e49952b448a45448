//! The example as its readers run it: on a server of its own, on one that it is given, and where there is none.
//!
//! Real time: it is about other processes. A machine without Postgres says so and skips.

#![cfg(unix)]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use outbox::report::{Line, Report};
use outbox::server::{INSTALL, Server, programs};
use tempfile::TempDir;

/// The service's own code.
const SHOP: &str = include_str!("../src/shop.rs");
const PAGE: &str = include_str!("../../../src/docs/examples.md");

/// Generous: a run takes about two seconds, and the machine may be busy.
const RUN_MAX: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[test]
fn on_a_server_of_its_own_each_order_is_charged_once_and_nothing_stays() {
    if !has_postgres() {
        return;
    }
    let left = open_directory();
    let run = finished(example(&[]).env("TMPDIR", left.path()));
    let said = text(&run.stdout);
    assert!(run.status.success(), "{said}{}", text(&run.stderr));
    assert_eq!(text(&run.stderr), "");
    // Where the server was is another place each time.
    let (first, rest) = said.split_once('\n').expect("lines");
    assert!(first.starts_with("a Postgres of its own runs on a socket in "), "{said}");
    // The page of examples shows the rest, to the letter.
    let sample = PAGE.split("cargo run -p outbox\n").nth(1).expect("the command");
    let sample =
        sample.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a sample");
    assert_eq!(rest.trim(), sample.trim());
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert_eq!(files_in(&left), 0, "its directory is still there");
}

#[test]
fn on_a_server_that_it_is_given_it_removes_what_it_made() {
    if !has_postgres() {
        return;
    }
    let server = Server::start().expect("a server");
    let run = finished(example(&[&server.url()]).env("PATH", ""));
    let said = text(&run.stdout);
    assert!(run.status.success(), "{said}{}", text(&run.stderr));
    assert!(said.contains("\nall is well: 2 orders placed"), "{said}");
    assert!(!said.contains("of its own"), "{said}");
    let left = finished(
        Command::new(programs_here().expect("programs").join("psql"))
            .args(["-XAtq", &server.url(), "-c"])
            .arg("SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname LIKE 'outbox%'"),
    );
    assert!(left.status.success(), "{}", text(&left.stderr));
    assert_eq!(text(&left.stdout).trim(), "");
    let directory = server.directory().to_owned();
    drop(server);
    assert!(!directory.exists(), "its directory is still there");
}

#[test]
fn an_interrupt_leaves_no_server_and_no_file() {
    if !has_postgres() {
        return;
    }
    for signal in ["INT", "KILL"] {
        let left = open_directory();
        let mut run = example(&[]).env("TMPDIR", left.path()).stdout(Stdio::null()).spawn().expect("starts");
        let has_socket = || {
            let made = std::fs::read_dir(left.path()).expect("a directory").flatten();
            made.into_iter().any(|made| made.path().join(".s.PGSQL.5432").exists())
        };
        assert!(within(has_socket), "it starts a server");
        let sent = Command::new("kill").args(["-s", signal, &run.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        ended(&mut run);
        // With SIGKILL, by the shell that it leaves behind.
        assert!(within(|| files_in(&left) == 0), "{signal}: its directory is still there");
    }
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let refused = |words: &[&str], code, why: &str| {
        let run = finished(&mut example(words));
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1 && !said.contains("hunter2"), "{said}");
    };
    for words in [&["localhost"][..], &["--url=postgres://x"], &["postgres://a@b/c", "d"]] {
        refused(words, 2, "postgres://");
    }
    let nobody = "postgres://shop:hunter2@127.0.0.1:1/shop?sslmode=disable";
    refused(&[nobody], 1, "cannot open the database: ");
    let help = finished(&mut example(&["--help"]));
    assert!(help.status.success() && text(&help.stdout).contains("sslmode=disable"));
    assert!(text(&help.stdout).lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_machine_without_postgres_is_told_what_to_install() {
    let none = tempfile::tempdir().expect("a directory");
    let found = |path: &Path| programs(none.path(), Some(path.as_os_str()));
    assert_eq!(found(none.path()), None);
    assert_eq!(programs(none.path(), None), None);
    assert!(
        INSTALL.contains("apt install postgresql") && INSTALL.contains("cargo run -p outbox -- postgres://")
    );

    let installed = |name: &str| {
        let bin = none.path().join(name).join("bin");
        std::fs::create_dir_all(&bin).expect("made");
        for program in ["initdb", "pg_ctl"] {
            std::fs::write(bin.join(program), "").expect("written");
        }
        bin
    };
    let ours = installed("somewhere");
    assert_eq!(found(&ours), Some(ours.clone()), "on the path");
    let (_, newer) = (installed("9"), installed("15"));
    assert_eq!(found(&ours), Some(newer), "Debian's newest");
}

#[test]
fn a_charge_too_many_or_too_few_is_not_well() {
    let line = |order, expected, placed, charges| Line { order, expected, placed, charges, requests: 1 };
    let well = |lines, others| {
        let report = Report { lines, others };
        assert_eq!(report.text().contains("all is well"), report.is_well());
        assert_eq!(report.text().contains("NOT WELL"), !report.is_well());
        report.is_well()
    };
    assert!(well(vec![line(1, true, true, 1), line(2, false, false, 0)], 0));
    assert!(!well(vec![line(1, true, true, 0)], 0), "an order without its charge");
    assert!(!well(vec![line(1, true, true, 2)], 0), "a second charge");
    assert!(!well(vec![line(1, false, false, 1)], 0), "a charge without its order");
    assert!(!well(vec![line(1, false, true, 1)], 0), "an order that was to be rolled back");
    assert!(!well(vec![line(1, true, false, 0)], 0), "an order that is lost");
    assert!(!well(vec![line(1, true, true, 1)], 1), "a charge of nobody's");
}

#[test]
fn what_a_reader_copies_is_one_file_of_under_120_lines_that_names_nothing_of_the_example() {
    assert!(SHOP.lines().count() < 120, "{} lines", SHOP.lines().count());
    for foreign in ["crate::", "super::", "testkit", "#[allow", "#[expect"] {
        assert!(!SHOP.contains(foreign), "shop.rs says {foreign}");
    }
}

fn example(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outbox"));
    command.args(words);
    command
}

/// The output of a command, if it ended within its time. This output fits into a pipe.
fn finished(command: &mut Command) -> Output {
    let run = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut run = run.expect("starts");
    ended(&mut run);
    run.wait_with_output().expect("is ours")
}

fn ended(run: &mut Child) {
    let deadline = Instant::now() + RUN_MAX;
    while run.try_wait().expect("is ours").is_none() {
        if Instant::now() > deadline {
            let _ = run.kill();
            panic!("it still runs");
        }
        sleep(LOOK_EVERY);
    }
}

fn within(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + RUN_MAX;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(LOOK_EVERY);
    }
    true
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory that also the user whom the server runs as may pass.
fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    directory
}

fn files_in(directory: &TempDir) -> usize {
    std::fs::read_dir(directory.path()).expect("a directory").count()
}

fn programs_here() -> Option<PathBuf> {
    programs(Path::new("/usr/lib/postgresql"), std::env::var_os("PATH").as_deref().map(OsStr::new))
}

/// Says that a test cannot run here, and fails where everything must be tested.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn has_postgres() -> bool {
    let found = programs_here().is_some();
    if !found {
        let why = "this machine has no Postgres (initdb); the example outbox is not run";
        assert!(std::env::var_os("STEADFAST_NO_SKIP").is_none(), "{why}");
        eprintln!("skipped: {why}");
    }
    found
}
