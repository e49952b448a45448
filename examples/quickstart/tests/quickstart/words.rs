//! The arguments that can be typed: each form is read, and what makes no sense is named before anything starts.

use std::ffi::OsString;

use quickstart::arguments::{Arguments, Asked};

use crate::example;

fn parsed(words: &[&str]) -> Arguments {
    match Asked::parse(words.iter().map(OsString::from)) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Help) => panic!("help, for {words:?}"),
        Err(problem) => panic!("{words:?}: {problem}"),
    }
}

#[test]
fn a_value_follows_its_option_as_a_word_of_its_own_or_behind_an_equals_sign() {
    let none = Arguments { json: false, seed: 1, keep: None };
    assert_eq!(parsed(&[]), none);
    for words in [&["--seed", "7", "--json"][..], &["--json", "--seed=7"]] {
        assert_eq!(parsed(words), Arguments { json: true, seed: 7, keep: None }, "{words:?}");
    }
    for words in [&["--keep", "a=b"][..], &["--keep=a=b"]] {
        assert_eq!(parsed(words).keep, Some("a=b".into()), "{words:?}");
    }
    // The last one counts, as with most programs.
    assert_eq!(parsed(&["--seed=7", "--seed", "8"]).seed, 8);
}

#[test]
fn a_wrong_argument_is_named_before_anything_starts() {
    for (words, named) in [
        (&["--sed", "1"][..], "unknown argument \"--sed\""),
        (&["--sed=1"], "unknown argument \"--sed=1\""),
        (&["7"], "unknown argument \"7\""),
        (&["--json=yes"], "unknown argument \"--json=yes\""),
        (&["--seed"], "--seed needs a number"),
        (&["--seed="], "--seed needs a number"),
        (&["--seed", "x"], "\"x\""),
        (&["--seed=-1"], "\"-1\""),
        (&["--keep"], "--keep needs a folder"),
        (&["--keep="], "--keep needs a folder"),
    ] {
        let run = example().args(words).output().expect("starts");
        assert_eq!(run.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(said.contains(named), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
    }
}

#[test]
fn help_names_every_option_and_starts_nothing() {
    for word in ["--help", "-h"] {
        let run = example().args(["--json", word]).output().expect("starts");
        assert!(run.status.success());
        let said = String::from_utf8(run.stdout).expect("text");
        for option in ["--seed N", "--json", "--keep DIR", "--help", "fifteen seconds"] {
            assert!(said.contains(option), "{option}: {said}");
        }
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        assert!(run.stderr.is_empty());
    }
}
