//! The example on a terminal of 80 columns and 24 lines, the smallest that people have: tmux is one, and tells
//! what is on its screen.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use support::in_memory;

const PAGE: &str = include_str!("../../../../src/docs/examples.md");

const COLUMNS: usize = 80;
const LINES: usize = 24;

/// The text that is shown when the example has ended, where a shell shows its prompt.
const PROMPT: &str = "ended with";

/// Generous: the machine may be busy.
const RUN_MAX: Duration = Duration::from_secs(200);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A tmux server of the test's own, with its files and the program's in one directory.
struct Terminal {
    directory: TempDir,
}

impl Terminal {
    /// `None` if there is no tmux here.
    fn running(command: &str) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("there is no tmux here");
            return None;
        }
        let terminal = Terminal { directory: in_memory::directory() };
        // The status line would take one of the 24 lines.
        std::fs::write(terminal.directory.path().join("tmux.conf"), "set -g status off\n").expect("written");
        let shell = format!("{command}; printf '{PROMPT} %s $ ' $?; exec cat");
        let (columns, lines) = (COLUMNS.to_string(), LINES.to_string());
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &lines, &shell]);
        Some(terminal)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let directory = self.directory.path();
        let ended = Command::new("tmux")
            .arg("-S")
            .arg(directory.join("socket"))
            .arg("-f")
            .arg(directory.join("tmux.conf"))
            .args(words)
            .current_dir(directory)
            // Within somebody's own tmux it would refuse to nest.
            .env_remove("TMUX")
            .output()
            .expect("tmux runs");
        text(&ended)
    }

    fn screen(&self) -> Vec<String> {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The screen once the command has ended.
    fn at_the_end(&self) -> Vec<String> {
        let deadline = Instant::now() + RUN_MAX;
        loop {
            let screen = self.screen();
            if screen.iter().any(|line| line.starts_with(PROMPT)) {
                return screen;
            }
            assert!(Instant::now() < deadline, "still running:\n{}", screen.join("\n"));
            sleep(LOOK_EVERY);
        }
    }

    /// Nothing has scrolled away, and no line was longer than the terminal is wide.
    fn held_everything(&self) {
        let screen = self.screen();
        assert_eq!(self.tmux(&["display-message", "-p", "#{pane_width}x#{pane_height}"]).trim(), "80x24");
        assert_eq!(self.tmux(&["display-message", "-p", "#{history_size}"]).trim(), "0", "{screen:#?}");
        // With the lines that the terminal broke put together again.
        let whole = self.tmux(&["capture-pane", "-p", "-J"]);
        let whole: Vec<_> = whole.lines().map(str::trim_end).collect();
        assert_eq!(screen, whole, "a line was too long");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

pub fn it_fits_on_a_small_terminal_and_ends_with_a_verdict() {
    let Some(terminal) = Terminal::running(&example("")) else { return };
    let screen = terminal.at_the_end();
    terminal.held_everything();
    let shown = ends_well(&screen);
    // An empty line sets the table apart.
    assert!(shown.contains(&""), "{screen:#?}");
    // The page of examples shows it as it is, but for the numbers.
    let shapes: Vec<String> = shown.iter().map(|line| shape(line)).collect();
    let sample = PAGE.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a sample");
    // Not every run ends with an effect that is unknown.
    for line in sample.lines().filter(|line| !line.contains("UNKNOWN.effect")) {
        assert!(shapes.contains(&shape(line)), "the page shows {line:?}, the screen {screen:#?}");
    }
}

/// A line without what differs from run to run.
fn shape(line: &str) -> String {
    let words = line.replace(|c: char| c.is_ascii_digit(), "").replace("dead letters", "dead letter");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn the_commands_that_it_prints_for_a_kept_store_work_as_they_are_typed() {
    let Some(terminal) = Terminal::running(&example("--keep kept")) else { return };
    let screen = terminal.at_the_end();
    terminal.held_everything();
    let shown = ends_well(&screen);

    let exported = shown.iter().find_map(|line| line.split_once("the store is kept: ")).expect("an export").1;
    assert_eq!(exported, "export STEADFAST_STORE=kept/vendor-calls.db");
    let commands: Vec<&str> =
        shown.iter().filter_map(|line| line.split_once("  cargo run ")).map(|(_, command)| command).collect();
    assert_eq!(commands.len(), 3, "{screen:#?}");
    let Some(command_line) = command_line() else { return };
    for (command, says) in commands.into_iter().zip(["succeeded", "RATE_LIMIT.exceeded", "dead:"]) {
        let (_, words) = command.split_once(" -- ").expect("cargo's words, then the command's");
        let typed = format!("{exported}\n{} {words}", command_line.display());
        // As in a container: nobody is logged in.
        let ran = Command::new("sh")
            .args(["-c", &typed])
            .env_clear()
            .current_dir(terminal.directory.path())
            .output()
            .expect("a shell");
        let said = text(&ran);
        assert!(said.contains(says), "{typed}: {said}");
    }
    // A second run does not mix its records with these.
    let again = crate::example().args(["--keep", "kept"]).current_dir(terminal.directory.path()).output();
    let again = again.expect("starts");
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("kept/vendor-calls.db is there already"));
}

/// The text on the screen, if it starts with the first line and ends with the verdict.
fn ends_well(screen: &[String]) -> Vec<&str> {
    let mut shown: Vec<&str> = screen.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown.pop(), Some("ended with 0 $"), "{screen:#?}");
    assert_eq!(shown[0], "200 orders through three vendors that misbehave, seed 1", "{screen:#?}");
    let verdict = "all is well: 200 orders, one kill -9, 0 duplicates, 0 lost";
    assert_eq!(shown.last(), Some(&verdict), "{screen:#?}");
    for counted in ["operations", "attempts", "effects", "duplicates", "lost", "found", "dead letters"] {
        assert!(shown.iter().any(|line| line.trim_start().starts_with(counted)), "{counted}: {screen:#?}");
    }
    // Why there are fewer effects than operations.
    assert!(shown.iter().any(|line| line.contains("effects for 600 operations")), "{screen:#?}");
    assert!(shown.iter().any(|line| line.contains("RATE_LIMIT.exceeded at postmark")), "{screen:#?}");
    let end = screen.iter().rposition(|line| line.starts_with(PROMPT)).expect("a prompt");
    screen[..end].iter().map(String::as_str).collect()
}

/// In an environment as a container has it.
fn example(words: &str) -> String {
    let program = env!("CARGO_BIN_EXE_quickstart");
    let place = in_memory::place().map_or_else(std::env::temp_dir, Path::to_owned);
    format!("env -i TERM=\"$TERM\" PATH=\"$PATH\" TMPDIR='{}' '{program}' {words}", place.display())
}

/// The program `steadfast`, if cargo has built it beside the example: as the README's test command does, and as a
/// build of this package alone does not.
fn command_line() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_quickstart")).parent().expect("target/PROFILE");
    let program = folder.join(format!("steadfast{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        skip("the command line is not built: `cargo test --workspace --features testkit` does");
        return None;
    }
    Some(program)
}

fn text(ended: &Output) -> String {
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {error}", ended.status);
    String::from_utf8(ended.stdout.clone()).expect("text")
}

/// Says that a test cannot run here, and fails where everything must be tested.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skip(why: &str) {
    assert!(std::env::var_os("STEADFAST_NO_SKIP").is_none(), "{why}");
    eprintln!("skipped: {why}");
}
