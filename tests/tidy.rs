//! Taste that a machine can check: who imports whom, how long files are, and that nothing is left for later.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/words.rs"]
mod words;

/// The rooms of the house, by the first part of their path, and the floor each is on. `testkit` and
/// `telemetry` stand beside: everybody from the floor given may import them.
const FLOORS: &[(&str, u32)] = &[
    ("answer", 1),
    ("attempt", 1),
    ("clock", 1),
    ("error", 1),
    ("guard", 1),
    ("mismatch", 1),
    ("random", 1),
    ("request", 1),
    ("suggest", 1),
    ("visible", 1),
    ("operation", 2),
    ("policy", 2),
    ("reply", 2),
    ("store", 3),
    ("telemetry", 3),
    ("transport", 3),
    ("vendor", 3),
    ("engine", 4),
    ("inbound", 4),
    ("call", 5),
    ("client", 5),
    ("dead_letter", 5),
    ("dispatcher", 5),
    ("enqueued", 5),
    ("outbox", 5),
    ("config", 6),
    ("bin", 7),
    ("guide", 7),
    ("testkit", 7),
];

/// Files of more lines of code than [`CODE_LINES_MAX`], each with the answer to why.
const LONG_FILES: &[(&str, &str)] = &[
    ("src/error.rs", "one error type, its kinds, predicates and codes: a reader wants them together"),
    ("src/operation/record.rs", "the state machine on one page"),
];

/// Without documentation and tests. A type that does not fit is two types.
const CODE_LINES_MAX: usize = 400;

#[test]
fn a_file_imports_only_from_its_own_floor_or_below() {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let room = room_of(&path);
        if matches!(room.as_str(), "lib" | "docs") || path.ends_with("tests.rs") {
            continue;
        }
        let Some(own) = floors.get(room.as_str()) else {
            wrong.push(format!("{}: room {room} is on no floor", path.display()));
            continue;
        };
        for (number, line) in code_before_tests(&text).lines().enumerate() {
            for imported in imports(line) {
                match floors.get(imported.as_str()) {
                    Some(floor) if floor <= own => {}
                    Some(_) => {
                        wrong.push(format!("{}:{}: {room} imports {imported}", path.display(), number + 1));
                    }
                    None => wrong.push(format!("{}:{}: unknown room {imported}", path.display(), number + 1)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let mut long = Vec::new();
    for (path, text) in sources("src") {
        let name = path.to_string_lossy().replace('\\', "/");
        if name.ends_with("tests.rs") || LONG_FILES.iter().any(|(allowed, _)| name.ends_with(allowed)) {
            continue;
        }
        let lines = code_before_tests(&text).lines().filter(|line| is_code(line)).count();
        if lines > CODE_LINES_MAX {
            long.push(format!("{name}: {lines} lines of code"));
        }
    }
    assert!(long.is_empty(), "\n{}", long.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("unimpl", "emented!")];
    for folder in ["src", "tests", "examples", "benches"] {
        for (path, text) in sources(folder) {
            for mark in marks {
                assert!(!text.contains(mark), "{} says {mark}", path.display());
            }
        }
    }
}

#[test]
fn the_clock_is_asked_in_one_place() {
    for (path, text) in sources("src") {
        let name = path.to_string_lossy().replace('\\', "/");
        if name.ends_with("src/clock.rs") || name.ends_with("tests.rs") {
            continue;
        }
        for banned in ["SystemTime::now", "Instant::now()", "thread::sleep", "tokio::time::sleep"] {
            let code: Vec<_> =
                code_before_tests(&text).lines().filter(|line| is_code(line)).map(String::from).collect();
            assert!(!code.iter().any(|line| line.contains(banned)), "{name} asks the machine: {banned}");
        }
    }
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path.strip_prefix(root).expect("below the root").to_owned(), text));
            }
        }
    }
    found
}

/// `src/policy/breaker.rs` → `policy`.
fn room_of(path: &Path) -> String {
    let part = path.iter().nth(1).unwrap_or_default().to_string_lossy();
    part.trim_end_matches(".rs").to_owned()
}

/// Test modules may look anywhere; by house style they come last in a file.
fn code_before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// The rooms that a line names as `crate::room`. A link in the documentation may lead anywhere.
fn imports(line: &str) -> Vec<String> {
    let line = line.trim_start();
    let is_doc = line.starts_with("//") || (line.starts_with('#') && line.contains("doc = \""));
    if is_doc {
        return Vec::new();
    }
    line.match_indices("crate::")
        .map(|(at, found)| {
            let rest = &line[at + found.len()..];
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
        })
        .filter(|name| name.chars().next().is_some_and(|first| first.is_ascii_lowercase()))
        .collect()
}
