//! [`Path`]: a place in the document by name.

use std::fmt;

use steadfast_core::internal::error::{Field, Segment};
use steadfast_core::internal::suggest::shown;

/// A place in the document by name, such as `vendors.stripe.policy.timeout`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    names: Vec<String>,
    /// True in a text that is one table, and not a file of several.
    is_in_table: bool,
}

impl Path {
    pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Path {
        Path::default().with(names.into_iter().map(str::to_owned).collect())
    }

    /// The table that a text is.
    pub(super) fn table() -> Path {
        Path { is_in_table: true, ..Path::default() }
    }

    pub(super) fn then(&self, name: &str) -> Path {
        self.with(self.names.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// Whether the text is one table, and not a file of several.
    pub(super) fn is_in_table(&self) -> bool {
        self.is_in_table
    }

    /// Whether this is the whole text.
    pub(super) fn is_top(&self) -> bool {
        self.names.is_empty()
    }

    /// The vendor whose table this is, or is in.
    pub(super) fn vendor(&self) -> Option<&str> {
        match self.names.as_slice() {
            [vendors, name, ..] if vendors == "vendors" => Some(name),
            _ => None,
        }
    }

    /// Whether this is an entry of the table at `table`.
    pub(super) fn is_in(&self, table: &Path) -> bool {
        self.names.len() == table.names.len() + 1 && self.starts_with(table)
    }

    /// Whether this is at `path`, or below it.
    pub(super) fn starts_with(&self, path: &Path) -> bool {
        self.names.starts_with(&path.names)
    }

    /// Returns the path if the table at `from` is at `to`; `None` if it is not in that table.
    pub(super) fn moved(&self, from: &Path, to: &Path) -> Option<Path> {
        let below = self.below(from)?;
        Some(to.with(to.names.iter().chain(below).cloned().collect()))
    }

    /// The names that lead from the table at `table` to this.
    pub(super) fn below(&self, table: &Path) -> Option<&[String]> {
        self.names.strip_prefix(table.names.as_slice())
    }

    /// A field below this. The number of a list's item is dropped.
    pub(super) fn field(&self, field: &Field) -> Path {
        let names = field.segments().iter().filter_map(|segment| match segment {
            Segment::Name(name) => Some(name.to_string()),
            Segment::Item(_) => None,
        });
        self.with(self.names.iter().cloned().chain(names).collect())
    }

    /// The table that the last name is in, and that name.
    pub(super) fn split(&self) -> Option<(Path, &str)> {
        let (last, table) = self.names.split_last()?;
        Some((self.with(table.to_vec()), last))
    }

    /// Other names in the same text.
    fn with(&self, names: Vec<String>) -> Path {
        Path { names, ..*self }
    }
}

/// Writes the path as a table's header, which is how a reader finds it in the file.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_top() {
            return f.write_str(if self.is_in_table { "the table" } else { "the file's top table" });
        }
        f.write_str("[")?;
        for (index, name) in self.names.iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_a_header_and_stays_on_one_line() {
        assert_eq!(Path::of(["vendors", "a-b"]).to_string(), "[vendors.a-b]");
        assert_eq!(Path::of(["vendors", "a.b\n"]).to_string(), "[vendors.\"a.b\\n\"]");
        assert_eq!(Path::default().to_string(), "the file's top table");
        assert_eq!(Path::table().to_string(), "the table");
        assert_eq!(Path::table().then("auth").to_string(), "[auth]");
    }
}
