//! "Did you mean": the nearest word that would have been right, and what was written as an error may repeat it.

use strsim::osa_distance;

/// The candidate that `word` was most likely meant to be, if one is near enough to say so: at most one slip in
/// three letters. A slip is a letter too many, too few or another, or two neighbours that changed places. More would be
/// a guess, and a wrong guess costs more time than none.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(WORD_MAX).flat_map(char::to_lowercase).collect();
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(slips, candidate)| *slips <= slips_max && *slips < candidate.chars().count())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// A piece of what was written as an error may quote it: on one line and not endless.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect::<String>().escape_debug().to_string();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Long enough for any key or sensible value.
pub const SHOWN_MAX: usize = 80;

/// A longer word is not a misspelt key, and comparing costs its length squared.
pub const WORD_MAX: usize = 64;

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
    fn quoted_text_stays_on_one_line_and_is_cut() {
        assert_eq!(shown("a\n"), "a\\n");
        assert_eq!(shown(&"x".repeat(90)), format!("{}…", "x".repeat(80)));
    }
}
