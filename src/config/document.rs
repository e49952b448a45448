//! The parsed file with its places: which key an offset belongs to, and where a field is written.

use std::fmt;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::mistakes::{Mistake, Mistakes};
use super::source::Source;

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

    /// Whether this is an entry of the table at `table`.
    pub(super) fn is_in(&self, table: &Path) -> bool {
        self.0.len() == table.0.len() + 1 && self.starts_with(table)
    }

    /// Whether this is at `path`, or below it.
    pub(super) fn starts_with(&self, path: &Path) -> bool {
        self.0.starts_with(&path.0)
    }

    /// The names that lead from the table at `table` to this.
    fn below(&self, table: &Path) -> Option<&[String]> {
        self.0.strip_prefix(table.0.as_slice())
    }

    /// A field below this, as a dotted path with indices such as `backoff.steps[1]`. The index is dropped.
    pub(super) fn field(&self, field: &str) -> Path {
        let names = field.split('.').map(|name| name.split('[').next().unwrap_or_default());
        Path(self.0.iter().cloned().chain(names.map(str::to_owned)).collect())
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

/// Parses the text. What is wrong is told and taken out, so that the rest can be read.
///
/// The parser gets over a value that is not one, and over a key that is there twice. After anything else (a bracket
/// or an `=` that is missing) it puts what follows into the wrong place or nowhere: nothing behind that is trusted.
///
/// The parser's own error is dropped after its message is taken: its `Display` quotes the line, and on that
/// line may be a secret that should not be there.
pub(super) fn parse<'a>(source: &Source<'a>, mistakes: &mut Mistakes<'_>) -> DeTable<'a> {
    let (root, errors) = DeTable::parse_recoverable(source.text());
    let mut root = root.into_inner();
    let start = |error: &toml::de::Error| error.span().unwrap_or_default().start;
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
                mistakes.tell(Mistake::of_text(span.start, problem));
            } else {
                mistakes.tell(Mistake::of_text(span.start, duplicate_key(source, &root, span)));
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
        mistakes.tell(Mistake::of_text(offset, problem));
        take_out(&mut root, &Path::default(), offset, mistakes);
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
fn is_in_scalar(source: &Source<'_>, root: &DeTable<'_>, span: &std::ops::Range<usize>) -> bool {
    let mut found = false;
    each_value(root, &mut |value| {
        let here = value.span();
        let is_scalar = !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        let is_here = here.start <= span.start && span.end <= here.end;
        found |= is_scalar && is_here && !source.text().get(here).is_some_and(|text| text.contains('\n'));
    });
    found
}

/// Takes out of `table`, which is at `path`, what is at the offset: the innermost key or list item whose name or value
/// is there. Keeps what it was, and says whether there was anything.
pub(super) fn take_out(
    table: &mut DeTable<'_>,
    path: &Path,
    offset: usize,
    mistakes: &mut Mistakes<'_>,
) -> bool {
    let mut here = None;
    for (key, value) in table.iter_mut() {
        let below = path.then(key.get_ref());
        if take_out_below(value.get_mut(), &below, offset, mistakes) {
            return true;
        }
        if covers(&key.span(), offset) || covers(&value.span(), offset) {
            here = Some(below);
        }
    }
    let Some(here) = here else { return false };
    if let Some((_, name)) = here.split() {
        table.remove(name);
    }
    mistakes.took_out(here);
    true
}

/// As [`take_out`], out of a value.
fn take_out_below(value: &mut DeValue<'_>, path: &Path, offset: usize, mistakes: &mut Mistakes<'_>) -> bool {
    let items = match value {
        DeValue::Table(table) => return take_out(table, path, offset, mistakes),
        DeValue::Array(items) => items,
        _ => return false,
    };
    if items.iter_mut().any(|item| take_out_below(item.get_mut(), path, offset, mistakes)) {
        return true;
    }
    let before = items.len();
    let all = std::mem::replace(items, DeArray::new());
    *items = all.into_iter().filter(|item| !covers(&item.span(), offset)).collect();
    if items.len() == before {
        return false;
    }
    mistakes.shortened(path);
    true
}

/// Whether the offset is in the span; one that is empty still has its start.
fn covers(span: &std::ops::Range<usize>, offset: usize) -> bool {
    (span.start..span.end.max(span.start + 1)).contains(&offset)
}

/// Puts text where a key of the table at `path`, or of one in it, is missing, as if it stood at the offset. Says whether
/// it could: not inside of a list.
pub(super) fn put(
    table: &mut DeTable<'_>,
    path: &Path,
    missing: &Path,
    offset: usize,
    text: &'static str,
) -> bool {
    let Some(names) = missing.below(path) else { return false };
    let Some((name, tables)) = names.split_last() else { return false };
    let mut table = table;
    for name in tables {
        match table.get_mut(name.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => table = inner,
            _ => return false,
        }
    }
    let span = offset..offset;
    table.insert(
        Spanned::new(span.clone(), name.clone().into()),
        Spanned::new(span, DeValue::String(text.into())),
    );
    true
}

/// Which key is there twice, and where first. It is looked for in the document, because the text says less of where
/// it belongs.
fn duplicate_key(source: &Source<'_>, root: &DeTable<'_>, span: std::ops::Range<usize>) -> String {
    let name = source.text().get(span.clone()).unwrap_or_default().trim_matches([' ', '"', '\'']);
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

/// Which table is there twice, if the offset is in a table's header. It is looked for in the text, because the parser
/// keeps the later of two.
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
            if covers(&span, offset) && is_inner {
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

/// More of the parser's errors are not looked at: each costs a search, and a file of nothing else has any number.
const ERRORS_MAX: usize = 64;

/// Long enough for any key or sensible value.
pub(super) const SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_where_it_is_written_or_else_its_table_is() {
        let text = "a = { b = 1, c = [1, 22] }\n[d.e]\nf = 'x'";
        let source = Source::new("f", text);
        let mut mistakes = Mistakes::new(source);
        let table = parse(&source, &mut mistakes);
        mistakes.finish().expect("TOML");
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
