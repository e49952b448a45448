//! A disk that keeps its word and not more: what was synced survives a power cut, of the rest anything may.
//!
//! The model of one directory. For each file it holds the bytes as of the last sync and every write and
//! truncation since; for each name, the file it stood for at the directory's last sync and each one since. A file
//! that was made or removed is so for certain only once the directory was synced.
//!
//! The writes since the last sync that a cut leaves are drawn for each file. They are all, none, the first few (the
//! last of them torn), some of them whole, or some of their 512-byte sectors, in any order of arrival. A name
//! stands for any of the files that it stood for since the directory's last sync.
//!
//! Not modelled: a disk that damages bytes next to those it was writing (SQLite is told the same by its own
//! `SQLITE_IOCAP_POWERSAFE_OVERWRITE`), sectors that hold garbage, several directories, and renames, of which
//! SQLite makes none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use steadfast::Random;

/// The part of a directory that survives: names and contents.
pub type Images = BTreeMap<String, Vec<u8>>;

/// The power is off: nothing more reaches the disk, and nothing comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOff;

/// The answers of a disk to a sync: it does what the sync asks for, or not. A proof that holds although it does not is
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// It does.
    Honest,
    /// It says so and leaves the contents of files where they are.
    NotOfFiles,
    /// It says so and leaves the directory as it is.
    NotOfNames,
}

/// When the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// At this step of those to come, counted from 1. A step is a write, a truncation, a sync, or the making or
    /// removal of a file.
    pub step: u64,
    /// Whether that step is still carried out.
    pub after: bool,
}

#[derive(Debug)]
pub struct Disk {
    syncs: Syncs,
    off: AtomicBool,
    memory_full: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Name>,
    files: Vec<File>,
    steps: u64,
    file_syncs: u64,
    cut: Option<Cut>,
    /// The cut that becomes `cut` at the next write to this file.
    cut_from: Option<(FileNumber, Cut)>,
}

/// A number of a file, as an inode is.
pub type FileNumber = usize;

#[derive(Debug, Default)]
struct Name {
    synced: Option<FileNumber>,
    since: Vec<Option<FileNumber>>,
}

#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Disk {
    /// A disk with these files on it, all of them synced.
    pub fn new(images: Images, syncs: Syncs) -> Disk {
        let mut state = State::default();
        for (name, synced) in images {
            state.files.push(File { synced, since: Vec::new() });
            let number = Some(state.files.len() - 1);
            state.names.insert(name, Name { synced: number, since: Vec::new() });
        }
        let (off, memory_full) = (AtomicBool::new(false), AtomicBool::new(false));
        Disk { syncs, off, memory_full, state: Mutex::new(state) }
    }

    /// Sets when the power goes, counted from now.
    pub fn cut_at(&self, cut: Cut) {
        let mut state = self.state.lock();
        state.cut = Some(Cut { step: state.steps + cut.step, ..cut });
    }

    /// Sets when the power goes, counted from the next write to this file, which is step 1.
    pub fn cut_from_next_write_to(&self, name: &str, cut: Cut) {
        let mut state = self.state.lock();
        state.cut_from = state.number(name).map(|number| (number, cut));
    }

    /// The power goes now, if it has not gone before.
    pub fn cut_now(&self) {
        let _state = self.state.lock();
        self.off.store(true, Ordering::SeqCst);
    }

    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    /// The memory that connections share does not grow from now on.
    pub fn fill_memory(&self) {
        self.memory_full.store(true, Ordering::SeqCst);
    }

    pub fn is_memory_full(&self) -> bool {
        self.memory_full.load(Ordering::SeqCst)
    }

    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// How many times a file was synced.
    pub fn file_syncs(&self) -> u64 {
        self.state.lock().file_syncs
    }

    /// Whether the file has changes that are not synced.
    pub fn is_unsynced(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.number(name).is_some_and(|number| !state.files[number].since.is_empty())
    }

    pub fn has(&self, name: &str) -> bool {
        self.state.lock().number(name).is_some()
    }

    /// Opens a file by `real`. A name that the disk does not know yet was made, here or by other means, and the
    /// directory was not synced since.
    pub fn open(&self, name: &str, real: impl FnOnce() -> i32) -> Result<(i32, FileNumber), PowerOff> {
        if let Some(number) = self.state.lock().number(name) {
            return if self.is_off() { Err(PowerOff) } else { Ok((real(), number)) };
        }
        let mut number = 0;
        let code = self.step(real, |state| {
            number = state.number(name).unwrap_or_else(|| {
                state.files.push(File::default());
                let made = state.files.len() - 1;
                state.names.entry(name.to_owned()).or_default().since.push(Some(made));
                made
            });
        })?;
        Ok((code, number))
    }

    pub fn write(
        &self,
        number: FileNumber,
        at: usize,
        bytes: &[u8],
        real: impl FnOnce() -> i32,
    ) -> Result<i32, PowerOff> {
        {
            let mut state = self.state.lock();
            if let Some((_, cut)) = state.cut_from.take_if(|(awaited, _)| *awaited == number) {
                state.cut = Some(Cut { step: state.steps + cut.step, ..cut });
            }
        }
        self.step(real, |state| {
            state.files[number].since.push(Change::Write { at, bytes: bytes.to_vec() });
        })
    }

    pub fn truncate(
        &self,
        number: FileNumber,
        len: usize,
        real: impl FnOnce() -> i32,
    ) -> Result<i32, PowerOff> {
        self.step(real, |state| state.files[number].since.push(Change::Truncate { len }))
    }

    /// Syncs a file by `real`, which says whether the directory was synced with it, afterwards.
    pub fn sync(&self, number: FileNumber, real: impl FnOnce() -> (i32, bool)) -> Result<i32, PowerOff> {
        let mut with_directory = false;
        let call = || {
            let (code, directory) = real();
            with_directory = directory;
            code
        };
        let code = self.step(call, |state| {
            state.file_syncs += 1;
            if self.syncs != Syncs::NotOfFiles {
                state.files[number].settle();
            }
        })?;
        if with_directory {
            self.sync_names()?;
        }
        Ok(code)
    }

    /// Removes a name by `real`, which says whether the directory was synced afterwards.
    pub fn remove(&self, name: &str, real: impl FnOnce() -> (i32, bool)) -> Result<i32, PowerOff> {
        let mut with_directory = false;
        let call = || {
            let (code, directory) = real();
            with_directory = directory;
            code
        };
        let code = self.step(call, |state| {
            state.names.entry(name.to_owned()).or_default().since.push(None);
        })?;
        if with_directory {
            self.sync_names()?;
        }
        Ok(code)
    }

    /// The files that are left after the cut, as `random` draws them.
    pub fn survivors(&self, random: &dyn Random) -> Images {
        let state = self.state.lock();
        let mut images = Images::new();
        for (name, held) in &state.names {
            let was = below(random, held.since.len() + 1);
            let number = if was == 0 { held.synced } else { held.since[was - 1] };
            if let Some(number) = number {
                images.insert(name.clone(), state.files[number].survivor(random));
            }
        }
        images
    }

    fn sync_names(&self) -> Result<(), PowerOff> {
        self.step(
            || 0,
            |state| {
                if self.syncs == Syncs::NotOfNames {
                    return;
                }
                for name in state.names.values_mut() {
                    name.synced = name.last();
                    name.since.clear();
                }
            },
        )?;
        Ok(())
    }

    /// Carries a step out, if there is power, and records it if it succeeded. One at a time, so that the steps have an
    /// order: that of the disk.
    fn step(&self, real: impl FnOnce() -> i32, record: impl FnOnce(&mut State)) -> Result<i32, PowerOff> {
        let mut state = self.state.lock();
        if self.is_off() {
            return Err(PowerOff);
        }
        state.steps += 1;
        let cut = state.cut.filter(|cut| cut.step == state.steps);
        if cut.is_some_and(|cut| !cut.after) {
            self.off.store(true, Ordering::SeqCst);
            return Err(PowerOff);
        }
        let code = real();
        if code == 0 {
            record(&mut state);
        }
        if cut.is_some() {
            self.off.store(true, Ordering::SeqCst);
        }
        Ok(code)
    }
}

impl State {
    fn number(&self, name: &str) -> Option<FileNumber> {
        self.names.get(name).and_then(Name::last)
    }
}

impl Name {
    fn last(&self) -> Option<FileNumber> {
        self.since.last().copied().unwrap_or(self.synced)
    }
}

impl File {
    fn settle(&mut self) {
        for change in std::mem::take(&mut self.since) {
            change.carry_out(&mut self.synced);
        }
    }

    fn survivor(&self, random: &dyn Random) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        match below(random, 5) {
            0 => {}
            1 => self.since.iter().for_each(|change| change.carry_out(&mut bytes)),
            2 => {
                let whole = below(random, self.since.len() + 1);
                self.since[..whole].iter().for_each(|change| change.carry_out(&mut bytes));
                if let Some(torn) = self.since.get(whole) {
                    torn.carry_out_in_part(&mut bytes, random);
                }
            }
            3 => {
                let arrived = self.since.iter().filter(|_| below(random, 2) == 0);
                arrived.for_each(|change| change.carry_out(&mut bytes));
            }
            _ => self.since.iter().for_each(|change| change.carry_out_in_part(&mut bytes, random)),
        }
        bytes
    }
}

impl Change {
    fn carry_out(&self, file: &mut Vec<u8>) {
        match self {
            Change::Write { at, bytes } => put(file, *at, bytes),
            Change::Truncate { len } => file.resize(*len, 0),
        }
    }

    /// Some of a write's sectors, or a truncation or none.
    fn carry_out_in_part(&self, file: &mut Vec<u8>, random: &dyn Random) {
        let Change::Write { at, bytes } = self else {
            if below(random, 2) == 0 {
                self.carry_out(file);
            }
            return;
        };
        let (mut from, end) = (*at, at + bytes.len());
        while from < end {
            let to = end.min((from / SECTOR + 1) * SECTOR);
            if below(random, 2) == 0 {
                put(file, from, &bytes[from - at..to - at]);
            }
            from = to;
        }
    }
}

/// Writes the bytes. A gap between the end of a file and a write beyond it reads as zeros.
fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Less than `bound`, which is not 0.
pub fn below(random: &dyn Random, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// The least that a disk writes whole.
const SECTOR: usize = 512;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steadfast::testkit::SeededRandom;

    use super::*;

    const DONE: fn() -> i32 = || 0;
    const CODES: [&[u8]; 2] = [&[1; 1200], &[2; 1200]];

    /// All that a thousand cuts leave.
    fn left(disk: &Disk) -> BTreeSet<Option<Vec<u8>>> {
        let random = SeededRandom::new(1);
        (0..1_000).map(|_| disk.survivors(&random).remove("f")).collect()
    }

    fn disk_with(bytes: &[u8]) -> Disk {
        Disk::new(Images::from([("f".to_owned(), bytes.to_vec())]), Syncs::Honest)
    }

    #[test]
    fn what_was_synced_is_there_and_what_was_not_may_be_anything_between() {
        let disk = disk_with(CODES[0]);
        let (_, file) = disk.open("f", DONE).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([Some(CODES[0].to_vec())]));
        disk.write(file, 0, CODES[1], DONE).expect("power");
        // Three sectors, each of which is there or not.
        let images = left(&disk);
        assert_eq!(images.len(), 8);
        for image in images.iter().flatten() {
            for sector in image.chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
            }
        }
        disk.sync(file, || (0, false)).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([Some(CODES[1].to_vec())]));
        disk.truncate(file, 1, DONE).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([Some(CODES[1].to_vec()), Some(vec![2])]));
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one() {
        let disk = disk_with(b"");
        let (_, file) = disk.open("f", DONE).expect("power");
        disk.write(file, 0, b"a", DONE).expect("power");
        disk.write(file, 1, b"b", DONE).expect("power");
        let images = ["", "a", "ab", "\0b"].map(|text| Some(text.as_bytes().to_vec()));
        assert_eq!(left(&disk), BTreeSet::from(images));
    }

    #[test]
    fn a_cut_may_be_counted_from_the_next_write_to_a_file() {
        let disk = disk_with(b"");
        let [(_, file), (_, other)] = ["f", "g"].map(|name| disk.open(name, DONE).expect("power"));
        disk.cut_from_next_write_to("f", Cut { step: 2, after: false });
        for _ in 0..3 {
            disk.write(other, 0, b"a", DONE).expect("power");
        }
        disk.write(file, 0, b"a", DONE).expect("power");
        assert_eq!(disk.write(other, 0, b"b", DONE), Err(PowerOff));
    }

    #[test]
    fn a_name_is_certain_once_its_directory_was_synced() {
        let disk = Disk::new(Images::new(), Syncs::Honest);
        let (_, file) = disk.open("f", DONE).expect("power");
        disk.write(file, 0, b"a", DONE).expect("power");
        disk.sync(file, || (0, false)).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([None, Some(b"a".to_vec())]), "no name, no file");
        disk.sync(file, || (0, true)).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([Some(b"a".to_vec())]));
        disk.remove("f", || (0, false)).expect("power");
        let (_, next) = disk.open("f", DONE).expect("power");
        disk.write(next, 0, b"b", DONE).expect("power");
        disk.sync(next, || (0, false)).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([None, Some(b"a".to_vec()), Some(b"b".to_vec())]));
        disk.remove("f", || (0, true)).expect("power");
        assert_eq!(left(&disk), BTreeSet::from([None]));
    }

    #[test]
    fn at_a_cut_the_power_goes_before_or_after_the_step_and_stays_off() {
        for (after, expected) in [(false, &b"a"[..]), (true, b"ab")] {
            let disk = disk_with(b"");
            let (_, file) = disk.open("f", DONE).expect("power");
            disk.write(file, 0, b"a", DONE).expect("power");
            disk.cut_at(Cut { step: 1, after });
            let second = disk.write(file, 1, b"b", DONE);
            assert_eq!((second, disk.is_off()), (if after { Ok(0) } else { Err(PowerOff) }, true));
            assert_eq!(disk.write(file, 0, b"c", DONE), Err(PowerOff));
            assert_eq!(disk.sync(file, || (0, true)), Err(PowerOff));
            assert_eq!(disk.open("f", DONE), Err(PowerOff));
            assert!(left(&disk).contains(&Some(expected.to_vec())));
            assert!(!left(&disk).iter().flatten().any(|image| image.contains(&b'c')));
        }
    }
}
