//! How the documentation is written: short sentences, and the words of the glossary (`src/docs/glossary.md`).
//!
//! It reads what users read: `///` and `//!` of every package's sources (the help of the command line is among them), the
//! pages beside their manifests but the changelog, and those of `src/docs`. Code, tables, headings and the targets of links are no prose.

use std::fs;
use std::path::Path;

use support::members::{Member, members, products, root};

/// A longer sentence has to be read twice.
const WORDS_MAX: usize = 30;

/// The words that are not written, and the word of the glossary that is.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["whoever", "whomever", "whosoever"], "name who it is: the caller, the operator, the process"),
    (&["nobody"], "name who it is: no caller, no process"),
    (&["bury", "buries", "buried", "burying"], "dead-letter"),
    (&["rehearse", "rehearses", "rehearsed", "rehearsal"], "dry run"),
    (&["moved into the file", "moves the log", "moving the log"], "checkpoint"),
    (&["look-up", "look-ups"], "lookup"),
    (&["take-over", "take-overs", "taking over", "the taking"], "takeover"),
    (&["a keep", "the keep", "its keep"], "retention"),
    (&["park", "parks", "parked", "parking"], "dead-letter, or postpone"),
    (&["put off", "puts off", "putting off"], "postpone"),
];

#[test]
fn a_sentence_of_the_documentation_has_at_most_thirty_words() {
    let mut long = Vec::new();
    for (path, text) in documents() {
        for sentence in sentences(&text) {
            let words = sentence.text.split_whitespace().filter(|word| is_word(word)).count();
            if words > WORDS_MAX {
                long.push(format!("{path}:{}: {words} words: {}", sentence.line, sentence.text));
            }
        }
    }
    assert!(long.is_empty(), "{} sentences\n{}", long.len(), long.join("\n"));
}

#[test]
fn the_documentation_uses_the_words_of_the_glossary() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for sentence in blocks(&text, true).iter().flat_map(split) {
            for (found, term) in forbidden_in(&sentence.text) {
                wrong.push(format!("{path}:{}: “{found}”: {term}: {}", sentence.line, sentence.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} places\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_the_crate_prints_uses_the_words_of_the_glossary() {
    let mut wrong = Vec::new();
    for (path, text) in
        products().iter().flat_map(Member::sources).filter(|(path, _)| !path.ends_with("tests.rs"))
    {
        let code = super::code_before_tests(&text).lines().enumerate();
        for (number, line) in code.filter(|(_, line)| super::is_code(line)) {
            for said in line.split('"').skip(1).step_by(2).filter(|said| said.contains(' ')) {
                for (found, term) in forbidden_in(said) {
                    wrong.push(format!("{}:{}: “{found}”: {term}: {said}", path.display(), number + 1));
                }
            }
        }
    }
    for path in ["examples/command-line.schema.json", "examples/vendors.schema.json", "examples/vendors.toml"]
    {
        for (number, line) in read(path).lines().enumerate() {
            // The value of `on_unknown`, which callers write.
            for (found, term) in forbidden_in(&line.replace("\"park\"", "")) {
                wrong.push(format!("{path}:{}: “{found}”: {term}: {line}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{} places\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_glossary_says_what_is_not_written() {
    let glossary = read("src/docs/glossary.md").to_lowercase();
    for (words, _) in FORBIDDEN {
        assert!(glossary.contains(words[0]), "the glossary does not say that “{}” is not written", words[0]);
    }
}

#[test]
fn what_is_no_prose_is_not_counted() {
    let text = "# A heading of many words. Yes.\n\nOne `code that is long` [two](http://three.four) three.\nFour: e.g. \
                five! Six\nseven\n\n| a | table |\n```\ncode. Code.\n```\n- eight\n- nine\n  ten. Eleven\n[x]: y";
    let found: Vec<_> = sentences(text).into_iter().map(|sentence| (sentence.line, sentence.text)).collect();
    let expected = [
        (3, "One ` two three."),
        (4, "Four: e.g. five!"),
        (4, "Six seven"),
        (11, "eight"),
        (12, "nine ten."),
        (13, "Eleven"),
    ];
    let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_forbidden_word_is_found_whole() {
    let found = |text| forbidden_in(text).into_iter().map(|(found, _)| found).collect::<Vec<_>>();
    assert_eq!(found("Whoever asks; a look-up, and two Look-ups."), ["whoever", "look-up", "look-ups"]);
    assert_eq!(found("the keeper of look-upper"), [""; 0]);
    assert_eq!(found("is moved into the file"), ["moved into the file"]);
}

/// Text and the line that it begins on.
pub(super) struct Passage {
    line: usize,
    pub(super) text: String,
}

/// Each file of documentation: its path and its text, with as many lines as the file.
fn documents() -> Vec<(String, String)> {
    let members = members();
    let name = |path: &Path| path.to_string_lossy().replace('\\', "/");
    let mut documents: Vec<_> = members
        .iter()
        .flat_map(Member::sources)
        .map(|(path, text)| (name(&path), doc_comments(&text)))
        .collect();
    let folders = members
        .iter()
        .flat_map(|member| ["", "src/docs", "src/docs/setup"].map(|folder| member.folder.join(folder)));
    for folder in folders.filter(|folder| root().join(folder).is_dir()) {
        for entry in fs::read_dir(root().join(&folder)).expect("the pages") {
            let path = entry.expect("a directory entry").path();
            // The glossary names what is not written.
            let is_read = !path.ends_with("glossary.md") && !path.ends_with("CHANGELOG.md");
            if is_read && path.extension().is_some_and(|extension| extension == "md") {
                let of_root = path.strip_prefix(root()).expect("below the root");
                documents.push((name(of_root), fs::read_to_string(&path).expect("a page")));
            }
        }
    }
    documents.sort();
    documents
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The comments of documentation; every other line is empty.
fn doc_comments(text: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    text.lines().map(|line| comment(line).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

pub(super) fn sentences(text: &str) -> Vec<Passage> {
    blocks(text, false).into_iter().flat_map(|block| split(&block)).collect()
}

/// Paragraphs and the items of lists as plain text. Each keeps its line breaks.
fn blocks(text: &str, with_tables: bool) -> Vec<Passage> {
    let mut blocks: Vec<Passage> = Vec::new();
    let (mut in_code, mut is_open) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            (in_code, is_open) = (!in_code, false);
            continue;
        }
        let is_cell = line.starts_with('|') || line.starts_with('#');
        let is_definition =
            line.starts_with('[') && line.split_once("]: ").is_some_and(|(_, target)| !target.contains(' '));
        if in_code || line.is_empty() || is_definition || line.starts_with("<!--") || is_cell && !with_tables
        {
            is_open = false;
            continue;
        }
        let item = line.strip_prefix("- ").or_else(|| {
            let (digits, rest) = line.split_once(". ")?;
            digits.chars().all(|digit| digit.is_ascii_digit()).then_some(rest)
        });
        match blocks.last_mut() {
            Some(block) if is_open && item.is_none() && !is_cell => {
                block.text.push('\n');
                block.text.push_str(line);
            }
            _ => blocks.push(Passage { line: number + 1, text: item.unwrap_or(line).to_owned() }),
        }
        is_open = !is_cell;
    }
    for block in &mut blocks {
        block.text = plain(&block.text);
    }
    blocks
}

/// Without code, the targets of links and emphasis. A span of code becomes one mark that is no word.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (taken, put): (usize, &str) = match next {
            '`' => {
                let ticks = rest.len() - rest.trim_start_matches('`').len();
                let end = rest[ticks..].find(&rest[..ticks]).map_or(rest.len(), |at| at + 2 * ticks);
                plain.push('`');
                plain.extend(rest[..end].matches('\n'));
                (end, "")
            }
            ']' => (1 + target(&rest[1..]), ""),
            '[' | '*' | '_' => (1, ""),
            other => (other.len_utf8(), &rest[..other.len_utf8()]),
        };
        plain.push_str(put);
        rest = &rest[taken..];
    }
    plain
}

/// The length of a link's target: `(https://…)` or `[label]`.
fn target(rest: &str) -> usize {
    let close = match rest.chars().next() {
        Some('(') => ')',
        Some('[') => ']',
        _ => return 0,
    };
    rest.find(close).map_or(0, |at| at + 1)
}

/// A sentence ends with a full stop, or at a question or exclamation mark, before a blank and a new beginning.
fn split(block: &Passage) -> Vec<Passage> {
    let mut sentences = Vec::new();
    let (mut began, mut words) = (block.line, Vec::<&str>::new());
    for (number, row) in block.text.lines().enumerate() {
        for word in row.split_whitespace() {
            let begins = word.trim_start_matches(['(', '"', '“']).chars().next();
            let begins = begins.is_some_and(|first| !first.is_lowercase());
            if begins && words.last().is_some_and(|word| ends_sentence(word)) {
                sentences.push(Passage { line: began, text: words.join(" ") });
                words.clear();
            }
            if words.is_empty() {
                began = block.line + number;
            }
            words.push(word);
        }
    }
    if !words.is_empty() {
        sentences.push(Passage { line: began, text: words.join(" ") });
    }
    sentences
}

fn ends_sentence(word: &str) -> bool {
    word.trim_end_matches([')', '"', '”']).ends_with(['.', '!', '?'])
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

fn forbidden_in(text: &str) -> Vec<(&'static str, &'static str)> {
    let words: Vec<String> = text
        .to_lowercase()
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '’')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let text = format!(" {} ", words.join(" "));
    let mut found = Vec::new();
    for (words, term) in FORBIDDEN {
        for word in *words {
            if text.contains(&format!(" {word} ")) {
                found.push((*word, *term));
            }
        }
    }
    found
}
