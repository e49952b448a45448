//! What really happened at a vendor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// One write that executed, whether or not the caller received its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Effect {
    /// The caller's key as this vendor could see it: Stripe's and Adyen's `Idempotency-Key`, Postmark's
    /// `Metadata.steadfast_key`, the stamped or natural key of a BigCommerce resource. `None` if the request
    /// carried none.
    pub wire_key: Option<String>,
    /// The account that keys are unique in: Stripe's account and mode, Postmark's server, BigCommerce's store,
    /// Adyen's company.
    pub account: String,
    /// The request's method.
    pub method: String,
    /// The request's path, without query.
    pub path: String,
    /// The id that the vendor gave to what was made.
    pub id: String,
    /// The position within a batch; 0 for a single write, and where each item has a key of its own.
    pub part: usize,
    /// When it took effect, by the fake's clock. In a file: milliseconds since the Unix epoch.
    #[serde(with = "crate::attempt::millis")]
    pub at: Timestamp,
}

/// The append-only list of a vendor's effects. Cheap to clone; all clones show the same list.
///
/// ```
#[doc = include_str!("../../docs/setup/stripe.md")]
/// # fake.plan().next(steadfast::testkit::Fault::DropAfterApply);
/// let form = [("amount", "1000"), ("currency", "usd")];
/// let reply = stripe.post("/v1/charges").key("order-42").form(&form).send().await?;
///
/// // Two requests reached Stripe, and one took effect.
/// let ledger = fake.ledger();
/// let wire_key = reply.wire_key().unwrap();
/// assert_eq!((ledger.requests_for(wire_key), ledger.effects_for(wire_key).len()), (2, 1));
/// assert_eq!(ledger.duplicates(), Vec::<String>::new());
/// assert_eq!(ledger.effects()[0].path, "/v1/charges");
#[doc = include_str!("../../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    effects: Vec<Effect>,
    requests: BTreeMap<String, u64>,
    file: Option<File>,
}

impl Ledger {
    /// The effects in a file that a fake was given as `ledger_file`, oldest first: for a test that judges them in
    /// another process, or after the fake is gone. An effect is in the file before its answer leaves the fake.
    ///
    /// # Errors
    ///
    /// The system's, and [`io::ErrorKind::InvalidData`] for a line that is no effect.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<Effect>> {
        fs::read_to_string(path)?.lines().map(|line| serde_json::from_str(line).map_err(Into::into)).collect()
    }

    /// One that also appends to a file, which is made if there is none.
    pub(super) fn kept_in(path: Option<&Path>) -> io::Result<Ledger> {
        let open = |path| File::options().create(true).append(true).open(path);
        let file = path.map(open).transpose()?;
        Ok(Ledger { entries: Arc::new(Mutex::new(Entries { file, ..Entries::default() })) })
    }

    /// All effects, oldest first.
    pub fn effects(&self) -> Vec<Effect> {
        self.entries.lock().effects.clone()
    }

    /// The effects under one wire key, oldest first.
    pub fn effects_for(&self, wire_key: &str) -> Vec<Effect> {
        let entries = self.entries.lock();
        entries
            .effects
            .iter()
            .filter(|effect| effect.wire_key.as_deref() == Some(wire_key))
            .cloned()
            .collect()
    }

    /// How many effects there are.
    pub fn count(&self) -> usize {
        self.entries.lock().effects.len()
    }

    /// The wire keys that took effect more than once, sorted, each named once.
    ///
    /// The same key in two accounts is two operations, and the messages of one batch are told apart by their
    /// position: neither is a duplicate. Effects without a key cannot be judged and are left out.
    pub fn duplicates(&self) -> Vec<String> {
        let entries = self.entries.lock();
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for effect in &entries.effects {
            let Some(key) = &effect.wire_key else { continue };
            if !seen.insert((&effect.account, key, effect.part)) {
                twice.insert(key.clone());
            }
        }
        twice.into_iter().collect()
    }

    /// How many writes reached the vendor under each wire key, whatever became of them. A connection dropped
    /// before the request was read is not counted.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.entries.lock().requests.clone()
    }

    /// How many writes reached the vendor under this wire key.
    pub fn requests_for(&self, wire_key: &str) -> u64 {
        self.entries.lock().requests.get(wire_key).copied().unwrap_or(0)
    }

    /// # Panics
    ///
    /// If the file cannot be written: a ledger that lacks an effect would prove what is not so.
    pub(super) fn record(&self, effect: Effect) {
        let mut entries = self.entries.lock();
        if let Some(file) = &mut entries.file {
            let mut line = serde_json::to_vec(&effect).expect("an effect is plain data");
            line.push(b'\n');
            // One write: whoever reads meanwhile sees whole lines.
            file.write_all(&line).expect("the ledger's file can be written");
        }
        entries.effects.push(effect);
    }

    pub(super) fn note_request(&self, wire_key: Option<&str>) {
        if let Some(key) = wire_key {
            *self.entries.lock().requests.entry(key.to_owned()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(wire_key: Option<&str>, account: &str, part: usize) -> Effect {
        Effect {
            wire_key: wire_key.map(str::to_owned),
            account: account.to_owned(),
            method: "POST".to_owned(),
            path: "/x".to_owned(),
            id: "1".to_owned(),
            part,
            at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_duplicate_is_the_same_key_in_the_same_account_and_place() {
        let ledger = Ledger::default();
        for (key, account, part) in
            [(Some("a"), "1", 0), (Some("a"), "2", 0), (Some("a"), "1", 1), (None, "1", 0), (None, "1", 0)]
        {
            ledger.record(effect(key, account, part));
        }
        assert_eq!(ledger.duplicates(), Vec::<String>::new());

        ledger.record(effect(Some("a"), "2", 0));
        ledger.record(effect(Some("a"), "2", 0));
        assert_eq!(ledger.duplicates(), ["a"]);
        assert_eq!((ledger.count(), ledger.effects_for("a").len()), (7, 5));
    }

    #[test]
    fn a_file_has_each_effect_as_it_is_recorded_and_is_appended_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger.jsonl");
        let ledger = Ledger::kept_in(Some(&path)).expect("a file");
        assert_eq!(Ledger::read(&path).expect("empty"), []);
        ledger.record(effect(Some("a"), "1", 0));
        assert_eq!(Ledger::read(&path).expect("one"), ledger.effects());
        let second = Ledger::kept_in(Some(&path)).expect("the same file");
        second.record(effect(None, "2\n", 3));
        assert_eq!(Ledger::read(&path).expect("two"), [ledger.effects(), second.effects()].concat());

        fs::write(&path, "{}\n").expect("writes");
        assert_eq!(Ledger::read(&path).expect_err("no effect").kind(), io::ErrorKind::InvalidData);
        assert!(Ledger::kept_in(Some(directory.path())).is_err(), "a directory is no file");
    }

    #[test]
    fn requests_are_counted_per_wire_key() {
        let ledger = Ledger::default();
        ledger.note_request(Some("a"));
        ledger.note_request(Some("a"));
        ledger.note_request(None);
        assert_eq!((ledger.requests_for("a"), ledger.requests_for("b")), (2, 0));
        assert_eq!(ledger.requests(), BTreeMap::from([("a".to_owned(), 2)]));
    }
}
