//! The rules that must hold of a file that a power cut left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use rusqlite::Connection;
use steadfast::operation::OperationId;
use steadfast::operation::record::Filter;
use steadfast::store::{Sqlite, Store};

use crate::power_cut::world::{Entry, Told, World, look};

/// A broken promise.
#[derive(Debug)]
pub struct Broken {
    pub what: What,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The store said what it should not have, with power.
    Wrong,
    /// The file that is left cannot be opened.
    Unopenable,
    /// SQLite's own check finds it damaged.
    Damaged,
    /// Something acknowledged is not there.
    Lost,
    /// Something is there that no sequence of whole calls gives.
    HalfDone,
}

/// Opens the file at `path` as a service that starts again would, and holds it against what the worlds know.
/// From then on they know what is there.
pub async fn audit(path: &Path, worlds: &mut [World]) -> Vec<Broken> {
    let opened = Sqlite::open(path);
    let store = match opened {
        Ok(store) => store,
        Err(error) => return vec![Broken { what: What::Unopenable, text: format!("{error:?}") }],
    };
    let mut broken = Vec::new();
    if let Err(text) = check_integrity(path) {
        broken.push(Broken { what: What::Damaged, text });
    }
    let mut known = BTreeSet::new();
    for world in &mut *worlds {
        let entries = match entries(&store, world).await {
            Ok(entries) => entries,
            Err(text) => return vec![Broken { what: What::Damaged, text }],
        };
        compare(world, &entries, &mut broken);
        known.extend(entries.iter().filter(|(_, entry)| entry.record.is_some()).map(|(id, _)| id.clone()));
        world.entries = entries;
        world.past.clear();
        world.under_way.clear();
    }
    match listed(&store).await {
        Ok(listed) if listed == known => {}
        Ok(listed) => {
            let text = format!("{:?} are there or not", listed.symmetric_difference(&known));
            broken.push(Broken { what: What::HalfDone, text });
        }
        Err(text) => broken.push(Broken { what: What::Damaged, text }),
    }
    for (claim, foreseen) in worlds.iter().flat_map(World::claims) {
        match store.claim(claim).await.map(|told| Told::Claimed(told).counted_from_one()) {
            Ok(told) if told == foreseen => {}
            told => {
                let text = format!("a claim gives {told:?} and not {foreseen:?}");
                broken.push(Broken { what: What::Wrong, text });
            }
        }
    }
    store.close().await;
    broken
}

fn check_integrity(path: &Path) -> Result<(), String> {
    let check = || -> rusqlite::Result<String> {
        let connection = Connection::open(path)?;
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))
    };
    match check() {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(answer) => Err(answer),
        Err(error) => Err(error.to_string()),
    }
}

/// The entries that are there, of all that the world knows or may have made.
async fn entries(store: &Sqlite, world: &mut World) -> Result<BTreeMap<OperationId, Entry>, String> {
    let ids: BTreeSet<OperationId> =
        world.entries.keys().chain(world.under_way.iter().flat_map(BTreeMap::keys)).cloned().collect();
    let mut entries = BTreeMap::new();
    for id in &ids {
        let mut entry = look(store, id).await.map_err(|error| format!("{id}: {error:?}"))?;
        if let Some(record) = &mut entry.record {
            // Whether it went back is for the comparison to say.
            world.note_fence(record, false);
        }
        if entry != Entry::default() {
            entries.insert(id.clone(), entry);
        }
    }
    Ok(entries)
}

/// Each call that was under way is there or not, with all that it changes. Everything else is as acknowledged.
fn compare(world: &World, found: &BTreeMap<OperationId, Entry>, broken: &mut Vec<Broken>) {
    let nothing = Entry::default();
    let is = |id: &OperationId| found.get(id).unwrap_or(&nothing);
    let was = |id: &OperationId| world.entries.get(id).unwrap_or(&nothing);
    let mut open = BTreeSet::new();
    for after in &world.under_way {
        open.extend(after.keys());
        let carried_out = after.iter().all(|(id, entry)| is(id) == entry);
        if !carried_out && !after.keys().all(|id| is(id) == was(id)) {
            let differences: Vec<_> = after.keys().map(|id| difference(id, was(id), is(id))).collect();
            let gone = after.keys().any(|id| is_of_the_past(world, id, is(id)) && is(id) != was(id));
            let what = if gone { What::Lost } else { What::HalfDone };
            broken.push(Broken { what, text: format!("under way: {}", differences.join("; ")) });
        }
    }
    for id in world.entries.keys().filter(|id| !open.contains(id)) {
        if is(id) != was(id) {
            let what = if is_of_the_past(world, id, is(id)) { What::Lost } else { What::HalfDone };
            broken.push(Broken { what, text: difference(id, was(id), is(id)) });
        }
    }
}

fn is_of_the_past(world: &World, id: &OperationId, entry: &Entry) -> bool {
    world.past.get(id).is_some_and(|past| past.contains(entry))
}

fn difference(id: &OperationId, was: &Entry, is: &Entry) -> String {
    let brief = |entry: &Entry| match &entry.record {
        Some(record) => format!(
            "{} at fence {}, {} reports, {} acts",
            record.phase(),
            record.fence,
            entry.evidence.len(),
            entry.audit.len()
        ),
        None => format!("absent, {} acts", entry.audit.len()),
    };
    format!("{id}: acknowledged {}; found {}", brief(was), brief(is))
}

async fn listed(store: &Sqlite) -> Result<BTreeSet<OperationId>, String> {
    let page = store.list(&Filter::default(), None, 100_000).await.map_err(|error| format!("{error:?}"))?;
    Ok(page.rows.into_iter().map(|row| row.id).collect())
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.chars().take(2_000).collect();
        write!(f, "{:?}: {text}", self.what)
    }
}
