//! [`Path`]: a place in the document by name.

use std::fmt;

use crate::error::{Field, Segment};
use crate::suggest::shown;

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

    /// Where this is, if the table at `from` is at `to`; `None` if it is not in that table.
    pub(super) fn moved(&self, from: &Path, to: &Path) -> Option<Path> {
        let below = self.below(from)?;
        Some(Path(to.0.iter().chain(below).cloned().collect()))
    }

    /// The names that lead from the table at `table` to this.
    pub(super) fn below(&self, table: &Path) -> Option<&[String]> {
        self.0.strip_prefix(table.0.as_slice())
    }

    /// A field below this. The number of a list's item is dropped.
    pub(super) fn field(&self, field: &Field) -> Path {
        let names = field.segments().iter().filter_map(|segment| match segment {
            Segment::Name(name) => Some(name.to_string()),
            Segment::Item(_) => None,
        });
        Path(self.0.iter().cloned().chain(names).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_a_header_and_stays_on_one_line() {
        assert_eq!(Path::of(["vendors", "a-b"]).to_string(), "[vendors.a-b]");
        assert_eq!(Path::of(["vendors", "a.b\n"]).to_string(), "[vendors.\"a.b\\n\"]");
        assert_eq!(Path::default().to_string(), "the file's top table");
    }
}
