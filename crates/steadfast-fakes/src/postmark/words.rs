//! Texts as numbers: equal texts have one number, so that a search compares numbers.

use std::collections::HashMap;

/// A text's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u32);

impl Word {
    /// Of a text that no message has.
    const NOBODYS: Word = Word(u32::MAX);
}

/// The texts that messages have.
#[derive(Debug, Default)]
pub(super) struct Words(HashMap<Box<str>, Word>);

impl Words {
    /// The number of a message's text.
    pub(super) fn keep(&mut self, text: &str) -> Word {
        if let Some(word) = self.0.get(text) {
            return *word;
        }
        let word = Word(u32::try_from(self.0.len()).expect("no run sends four thousand million messages"));
        self.0.insert(text.into(), word);
        word
    }

    /// The number that messages with this text have.
    pub(super) fn find(&self, text: &str) -> Word {
        self.0.get(text).copied().unwrap_or(Word::NOBODYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_and_a_text_of_no_message_is_none_of_theirs() {
        let mut words = Words::default();
        let kept: Vec<Word> = ["a", "b", "", "a"].iter().map(|text| words.keep(text)).collect();
        assert_eq!(kept, [Word(0), Word(1), Word(2), Word(0)]);
        assert_eq!(["b", "", "c"].map(|text| words.find(text)), [kept[1], kept[2], Word::NOBODYS]);
    }
}
