//! A write that is refused leaves nothing: what it has changed until then is taken back.
//!
//! The alternative is that each action checks everything before it changes anything. They do, as far as it reads well.
//! But one check in the wrong place is an effect that no ledger knows, and a client's test that passes for it.

use serde_json::Value;

use super::{Object, Objects, find};
use crate::fixture::parsed;

/// One change, and how it was before.
#[derive(Debug)]
pub(super) struct Change {
    account: String,
    resource: String,
    before: Before,
}

#[derive(Debug)]
enum Before {
    /// There was no object of this id.
    Absent(String),
    /// It was so, in this place.
    Was(u64, Object),
}

impl Change {
    pub(super) fn added(account: &str, resource: &str, value: &Value) -> Change {
        let id = value["id"].as_str().unwrap_or_default().to_owned();
        Change { account: account.to_owned(), resource: resource.to_owned(), before: Before::Absent(id) }
    }

    pub(super) fn was(account: &str, resource: &str, ordinal: u64, object: Object) -> Change {
        let before = Before::Was(ordinal, object);
        Change { account: account.to_owned(), resource: resource.to_owned(), before }
    }
}

impl Objects {
    /// From here on changes are noted.
    pub(in super::super) fn begin(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// Keeps the changes since the beginning.
    pub(in super::super) fn keep(&mut self) {
        self.changes = None;
    }

    /// All is again as it was at the beginning, but that ids are not given twice.
    pub(in super::super) fn take_back(&mut self) {
        for Change { account, resource, before } in self.changes.take().into_iter().flatten().rev() {
            let table = self.tables.of_mut(&account, &resource);
            match before {
                Before::Absent(id) => {
                    let Some((ordinal, added)) = find(table, &id) else { continue };
                    let line = (resource == "balance_transactions").then(|| parsed(&added.text));
                    table.remove(ordinal);
                    if let Some(line) = line {
                        self.book(&account, &line, -1);
                    }
                }
                Before::Was(ordinal, object) => {
                    self.gone.remove(&(account, object.id.clone()));
                    table.replace(ordinal, object);
                }
            }
        }
    }

    pub(super) fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }
}
