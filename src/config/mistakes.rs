//! Collection of all mistakes in a file, so that one run reports them.
//!
//! The parser, serde and the checks each stop at the first mistake they meet. So a mistake is reported, its subject is
//! taken out of the document, and the rest is read again, until no more is found. Readers and checks stay as they are,
//! and cannot forget to go on.
//!
//! A part that was taken out can look like a mistake of its own: a key that is now missing, a limit that is now
//! compared with a default. Each mistake has its subject, and one that only follows from another is not reported. When
//! in doubt it is left out: the next run reports it, and to report a mistake that is none costs more than that.

use steadfast_core::Error;
use steadfast_core::internal::ext::{ErrorExt, MistakeExt};

use super::path::Path;
use super::source::Source;
use super::suggest;

/// Something that is wrong, and where.
#[derive(Debug)]
pub(super) struct Mistake {
    pub offset: usize,
    pub problem: String,
    pub about: About,
}

/// Subject of a mistake, which decides from which others it can follow.
#[derive(Debug)]
pub(super) enum About {
    /// Wrong on its own, beside any other mistake: what is not TOML, a secret, what is there twice or in the wrong place.
    Certain,
    /// The value that is written there is wrong, whatever the rest of the file has.
    Itself(Path),
    /// The key at this path is missing.
    Absence(Path),
    /// The values at these paths do not go together, or with the defaults of keys that are left out.
    Together(Vec<Path>),
}

impl Mistake {
    pub(super) fn certain(offset: usize, problem: impl Into<String>) -> Mistake {
        Mistake { offset, problem: problem.into(), about: About::Certain }
    }

    pub(super) fn itself(offset: usize, path: Path, problem: impl Into<String>) -> Mistake {
        Mistake { offset, problem: problem.into(), about: About::Itself(path) }
    }

    pub(super) fn absence(offset: usize, path: Path, problem: impl Into<String>) -> Mistake {
        Mistake { offset, problem: problem.into(), about: About::Absence(path) }
    }

    pub(super) fn together(offset: usize, paths: Vec<Path>, problem: impl Into<String>) -> Mistake {
        Mistake { offset, problem: problem.into(), about: About::Together(paths) }
    }
}

/// Mistakes found in one file so far.
#[derive(Debug)]
pub(super) struct Mistakes<'a> {
    source: Source<'a>,
    found: Vec<(usize, String)>,
    /// Number of mistakes that were not kept because they follow from others.
    followed: usize,
    taken_out: Vec<Path>,
    /// Lists that lack an item.
    shortened: Vec<Path>,
    /// Offset from which on the text is not TOML, so that nothing is known of it.
    unread_from: Option<usize>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn new(source: Source<'a>) -> Mistakes<'a> {
        Mistakes {
            source,
            found: Vec::new(),
            followed: 0,
            taken_out: Vec::new(),
            shortened: Vec::new(),
            unread_from: None,
        }
    }

    pub(super) fn source(&self) -> Source<'a> {
        self.source
    }

    /// Keeps a mistake, unless it follows from one that is kept already.
    pub(super) fn tell(&mut self, mistake: Mistake) {
        if self.follows(&mistake) {
            self.followed += 1;
        } else if !self.is_full() {
            self.found.push((mistake.offset, mistake.problem));
        }
    }

    /// Keeps that the text is not TOML from the offset `from` on, for the reason at `offset`. From here on only
    /// mistakes are reported that are certain without the rest.
    pub(super) fn tell_unreadable(&mut self, from: usize, offset: usize, problem: String) {
        self.found.push((offset, problem));
        self.unread_from = Some(from);
    }

    /// Says that this is no longer in the document although the author wrote it, or meant to.
    pub(super) fn took_out(&mut self, path: Path) {
        self.taken_out.push(path);
    }

    /// Says that the table at `from` is read as if it were at `to`, and what was taken out of it as if it had been
    /// there.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) {
        let moved: Vec<Path> = self.taken_out.iter().filter_map(|out| out.moved(from, to)).collect();
        self.taken_out.extend(moved);
    }

    /// Says that an item is no longer in the list at `path`. Its other items are what they were, but their numbers are
    /// not.
    pub(super) fn shortened(&mut self, path: &Path) {
        self.shortened.push(path.clone());
    }

    /// Whether enough is known: more would not be read, or would take too long to find.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() > MISTAKES_MAX || self.followed > FOLLOWED_MAX
    }

    /// All of it, in the order of the lines; nothing if nothing is wrong.
    ///
    /// # Errors
    ///
    /// A validation error with every mistake.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(offset, _)| *offset);
        let more = self.is_full() && (self.found.len() > MISTAKES_MAX || self.unread_from.is_none());
        self.found.truncate(MISTAKES_MAX);
        let placed = |(offset, problem): (usize, String)| {
            steadfast_core::Mistake::new(self.source.name(), Some(self.source.place(offset)), problem)
        };
        Err(Error::mistaken(self.found.into_iter().map(placed).collect(), more))
    }

    fn follows(&self, mistake: &Mistake) -> bool {
        if let Some(from) = self.unread_from
            && (mistake.offset >= from || !matches!(mistake.about, About::Certain | About::Itself(_)))
        {
            return true;
        }
        let from_any = |test: &dyn Fn(&Path) -> bool| self.taken_out.iter().any(test);
        match &mistake.about {
            About::Certain => false,
            // A choice between keys whose only one was taken out is empty, and says so.
            About::Itself(path) => from_any(&|out| out == path || out.is_in(path)),
            About::Absence(path) => from_any(&|out| is_meant_for(out, path)),
            About::Together(paths) => {
                let touches = |path: &Path, out: &Path| {
                    path.starts_with(out) || out.starts_with(path) || is_meant_for(out, path)
                };
                let mut gone = self.taken_out.iter().chain(&self.shortened);
                gone.any(|out| paths.iter().any(|path| touches(path, out)))
            }
        }
    }
}

/// Whether what was written at `out` was most likely meant for `path`: it is there, or misspelt.
fn is_meant_for(out: &Path, path: &Path) -> bool {
    match (out.split(), path.split()) {
        (Some((table, written)), Some((other, meant))) => {
            table == other && suggest::nearest(written, [meant]).is_some()
        }
        _ => false,
    }
}

/// About a screenful. A file with more of them has one cause for most.
const MISTAKES_MAX: usize = 20;

/// Far more than follow from twenty. Each costs a reading of its table.
const FOLLOWED_MAX: usize = 200;
