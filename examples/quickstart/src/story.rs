//! All that is shown in the end. It is 80 columns wide, and with what the run said on its way no longer than 23
//! lines. So it can be read on the smallest terminal, above the next prompt.

use std::path::Path;

use serde_json::{Value, json};

use crate::kill::{Aftermath, Kill};
use crate::letters::{Found, Redriven};
use crate::report::Report;
use crate::vendors::ORDERS;

/// The command line without what only a service needs: it sends nothing.
const CARGO_RUN: &str = "cargo run -p steadfast-cli --no-default-features --";

pub struct Story {
    pub report: Report,
    pub kill: Kill,
    pub aftermath: Aftermath,
    /// The dead letters before anybody did anything about them, and those that are left.
    pub found: Found,
    pub left: Found,
    pub redriven: Option<Redriven>,
}

impl Story {
    /// Whether all went as promised.
    pub fn is_well(&self) -> bool {
        self.report.keeps_the_promise() && self.redrove_once()
    }

    fn redrove_once(&self) -> bool {
        self.redriven.as_ref().is_some_and(Redriven::took_effect_once)
    }

    /// `kept` is the store, if it is left. Its lines take the place of the empty ones.
    pub fn text(&self, kept: Option<&Path>) -> String {
        let redriven = self.redriven.as_ref();
        let happened = [
            self.aftermath.text(),
            redriven.map_or_else(|| "no dead letter is safe to redrive".to_owned(), Redriven::text),
        ];
        let why = self.report.balance().into_iter().chain(self.left.lines());
        let parts = [happened.join("\n"), self.report.table(), why.collect::<Vec<_>>().join("\n")];
        match kept {
            Some(store) => [&parts[..], &[self.try_it(store), self.verdict()]].concat().join("\n"),
            None => [&parts[..], &[self.verdict()]].concat().join("\n\n"),
        }
    }

    /// In one line.
    fn verdict(&self) -> String {
        let (duplicates, lost) = (self.report.duplicates(), self.report.lost());
        let word = if self.is_well() { "all is well" } else { "NOT WELL" };
        let redrive = if self.redrove_once() { "" } else { ", no dead letter redriven to one effect" };
        format!("{word}: {ORDERS} orders, one kill -9, {duplicates} duplicates, {lost} lost{redrive}")
    }

    /// The words to type to look at the store with the command line.
    fn try_it(&self, store: &Path) -> String {
        let store = shell_word(&store.display().to_string());
        let letter = self.left.first.as_deref().unwrap_or("order-0/mail");
        let commands = ["stats", "dead-letters list --group", &format!("show {letter}")];
        let commands = commands.map(|command| format!("  {CARGO_RUN} {command}"));
        format!("the store is kept: export STEADFAST_STORE={store}\n{}", commands.join("\n"))
    }

    pub fn json(&self, seed: u64) -> Value {
        let mut object = self.report.json(seed);
        object["kill"] = self.kill.json(&self.aftermath);
        object["dead_letters"] = self.found.json();
        object["redrive"] = self.redriven.as_ref().map(Redriven::json).into();
        object["well"] = json!(self.is_well());
        object
    }
}

/// As a shell reads it back as one word.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
