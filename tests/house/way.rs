//! The engine's files: in which direction they import each other, and the way of a call through them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use support::members::root;

/// The files that a keyed POST passes at most.
const WAY_MAX: usize = 15;

#[test]
fn no_two_files_of_the_engine_import_each_other() {
    let imports = imports();
    let both = |one: &String, other: &String| imports[one].contains(other) && imports[other].contains(one);
    let pairs: Vec<_> = imports
        .keys()
        .flat_map(|one| imports.keys().map(move |other| (one, other)))
        .filter(|(one, other)| one < other && both(one, other))
        .collect();
    assert!(pairs.is_empty(), "{pairs:?}");
    assert!(imports["driver"].contains("attempt") && imports["entry"].contains("parts"), "{imports:?}");
}

#[test]
fn the_life_of_a_call_lists_its_files_in_an_order_in_which_each_imports_later_ones_only() {
    let page = fs::read_to_string(root().join("src/docs/life_of_a_call.md")).expect("the page");
    let (way, beside) = page.split_once("\n## Beside the way").expect("two lists");
    let way: Vec<String> = way.lines().filter(|line| is_numbered(line)).flat_map(files).collect();
    assert!(!way.is_empty() && way.len() <= WAY_MAX, "{} files: {way:?}", way.len());
    let imports = imports();
    for (place, file) in way.iter().enumerate() {
        let earlier: Vec<_> =
            way[..place].iter().filter(|earlier| imports[file].contains(*earlier)).collect();
        assert!(earlier.is_empty(), "{file}.rs imports {earlier:?}");
    }
    let beside = beside.lines().filter(|line| line.starts_with("| [")).flat_map(files);
    let listed: BTreeSet<String> = way.iter().cloned().chain(beside).collect();
    assert_eq!(listed, imports.keys().cloned().collect(), "each file is on the way, or beside it");
}

fn is_numbered(line: &str) -> bool {
    line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The files that a row of a table names, in its column of files.
fn files(row: &str) -> Vec<String> {
    let column = row.split(" | ").find(|column| column.contains("[`")).unwrap_or_default();
    column.split("[`").skip(1).filter_map(|rest| Some(rest.split_once(".rs`]")?.0.to_owned())).collect()
}

/// The files of the engine and `call.rs`, each with those that it imports.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let engine = root().join("src/engine");
    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(&engine).expect("the engine") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        sources.insert(name, fs::read_to_string(path).expect("a file"));
    }
    sources.insert("call".to_owned(), fs::read_to_string(root().join("src/call.rs")).expect("a file"));
    let room = fs::read_to_string(root().join("src/engine.rs")).expect("the room");
    // The room's file names what other files have: `pub(crate) use parts::Engine;`.
    let homes: BTreeMap<String, String> = statements(&room, "pub(crate) use ")
        .flat_map(|(path, names)| names.into_iter().map(move |name| (name, path.clone())))
        .collect();
    let home = |name: &str| {
        if sources.contains_key(name) { Some(name.to_owned()) } else { homes.get(name).cloned() }
    };
    let of = |text: &str| {
        let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        ["use super::", "use crate::engine::"]
            .into_iter()
            .flat_map(|start| statements(own, start).flat_map(|(path, names)| [vec![path], names].concat()))
            .filter_map(|name| home(&name))
            .collect::<BTreeSet<_>>()
    };
    sources.iter().map(|(name, text)| (name.clone(), &of(text) - &BTreeSet::from([name.clone()]))).collect()
}

/// The `use` statements that begin so: the first part of each path, and the names behind it.
fn statements<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = (String, Vec<String>)> + 'a {
    text.split(start).skip(1).flat_map(|rest| {
        let statement = rest.split(';').next().unwrap_or_default().replace(['\n', ' '], "");
        let parts = match statement.strip_prefix('{') {
            None => vec![statement],
            Some(group) => group.trim_end_matches('}').split(',').map(str::to_owned).collect(),
        };
        parts.into_iter().filter(|part| !part.is_empty()).map(|part| {
            let (path, names) = part.split_once("::").unwrap_or((&part, ""));
            let names = names.trim_matches(['{', '}']).split(',').map(str::to_owned).collect();
            (path.to_owned(), names)
        })
    })
}
