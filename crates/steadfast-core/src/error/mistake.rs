//! [`Mistake`]: one thing that is wrong with a file.

use std::fmt;

use easy_ext::ext;

/// A mistake in a file: its place, the problem and the remedy. An error about a vendors file holds all of them, see
/// [`Error::mistakes`](super::Error::mistakes).
///
/// `Display` is one line, `vendors.toml:4:3: unknown key …`, as compilers write it: editors and terminals make the
/// start of it a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    file: String,
    place: Option<(usize, usize)>,
    problem: String,
}

impl Mistake {
    /// The file's name as it was given; for seal keys, the environment variable's.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1. `None` if the mistake is about the file as a whole.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// The column, from 1, in characters. `None` if the mistake is about the file as a whole.
    pub fn column(&self) -> Option<usize> {
        self.place.map(|(_, column)| column)
    }

    /// Returns the problem and the remedy. One line, without the place.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Methods that only the crates of this workspace call.
#[ext(MistakeExt)]
#[allow(clippy::new_ret_no_self, reason = "an extension of one type")]
impl Mistake {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub fn new(
        file: impl Into<String>,
        place: Option<(usize, usize)>,
        problem: impl Into<String>,
    ) -> Mistake {
        Mistake { file: file.into(), place, problem: problem.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.problem),
            None => write!(f, "{}: {}", self.file, self.problem),
        }
    }
}
