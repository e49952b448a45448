//! "Did you mean": the nearest word that would have been right, or an example of a good value.

use humantime_serde::re::humantime::parse_duration;

/// The candidate that `word` was most likely meant to be, if one is near enough to say so: at most one slip in
/// three letters. More would be a guess, and a wrong guess costs more time than none.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(WORD_MAX).flat_map(char::to_lowercase).collect();
    let slips_max = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (slips(&word, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate))
        .filter(|(slips, candidate)| *slips <= slips_max && *slips < candidate.chars().count())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// What to write in place of something that is not a duration.
pub(super) fn duration(written: &str) -> String {
    let number = written.trim();
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() <= NUMBER_MAX {
        return format!("a duration needs a unit, such as \"{number}s\" or \"{number}ms\"");
    }
    match mended(number) {
        Some(mended) => format!("did you mean \"{mended}\"?"),
        None => "write a number with its unit, such as \"500ms\", \"30s\" or \"5m\"".to_owned(),
    }
}

/// The text with each unit replaced by the nearest one there is, if that makes it a duration.
fn mended(written: &str) -> Option<String> {
    if written.len() > WORD_MAX {
        return None;
    }
    let mut text = String::new();
    let mut unit = String::new();
    for letter in written.chars().map(Some).chain([None]) {
        match letter {
            Some(letter) if letter.is_alphabetic() => unit.push(letter),
            other => {
                if !unit.is_empty() {
                    text.push_str(nearest(&unit, UNITS)?);
                    unit.clear();
                }
                text.extend(other);
            }
        }
    }
    parse_duration(&text).is_ok().then_some(text)
}

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
const WORD_MAX: usize = 64;

/// A longer number is not a count of seconds.
const NUMBER_MAX: usize = 12;

/// The units that a file should use; the reader takes some more spellings.
const UNITS: [&str; 13] =
    ["ms", "s", "m", "h", "d", "seconds", "second", "minutes", "minute", "hours", "hour", "days", "day"];

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
    fn a_bad_duration_gets_a_good_one() {
        assert_eq!(duration("5 minuts"), "did you mean \"5 minutes\"?");
        assert_eq!(duration("5"), "a duration needs a unit, such as \"5s\" or \"5ms\"");
        for hopeless in ["", "soon", "-1s", "s", "🦀"] {
            assert_eq!(
                duration(hopeless),
                "write a number with its unit, such as \"500ms\", \"30s\" or \"5m\"",
                "{hopeless}"
            );
        }
    }
}
