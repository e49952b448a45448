//! What a vendor holds, found without a walk over all of it.
//!
//! The fakes answer one request at a time. If each lookup searched all that was ever made, the lookups of a long run
//! would be answered after their callers have given up. Operations would end in doubt although the vendor could tell.
//! Then the fake would have failed, and not the code under test.

use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher as _};
use std::ops::Bound;

/// One of the things that a vendor holds.
pub(super) trait Row {
    /// All that it is looked up by.
    fn terms(&self) -> Vec<Term>;
}

/// What is looked for, as a hash. Two may have one in common: a row under a term is a candidate, which the asker
/// compares with the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term(u64);

impl Term {
    /// The term of a field that holds this.
    pub(super) fn new(field: &str, held: impl Hash) -> Term {
        let mut hasher = DefaultHasher::new();
        (field, held).hash(&mut hasher);
        Term(hasher.finish())
    }
}

/// Rows in the order in which they came, each under an ordinal that it keeps, and under its terms.
#[derive(Debug)]
pub(super) struct Table<R> {
    rows: BTreeMap<u64, R>,
    terms: BTreeSet<(Term, u64)>,
    added: u64,
    /// How many rows anybody was shown: what lookups cost, told without a clock.
    shown: Cell<u64>,
}

impl<R: Row> Table<R> {
    pub(super) fn add(&mut self, row: R) {
        self.added += 1;
        self.put(self.added, row);
    }

    /// All rows, oldest first.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &R> {
        self.rows.values().inspect(|_| self.show())
    }

    /// The rows under any of these terms and their ordinals, oldest first, each once.
    pub(super) fn with<'a>(
        &'a self,
        terms: &[Term],
    ) -> impl DoubleEndedIterator<Item = (u64, &'a R)> + use<'a, R> {
        let under =
            |term: &Term| self.terms.range((*term, 0)..=(*term, u64::MAX)).map(|(_, ordinal)| *ordinal);
        let ordinals: BTreeSet<u64> = terms.iter().flat_map(under).collect();
        ordinals
            .into_iter()
            .filter_map(|ordinal| Some((ordinal, self.rows.get(&ordinal)?)))
            .inspect(|_| self.show())
    }

    /// The rows under one term whose ordinals are within these bounds, oldest first, as far as the asker goes.
    pub(super) fn under(
        &self,
        term: Term,
        above: u64,
        below: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, &R)> {
        let bounds = (Bound::Excluded((term, above)), Bound::Excluded((term, below)));
        let found = (above < below).then(|| self.terms.range(bounds));
        let found = found.into_iter().flatten().map(|(_, ordinal)| *ordinal);
        found.filter_map(|ordinal| Some((ordinal, self.rows.get(&ordinal)?))).inspect(|_| self.show())
    }

    /// The rows whose ordinals are within these bounds, oldest first.
    pub(super) fn between(&self, above: u64, below: u64) -> impl DoubleEndedIterator<Item = (u64, &R)> {
        let bounds = (Bound::Excluded(above), Bound::Excluded(below));
        let found = (above < below).then(|| self.rows.range(bounds)).into_iter().flatten();
        found.map(|(ordinal, row)| (*ordinal, row)).inspect(|_| self.show())
    }

    pub(super) fn replace(&mut self, ordinal: u64, row: R) {
        self.remove(ordinal);
        self.put(ordinal, row);
    }

    pub(super) fn remove(&mut self, ordinal: u64) {
        if let Some(row) = self.rows.remove(&ordinal) {
            for term in row.terms() {
                self.terms.remove(&(term, ordinal));
            }
        }
    }

    fn put(&mut self, ordinal: u64, row: R) {
        self.terms.extend(row.terms().into_iter().map(|term| (term, ordinal)));
        self.rows.insert(ordinal, row);
    }

    fn show(&self) {
        self.shown.set(self.shown.get() + 1);
    }

    /// How many rows were shown since this was last asked.
    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.shown.take()
    }
}

impl<R> Default for Table<R> {
    fn default() -> Table<R> {
        Table { rows: BTreeMap::new(), terms: BTreeSet::new(), added: 0, shown: Cell::new(0) }
    }
}

/// A table for each collection of each owner.
#[derive(Debug)]
pub(super) struct Tables<R>(HashMap<(String, String), Table<R>>);

impl<R: Row> Tables<R> {
    pub(super) fn of(&self, owner: &str, collection: &str) -> Option<&Table<R>> {
        self.0.get(&(owner.to_owned(), collection.to_owned()))
    }

    pub(super) fn of_mut(&mut self, owner: &str, collection: &str) -> &mut Table<R> {
        self.0.entry((owner.to_owned(), collection.to_owned())).or_default()
    }

    /// [`Table::take_shown`] of all of them.
    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.0.values().map(Table::take_shown).sum()
    }
}

impl<R> Default for Tables<R> {
    fn default() -> Tables<R> {
        Tables(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word(&'static str);

    impl Row for Word {
        fn terms(&self) -> Vec<Term> {
            self.0.chars().map(|letter| Term::new("letter", letter)).collect()
        }
    }

    fn under(table: &Table<Word>, letters: &str) -> Vec<(u64, &'static str)> {
        let terms: Vec<Term> = letters.chars().map(|letter| Term::new("letter", letter)).collect();
        table.with(&terms).map(|(ordinal, word)| (ordinal, word.0)).collect()
    }

    #[test]
    fn a_row_is_found_by_each_of_its_terms_in_its_place_until_it_is_changed_or_gone() {
        let mut table = Table::default();
        for word in ["ab", "b", "bc", "aab"] {
            table.add(Word(word));
        }
        assert_eq!(under(&table, "a"), [(1, "ab"), (4, "aab")]);
        assert_eq!(under(&table, "ca"), [(1, "ab"), (3, "bc"), (4, "aab")]);
        assert_eq!(under(&table, "x"), []);

        table.replace(1, Word("x"));
        assert_eq!((under(&table, "a"), under(&table, "x")), (vec![(4, "aab")], vec![(1, "x")]));
        table.remove(3);
        table.remove(3);
        table.add(Word("c"));
        assert_eq!(under(&table, "c"), [(5, "c")], "an ordinal is not given twice");
        let words = |rows: Vec<&Word>| rows.into_iter().map(|word| word.0).collect::<Vec<_>>();
        assert_eq!(words(table.all().collect()), ["x", "b", "aab", "c"]);
        let between = |above, below| words(table.between(above, below).map(|(_, word)| word).rev().collect());
        assert_eq!((between(0, 5), between(1, 5)), (vec!["aab", "b", "x"], vec!["aab", "b"]));
        let c = |above, below| {
            table.under(Term::new("letter", 'c'), above, below).map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!((c(0, 9), c(5, 9), c(0, 5), c(9, 1)), (vec![5], vec![], vec![], vec![]));
        assert_eq!(table.terms.len(), 1 + 1 + 2 + 1, "nothing is left of what is gone");
    }
}
