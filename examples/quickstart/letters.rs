//! The operator's part, on the service's own file while the service runs: look at the dead letters, and have
//! one of them sent again. The command line `steadfast` does the same.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Effect;
use steadfast::dead_letter::{DeadLetters, Failure, Group, Letter, Redrive, Selection, Which};
use steadfast::operation::record::{Phase, Record};
use steadfast::store::{Sqlite, Store as _};
use steadfast::testkit::fakes::Ledger;

use super::Problem;
use super::shop::Shop;

/// How many letters are listed by name.
pub(crate) const LISTED_MAX: usize = 5;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often a redriven letter is looked at: ten seconds, all told.
const LOOKS_MAX: usize = 200;

/// The dead letters as they were before anybody did anything about them.
pub(crate) struct Found {
    pub(crate) groups: Vec<Group>,
    pub(crate) first: Vec<Letter>,
}

/// One redrive from start to end.
pub(crate) struct Redriven {
    letter: Letter,
    /// Where the operation stands now.
    ended: Phase,
    effects_before: usize,
    effects: usize,
}

pub(crate) fn letters(store: &Arc<Sqlite>, shop: &Shop) -> DeadLetters {
    let letters = DeadLetters::new(Arc::clone(store) as _);
    // What is safe to send again is the vendors' to say; nothing is sent through these clients.
    shop.clients().iter().fold(letters, DeadLetters::with_client)
}

pub(crate) async fn find(letters: &DeadLetters) -> Result<Found, Problem> {
    let all = Selection::default();
    Ok(Found { groups: letters.groups(&all).await?, first: letters.list(&all, None, LISTED_MAX).await?.rows })
}

/// Redrives the first dead letter that provably never took effect, and waits for the service to send it.
/// `None` if there is no such letter.
pub(crate) async fn redrive(
    letters: &DeadLetters,
    store: &Sqlite,
    ledger: &Ledger,
) -> Result<Option<Redriven>, Problem> {
    let safe =
        Selection { effect: Some(Effect::None), vendor: Some("postmark".into()), ..Selection::default() };
    let Some(letter) = letters.list(&safe, None, 1).await?.rows.into_iter().next() else { return Ok(None) };
    let id = &letter.summary.id;
    let effects = || ledger.effects_for(&letter.summary.wire_key).len();
    let effects_before = effects();

    let how = Redrive::by("quickstart").because("Postmark takes templates again");
    let done = letters.redrive(Which::These(std::slice::from_ref(id)), &how).await?;
    if let Some(held) = done.why_held_back.first() {
        return Err(format!("{} was not redriven: {}", held.id, held.why).into());
    }
    // Redriving makes the letter due; it goes out through the service's own dispatcher and gates.
    for _ in 0..LOOKS_MAX {
        let ended = store.get(id).await?.as_ref().map(Record::phase).ok_or("a redriven letter is gone")?;
        if !matches!(ended, Phase::Scheduled | Phase::InProgress) {
            let effects = effects();
            return Ok(Some(Redriven { letter, ended, effects_before, effects }));
        }
        look_again().await;
    }
    Err(format!("{id} was redriven, and nobody sent it").into())
}

impl Found {
    pub(crate) fn text(&self) -> String {
        let mut lines = vec!["dead letters, before the redrive:".to_owned()];
        lines.extend(self.groups.iter().map(|Group { count, failure, .. }| {
            let Failure { vendor, code, reason, effect, status } = failure;
            let answer = status.map_or_else(|| "none".to_owned(), |status| status.to_string());
            format!("  {count:>3} × {code:<20} effect {effect:<8} {reason}, last answer {answer}, {vendor}")
        }));
        lines.push("  the first of them:".to_owned());
        lines.extend(self.first.iter().map(|Letter { summary, code, .. }| {
            format!("      {:<20} {code:<20} effect {}", summary.id.key.as_str(), summary.effect)
        }));
        lines.join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let group = |Group { count, failure, .. }: &Group| {
            let Failure { vendor, code, reason, effect, status } = failure;
            json!({
                "vendor": vendor,
                "code": code,
                "reason": reason,
                "effect": effect,
                "status": status,
                "count": count,
            })
        };
        self.groups.iter().map(group).collect()
    }
}

impl Redriven {
    /// Nothing before, exactly one effect after.
    pub(crate) fn took_effect_once(&self) -> bool {
        self.ended == Phase::Succeeded && (self.effects_before, self.effects) == (0, 1)
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "redriven: {} ({}, effect {}): {}, {} effect(s) at the vendor before and {} after",
            self.letter.summary.id.key.as_str(),
            self.letter.code,
            self.letter.summary.effect,
            self.ended,
            self.effects_before,
            self.effects
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "key": self.letter.summary.id.key.as_str(),
            "code": self.letter.code,
            "ended": self.ended.name(),
            "effects_before": self.effects_before,
            "effects": self.effects,
        })
    }
}

/// Real time, because the service runs in it.
#[allow(clippy::disallowed_methods, reason = "the example's own waiting, not the library's")]
async fn look_again() {
    tokio::time::sleep(LOOK_EVERY).await;
}
