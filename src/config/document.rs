//! The parsed file with its places: which key an offset belongs to, and where a field is written.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::Source;
use crate::error::Error;

/// A place in the document by name, such as `vendors.stripe.policy.timeout`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Path {
        Path(names.into_iter().map(str::to_owned).collect())
    }

    pub(super) fn then(&self, name: &str) -> Path {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Path(names)
    }

    /// The vendor whose table this is, or is in.
    pub(super) fn vendor(&self) -> Option<&str> {
        match self.0.as_slice() {
            [vendors, name, ..] if vendors == "vendors" => Some(name),
            _ => None,
        }
    }

    /// The table that the last name is in, and that name.
    pub(super) fn split(&self) -> Option<(Path, &str)> {
        let (last, table) = self.0.split_last()?;
        Some((Path(table.to_vec()), last))
    }
}

/// As a table's header, which is how a reader finds it in the file.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the file's top level");
        }
        f.write_str("[")?;
        for (index, name) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
            if !name.is_empty() && name.chars().all(is_bare) {
                write!(f, "{dot}{name}")?;
            } else {
                write!(f, "{dot}\"{}\"", shown(name))?;
            }
        }
        f.write_str("]")
    }
}

/// A piece of the file as an error may quote it: on one line and not endless.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect::<String>().escape_debug().to_string();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Parses the text. The first mistake is the one reported: later ones often follow from it.
///
/// The parser's own error is dropped after its message is taken: its `Display` quotes the line, and on that
/// line may be a secret that should not be there.
pub(super) fn parse<'a>(source: &Source<'a>) -> Result<DeTable<'a>, Error> {
    let (root, errors) = DeTable::parse_recoverable(source.text());
    let Some(error) = errors.into_iter().next() else { return Ok(root.into_inner()) };
    let span = error.span().unwrap_or_default();
    if error.message() == "duplicate key" {
        return Err(source.error(span.start, duplicate(source, root.get_ref(), span)));
    }
    Err(source.error(span.start, format!("not TOML: {}", shown(error.message()))))
}

fn duplicate(source: &Source<'_>, root: &DeTable<'_>, span: std::ops::Range<usize>) -> String {
    let text = source.text().get(span.clone()).unwrap_or_default();
    let name = text.trim().trim_matches(['"', '\'']);
    let mut found = None;
    each_key(root, &Path::default(), &mut |path, key, _| {
        let is_nearer = found.as_ref().is_none_or(|(_, start)| *start < key.span().start);
        if key.get_ref().as_ref() == name && key.span().start < span.start && is_nearer {
            found = Some((path.clone(), key.span().start));
        }
    });
    let name = shown(name);
    match found {
        Some((path, start)) if path.0.len() == 1 && path.0[0] == "vendors" => {
            format!("duplicate vendor `{name}`; it is already declared on line {}", source.line(start))
        }
        Some((path, start)) => {
            format!("duplicate key `{name}` in {path}; it is already set on line {}", source.line(start))
        }
        None => format!("duplicate key `{name}`"),
    }
}

/// Calls `visit` for each key of the document with the table it is in.
pub(super) fn each_key<'t, 'i>(
    table: &'t DeTable<'i>,
    path: &Path,
    visit: &mut impl FnMut(&Path, &'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>),
) {
    for (key, value) in table {
        visit(path, key, value);
        each_key_below(value, &path.then(key.get_ref()), visit);
    }
}

fn each_key_below<'t, 'i>(
    value: &'t Spanned<DeValue<'i>>,
    path: &Path,
    visit: &mut impl FnMut(&Path, &'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>),
) {
    match value.get_ref() {
        DeValue::Table(table) => each_key(table, path, visit),
        DeValue::Array(items) => items.iter().for_each(|item| each_key_below(item, path, visit)),
        _ => {}
    }
}

/// The path of the key whose name or value is at the offset; the innermost, where several are. Paths begin
/// with `path`, that of `table`.
pub(super) fn path_at(table: &DeTable<'_>, path: &Path, offset: usize) -> Option<Path> {
    let mut found: Option<(Path, usize)> = None;
    each_key(table, path, &mut |path, key, value| {
        for span in [key.span(), value.span()] {
            let is_inner = found.as_ref().is_none_or(|(_, length)| span.len() <= *length);
            if (span.start..span.end.max(span.start + 1)).contains(&offset) && is_inner {
                found = Some((path.then(key.get_ref()), span.len()));
            }
        }
    });
    found.map(|(path, _)| path)
}

/// Where `field`, a dotted path with indices such as `backoff.steps[1]`, is written below `table`: the offset
/// of its value, or of the name of the innermost table on the way that is written. The flag is whether the
/// field itself is.
pub(super) fn locate(table: &DeTable<'_>, field: &str) -> Option<(usize, bool)> {
    let mut names = field.split('.');
    let first = names.next()?;
    let (name, index) = match first.split_once('[') {
        Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (first, None),
    };
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    let rest = names.collect::<Vec<_>>().join(".");
    match value.get_ref() {
        DeValue::Table(inner) if !rest.is_empty() => {
            Some(locate(inner, &rest).unwrap_or((key.span().start, false)))
        }
        DeValue::Array(items) => {
            let item = index.and_then(|index| items.get(index));
            Some((item.unwrap_or(value).span().start, rest.is_empty()))
        }
        DeValue::Table(_) => Some((key.span().start, true)),
        _ => Some((value.span().start, rest.is_empty())),
    }
}

/// Long enough for any key or sensible value.
pub(super) const SHOWN_MAX: usize = 80;
