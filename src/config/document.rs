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
            return f.write_str("the file's top table");
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
    let problem = error.message().lines().next().unwrap_or_default();
    Err(source.error(span.start, format!("not TOML: {problem}")))
}

/// What is there twice, and where first. A table's header is looked for in the text, because the parser keeps
/// the later of two; a key in the document, because the text says less of where it belongs.
fn duplicate(source: &Source<'_>, root: &DeTable<'_>, span: std::ops::Range<usize>) -> String {
    let name = source.text().get(span.clone()).unwrap_or_default().trim_matches([' ', '"', '\'']);
    if let Some(problem) = duplicate_header(source, span.start) {
        return problem;
    }
    let mut found: Option<(Path, usize)> = None;
    each_key(root, &Path::default(), &mut |path, key, _| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_where_it_is_written_or_else_its_table_is() {
        let text = "a = { b = 1, c = [1, 22] }\n[d.e]\nf = 'x'";
        let source = Source::new("f", text);
        let table = parse(&source).expect("TOML");
        let at = |field: &str| {
            locate(&table, field).map(|(offset, is_written)| (&text[offset..=offset], is_written))
        };
        assert_eq!(at("a.b"), Some(("1", true)));
        assert_eq!(at("a.c[1]"), Some(("2", true)));
        assert_eq!(at("a.c[7]"), Some(("[", true)));
        assert_eq!(at("d.e.f"), Some(("'", true)));
        assert_eq!(at("d.e.g"), Some(("e", false)));
        assert_eq!(at("d.e"), Some(("e", true)));
        assert_eq!(at("x.y"), None);
        assert_eq!(at(""), None);
    }

    #[test]
    fn a_path_reads_as_a_header_and_stays_on_one_line() {
        assert_eq!(Path::of(["vendors", "a-b"]).to_string(), "[vendors.a-b]");
        assert_eq!(Path::of(["vendors", "a.b\n"]).to_string(), "[vendors.\"a.b\\n\"]");
        assert_eq!(Path::default().to_string(), "the file's top table");
        assert_eq!(shown(&"x".repeat(90)), format!("{}…", "x".repeat(80)));
    }
}
