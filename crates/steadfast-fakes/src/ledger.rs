//! The list of what really happened at a vendor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use steadfast_core::clock::Timestamp;

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
    #[serde(with = "steadfast_core::internal::attempt::millis")]
    pub at: Timestamp,
}

/// The list of a vendor's effects. Cheap to clone; all clones show the same list.
///
/// A fake appends to it and takes nothing back. Only a test empties it, by `DELETE /_fake/ledger`, so that it counts
/// from zero. The fake itself keeps what it has: its objects, and the keys that it has seen. So does a `ledger_file`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let clock = steadfast::testkit::TestClock::auto();
/// # let fake = steadfast::testkit::fakes::StripeFake::builder().test_clock(&clock).in_process();
/// # let stripe = steadfast::Client::builder(steadfast::vendor::Stripe::new("sk_test_123"))
/// #     .transport(fake.transport())
/// #     .clock(clock.clone())
/// #     .build()?;
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    effects: Vec<Effect>,
    requests: BTreeMap<String, u64>,
    /// The effects from before the list was emptied. The vendor has them still: once more is twice.
    forgotten: BTreeSet<Place>,
    file: Option<File>,
}

/// The place of a thing that can take effect once: an account, a wire key in it, and a position.
type Place = (String, String, usize);

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
    ///
    /// `DELETE /_fake/ledger` empties this list too. If a key took effect before it and takes effect again after it,
    /// the key is a duplicate, although the ledger lists one effect: the vendor has two.
    pub fn duplicates(&self) -> Vec<String> {
        let entries = self.entries.lock();
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for (account, key, part) in &entries.forgotten {
            seen.insert((account.as_str(), key.as_str(), *part));
        }
        for effect in &entries.effects {
            let Some(key) = &effect.wire_key else { continue };
            if !seen.insert((effect.account.as_str(), key.as_str(), effect.part)) {
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
            // One write: a reader sees whole lines meanwhile.
            file.write_all(&line).expect("the ledger's file can be written");
        }
        entries.effects.push(effect);
    }

    /// Empties the list and the counts of requests. The file keeps what is in it: it is for a judge of the whole run.
    ///
    /// A write that is under way meanwhile may be counted before this and listed after it.
    pub(super) fn forget(&self) {
        let mut entries = self.entries.lock();
        entries.requests.clear();
        let effects = std::mem::take(&mut entries.effects);
        for effect in effects {
            if let Some(key) = effect.wire_key {
                entries.forgotten.insert((effect.account, key, effect.part));
            }
        }
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
    fn what_was_forgotten_is_not_listed_and_once_more_is_a_duplicate() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger.jsonl");
        let ledger = Ledger::kept_in(Some(&path)).expect("a file");
        ledger.note_request(Some("a"));
        for (key, part) in [(Some("a"), 0), (Some("a"), 0), (Some("b"), 1), (None, 0)] {
            ledger.record(effect(key, "1", part));
        }
        assert_eq!(ledger.duplicates(), ["a"]);
        let shown = ledger.clone();
        ledger.forget();
        assert_eq!((shown.effects(), shown.count(), shown.effects_for("a")), (Vec::new(), 0, Vec::new()));
        assert_eq!((shown.requests(), shown.duplicates()), (BTreeMap::new(), Vec::new()), "from zero");

        // Another account, another position, another key, and what has none.
        for (key, account, part) in
            [(Some("b"), "2", 1), (Some("b"), "1", 0), (Some("c"), "1", 0), (None, "1", 0)]
        {
            ledger.record(effect(key, account, part));
        }
        assert_eq!(ledger.duplicates(), Vec::<String>::new());
        ledger.record(effect(Some("b"), "1", 1));
        assert_eq!((ledger.duplicates(), ledger.count()), (vec!["b".to_owned()], 5));

        ledger.forget();
        assert_eq!(ledger.duplicates(), Vec::<String>::new(), "a duplicate is forgotten with its effects");
        ledger.record(effect(Some("a"), "1", 0));
        assert_eq!(ledger.duplicates(), ["a"], "also what was forgotten twice over");
        assert_eq!(Ledger::read(&path).expect("all of them").len(), 10);
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
