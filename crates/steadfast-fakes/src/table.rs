//! The objects that a vendor holds, found without a walk over all of them.
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

/// The thing that is looked for, as a hash. Two may have one in common: a row under a term is a candidate, which the
/// asker compares with the question.
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

    /// How many rows are under a term.
    pub(super) fn count(&self, term: Term) -> usize {
        self.terms.range((term, 0)..=(term, u64::MAX)).count()
    }

    /// The rows under a term after the first `skipped`, oldest first, at most `taken`.
    pub(super) fn page(&self, term: Term, skipped: usize, taken: usize) -> impl Iterator<Item = &R> {
        let found = self.terms.range((term, 0)..=(term, u64::MAX)).skip(skipped).take(taken);
        found.filter_map(|(_, ordinal)| self.rows.get(ordinal)).inspect(|_| self.show())
    }

    /// The rows under one term of each list whose ordinals are within these bounds, oldest first if `forward` and else
    /// newest first. It leaps: what is under the rarest term is found as fast as if nothing else were asked for.
    pub(super) fn under_all<'a>(
        &'a self,
        lists: &[Vec<Term>],
        above: u64,
        below: u64,
        forward: bool,
    ) -> Box<dyn Iterator<Item = (u64, &'a R)> + 'a> {
        let lists = match lists {
            [] => return in_order(self.between(above, below), forward),
            [list] if let [term] = list[..] => return in_order(self.under(term, above, below), forward),
            lists => lists.to_vec(),
        };
        let (mut above, mut below) = (above, below);
        let found = std::iter::from_fn(move || {
            let ordinal = self.next_under_all(&lists, above, below, forward)?;
            *(if forward { &mut above } else { &mut below }) = ordinal;
            Some((ordinal, self.rows.get(&ordinal)?))
        });
        Box::new(found.inspect(|_| self.show()))
    }

    /// The next ordinal within these bounds that is under one term of each list.
    fn next_under_all(&self, lists: &[Vec<Term>], above: u64, below: u64, forward: bool) -> Option<u64> {
        let (mut above, mut below) = (above, below);
        let (first, others) = lists.split_first()?;
        loop {
            let candidate = self.next_under(first, above, below, forward)?;
            let mut furthest = candidate;
            for list in others {
                // The candidate itself is the answer, if no list leaps over it.
                let (from, to) = if forward { (candidate - 1, below) } else { (above, candidate + 1) };
                let next = self.next_under(list, from, to, forward)?;
                furthest = if forward { furthest.max(next) } else { furthest.min(next) };
            }
            if furthest == candidate {
                return Some(candidate);
            }
            (above, below) = if forward { (furthest - 1, below) } else { (above, furthest + 1) };
        }
    }

    /// The next ordinal within these bounds that is under one of these terms.
    fn next_under(&self, terms: &[Term], above: u64, below: u64, forward: bool) -> Option<u64> {
        let next = |term: &Term| {
            let bounds = (Bound::Excluded((*term, above)), Bound::Excluded((*term, below)));
            let mut found = (above < below).then(|| self.terms.range(bounds))?;
            if forward { found.next() } else { found.next_back() }.map(|(_, ordinal)| *ordinal)
        };
        let found = terms.iter().filter_map(next);
        if forward { found.min() } else { found.max() }
    }

    /// The rows whose ordinals are within these bounds, oldest first.
    pub(super) fn between(&self, above: u64, below: u64) -> impl DoubleEndedIterator<Item = (u64, &R)> {
        let bounds = (Bound::Excluded(above), Bound::Excluded(below));
        let found = (above < below).then(|| self.rows.range(bounds)).into_iter().flatten();
        found.map(|(ordinal, row)| (*ordinal, row)).inspect(|_| self.show())
    }

    /// The last ordinal before the first row that is `reached`, where each row after such a one is too: found without a walk.
    pub(super) fn before(&self, reached: impl Fn(&R) -> bool) -> u64 {
        let (mut before, mut from) = (0, self.added + 1);
        while before + 1 < from {
            let middle = before + (from - before) / 2;
            match self.rows.range(middle..from).next() {
                Some((at, row)) if !reached(row) => before = *at,
                _ => from = middle,
            }
        }
        before
    }

    /// Most terms are as before: a change of one field moves one.
    pub(super) fn replace(&mut self, ordinal: u64, row: R) {
        let before = self.rows.remove(&ordinal).map(|row| row.terms()).unwrap_or_default();
        let after = row.terms();
        for term in before.iter().filter(|term| !after.contains(term)) {
            self.terms.remove(&(*term, ordinal));
        }
        let new = after.into_iter().filter(|term| !before.contains(term));
        self.terms.extend(new.map(|term| (term, ordinal)));
        self.rows.insert(ordinal, row);
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

fn in_order<'a, T: 'a>(
    rows: impl DoubleEndedIterator<Item = T> + 'a,
    forward: bool,
) -> Box<dyn Iterator<Item = T> + 'a> {
    if forward { Box::new(rows) } else { Box::new(rows.rev()) }
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

    #[test]
    fn the_first_row_that_is_reached_is_found_also_where_rows_are_gone() {
        let mut table = Table::default();
        assert_eq!(table.before(|_: &Word| true), 0);
        for word in ["a", "b", "c", "d", "e", "f"] {
            table.add(Word(word));
        }
        for gone in [1, 4, 6] {
            table.remove(gone);
        }
        for (from, expected) in
            [("a", "bce"), ("b", "bce"), ("c", "ce"), ("d", "e"), ("e", "e"), ("f", ""), ("z", "")]
        {
            let at = table.before(|word| word.0 >= from);
            let rows: String = table.between(at, u64::MAX).map(|(_, word)| word.0).collect();
            assert_eq!(rows, expected, "{from}");
        }
    }

    #[test]
    fn what_is_under_a_term_of_each_list_is_found_in_both_orders_without_a_walk() {
        let mut table = Table::default();
        for n in 1..=1000 {
            table.add(Word(match n {
                n if n % 211 == 0 => "abc",
                n if n % 2 == 0 => "ab",
                _ => "ad",
            }));
        }
        let lists = |lists: &str| -> Vec<Vec<Term>> {
            let list = |list: &str| list.chars().map(|letter| Term::new("letter", letter)).collect();
            lists.split(' ').filter(|list| !list.is_empty()).map(list).collect()
        };
        let found = |asked, above, below, forward| -> Vec<u64> {
            table.under_all(&lists(asked), above, below, forward).map(|(at, _)| at).collect()
        };
        for asked in ["", "a", "c", "bd", "a b", "a c", "b c", "c a", "d c", "a bd c", "a x", "x", "b d"] {
            for (above, below) in [(0, u64::MAX), (211, 844), (210, 845), (5, 6), (7, 7), (9, 3)] {
                let passes = |word: &str| {
                    asked
                        .split(' ')
                        .filter(|list| !list.is_empty())
                        .all(|list| list.chars().any(|letter| word.contains(letter)))
                };
                let rows =
                    table.rows.iter().filter(|(at, row)| **at > above && **at < below && passes(row.0));
                let mut expected: Vec<u64> = rows.map(|(at, _)| *at).collect();
                assert_eq!(found(asked, above, below, true), expected, "{asked:?} {above} {below}");
                expected.reverse();
                assert_eq!(found(asked, above, below, false), expected, "{asked:?} {above} {below}, back");
            }
        }
        table.take_shown();
        assert_eq!(found("a b c", 0, u64::MAX, false).len(), 4);
        assert_eq!(table.take_shown(), 4);
    }
}
