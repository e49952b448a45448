//! The text of a vendors file, and places in it.

use crate::error::Error;

/// A file's name and text, from which an error gets its line and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Source<'a> {
    /// A byte order mark is dropped: no editor shows it, so no column may count it.
    pub(super) fn new(name: &'a str, text: &'a str) -> Source<'a> {
        Source { name, text: text.strip_prefix('\u{feff}').unwrap_or(text) }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// `file:line:column` of a byte offset, as editors and terminals make it a link.
    pub(super) fn place(&self, offset: usize) -> String {
        let (line, column) = position(self.text, offset);
        format!("{}:{line}:{column}", self.name)
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        position(self.text, offset).0
    }

    pub(super) fn error(&self, offset: usize, problem: impl Into<String>) -> Error {
        Error::config(self.place(offset), problem)
    }
}

/// Line and column of a byte offset, both from 1. Columns count characters: a tab is one, `é` is one. An
/// offset inside of a character is that character's; one beyond the end is the end's.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
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
        assert_eq!(Source::new("f", "\u{feff}abc").place(1), "f:1:2");
    }
}
