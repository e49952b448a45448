//! "Did you mean": an example of a good value.

use humantime_serde::re::humantime::parse_duration;

use steadfast_core::internal::suggest::WORD_MAX;

pub(super) use steadfast_core::internal::suggest::nearest;

/// Suggests a text in place of something that is not a duration.
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

/// A longer number is not a count of seconds.
const NUMBER_MAX: usize = 12;

/// The units that a file should use; the reader takes some more spellings.
const UNITS: [&str; 13] =
    ["ms", "s", "m", "h", "d", "seconds", "second", "minutes", "minute", "hours", "hour", "days", "day"];

#[cfg(test)]
mod tests {
    use super::*;

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
