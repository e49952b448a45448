//! However the example ends, no worker and no file outlives it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use support::in_memory;

use crate::example;

/// Generous: the machine may be busy.
const LOOKS_MAX: usize = 500;
const LOOK_EVERY: Duration = Duration::from_millis(20);

struct Running {
    child: Child,
    worker: u32,
    directory: TempDir,
}

#[test]
fn an_interrupt_ends_the_worker_and_removes_the_files() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut run = start();
        // To its whole process group, as a terminal does.
        send(signal, &format!("-{}", run.child.id()));
        assert_eq!(run.child.wait().expect("is ours").code(), Some(code), "{signal}");
        assert!(!exists(run.worker), "{signal}: the worker runs on");
        assert_eq!(files_in(&run.directory), 0, "{signal}: its directory is still there");
    }
}

#[test]
fn a_worker_whose_parent_is_killed_ends() {
    let mut run = start();
    run.child.kill().expect("killed");
    run.child.wait().expect("is ours");
    assert!(within(|| !exists(run.worker)), "the worker runs on");
}

#[test]
fn a_worker_that_dies_by_itself_is_an_error_and_nothing_stays() {
    let mut run = start();
    send("KILL", &run.worker.to_string());
    assert_eq!(run.child.wait().expect("is ours").code(), Some(1));
    assert_eq!(files_in(&run.directory), 0, "its directory is still there");
}

/// Runs the example until its worker does.
fn start() -> Running {
    let directory = in_memory::directory();
    let mut child = example()
        .process_group(0)
        .env("TMPDIR", directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // Its first line of progress. The rest is read too, so that it never waits for a reader.
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    said.read_line(&mut String::new()).expect("a line");
    std::thread::spawn(move || said.lines().count());
    let mut worker = None;
    assert!(within(|| {
        worker = child_of(child.id());
        worker.is_some()
    }));
    Running { worker: worker.expect("a worker"), child, directory }
}

fn within(mut is_so: impl FnMut() -> bool) -> bool {
    (0..LOOKS_MAX).any(|_| {
        is_so() || {
            sleep(LOOK_EVERY);
            false
        }
    })
}

fn send(signal: &str, to: &str) {
    let sent = Command::new("kill").args(["-s", signal, "--", to]).status();
    assert!(sent.expect("kill is there").success());
}

fn child_of(parent: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Whether the process runs. One that has ended and that nobody has waited for does not.
fn exists(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn files_in(directory: &TempDir) -> usize {
    std::fs::read_dir(directory.path()).expect("a directory").count()
}
