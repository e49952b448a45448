//! Manual pages, completions and help.

use std::collections::BTreeSet;

use super::TestDirectory;

/// Returns every command, as its manual page is named, without those that have subcommands.
pub fn commands() -> BTreeSet<String> {
    let pages = pages();
    let leaf = |(_, page): &&(String, String)| !page.contains(".SH SUBCOMMANDS");
    let name = |(file, _): &(String, String)| {
        let name = file.trim_start_matches("steadfast-").trim_end_matches(".1");
        name.replacen("dead-letters-", "dead-letters ", 1)
    };
    pages.iter().filter(leaf).map(name).collect()
}

/// Returns the files and their contents.
fn pages() -> Vec<(String, String)> {
    let place = TestDirectory::fresh();
    let result = place.run_with(&[], &["man", "--out", "share/man1"]).ended(0);
    let mut pages: Vec<(String, String)> = std::fs::read_dir(place.path("share/man1"))
        .expect("a directory")
        .map(|file| {
            let file = file.expect("a file");
            let page = std::fs::read_to_string(file.path()).expect("text");
            (file.file_name().into_string().expect("text"), page)
        })
        .collect();
    pages.sort();
    let written: BTreeSet<&str> = result.lines().collect();
    assert_eq!(written.len(), pages.len());
    assert!(pages.iter().all(|(file, _)| written.contains(&format!("share/man1/{file}")[..])), "{result}");
    pages
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes() {
    let commands = commands();
    for command in ["stats", "show", "check", "dead-letters list", "dead-letters redrive", "man"] {
        assert!(commands.contains(command), "{commands:?}");
    }
    let pages = pages();
    assert_eq!(pages.len(), commands.len() + 2, "those, steadfast and steadfast-dead-letters");
    for (file, page) in &pages {
        for expected in [".SH NAME", ".SH SYNOPSIS", ".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "STEADFAST_BY"]
        {
            assert!(page.contains(expected), "{file} has no {expected}:\n{page}");
        }
        assert!(page.contains("IN EVERY COMMAND"), "{file}:\n{page}");
        let title =
            format!(".TH {} 1  \"steadfast {}", file.trim_end_matches(".1"), env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&title), "{file} has no {title}:\n{page}");
    }
    let redrive =
        &pages.iter().find(|(file, _)| file == "steadfast-dead-letters-redrive.1").expect("there").1;
    let synopsis = redrive.lines().find(|line| line.contains("\\-\\-why")).expect("a synopsis");
    let places: Vec<_> =
        ["yes", "vendor\\", "why", "store", "help"].iter().map(|name| synopsis.find(name)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{synopsis}");
    let place = TestDirectory::fresh();
    let one = place.run_with(&[], &["man"]).ended(0);
    let whole = pages.iter().find(|(file, _)| file == "steadfast.1").expect("the program's own");
    assert_eq!(one, whole.1);
    for command in commands.iter().filter(|command| !command.contains(' ')) {
        assert!(one.contains(&format!("steadfast\\-{command}(1)")), "{command}:\n{one}");
    }
}

#[test]
fn the_completions_of_every_shell_know_every_command_and_option() {
    let place = TestDirectory::fresh();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.run_with(&[], &["completions", shell]).ended(0);
        for command in commands() {
            for word in command.split(' ') {
                assert!(script.contains(word), "{shell} does not know {word}");
            }
        }
        for option in ["wire-key", "not-applied", "dry-run"] {
            assert!(script.contains(option), "{shell} does not know {option}");
        }
        let completes_values = matches!(shell, "bash" | "fish" | "zsh");
        assert_eq!(script.contains("exhausted"), completes_values, "{shell} and the values of --reason");
    }
    assert_eq!(place.run_with(&[], &["completions", "csh"]).code, 2);
}

#[test]
fn manual_pages_that_cannot_be_written_are_named() {
    let place = TestDirectory::fresh();
    let result = place.run_with(&[], &["man", "--out", "vendors.toml"]);
    assert_eq!(result.code, 5);
    assert!(result.err.starts_with("steadfast: vendors.toml cannot be written: "), "{}", result.err);
}

#[test]
fn the_help_documents_every_exit_code_and_variable() {
    let place = TestDirectory::fresh();
    let help = place.run_with(&[], &["--help"]).ended(0);
    for expected in [
        "0  done; also when nothing matched",
        "1  something was refused",
        "2  the arguments",
        "3  the store",
        "4  the vendors file",
        "5  another file",
        "6  there is no such operation",
        "STEADFAST_STORE",
        "STEADFAST_VENDORS",
        "STEADFAST_SEAL_KEYS",
        "STEADFAST_BY",
        "LOGNAME",
    ] {
        assert!(help.contains(expected), "no {expected}:\n{help}");
    }
    assert!(place.run_with(&[], &["--version"]).ended(0).starts_with("steadfast "));
}

#[test]
fn options_come_in_the_same_order_in_every_command() {
    let place = TestDirectory::fresh();
    let order = [
        "Usage:",
        "Arguments:",
        "Options:",
        "Which dead letters (all parts must match):",
        "Who does it, and why:",
        "In every command:",
        "  --store",
        "  --vendors",
        "  --json",
        "  -h, --help",
    ];
    for command in commands() {
        let words: Vec<&str> = command.split(' ').chain(["-h"]).collect();
        let help = place.run_with(&[], &words).ended(0);
        let places: Vec<usize> = order.iter().filter_map(|part| help.find(part)).collect();
        assert!(places.is_sorted(), "{command}:\n{help}");
        assert!(order[5..].iter().all(|part| help.contains(part)), "{command}:\n{help}");
    }
    let redrive = place.run_with(&[], &["dead-letters", "redrive", "-h"]).ended(0);
    let options =
        ["--all", "--yes", "--dry-run", "--force", "--vendor <", "--wire-key", "--by", "--why", "--store"];
    let places: Vec<_> = options.iter().map(|option| redrive.find(&format!("  {option}"))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{redrive}");
}
