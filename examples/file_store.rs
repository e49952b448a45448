//! A store of a stranger's: one file, to which each change is appended as a line of JSON, and all of it in memory.
//!
//! It has no capability beside [`Store`], and passes the contract of that. The decisions are those of
//! [`operation::record`](steadfast_core::operation::record): a store only carries them out, in one commit each.
//!
//! It is short, not fast: the file only grows, a take goes through all records, and each commit waits for the disk on
//! the caller's thread. A service would also sync the directory of a new file, which a power cut may else forget.
//!
//! ```sh
//! cargo test --example file_store
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_core::AttemptReport;
use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{
    self, Act, Action, Ahead, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Notes, Page, Phase,
    Place, Record, Summary, Takeover, Tally, Transition,
};
use steadfast_core::operation::{OperationId, Scope};
use steadfast_core::store::pages::{listable, page, start};
use steadfast_core::store::{Store, StoreError, StoreErrorKind};

/// One change, as a line of the file has it.
#[derive(Serialize, Deserialize)]
enum Change {
    Put(String),
    Gone(OperationId),
    Log(OperationId, Vec<AttemptReport>),
    Audit(AuditEntry),
    Noted(Notes),
    Terms(String, Option<String>),
}

#[derive(Debug, Default)]
struct Shelf {
    /// In the order of the first claim; lists go by the numbers.
    rows: BTreeMap<u64, Record>,
    numbers: HashMap<OperationId, u64>,
    logs: HashMap<OperationId, Vec<AttemptReport>>,
    audit: Vec<AuditEntry>,
    notes: Notes,
    terms: BTreeMap<String, String>,
    next: u64,
    /// A write failed: the file may have more or less than is here.
    is_broken: bool,
}

impl Shelf {
    fn apply(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Put(text) => {
                let record = Record::from_text(&text)?;
                let number = *self.numbers.entry(record.id.clone()).or_insert(self.next);
                self.next = self.next.max(number + 1);
                self.rows.insert(number, record);
            }
            Change::Gone(id) => {
                let gone = self.numbers.remove(&id).and_then(|number| self.rows.remove(&number));
                self.notes.purged = self.notes.purged.max(gone.map_or(0, |record| record.fence));
                self.logs.remove(&id);
            }
            Change::Log(id, reports) => self.logs.entry(id).or_default().extend(reports),
            Change::Audit(entry) => self.audit.push(entry),
            Change::Noted(notes) => self.notes = Notes { purged: self.notes.purged, ..notes },
            Change::Terms(account, Some(terms)) => drop(self.terms.insert(account, terms)),
            Change::Terms(account, None) => drop(self.terms.remove(&account)),
        }
        Ok(())
    }

    fn row(&self, id: &OperationId) -> Option<&Record> {
        self.rows.get(self.numbers.get(id)?)
    }

    /// The others of a record's sequence, ended ones included.
    fn line<'a>(&'a self, of: &'a Record) -> impl Iterator<Item = (&'a Record, &'a Place)> {
        let name = of.sequence.as_ref().map(|place| place.sequence.name());
        let same_account = |row: &&Record| row.id.scope.account_path() == of.id.scope.account_path();
        let placed = self.rows.values().filter(same_account);
        let placed = placed.filter_map(|row| Some((row, row.sequence.as_deref()?)));
        placed.filter(move |(_, place)| Some(place.sequence.name()) == name)
    }

    /// The record, with who is ahead of it in its sequence.
    fn placed(&self, mut record: Record) -> Record {
        let Some(place) = record.sequence.clone() else { return record };
        let holding = || self.line(&record).filter(|(row, _)| row.holds_sequence());
        let current = holding().find(|(row, _)| row.phase() == Phase::InProgress);
        let first = holding().min_by_key(|(_, place)| place.position).map(|(row, _)| row);
        let turn = record::turn(current.map(|(row, _)| (row, Phase::InProgress)), first);
        let ahead = turn.filter(|row| row.id != record.id).map(|row| {
            let open = matches!(row.phase(), Phase::InProgress | Phase::Scheduled);
            Ahead::new(row.id.clone(), row.phase(), row.until().filter(|_| open))
        });
        record.sequence = Some(Box::new(Place::new(place.sequence, place.position, ahead)));
        record
    }

    /// A new record enters its sequence: behind all others, or in the place of the one that it starts over.
    fn entered(&self, mut record: Record) -> Record {
        let Some(place) = record.sequence.clone() else { return record };
        let is_predecessor = |row: &Record| {
            row.id.scope == record.id.scope && Some(&row.id.key) == record.predecessor.as_ref()
        };
        let predecessor = self.line(&record).find(|(row, _)| is_predecessor(row));
        let last = self.line(&record).map(|(_, place)| place.position).max().unwrap_or(0);
        let position = predecessor.map_or(last + 1, |(_, place)| place.position);
        record.sequence = Some(Box::new(Place::new(place.sequence, position, None)));
        record
    }

    /// The time of a command, and the note of it.
    fn saw(&self, now: Timestamp) -> (Notes, Change) {
        let mut notes = self.notes;
        notes.saw(now);
        (notes, Change::Noted(notes))
    }
}

/// A store in one file.
#[derive(Debug)]
pub struct FileStore {
    shelf: Mutex<(Shelf, File)>,
    /// Of which account was taken last, by the account that took.
    turns: Mutex<HashMap<String, String>>,
}

impl FileStore {
    /// Opens the file, or makes it. One process at a time may have it.
    pub fn open(path: &Path) -> Result<FileStore, StoreError> {
        let failed = |error| StoreError::with_source("the file cannot be read", error);
        let file = OpenOptions::new().create(true).append(true).read(true).open(path).map_err(failed)?;
        file.try_lock().map_err(|error| StoreError::with_source("another process has the file", error))?;
        let mut shelf = Shelf::default();
        let (mut lines, mut line, mut whole) = (BufReader::new(&file), Vec::new(), 0);
        while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 && line.ends_with(b"\n") {
            whole += line.len() as u64;
            let changes: Vec<Change> = serde_json::from_slice(&line).map_err(|error| {
                StoreError::with_source("a line is damaged", error).of_kind(StoreErrorKind::Corrupt)
            })?;
            changes.into_iter().try_for_each(|change| shelf.apply(change))?;
            line.clear();
        }
        // A line that a crash cut short was never acknowledged.
        file.set_len(whole).map_err(failed)?;
        Ok(FileStore { shelf: Mutex::new((shelf, file)), turns: Mutex::default() })
    }
}

/// All changes of a command are one line: they are there together, or not at all.
fn commit((shelf, file): &mut (Shelf, File), changes: Vec<Change>) -> Result<(), StoreError> {
    if shelf.is_broken {
        return Err(StoreError::new("an earlier write failed: the file has to be opened anew"));
    }
    let mut line = serde_json::to_vec(&changes)
        .map_err(|error| StoreError::with_source("a change cannot be written", error))?;
    line.push(b'\n');
    let written = file.write_all(&line).and_then(|()| file.sync_data());
    written.map_err(|error| {
        shelf.is_broken = true;
        StoreError::with_source("the file cannot be written", error)
    })?;
    changes.into_iter().try_for_each(|change| shelf.apply(change))
}

fn put(record: &Record) -> Result<Change, StoreError> {
    record.to_text().map(Change::Put)
}

#[async_trait]
impl Store for FileStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let mut locked = self.shelf.lock();
        let shelf = &locked.0;
        let (notes, noted) = shelf.saw(claim.now);
        let mut changes = vec![noted];
        let superseded = claim.predecessor.clone().map(|key| {
            let old = OperationId::new(claim.id.scope.clone(), key);
            record::supersede(shelf.row(&old), &claim.id.key, (claim.now, notes.now(claim.now)))
        });
        let existing = shelf.row(&claim.id).cloned().map(|record| shelf.placed(record));
        let (written, claimed) = record::claim(existing.as_ref(), claim, &notes);
        let is_fresh = matches!(claimed, Claimed::Fresh(_));
        match superseded {
            Some(Err((obstacle, effect))) if is_fresh => return Ok(Claimed::InTheWay { obstacle, effect }),
            Some(Ok(Some((closed, entry)))) if !matches!(claimed, Claimed::Mismatch { .. }) => {
                changes.extend([put(&closed)?, Change::Audit(entry)]);
            }
            _ => {}
        }
        if let Some(record) = &written {
            changes.extend(existing.filter(|_| is_fresh).map(|old| Change::Gone(old.id)));
            let entered = if is_fresh { shelf.entered(record.clone()) } else { record.clone() };
            changes.push(put(&entered)?);
        }
        commit(&mut locked, changes)?;
        let now = |record: Record| {
            let there = locked.0.row(&record.id).cloned().unwrap_or(record);
            locked.0.placed(there)
        };
        Ok(match claimed {
            Claimed::Fresh(record) => Claimed::Fresh(now(record)),
            Claimed::TakenOver(record) => Claimed::TakenOver(now(record)),
            Claimed::Freed(record) => Claimed::Freed(now(record)),
            other => other,
        })
    }

    async fn transition(
        &self,
        held: &Record,
        mut transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let mut locked = self.shelf.lock();
        let shelf = &locked.0;
        let Some(there) = shelf.row(&held.id) else { return Ok(Err(Declined::Absent)) };
        let mut changes = vec![Change::Log(held.id.clone(), std::mem::take(&mut transition.reports))];
        let moved = there.apply(transition);
        if let Ok(record) = &moved {
            changes.push(put(record)?);
            let mut former = record.clone();
            while let Some(heir) = former.heir().and_then(|id| shelf.row(&id)?.settled_by(&former)) {
                changes.push(put(&heir)?);
                former = heir;
            }
        }
        commit(&mut locked, changes)?;
        Ok(moved)
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let (mut locked, mut turns) = (self.shelf.lock(), self.turns.lock());
        let shelf = &locked.0;
        let may = |record: &Record| shelf.placed(record.clone()).take(&take);
        let mut taken: Vec<(&Record, Record)> =
            shelf.rows.values().filter_map(|record| Some((record, may(record)?))).collect();
        taken.sort_by_key(|(record, _)| (record.is_of_a_wrong_clock(take.now), record.until()));
        if take.wanted.newest {
            taken.sort_by_key(|(record, _)| Reverse(record.until()));
        }
        let last = take.account.as_ref().and_then(|account| turns.get(account));
        if take.account.is_some() && take.phase == Phase::Scheduled && take.wanted.is_all() {
            // One of each account in turn, beginning after the one that was last taken from.
            let mut counts: HashMap<&str, usize> = HashMap::new();
            taken.sort_by_cached_key(|(record, _)| {
                let path = record.id.scope.account_path();
                let nth = counts.entry(path).and_modify(|nth| *nth += 1).or_default();
                let had_its_turn = last.is_some_and(|last| path <= last.as_str());
                (record.is_of_a_wrong_clock(take.now), *nth, had_its_turn, path)
            });
        }
        let taken: Vec<Record> = taken.into_iter().map(|(_, record)| record).take(take.limit).collect();
        let mut changes = vec![shelf.saw(take.now).1];
        for record in &taken {
            changes.push(put(record)?);
        }
        commit(&mut locked, changes)?;
        if let (Some(account), Some(last)) = (take.account, taken.last()) {
            turns.insert(account, last.id.scope.account_path().to_owned());
        }
        Ok(taken)
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let mut locked = self.shelf.lock();
        let shelf = &locked.0;
        let mut notes = shelf.notes;
        let (act, _) = act.seen_by(&mut notes);
        let Some(there) = shelf.row(id).cloned() else { return Ok(Err(Forbidden::Absent)) };
        let (record, entry) = match shelf.placed(there.clone()).act(&act) {
            Ok(acted) => acted,
            Err(forbidden) => return Ok(Err(forbidden)),
        };
        let mut changes = vec![Change::Noted(notes)];
        if let Action::Adopt { to } = &act.action {
            match shelf.adopt(&there, to, act.now)? {
                Ok(adopted) => changes.extend(adopted),
                Err(forbidden) => return Ok(Err(forbidden)),
            }
        }
        changes.extend([put(&record)?, Change::Audit(entry)]);
        commit(&mut locked, changes)?;
        Ok(Ok(record))
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        let mut locked = self.shelf.lock();
        if locked.0.row(id).is_none() {
            return Ok(Err(Declined::Absent));
        }
        commit(&mut locked, vec![Change::Log(id.clone(), reports)]).map(Ok)
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        Ok(self.shelf.lock().0.logs.get(id).cloned().unwrap_or_default())
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let shelf = &self.shelf.lock().0;
        Ok(shelf.row(id).cloned().map(|record| shelf.placed(record)))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        listable(filter)?;
        let (from, shelf) = (start(after)?, &self.shelf.lock().0);
        let rows =
            shelf.rows.range(from..).map(|(number, row)| (*number, shelf.placed(row.clone()).summary()));
        Ok(page(rows.filter(|(_, summary)| filter.matches(summary)), limit))
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        let mut groups: BTreeMap<(String, Phase), (u64, Timestamp)> = BTreeMap::new();
        for record in self.shelf.lock().0.rows.values() {
            let group = (record.id.scope.vendor_path().to_owned(), record.phase());
            let (count, oldest) = groups.entry(group).or_insert((0, record.updated_at));
            (*count, *oldest) = (*count + 1, record.updated_at.min(*oldest));
        }
        let tally = |((vendor, phase), (count, oldest))| Tally { vendor, phase, count, oldest };
        Ok(groups.into_iter().map(tally).collect())
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let (from, shelf) = (start(after)?, &self.shelf.lock().0);
        let entries = (0..).zip(&shelf.audit).filter(|(number, _)| *number >= from);
        let entries = entries.filter(|(_, entry)| id.is_none_or(|id| entry.id == *id));
        Ok(page(entries.map(|(number, entry)| (number, entry.clone())), limit))
    }

    async fn believed(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        Ok(self.shelf.lock().0.notes.now(now))
    }

    async fn purge(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut locked = self.shelf.lock();
        let (notes, noted) = locked.0.saw(now);
        let expired = locked.0.rows.values().filter(|record| record.has_expired(notes.now(now)));
        let gone = expired.take(limit).map(|record| Change::Gone(record.id.clone()));
        let changes: Vec<Change> = std::iter::once(noted).chain(gone).collect();
        let removed = changes.len() - 1;
        commit(&mut locked, changes)?;
        Ok(removed)
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        let mut locked = self.shelf.lock();
        let before = locked.0.terms.get(account).cloned();
        if before.is_none() || terms.is_none() {
            let change = Change::Terms(account.to_owned(), terms.map(str::to_owned));
            commit(&mut locked, vec![change])?;
        }
        Ok(before)
    }
}

impl Shelf {
    /// The changes that an adoption writes beside the record that was acted on: the operation under its name in `to`.
    fn adopt(
        &self,
        there: &Record,
        to: &Scope,
        now: Timestamp,
    ) -> Result<Result<Vec<Change>, Forbidden>, StoreError> {
        let id = OperationId::new(to.clone(), there.id.key.clone());
        let taken = self.row(&id);
        if taken.is_some_and(|record| !record.has_expired(self.notes.now(now))) {
            return Ok(Err(Forbidden::NameTaken));
        }
        let purged = self.notes.purged.max(taken.map_or(0, |record| record.fence));
        Ok(match there.adopted(to, now, purged) {
            Ok(adopted) => {
                let log = self.logs.get(&there.id).cloned().unwrap_or_default();
                Ok(vec![Change::Gone(id.clone()), put(&self.entered(adopted))?, Change::Log(id, log)])
            }
            Err(forbidden) => Err(forbidden),
        })
    }
}

#[allow(clippy::print_stdout, reason = "an example shows something")]
fn main() {
    println!("run me with: cargo test --example file_store");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use steadfast::testkit::contract;

    use super::*;

    /// In memory, since each of the thousands of commits is synced.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn it_keeps_the_contract() {
        let (directory, files) = (support::in_memory::directory(), AtomicUsize::new(0));
        let fresh = async || {
            let name = format!("{}.jsonl", files.fetch_add(1, Ordering::Relaxed));
            Arc::new(FileStore::open(&directory.path().join(name)).expect("opens")) as Arc<dyn Store>
        };
        contract::check_store(fresh).await;
    }

    #[tokio::test]
    async fn what_was_written_is_there_when_it_is_opened_again() {
        let directory = support::in_memory::directory();
        let path = directory.path().join("calls.jsonl");
        let store = FileStore::open(&path).expect("opens");
        store.register("prod/acme/a", Some("terms")).await.expect("works");
        drop(store);
        let again = FileStore::open(&path).expect("opens");
        let before = again.register("prod/acme/a", None).await.expect("works");
        assert_eq!(before.as_deref(), Some("terms"));
    }
}
