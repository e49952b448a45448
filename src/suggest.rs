//! "Did you mean": the nearest word that would have been right, and what was written as an error may repeat it.

/// The candidate that `word` was most likely meant to be, if one is near enough to say so: at most one slip in
/// three letters. More would be a guess, and a wrong guess costs more time than none.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(WORD_MAX).flat_map(char::to_lowercase).collect();
    let slips_max = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (slips(&word, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate))
        .filter(|(slips, candidate)| *slips <= slips_max && *slips < candidate.chars().count())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// A piece of what was written as an error may quote it: on one line and not endless.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect::<String>().escape_debug().to_string();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Long enough for any key or sensible value.
pub(crate) const SHOWN_MAX: usize = 80;

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other (the optimal
/// string alignment distance).
fn slips(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row; right.len() + 1];
        for column in 1..=right.len() {
            let differ = usize::from(left[row - 1] != right[column - 1]);
            let mut best = (last[column - 1] + differ).min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(before_last[column - 2] + 1);
            }
            current[column] = best;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

/// A longer word is not a misspelt key, and comparing costs its length squared.
pub(crate) const WORD_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_and_a_far_one_is_not() {
        let keys = ["connect", "attempt", "total"];
        assert_eq!(nearest("atempt", keys), Some("attempt"));
        assert_eq!(nearest("Attempt", keys), Some("attempt"));
        assert_eq!(nearest("attmept", keys), Some("attempt"));
        assert_eq!(nearest("totla", keys), Some("total"));
        assert_eq!(nearest("retries", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("q", ["s"]), None);
    }

    #[test]
    fn what_is_repeated_stays_on_one_line_and_is_not_endless() {
        assert_eq!(shown("a\n"), "a\\n");
        assert_eq!(shown(&"x".repeat(90)), format!("{}…", "x".repeat(80)));
    }
}
