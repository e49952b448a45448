//! The parsed file with its places: which key an offset belongs to, where a field is written, and what is there without
//! what is wrong.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use steadfast_core::internal::error::{Field, Segment};

use super::mistakes::Mistakes;
use super::path::Path;

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

/// Returns the place of a field below `table`: the offset of its value, or of the name of the innermost table on the
/// way that is written. The flag is whether the field itself is.
pub(super) fn locate(table: &DeTable<'_>, field: &Field) -> Option<(usize, bool)> {
    locate_below(table, field.segments())
}

fn locate_below(table: &DeTable<'_>, segments: &[Segment]) -> Option<(usize, bool)> {
    let (Segment::Name(name), rest) = segments.split_first()? else { return None };
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some(match (value.get_ref(), rest) {
        (DeValue::Table(_), []) => (key.span().start, true),
        (DeValue::Table(inner), _) => locate_below(inner, rest).unwrap_or((key.span().start, false)),
        (DeValue::Array(items), [Segment::Item(index), rest @ ..]) => {
            (items.get(*index).unwrap_or(value).span().start, rest.is_empty())
        }
        _ => (value.span().start, rest.is_empty()),
    })
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

/// Takes a field out of a value, as [`take_out`] does out of a table.
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

/// Puts a value where a key of the table at `path`, or of one in it, is missing, as if it stood at the offset, and the tables
/// on the way. Says whether it could: not inside of a list.
pub(super) fn put(
    table: &mut DeTable<'_>,
    path: &Path,
    missing: &Path,
    offset: usize,
    value: DeValue<'static>,
) -> bool {
    let Some(names) = missing.below(path) else { return false };
    let Some((name, tables)) = names.split_last() else { return false };
    let mut table = table;
    let span = offset..offset;
    for name in tables {
        let none = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        match table.entry(Spanned::new(span.clone(), name.clone().into())).or_insert_with(none).get_mut() {
            DeValue::Table(inner) => table = inner,
            _ => return false,
        }
    }
    table.insert(Spanned::new(span.clone(), name.clone().into()), Spanned::new(span, value));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::Source;
    use crate::config::syntax::parse;
    use steadfast_core::internal::error::field;

    #[test]
    fn a_field_is_found_where_it_is_written_or_else_its_table_is() {
        let text = "a = { b = 1, c = [1, 22] }\n[d.e]\nf = 'x'";
        let source = Source::new("f", text);
        let mut mistakes = Mistakes::new(source);
        let table = parse(&source, &mut mistakes);
        mistakes.finish().expect("TOML");
        let at = |field: Field| {
            locate(&table, &field).map(|(offset, is_written)| (&text[offset..=offset], is_written))
        };
        assert_eq!(at(field!(a.b)), Some(("1", true)));
        assert_eq!(at(field!(a.c[1])), Some(("2", true)));
        assert_eq!(at(field!(a.c[7])), Some(("[", true)));
        assert_eq!(at(field!(d.e.f)), Some(("'", true)));
        assert_eq!(at(field!(d.e.g)), Some(("e", false)));
        assert_eq!(at(field!(d.e)), Some(("e", true)));
        assert_eq!(at(field!(x.y)), None);
        assert_eq!(at(Field::of(&[])), None);
    }
}
