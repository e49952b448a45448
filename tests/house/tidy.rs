//! Taste that a machine can check: who imports whom, how long files are, and that nothing is left for later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

mod homes;
mod words;

use support::members::{Member, products, sources};

/// The packages that users build, and the rooms of each, by the first part of their path, with the floor each is on: a
/// room imports from its own floor or below. Between packages Cargo holds the floors. `testkit` and `telemetry` stand
/// beside: everybody from the floor given may import them.
const HOUSES: &[(&str, &[(&str, u32)])] = &[
    ("steadfast", CLIENT),
    ("steadfast-cli", CLI),
    ("steadfast-core", CORE),
    ("steadfast-fakes", FAKES),
    ("steadfast-postgres", POSTGRES),
    ("steadfast-sqlite", SQLITE),
    ("steadfast-testkit", TESTKIT),
];

/// What an operation is stands below what may happen to it.
const CORE: &[(&str, u32)] = &[
    ("answer", 1),
    ("attempt", 1),
    ("clock", 1),
    ("error", 1),
    ("guard", 1),
    ("random", 1),
    ("request", 1),
    ("suggest", 1),
    ("test_clock", 1),
    ("visible", 1),
    ("operation", 2),
    ("policy", 2),
    ("store", 3),
    ("transport", 3),
    ("vendor", 3),
    ("outbox", 4),
    ("internal", 5),
];

const CLIENT: &[(&str, u32)] = &[
    ("mismatch", 1),
    ("holder", 1),
    ("peer_status", 1),
    ("reply", 2),
    ("store", 3),
    ("telemetry", 3),
    ("transport", 3),
    ("vendor", 3),
    ("engine", 4),
    ("inbound", 4),
    ("change", 5),
    ("prepared", 5),
    ("admission", 6),
    ("enqueued", 7),
    ("outbox", 8),
    ("call", 9),
    ("client", 10),
    ("dead_letter", 11),
    ("dispatcher", 12),
    ("config", 13),
    ("guide", 14),
    ("testkit", 14),
];

/// One machine each over what they share.
const FAKES: &[(&str, u32)] = &[
    ("adyen", 1),
    ("bigcommerce", 1),
    ("builder", 1),
    ("calendar", 1),
    ("encoding", 1),
    ("fixture", 1),
    ("in_process", 1),
    ("ledger", 1),
    ("machine", 1),
    ("page", 1),
    ("postmark", 1),
    ("serve", 1),
    ("servers", 1),
    ("shared", 1),
    ("stripe", 1),
    ("table", 1),
    ("webhooks", 1),
];

/// One room: its parts are of one store.
const POSTGRES: &[(&str, u32)] = &[
    ("act", 1),
    ("address", 1),
    ("backlog", 1),
    ("batch", 1),
    ("bounds", 1),
    ("builder", 1),
    ("claim", 1),
    ("connect", 1),
    ("connections", 1),
    ("copying", 1),
    ("due", 1),
    ("durability", 1),
    ("failure", 1),
    ("heartbeat", 1),
    ("line", 1),
    ("look", 1),
    ("migrate", 1),
    ("names", 1),
    ("no_tls", 1),
    ("notify", 1),
    ("opening", 1),
    ("outbox", 1),
    ("password", 1),
    ("place", 1),
    ("purge", 1),
    ("read", 1),
    ("reseal", 1),
    ("restore", 1),
    ("roles", 1),
    ("row", 1),
    ("schema", 1),
    ("sealed", 1),
    ("sequence", 1),
    ("standing", 1),
    ("statements", 1),
    ("take", 1),
    ("thread", 1),
    ("time", 1),
    ("tls", 1),
    ("transaction", 1),
    ("transition", 1),
    ("turns", 1),
    ("wanted", 1),
    ("write", 1),
];

/// One room: its parts are of one store.
const SQLITE: &[(&str, u32)] = &[
    ("backlog", 1),
    ("builder", 1),
    ("copying", 1),
    ("due", 1),
    ("facts", 1),
    ("failure", 1),
    ("heartbeat", 1),
    ("lane", 1),
    ("log", 1),
    ("look", 1),
    ("migrations", 1),
    ("names", 1),
    ("notes", 1),
    ("open", 1),
    ("outbox", 1),
    ("place", 1),
    ("prepared", 1),
    ("purge", 1),
    ("read", 1),
    ("reseal", 1),
    ("row", 1),
    ("sealed", 1),
    ("sequence", 1),
    ("statements", 1),
    ("upkeep", 1),
    ("wipe", 1),
    ("write", 1),
    ("writer", 1),
];

/// Parts that a test takes one by one.
const TESTKIT: &[(&str, u32)] = &[
    ("conformance", 1),
    ("contract", 1),
    ("fault", 1),
    ("front", 1),
    ("near", 1),
    ("random", 1),
    ("scripted", 1),
];

/// Commands stand above the arguments that name them, and those above what commands are made of.
const CLI: &[(&str, u32)] = &[
    ("failure", 1),
    ("selection", 1),
    ("text", 1),
    ("help", 2),
    ("history", 2),
    ("output", 2),
    ("place", 2),
    ("signals", 2),
    ("signature", 2),
    ("dispatch", 3),
    ("fakes", 3),
    ("named", 3),
    ("status", 4),
    ("arguments", 5),
    ("print", 5),
    ("copying", 6),
    ("export", 6),
    ("here", 6),
    ("manual", 6),
    ("many", 6),
    ("migrate", 6),
    ("outbox", 6),
    ("rename", 6),
    ("reseal", 6),
    ("terms", 6),
    ("commands", 7),
    ("main", 8),
];

#[test]
fn each_package_that_users_build_has_floors() {
    let houses: BTreeSet<_> = HOUSES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let built: BTreeSet<_> = products().into_iter().map(|member| member.name).collect();
    assert_eq!(houses, built);
    for member in products() {
        let floors = floors_of(&member);
        let rooms: BTreeSet<_> = member.sources().iter().map(|(path, _)| room_of(&member, path)).collect();
        let stale: Vec<_> = floors.iter().filter(|(room, _)| !rooms.contains(*room)).collect();
        assert!(stale.is_empty(), "{}: {stale:?}", member.name);
    }
}

#[test]
fn a_file_imports_only_from_its_own_floor_or_below() {
    let mut wrong = Vec::new();
    for member in products() {
        let floors: BTreeMap<&str, u32> = floors_of(&member).iter().copied().collect();
        for (path, text) in member.sources() {
            wrong.extend(imported_from_above(&member, &floors, &path, &text));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn floors_of(member: &Member) -> &'static [(&'static str, u32)] {
    HOUSES.iter().find(|(name, _)| *name == member.name).expect("a row of HOUSES").1
}

fn imported_from_above(
    member: &Member,
    floors: &BTreeMap<&str, u32>,
    path: &Path,
    text: &str,
) -> Vec<String> {
    let room = room_of(member, path);
    if matches!(room.as_str(), "lib" | "docs") || path.ends_with("tests.rs") {
        return Vec::new();
    }
    let Some(own) = floors.get(room.as_str()) else {
        return vec![format!("{}: room {room} is on no floor", path.display())];
    };
    let mut wrong = Vec::new();
    for (number, line) in code_before_tests(text).lines().enumerate() {
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
    wrong
}

#[test]
fn nothing_is_left_for_later() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("unimpl", "emented!")];
    // Whole packages, with their tests. The one at the root holds all others.
    for (path, text) in sources(Path::new("")) {
        for mark in marks {
            assert!(!text.contains(mark), "{} says {mark}", path.display());
        }
    }
}

#[test]
fn the_clock_is_asked_in_one_place() {
    for (path, text) in products().iter().flat_map(Member::sources) {
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

/// `src/policy/breaker.rs` → `policy`.
fn room_of(member: &Member, path: &Path) -> String {
    let inside = path.strip_prefix(member.folder.join("src")).expect("one of its sources");
    let part = inside.iter().next().unwrap_or_default().to_string_lossy();
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
    // A macro names things for its callers.
    let is_doc = line.contains("$crate::")
        || line.starts_with("//")
        || (line.starts_with('#') && line.contains("doc = \""));
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
