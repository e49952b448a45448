//! The page for operators: each command is run, and prints the page's text.

use super::{LONG_AGO, NOW, TestDirectory};

const PAGE: &str = include_str!("../../../../src/docs/operations.md");

const PAGES: [&str; 5] = [
    PAGE,
    include_str!("../../../../README.md"),
    include_str!("../../../../src/docs/postgres.md"),
    include_str!("../../../../src/docs/recipes.md"),
    include_str!("../../../../src/docs/limits.md"),
];

/// Returns the commands of the page's one console, each with the lines below it.
fn console() -> Vec<(String, String)> {
    let (_, rest) = PAGE.split_once("```console\n").expect("a console");
    let (console, rest) = rest.split_once("```").expect("its end");
    assert!(!rest.contains("```console"), "one that is not run");
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in console.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => commands.last_mut().expect("a command first").1 += &format!("{line}\n"),
        }
    }
    commands
}

/// Removes texts that differ from run to run: dates, ages, and the time at which a dry run was frozen.
fn plain(text: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut plain = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "Mon," | "Tue," | "Wed," | "Thu," | "Fri," | "Sat," | "Sun," => {
                    plain.push("DATE");
                    words.by_ref().take_while(|word| !word.starts_with("GMT")).for_each(drop);
                }
                "--before" | "oldest" => {
                    plain.push(word);
                    break;
                }
                _ if word.starts_with('(') && line.ends_with("ago)") => break,
                _ => plain.push(word),
            }
        }
        plain.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Splits a line as a shell does, as far as the page needs one.
fn words(command: &str) -> Vec<String> {
    let command = command.split("  #").next().unwrap_or_default();
    let quoted = |(nth, part): (usize, &str)| match nth % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    command.split('"').enumerate().flat_map(quoted).collect()
}

/// Returns the commands that a page tells an operator to type, without the name of the program: in its blocks
/// of `sh`, and in its sentences.
fn commands_of(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1).flat_map(|rest| rest.split("```").next());
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let lines = blocks.flat_map(str::lines).chain(spans).filter_map(|line| line.split(" | ").next());
    lines
        .filter_map(|line| {
            line.strip_prefix("steadfast ").or_else(|| line.starts_with("dead-letters ").then_some(line))
        })
        // They run until they are stopped: `fakes.rs` does that.
        .filter(|command| !command.starts_with("fakes "))
        .collect()
}

/// Each is typed on a store that does not exist.
#[test]
fn each_command_of_the_pages_is_understood() {
    let place = TestDirectory::fresh();
    let commands: Vec<&str> = PAGES.into_iter().flat_map(commands_of).collect();
    assert!(commands.len() > 40, "{commands:?}");
    for command in commands {
        let words = words(command);
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let result = place.run_as(&[("STEADFAST_STORE", "absent.db"), ("STEADFAST_BY", "ada")], &arguments);
        let unknown =
            ["unexpected argument", "unrecognized subcommand", "invalid value", "cannot be used with"];
        assert!(!unknown.iter().any(|what| result.err.contains(what)), "{command}: {}", result.err);
    }
}

#[tokio::test]
async fn the_page_matches_the_commands_output() {
    let place = TestDirectory::fresh();
    place.lost("order-42/quote", LONG_AGO).await;
    place.lost("order-43/quote", NOW).await;
    place.never_sent("order-44/quote").await;
    place.succeeds("order-45/quote", NOW).await;
    let variables =
        [("STEADFAST_STORE", "calls.db"), ("STEADFAST_VENDORS", "vendors.toml"), ("STEADFAST_BY", "ada")];
    let commands = console();
    assert!(commands.len() >= 5, "{commands:?}");
    for (command, shown) in commands {
        let words = words(&command);
        assert_eq!(words[0], "steadfast", "{command}");
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let result = place.run_as(&variables, &arguments);
        assert_eq!(result.err, "", "{command}");
        assert_eq!(plain(&result.out), plain(&shown), "{command}\n{}", result.out);
    }
    assert_eq!(place.json(0, &["show", "order-42/quote"])["phase"], "resolved");
    assert_eq!(place.json(0, &["show", "order-44/quote"])["phase"], "scheduled");
}
