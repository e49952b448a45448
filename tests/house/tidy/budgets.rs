//! Budgets of the words: each only falls. A commit that mends some lowers its number.

use std::collections::BTreeMap;
use std::path::Path;

use support::members::sources;

use super::words;

/// Doc comments with a sentence that starts with "What" and is no question. The aim is 1 % of them.
const WHAT_MAX: usize = 18;

/// Doc comments that start with "Whether" although their item is no `bool`. The aim is 0.
const WHETHER_MAX: usize = 7;

/// Names that more than two types of the workspace have. The aim is 0.
const SHARED_NAMES_MAX: usize = 85;

/// Variables that are verbs of speech. The aim is 0.
const SPEECH_MAX: usize = 741;

#[test]
fn doc_comments_name_things_by_nouns() {
    let (mut what, mut whether) = (Vec::new(), Vec::new());
    for (path, text) in sources(Path::new("")) {
        for (line, doc, item) in docs(&text) {
            let sentences = words::sentences(&doc);
            let place = format!("{}:{line}: {}", path.display(), doc.lines().next().unwrap_or_default());
            if sentences.iter().any(|one| one.text.starts_with("What ") && !one.text.ends_with('?')) {
                what.push(place.clone());
            }
            if doc.starts_with("Whether") && !item.to_lowercase().contains("bool") {
                whether.push(place);
            }
        }
    }
    assert!(what.len() <= WHAT_MAX, "{} with What\n{}", what.len(), what.join("\n"));
    assert!(whether.len() <= WHETHER_MAX, "{} with Whether\n{}", whether.len(), whether.join("\n"));
}

#[test]
fn a_name_belongs_to_few_types_and_no_variable_is_a_verb_of_speech() {
    let (mut types, mut speech): (BTreeMap<String, Vec<String>>, Vec<String>) = Default::default();
    for (path, text) in sources(Path::new("")) {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| super::is_code(line)) {
            let place = format!("{}:{}", path.display(), number + 1);
            let line = line.trim_start();
            let visible = line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches(|c| c != ' '));
            let kinds = ["struct ", "enum ", "trait "];
            if let Some(rest) = kinds.iter().find_map(|kind| visible.trim_start().strip_prefix(kind)) {
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                types.entry(name.to_owned()).or_default().push(place.clone());
            }
            let pattern = line.strip_prefix("let ").and_then(|rest| rest.split('=').next()).unwrap_or("");
            let names = pattern.split(|c: char| !c.is_alphanumeric() && c != '_');
            speech.extend(names.filter(|name| SPEECH.contains(name)).map(|name| format!("{place}: {name}")));
        }
    }
    let shared: Vec<_> = types.iter().filter(|(_, places)| places.len() > 2).collect();
    assert!(shared.len() <= SHARED_NAMES_MAX, "{} names\n{shared:#?}", shared.len());
    assert!(speech.len() <= SPEECH_MAX, "{} variables\n{}", speech.len(), speech.join("\n"));
}

const SPEECH: &[&str] = &["told", "said", "heard", "met", "asked"];

/// Each doc comment: the line that it begins on, its text, and the item after it, as far as its type.
fn docs(text: &str) -> Vec<(usize, String, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let comment =
        |line: &&str| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::to_owned);
    let (mut docs, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let doc: Vec<String> = lines[at..].iter().map_while(comment).collect();
        let after = lines[at + doc.len()..].iter().skip_while(|line| line.starts_with('#'));
        let mut item = String::new();
        for line in after {
            item.push_str(line);
            if !item.contains("fn ") || line.contains('{') || line.ends_with(';') {
                break;
            }
        }
        if !doc.is_empty() {
            let text: Vec<&str> = doc.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            docs.push((at + 1, text.join("\n"), item));
        }
        at += doc.len().max(1);
    }
    docs
}
