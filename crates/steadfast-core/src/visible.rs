//! Text of a vendor or a caller, as an operator may read it.
//!
//! Characters that forge a line or turn text around are not only below `U+0020`: C1 controls drive terminals, direction
//! marks reorder their neighbours, and `U+2028` ends a line in many viewers. Each stands here as JSON writes it, so
//! that one function serves text and JSON alike.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::guard::Guard;

/// Escapes each character that could forge a line or drive a terminal, in JSON's form: `\u202e`, and `\n` for a line's end.
/// These are the Unicode categories `Cc`, `Cf`, `Zl` and `Zp`. Applied to compact JSON, it gives JSON of the same value.
///
/// ```
/// use steadfast::dead_letter::visible;
///
/// assert_eq!(visible("paid\n    phase: dead"), r"paid\n    phase: dead");
/// assert_eq!(visible("order-42/receipt"), "order-42/receipt");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) || Guard::TextIsVisible.is_out() {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            letter if is_invisible(letter) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            letter => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

fn is_invisible(letter: char) -> bool {
    letter < ' ' || (letter > '~' && INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&letter)))
}

/// `Cc`, `Cf`, `Zl` and `Zp` above ASCII, of Unicode 16, with the tags' whole block.
const INVISIBLE: [(char, char); 21] = [
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, shown) in [
            ("a\u{1b}[2Jb", r"a\u001b[2Jb"),
            ("\r\t\n", r"\r\t\n"),
            ("\u{9b}31m", r"\u009b31m"),
            ("\u{202e}gpj.exe", r"\u202egpj.exe"),
            ("a\u{2028}b\u{2029}c", r"a\u2028b\u2029c"),
            ("\u{ad}\u{200d}\u{feff}", r"\u00ad\u200d\ufeff"),
            ("\u{e0041}", r"\udb40\udc41"),
            ("Zo\u{eb} pays 5 \u{20ac} \u{1f600}", "Zo\u{eb} pays 5 \u{20ac} \u{1f600}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    proptest! {
        #[test]
        fn escaping_keeps_the_value_of_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("text");
            let shown = visible(&json);
            prop_assert!(!shown.chars().any(is_invisible));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
        }
    }
}
