//! The rules of the documentation that a compiler and rustdoc do not check. Every type which a caller holds has
//! an example, and the links of a page lead somewhere in the repository too, where it is a plain file.

use std::fs;
use std::path::{Path, PathBuf};

use support::members::{Member, products};

/// Beside what is re-exported at the root: what service code, an operator's tool or a test of either has in its
/// hands. Not in the list: what only appears in the example of another type (a field's type, a kind of error), and
/// what is for whoever implements a store, a vendor or a transport.
const HELD: &[&str] = &[
    "answer::Answer",
    "clock::Instant",
    "clock::Timestamp",
    "dead_letter::DeadLetterError",
    "dead_letter::DeadLetters",
    "dead_letter::Change",
    "dead_letter::Group",
    "dead_letter::Outcome",
    "dead_letter::Safety",
    "dead_letter::Shown",
    "dead_letter::Stats",
    "dispatcher::Dispatcher",
    "dispatcher::DispatcherBuilder",
    "dispatcher::Health",
    "dispatcher::Recovered",
    "operation::Key",
    "operation::OperationId",
    "operation::record::Filter",
    "operation::record::Summary",
    "policy::Backoff",
    "policy::BreakerConfig",
    "policy::BudgetConfig",
    "policy::RateConfig",
    "policy::Timeouts",
    "request::Request",
    "store::Memory",
    "store::SealKeys",
    "store::Sqlite",
    "store::SqliteBuilder",
    "store::StoreError",
    "store::StoreUrl",
    "testkit::Fault",
    "testkit::FaultPlan",
    "testkit::FixedRandom",
    "testkit::Front",
    "testkit::ScriptedTransport",
    "testkit::SeededRandom",
    "testkit::TestClock",
    "testkit::fakes::AdyenFake",
    "testkit::fakes::BigCommerceFake",
    "testkit::fakes::InProcess",
    "testkit::fakes::Ledger",
    "testkit::fakes::PostmarkFake",
    "testkit::fakes::StripeFake",
    "transport::Http",
    "vendor::Adyen",
    "vendor::BigCommerce",
    "vendor::Keyed",
    "vendor::KeyedConfig",
    "vendor::Postmark",
    "vendor::Stripe",
];

/// Re-exported at the root, and not held either: what a question to an `Error` is answered with, whose example shows the
/// question, and a trait.
const NOT_HELD: &[&str] = &[
    "steadfast_core::Gate",
    "steadfast_core::Input",
    "steadfast_core::Mistake",
    "steadfast_core::Obstacle",
    "steadfast_core::Reason",
    "steadfast_core::Refusal",
    "steadfast_core::Random",
    "steadfast_core::BoxFuture",
];

/// The page of limits, "What it cannot do": how each line begins, and the test that shows it.
const LIMITS: [(&str, &str, &str); 7] = [
    (
        "Make a vendor that has neither keys nor a lookup do something exactly once.",
        "calls/engine/unknown.rs",
        "without_replay_or_lookup_a_lost_answer_is_parked_at_once",
    ),
    (
        "Stop a process that freezes between its last check and the first byte",
        "proofs/states/limits.rs",
        "a_stall_before_the_first_byte_is_a_second_effect_at_a_vendor_that_executes_every_request",
    ),
    (
        "Outlast a wall clock that is days ahead for longer than an hour",
        "proofs/world.rs",
        "every_known_limit_is_still_there",
    ),
    (
        "Make up for a clock that is wrong and that nothing on record shows to be.",
        "proofs/world.rs",
        "every_known_limit_is_still_there",
    ),
    (
        "Tell two orders apart that are alike in everything and made in one moment",
        "../src/vendor/bigcommerce/tests.rs",
        "an_order_of_the_same_content_that_was_there_before_is_a_twin",
    ),
    (
        "Say whether a resource that is gone ever was there.",
        "calls/engine/answers.rs",
        "a_resource_that_is_gone_after_a_lost_delete_was_deleted",
    ),
    (
        "Tell every copy of a store from the original.",
        "operator/place.rs",
        "a_backup_that_is_copied_over_the_file_looks_like_the_original",
    ),
];

#[test]
fn each_limit_on_its_page_is_shown_by_a_test_and_no_other_is_said() {
    let page = read(&root().join("src/docs/limits.md"));
    let (_, section) = page.split_once("## What it cannot do\n\n").expect("the section");
    let said: Vec<&str> = section.lines().map_while(|line| line.strip_prefix("- ")).collect();
    assert_eq!(said.len(), LIMITS.len(), "{said:#?}");
    for (line, (words, file, test)) in said.into_iter().zip(LIMITS) {
        assert!(line.starts_with(words), "{line}\nis not: {words}");
        let tests = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file));
        assert!(tests.contains(&format!("fn {test}()")), "{file} has no {test}");
    }
}

/// `.ci/run` runs both commands of the README. A test that is left out of the first is in the second, and in the lints.
#[test]
fn each_test_is_run_by_one_of_the_two_commands_of_the_readme() {
    let (quick, slow) = (command_behind("test command"), command_behind("slow proofs"));
    assert!(!quick.contains("--test "), "the quick command selects nothing: {quick}");
    let named =
        slow.strip_prefix(&quick).expect("the slow proofs are built as the others are, and not again");
    let manifest = read(&root().join("Cargo.toml"));
    let tests = manifest.split("[[test]]\n").skip(1).map(|rest| rest.split("\n[").next().unwrap_or_default());
    let left_out = tests.filter(|test| test.lines().any(|line| line == "test = false"));
    let left_out: Vec<&str> = left_out.filter_map(|test| test.split('"').nth(1)).collect();
    assert_eq!(after("--test", named).count(), left_out.len(), "{named}");
    let lints = read(&root().join(".ci/run"));
    let lints = lints.lines().find(|line| line.starts_with("cargo clippy") && line.contains("--test "));
    for line in [named, lints.expect("clippy reads them too")] {
        assert!(
            left_out.iter().all(|name| after("--test", line).any(|test| test == *name)),
            "{left_out:?}: {line}"
        );
    }
}

/// The commands that a reader types: packages, targets and features that there are.
#[test]
fn each_cargo_command_of_a_page_names_what_there_is() {
    let mut commands = Vec::new();
    let own = ["README.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    for page in guides().into_iter().chain(own) {
        let text = read(&page).replace("\\\n", " ");
        let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let found = text.lines().chain(spans).filter(|command| command.starts_with("cargo "));
        commands.extend(found.map(|command| (page.display().to_string(), command.to_owned())));
    }
    assert!(commands.len() > 20, "{commands:?}");
    let manifest = read(&root().join("Cargo.toml"));
    let wrong: Vec<_> =
        commands.iter().filter(|(_, command)| !names_what_there_is(command, &manifest)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn names_what_there_is(command: &str, manifest: &str) -> bool {
    let has_file = |folders: &[&str], name: &str| {
        let file = |folder: &&str| root().join(folder).join(name);
        name == "'*'"
            || folders
                .iter()
                .any(|folder| file(folder).is_dir() || file(folder).with_extension("rs").exists())
    };
    let (features, _) =
        manifest.split_once("[features]\n").and_then(|(_, rest)| rest.split_once("\n[")).expect("features");
    let has_feature = |name: &str| features.lines().any(|line| line.starts_with(&format!("{name} = ")));
    let of_package = |folder: &str| match after("-p", command).next() {
        Some(package) => format!("crates/{package}/{folder}"),
        None => folder.to_owned(),
    };
    let (benches, tests) = (of_package("benches"), of_package("tests"));
    let mut named = Vec::new();
    named.extend(after("-p", command).map(|name| has_file(&["examples", "crates"], name)));
    named.extend(after("--example", command).map(|name| has_file(&["examples"], name)));
    named.extend(after("--bench", command).map(|name| has_file(&[&benches], name)));
    named.extend(after("--test", command).map(|name| has_file(&[&tests], name)));
    named.extend(after("--features", command).flat_map(|list| list.split(',')).map(has_feature));
    named.into_iter().all(|is_there| is_there)
}

/// The word behind each of these options, up to what goes to the program itself.
fn after<'a>(option: &str, command: &'a str) -> impl Iterator<Item = &'a str> {
    let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
    let named = words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1]);
    named.collect::<Vec<_>>().into_iter()
}

/// The block of `sh` behind a marker, as `.ci/run` reads it, in one line.
fn command_behind(marker: &str) -> String {
    let readme = read(&root().join("README.md"));
    let (_, rest) = readme.split_once(&format!("<!-- {marker} -->\n```sh\n")).expect(marker);
    let (command, _) = rest.split_once("\n```").expect("its end");
    command.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_type_that_a_caller_holds_has_an_example_that_runs() {
    let root = root_types();
    assert!(root.len() >= 10, "the re-exports of src/lib.rs are read: {root:?}");
    let held = HELD.iter().map(|path| (*path).to_owned());
    let mut without = Vec::new();
    for path in root.into_iter().chain(held) {
        match docs_of(&path) {
            Some(docs) if has_example(&docs) => {}
            Some(_) => without.push(format!("{path} has no example that runs")),
            None => without.push(format!("{path} is not found")),
        }
    }
    assert!(without.is_empty(), "\n{}", without.join("\n"));
}

#[test]
fn links_between_the_files_of_the_repository_lead_somewhere() {
    let mut wrong = Vec::new();
    let own = ["README.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    for page in guides().into_iter().chain(own) {
        for target in targets(&read(&page)) {
            if !leads_somewhere(&page, &target) {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A link to a file is dead in the rendered documentation, and rustdoc does not know it: `src/guide.rs` gives each
/// label another target before the page does.
#[test]
fn no_link_of_a_guide_leads_to_a_file_in_the_documentation() {
    let guide = read(&root().join("src/guide.rs"));
    let mut wrong = Vec::new();
    for page in guides() {
        let name = page.file_name().expect("a file").to_string_lossy().into_owned();
        let included = guide.find(&format!("include_str!(\"docs/{name}\")"));
        let before = &guide[..included.unwrap_or_else(|| panic!("src/guide.rs has no page {name}"))];
        let own = before.rsplit_once("pub mod ").map_or(before, |(_, own)| own);
        let text = read(&page);
        wrong.extend(
            inline_targets(&text)
                .filter(|target| !is_elsewhere(target) && !target.starts_with('#'))
                .map(|target| format!("{name}: {target} is not a definition at the end of the file")),
        );
        for (label, target) in definitions(&text).filter(|(_, target)| !is_elsewhere(target)) {
            if !own.contains(&format!("[{label}]: ")) {
                wrong.push(format!("{name}: [{label}] leads to {target} in the documentation"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Who comes with a question finds its section, and each section answers one.
#[test]
fn the_questions_of_a_page_lead_to_each_of_its_sections() {
    for (name, others) in [("recipes.md", &[][..]), ("operations.md", &["where-to-look-first"][..])] {
        let text = read(&root().join("src/docs").join(name));
        let questions = text.split("\n## ").next().unwrap_or_default();
        let asked: Vec<&str> =
            inline_targets(questions).filter_map(|target| target.strip_prefix('#')).collect();
        let sections = text.lines().filter(|line| line.starts_with("## ")).flat_map(headings);
        let missing: Vec<_> = sections
            .filter(|section| !others.contains(&&**section) && !asked.contains(&&**section))
            .collect();
        assert!(asked.len() > 15 && missing.is_empty(), "{name}: {missing:?}");
    }
}

/// The picture of the packages is that of their manifests.
#[test]
fn contributing_shows_each_package_and_what_it_uses() {
    let page = read(&root().join("CONTRIBUTING.md"));
    for member in products() {
        let start = format!("| `{}` | ", member.name);
        let row = page.lines().find_map(|line| line.strip_prefix(&start));
        let (_, uses) =
            row.and_then(|row| row.rsplit_once(" | ")).unwrap_or_else(|| panic!("no row {start}"));
        let expected: Vec<_> = member.uses.iter().map(|name| format!("`{name}`")).collect();
        let expected = if expected.is_empty() { "–".to_owned() } else { expected.join(", ") };
        assert_eq!(uses.trim_end_matches(" |"), expected, "{}", member.name);
    }
}

/// Examples of core are set up as the client's are.
#[test]
fn the_setups_of_the_examples_are_the_same_in_core() {
    for name in ["stripe.md", "end.md", "dead_letters.md"] {
        let [own, core] =
            ["", "crates/steadfast-core/"].map(|at| root().join(at).join("src/docs/setup").join(name));
        assert_eq!(read(&own), read(&core), "{name}");
    }
}

/// A stranger reads it to the end.
#[test]
fn the_readme_and_the_changelog_are_short() {
    let count = |page: &str| read(&root().join(page)).split_whitespace().count();
    assert!(count("README.md") <= 1500, "{} words", count("README.md"));
    let lines = read(&root().join("CHANGELOG.md")).lines().count();
    assert!(lines <= 45, "{lines} lines: one screen until 0.1 is out");
}

/// rustdoc's sidebar cuts a longer one off.
#[test]
fn the_titles_of_the_recipes_fit_into_the_sidebar() {
    const LETTERS_MAX: usize = 28;
    let text = read(&root().join("src/docs/recipes.md"));
    let titles: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let long: Vec<_> = titles.iter().filter(|title| title.chars().count() > LETTERS_MAX).collect();
    assert!(titles.len() > 20 && long.is_empty(), "{long:?}");
}

/// Whoever alerts on an event reads the page, not the source: each event is on it with its level, and no other is.
#[test]
fn the_page_on_observability_has_every_event_with_its_level_and_no_other() {
    // The command line's own log is its own.
    let mut libraries = products();
    libraries.retain(|member| member.name != "steadfast-cli" && member.name != "steadfast-fakes");
    let sources = libraries.iter().flat_map(Member::sources);
    let mut in_source: Vec<_> = sources.flat_map(|(_, text)| events(&text)).collect();
    let mut on_page = events_on(&read(&root().join("src/docs/observability.md")));
    in_source.sort_unstable();
    // The same event of two stores is one.
    in_source.dedup();
    on_page.sort_unstable();
    assert!(in_source.len() > 20, "{in_source:?}");
    assert_eq!(on_page, in_source);
}

/// Level and message of each event that a file of the source makes.
fn events(text: &str) -> Vec<(String, String)> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        let (call, named) = (format!("{level}!("), format!("event!({level},"));
        let calls = text.split(&call).skip(1).map(arguments);
        let named = text.split(&named).skip(1).map(arguments);
        for arguments in calls.chain(named) {
            let message = message_of(&arguments).unwrap_or_else(|| panic!("{level}!({arguments})"));
            found.push((level.to_owned(), head_of(&message)));
        }
    }
    found
}

/// The text up to the parenthesis that closes a call, whose strings may hold others.
fn arguments(text: &str) -> String {
    let (mut depth, mut in_string, mut escaped) = (1, false, false);
    let end = text.find(|letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            '(' if !in_string => depth += 1,
            ')' if !in_string => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    text[..end.expect("a call ends")].to_owned()
}

/// The string that is no field's value.
fn message_of(arguments: &str) -> Option<String> {
    let parts: Vec<&str> = arguments.split('"').collect();
    let strings = parts.windows(2).step_by(2);
    let found = strings
        .map(|pair| (pair[0].trim_end(), pair[1]))
        .find(|(before, _)| before.is_empty() || before.ends_with(','));
    found.map(|(_, message)| message.to_owned())
}

/// A message up to its first comma or colon, without the figure that it may begin with.
fn head_of(message: &str) -> String {
    let message = message.trim_start_matches('…').trim_start();
    let rest = message.strip_prefix('{').and_then(|rest| rest.split_once("} "));
    let message = rest.map_or(message, |(_, rest)| rest);
    message.split([',', ':', '…']).next().unwrap_or_default().trim().to_owned()
}

/// Level and message of the events in the page's tables.
fn events_on(page: &str) -> Vec<(String, String)> {
    let tables = page.split("| event | level |").skip(1);
    let rows = tables.flat_map(|table| table.lines().skip(2).take_while(|line| line.starts_with('|')));
    let mut found = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[1].split('`').skip(1).step_by(2);
        found.extend(names.map(|name| (cells[2].to_owned(), head_of(name))));
    }
    found
}

/// `client::Client` and so on, of the lines `pub use client::{Client, ClientBuilder};`. A whole crate has no path.
fn root_types() -> Vec<String> {
    let text = read(&root().join("src/lib.rs"));
    let exports = text.split("\npub use ").skip(1).filter_map(|rest| Some(rest.split_once(';')?.0));
    let mut found = Vec::new();
    for (module, names) in exports.filter_map(|export| export.rsplit_once("::")) {
        let room = module.split("::").next().unwrap_or_default();
        let names =
            names.split([',', '{', '}']).map(str::trim).filter(|name| name.starts_with(char::is_uppercase));
        found.extend(names.map(|name| format!("{room}::{name}")));
    }
    found.retain(|path| !NOT_HELD.contains(&path.as_str()));
    found
}

/// The lines above the declaration of a type, wherever in its room it is, or else in whichever package.
fn docs_of(path: &str) -> Option<String> {
    let (room, _) = path.split_once("::")?;
    let (_, name) = path.rsplit_once("::")?;
    let sources: Vec<_> = products().iter().flat_map(Member::sources).collect();
    let is_in_room =
        |path: &Path| path.iter().any(|part| part.to_string_lossy().trim_end_matches(".rs") == room);
    let (own, others): (Vec<_>, Vec<_>) = sources.iter().partition(|(path, _)| is_in_room(path));
    own.into_iter().chain(others).find_map(|(_, text)| declared(text, name))
}

fn declared(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| {
        ["pub struct ", "pub enum "].iter().any(|start| {
            let rest = line.strip_prefix(start).and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        })
    })?;
    let above = lines[..at].iter().rev().take_while(|line| !line.trim().is_empty());
    Some(above.copied().collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// Whether a code block is Rust that is run: neither `no_run` nor `ignore`, and not TOML.
fn has_example(docs: &str) -> bool {
    let fences: Vec<&str> = docs.lines().filter_map(|line| line.strip_prefix("/// ```")).collect();
    fences.chunks(2).any(|fence| matches!(fence, ["" | "rust", ""]))
}

fn guides() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root().join("src/docs"), "md", &mut found);
    found.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("docs")));
    assert!(found.len() >= 4, "{found:?}");
    found
}

fn leads_somewhere(page: &Path, target: &str) -> bool {
    if is_elsewhere(target) {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { page.to_owned() } else { page.with_file_name("").join(file) };
    let has_heading = || headings(&read(&file)).any(|slug| slug == heading);
    file.exists() && (heading.is_empty() || has_heading())
}

fn is_elsewhere(target: &str) -> bool {
    target.starts_with("https://")
}

/// Where links go: `[text](target)`, and `[label]: target` on a line of its own.
fn targets(text: &str) -> Vec<String> {
    let defined = definitions(text).map(|(_, target)| target);
    inline_targets(text).chain(defined).map(str::to_owned).collect()
}

fn inline_targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn definitions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

/// The headings of a page as anchors, as forges and rustdoc both make them of plain words.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|known| known == extension) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
