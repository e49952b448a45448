//! Checks whether what a caller was told is so: each word against the vendors' ledger and the record, as they are in
//! the end.

use steadfast::Effect;
use steadfast::operation::record::{Record, State};
use steadfast::testkit::fakes;

use crate::words::{Heard, How, Next, Said, Told};
use support::promise::{self, Untrue};

/// The faults of the words about one operation: one line for each that is untrue.
pub fn untrue(heard: &Heard, record: &Record, effects: &[fakes::Effect]) -> Vec<String> {
    let truth = Truth { heard, record, effects };
    let mut untrue = Vec::new();
    for told in &heard.told {
        if let Some(why) = truth.is_broken_by(told) {
            let Told { at_ms, known_until_ms, said, .. } = told;
            untrue.push(format!(
                "{}: {why}: told at {at_ms}, knowing up to {known_until_ms}, {said:?}; requests left at {:?}, \
                 {effects:?}, on record {} with effect {}",
                record.id,
                heard.left_ms,
                record.state.name(),
                record.effect,
            ));
        }
    }
    untrue
}

struct Truth<'a> {
    heard: &'a Heard,
    record: &'a Record,
    effects: &'a [fakes::Effect],
}

impl Truth<'_> {
    fn is_broken_by(&self, told: &Told) -> Option<&'static str> {
        match &told.said {
            Said::Reply { obtained, object } => {
                let is_wrong = self.is_wrong_reply(told, *obtained, object.as_deref());
                is_wrong.or_else(|| self.is_untrue(told, Effect::Applied))
            }
            Said::Error { is_refusal: true, .. } if !self.effects.is_empty() => Some("refused, and applied"),
            Said::Error { effect, next, .. } => {
                self.is_untrue(told, *effect).or_else(|| self.goes_on_otherwise(told, *effect, *next))
            }
        }
    }

    /// A reply is of a success on record, and names what was made. Only one call can have been answered first.
    fn is_wrong_reply(&self, told: &Told, obtained: How, object: Option<&str>) -> Option<&'static str> {
        let is_fresh = |other: &&Told| matches!(other.said, Said::Reply { obtained: How::Fresh, .. });
        let made = self.effects.first().map(|effect| effect.id.as_str());
        if !matches!(self.record.state, State::Succeeded { .. }) {
            Some("a reply, and no success on record")
        } else if made.is_some() && object != made {
            Some("a reply that names another object")
        } else if obtained == How::Fresh && self.heard.told.iter().filter(is_fresh).count() > 1 {
            Some("two fresh replies")
        } else if self.heard.left_ms.iter().all(|left| *left > told.at_ms) {
            Some("a reply before anything had left")
        } else {
            None
        }
    }

    /// The effects that there are against those that the word is about: what is said to be was there by then, and what is
    /// said not to be neither was there, nor came of what had left.
    fn is_untrue(&self, told: &Told, word: Effect) -> Option<&'static str> {
        let known = told.known_until_ms;
        let left_since = |at: u64| self.heard.left_ms.iter().any(|left| (known + 1..=at).contains(left));
        let is_about = |at: u64| match word {
            Effect::None => at <= known || !left_since(at),
            Effect::Applied => at <= told.at_ms,
            Effect::Unknown => true,
        };
        let effects = self.effects.iter().filter(|effect| is_about(effect.at.as_millis())).count();
        // Of what is denied, the first is one too many.
        let of_all = (word != Effect::None).then(|| promise::untrue(Effect::Unknown, self.effects.len(), 0));
        of_all.flatten().or_else(|| promise::untrue_but_for_count(word, effects)).map(|untrue| match untrue {
            Untrue::SecondEffect => "more than one effect",
            Untrue::NoEffect => "applied, and no effect by then",
            Untrue::EffectDenied => "no effect, and there was one, or one came of what had left",
        })
    }

    /// An operation that ends here is sent only for whoever else asks for it. So is one that waits for a person, and
    /// where it had no effect, only once a person has made it due.
    fn goes_on_otherwise(&self, told: &Told, effect: Effect, next: Next) -> Option<&'static str> {
        let left_unasked = |only_redrives: bool| {
            let mut left = self.heard.left_ms.iter().filter(|left| **left > told.known_until_ms);
            left.any(|left| !self.is_asked(told, *left, only_redrives))
        };
        match next {
            Next::Continues => None,
            Next::Ended => left_unasked(false).then_some("ended, and then sent"),
            Next::AwaitsOperator if left_unasked(effect == Effect::None) => {
                Some("waits for a person, and then sent")
            }
            Next::AwaitsOperator => {
                let is_kept = matches!(self.record.state, State::Dead { .. } | State::Succeeded { .. });
                let redriven = self.heard.asked.iter().any(|asked| asked.redrives);
                (!is_kept && !redriven).then_some("waits for a person, and is no dead letter")
            }
        }
    }

    /// Whether somebody else asked for what left then: a call that was not over when this word was given, or a redrive.
    /// A process that died while it asked may have put it on record first, so that others carry it on.
    fn is_asked(&self, told: &Told, left_ms: u64, only_redrives: bool) -> bool {
        self.heard.asked.iter().any(|asked| {
            let is_other = (&asked.process, asked.call) != (&told.process, told.call);
            let is_open = asked.ended_ms.is_none_or(|ended| ended >= told.known_until_ms);
            is_other && is_open && asked.at_ms <= left_ms && (asked.redrives || !only_redrives)
        })
    }
}
