//! Where a type's methods are. A type has its methods in its own file, and one of more than 400 lines of code is two
//! types. A handle that users hold may have a file for each group of methods that call no other group.
//!
//! Sources are read as rustfmt writes them: what is not within another item begins a line, and so does its last brace.
//! An extension trait of `easy-ext` is a trait, and may be anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use support::members::{Member, members};

use super::{code_before_tests, is_code};

/// Handles, by package: files beside their own hold groups of methods.
const HANDLES: &[&str] =
    &["steadfast::Call", "steadfast::Client", "steadfast::KeyedConfig", "steadfast_core::Error"];

/// Types whose methods are in many files yet, or that are two, each with the step that mends it.
const NOT_YET: &[(&str, &str)] = &[
    ("steadfast::DeadLetters", "its groups call each other: what they share becomes a type of its own"),
    ("steadfast::Engine", "the questions about what is on record become a type of their own"),
    ("steadfast_core::Inner", "the rows in memory, behind one lock"),
    ("steadfast_core::Record", "one state machine: transitions become functions"),
    ("steadfast_core::Run", "a copy under way"),
    ("steadfast_core::Side", "the same"),
    ("steadfast_fakes::Hook", "as Machine"),
    ("steadfast_fakes::Hooks", "as Machine"),
    ("steadfast_fakes::Items", "as Machine"),
    ("steadfast_fakes::Machine", "a vendor's state: its resources become types"),
    ("steadfast_fakes::Objects", "as Machine"),
    ("steadfast_fakes::Server", "as Machine"),
    ("steadfast_postgres::Shared", "its questions become functions"),
    ("steadfast_testkit::Conformance", "its suite is functions of a case"),
];

/// Of its definition and its methods, without documentation and tests.
const TYPE_LINES_MAX: usize = 400;

#[test]
fn a_type_has_its_methods_in_its_own_file_and_fits_one_page() {
    let mut wrong = Vec::new();
    let handles: BTreeSet<_> = HANDLES.iter().copied().collect();
    let not_yet: BTreeSet<_> = NOT_YET.iter().map(|(name, _)| *name).collect();
    let mut stale = &handles | &not_yet;
    for member in members() {
        for (name, kind) in kinds(&member) {
            let (entry, faults) = (format!("{}::{name}", member.crate_name()), kind.faults(&name));
            if handles.contains(entry.as_str()) {
                wrong.extend(kind.calls_between_groups(&name));
            } else if !not_yet.contains(entry.as_str()) {
                wrong.extend(faults);
                continue;
            }
            if !faults.is_empty() {
                stale.remove(entry.as_str());
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(stale.is_empty(), "listed, and as it should be: {stale:?}");
}

/// The code of one type.
#[derive(Default)]
struct Kind {
    home: PathBuf,
    /// The lines of its definition, its methods, and the traits that it has in its own file.
    lines: usize,
    /// The methods in its own file are not among them: their code by the file that they are in.
    away: BTreeMap<PathBuf, String>,
}

impl Kind {
    fn faults(&self, name: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (file, code) in &self.away {
            let lines = code.lines().count();
            let (file, home) = (file.display(), self.home.display());
            faults.push(format!("{file}: {lines} lines of {name}, whose own file is {home}"));
        }
        if self.lines > TYPE_LINES_MAX {
            faults.push(format!("{}: {name} has {} lines: it is two types", self.home.display(), self.lines));
        }
        faults
    }

    fn calls_between_groups(&self, name: &str) -> Vec<String> {
        let mut calls = Vec::new();
        for (file, code) in &self.away {
            for (other, theirs) in self.away.iter().filter(|(other, _)| *other != file) {
                for method in methods(theirs) {
                    if [format!("self.{method}("), format!("{name}::{method}("), format!("Self::{method}(")]
                        .iter()
                        .any(|call| code.contains(call))
                    {
                        calls.push(format!(
                            "{}: {name}::{method} is of another group, in {}",
                            file.display(),
                            other.display()
                        ));
                    }
                }
            }
        }
        calls
    }
}

fn methods(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let head = line.strip_prefix("    ").filter(|head| !head.starts_with(' '))?;
        let (before, after) = head.split_once("fn ")?;
        let is_head = before.split_whitespace().all(|word| {
            word.starts_with("pub") || matches!(word, "async" | "const" | "unsafe") || word.ends_with(')')
        });
        is_head.then(|| after.split(['(', '<']).next().unwrap_or_default())
    })
}

/// An item that begins a line, up to its last brace.
struct Block {
    file: PathBuf,
    head: String,
    code: String,
    is_extension: bool,
}

fn blocks(file: &Path, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let (mut lines, mut before) = (code_before_tests(text).lines(), "");
    while let Some(line) = lines.next() {
        let is_extension = before.starts_with("#[ext(") || before.starts_with("#[easy_ext::ext(");
        if is_code(line) && !line.starts_with("#[allow") {
            before = line;
        }
        let item = match line.strip_prefix("pub(") {
            Some(limited) => limited.split_once(") ").map_or(line, |(_, item)| item),
            None => line.trim_start_matches("pub "),
        };
        if !line.starts_with("impl")
            && !["struct ", "enum ", "union "].iter().any(|word| item.starts_with(word))
        {
            continue;
        }
        let (mut head, mut code) = (item.to_owned(), String::new());
        while !head.ends_with('{') && !head.ends_with('}') && !head.ends_with(';') {
            let Some(more) = lines.next() else { break };
            head = format!("{head} {}", more.trim());
        }
        if head.ends_with('{') {
            for inner in lines.by_ref().take_while(|inner| *inner != "}") {
                if is_code(inner) {
                    code.extend([inner, "\n"]);
                }
            }
        }
        found.push(Block { file: file.to_owned(), head, code, is_extension });
    }
    found
}

/// The types that one package defines, by name. Of several of one name, each has what is nearest to it.
fn kinds(member: &Member) -> Vec<(String, Kind)> {
    let is_test = |path: &Path| path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
    let sources = member.sources().into_iter().filter(|(path, _)| !is_test(path));
    let blocks: Vec<_> = sources.flat_map(|(path, text)| blocks(&path, &text)).collect();
    let mut kinds: BTreeMap<(String, PathBuf), Kind> = BTreeMap::new();
    for block in blocks.iter().filter(|block| !block.head.starts_with("impl")) {
        let name = word(block.head.split_once(' ').map_or("", |(_, name)| name));
        let home = block.file.clone();
        let lines = block.code.lines().count();
        kinds.insert((name.to_owned(), home.clone()), Kind { home, lines, away: BTreeMap::new() });
    }
    for block in blocks.iter().filter(|block| block.head.starts_with("impl") && !block.is_extension) {
        let (of, is_trait) = subject(&block.head);
        let mut homes: Vec<_> =
            kinds.keys().filter(|(name, _)| *name == of).map(|(_, home)| home.clone()).collect();
        homes.sort_by_key(|home| common(home, &block.file));
        // Of a generic type, what is for one type alone is that type's.
        let is_for_one = kinds.contains_key(&(argument(&block.head).to_owned(), block.file.clone()));
        let Some(home) = homes.pop().filter(|_| !is_for_one) else { continue };
        let Some(kind) = kinds.get_mut(&(of.to_owned(), home)) else { continue };
        let is_home = kind.home == block.file;
        if is_home || !is_trait {
            kind.lines += block.code.lines().count();
        }
        if !is_home && !is_trait {
            kind.away.entry(block.file.clone()).or_default().push_str(&block.code);
        }
    }
    kinds.into_iter().map(|((name, _), kind)| (name, kind)).collect()
}

/// How near two files are: the file itself is nearest.
fn common(one: &Path, other: &Path) -> usize {
    let module = |path: &Path| path.with_extension("");
    let (one, other) = (module(one), module(other));
    let same = one.iter().zip(other.iter()).take_while(|(one, other)| one == other).count();
    same * 2 + usize::from(one == other)
}

/// Whose methods they are, and whether they are of a trait.
fn subject(head: &str) -> (&str, bool) {
    let mut rest = head.trim_start_matches("impl");
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, c)| {
            depth += i32::from(*c == '<') - i32::from(*c == '>' && !rest[..*at].ends_with('-'));
            depth == 0
        });
        rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    }
    match rest.split_once(" for ") {
        Some((_, of)) => (word(of.trim_start_matches('&')), true),
        None => (word(rest), false),
    }
}

/// The type that a type is generic over, if it is one.
fn argument(head: &str) -> &str {
    head.trim_end_matches("> {").rsplit_once('<').map_or("", |(_, argument)| word(argument))
}

/// The last name of the path that a text begins with.
fn word(text: &str) -> &str {
    let path = text.trim_start().split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next();
    path.unwrap_or_default().rsplit("::").next().unwrap_or_default()
}
