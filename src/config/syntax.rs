//! Parsing of the text into a document, past parts that are not TOML.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use steadfast_core::internal::suggest::shown;

use super::document::{each_key, take_out};
use super::mistakes::{Mistake, Mistakes};
use super::path::Path;
use super::source::Source;

/// Parses the text. A mistake is reported and taken out, so that the rest can be read.
///
/// The parser gets over a value that is not one, and over a key that is there twice. After anything else (a bracket or
/// an `=` that is missing) it puts the text that follows into the wrong place or nowhere: nothing behind that is
/// trusted.
///
/// The parser's own error is dropped after its message is taken: its `Display` quotes the line, and on that
/// line may be a secret that should not be there.
pub(super) fn parse<'a>(source: &Source<'a>, mistakes: &mut Mistakes<'_>) -> DeTable<'a> {
    let (root, errors) = DeTable::parse_recoverable(source.text());
    let mut root = root.into_inner();
    let start = |error: &Error| error.span().unwrap_or_default().start;
    let mut errors: Vec<_> = errors.into_iter().enumerate().collect();
    errors.sort_by_key(|(_, error)| start(error));
    errors.truncate(ERRORS_MAX);
    // Of those in one line, the parser's first says most.
    errors.sort_by_key(|(said, error)| (source.line_start(start(error)), *said));
    let mut values: Vec<(usize, String)> = Vec::new();
    let mut end: Option<(usize, usize, String)> = None;
    // The header of a table that is there twice. That keys in it are there twice too goes without saying.
    let mut doubled: Option<usize> = None;
    for (_, error) in errors {
        let span = error.span().unwrap_or_default();
        if error.message() == "duplicate key" {
            if doubled.is_some_and(|header| source.is_one_table(header, span.start)) {
                continue;
            }
            if let Some(problem) = duplicate_header(source, span.start) {
                doubled = Some(span.start);
                mistakes.tell(Mistake::certain(span.start, problem));
            } else {
                mistakes.tell(Mistake::certain(span.start, duplicate_key(source, &root, span)));
            }
            continue;
        }
        let problem = format!("not TOML: {}", error.message().lines().next().unwrap_or_default());
        if is_in_scalar(source, &root, &span) {
            values.push((span.start, problem));
        } else {
            end = Some((source.line_start(span.start), span.start, problem));
            break;
        }
    }
    if let Some((line, offset, problem)) = end {
        let unread = if source.is_blank_after(offset) { "" } else { "; what comes after it was not read" };
        mistakes.tell_unreadable(line, offset, format!("{problem}{unread}"));
        cut_off(&mut root, line);
    }
    for (offset, problem) in values {
        mistakes.tell(Mistake::certain(offset, problem));
        take_out(&mut root, &source.top(), offset, mistakes);
    }
    root
}

/// Drops what is written from the offset on.
fn cut_off(table: &mut DeTable<'_>, from: usize) {
    let all = std::mem::replace(table, DeTable::new());
    for (key, mut value) in all {
        let mut is_written = key.span().start < from;
        if let DeValue::Table(inner) = value.get_mut() {
            cut_off(inner, from);
            // One that has several headers may be known by its last.
            is_written |= !inner.is_empty();
        }
        if is_written {
            table.insert(key, value);
        }
    }
}

/// Whether the span is in a value on one line that is neither a table nor a list.
fn is_in_scalar(source: &Source<'_>, root: &DeTable<'_>, span: &Range<usize>) -> bool {
    let mut found = false;
    each_value(root, &mut |value| {
        let here = value.span();
        let is_scalar = !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        let is_here = here.start <= span.start && span.end <= here.end;
        found |= is_scalar && is_here && !source.text().get(here).is_some_and(|text| text.contains('\n'));
    });
    found
}

/// Describes the key that is there twice, with its first place. It is looked for in the document, because the text
/// shows less of its place.
fn duplicate_key(source: &Source<'_>, root: &DeTable<'_>, span: Range<usize>) -> String {
    let name = source.text().get(span.clone()).unwrap_or_default().trim_matches([' ', '"', '\'']);
    let mut found: Option<(Path, usize)> = None;
    each_key(root, &source.top(), &mut |path, key, _| {
        let start = key.span().start;
        let is_nearer = found.as_ref().is_none_or(|(_, nearest)| *nearest < start);
        if key.get_ref() == name && start < span.start && is_nearer {
            found = Some((path.clone(), start));
        }
    });
    let name = shown(name);
    match found {
        Some((path, start)) => {
            format!("duplicate key `{name}` in {path}; it is already set on line {}", source.line(start))
        }
        None => format!("duplicate key `{name}`"),
    }
}

/// Describes the table that is there twice, if the offset is in a table's header. It is looked for in the text, because
/// the parser keeps the later of two.
fn duplicate_header(source: &Source<'_>, offset: usize) -> Option<String> {
    let mut lines = source.text().lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let number = source.line(offset);
    let header = lines.clone().nth(number - 1)?;
    let first = lines.position(|line| line == header)? + 1;
    if !header.starts_with('[') || first >= number {
        return None;
    }
    let vendor = header.strip_prefix("[vendors.").and_then(|rest| rest.strip_suffix(']'));
    let what = match vendor {
        Some(name) if !name.contains('.') => format!("duplicate vendor `{}`", shown(name)),
        _ => format!("duplicate table {}", shown(header)),
    };
    Some(format!("{what}; it is already declared on line {first}"))
}

/// Calls `visit` for each value of the document, those in lists included.
fn each_value(table: &DeTable<'_>, visit: &mut impl FnMut(&Spanned<DeValue<'_>>)) {
    fn each_below(value: &Spanned<DeValue<'_>>, visit: &mut impl FnMut(&Spanned<DeValue<'_>>)) {
        visit(value);
        match value.get_ref() {
            DeValue::Table(table) => each_value(table, visit),
            DeValue::Array(items) => items.iter().for_each(|item| each_below(item, visit)),
            _ => {}
        }
    }
    table.values().for_each(|value| each_below(value, visit));
}

/// More of the parser's errors are not looked at: each costs a search, and a file of nothing else has any number.
const ERRORS_MAX: usize = 64;
