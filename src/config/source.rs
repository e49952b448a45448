//! The text of a vendors file, or of one vendor's table, and places in it.

use super::path::Path;

/// A file's name and text, from which an error gets its line and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    name: &'a str,
    text: &'a str,
    is_table: bool,
}

impl<'a> Source<'a> {
    /// A byte order mark is dropped: no editor shows it, so no column may count it.
    pub(super) fn new(name: &'a str, text: &'a str) -> Source<'a> {
        Source { name, text: text.strip_prefix('\u{feff}').unwrap_or(text), is_table: false }
    }

    /// A text that is one table.
    pub(super) fn of_table(name: &'a str, text: &'a str) -> Source<'a> {
        Source { is_table: true, ..Source::new(name, text) }
    }

    /// The path of what is at the top of the text.
    pub(super) fn top(&self) -> Path {
        if self.is_table { Path::table() } else { Path::default() }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Line and column of a byte offset.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        position(self.text, offset)
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        self.place(offset).0
    }

    /// Returns the offset at which the line of an offset begins.
    pub(super) fn line_start(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
    }

    /// Whether no table's header stands between the line of the offset `from` and the later one `to`.
    pub(super) fn is_one_table(&self, from: usize, to: usize) -> bool {
        let between = self.text.get(from..to).unwrap_or_default();
        !between.lines().skip(1).any(|line| line.trim_start().starts_with('['))
    }

    /// Whether nothing but comments and blank lines follows the line of an offset.
    pub(super) fn is_blank_after(&self, offset: usize) -> bool {
        let rest = self.text.get(offset.min(self.text.len())..).unwrap_or_default();
        rest.lines().skip(1).all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#'))
    }
}

/// Line and column of a byte offset, both from 1. Columns count characters: a tab is one, `é` is one. An
/// offset inside of a character is that character's; one beyond the end is the end's.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_from_one_whatever_ends_the_line() {
        for (text, offset, expected) in [
            ("", 0, (1, 1)),
            ("", 9, (1, 1)),
            ("a\nb", 2, (2, 1)),
            ("a\r\nb = 1", 3, (2, 1)),
            ("a\r\n\tb = 1", 4, (2, 2)),
            ("é = 'ü' # x", 3, (1, 3)),
            ("é", 1, (1, 1)),
            ("a\n", 2, (2, 1)),
        ] {
            assert_eq!(position(text, offset), expected, "{text:?} at {offset}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_not_a_column() {
        assert_eq!(Source::new("f", "\u{feff}abc").place(1), (1, 2));
    }
}
