//! The operator's part, on the service's own file while the service runs: look at the dead letters, and have
//! one of them sent again. The command line `steadfast` does the same.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Effect;
use steadfast::dead_letter::{Change, DeadLetters, Group};
use steadfast::operation::record::{Filter, Phase, Record, Summary};
use steadfast::store::{Sqlite, Store as _};
use steadfast::testkit::fakes::Ledger;
use tokio::time::{Instant, sleep};

use crate::shop::Shop;
use crate::vendors::{VENDORS, vendor_of};
use crate::{LOOK_EVERY, Problem};

/// How long a redriven letter is waited for.
const REDRIVE_MAX: Duration = Duration::from_secs(10);

/// The dead letters at one moment.
pub struct Found {
    groups: Vec<Group>,
    /// The key of the oldest.
    pub first: Option<String>,
}

/// One redrive from start to end.
pub struct Redriven {
    letter: Summary,
    /// Where the operation stands now.
    ended: Phase,
    effects_before: usize,
    effects: usize,
}

pub fn letters(store: &Arc<Sqlite>, shop: &Shop) -> DeadLetters {
    let letters = DeadLetters::new(Arc::clone(store) as _);
    // The vendors say which calls are safe to send again; nothing is sent through these clients.
    shop.clients().into_iter().fold(letters, DeadLetters::with_client)
}

pub async fn find(letters: &DeadLetters) -> Result<Found, Problem> {
    let all = Filter::default();
    let first = letters.list(&all, None, 1).await?.rows.into_iter().next();
    let first = first.map(|letter| letter.id.key.as_str().to_owned());
    Ok(Found { groups: letters.groups(&all).await?, first })
}

/// Redrives the first dead letter that provably never took effect, and waits for the service to send it.
/// `None` if there is no such letter.
pub async fn redrive(
    letters: &DeadLetters,
    store: &Sqlite,
    ledger: &Ledger,
) -> Result<Option<Redriven>, Problem> {
    let safe = Filter { effect: Some(Effect::None), vendor: Some("postmark".into()), ..Filter::default() };
    let Some(letter) = letters.list(&safe, None, 1).await?.rows.into_iter().next() else { return Ok(None) };
    let id = &letter.id;
    let effects = || ledger.effects_for(&letter.wire_key).len();
    let effects_before = effects();

    let how = Change::by("quickstart").because("Postmark takes templates again");
    let done = letters.redrive(std::slice::from_ref(id), &how).await?;
    if let Some((id, why)) = done.why_held_back.first() {
        return Err(format!("{id} was not redriven: {why}").into());
    }
    // Redriving makes the letter due; it goes out through the service's own dispatcher and gates.
    let deadline = Instant::now() + REDRIVE_MAX;
    while Instant::now() < deadline {
        let ended = store.get(id).await?.as_ref().map(Record::phase).ok_or("a redriven letter is gone")?;
        if !matches!(ended, Phase::Scheduled | Phase::InProgress) {
            let effects = effects();
            return Ok(Some(Redriven { letter, ended, effects_before, effects }));
        }
        sleep(LOOK_EVERY).await;
    }
    Err(format!("{id} was redriven, and nobody sent it").into())
}

impl Found {
    /// At most two lines, the most frequent failure first.
    pub fn lines(&self) -> Vec<String> {
        let mut counts: Vec<(u64, &Group)> = Vec::new();
        for group in &self.groups {
            let is_like = |other: &Group| {
                (&other.vendor, other.code, &other.effect) == (&group.vendor, group.code, &group.effect)
            };
            match counts.iter_mut().find(|(_, other)| is_like(other)) {
                Some((sum, _)) => *sum += group.count,
                None => counts.push((group.count, group)),
            }
        }
        let line = |(count, group): &(u64, &Group)| {
            let Group { vendor, code, effect, .. } = group;
            let vendor = vendor_of(vendor).map_or(vendor.as_str(), |vendor| VENDORS[vendor]);
            let meaning = match effect.as_str() {
                "none" => "no effect, safe to redrive",
                _ => "effect unknown, left to a person",
            };
            format!("{count:>4} x {code} at {vendor}: {meaning}")
        };
        match counts.as_slice() {
            [] | [_] | [_, _] => counts.iter().map(line).collect(),
            [first, others @ ..] => {
                let others: u64 = others.iter().map(|(count, _)| count).sum();
                vec![line(first), format!("{others:>4} others")]
            }
        }
    }

    pub fn json(&self) -> Value {
        let group = |group: &Group| {
            let Group { vendor, code, reason, effect, status, count, .. } = group;
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
    pub fn took_effect_once(&self) -> bool {
        self.ended == Phase::Succeeded && (self.effects_before, self.effects) == (0, 1)
    }

    pub fn text(&self) -> String {
        format!(
            "an operator redrives {}: {}, {} mails sent before and {} after",
            self.letter.id.key.as_str(),
            self.ended,
            self.effects_before,
            self.effects
        )
    }

    pub fn json(&self) -> Value {
        json!({
            "key": self.letter.id.key.as_str(),
            "code": self.letter.code,
            "ended": self.ended.name(),
            "effects_before": self.effects_before,
            "effects": self.effects,
        })
    }
}
