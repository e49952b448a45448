//! Taste that a machine can check: who imports whom, how long files are, and that nothing is left for later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod budgets;
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
    ("steadfast-postgres", ONE_ROOM),
    ("steadfast-sqlite", ONE_ROOM),
    ("steadfast-testkit", TESTKIT),
];

/// The parts of a store.
const ONE_ROOM: &[(&str, u32)] = &[];

/// The rooms of the core: what an operation is stands below what may happen to it.
const CORE: &[(&str, u32)] = &[
    ("answer", 1),
    ("attempt", 1),
    ("clock", 1),
    ("effect", 1),
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
    ("decision", 4),
    ("outbox", 4),
    ("internal", 5),
];

const CLIENT: &[(&str, u32)] = &[
    ("mismatch", 1),
    ("holder", 1),
    ("limit", 1),
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
    ("records", 1),
    ("serve", 1),
    ("servers", 1),
    ("shared", 1),
    ("stripe", 1),
    ("table", 1),
    ("webhooks", 1),
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

/// Rooms that import in a circle yet: a vendor's fake and the builder of all fakes, and the server and what it serves.
const CIRCLES: &[&str] = &[
    "steadfast_fakes::adyen",
    "steadfast_fakes::bigcommerce",
    "steadfast_fakes::builder",
    "steadfast_fakes::in_process",
    "steadfast_fakes::postmark",
    "steadfast_fakes::serve",
    "steadfast_fakes::servers",
    "steadfast_fakes::shared",
    "steadfast_fakes::stripe",
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
        for (path, line, room, imported) in imports_of(&member) {
            let place = format!("{}:{line}", path.display());
            match (floors.get(room.as_str()), floors.get(imported.as_str())) {
                _ if floors.is_empty() => {}
                (Some(own), Some(floor)) if floor <= own => {}
                (Some(_), Some(_)) => wrong.push(format!("{place}: {room} imports {imported}")),
                (None, _) => wrong.push(format!("{place}: room {room} is on no floor")),
                (_, None) => wrong.push(format!("{place}: unknown room {imported}")),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Rooms of one floor may import from each other, and not in a circle.
#[test]
fn no_rooms_import_in_a_circle() {
    let mut circles: BTreeSet<String> = BTreeSet::new();
    for member in products().into_iter().filter(|member| !floors_of(member).is_empty()) {
        let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (_, _, room, imported) in imports_of(&member) {
            below.entry(room).or_default().insert(imported);
        }
        // A room that is below the rooms below is below, too.
        while below.clone().into_iter().any(|(room, rooms)| {
            let deeper: BTreeSet<_> =
                rooms.iter().filter_map(|room| below.get(room)).flatten().cloned().collect();
            let known = below.entry(room).or_default();
            let before = known.len();
            known.extend(deeper);
            known.len() > before
        }) {}
        let crate_name = member.crate_name();
        let within = below.iter().filter(|(room, rooms)| rooms.contains(*room));
        circles.extend(within.map(|(room, _)| format!("{crate_name}::{room}")));
    }
    let known: BTreeSet<_> = CIRCLES.iter().map(|room| (*room).to_owned()).collect();
    assert_eq!(circles, known);
}

fn floors_of(member: &Member) -> &'static [(&'static str, u32)] {
    HOUSES.iter().find(|(name, _)| *name == member.name).expect("a row of HOUSES").1
}

/// Each import of one room from another: the file and its line, the room, and what it imports from.
fn imports_of(member: &Member) -> Vec<(PathBuf, usize, String, String)> {
    let mut found = Vec::new();
    for (path, text) in member.sources() {
        let room = room_of(member, &path);
        if matches!(room.as_str(), "lib" | "docs")
            || path.iter().any(|part| part == "tests" || part == "tests.rs")
        {
            continue;
        }
        let inside = path.strip_prefix(member.folder.join("src")).expect("one of its sources");
        let root = "super::".repeat(inside.iter().count());
        for (number, line) in code_before_tests(&text).lines().enumerate() {
            let (named, whole) = (imports(line), imports(&line.replace(&root, "crate::")));
            // The root itself may have functions.
            let is_room = |name: &str| floors_of(member).iter().any(|(room, _)| *room == name);
            let others =
                whole.into_iter().filter(|name| *name != room && (named.contains(name) || is_room(name)));
            found.extend(others.map(|imported| (path.clone(), number + 1, room.clone(), imported)));
        }
    }
    found
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
        .flat_map(|(at, found)| {
            let rest = &line[at + found.len()..];
            let names = rest.strip_prefix('{').map_or(vec![rest], |names| names.split(", ").collect());
            names.into_iter().map(|name| name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_'))
        })
        .map(Iterator::collect::<String>)
        .filter(|name| name.chars().next().is_some_and(|first| first.is_ascii_lowercase()))
        .collect()
}
