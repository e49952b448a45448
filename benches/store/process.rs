//! The part that is measured, in a process of its own.
//!
//! SQLite counts the page caches of all connections of a process as one, so that of two files in one process each
//! takes pages from the other. A process and its file stay over all rounds, as a service's do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// This program once more, with a part of it to serve.
pub(super) struct Process {
    child: Child,
    asked: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Process {
    pub(super) fn start(arguments: &[&str]) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (asked, told) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Process { child, asked, told: BufReader::new(told) }
    }

    /// Has it measure, and gives what it measured.
    pub(super) fn ask(&mut self, what: &str) -> f64 {
        let asked = self.asked.as_mut().expect("it is open until this is dropped");
        writeln!(asked, "{what}").expect("it reads");
        let mut told = String::new();
        self.told.read_line(&mut told).expect("it tells");
        told.trim().parse().expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends with what it reads.
        self.asked = None;
        let _ = self.child.wait();
    }
}

/// The words after `option` if this process was started with it.
pub(super) fn arguments_of(option: &str) -> Option<Vec<String>> {
    let mut arguments = std::env::args();
    arguments.any(|argument| argument == option).then(|| arguments.collect())
}

/// Answers each line that is read with what `measure` makes of its words, until there is no more to read.
pub(super) fn serve(mut measure: impl FnMut(&[&str]) -> f64) {
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        println!("{:.2}", measure(&line.split(' ').collect::<Vec<_>>()));
    }
}

/// A number among the words.
pub(super) fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}
